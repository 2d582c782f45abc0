"""A format: lines of category,name,pid,tid,start,duration after a line `#acme 1`; times are in microseconds.

tracetui detects it in any file, compressed or not, and opens that like any trace.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracetui.core.columns import NO_ID
from tracetui.core.errors import TraceError
from tracetui.formats.parsed_file import ParsedFile
from tracetui.formats.source import Source
from tracetui.formats.store import Store

MAGIC = b"#acme 1\n"
LARGEST = 1 << 26
"""Bytes: this example holds all of a file in memory."""


def sniff(head: bytes, name: str) -> bool:
    """Whether text that begins with `head` is ours."""
    return head.startswith(MAGIC)


def read(source: Source, report: Any, workers: int | None = None, *, so_far: Any = None) -> ParsedFile:
    """All events. Raises TraceError, with a line for people, if there are none."""
    text = source.parts().read(0, LARGEST + 1)
    if len(text) > LARGEST:
        raise TraceError("has more than 64 MB, which this format does not read")
    rows = list(csv.reader(io.StringIO(text.decode("utf-8", "replace"))))
    store = Store()
    heads, names, starts, durations, lines = [], [], [], [], []
    for number, row in enumerate(rows):
        if not number:
            continue
        try:
            category, name, pid, tid, start, duration = row
            times = round(float(start) * 1000), round(float(duration) * 1000)  # to ns
        except (ValueError, OverflowError):
            store.diagnostics.note("broken_event")  # counted: `tracetui check` tells it
            continue
        heads.append(store.tables.heads["X", category, pid, tid])  # "X": an event with a duration
        names.append(store.tables.names[name])  # as it is: tracetui makes it harmless
        starts.append(times[0])
        durations.append(times[1])
        lines.append(number)
    if not lines:
        raise TraceError("has no events")
    head, none = np.array(heads, dtype=np.int32), np.full(len(lines), NO_ID, dtype=np.int64)
    store.count(head)
    store.slices.add(
        1.0,  # the share of the text that was read
        head=head,
        name=np.array(names, dtype=np.int32),
        start=np.array(starts, dtype=np.int64),
        duration=np.array(durations, dtype=np.int64),
        correlation=none,
        external=none,
        source=np.array(lines, dtype=np.int64),  # whatever finds the event again
    )
    report(source.size, source.size)
    return ParsedFile(store, Reader(source, rows), len(text))


class Reader:
    """Gives the whole of an event that somebody selects, as Chrome's JSON has it."""

    def __init__(self, source: Source, rows: list[list[str]]) -> None:
        self.source = source
        self._rows = rows

    def pack(self) -> bytes:
        """What a plugin reads is not cached: nothing to say."""
        raise ValueError

    def read(self, sources: Sequence[int]) -> list[dict[str, Any]]:
        return [self._event(*self._rows[line]) for line in sources]

    @staticmethod
    def _event(category: str, name: str, pid: str, tid: str, start: str, duration: str) -> dict[str, Any]:
        times = {"ts": float(start), "dur": float(duration)}
        return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, **times}
