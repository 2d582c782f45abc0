"""Perfetto's protobuf traces (.pftrace), as PyTorch's Cuspy and Perfetto's own tools write them.

The reader is imported where there is such a file.
"""

from __future__ import annotations

import msgspec

from tracetui.core.errors import Report
from tracetui.formats.parsed_file import EventReader, ParsedFile, SoFar
from tracetui.formats.pftrace.sniff import sniff as sniff
from tracetui.formats.source import Source


def read(
    source: Source, report: Report, workers: int | None = None, *, so_far: SoFar | None = None
) -> ParsedFile:
    """See `Format.read`."""
    from tracetui.formats.pftrace import reader

    return reader.read(source, report, workers, so_far=so_far)


def read_beginning(source: Source, report: Report, length: int) -> ParsedFile:
    """See `Format.read_beginning`."""
    from tracetui.formats.pftrace import reader

    return reader.read_beginning(source, report, length)


def unpack(source: Source, text: bytes | msgspec.Raw, size: int) -> EventReader:
    """See `Format.unpack`."""
    from tracetui.formats.pftrace.event_reader import FileReader

    return FileReader.unpack(source, text, size)
