"""The verdict on a trace of the CPU alone: how its time was spent.

Every moment of a window counts for the first part that applies, so the parts add up to the window:

ops            some thread was in an op
data loading   some thread was in a `DataLoader`, ops within included, and no other op ran
communication  a collective was under way on some thread (gloo, MPI, oneCCL, the ops of c10d and their waits),
               and neither of the above
outside        none of these: Python, waiting, or work that is not recorded
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tracetui.analysis.calls.ancestors import any_inside, first_marked
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.idle.gaps import elsewhere_text
from tracetui.analysis.idle.verdict import OF_RECORDING, CpuTime, Verdict
from tracetui.analysis.names.communication import is_communication
from tracetui.analysis.part import Part, fact_of_trace
from tracetui.analysis.select import name_mask, op_names, plausible
from tracetui.core.columns import counted, repeated, unique
from tracetui.core.units import duration, plural, share
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.intervals import Intervals, sum_of, union
from tracetui.trace.model import I64, Bool

CPU_ONLY = "CPU-only"
"""The word for this verdict."""

WORTH_NAMING = 0.1
"""If one op has at least this share of the time as its own, it is named."""

_COLLECTIVE = re.compile(
    r"(?i)(?:nccl|gloo|mpi|ucc|xccl|ccl|oneccl|hccl):|_?c10d(?:_functional)?::|record_param_comms"
    r"|(?:torch_ccl|oneccl_bindings_for_pytorch|horovod|symm_mem)(?:::|_)"
)
_ON_DEVICE = re.compile(r"(?i)(?:nccl|xccl|hccl|ccl|oneccl):")
_ON_CPU = re.compile(r"(?i)(?:gloo|mpi):")
_LOADER = re.compile(r"enumerate\(DataLoader\)#")


def is_collective(name: str) -> bool:
    """Whether a CPU op or annotation of this name is a collective, or waits for one."""
    return _COLLECTIVE.match(name) is not None


@fact_of_trace
def cpu_collectives_of(part: Part) -> Intervals:
    """While a collective ran on the CPU, in all of the trace: gloo, MPI, or an op of one that launches
    nothing, if no kernel communicates either."""
    trace = part.trace
    at = plausible(trace, Kind.CPU_OP, Kind.ANNOTATION)
    called = name_mask(trace, lambda name: is_collective(name) and not _ON_DEVICE.match(name))
    at = at[called[trace.name[at]]]
    own = name_mask(trace, _ON_CPU.match)[trace.name[at]]
    if name_mask(trace, is_communication, Kind.KERNEL).any():
        at = at[own]
    else:
        at = at[own | ~any_inside(trace, plausible(trace, Kind.RUNTIME), at)]
    return union(trace.start[at], trace.end_of(at))


class CpuWork:
    """The ops, the data loading and the communication in a trace of the CPU alone."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        loader = name_mask(trace, _LOADER.match)
        collective = name_mask(trace, is_collective)
        at = plausible(trace, Kind.CPU_OP, Kind.ANNOTATION)
        name = trace.name[at]
        loads, talks = at[loader[name]], at[collective[name]]
        op = op_names(trace)
        ops = at[(trace.kind[at] == Kind.CPU_OP) & op[name] & ~loader[name] & ~collective[name]]
        # Ops inside a data loader or a collective are a part of it.
        part_of = loader | collective
        self.ops = ops[first_marked(trace, trace.parent[ops], part_of[trace.name]) < 0]
        """By (lane, start)."""
        self.in_ops = self._union(self.ops)
        self.in_ops_or_loading = self._union(np.concatenate([self.ops, loads]))
        self.talking = self._union(talks)
        self.any = self._union(np.concatenate([self.ops, loads, talks]))
        borders = np.flatnonzero(np.diff(trace.lane[self.ops])) + 1
        self.by_thread = _Threads([self._union(ops) for ops in np.split(self.ops, borders)])
        self.by_start = self.ops[np.argsort(trace.start[self.ops], kind="stable")]
        inner = np.flatnonzero(trace.parent >= 0)
        below = sum_into(trace.parent[inner].astype(np.int64), trace.duration[inner], len(trace))
        self.own = trace.duration - below
        self.alone = counted(trace.parent[inner], len(trace)) == 1
        """Which slices have exactly one child."""
        calls = trace.is_kind(Kind.RUNTIME).any()  # then launches would be there, too
        none = "Nothing was launched on a GPU." if calls else "Only the CPU was recorded."
        self.recorded = elsewhere_text(trace) or none
        """What the trace says of GPUs."""

    def _union(self, at: I64) -> Intervals:
        return union(self.trace.start[at], self.trace.end_of(at))

    def times(self, low: I64, high: I64) -> CpuTime:
        """How the time of some windows [low, high), which must not overlap, was spent."""

        def within(one: Intervals) -> int:
            return int(one.overlap(low, high).sum())

        starts = self.trace.start[self.by_start]
        first, last = np.searchsorted(starts, low), np.searchsorted(starts, high)
        pieces = (self.by_start[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True))
        at = np.concatenate([self.by_start[:0], *pieces])
        names, which = np.unique(self.trace.name[at], return_inverse=True)
        own = sum_into(which, self.own[at], len(names))
        top = int(np.argmax(own)) if len(names) else -1
        ops, loaded, everything = (within(one) for one in (self.in_ops, self.in_ops_or_loading, self.any))
        span = int(np.maximum(high - low, 0).sum())
        return CpuTime(
            span=span,
            ops=ops,
            data_loading=loaded - ops,
            communication=within(self.talking),
            exposed_communication=everything - loaded,
            outside=span - everything,
            threads=self.by_thread.busy(low, high),
            thread_ops=int(self.by_thread.time.overlap(low, high).sum()),
            top=self.trace.names[int(names[top])] if top >= 0 else "",
            top_self=int(own[top]) if top >= 0 else 0,
            top_calls=int(np.count_nonzero(~self._within_alike(at[which == top]))) if top >= 0 else 0,
        )

    def _within_alike(self, at: I64) -> Bool:
        """Which of some slices are the only child of a parent with the same name: PyTorch counts both as one
        call."""
        parent, name = self.trace.parent[at], self.trace.name
        alike: Bool = (parent >= 0) & (name[parent] == name[at]) & self.alone[parent]
        return alike

    def verdict(self, windows: Sequence[tuple[int, int]], base: str = OF_RECORDING) -> Verdict:
        """The verdict on some windows (start, end), which must not overlap. `base`: what its shares are
        shares of."""
        borders = np.array(windows, dtype=np.int64).reshape(-1, 2)
        time = self.times(borders[:, 0], borders[:, 1])
        if not time.span:
            return Verdict("not known", None, None, "There are no GPU events here.", base=base)
        return Verdict(
            CPU_ONLY,
            None,
            None,
            _reason(time, base, self.recorded),
            base=base,
            cpu=time,
        )


class _Threads:
    """What each of many threads does, asked for any window without looking at all of them."""

    def __init__(self, threads: Sequence[Intervals]) -> None:
        self.time = sum_of([(one.start, one.end) for one in threads])
        none = np.zeros(0, np.int64)
        start, end = (np.concatenate([none, *(getattr(t, of) for t in threads)]) for of in ("start", "end"))
        thread = repeated(np.arange(len(threads)), np.array([len(one) for one in threads], dtype=np.int64))
        start, end, thread = (column[end > start] for column in (start, end, thread))
        again = thread[1:] == thread[:-1]
        before = np.append(np.iinfo(np.int64).min, np.where(again, end[:-1], np.iinfo(np.int64).min))
        order = np.argsort(start, kind="stable")
        self.start, self.end, self.thread = start[order], end[order], thread[order]
        self.before = before[order]
        """When the same thread was last in an op before that."""
        self.ends = np.sort(self.end)

    def busy(self, low: I64, high: I64) -> int:
        """How many threads are in an op at some time of windows [low, high), which must not overlap."""
        if len(low) != 1:
            within = union(low, np.maximum(low, high)).overlap(self.start, self.end) > 0
            return len(unique(self.thread[within]))
        if high[0] <= low[0]:
            return 0
        first, last = np.searchsorted(self.start, (low[0], high[0]))
        over = np.searchsorted(self.ends, low[0], side="right")
        return int(first - over + np.count_nonzero(self.before[first:last] <= low[0]))


def cpu_work(trace: Trace) -> CpuWork | None:
    """The work in a trace that has CPU ops but no device and no launch. None for other traces, and if device
    events may be missing because the file is cut off."""
    if (
        trace.cut_off
        or any(lane.device >= 0 for lane in trace.lanes)
        or not len(plausible(trace, Kind.CPU_OP))
    ):
        return None
    launches = plausible(trace, Kind.RUNTIME)
    launched = name_mask(trace, lambda name: "Launch" in name)[trace.name[launches]]
    return None if launched.any() or trace.is_kind(*DEVICE_WORK).any() else CpuWork(trace)


def _reason(time: CpuTime, base: str, recorded: str) -> str:
    def part(length: int) -> str:
        return share(length / time.span)

    on = f" (on {plural(time.threads, 'thread')})" if time.threads > 1 else ""
    parts = [
        (time.ops, f"is in ops{on}"),
        (time.data_loading, "is data loading while no other op runs"),
        (time.exposed_communication, "is communication while no op runs"),
    ]
    parts = sorted((p for p in parts if p[0] or p[1].startswith("is in ops")), key=lambda p: -p[0])
    said = [f"{part(length)} {what}" for length, what in parts]
    said[0] = f"{part(parts[0][0])} of the {duration(time.span)} {base} {parts[0][1]}"
    rest = "outside ops" if len(parts) == 1 else "none of these"
    said.append(f"{part(time.outside)} is {rest} (Python, waiting, work that was not recorded)")
    text = f"{recorded} {', '.join(said)}."
    if time.top and time.top_self >= WORTH_NAMING * time.span:
        calls, took = plural(time.top_calls, "call"), duration(time.top_self)
        text += f" The op with the most self time is {time.top}: {took} in {calls}."
    return text


@fact_of_trace
def cpu_work_of(part: Part) -> CpuWork | None:
    """What the CPU did, in a trace of the CPU alone; None for others."""
    return cpu_work(part.trace)
