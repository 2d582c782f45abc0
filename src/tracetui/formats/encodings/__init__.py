"""How files are compressed, if at all: one module per encoding.

To add one, write a module with everything in `Encoding`, and list it in `ENCODINGS`.
"""

from __future__ import annotations

from typing import IO, Protocol

from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.encodings import gzip, plain, zstd

__all__ = ["ENCODINGS", "Encoding", "Parts", "Stream"]


class Stream(Protocol):
    """Sequential access to the text."""

    def readinto(self, view: memoryview) -> int:
        """Fill `view` with the next bytes and return how many; 0 at the end. Raises OSError."""

    def progress(self, offset: int) -> int:
        """Bytes of the file consumed once the text has been read up to `offset`."""

    def size(self) -> int:
        """Size of the whole text in bytes, once its end has been reached."""

    def close(self) -> None:
        """Stop reading, at the end or before it. The file stays open."""


class Parts(Protocol):
    """Random access to the text."""

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes of the text from `offset` on; fewer at its end. Raises OSError."""


class Encoding(Protocol):
    """The module of an encoding."""

    SUFFIX: str
    """File name extension."""
    RATIO: int
    """Assumed ratio of the size of the text to that of the file."""
    IN_PLACE: bool
    """The text is the file itself, so that several threads can read parts of it."""

    def sniff(self, head: bytes) -> bool:
        """Whether a file that begins with `head` has this encoding."""

    def stream(self, file: IO[bytes], size: int, diagnostics: Diagnostics) -> Stream:
        """The text of a file of `size` bytes. Notes any damage."""

    def parts(self, file: IO[bytes], size: int) -> Parts:
        """Random access to the text of a file of `size` bytes."""

    def writer(self, file: IO[bytes]) -> IO[bytes]:
        """A file that encodes what is written to it into `file`; close it before `file`."""


ENCODINGS: tuple[Encoding, ...] = (gzip, zstd, plain)
"""The first one that recognizes a file decodes it; `plain` accepts everything."""
