"""Analysis results of a trace, or of a part of it: each is computed once, cached, and shared by reports,
tables, panes and findings.

The first call of a method computes its result in the calling thread; later calls are free.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tracetui.analysis.select import called, distinct, named, plausible
from tracetui.analysis.steps.scope import (
    NEVER,
    WHOLE,
    Scope,
    StepTable,
    find_steps,
    launch_times,
    members,
    step_of,
)
from tracetui.core import threads as machine
from tracetui.core.copying import replace
from tracetui.core.units import duration
from tracetui.trace.model import DEVICE_WORK, I64, Bool, Kind, Trace

if TYPE_CHECKING:
    from tracetui.analysis.calls.averages import Averages
    from tracetui.analysis.calls.calls import Calls
    from tracetui.analysis.calls.launches import Launches, ShortKernels
    from tracetui.analysis.calls.memory import MemoryUse
    from tracetui.analysis.idle.activity import SmallOps
    from tracetui.analysis.idle.causes import Causes
    from tracetui.analysis.idle.cpu_time import CpuTime
    from tracetui.analysis.idle.cpu_verdict import CpuWork
    from tracetui.analysis.idle.gap_list import GapList
    from tracetui.analysis.idle.gaps import DeviceGaps
    from tracetui.analysis.idle.kinds import TimeByKind
    from tracetui.analysis.idle.split import Split
    from tracetui.analysis.idle.verdict import Verdict
    from tracetui.analysis.names.model import KernelName
    from tracetui.analysis.rates.efficiency import EfficiencyTable
    from tracetui.analysis.steps.steps import Steps
    from tracetui.trace.intervals import Union
    from tracetui.trace.memory import Records

T = TypeVar("T")


_NONE: Any = object()


def once(make: Callable[[Results], T]) -> Callable[[Results], T]:
    """A method whose result is computed once and cached under the method's name."""

    @wraps(make)
    def result(self: Results) -> T:
        return self.kept(make.__name__, partial(make, self))

    return result


def of_trace(make: Callable[[Results], T]) -> Callable[[Results], T]:
    """Like `once`, for a result that is the same for every part of the trace."""

    @wraps(make)
    def result(self: Results) -> T:
        return self.whole.kept(make.__name__, partial(make, self.whole))

    return result


class Results:
    """Analyses of one trace or, if made by `within`, of a part of it."""

    def __init__(self, trace: Trace, scope: Scope = WHOLE, whole: Results | None = None) -> None:
        self.trace = trace
        self.scope = scope
        self._whole = whole
        """None for the whole itself: a reference cycle would keep the trace alive until the next gc run."""
        self._kept: dict[object, Any] = {}
        self._locks: dict[object, threading.Lock] = {}
        self._lock = threading.Lock()
        self._part: Results | None = None

    @property
    def whole(self) -> Results:
        """The results of the whole trace."""
        return self._whole or self

    def kept(self, key: object, make: Callable[[], T]) -> T:
        """The cached result under this key, computed by `make` on the first call."""
        # One lock per key: a thread that wants the gaps does not wait for the averages.
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            found: T = self._kept.get(key, _NONE)
            if found is _NONE:
                machine.give_way()
                found = self._kept[key] = make()
            return found

    def forget(self, *names: str) -> None:
        """Where memory is short, drop the results of these methods: they are computed again when needed."""
        if machine.is_short_of_memory(len(self.trace)):
            for key in list(self._kept):
                if (key[0] if isinstance(key, tuple) else key) in names:
                    self._kept.pop(key, None)

    def ready(self, name: str) -> bool:
        """Whether this method's result is in the cache."""
        return name in self._kept

    def within(self, scope: Scope | None) -> Results:
        """The results of a part of the trace. Only those of the latest part are cached."""
        whole = self.whole
        if scope is None or scope.kind == "whole":
            return whole
        with whole._lock:
            if whole._part is None or whole._part.scope != scope:
                whole._part = Results(whole.trace, scope, whole)
            return whole._part

    # Time and steps

    @property
    def is_whole(self) -> bool:
        return self._whole is None

    @property
    def span(self) -> tuple[int, int]:
        """(start, end) of the scope, in ns."""
        return self.trace.span if self.is_whole else (self.scope.start, self.scope.end)

    @property
    def window(self) -> tuple[int, int]:
        """(start, end) of the scope on the wall clock, in ns: a step's window lasts until the next step."""
        if self.scope.kind != "step":
            return self.span
        low, high = self.step_windows()
        return int(low[self.scope.step]), int(high[self.scope.step])

    @of_trace
    def step_table(self) -> StepTable:
        """Where the trace's steps are."""
        return find_steps(self.trace)

    @of_trace
    def step_windows(self) -> tuple[I64, I64]:
        """(starts, ends) of the windows of all steps, in ns."""
        from tracetui.analysis.steps.steps import step_windows

        return step_windows(self.trace, self.step_table())

    @of_trace
    def steps(self) -> Steps:
        """All steps of the trace, everything outside them, and the whole."""
        from tracetui.analysis.steps.steps import summarize_steps

        return summarize_steps(
            self.trace, split=self.split(), kinds=self.time_by_kind(), windows=self.step_windows()
        )

    @of_trace
    def time_by_kind(self) -> TimeByKind:
        """The time of each kind of device work by step, and over the whole trace."""
        from tracetui.analysis.idle.kinds import time_by_kind

        return time_by_kind(self.trace, self.step_table(), self.launches())

    def step_at(self, time: int, event: int | None = None) -> Scope | None:
        """The step that an event belongs to or, without an event, the step that a time is in."""
        table = self.step_table()
        times = np.array([time]) if event is None else launch_times(self.trace, np.array([event]))
        i = int(step_of(table, times)[0])
        return table.scope(i) if i >= 0 else None

    # Calls, averages, memory

    def calls(self, python_functions: bool = False) -> Calls:
        """The tree of calls behind the averages."""
        from tracetui.analysis.calls.calls import build_calls

        make = partial(build_calls, self.trace, python_functions)
        return self.whole.kept(("calls", python_functions), make)

    def averages(self, group: str = "name", python_functions: bool = False) -> Averages:
        """The averages, by one of `GROUPS`."""
        from tracetui.analysis.calls.averages import averages

        def make() -> Averages:
            return averages(self.trace, self.scope, group=group, calls=self.calls(python_functions))

        return self.kept(("averages", group, python_functions), make)

    @of_trace
    def memory(self) -> Records | None:
        """Allocations and frees; None if they were not recorded."""
        from tracetui.trace.memory import memory_records

        return memory_records(self.trace)

    def memory_use(self, group: str = "name", python_functions: bool = False) -> MemoryUse | None:
        """The memory of each row of `averages`; None if it was not recorded."""
        from tracetui.analysis.calls.averages import memory_use

        records = self.memory()
        if records is None:
            return None
        table = self.averages(group, python_functions)
        return memory_use(self.trace, self.calls(python_functions), table, records)

    # Gaps

    @once
    def gaps(self) -> GapList:
        """The gaps of every device, in one list; for a part of the trace, cut at its borders."""
        from tracetui.analysis.idle.gap_list import list_gaps
        from tracetui.analysis.idle.gaps import clip, find_gaps

        if self.is_whole:
            return list_gaps(find_gaps(self.trace))
        return list_gaps([clip(device, *self.window) for device in self.whole.gaps().devices])

    @of_trace
    def cpu_time(self) -> CpuTime:
        """What each launching thread was doing at any time."""
        from tracetui.analysis.idle.cpu_time import CpuTime

        return CpuTime(self.trace)

    @of_trace
    def split(self) -> Split:
        """The time of each device over the whole recording: what it did, and why it stood idle."""
        from tracetui.analysis.idle.split import Split

        return Split(self.trace, self.gaps().devices, self.cpu_time())

    @once
    def causes(self) -> Causes:
        """The causes of all gaps, in the order of `gaps`."""
        return self.split().causes(self.gaps(), self.step_table())

    @once
    def device_causes(self) -> tuple[Causes, ...]:
        """The same, device by device."""
        found, first = [], 0
        for device in self.gaps().devices:
            found.append(self.causes().part(slice(first, first + len(device))))
            first += len(device)
        return tuple(found)

    @once
    def small_ops(self) -> SmallOps:
        """The small ops that fill gaps, in the order of `gaps`."""
        from tracetui.analysis.idle.activity import small_ops

        return small_ops(self.trace, self.gaps().before, self.causes())

    @property
    def busy_share(self) -> float | None:
        """Busy time of all devices over their spans; None without device events."""
        span = sum(device.span for device in self.gaps().devices)
        return self._busy / span if span else None

    @property
    def _busy(self) -> int:
        return sum(device.busy for device in self.gaps().devices)

    # Launches and the verdict

    @once
    def launches(self) -> Launches:
        """The launches of the scope's device events."""
        from tracetui.analysis.calls.launches import find_launches

        return find_launches(self.trace, self.scope)

    @once
    def short_kernels(self) -> ShortKernels:
        """The events that took less time than their launch."""
        from tracetui.analysis.calls.launches import short_kernels

        return short_kernels(self.trace, self.launches())

    @once
    def launch_calls(self) -> I64:
        """The calls that launched them, in order (slices)."""
        return distinct(self.launches().launch, len(self.trace))

    @once
    def launching_lanes(self) -> Bool:
        """Mask over ``trace.lanes``: the threads that made those calls."""
        lanes = np.zeros(len(self.trace.lanes), dtype=np.bool_)
        lanes[self.trace.lane[self.launch_calls()]] = True
        return lanes

    @once
    def verdict(self) -> Verdict:
        """What holds back the trace, or this part of it."""
        from tracetui.analysis.idle.gaps import without_work_text
        from tracetui.analysis.idle.verdict import of_earlier_work
        from tracetui.analysis.unrecorded import lost_text

        verdict = self._verdict()
        if verdict.verdict == "not known" and verdict.busy_share is None:
            return replace(verdict, reason=without_work_text(self.trace))
        if (ahead := self.launches().ahead) and verdict.busy_share:
            said = f"Most GPU work starts before its launch, by {duration(ahead)}: the clocks of CPU and GPU"
            verdict = replace(verdict, reason=f"{verdict.reason} {said} differ, so causes are not reliable.")
        if said := lost_text(self.trace, *self.span, self.is_whole):
            verdict = replace(verdict, reason=f"{verdict.reason} {said}")
        return of_earlier_work(verdict, self.earlier_share())

    def _verdict(self) -> Verdict:
        from tracetui.analysis.idle.verdict import judge

        if self.is_whole:
            return self.steps().whole.verdict
        if self.scope.kind == "step":
            return self.steps().rows[self.scope.step].verdict
        delay, time = self.launches().median_delay, self.judged_times()
        base = "of the view" if self.scope.kind == "viewport" else "of the range"
        if not len(time) and (cpu := self.cpu_work()) is not None:
            return cpu.verdict([self.judged_range()], base)
        return judge(time.sum(0) if len(time) else None, delay, base, devices=len(time))

    @of_trace
    def earlier_work(self) -> I64:
        """The device work that was launched before the recording, by (lane, start) (slices)."""
        at = plausible(self.trace, *DEVICE_WORK)
        early = launch_times(self.trace, at) == NEVER
        return np.asarray(at[early], dtype=np.int64)

    @once
    def earlier_share(self) -> float:
        """The share, 0 to 1, of the busy time that the verdict is about in which such work runs."""
        from tracetui.analysis.devices import busy_in

        at, (low, high) = self.earlier_work(), self.judged_range()
        if not len(at) or not self.whole.gaps().devices:
            return 0.0
        early = np.zeros(len(self.trace), dtype=np.bool_)
        early[at] = True
        busy = busy_in(self.trace, low, high)
        return busy_in(self.trace, low, high, early) / busy if busy else 0.0

    @of_trace
    def cpu_work(self) -> CpuWork | None:
        """What the CPU did, in a trace of the CPU alone; None for others."""
        from tracetui.analysis.idle.cpu_verdict import cpu_work

        return cpu_work(self.trace)

    @once
    def judged_times(self) -> I64:
        """The time that the verdict is about, by device (`split.COLUMNS`, ns). Shape (devices,
        len(COLUMNS))."""
        split, (low, high) = self.split(), (np.array([time]) for time in self.judged_range())
        time = split.judged(split.within(low, high)[:, 0])
        if self._judged_by_steps or (self.scope.kind == "step" and not self.scope.step):
            time = time - split.judged(split.lead_ins(*self.step_windows()))
        return time

    @property
    def _judged_by_steps(self) -> bool:
        """Whether the verdict on the trace is that on its steps."""
        if not self.is_whole or not len(self.step_table()):
            return False
        return self.cpu_work() is not None or self.steps().whole.own_share is not None

    def judged_range(self) -> tuple[int, int]:
        """(start, end) of the time that the verdict is about, in ns, including the lead-in."""
        low, high = self.step_windows()
        if self._judged_by_steps:
            return int(low[0]), int(high[-1])
        (begin, end), (start, stop) = self.trace.span, self.window
        return min(max(begin, start), end), min(max(begin, stop), end)

    @once
    def efficiency(self) -> EfficiencyTable:
        """Achieved rates of operators and kernels."""
        from tracetui.analysis.rates.efficiency import efficiency

        return efficiency(self.trace, None if self.is_whole else self.work())

    # Slices for the rules

    @once
    def work(self) -> I64:
        """Kernels, copies and memsets, by time (slices)."""
        from tracetui.analysis.device_work import device_work

        work = device_work(self.trace)
        return work if self.is_whole else work[members(self.trace, self.scope, work)]

    @property
    def work_time(self) -> int:
        """The sum of all device work's durations, ns (`WORK_TIME` in sentences). Overlapping work counts
        twice."""
        return int(self.trace.duration[self.work()].sum())

    @once
    def work_op(self) -> I64:
        """The op behind each of `work`, -1 for none."""
        from tracetui.analysis.device_work import op_behind

        return op_behind(self.trace, self.work())

    @once
    def kernel_names(self) -> dict[int, KernelName]:
        """Decoded names of the device work, by index into ``trace.names``."""
        from tracetui.analysis.device_work import decoded_names

        return decoded_names(self.trace, self.work())

    def decoded(self, i: int) -> KernelName:
        """The decoded name of a slice of `work`."""
        return self.kernel_names()[int(self.trace.name[i])]

    def work_of_kind(self, *kinds: str) -> I64:
        """The device work of these kinds, by its decoded names, by time (slices)."""
        mask = np.zeros(len(self.trace.names), dtype=np.bool_)
        mask[[i for i, name in self.kernel_names().items() if name.kind in kinds]] = True
        return self.work()[mask[self.trace.name[self.work()]]]

    @of_trace
    def own_time(self) -> I64:
        """Each slice's duration minus its children's, ns."""
        from tracetui.analysis.calls.sums import without_children

        return without_children(self.trace.parent, self.trace.duration)

    @of_trace
    def self_time(self) -> I64:
        """The self time of every slice, ns: for a call, as the averages count it."""
        from tracetui.analysis.calls.calls import self_times

        return self_times(self.calls(), self.own_time())

    def named(self, wanted: Callable[[str], bool]) -> Bool:
        """Mask over ``trace.names``."""
        return named(self.trace, wanted)

    def slices(self, kind: Kind, wanted: Callable[[str], bool]) -> I64:
        """The scope's plausible slices of a kind with a wanted name: read-only."""
        at = called(self.trace, wanted, kind)
        return at if self.is_whole else at[members(self.trace, self.scope, at)]

    @once
    def outermost_ops(self) -> I64:
        """The scope's ops that are not inside another op (slices)."""
        from tracetui.analysis.calls.ancestors import op_around

        at = self.slices(Kind.CPU_OP, lambda _: True)
        return at[op_around(self.trace, at) < 0]

    @once
    def calls_of_lanes(self) -> dict[int, Union]:
        """For the lanes that have any, when each was in an op or a runtime call."""
        from tracetui.analysis.idle.gaps import busy_union
        from tracetui.trace.intervals import all_of

        found: dict[int, list[Union]] = {}
        for kind in (Kind.CPU_OP, Kind.RUNTIME):
            at = self.slices(kind, lambda _: True)
            for lane, low, high in self.in_lanes(at):
                found.setdefault(lane, []).append(busy_union(self.trace, at[low:high]))
        return {lane: all_of(found[lane]) for lane in sorted(found)}

    def in_lanes(self, at: I64) -> list[tuple[int, int, int]]:
        """For each lane with some of the slices `at` (sorted): (lane, where its first one is in `at`, where
        its last one ends)."""
        first = np.array([lane.first for lane in self.trace.lanes] + [len(self.trace)])
        places = np.searchsorted(at, first)
        used = np.flatnonzero(np.diff(places))
        return list(zip(used.tolist(), places[used].tolist(), places[used + 1].tolist(), strict=True))

    def analysable(self) -> bool:
        """Whether the scope has anything for the rules: ops, annotations, launches, device work."""
        kinds = self.trace.is_kind(Kind.CPU_OP, Kind.ANNOTATION, Kind.RUNTIME, *DEVICE_WORK)
        return bool(members(self.trace, self.scope, np.flatnonzero(kinds)).any())

    @property
    def gpus(self) -> str:
        """The word for all devices in sentences."""
        return "the GPU" if len(self.gaps().devices) < 2 else "the GPUs"

    @property
    def gpus_are(self) -> str:
        """The beginning of a sentence on times that add up over the devices."""
        devices = len(self.gaps().devices)
        return "the GPU is" if devices < 2 else f"{devices:,} GPUs together are"

    def device_text(self, gaps: DeviceGaps) -> str:
        """The word for a device in sentences."""
        rank = self.trace.rank_of(gaps.device)
        of = f" of {rank}" if rank else ""
        return f"{self.trace.device_called(gaps.device)}{of}" if len(self.gaps().devices) > 1 else "the GPU"
