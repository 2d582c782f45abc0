"""The two sides of a comparison: the rounds that are compared, and the round of each of their events."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tracetui.analysis.calls.ancestors import op_around
from tracetui.analysis.calls.calls import is_collective, self_time_of
from tracetui.analysis.calls.compiling import compile_phases
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.split import COLUMNS, IDLE, split_of
from tracetui.analysis.idle.verdict import judge
from tracetui.analysis.part import Part
from tracetui.analysis.select import has_kind, name_mask, plausible
from tracetui.analysis.steps.loading import loading_time
from tracetui.analysis.steps.scope import launch_times, step_of, step_table_of, step_windows_of
from tracetui.analysis.steps.steps import StepRow, steps_of
from tracetui.compare.align import align
from tracetui.core.safe_text import plain
from tracetui.trace.intervals import Intervals
from tracetui.trace.model import DEVICE_WORK, F64, I64, Bool, Kind, Trace
from tracetui.trace.unknown import idle_known

PACE = 0.8
"""A device that works for at least this share of the time sets the pace."""
CATCHES_UP = 1.5
"""If steps take more than this many times as long on the CPU as on the device, the device is only catching
up."""
LOADING = 0.1
"""Data loading is mentioned if it changes by this share of a round."""
LAG = 0.1
"""A device is behind the CPU if its steps end at least this share of a step after the next one began on the
CPU."""


@dataclass(frozen=True)
class Side:
    """The rounds of one recording that are compared: all its steps, some of them or, without steps, the whole
    recording as one round."""

    part: Part
    steps: I64
    """Positions in the trace's step table; empty if the recording is one round."""
    calls_only: bool = False
    """Whether its device work is left out: one of the recordings lost its kernels, or has none."""
    work_only: bool = False
    """Whether its ops are left out: one of the recordings has none."""
    left_out: int = 0
    """How many more steps there are that lack some of what they launch."""
    no_calls: bool = False
    """Whether everything on the CPU is left out: one of the recordings has nothing there."""

    @property
    def trace(self) -> Trace:
        return self.part.trace

    @property
    def rounds(self) -> int:
        """The number of rounds, at least one."""
        return max(1, len(self.steps))

    @cached_property
    def lost(self) -> int:
        """How many of its launches have no device event in the file, if others have some."""
        return sum(row.lost for row in self.rows) if has_kind(self.trace, *DEVICE_WORK) else 0

    @cached_property
    def rows(self) -> tuple[StepRow, ...]:
        """The step table's row for each round."""
        steps = steps_of(self.part)
        return tuple(steps.rows[int(i)] for i in self.steps) if len(self.steps) else (steps.whole,)

    @cached_property
    def verdict(self) -> str | None:
        """The bottleneck, one of `VERDICTS`; None if these are only some of the steps, or if it is not
        known."""
        if len(self.steps) not in (0, 1, len(step_table_of(self.part)) - self.left_out):
            return None
        row = self.rows[0] if len(self.steps) == 1 else steps_of(self.part).whole
        return row.verdict.verdict if row.verdict.verdict != "not known" else None

    def only(self, rounds: list[int]) -> Side:
        """This side with only these rounds."""
        return self if rounds == list(range(self.rounds)) else replace(self, steps=self.steps[rounds])

    def label(self, round_: int) -> str:
        """The name of a round; "the recording" if there are no steps."""
        return self.rows[round_].label if len(self.steps) else "the recording"

    @cached_property
    def work(self) -> I64:
        """The device work of the rounds, by (stream, start) (slices)."""
        return self._work[0]

    @cached_property
    def work_round(self) -> I64:
        """The round of each of `work`."""
        return self._work[1]

    @cached_property
    def _work(self) -> tuple[I64, I64]:
        at = plausible(self.trace, *DEVICE_WORK)
        at = at[:0] if self.calls_only else at
        return self._in_rounds(at, launch_times(self.trace, at))

    @cached_property
    def calls(self) -> I64:
        """The ops and runtime calls of the rounds, by (thread, start, longest first) (slices). Annotations
        inside an op count as calls too: PyTorch's own, such as `## Call CompiledFxGraph ##`. Threads that
        neither launch nor have ops are left out: they only poll, and how often depends on how long something
        takes."""
        return self._calls[0]

    @cached_property
    def call_round(self) -> I64:
        """The round of each of `calls`."""
        return self._calls[1]

    @cached_property
    def _calls(self) -> tuple[I64, I64]:
        trace = self.trace
        kinds = (Kind.RUNTIME,) if self.work_only else (Kind.CPU_OP, Kind.RUNTIME, Kind.ANNOTATION)
        at = plausible(trace, *kinds)
        at = at[:0] if self.no_calls else at
        works = np.zeros(len(trace.lanes), dtype=np.bool_)
        works[trace.lane[at[trace.kind[at] == Kind.CPU_OP]]] = True
        launch = trace.launch[plausible(trace, *DEVICE_WORK)]
        works[trace.lane[launch[launch >= 0]]] = True
        # The work they launch may not be recorded.
        works[trace.lane[at[name_mask(trace, lambda name: "LaunchKernel" in name)[trace.name[at]]]]] = True
        at = at[works[trace.lane[at]]]
        noted = np.flatnonzero(trace.kind[at] == Kind.ANNOTATION)
        own = ~name_mask(trace, is_collective)[trace.name[at[noted]]] & (op_around(trace, at[noted]) >= 0)
        at = np.delete(at, noted[~own])
        return self._in_rounds(at, trace.start[at])

    def _in_rounds(self, at: I64, time: I64) -> tuple[I64, I64]:
        """The slices that are in a round, and the number of that round. `time`: when they began on the
        CPU."""
        of = self._round_at(time)
        return at[of >= 0], of[of >= 0]

    @cached_property
    def annotations(self) -> dict[str, str]:
        """The names, without numbers, of the annotations around ops that most rounds have, except those of
        steps and collectives: each with one full name. In the order of the trace."""
        trace = self.trace
        at = plausible(trace, Kind.ANNOTATION)
        own = name_mask(trace, lambda name: not is_collective(name) and not name.startswith("ProfilerStep#"))
        at = at[own[trace.name[at]]]
        at = at[op_around(trace, at) < 0]
        at, of = self._in_rounds(at, trace.start[at])
        _, first = np.unique(trace.name[at].astype(np.int64) * max(1, self.rounds) + of, return_index=True)
        found: dict[str, tuple[str, set[int]]] = {}
        for i in np.sort(first).tolist():
            name = plain(trace.name_of(int(at[i])), 60)
            found.setdefault(re.sub(r"\d+", "", name), (name, set()))[1].add(int(of[i]))
        return {key: name for key, (name, rounds) in found.items() if 2 * len(rounds) > self.rounds}

    def round_of(self, at: I64) -> I64:
        """The round of each slice, -1 for none: the one in which it starts or, for device work, in which it
        was launched. Shape of `at`."""
        return self._round_at(launch_times(self.trace, at))

    def _round_at(self, time: I64) -> I64:
        if not len(self.steps):
            return np.zeros(len(time), dtype=np.int64)
        table = step_table_of(self.part)
        place = np.full(len(table) + 1, -1, dtype=np.int64)
        place[self.steps] = np.arange(len(self.steps))
        return place[step_of(table, time)]

    @cached_property
    def windows(self) -> tuple[I64, I64]:
        """(starts, ends) of the rounds on the wall clock, ns."""
        low, high = step_windows_of(self.part)
        if len(self.steps):
            # The last one lasts as long as its work.
            high = np.append(low[1:], step_table_of(self.part).end[-1:]) if self.calls_only else high
            return low[self.steps], high[self.steps]
        begin, end = self.trace.span
        return np.array([begin]), np.array([end])

    @cached_property
    def spans(self) -> tuple[I64, I64]:
        """(starts, ends) of the rounds, ns: each goes from the end of the one before to its own end, which is
        the end on the CPU or of the work it launched, whichever is later. The first begins after the earlier
        work that the device still had to do, if that ends within it. If the CPU runs ahead of the device, the
        windows on the CPU do not show the pace. They do, however, if the device was held up long before and
        does the work of slower steps all at once."""
        if not len(self.steps) or self.calls_only or not idle_known(self.trace):
            return self.windows
        table = step_table_of(self.part)
        low, high = step_windows_of(self.part)
        at = plausible(self.trace, *DEVICE_WORK)
        launched = launch_times(self.trace, at)
        step, over = step_of(table, launched), self.trace.end_of(at)
        done = table.end.copy()
        np.maximum.at(done, step[step >= 0], over[step >= 0])
        done = np.maximum.accumulate(np.maximum(done, np.append(low[1:], high[-1:])))
        earlier = over[(launched < low[0]) & (over < done[0])]
        began = np.append(max(int(low[0]), int(earlier.max(initial=low[0]))), done[:-1])
        if np.median(high - low) > CATCHES_UP * np.median(done - began):
            return self.windows
        return began[self.steps], done[self.steps]

    @cached_property
    def times(self) -> I64:
        """The length of each round, ns."""
        began, done = self.spans
        return done - began

    @cached_property
    def idle(self) -> tuple[dict[str, int], ...]:
        """The idle time of the devices in each round: cause to ns. If the device works behind the CPU, in
        `spans`, else in the windows of the steps."""
        if self._behind:
            spent = self._device_time[:, IDLE].tolist()
            found = [{cause: ns for cause, ns in zip(COLUMNS[IDLE], one, strict=True) if ns} for one in spent]
        else:
            found = [dict(row.window_causes) for row in self.rows]
        for one in found if self.work_only else ():
            # If no ops are recorded, the time in them counts as outside all calls.
            one["host"] = one.get("host", 0) + one.pop("dispatch", 0)
        return tuple(found)

    @cached_property
    def loading(self) -> I64:
        """How long each round waited for its `DataLoader`, ns."""
        return loading_time(self.part).overlap(*self.windows)

    @cached_property
    def compiling(self) -> I64:
        """How long torch.compile was compiling in each round, ns."""
        return self.compiler.overlap(*self.windows)

    @cached_property
    def compiler(self) -> Intervals:
        """When torch.compile was compiling."""
        return busy_union(self.trace, compile_phases(self.part.whole))

    @cached_property
    def talking(self) -> I64:
        """For a recording of the CPU alone, how long each round was in collectives and in no op, ns."""
        cpu = [row.verdict.cpu for row in self.rows]
        return np.array([0 if one is None else one.exposed_communication for one in cpu], dtype=np.int64)

    @cached_property
    def busy_shares(self) -> F64:
        """The share of the counted time in which the devices worked, for each round where it is known; over
        the same times as `idle`."""
        if not idle_known(self.trace):
            return np.zeros(0)
        if not self._behind:
            shares = [row.busy_share for row in self.rows]
            return np.array([share for share in shares if share is not None], dtype=np.float64)
        found = [judge(one, None).busy_share for one in self._device_time]
        return np.array([share for share in found if share is not None], dtype=np.float64)

    @cached_property
    def _behind(self) -> bool:
        """Whether the device does a step's work after the step on the CPU, because it sets the pace or lags.
        Taken from all steps of the recording, so that a step and the ones it is compared with use the same
        kind of times."""
        if not len(self.steps) or not idle_known(self.trace):
            return False
        every = side_of(self.part)
        if len(every.steps) != len(self.steps):
            return every._behind
        lag = self.spans[1] - self.windows[1]
        return paced_by_device(self) or bool(np.median(lag) >= LAG * np.median(self.times))

    @cached_property
    def _device_time(self) -> I64:
        """The device time of each round in `spans`, by `COLUMNS`, ns."""
        split = split_of(self.part)
        return np.asarray(split.judged(split.overlap(*self.spans)).sum(0), dtype=np.int64)

    @cached_property
    def work_time(self) -> I64:
        """The time of all device work that each round launched, ns; overlapping work counts twice."""
        return sum_into(self.work_round, self.trace.duration[self.work], self.rounds)

    @cached_property
    def op_time(self) -> I64:
        """The self time of the ops of each round, on all threads, ns."""
        ops = self.trace.kind[self.calls] == Kind.CPU_OP
        return sum_into(self.call_round[ops], self_time_of(self.part)[self.calls[ops]], self.rounds)


def loads_otherwise(a: Side, b: Side) -> bool:
    """Whether the two sides' rounds differ enough in how long they wait for data to mention it."""
    before, after = (float(np.median(side.loading)) for side in (a, b))
    longest = max(float(np.median(side.times)) for side in (a, b))
    paced = paced_by_device(a) and paced_by_device(b)
    return not (paced or a.calls_only) and abs(after - before) >= LOADING * longest


def device_name(side: Side) -> str:
    """The name of its first device, safe to show; "" if not known."""
    name = next(iter(side.trace.info.devices), {}).get("name")
    return plain(name, 60) if isinstance(name, str) else ""


def paced_by_device(side: Side) -> bool:
    """Whether the device's work sets the pace of the rounds."""
    return bool(np.median(side.work_time) >= PACE * np.median(side.times) > 0)


def side_of(part: Part, steps: Sequence[int] | None = None) -> Side:
    """All steps of a trace, those at these positions, or the whole recording if it has none."""
    count = len(step_table_of(part))
    return Side(part, np.arange(count) if steps is None else np.array(steps, dtype=np.int64))


def pair_rounds(a: Side, b: Side) -> list[tuple[int, int]]:
    """Which rounds are compared event by event: in order; if one side has more, those that launch the same
    work. If one round is compared with several, the one with times nearest to the medians."""
    if a.rounds == b.rounds:
        return [(i, i) for i in range(a.rounds)]
    if a.rounds == 1 or b.rounds == 1:
        return [(_typical(a), _typical(b))]
    marks: dict[object, int] = {}
    names: dict[str, int] = {}
    left, right = (_signatures(side, marks, names) for side in (a, b))
    at_a, at_b = align(left, right)
    return list(zip(at_a.tolist(), at_b.tolist(), strict=True)) or [(_typical(a), _typical(b))]


def _typical(side: Side) -> int:
    """The round nearest to the medians of the time and of the ops' time, so that an explanation of the
    difference from it agrees with the numbers."""
    away = np.zeros(side.rounds)
    for times in (side.times, side.op_time):
        if middle := float(np.median(times)):
            away += np.abs(times / middle - 1)
    return int(np.argmin(away))


def _signatures(side: Side, marks: dict[object, int], names: dict[str, int]) -> I64:
    """A number for each round, the same for rounds that run the same device work (without device work: that
    make the same calls)."""
    trace = side.trace
    at, of = (side.work, side.work_round) if len(side.work) else (side.calls, side.call_round)
    own = np.array([names.setdefault(name, len(names)) for name in trace.names], dtype=np.int64)[
        trace.name[at]
    ]
    return np.array(
        [marks.setdefault(own[of == i].tobytes(), len(marks)) for i in range(side.rounds)], np.int64
    )


def by_graph(side: Side, events: Sequence[int] | I64) -> Bool:
    """Which of these were launched as part of a graph."""
    launch = side.trace.launch[np.array(events, dtype=np.int64)]
    graph = name_mask(side.trace, lambda name: "GraphLaunch" in name)
    return np.asarray((launch >= 0) & graph[side.trace.name[launch]], dtype=np.bool_)
