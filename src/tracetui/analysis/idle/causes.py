"""Why a device stood idle: each gap is cut into pieces, by what held up the next work at each moment.

Let K be the event that ends a gap [g0, g1), L its launch, and T the thread of L. The pieces are

initialisation  until L's end, while T was in a call that is long because it is the GPU's first use, or in the
                op around it, except for the profiler's own work there; also what CUPTI reports as loading
profiler        until L's end, while the profiler's own work ran
sync            until L, while T was in a synchronizing call. Also the first part of the gap, as long as T had
                waited in such calls between its launch before L and g0: without that wait, L would have come
                that much earlier. The copying in a blocking copy is not such a wait: it is work, for the CPU
                too
allocation      until L, while T was in a call that allocates or frees memory
dispatch        until L, while T was inside an op
host            until L, while T was outside any op: Python, data loading, sleep, logging
launch          from L's start to its end, and then for the latency that is usual in the trace
                (`CpuTime.latency`)
queued          the rest until K: the work was in its stream's queue, and nothing that was recorded ran.
                Also, before all other causes, until L's end while a launch waited for a place in a full queue
back to back    the same, if at most `BACK_TO_BACK_NS` and between two events of one stream
unlinked        all of it, if K has no launch in the trace; but if no work has one, what CUPTI reports as
                loading and the profiler's own work are still counted as such

Of some time it is not known what the device did, or it could do nothing (`trace.unrecorded_time`). All but
`initialisation` and `profiler` gives way to it:

not recorded    work may have run that is not in the file
in flight       a stream still had work from before the recording
graph capture   what is launched during a capture does not run

After a device's last event there is no L: T is then the thread that launched last, and dispatch counts ops of
any thread. If several causes apply at one moment, the first in this list counts, so the pieces of a gap add
up to the gap. The cause of a gap is that of its largest piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np

from tracetui.analysis.calls.ancestors import blocks_of_slices, covering, op_around
from tracetui.analysis.devices import device_of, work_of_devices
from tracetui.analysis.idle.cpu_time import LONGEST_LATENCY_NS, CpuTime
from tracetui.analysis.idle.gaps import DeviceGaps
from tracetui.analysis.idle.parts import CAUSES as CAUSES
from tracetui.analysis.idle.stream_waits import waits_of
from tracetui.analysis.steps.scope import find_steps, launch_times, step_of
from tracetui.analysis.steps.step_table import StepTable
from tracetui.core.columns import counted, distinct, repeated, unique
from tracetui.core.threads import map_blocks, run_parallel, threads_for
from tracetui.trace import Trace
from tracetui.trace.indices import group_positions
from tracetui.trace.intervals import Intervals
from tracetui.trace.model import I8, I32, I64, Bool
from tracetui.trace.unrecorded_time import IN_FLIGHT, NOT_RECORDED, REASONS, unrecorded_time

OF_THE_CPU = ("sync", "allocation", "dispatch", "host", "launch")
"""The causes for which the device waits because of the CPU."""
NOT_THE_PROGRAMS = ("graph capture", "in flight", "not recorded", "initialisation", "profiler")
"""The causes that say nothing about the program's normal running."""
MAYBE_BUSY = (IN_FLIGHT, NOT_RECORDED)
"""The causes that say that the device may not have been idle."""

BACK_TO_BACK_NS = 5_000
"""Up to this much time between two kernels of one stream needs no reason."""
NAMED = 0.1
"""A cause is named beside the main one if it takes at least this share of the gap."""


AT = {cause: i for i, cause in enumerate(CAUSES)}
_KEPT = [AT["initialisation"], AT["profiler"]]
_OF_REASON = np.array([AT[reason] for reason in REASONS])


@dataclass(frozen=True, slots=True)
class Causes:
    """The causes of stretches of idle time. Arrays of one length; slices are -1 where there is none."""

    pieces: I64
    """Shape (n, len(CAUSES)): the time of each cause in ns. A row adds up to the stretch."""
    cause: I8
    """Index into `CAUSES` of the largest piece."""
    event: I64
    """K, the device event that ends the stretch."""
    launch: I64
    """L."""
    op: I64
    """The op around L."""
    step: I32
    """Index of the step in which K was launched, -1 outside of all steps."""
    activity: I64
    """The innermost slice of the launching thread that covers at least half of the stretch."""
    waited_for: I64
    """What the queued work waited for, if the trace shows it: an event of another stream or device."""
    others: I64
    """How long, during the `host` piece, another thread of the process was in ops, ns."""

    def part(self, at: slice) -> Causes:
        """The causes of some of the stretches."""
        return Causes(*(getattr(self, column.name)[at] for column in fields(self)))

    def parts(self, i: int) -> list[tuple[str, int]]:
        """The causes of stretch i and their times in ns, largest first: the main one, and those of at least
        `NAMED` of the stretch."""
        row = self.pieces[i]
        order = [at for at in np.argsort(-row, kind="stable").tolist() if row[at]]
        return [
            (CAUSES[at], int(row[at])) for n, at in enumerate(order) if not n or row[at] >= NAMED * row.sum()
        ]


def others_work(causes: Causes, at: I64 | slice = slice(None)) -> int:
    """How long another thread was in ops while the gaps `at` count as `host`, in ns; 0 if that is below
    `NAMED` of the host time."""
    host, others = (int(of[at].sum()) for of in (causes.pieces[:, AT["host"]], causes.others))
    return others if others >= NAMED * host else 0


class _Cut:
    """The points where one cause gives way to the next in many stretches, for queries at several times."""

    def __init__(self, cut: I64, time: I64) -> None:
        self._cut, self._time = np.sort(cut), time
        self._passed = np.searchsorted(self._cut, time)

    def passed(self, union: Intervals | None = None) -> I64:
        """For each of the times: the length of a union (by default, of all time) before each stretch's cut or
        before the time, whichever is earlier, summed over the stretches. Differences are right even if sums
        overflow."""
        at_cuts, now = (time if union is None else union.until(time) for time in (self._cut, self._time))
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(at_cuts)])
        found: I64 = before[self._passed] + (len(at_cuts) - self._passed) * now
        return found


@dataclass(frozen=True, slots=True)
class CauseTotal:
    """The idle time that one cause explains."""

    cause: str
    gaps: int
    """How many gaps have it as their main cause."""
    duration: int
    """Nanoseconds: its pieces in all gaps."""


def gap_causes(trace: Trace, gaps: DeviceGaps) -> Causes:
    """The causes of a device's gaps, in their order; for a clipped gap, those of the part that is left."""
    begin = trace.end_of(gaps.before)
    idle = IdleTime(trace, begin, trace.start[gaps.after], gaps.after, gaps.before)
    return idle.causes(np.arange(len(gaps)), gaps.start, gaps.end, find_steps(trace))


def lead_in_causes(
    trace: Trace, devices: Sequence[DeviceGaps], cpu: CpuTime | None = None
) -> dict[int, Causes]:
    """The cause of the idle time before each device's first event, as `Causes` of length 1. Devices without
    such time are left out.

    The lead-in is not a gap and counts in no total.
    """
    late = [gaps for gaps in devices if gaps.lead_in > 0]
    work = work_of_devices(trace)
    end = np.array([gaps.first for gaps in late], dtype=np.int64)
    begin = end - np.array([gaps.lead_in for gaps in late], dtype=np.int64)
    first = np.array([work[gaps.device][0] for gaps in late], dtype=np.int64)
    found = explain(trace, begin, end, first, cpu=cpu)
    return {gaps.device: found.part(slice(i, i + 1)) for i, gaps in enumerate(late)}


def cause_totals(causes: Causes) -> list[CauseTotal]:
    """For each cause its time and the number of gaps in which it is the main one, largest first. The times
    add up to the idle time."""
    count = counted(causes.cause, len(CAUSES))
    return cause_table(count.tolist(), causes.pieces.sum(0).tolist())


def cause_table(count: Sequence[int], length: Sequence[int]) -> list[CauseTotal]:
    """The causes that occur, largest first, from counts and lengths in the order of `CAUSES`."""
    found = zip(CAUSES, count, length, strict=True)
    return sorted((CauseTotal(*one) for one in found if one[1] or one[2]), key=lambda total: -total.duration)


def explain(
    trace: Trace,
    start: I64,
    end: I64,
    event: I64,
    before: I64 | None = None,
    steps: StepTable | None = None,
    cpu: CpuTime | None = None,
) -> Causes:
    """The causes of idle stretches [start, end) in ns. `event`: the device event that ends each; `before`:
    the one whose end began it."""
    idle = IdleTime(trace, start, end, event, before, cpu=cpu)
    steps = find_steps(trace) if steps is None else steps
    return idle.causes(np.arange(len(idle.start)), idle.start, idle.end, steps)


def _pieces(count: int) -> I64:
    """Zeros of shape (count, len(CAUSES)), with each cause contiguous in memory, since nearly all code looks
    at one cause at a time."""
    return np.zeros((len(CAUSES), count), np.int64).T


def _largest(pieces: I64) -> I8:
    """The cause of the largest piece of each row, the first of equal ones. Shape (len(pieces),)."""
    cause, most = np.zeros(len(pieces), np.int8), pieces[:, 0].copy()
    for i in range(1, len(CAUSES)):
        cause[pieces[:, i] > most] = i
        np.maximum(most, pieces[:, i], out=most)
    return cause


class IdleTime:
    """Idle stretches of devices, and where in each one cause gives way to the next."""

    def __init__(
        self, trace: Trace, start: I64, end: I64, event: I64, before: I64 | None = None,
        thread: I64 | None = None, cpu: CpuTime | None = None, shift: I64 | None = None,
        device: I64 | None = None,
    ) -> None:  # fmt: skip
        """`event`: the device event that ends each stretch; -1 for none, in which case the activity of the
        lane `thread` counts. `before`: the event whose end began it, -1 (or None) for none. `shift`: how much
        later the stretches are on the axis on which they are sorted (`Devices`), 0 by default. `device`:
        whose stretch each is; None for that of `event`."""
        self.trace = trace
        self.cpu = cpu if cpu is not None else CpuTime(trace)
        self.start, self.end = np.asarray(start, np.int64), np.asarray(end, np.int64)
        self.event = np.asarray(event, np.int64)
        self.before = np.full(len(event), -1) if before is None else np.asarray(before, np.int64)
        self._on_axis = self.start + shift if shift is not None and shift.any() else self.start
        count = len(self.event)
        self.launch, self.lane = np.empty(count, np.int64), np.empty(count, np.int64)
        threads = np.broadcast_to(np.int64(-1), count) if thread is None else thread
        map_blocks(count, lambda some: self._link(some, threads[some]))
        self.unlinked: Bool = self.lane < 0
        self.launched, self.called, self.arrived, self.drained = (np.empty(count, np.int64) for _ in range(4))
        """For each stretch: the start of L within it; the end of L; when the launch has reached the device;
        and the end of the part that is due to waiting before the stretch."""
        self._gone, self._back_to_back = np.empty(count, np.bool_), np.empty(count, np.bool_)
        self._sums = _pieces(count + 1)
        """For each cause, its time in all stretches before each one, and at the end its total."""
        self._main = np.empty(count, np.int8)
        """The cause of the largest piece."""
        self._threads(self.lane)
        self._latency = self.cpu.latency
        map_blocks(count, self._cut)
        self._find_unknown(device_of(trace)[trace.lane[self.event]] if device is None else device)
        # Memory that is never written costs nothing.
        self._there = [cause for cause in range(len(CAUSES)) if self._sums[:, cause].any()]
        for cause in self._there:  # along a two-dimensional axis, numpy would hold the GIL
            np.cumsum(self._sums[:, cause], out=self._sums[:, cause])

    def _link(self, some: slice, thread: I64) -> None:
        """Find L and its lane."""
        trace, ended = self.trace, self.event[some] >= 0
        launch = self.launch[some] = np.where(ended, trace.launch[self.event[some]], -1)
        self.lane[some] = np.where(launch >= 0, trace.lane[launch], np.where(ended, -1, thread))

    def _cut(self, some: slice) -> None:
        """Find where one cause gives way to the next."""
        trace, start, end, launch = self.trace, self.start[some], self.end[some], self.launch[some]
        event, before, lane = self.event[some], self.before[some], self.lane[some]
        linked, ended = launch >= 0, event >= 0
        begun = np.where(linked, trace.start[launch], end)
        over = np.where(linked, trace.end_of(launch), end)
        launched = np.clip(begun, start, end)
        called = np.clip(over, launched, end)
        arrived = np.clip(over + self._latency, called, end)
        drained = np.minimum(start + self._waited(start, launched, launch, lane), launched)
        one_stream = (before >= 0) & ended & (trace.lane[before] == trace.lane[event])
        # The work was launched before the recording, so nothing that the threads do in it holds it up.
        gone = (lane < 0) & ended
        gone &= self.cpu.linked | (one_stream & (end - start <= BACK_TO_BACK_NS))
        for cut in (launched, called, arrived, drained):
            cut[gone] = start[gone]
        self.launched[some], self.called[some] = launched, called
        self.arrived[some], self.drained[some] = arrived, drained
        self._gone[some], self._back_to_back[some] = gone, one_stream & (end - arrived <= BACK_TO_BACK_NS)
        pieces = self._sums[1:][some]
        self._fill(pieces, some, start, end)
        self._main[some] = _largest(pieces)

    def _find_unknown(self, device: I64) -> None:
        """Find what of each stretch is in `unrecorded_time`, and move it to the causes for that."""
        found = [(np.zeros(0, np.int64),) * 4]
        for one, unknown in unrecorded_time(self.trace).items():
            mine = np.flatnonzero(device == one)
            low = np.searchsorted(unknown.end, self.start[mine], side="right")
            many = np.maximum(np.searchsorted(unknown.start, self.end[mine]) - low, 0)
            at = repeated(mine, many)
            which = repeated(low - np.cumsum(many) + many, many) + np.arange(len(at))
            start = np.maximum(unknown.start[which], self.start[at])
            end = np.minimum(unknown.end[which], self.end[at])
            found.append((at, start, end, _OF_REASON[unknown.reason[which]]))
        at, start, end, cause = (np.concatenate(column) for column in zip(*found, strict=True))
        order = np.lexsort((start, at))
        self._unknown = at[order], start[order], end[order], cause[order]
        """(the stretch, the start, the end, the cause) of each such part, by the stretch and by time."""
        if len(at):
            rows = self._sums[1:]
            np.add.at(rows, self._unknown[0], self._moved(*self._unknown))
            some = unique(self._unknown[0])
            self._main[some] = _largest(rows[some])

    def _moved(self, at: I64, low: I64, high: I64, cause: I64) -> I64:
        """What the part [low, high) of each stretch of `at` adds to each cause, where it is unknown."""
        pieces = _pieces(len(at))
        self._fill(pieces, at, low, high)
        pieces[:, _KEPT] = 0
        moved = -pieces
        moved[np.arange(len(at)), cause] += pieces.sum(1)
        return moved

    def _moved_before(self, time: I64, mine: Bool) -> I64:
        """What the unknown time of the stretches of a mask adds to each cause before each time on the clock.
        `time` is sorted. Shape (len(time), len(CAUSES))."""
        which = np.flatnonzero(mine[self._unknown[0]])
        at, start, end, cause = (column[which] for column in self._unknown)
        pieces = _pieces(len(time))
        if not len(at):
            return pieces
        order = np.argsort(end, kind="stable")
        sums = np.cumsum(self._moved(at[order], start[order], end[order], cause[order]), axis=0)
        over = np.searchsorted(end[order], time, side="right")
        pieces[over > 0] = sums[over[over > 0] - 1]
        first = np.searchsorted(time, start, side="right")
        many = np.maximum(np.searchsorted(time, end) - first, 0)
        now = repeated(first - np.cumsum(many) + many, many) + np.arange(int(many.sum()))
        at, start, cause = (repeated(column, many) for column in (at, start, cause))
        np.add.at(pieces, now, self._moved(at, start, time[now], cause))
        return pieces

    def _waited(self, start: I64, launched: I64, launch: I64, lane: I64) -> I64:
        """How long each stretch's thread had waited before it, since the thread's launch before L. Shape
        (n,)."""
        waited = np.zeros(len(start), dtype=np.int64)
        late = np.flatnonzero((launch >= 0) & (launched > start))
        for i, of in group_positions(lane[late], len(self.trace.lanes)):
            waits, mine = self.cpu.waits(i), late[of]
            if len(waits):
                last = self.cpu.launched_before(launch[mine], i)
                none = int(self.trace.start[self.trace.lanes[i].first])
                since = np.where(last >= 0, self.trace.start[last], none)
                waited[mine] = waits.overlap(since, start[mine])
        return waited

    def pieces(self, at: I64, low: I64, high: I64) -> I64:
        """The time of each cause in the part [low, high) of each stretch of `at`. Shape (len(at),
        len(CAUSES))."""
        found = _pieces(len(at))
        map_blocks(len(at), lambda some: self._fill(found[some], at[some], low[some], high[some]))
        if len(self._unknown[0]):
            first, last = (np.searchsorted(self._unknown[0], at, side=side) for side in ("left", "right"))
            many = last - first
            row = repeated(np.arange(len(at)), many)
            which = repeated(first - np.cumsum(many) + many, many) + np.arange(len(row))
            of, start, end, cause = (column[which] for column in self._unknown)
            start, end = np.maximum(start, low[row]), np.minimum(end, high[row])
            np.add.at(found, row, self._moved(of, start, np.maximum(start, end), cause))
        return found

    def _threads(self, lane: I64) -> None:
        """Make `cpu` look at each lane now, not in each of the threads that need the result."""
        lanes = (distinct(lane + 1, len(self.trace.lanes) + 1) - 1).tolist()
        run_parallel([partial(self.cpu.states, one) for one in lanes], threads_for(len(self.trace)))

    def _fill(self, found: I64, at: I64 | slice, low: I64, high: I64) -> None:
        lane = self.lane[at]
        cuts = [self.drained[at], self.launched[at], self.called[at], self.arrived[at]]
        drained, launched, called, arrived = (np.clip(cut, low, high) for cut in cuts)
        lanes = group_positions(lane, len(self.trace.lanes))
        for i, where in lanes:
            of = where if len(lanes) > 1 else slice(None)
            begin, d, c, e = low[of], drained[of], launched[of], called[of]
            started, profiled, waited, allocated, worked = self.cpu.states(i)

            def put(cause: str, time: I64, of: I64 | slice = of) -> None:
                if time.any():  # memory that is never written costs nothing
                    found[of, AT[cause]] = time

            first, full = started.overlap(begin, e), self.cpu.full.overlap(begin, e)
            p0, p1, p2, p3 = (profiled.until(t) for t in (begin, d, c, e))
            sync, ops = waited.overlap(d, c), worked.overlap(d, c)
            allocation = sync if allocated is waited else allocated.overlap(d, c)
            last = self.event[at][of] < 0  # no later launch by any thread
            if last.any() and i >= 0:
                ops[last] += self.cpu.of_others(i, d[last], c[last])
            put("queued", full)
            put("initialisation", first - full)
            put("profiler", p3 - p0 - first)
            put("sync", (d - begin) - (p1 - p0) + sync - (p2 - p1))
            put("allocation", allocation - sync)
            put("dispatch", ops - allocation)
            put("host", (c - d) - ops)
            put("launch", (e - c) - (p3 - p2))
        found[:, AT["launch"]] += arrived - called
        unlinked = np.flatnonzero(self.unlinked[at])
        found[unlinked, AT["unlinked"]] = found[unlinked, AT["host"]]
        found[unlinked, AT["host"]] = 0
        rest = high - arrived
        for cause, mine in self._after_arrival(at):
            some = np.flatnonzero(mine & (rest > 0))
            found[some, AT[cause]] += rest[some]
            if cause == "queued" and len(self.cpu.in_graphs):  # it waits for the CPU
                held = self.cpu.in_graphs.overlap(arrived[some], high[some])
                found[some, AT["queued"]] -= held
                found[some, AT["host"]] += held

    def _after_arrival(self, at: I64 | slice) -> tuple[tuple[str, Bool], ...]:
        """What the end of a stretch counts as, once the launch has reached the device: for each such cause,
        a mask of the stretches `at`."""
        gone, between = self._gone[at], self._back_to_back[at]
        return ("back to back", between), ("unlinked", gone & ~between), ("queued", ~(gone | between))

    def _whole(self, at: I64 | slice) -> I64:
        """The time of each cause in each whole stretch of `at`."""
        first, last = self._sums[:-1], self._sums[1:]
        pieces = _pieces(len(first[at, 0]))
        for cause in self._there:
            np.subtract(last[at, cause], first[at, cause], out=pieces[:, cause])
        return pieces

    @property
    def is_unknown(self) -> Bool:
        """Mask: the stretches of which some part is in `unrecorded_time`."""
        found = np.zeros(len(self.start), dtype=np.bool_)
        found[self._unknown[0]] = True
        return found

    @property
    def main(self) -> I8:
        """The main cause of each stretch."""
        return self._main

    def until(self, time: I64) -> I64:
        """The idle time of each cause before each time on the axis. Shape (len(time), len(CAUSES))."""
        time = np.asarray(time, dtype=np.int64)
        after = np.searchsorted(self._on_axis, time)
        found: I64 = self._sums[after]
        if len(self.start):
            left = time - self._on_axis[after - 1]
            cut = np.flatnonzero((after > 0) & (left < self.end[after - 1] - self.start[after - 1]))
            at = after[cut] - 1
            found[cut] += self.pieces(at, self.start[at], self.start[at] + left[cut]) - self._whole(at)
        return found

    def overlap(self, low: I64, high: I64) -> I64:
        """The idle time of each cause in each [low, high) on the axis; 0 where high <= low. Shape (len(low),
        len(CAUSES))."""
        low = np.asarray(low, dtype=np.int64)
        return self.until(np.maximum(low, high)) - self.until(low)

    def of_all(self, time: I64, mine: Bool) -> I64:
        """The idle time of each cause before each time on the clock, for all stretches of a mask together.
        Shape (len(time), len(CAUSES)). Gives the sum of `until` over the stretches, without looking at each
        pair of a stretch and a time."""
        found, at = _pieces(len(time)), np.flatnonzero(mine)
        for i, where in group_positions(self.lane[at], len(self.trace.lanes)):
            ended = self.event[at[where]] >= 0
            for last, of in ((False, at[where[ended]]), (True, at[where[~ended]])):
                if len(of):
                    self._add(found, time, of, i, last)
        for cause, some in self._after_arrival(at):
            arrived, end = (_Cut(of[at[some]], time) for of in (self.arrived, self.end))
            found[:, AT[cause]] += end.passed() - arrived.passed()
            if cause == "queued" and len(self.cpu.in_graphs):
                held = end.passed(self.cpu.in_graphs) - arrived.passed(self.cpu.in_graphs)
                found[:, AT["queued"]] -= held
                found[:, AT["host"]] += held
        return found + self._moved_before(time, mine)

    def _add(self, found: I64, time: I64, of: I64, i: int, last: bool) -> None:
        """Add what `_fill` finds, for stretches of one lane. `last`: they end without any work."""
        started, profiled, waited, allocated, worked = self.cpu.states(i)
        if last and i >= 0:  # no later launch by any thread
            worked = self.cpu.with_others(i)
        a, d, c, e, r = (
            _Cut(cut[of], time)
            for cut in (self.start, self.drained, self.launched, self.called, self.arrived)
        )

        def within(union: Intervals, low: _Cut, high: _Cut) -> I64:
            return high.passed(union) - low.passed(union) if len(union) else np.zeros(len(time), np.int64)

        first, full = within(started, a, e), within(self.cpu.full, a, e)
        sync, ops, allocation = (within(union, d, c) for union in (waited, worked, allocated))
        in_wait, before_launch, in_launch = (within(profiled, *cuts) for cuts in ((a, d), (d, c), (c, e)))
        found[:, AT["queued"]] += full
        found[:, AT["initialisation"]] += first - full
        found[:, AT["profiler"]] += in_wait + before_launch + in_launch - first
        found[:, AT["sync"]] += d.passed() - a.passed() - in_wait + sync - before_launch
        found[:, AT["allocation"]] += allocation - sync
        found[:, AT["dispatch"]] += ops - allocation
        found[:, AT["host" if i >= 0 else "unlinked"]] += c.passed() - d.passed() - ops
        found[:, AT["launch"]] += r.passed() - c.passed() - in_launch

    def causes(self, every: I64, low: I64, high: I64, steps: StepTable) -> Causes:
        """Everything about the part [low, high) of each stretch of `every`."""
        n = len(low)
        in_turn = n > 0 and int(every[-1]) - int(every[0]) == n - 1
        at = slice(int(every[0]), int(every[-1]) + 1) if in_turn else every
        trace, launch, event = self.trace, self.launch[at], self.event[at]
        whole = np.array_equal(low, self.start[at]) and np.array_equal(high, self.end[at])
        pieces = self._whole(at) if whole else self.pieces(every, low, high)
        op, activity, others = np.empty(n, np.int64), np.empty(n, np.int64), np.zeros(n, np.int64)
        cause, step = self._main[at] if whole else np.empty(n, np.int8), np.empty(n, np.int32)
        self._threads(self.lane[at])

        def look(some: slice) -> None:
            mine = every[some]
            linked = launch[some] >= 0
            op[some] = np.where(linked, trace.op[launch[some]], -1)
            lost = some.start + np.flatnonzero(linked & (op[some] < 0))
            op[lost] = op_around(trace, launch[lost])
            step[some] = step_of(steps, launch_times(trace, event[some]))
            # What the CPU did before the launch or, if the launch came first, during the gap.
            start, launched, lane = self.start[mine], self.launched[mine], self.lane[mine]
            until = np.where(launched > start, launched, self.end[mine])
            activity[some] = covering(trace, lane, start, until)
            if not whole:
                cause[some] = _largest(pieces[some])
            begin, end = (np.clip(cut[mine], low[some], high[some]) for cut in (self.drained, self.launched))
            for i, of in group_positions(lane, len(trace.lanes)):
                if i >= 0 and len(self.cpu.process_ops(i)):
                    others[some.start + of] = self.cpu.of_others(i, begin[of], end[of])

        map_blocks(n, look, blocks_of_slices(trace))
        waited_for = self.waited_for(every[pieces[:, AT["queued"]] > 0])[at]
        return Causes(pieces, cause, event, launch, op, step, activity, waited_for, others)

    def waited_for(self, queued: I64) -> I64:
        """What K's stream was told to wait for (`stream_waits`), if that ran until the stretch began.
        Otherwise what ended just before K: the event that began the stretch, if on another stream; or work of
        another device. -1 if no recorded work did, and for stretches not in `queued`."""
        trace, found = self.trace, np.full(len(self.start), -1, dtype=np.int64)
        if not len(queued):
            return found
        before, event, end = self.before[queued], self.event[queued], self.end[queued]
        other = (before >= 0) & (trace.lane[before] != trace.lane[event])
        short = end - self.start[queued] <= LONGEST_LATENCY_NS
        found[queued] = np.where(other & short, before, -1)
        long = end - self.arrived[queued] > BACK_TO_BACK_NS
        for i, sources in zip(queued[long].tolist(), waits_of(trace, event[long]), strict=True):
            over = trace.end_of(sources)
            held = sources[(over >= self.start[i]) & (over <= self.end[i])]
            if len(held):  # otherwise it ended earlier, and is not the reason
                found[i] = held[np.argmax(trace.end_of(held))]
        left = queued[(found[queued] < 0) & long]
        if len(left) and len(self.cpu.work) > 1:
            work, over, before = self.cpu.ended
            at = np.searchsorted(over, self.end[left], side="right") - 1
            device = device_of(trace)
            mine = device[trace.lane[self.event[left]]]
            same = (at >= 0) & (device[trace.lane[work[at]]] == mine)
            at = np.where(same, before[at], at)
            near = (
                (at >= 0) & (over[at] > self.start[left]) & (self.end[left] - over[at] <= LONGEST_LATENCY_NS)
            )
            # Work that another process launched on another device is nothing that this process waits for.
            process = np.array([lane.process for lane in trace.lanes], dtype=np.int64)
            own, theirs = (trace.launch[of] for of in (self.event[left], work[at]))
            near &= (own < 0) | (theirs < 0) | (process[trace.lane[own]] == process[trace.lane[theirs]])
            found[left[near]] = work[at[near]]
        return found
