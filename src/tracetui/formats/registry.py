"""The supported trace formats, and how a file's format is detected.

To add one, write a module with everything in `Format`, and list it in `FORMATS`; another package names its
module in an entry point.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from tracetui.core.errors import Report, TraceError
from tracetui.formats import chrome_json, pftrace, torch_trace
from tracetui.formats.foreign import advice
from tracetui.formats.parsed_file import EventReader, ParsedFile, SoFar
from tracetui.formats.plugins import formats_of_plugins
from tracetui.formats.source import Source, shown

HEAD = 1 << 16
"""Bytes of text passed to `sniff`."""


class Format(Protocol):
    """The module of a format."""

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether text beginning with `head`, in a file called `name`, is certainly or probably this
        format."""

    def read(
        self, source: Source, report: Report, workers: int | None = None, *, so_far: SoFar | None = None
    ) -> ParsedFile:
        """Read all events of `source`.

        `report` is called with (bytes of the file done, total bytes), and then `so_far`. `workers`: number of
        threads, None to choose by size. Raises TraceError if there are no events, OSError if the file
        cannot be read.
        """

    def read_beginning(self, source: Source, report: Report, length: int) -> ParsedFile:
        """Read the events in the first `length` bytes of text, or a few less. Raises as `read` does."""

    def unpack(self, source: Source, text: bytes | msgspec.Raw, size: int) -> EventReader:
        """The `EventReader` of an opened file again, from what its `pack` returned and the size of the text.
        Raises ValueError if that cannot be."""


FORMATS: tuple[Format, ...] = (chrome_json, pftrace, torch_trace)
"""The first one that recognizes the text reads it: those of other packages before these, unless the text is
certainly Chrome's."""


def read(
    source: Source, report: Report, workers: int | None = None, so_far: SoFar | None = None
) -> ParsedFile:
    """Detect the format of a source and read it. Raises what `Format.read` raises."""
    head, found = _format_of(source)
    try:
        if found is None and (reason := advice(head, source.path, certain=True)):
            raise TraceError(reason)
        # Unrecognized: perhaps a damaged JSON file, much of which can still be read.
        return (found or chrome_json).read(source, report, workers, so_far=so_far)
    except TraceError as error:
        reason = advice(head, source.path) or str(error)
        raise TraceError(f"{shown(source.path)}: {reason}") from None


def read_beginning(source: Source, report: Report, length: int) -> ParsedFile | None:
    """Read the beginning of a source: see `Format.read_beginning`. None if its format is not certain."""
    _, found = _format_of(source)
    return found.read_beginning(source, report, length) if found else None


def unpack(source: Source, text: bytes | msgspec.Raw, size: int) -> EventReader:
    """The `EventReader` of an opened file again: see `Format.unpack`."""
    _, found = _format_of(source)
    return (found or chrome_json).unpack(source, text, size)


def _format_of(source: Source) -> tuple[bytes, Format | None]:
    """The beginning of a source's text, and the format that recognizes it."""
    head = source.parts().read(0, HEAD)
    formats = FORMATS if chrome_json.is_certain(head) else (*formats_of_plugins(), *FORMATS)
    return head, next((f for f in formats if f.sniff(head, source.path)), None)
