"""TORCH_TRACE logs of torch.compile: lines of a log, each followed by what it is about, if it is long.

Some of that are events of Chrome's format, the phases of compilation. These are read where they stand in the
log; the rest of it is for tlparse, and is no loss here.
"""

from __future__ import annotations

import re

from tracetui.core.errors import Report, TraceError
from tracetui.formats import chrome_json
from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.parsed_file import ParsedFile, SoFar
from tracetui.formats.source import Source

_LINE = re.compile(rb"[VDIWEC]\d{4} \d\d:\d\d:\d\d[.\d]* \d+ [^\n]{1,400}?\] \{")
_EVENT = re.compile(rb'^[VDIWEC]\d{4} [^\n]{1,400}?\] \{"chromium_event":', re.MULTILINE)
_NOT_EVENTS = ("bad_header", "broken_event", "not_an_event", "open_array", "separator", "second_array")
"""What is noted of the text between the events."""
_AT_ONCE = 1 << 20

read_beginning = chrome_json.read_beginning
unpack = chrome_json.unpack


def sniff(head: bytes, name: str) -> bool:
    """Whether the text begins with a line of such a log."""
    return _LINE.match(head) is not None


def read(
    source: Source, report: Report, workers: int | None = None, *, so_far: SoFar | None = None
) -> ParsedFile:
    """The events in a log: see `registry.Format`."""
    try:
        contents = chrome_json.read(source, report, 1, so_far=so_far)
    except TraceError:
        reason = "is a TORCH_TRACE log without the times of torch.compile's phases: tlparse shows what it has"
        raise TraceError(reason) from None
    diagnostics = contents.store.diagnostics
    for kind in _NOT_EVENTS:
        diagnostics.found.pop(kind, None)
    diagnostics.note("broken_event", count=_count_events(source) - contents.store.total)
    diagnostics.note("torch_trace")
    return contents


def _count_events(source: Source) -> int:
    """How many events the lines of the log announce."""
    count, rest = 0, b""
    stream, part = source.stream(Diagnostics()), memoryview(bytearray(_AT_ONCE))
    try:
        while length := stream.readinto(part):
            text = rest + bytes(part[:length])
            end = text.rfind(b"\n") + 1
            count, rest = count + len(_EVENT.findall(text[:end])), text[end:][-_AT_ONCE:]
    finally:
        stream.close()
    return count + len(_EVENT.findall(rest))
