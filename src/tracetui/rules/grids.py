"""Rule on grids with so few blocks that most of the device has nothing to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.device_work import decoded_name, device_work_of, op_behind, work_of_kind, work_time
from tracetui.analysis.devices import device_of
from tracetui.analysis.idle.gap_list import busy_share_of
from tracetui.analysis.part import Part, fact
from tracetui.analysis.rates.occupancy import blocks_of
from tracetui.analysis.select import by_name, has, named
from tracetui.core.units import plural, share
from tracetui.rules.model import WORK_TIME, Finding, first_of, graded_kernels, longest_first
from tracetui.trace import Kind
from tracetui.trace.model import I64

BUSY_ENOUGH = 0.3
FILLED = 0.25
"""A grid with fewer blocks than this share of the multiprocessors leaves most of them idle."""
LONG_NS = 20_000
"""A kernel that is over sooner may have too little work for more blocks, and waits for its launch."""
SHARE = 0.1
NAMES_READ, CALLS_READ = 16, 100
"""Read the grids of so many calls each of so many names."""
SPINS = "spin_kernel"
"""In the name of what `torch.cuda._sleep` runs: it only waits."""
_OPS = (
    "Give them more to do at once: a larger batch, or an op that also splits its work along another "
    "dimension. Else run independent work beside them, on another stream."
)
_OWN_KERNELS = (
    "No op of PyTorch launches these: start them with a larger grid, each block with a part of the work. "
    "Else run independent work beside them, on another stream."
)


@dataclass(frozen=True, slots=True)
class SmallGrids:
    """Kernels with far fewer blocks than their GPU has multiprocessors, beside which nothing runs."""

    at: I64
    """Those whose grids were read. Slices."""
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
    names, which = by_name(trace, at)
    spent, device = sum_into(which, trace.duration[at], len(names)), device_of(trace)
    for i in np.argsort(-spent, kind="stable")[:NAMES_READ].tolist():
        every = at[which == i]
        calls = every[np.unique(np.linspace(0, len(every) - 1, CALLS_READ).astype(np.int64))]
        blocks = [blocks_of(args) for args in trace.args_of(calls)]
        of = [sms.get(int(d), 0) for d in device[trace.lane[calls]]]
        small = np.array([0 < n < FILLED * room for n, room in zip(blocks, of, strict=True)])
        if small.any():
            found.append(calls[small])
            read &= len(calls) == len(every)
            fraction = int(trace.duration[calls[small]].sum()) / int(trace.duration[calls].sum())
            longest = int(np.argmax(np.where(small, trace.duration[calls], -1)))
            rows.append((round(int(spent[i]) * fraction), int(calls[longest]), blocks[longest], of[longest]))
            most += [int(names[i])] if fraction > 0.5 else []
    return SmallGrids(np.concatenate(found) if found else at[:0], sorted(rows, reverse=True), read, most)


def small_grids(part: Part) -> Iterator[Finding]:
    """Kernels that run by themselves, with far fewer blocks than the GPU has multiprocessors: a block runs on
    one of them (https://docs.nvidia.com/cuda/cuda-c-programming-guide/#hardware-implementation)."""
    trace = part.trace
    if (busy_share_of(part) or 0.0) < BUSY_ENOUGH:
        return
    small = small_grids_of(part)
    time = small.time
    if time < max(1, SHARE * work_time(part)):
        return
    told = [f"{decoded_name(part, i).short} ({plural(n, 'block')})" for _, i, n, _ in small.rows]
    listed = ", ".join(list(dict.fromkeys(told))[:3])
    fraction = f"{'' if small.read else 'about '}{share(time / work_time(part))}"
    yield Finding(
        "small_grids",
        graded_kernels(part, time),
        f"Kernels that leave most of the GPU idle take {fraction} of {WORK_TIME}",
        f"A block of threads runs on one of the GPU's {small.rows[0][3]} multiprocessors, and these kernels "
        f"have fewer blocks than a quarter of that: {listed}. Nothing runs beside them, so the rest of the "
        "GPU has nothing to do, although it counts as busy.",
        _OWN_KERNELS if _of_no_op(part, small.at) else _OPS,
        first_of(longest_first(trace, small.at)),
        {"share": time / work_time(part), "device_ns": float(time), "blocks": float(small.rows[0][2])},
    )


def _alone(part: Part) -> I64:
    """The kernels, but collectives, that last a while and beside which nothing runs on their device."""
    trace = part.trace
    work = device_work_of(part)
    device, chosen = device_of(trace)[trace.lane[work]], list[I64]()
    order = np.argsort(device, kind="stable")
    for mine in np.split(work[order], np.flatnonzero(np.diff(device[order])) + 1) if len(work) else ():
        start, end = trace.start[mine], trace.start[mine] + trace.duration[mine]
        before, after = np.full(len(mine), -1), np.full(len(mine), end.max() + 1)
        before[1:], after[:-1] = np.maximum.accumulate(end)[:-1], start[1:]
        long = (trace.duration[mine] >= LONG_NS) & (trace.kind[mine] == Kind.KERNEL)
        chosen.append(mine[long & (before <= start) & (after >= end)])
    at = np.concatenate(chosen) if chosen else work
    at = at[~named(part.trace, lambda name: SPINS in name)[trace.name[at]]]
    return at[~np.isin(at, work_of_kind(part, "collective"))]


def _of_no_op(part: Part, at: I64) -> bool:
    """Whether most of these kernels are launched by themselves outside of any op, where the CPU was
    recorded."""
    trace = part.trace
    graph = named(part.trace, lambda name: "GraphLaunch" in name)
    own = (op_behind(trace, at) < 0) & (trace.launch[at] >= 0) & ~graph[trace.name[trace.launch[at]]]
    recorded = has(trace, Kind.CPU_OP) or has(trace, Kind.ANNOTATION)
    return recorded and 2 * int(trace.duration[at[own]].sum()) > int(trace.duration[at].sum())
