"""A recording as nodes that wait for one another: device events, calls that wait for them, the ends of steps.

A device event starts at the latest of: the end of its launch and a latency; the end of the one before it in
its stream and a gap; the ends of what its stream waits for. A call that waits ends at the latest of its own
least length and the end of what it waits for, and a return. Latency, gap and return are the recording's
medians. What they do not explain stays as it was measured (`Nodes.late`), and where something came earlier
than they allow, its own measured value takes their place.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from tracetui.analysis.idle.cpu_time import blocking_copies, is_synchronizing
from tracetui.analysis.part import Part, fact_of_trace
from tracetui.analysis.select import name_mask, plausible
from tracetui.analysis.steps.scope import step_table_of
from tracetui.core.columns import counted, distinct, unique
from tracetui.replay.driver import Driver, among, drive
from tracetui.replay.engine import MARK, QUEUED, WAIT, WORK, Nodes
from tracetui.replay.waits import asked_waits, ended_before, shown_waits, told_waits
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.intervals import Intervals, union
from tracetui.trace.model import F64, I64, Bool
from tracetui.trace.unrecorded import first_launched

LATENCY, GAP, RETURN = 2_000.0, 1_200.0, 6_000.0
"""Where a recording does not show them, ns."""
FAR = 20_000.0
"""What takes longer is none of these."""
ENOUGH = 3
"""So many samples of the same two kernels, or of the same call and kernel, have a median of their own."""
MANY = 64
"""Of more streams than this, a call waits for those with the most events."""
OF_STREAM = "StreamSynchronize"
"""In the names of calls that wait for one stream."""
UNEXPLAINED = 3_000.0
"""A start that is further from what explains it stays as measured, ns."""


class Constant(Struct, frozen=True):
    """One of the recording's medians, with its quartiles. ns."""

    low: float
    value: float
    high: float
    samples: int


class Graph(Struct, frozen=True, eq=False):
    """The nodes of a recording, in the order in which the CPU comes to them, and how it was measured."""

    trace: Trace
    nodes: Nodes
    slices: I64
    """The device event or the call of each node, -1 for a mark."""
    driver: Driver
    held: Intervals
    """When the CPU waits."""
    at: I64
    """When the CPU came to each node, ns; of what is queued, when the trace begins."""
    begin: I64
    """When each device event or wait began, ns; for marks the same as `at`."""
    measured: F64
    """When each node ended, ns."""
    marks: I64
    """The nodes that begin the first step and end each step."""
    by_steps: bool
    """Whether the trace has steps; otherwise its whole length is one."""
    latency: Constant
    gap: Constant
    back: Constant
    """From the end of device work to the end of the call that waits for it."""
    in_graphs: Constant
    """From kernel to kernel within a graph."""
    unexplained: int
    """Device events whose start stays as measured: they came later or earlier than the constants explain."""
    alone: float
    """The share of launches on other threads that do not lie in a wait of the main thread."""


def _constant(samples: F64, default: float, adds_up: bool = False) -> Constant:
    """`adds_up`: gaps follow one another, so that their mean counts: of those that are not far from the
    median."""
    if not len(samples):
        return Constant(default, default, default, 0)
    low, value, high = np.percentile(samples, (25, 50, 75)).tolist()
    if adds_up:
        value = float(samples[np.abs(samples - value) <= UNEXPLAINED].mean())
    return Constant(min(low, value), value, max(high, value), len(samples))


def _of_pairs(pair: I64, sample: F64, known: Bool, default: F64 | float, adds_up: bool = False) -> F64:
    """For each node the median of the known samples of its pair of names (see `_constant`), if there are
    `ENOUGH`, else the default."""
    found = np.broadcast_to(np.asarray(default, np.float64), len(pair)).copy()
    at = np.flatnonzero(known)
    at = at[np.lexsort((sample[at], pair[at]))]
    ordered = pair[at]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    keys, count = ordered[first], np.diff(np.append(first, len(ordered)))
    keep = count >= ENOUGH
    if not keep.any():
        return found
    keys, first, count = keys[keep], first[keep], count[keep]
    low, high = sample[at[first + (count - 1) // 2]], sample[at[first + count // 2]]
    place = np.minimum(np.searchsorted(keys, pair), len(keys) - 1)
    mine = keys[place] == pair
    middle = (low + high) / 2
    if adds_up:
        of = np.searchsorted(keys, pair[at])
        of[(of >= len(keys)) | (keys[np.minimum(of, len(keys) - 1)] != pair[at])] = -1
        near = (of >= 0) & (np.abs(sample[at] - middle[of]) <= UNEXPLAINED)
        middle = np.bincount(of[near], sample[at[near]]) / np.bincount(of[near])
    found[mine] = middle[place[mine]]
    return found


def _fullest(lane: I64, lanes: int) -> list[int]:
    """The lanes with the most events, at most `MANY`."""
    count = counted(lane, lanes)
    order = np.argsort(-count, kind="stable")[:MANY]
    return [one for one in order.tolist() if count[one]]


def build(part: Part) -> Graph:
    """The graph of the whole trace."""
    return graph_of(part)


@fact_of_trace
def graph_of(part: Part) -> Graph:
    """The graph of the whole trace."""
    trace = part.trace
    work = plausible(trace, *DEVICE_WORK)
    launch = trace.launch[work].astype(np.int64)
    calls = plausible(trace, Kind.RUNTIME)
    calls = calls[name_mask(trace, is_synchronizing, Kind.RUNTIME)[trace.name[calls]]]
    copying = unique(
        blocking_copies(trace, work[launch >= 0])[0], calls[among(trace, launch[launch >= 0])[calls]]
    )
    calls = unique(calls, copying)
    driver = drive(trace, calls)
    calls = _driving(trace, driver, calls)
    copying = calls[among(trace, copying)[calls]]
    return _Builder(part, driver, work, launch, calls, copying).graph()


def _driving(trace: Trace, driver: Driver, calls: I64) -> I64:
    """The calls that the CPU makes as it drives, without those within another."""
    same = driver.drives(trace, calls) & (trace.duration[calls] > 0)
    calls = calls[same]
    calls = calls[np.argsort(trace.start[calls], kind="stable")]
    reach = np.maximum.accumulate(trace.end_of(calls))
    inner = np.append(False, trace.start[calls][1:] < reach[:-1])
    found: I64 = calls[~inner[: len(calls)]]
    return found


class _Builder:
    """Finds edges and constants. Columns have one row per node."""

    def __init__(self, part: Part, driver: Driver, work: I64, launch: I64, calls: I64, copying: I64) -> None:
        trace = self.trace = part.trace
        steps = step_table_of(part)
        low, high = trace.span
        start, end = (steps.start, steps.end) if len(steps) else (np.array([low]), np.array([high]))
        marks = np.append(start, end[-1])
        self.by_steps = bool(len(steps))

        is_copying = among(trace, copying)
        blocking = is_copying[launch]
        over = trace.end_of(launch)
        anchor = np.where(launch < 0, trace.start[work], np.where(blocking, trace.start[launch], over))
        early = first_launched(trace)[trace.lane[work]]
        queued = (launch < 0) & ((trace.start[work] < early) | (early == np.iinfo(np.int64).min))
        kinds = [np.where(queued, QUEUED, WORK), np.full(len(calls), WAIT), np.full(len(marks), MARK)]
        slices = np.concatenate([work, calls, np.full(len(marks), -1)])
        kind = np.concatenate(kinds).astype(np.int8)
        when = np.concatenate([np.where(queued, low, anchor), trace.start[calls], marks])
        begun = np.where(slices >= 0, trace.start[slices], when)
        turn = np.concatenate([np.zeros(len(work)), np.ones(len(calls)), np.full(len(marks), 2)])
        order = np.lexsort((begun, turn, when))
        self.kind, self.slices, self.when, self.begin = kind[order], slices[order], when[order], begun[order]
        self.launch = np.concatenate([launch, np.full(len(slices) - len(work), -1)])[order]
        self.blocking = is_copying[self.launch]
        self.end = self.begin + np.where(self.slices >= 0, trace.duration[self.slices], 0)
        self.copying = is_copying[self.slices] & (self.kind == WAIT)
        self.is_work = (self.kind == WORK) | (self.kind == QUEUED)
        self.waits, self.marks = np.flatnonzero(self.kind == WAIT), np.flatnonzero(self.kind == MARK)
        self.driver = driver
        self.held = union(self.begin[self.waits], self.end[self.waits])
        self.lane = np.where(self.slices >= 0, trace.lane[self.slices], -1)
        self._seen()

    def _seen(self) -> None:
        """When the CPU came to each node, as the replay will see it: after a wait, if that is on."""
        self.at = self.when.astype(np.float64)
        if len(self.waits):
            last = np.searchsorted(self.waits, np.arange(len(self.at))) - 1
            over = self.end[self.waits[np.maximum(last, 0)]]
            self.at = np.where(last >= 0, np.maximum(self.at, over), self.at)

    def graph(self) -> Graph:
        trace, count = self.trace, len(self.kind)
        before = self._before()
        has = before >= 0
        ended = np.where(has, self.end[before], -np.inf).astype(np.float64)
        linked = (self.kind == WORK) & (self.launch >= 0) & ~self.blocking
        start = self.begin.astype(np.float64)
        same = has & (self.launch >= 0) & (self.launch == self.launch[before])

        # The device was idle when the launch returned: what passed until the start is the latency.
        idle = linked & ~same & (self.at >= ended)
        sample = (start - self.at)[idle]
        latency = _constant(sample[sample < FAR], LATENCY)
        names = np.where(self.slices >= 0, trace.name[self.slices], -1).astype(np.int64)
        call = np.where(self.launch >= 0, trace.name[self.launch], -1).astype(np.int64)
        pair = call * len(trace.names) + names
        usually = _of_pairs(pair, start - self.at, idle & (start - self.at < FAR), latency.value)
        least = np.where(linked, usually, 0.0)
        least[self.blocking] = (start - self.at)[self.blocking]
        queued = has & self.is_work & (self.at + least < ended)
        sample = np.where(has, start - ended, 0.0)
        usual = sample < FAR
        gap = _constant(sample[queued & ~same & usual], GAP, True)
        in_graphs = _constant(sample[queued & same & usual], min(gap.value, 500.0), True)
        kinds = trace.kind[self.slices]
        odd = has & ((kinds != Kind.KERNEL) | (kinds[before] != Kind.KERNEL))
        gaps = np.where(same, in_graphs.value, gap.value)
        for inside, fallback in ((False, gap), (True, in_graphs)):
            mine = odd & (same == inside)
            gaps[mine] = _constant(sample[queued & mine & usual], fallback.value, True).value
        pair = (np.where(has, names[before], 0) * len(trace.names) + names) * 2 + same
        gaps = _of_pairs(pair, sample, queued & usual, gaps, True)

        least[self.kind == QUEUED] = start[self.kind == QUEUED]
        explained = np.maximum(self.at + least, ended + gaps)
        explained[self.kind == QUEUED] = start[self.kind == QUEUED]
        # What came earlier than the constants allow has its own.
        hasty = self.is_work & (start < explained - UNEXPLAINED)
        own = hasty & (self.at + least > start)
        least[own] = (start - self.at)[own]
        own = hasty & (ended + gaps > start)
        gaps[own] = (start - ended)[own]
        explained = np.where(hasty, np.maximum(self.at + least, ended + gaps), explained)

        waiter, on, on_gap = self._waits_of_streams(start, explained, gap.value)
        if len(waiter):
            np.maximum.at(explained, waiter, self.end[on] + on_gap)
        late = np.where(self.is_work & (start > explained + UNEXPLAINED), start - explained, 0.0)

        targets, held = self._targets()
        ends = np.full(count, -np.inf)
        np.maximum.at(ends, targets, self.end[held].astype(np.float64))
        is_wait, length = self.kind == WAIT, (self.end - self.begin).astype(np.float64)
        waited = is_wait & (ends > self.begin)
        sample = (self.end - ends)[waited & ~self.copying]
        back = _constant(sample[sample < FAR], RETURN)
        returns = np.full(count, back.value)
        returns[self.copying] = (self.end - ends)[self.copying]
        early = is_wait & (self.end < ends + returns - UNEXPLAINED)
        returns[early] = (self.end - ends)[early]
        least[is_wait] = np.where(waited, np.minimum(length, back.value), length)[is_wait]
        explained = np.maximum(self.begin + least, ends + returns)
        late[is_wait] = np.where(self.end > explained + UNEXPLAINED, self.end - explained, 0.0)[is_wait]

        rows = np.concatenate([waiter, targets])
        order = np.argsort(rows, kind="stable")
        first = np.searchsorted(rows[order], np.arange(count + 1))
        nodes = Nodes(
            self.kind,
            own_time(self.held, self.when),
            least,
            before,
            gaps,
            first.astype(np.int64),
            np.concatenate([on, held])[order],
            np.concatenate([on_gap, returns[targets]])[order],
            late,
            np.where(self.is_work, length, 0.0),
        )
        return Graph(
            trace, nodes, self.slices, self.driver, self.held, self.when, self.begin, self._measured(),
            self.marks, self.by_steps, latency, gap, back, in_graphs,
            int(np.count_nonzero(hasty | (late > 0) & self.is_work)), self._alone(),
        )  # fmt: skip

    def _before(self) -> I64:
        """The node before each device event in its stream."""
        before = np.full(len(self.kind), -1, np.int64)
        at = np.flatnonzero(self.is_work)
        order = at[np.lexsort((at, self.lane[at]))]
        same = self.lane[order[1:]] == self.lane[order[:-1]]
        before[order[1:][same]] = order[:-1][same]
        return before

    def _waits_of_streams(self, start: F64, explained: F64, gap: float) -> tuple[I64, I64, F64]:
        """(nodes, what each waits for beside its stream and its launch, the gap after that)."""
        node_of = np.full(len(self.trace) + 1, -1, np.int64)
        at = np.flatnonzero(self.is_work)
        node_of[self.slices[at]] = at
        if len(distinct(self.lane[at], len(self.trace.lanes))) < 2:
            none = np.zeros(0, np.int64)
            return none, none, np.zeros(0)
        told = told_waits(self.trace, self.slices[at])
        waiter, on = node_of[told[0]], node_of[told[1]]
        right = (waiter >= 0) & (on >= 0) & (on < waiter) & (self.end[on] <= start[waiter] + UNEXPLAINED)
        waiter, on = waiter[right], on[right]
        known = explained.copy()
        np.maximum.at(known, waiter, self.end[on] + gap)
        some = [(waiter, on), shown_waits(self, start, known)]
        if not len(told[0]):
            some.append(asked_waits(self.trace, self, start))
        waiter, on = (np.concatenate(each) for each in zip(*some, strict=True))
        after = start[waiter] - self.end[on]
        binding = after[(after < FAR) & (start[waiter] > explained[waiter] + UNEXPLAINED)]
        value = _constant(binding, gap).value
        return waiter, on, np.minimum(value, after)

    def _targets(self) -> tuple[I64, I64]:
        """(waits, the device events that each waits for)."""
        rows, on = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        work = np.flatnonzero(self.is_work)
        if not len(work) or not len(self.waits):
            return rows[0], on[0]
        copies = np.flatnonzero(self.blocking)
        of = self.launch[copies]
        order = np.argsort(self.slices[self.waits], kind="stable")
        at = np.searchsorted(self.slices[self.waits], of, sorter=order)
        own = self.waits[order[np.minimum(at, len(order) - 1)]]
        mine = self.slices[own] == of
        rows.append(own[mine])
        on.append(copies[mine])
        waits = self.waits[~self.copying[self.waits]]
        names = name_mask(self.trace, lambda name: OF_STREAM in name, Kind.RUNTIME)
        of_stream = names[self.trace.name[self.slices[waits]]]
        last = np.searchsorted(work, waits) - 1
        stream = np.where(last >= 0, self.lane[work[np.maximum(last, 0)]], -1)
        latest = self.begin[waits].copy()
        for lane in _fullest(self.lane[work], len(self.trace.lanes)):
            nodes = work[self.lane[work] == lane]
            last = np.searchsorted(nodes, waits) - 1
            ended = self.end[nodes[np.maximum(last, 0)]]
            # A call that ended before this did not wait for it. One stream: that of the last launch.
            right = (last >= 0) & (ended <= self.end[waits] + UNEXPLAINED) & (~of_stream | (stream == lane))
            rows.append(waits[right])
            on.append(nodes[last[right]])
            np.maximum(latest, np.where(right, ended, 0), out=latest)
        # Others waited for what ended just before they did.
        longer = waits[self.end[waits] > latest + FAR]
        shown = ended_before(self, work, self.end, longer, FAR)
        rows.append(shown[0])
        on.append(shown[1])
        return np.concatenate(rows), np.concatenate(on)

    def _alone(self) -> float:
        called = distinct(self.launch[self.launch >= 0], len(self.trace))
        mine = self.driver.alone[self.trace.lane[called]]
        return float(mine.mean()) if len(called) else 0.0

    def _measured(self) -> F64:
        ends = self.end.astype(np.float64)
        reach = np.maximum.accumulate(np.where(self.is_work, ends, -np.inf))
        ends[self.marks] = np.maximum(self.at[self.marks], reach[self.marks])
        return ends


def on_cpu(graph: Graph, at: I64) -> tuple[F64, F64]:
    """Where slices of the CPU begin and end in its own time. Those of threads that do not drive take none.
    Shapes of `at`."""
    start = graph.trace.start[at]
    end = np.where(graph.driver.drives(graph.trace, at), start + graph.trace.duration[at], start)
    return own_time(graph.held, start), own_time(graph.held, end)


def own_time(held: Intervals, time: I64) -> F64:
    """The CPU's own time at some times, ns: it begins as the clock, and stands still while the CPU waits."""
    return np.asarray(time - held.until(time), np.float64)


def whole_time(graph: Graph) -> tuple[F64, F64]:
    """Where the CPU's own time begins and ends, each in an array of one."""
    low, high = (own_time(graph.held, np.array([time])) for time in graph.trace.span)
    return low, high
