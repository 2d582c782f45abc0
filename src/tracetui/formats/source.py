"""Opening a file, a pipe or standard input as the text of a trace, whatever its encoding."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import time
from pathlib import Path
from typing import IO

from msgspec import Struct

from tracetui.core.errors import NOT_A_TRACE, Report, TraceError
from tracetui.core.safe_text import plain
from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.encodings import ENCODINGS, Encoding, Parts, Stream

BLOCK = 1 << 20
_SEARCHED = 1 << 26
"""Bytes of a stream without a brace after which it is no trace."""
_GIGABYTES = "TRACETUI_SPOOL_GB"
"""The variable that says how many gigabytes of a stream are copied to a temporary file at most."""
_MOST = 8.0
_SETTLED = 2_000_000_000
"""Nanoseconds after which a change of a file gives it another time: the resolution of the coarsest clocks."""


class Source(Struct):
    """An opened trace."""

    path: str
    file: IO[bytes]
    """Unbuffered and seekable. Pipes and standard input have been copied to a temporary file."""
    size: int
    encoding: Encoding
    stamp: tuple[int, int]
    """Size and modification time (ns) when it was opened."""
    identity: tuple[int, ...] | None = None
    """`identity_of` it when it was opened. None for a copy of a stream, and for a file that may still change
    without another time: one that did so less than two seconds before."""

    @property
    def changed(self) -> bool:
        """Whether the file is not what it was when it was opened. Raises OSError."""
        status = os.fstat(self.file.fileno())
        return (status.st_size, status.st_mtime_ns) != self.stamp

    def stream(self, diagnostics: Diagnostics) -> Stream:
        """The text. Damage to the encoding is noted in `diagnostics`."""
        return self.encoding.stream(self.file, self.size, diagnostics)

    def parts(self) -> Parts:
        """Random access to the text."""
        return self.encoding.parts(self.file, self.size)

    @staticmethod
    def identity_of(status: os.stat_result) -> tuple[int, ...]:
        """What tells a file from every other, and from itself after a change."""
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def shown(path: str) -> str:
    """A path that is safe to print."""
    return plain("standard input" if path == "-" else path)


def open_source(path: str | Path, progress: Report | None = None) -> Source:
    """Open a trace. Raises TraceError if it cannot be read."""
    name = str(path)
    stream = True
    try:
        file: IO[bytes]
        if name == "-":
            if sys.stdin is None:
                raise OSError(errno.EBADF, "is closed")
            file = _spool(sys.stdin.buffer, progress)
        else:
            # Opening a named pipe blocks until somebody writes, as intended.
            file = open(name, "rb", buffering=0)  # noqa: SIM115
            status = os.fstat(file.fileno())
            mode = status.st_mode
            if stat.S_ISCHR(mode) and status.st_rdev == os.stat(os.devnull).st_rdev:
                file.close()
                raise OSError(errno.ENODATA, "is empty")
            if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                file.close()
                raise OSError(errno.EINVAL, "is a device, not a trace")
            stream = not stat.S_ISREG(mode)
            if stream:
                with file:
                    file = _spool(file, progress)
        status = os.fstat(file.fileno())
        head = file.read(1 << 10)
        file.seek(0)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "cannot be read"
        # The reasons here are sentences of our own, or the system's, which begin with a capital.
        raise TraceError(f"{shown(name)}: {reason[:1].lower()}{reason[1:]}") from None
    if not status.st_size:
        file.close()
        raise TraceError(f"{shown(name)}: is empty")
    settled = min(status.st_mtime_ns, status.st_ctime_ns) > 0
    settled &= max(status.st_mtime_ns, status.st_ctime_ns) < time.time_ns() - _SETTLED
    identity = Source.identity_of(status) if settled and not stream else None
    stamp = status.st_size, status.st_mtime_ns
    return Source(name, file, status.st_size, _encoding(head), stamp, identity)


def _encoding(head: bytes) -> Encoding:
    return next(e for e in ENCODINGS if e.sniff(head))


def _spool(stream: IO[bytes], progress: Report | None) -> IO[bytes]:
    """Copy a stream to an unnamed temporary file, which is deleted when closed.

    It gets `_GIGABYTES` at most, and no more than half of what is free on its disk. Raises OSError beyond.
    """
    import shutil
    import tempfile  # slow to import, and rarely needed

    wanted = os.environ.get(_GIGABYTES, "")
    gigabytes = float(wanted) if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", wanted) else _MOST
    free = shutil.disk_usage(tempfile.gettempdir()).free
    limit = min(int(gigabytes * 1e9), free // 2)
    file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
    try:
        done, promising = 0, False
        while block := stream.read(BLOCK):
            file.write(block)
            done += len(block)
            promising = promising or b"{" in block or (done == len(block) and not _encoding(block).IN_PLACE)
            if done >= _SEARCHED and not promising:
                raise OSError(errno.EINVAL, NOT_A_TRACE)
            if done > limit:
                bound = f"{_GIGABYTES} sets another limit" if limit < free // 2 else "not enough disk space"
                raise OSError(errno.EFBIG, f"is longer than {limit / 1e9:.3g} GB: {bound}")
            if progress is not None:
                progress(done, done)
    except BaseException:
        file.close()
        raise
    file.seek(0)
    return file
