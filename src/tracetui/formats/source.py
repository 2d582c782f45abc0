"""Opening a file, a pipe or standard input as the text of a trace, whatever its encoding."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.encodings import ENCODINGS, Encoding, Parts, Stream
from tracetui.formats.errors import Report, TraceError
from tracetui.safe_text import plain

BLOCK = 1 << 20


@dataclass(slots=True)
class Source:
    """An opened trace."""

    path: str
    file: IO[bytes]
    """Unbuffered and seekable. Pipes and standard input have been copied to a temporary file."""
    size: int
    encoding: Encoding
    stamp: tuple[int, int]
    """Size and modification time (ns) when it was opened."""

    def stream(self, diagnostics: Diagnostics, offset: int = 0) -> Stream:
        """The text from `offset` on. Damage to the encoding is noted in `diagnostics`."""
        return self.encoding.stream(self.file, self.size, offset, diagnostics)

    def parts(self) -> Parts:
        """Random access to the text."""
        return self.encoding.parts(self.file, self.size)


def shown(path: str) -> str:
    """A path that is safe to print."""
    return plain("standard input" if path == "-" else path)


def open_source(path: str | Path, progress: Report | None = None) -> Source:
    """Open a trace. Raises TraceError if it cannot be read."""
    name = str(path)
    try:
        file: IO[bytes]
        if name == "-":
            file = _spool(sys.stdin.buffer, progress)
        else:
            # Opening a named pipe blocks until somebody writes, as intended.
            file = open(name, "rb", buffering=0)  # noqa: SIM115
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                with file:
                    file = _spool(file, progress)
        status = os.fstat(file.fileno())
        head = file.read(1 << 10)
        file.seek(0)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "cannot be read"
        raise TraceError(f"{shown(name)}: {reason.lower()}") from None
    if not status.st_size:
        file.close()
        raise TraceError(f"{shown(name)}: is empty")
    encoding = next(e for e in ENCODINGS if e.sniff(head))
    return Source(name, file, status.st_size, encoding, (status.st_size, status.st_mtime_ns))


def _spool(stream: IO[bytes], progress: Report | None) -> IO[bytes]:
    """Copy a stream to an unnamed temporary file, which is deleted when closed."""
    import tempfile  # slow to import, and rarely needed

    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
    done = 0
    while block := stream.read(BLOCK):
        file.write(block)
        done += len(block)
        if progress is not None:
            progress(done, done)
    file.seek(0)
    return file
