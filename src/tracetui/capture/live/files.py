"""Trace files that another program is writing: which are new, which are whole, and copies of them."""

from __future__ import annotations

import os
import re
import shutil
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tracetui.capture.files import move_free
from tracetui.capture.live.model import AttachError
from tracetui.core.safe_text import plain

try:
    from isal import isal_zlib as inflate
except ImportError:  # a platform without a wheel
    import zlib as inflate  # type: ignore[no-redef]

_NAME = re.compile(r".+\.trace\.json(\.gz)?")
_PARTS = ("rank", "dp", "pp", "tp", "ep")
FRONT_END = re.compile(r"async_?llm", re.IGNORECASE)
"""In the name of the trace of vLLM's front end."""

FileIdentity = tuple[int, int, int]
"""Inode, size, and time of the last change: if these differ, it is another file."""


@dataclass(frozen=True)
class TraceFolder:
    """A folder where a program writes traces, on this machine."""

    folder: Path
    """The folder as it is seen from here."""
    owner: int
    """The program's user id."""
    ours: bool = False
    """Whether it was made for one recording, and is only ours."""

    def files(self) -> dict[str, FileIdentity]:
        """The traces in it by name, except what another user may have put there."""
        found = {}
        try:
            shared = self.folder.stat().st_mode & stat.S_IWOTH
            entries = list(os.scandir(self.folder))
        except OSError:  # not there yet
            return {}
        for entry in entries:
            with suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                theirs = shared and facts.st_uid != self.owner
                if _NAME.fullmatch(entry.name) and stat.S_ISREG(facts.st_mode) and not theirs:
                    found[entry.name] = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
        return found


def by_rank(name: str) -> tuple[bool, list[int], str]:
    """Sorts names of traces: rank 0 first, and vLLM's front end last."""
    found = [re.search(rf"(?:^|[-_.]){part}[-_]?(\d{{1,9}})", name, re.IGNORECASE) for part in _PARTS]
    return FRONT_END.search(name) is not None, [int(number[1]) if number else 0 for number in found], name


def is_whole(path: Path) -> bool:
    """Whether a trace has been written to its end: a complete gzip stream, or JSON that closes."""
    try:
        with _open(path) as file:
            if not path.name.endswith(".gz"):
                file.seek(max(0, os.fstat(file.fileno()).st_size - 64))
                return file.read().rstrip().endswith((b"}", b"]"))
            stream = inflate.decompressobj(31)
            while not stream.eof:
                part = file.read(1 << 20)
                if not part:
                    return False
                while part and not stream.eof:  # in pieces: a small part may become very large
                    stream.decompress(part, 1 << 22)
                    part = stream.unconsumed_tail
    except (OSError, inflate.error):  # type: ignore[misc]
        return False
    return True


def _open(path: Path) -> BinaryIO:
    """A regular file, opened for reading: no link, and nothing that blocks. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a file")
    return os.fdopen(descriptor, "rb")


def keep(file: Path, scratch: Path, output: Path, name: str | None = None) -> Path:
    """Put a trace into `output`, by way of `scratch` on the same disk: moved from there, else copied.

    It gets its own name (`name`), or NAME-2, NAME-3, ... if there is such a file. Raises AttachError.
    """
    stem, dot, suffix = (name or file.name).rpartition(".json")
    stem = re.sub(r"[^\w.+=-]", "_", stem).lstrip(".")[:180] or "trace"
    try:
        source = file
        if scratch not in file.parents:
            source = scratch / "copy"
            with _open(file) as original, open(source, "wb") as copy:
                shutil.copyfileobj(original, copy, 1 << 20)
        return move_free(source, output, stem, dot + suffix)
    except OSError as error:
        raise AttachError(
            f"the recording was made, but {plain(str(file), 300)} cannot be copied to "
            f"{plain(str(output), 300)}: {reason(error)}"
        ) from None


def reason(error: OSError) -> str:
    """The system's reason, safe to show."""
    return plain(error.strerror or str(error) or type(error).__name__, 200)
