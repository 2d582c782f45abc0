"""What a step's time goes to, part by part, each with its evidence: the bar beside the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.device_work import device_work_of
from tracetui.analysis.idle.causes import AT, CAUSES
from tracetui.analysis.idle.cpu_verdict import cpu_work_of
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.kinds import is_communication
from tracetui.analysis.idle.split import BUSY_PARTS, COLUMNS, causes_of, split_of
from tracetui.analysis.idle.thread_gaps import thread_gaps_of
from tracetui.analysis.idle.verdict import PARTS, Verdict
from tracetui.analysis.part import Part
from tracetui.analysis.select import name_mask
from tracetui.analysis.steps.loading import loading_time
from tracetui.analysis.verdicts import verdict_window
from tracetui.core.units import duration
from tracetui.trace.model import I64, Kind
from tracetui.views.target import Target
from tracetui.words.cause_words import CAUSE_TEXT, FOR_A_GPU, NO_OPS, OUTSIDE_BUT_OTHERS

BUSY_TEXT = {
    "compute": "kernels at work",
    "communication": "collectives while nothing computes",
    "copies": "copies while no kernel runs",
}
CPU_TEXT = {
    "ops": "some thread was in an op",
    "data loading": "a DataLoader, and no other op",
    "communication": "collectives while no op runs",
    "outside ops": "Python, waiting, not recorded",
}
"""The parts of a trace of the CPU alone."""
BRIEF = {
    "compute": "kernels at work",
    "communication": "exposed collectives",
    "copies": "exposed copies",
    "initialisation": "first use of the GPU",
    "profiler": "the profiler's work",
    "sync": "CPU waited for GPU",
    "allocation": "CPU managed memory",
    "dispatch": "CPU in PyTorch ops",
    "host": "CPU outside any op",
    "launch": "launch on its way",
    "queued": "queued, not started",
    "back to back": "between kernels",
    "unlinked": "no launch in trace",
    "graph capture": "a graph was captured",
    "in flight": "earlier work",
    "not recorded": "not recorded",
    "ops": "a thread in an op",
    "data loading": "only a DataLoader",
    "outside ops": "Python, waiting",
    OUTSIDE_BUT_OTHERS: "launcher outside ops",
    NO_OPS: "in no recorded call",
    FOR_A_GPU: "CPU waited for a GPU",
}
"""The same in at most 20 cells."""


LONGEST = {
    "compute": "kernel",
    "communication": "collective",
    "copies": "copy",
    "ops": "op",
}


@dataclass(frozen=True, slots=True)
class TimePart:
    """One part of the time that a verdict is about."""

    what: str
    """One of `BUSY_PARTS`, `CAUSES`, or of the CPU's parts, or what does not count ("lead-in")."""
    duration: int
    """ns, over all devices and steps."""
    share: float | None
    """Of the time that counts, 0 to 1; None for what does not count."""
    text: str
    """A few words on it."""

    @property
    def brief(self) -> str:
        """The same in fewer words."""
        usual = self.text in [texts.get(self.what) for texts in (BUSY_TEXT, CAUSE_TEXT, CPU_TEXT)]
        return BRIEF[self.what] if usual else BRIEF.get(self.text, self.text)

    @property
    def idle(self) -> bool:
        """Whether the device did nothing meanwhile."""
        return self.what in CAUSES


def time_parts(verdict: Verdict, words: Mapping[str, str] = CAUSE_TEXT) -> tuple[TimePart, ...]:
    """What the device did, then why it did nothing, the longest first, then what does not count. The shares
    add up to 1. Without device events, what the CPU did; () where nothing is known. `words`: of each cause.
    """
    if (cpu := verdict.cpu) is not None:
        times = (cpu.ops, cpu.data_loading, cpu.exposed_communication, cpu.outside)
        told = zip(CPU_TEXT.items(), times, strict=True)
        return tuple(TimePart(what, time, time / cpu.span, text) for (what, text), time in told if time)
    busy = zip(PARTS, verdict.parts, strict=False)
    idle = sorted(zip(CAUSES, verdict.causes, strict=False), key=lambda one: -one[1])
    found = [(part, time, BUSY_TEXT[part]) for part, time in busy if part in BUSY_PARTS and time]
    found += [(cause, time, words[cause]) for cause, time in idle if time]
    parts = [TimePart(what, time, time / verdict.judged, text) for what, time, text in found]
    left_out = verdict.left_out if parts and verdict.noticeably_left_out else ()
    return (*parts, *(TimePart(what, time, None, "not counted") for what, time in left_out))


def evidence(part: Part, what: str) -> Target:
    """The best example of a part of the time, by `TimePart.what`."""
    if what in CAUSES and (gap := _longest_gap(part, what)) is not None:
        return Target("gaps", gap=gap, said="the longest such gap", example=True)
    if what in CPU_TEXT and (gap := _longest_without_op(part, what)) is not None:
        return Target("gaps", gap=gap, said="the longest such gap", example=True)
    if what in (*BUSY_PARTS, "ops"):
        return _longest_event(part, what)
    return _until_first_work(part, what) or Target("gaps" if what in CAUSES else "steps")


def _until_first_work(part: Part, what: str) -> Target | None:
    """The time before the first work of a device: the lead-in, or where a cause has no gap elsewhere."""
    low, _ = verdict_window(part)
    begun = [gaps.first for gaps in split_of(part).gaps]
    first = min((time for time in begun if time > low), default=None)
    if first is None:
        return None
    spent = split_of(part).overlap(np.array([low]), np.array([first]))[begun.index(first), 0]
    times = dict(zip(COLUMNS, spent.tolist(), strict=True))
    if what in CAUSES and not times[what]:
        return None
    longest = sorted((name for name in times if times[name]), key=lambda name: -times[name])
    told = ", ".join(f"{name} {duration(times[name])}" for name in longest[:2])
    return Target("steps", span=(low, first), said=f"up to the GPU's first work: {told}")


def _longest_gap(part: Part, cause: str) -> int | None:
    """The gap of the whole trace, of those that begin in the scope, with the most time of a cause: one that
    has it as its main cause, if any does."""
    whole = part.whole
    gaps, causes = gaps_of(whole), causes_of(whole)
    pieces = causes.pieces[:, AT[cause]]
    low, high = verdict_window(part)
    within = (gaps.start >= low) & (gaps.start < high) & (pieces > 0)
    mainly = within & (causes.cause == AT[cause])
    here = np.flatnonzero(mainly if mainly.any() else within)
    return int(here[np.argmax(pieces[here])]) if len(here) else None


def _longest_without_op(part: Part, what: str) -> int | None:
    """The gap of the main thread, of those that begin in the scope, with the most time of a part of the
    CPU's time; None for ops, in a trace with devices, and where all of it is between gaps."""
    work, gaps = cpu_work_of(part), thread_gaps_of(part.whole).gaps
    if work is None or what == "ops":
        return None
    start, end = gaps.start, gaps.start + gaps.duration
    if what == "outside ops":
        time = gaps.duration - work.any.overlap(start, end)
    else:
        time = (loading_time(part) if what == "data loading" else work.talking).overlap(start, end)
    low, high = verdict_window(part)
    time = np.where((start >= low) & (start < high), time, 0)
    return int(np.argmax(time)) if time.any() else None


def _longest_event(part: Part, what: str) -> Target:
    """The longest event of a part: work of a device, or an op of a trace of the CPU alone."""
    trace, pane = part.trace, "ops"
    if what in BUSY_PARTS and len(device_work_of(part)):
        at, pane = device_work_of(part).at, "kernels"
        talks = name_mask(trace, is_communication)[trace.name[at]]
        copies = trace.kind[at] == Kind.MEMCPY
        at = at[{"communication": talks, "copies": copies}.get(what, ~talks & ~copies)]
    else:
        cpu = cpu_work_of(part)
        at = cpu.ops if cpu is not None else np.zeros(0, np.int64)
        low, high = verdict_window(part)
        at = at[(trace.start[at] >= low) & (trace.start[at] < high)]
    return Target(pane, event=_longest(trace.duration, at), said=f"the longest {LONGEST[what]}")


def _longest(duration: I64, at: I64) -> int | None:
    return int(at[np.argmax(duration[at])]) if len(at) else None
