"""Chrome's JSON trace format, as Kineto (torch.profiler) and many others write it.

The reader is imported where there is such a file.
"""

from __future__ import annotations

import msgspec

from tracetui.core.errors import Report
from tracetui.formats.parsed_file import EventReader, ParsedFile, SoFar
from tracetui.formats.source import Source


def read(
    source: Source, report: Report, workers: int | None = None, *, so_far: SoFar | None = None
) -> ParsedFile:
    """See `Format.read`."""
    from tracetui.formats.chrome_json import reader

    return reader.read(source, report, workers, so_far=so_far)


def read_beginning(source: Source, report: Report, length: int) -> ParsedFile:
    """See `Format.read_beginning`."""
    from tracetui.formats.chrome_json import reader

    return reader.read_beginning(source, report, length)


def unpack(source: Source, text: bytes | msgspec.Raw, size: int) -> EventReader:
    """See `Format.unpack`."""
    from tracetui.formats.chrome_json.event_reader import FileReader

    return FileReader.unpack(source, text, size)


def sniff(head: bytes, name: str) -> bool:
    """Whether the text looks like JSON; its contents are checked on reading."""
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def is_certain(head: bytes) -> bool:
    """Whether JSON that begins like this can be nothing else."""
    return sniff(head, "") and (b'"traceEvents"' in head or b'"ph"' in head)
