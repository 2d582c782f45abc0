"""One file read in several ways, all of which must make the same of it."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

from tracetui.core.errors import TraceError
from tracetui.formats.chrome_json import chunks, event_builder
from tracetui.formats.chrome_json.reader import read
from tracetui.formats.source import open_source
from tracetui.trace.build import build

LARGE = 1 << 19
WAYS: dict[str, tuple[int, int, int, bool]] = {
    # how: (bytes of a chunk, workers, bytes of a worker's stretch, whether the scanner may read)
    "at once": (LARGE, 1, LARGE, True),
    "in small chunks": (2000, 1, LARGE, True),
    "by two workers": (2000, 2, 12_000, True),
    "by three workers": (700, 3, 3000, True),
    "in Python": (LARGE, 1, LARGE, False),
    "in Python, by two workers": (2000, 2, 12_000, False),
}
COLUMNS = (
    *("start", "duration", "lane", "depth", "parent", "external_id", "correlation", "op", "launch", "kind"),
    *("implausible", "flow_from", "flow_to", "flow_category"),
)


def made(path: Path, how: str) -> dict[str, Any]:
    """What a file is read to, as plain values."""
    size, workers, block, scanned = WAYS[how]
    try:
        source = open_source(path)
    except TraceError as error:
        return {"error": str(error)}
    library = event_builder.LIBRARY if scanned else None
    # Threads, however the text is read: the rest of a segment is Python's where the scanner declines a chunk.
    with (
        source.file,
        patch.object(chunks.Reader, "scans", lambda *_: True),
        patch.object(event_builder, "LIBRARY", library),
        patch.object(chunks, "LIBRARY", library),
    ):
        try:
            trace = build(read(source, lambda *_: None, workers, size, block), source.path, source.size)
        except TraceError as error:
            return {"error": str(error)}
        instants, counters = trace.instants, trace.counters
        return {name: getattr(trace, name).tolist() for name in COLUMNS} | {
            "names": [trace.names[i] for i in trace.name],
            "categories": [trace.categories[i] for i in trace.category], "lanes": trace.lanes,
            "processes": trace.processes, "notices": trace.notices, "phases": trace.phases,
            "flows": trace.flow_kind,
            "instants": [column.tolist() for column in (instants.start, instants.lane)],
            "instant names": [trace.names[i] for i in instants.name],
            "counters": [column.tolist() for column in (counters.start, counters.series, counters.value)],
            "series": counters.series_names, "info": trace.info,
            "top": {key: str(value) for key, value in trace.reader.top.items()},
            "args": trace.reader.read(trace.source[::7].tolist())
        }  # fmt: skip


def differences(path: Path, ways: tuple[str, ...] = tuple(WAYS)) -> list[str]:
    """What some way of reading makes differently from the first of them."""
    first, *others = ways
    expected = made(path, first)
    found = []
    for how in others:
        got = made(path, how)
        # As texts: nan is not equal to itself.
        found += [
            f"{how}: {key} {str(got.get(key))[:300]}, {first}: {str(expected.get(key))[:300]}"
            for key in dict.fromkeys([*expected, *got]) if repr(got.get(key)) != repr(expected.get(key))
        ]  # fmt: skip
    return found
