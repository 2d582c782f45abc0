"""Grids with so few blocks that most of the device has nothing to do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.device_work import device_work_of, work_of_kind
from tracetui.analysis.devices import device_of
from tracetui.analysis.part import Part, fact
from tracetui.analysis.rates.occupancy import blocks_of
from tracetui.trace import Kind
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices

FILLED = 0.25
"""A grid with fewer blocks than this share of the multiprocessors leaves most of them idle."""
LONG_NS = 20_000
"""A kernel that is over sooner may have too little work for more blocks, and waits for its launch."""
NAMES_READ, CALLS_READ = 16, 100
"""Read the grids of so many calls each of so many names."""
SPINS = "spin_kernel"
"""In the name of what `torch.cuda._sleep` runs: it only waits."""


@dataclass(frozen=True, slots=True)
class SmallGrids:
    """Kernels with far fewer blocks than their GPU has multiprocessors, beside which nothing runs."""

    slices: Slices
    """Those whose grids were read."""
    rows: list[tuple[int, int, int, int]]
    """For each name, the most time first: (time of its calls that are so, ns; the longest that was read; its
    blocks; the multiprocessors)."""
    read: bool
    """Whether the grids of all calls that count were read."""
    names: list[int]
    """Indices into ``trace.names``: of those that most calls, by time, are."""

    @property
    def time(self) -> int:
        return sum(row[0] for row in self.rows)


@fact
def small_grids_of(part: Part) -> SmallGrids:
    """Those of the names that take the most time."""
    trace, found, rows = part.trace, list[I64](), list[tuple[int, int, int, int]]()
    most, read = list[int](), True
    known = ((p.get("id"), p.get("numSms")) for p in trace.info.devices)
    sms = {i: n for i, n in known if type(i) is int and type(n) is int and 0 < n < 1 << 20}
    at = _alone(part) if sms else device_work_of(part)[:0]
    device = device_of(trace)
    for name in at.by_name()[:NAMES_READ]:
        every = name.slices
        calls = every[np.unique(np.linspace(0, len(every) - 1, CALLS_READ).astype(np.int64))]
        blocks = [blocks_of(args) for args in trace.args_of(calls.at)]
        of = [sms.get(int(d), 0) for d in device[calls.lane]]
        small = np.array([0 < n < FILLED * room for n, room in zip(blocks, of, strict=True)])
        if small.any():
            found.append(calls.at[small])
            read &= len(calls) == len(every)
            fraction = calls[small].time / calls.time
            longest = int(np.argmax(np.where(small, calls.duration, -1)))
            rows.append((round(name.time * fraction), int(calls.at[longest]), blocks[longest], of[longest]))
            most += [name.index] if fraction > 0.5 else []
    read_ones = Slices(trace, np.concatenate(found)) if found else at[:0]
    return SmallGrids(read_ones, sorted(rows, reverse=True), read, most)


def _alone(part: Part) -> Slices:
    """The kernels, but collectives, that last a while and beside which nothing runs on their device."""
    trace = part.trace
    work = device_work_of(part)
    device, chosen = device_of(trace)[work.lane], list[I64]()
    order = np.argsort(device, kind="stable")
    for mine in np.split(work.at[order], np.flatnonzero(np.diff(device[order])) + 1) if len(work) else ():
        start, end = trace.start[mine], trace.end_of(mine)
        before, after = np.full(len(mine), -1), np.full(len(mine), end.max() + 1)
        before[1:], after[:-1] = np.maximum.accumulate(end)[:-1], start[1:]
        long = (trace.duration[mine] >= LONG_NS) & (trace.kind[mine] == Kind.KERNEL)
        chosen.append(mine[long & (before <= start) & (after >= end)])
    alone = Slices(trace, np.concatenate(chosen)) if chosen else work
    return alone.named(lambda name: SPINS not in name).without(work_of_kind(part, "collective"))
