"""The formats of traces that are read, and which of them a file has.

A new one is a module with `sniff` and `read`, and its place in `FORMATS`.
"""

from __future__ import annotations

from typing import Protocol

from tracetui.formats import chrome_json
from tracetui.formats.contents import Contents
from tracetui.formats.errors import Report, TraceError
from tracetui.formats.foreign import advice
from tracetui.formats.source import Source, shown

HEAD = 1 << 16
"""Bytes of the text that `sniff` is shown."""


class Format(Protocol):
    """The module of a format."""

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether a text that begins with `head`, of a file called `name`, is surely or most likely of this
        format."""

    def read(self, source: Source, report: Report, workers: int | None = None) -> Contents:
        """All events of `source`, and the way back to each.

        `report` is told (bytes of the file done, bytes in all). `workers`: processes to read with, None for
        as many as are worth it. Raises TraceError where there is no event, and OSError as the file does.
        """


FORMATS: tuple[Format, ...] = (chrome_json,)
"""The first one that recognises a text reads it."""


def read(source: Source, report: Report, workers: int | None = None) -> Contents:
    """Read a source by the format that it has. Raises as `Format.read` does."""
    head = source.parts().read(0, HEAD)
    found = next((f for f in FORMATS if f.sniff(head, source.path)), None)
    try:
        if found is None and (told := advice(head, source.path, certain=True)):
            raise TraceError(told)
        # Nobody's: it may be a damaged JSON file, of which much can be read.
        return (found or chrome_json).read(source, report, workers)
    except TraceError as error:
        told = advice(head, source.path) or str(error)
        raise TraceError(f"{shown(source.path)}: {told}") from None
