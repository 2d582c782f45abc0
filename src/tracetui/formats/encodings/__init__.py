"""What lies between the bytes of a file and the text of a trace: one module for each encoding.

A new one is a module with all that `Encoding` names, and its place in `ENCODINGS`.
"""

from __future__ import annotations

from typing import IO, Protocol

from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.encodings import gzip, plain, zstd

__all__ = ["ENCODINGS", "Encoding", "Parts", "Stream"]


class Stream(Protocol):
    """A text that is read from front to back."""

    def readinto(self, view: memoryview) -> int:
        """Fill `view` with the next bytes and say how many; 0 at the end. Raises OSError as the file does."""

    def progress(self, offset: int) -> int:
        """Bytes of the file that are done when the text was read up to `offset`."""

    def size(self) -> int:
        """Bytes of the whole text, once its end was reached."""

    def close(self) -> None:
        """Stop, whether or not the end was reached. The file stays open."""


class Parts(Protocol):
    """A text of which any part can be read."""

    def read(self, offset: int, length: int) -> bytes:
        """`length` bytes of the text from `offset` on; fewer at its end. Raises OSError as the file does."""


class Encoding(Protocol):
    """The module of an encoding."""

    SUFFIX: str
    """How the names of such files end."""
    RATIO: int
    """A text is taken to be so many times as large as its file."""
    IN_PLACE: bool
    """The text is the file itself: whoever has the file can read any part of it."""

    def sniff(self, head: bytes) -> bool:
        """Whether a file that begins with `head` is encoded so."""

    def stream(self, file: IO[bytes], size: int, offset: int, diagnostics: Diagnostics) -> Stream:
        """The text of a file of `size` bytes, from `offset` of the text on. Notes what is damaged."""

    def parts(self, file: IO[bytes], size: int) -> Parts:
        """The same text, for events that are read again."""

    def writer(self, file: IO[bytes]) -> IO[bytes]:
        """Encodes into `file` the text that is written to it; to be closed before `file` is."""


ENCODINGS: tuple[Encoding, ...] = (gzip, zstd, plain)
"""The first one that recognises a file decodes it. `plain` takes everything."""
