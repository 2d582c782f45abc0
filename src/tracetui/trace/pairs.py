"""Turns `B`/`E` pairs and asynchronous pairs into slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracetui.core.columns import I64, NO_ID, NO_TIME, Array
from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.store import POINT_COLUMNS, SLICE_COLUMNS, AsyncEvent, Tables

_OPEN, _STEP, _END = "bS", "nT", "eF"


def pair_threads(points: dict[str, Array], tables: Tables, diagnostics: Diagnostics) -> dict[str, Array]:
    """Slice columns for the `B` events among the points; unclosed ones have the duration NO_TIME.

    An `E` closes the last open `B` of its thread, in order of time, whatever its name.
    """
    heads = list(tables.heads)
    threads: dict[tuple[str, str], int] = {}
    thread_of, phase_of = np.zeros(len(heads), dtype=np.int64), np.zeros(len(heads), dtype=np.int8)
    for number, (phase, _, pid, tid) in enumerate(heads):
        if phase in ("B", "E"):
            thread_of[number] = threads.setdefault((str(pid), str(tid)), len(threads))
            phase_of[number] = 1 if phase == "B" else 2
    if not threads:
        return {}
    phases = phase_of[points["head"]]
    at = np.flatnonzero(phases)
    at = at[np.lexsort((points["start"][at], thread_of[points["head"][at]]))]
    thread, start = thread_of[points["head"][at]].tolist(), points["start"][at].tolist()
    begins = (phases[at] == 1).tolist()
    duration = np.full(len(points["head"]), NO_TIME, dtype=np.int64)
    stack: list[int] = []
    current = -1
    unclosed = unopened = 0
    for i, begin in enumerate(begins):
        if thread[i] != current:
            unclosed += len(stack)
            stack.clear()
            current = thread[i]
        if begin:
            stack.append(i)
        elif stack:
            opened = stack.pop()
            duration[at[opened]] = start[i] - start[opened]
        else:
            unopened += 1
    diagnostics.note("unclosed", count=unclosed + len(stack))
    diagnostics.note("unopened", count=unopened)
    kept = np.flatnonzero(phases == 1)
    slices = {name: points[name][kept] for name in SLICE_COLUMNS}
    slices["duration"] = duration[kept]
    return slices


def pair_async(
    events: Sequence[AsyncEvent], tables: Tables, diagnostics: Diagnostics
) -> tuple[dict[str, Array], dict[str, Array]]:
    """(slice columns, point columns) for asynchronous events: pairs of one category and id, and instants
    (`n`, `T`).

    Their heads have the category in place of a thread, for one lane per process and category.
    """
    opened: dict[tuple[str, str, str], list[int]] = {}
    slices: list[tuple[int, int, int, int, int]] = []
    points: list[tuple[int, int, int, int]] = []
    lengths: dict[int, int] = {}
    unopened = 0
    for e in sorted(events, key=lambda e: e.start):
        # The older events pair by name as well, and across processes.
        key = (e.category, e.key, str(e.name) if e.phase in "STF" else e.pid)
        head = tables.heads["n" if e.phase in _STEP else "b", e.category, e.pid, e.category]
        if e.phase in _OPEN:
            opened.setdefault(key, []).append(len(slices))
            slices.append((head, e.name, e.start, NO_TIME, e.source))
        elif e.phase in _STEP:
            points.append((head, e.name, e.start, e.source))
        elif stack := opened.get(key):
            first = stack.pop()
            lengths[first] = e.start - slices[first][2]
        else:
            unopened += 1
    diagnostics.note("async_unclosed", count=sum(map(len, opened.values())))
    diagnostics.note("async_unopened", count=unopened)
    table = np.array(slices, dtype=np.int64).reshape(-1, 5)
    table[list(lengths), 3] = list(lengths.values())
    pairs = _fill(SLICE_COLUMNS, table, ("head", "name", "start", "duration", "source"), NO_ID)
    spots = np.array(points, dtype=np.int64).reshape(-1, 4)
    return pairs, _fill(POINT_COLUMNS, spots, ("head", "name", "start", "source"), 0)


def _fill(kinds: Mapping[str, Any], table: I64, names: Sequence[str], missing: int) -> dict[str, Array]:
    """A table with these columns and types: the given ones are filled in, all others hold `missing`."""
    columns: dict[str, Array] = {name: np.full(len(table), missing, dtype=kinds[name]) for name in kinds}
    for number, name in enumerate(names):
        columns[name][:] = table[:, number]
    return columns
