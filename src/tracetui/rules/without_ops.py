"""Rules on traces of the CPU alone: what the main thread does outside ops, and which ops take long."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.ancestors import op_around
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.idle.cpu_verdict import cpu_work_of
from tracetui.analysis.idle.thread_gaps import ANNOTATED, PYTHON, UNRECORDED, ThreadGaps, thread_gaps_of
from tracetui.analysis.part import Part
from tracetui.analysis.select import has_kind
from tracetui.analysis.steps.scope import members
from tracetui.analysis.verdicts import verdict_of, verdict_window
from tracetui.rules.advice import ADVICE
from tracetui.rules.claims import Claims, Count, Named, Names, Share, Time, says
from tracetui.rules.model import HIGH, MEDIUM, Finding, build_finding
from tracetui.trace import Kind
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices

NAMED_SHARE = 0.5
"""Of the time in gaps: from here on one function or annotation gives the finding its name. Of the time in
ops: from here on one op is of medium severity."""
TOLD_SHARE, MOST_NAMES = 0.1, 3
HOT_SHARE = 0.3
"""Of the time: an op that takes so much by itself is worth a look."""
LEAST_NS = 20_000
"""Less is not worth a finding."""
SHORT_NS, SHORT_SHARE = 10_000, 0.3
"""PyTorch takes a few microseconds for a call, Python as much: most of such an op is its call."""


def outside_ops(part: Part) -> Iterator[Finding]:
    """In a trace of the CPU alone, no op runs for a tenth of the time."""
    verdict = verdict_of(part)
    if (cpu := verdict.cpu) is None or cpu.outside < MEDIUM * cpu.span:
        return
    found = thread_gaps_of(part)
    low, high = verdict_window(part)
    mine = np.flatnonzero(
        np.isin(found.reason, (ANNOTATED, PYTHON, UNRECORDED))
        & (found.gaps.start >= low)
        & (found.gaps.start < high)
    )
    mine = mine[np.argsort(-found.gaps.duration[mine], kind="stable")]
    if not len(mine):
        return
    length, names = found.gaps.duration[mine], _callers(found, mine, part)
    named = bool(names) and float(names[0].ns or 0) >= NAMED_SHARE * length.sum()
    yield build_finding(
        "outside_ops",
        "high" if cpu.outside >= HIGH * cpu.span else "medium",
        {
            "outside_ns": Time(cpu.outside),
            "share": Share(cpu.outside, cpu.span, verdict.base),
            "longest_ns": Time(int(length[0])),
            "gaps": Count(len(mine)),
            "stacks": has_kind(part.trace, Kind.PYTHON),
            **({"name": names[0].name} if named else {}),
            **({"names": Names(tuple(names))} if names else {}),
        },
        Slices(part.trace, _shown_with(found, mine)),
        "outside_ns share longest_ns",
    )


@says("outside_ops")
def _outside_ops(c: Claims) -> tuple[str, str, str]:
    where = f", mostly in {c.name}" if "name" in c else ""
    told = f" It was in: {c.names}." if "names" in c else ""
    if not told and not c.stacks:
        told = " What the thread did then was not recorded: Python, waiting, or other programs."
    if "name" in c:
        advice = f"Look at what {c.name} does between the ops: do less there, or do it in another process."
        advice += "" if c.stacks else f" {ADVICE['record stacks']}"
    else:
        advice = ADVICE["host"] if c.stacks else ADVICE["record stacks"]
    return (
        f"No op runs for {c.share}{where}",
        f"That is {c.outside_ns}. The main thread is in no op {c.gaps:time}, the longest {c.longest_ns}."
        f"{told}",
        advice,
    )


def _callers(found: ThreadGaps, mine: I64, part: Part) -> list[Named]:
    """The functions and annotations that the thread was in for a tenth of these gaps or more."""
    caller, length = found.caller[mine], found.gaps.duration[mine]
    known = np.flatnonzero((caller >= 0) & (found.reason[mine] != UNRECORDED))
    name, which = np.unique(part.trace.name[caller[known]], return_inverse=True)
    time = sum_into(which, length[known], len(name))
    calls = np.bincount(which, minlength=len(name))
    order = np.argsort(-time, kind="stable")[:MOST_NAMES].tolist()
    return [
        Named(part.trace.names[int(name[at])], int(calls[at]), int(time[at]))
        for at in order
        if time[at] >= TOLD_SHARE * length.sum()
    ]


def _shown_with(found: ThreadGaps, mine: I64) -> I64:
    """What to jump to: what the thread was in, else the op after it, else that before it; each once."""
    at = found.gaps.after[mine]
    at = np.where(at >= 0, at, found.gaps.before[mine])
    at = np.where(found.reason[mine] != UNRECORDED, found.within[mine], at)
    return at[np.sort(np.unique(at, return_index=True)[1])]


def slow_ops(part: Part) -> Iterator[Finding]:
    """In a trace of the CPU alone, one op takes a third of the time by itself."""
    verdict, work = verdict_of(part), cpu_work_of(part)
    if work is None or (cpu := verdict.cpu) is None or not cpu.thread_ops:
        return
    if (
        not cpu.top
        or cpu.top_self < max(LEAST_NS, HOT_SHARE * cpu.thread_ops)
        or cpu.ops < HOT_SHARE * cpu.span
    ):
        return
    trace, (low, high) = part.trace, verdict_window(part)
    at = work.ops[trace.name[work.ops] == trace.names.index(cpu.top)]
    at = at[(trace.start[at] >= low) & (trace.start[at] < high)]
    at = at[np.argsort(-work.own[at], kind="stable")]
    yield build_finding(
        "slow_ops",
        "medium" if cpu.top_self >= NAMED_SHARE * cpu.thread_ops else "low",
        {
            "name": cpu.top,
            "self_ns": Time(cpu.top_self),
            "share": Share(cpu.top_self, cpu.thread_ops, "of the time in ops"),
            "calls": Count(cpu.top_calls),
            "longest_ns": Time(int(work.own[at[0]])),
        },
        Slices(trace, at),
        "self_ns share calls",
    )


@says("slow_ops")
def _slow_ops(c: Claims) -> tuple[str, str, str]:
    longest = f", the longest {c.longest_ns}" if c.calls.n > 1 else ""
    return (
        f"{c.name} takes {c.share}",
        f"{c.calls:call} {c.calls:~take} {c.self_ns} by themselves, without the ops inside{longest}."
        if c.calls.n > 1
        else f"1 call takes {c.self_ns} by itself, without the ops inside.",
        "Record shapes (record_shapes=True) to see with which sizes it is called. torch.set_num_threads sets "
        "how many threads work on it: try fewer, too, where other programs use the cores.",
    )


def short_ops(part: Part) -> Iterator[Finding]:
    """In a trace of the CPU alone, much of the time is in ops so short that most of them is their call."""
    verdict, work = verdict_of(part), cpu_work_of(part)
    if work is None or (cpu := verdict.cpu) is None:
        return
    trace, (low, high) = part.trace, verdict_window(part)
    at = work.ops[(op_around(trace, work.ops) < 0) & members(trace, part.scope, work.ops)]
    at = at[(trace.start[at] >= low) & (trace.start[at] < high)]
    short = Slices(trace, at[trace.duration[at] < SHORT_NS])
    gaps = thread_gaps_of(part).gaps
    after_short = (gaps.before >= 0) & (trace.duration[gaps.before] < SHORT_NS)
    here = (gaps.duration < SHORT_NS) & (gaps.start >= low) & (gaps.start < high)
    between = gaps.duration[here & after_short]
    time = short.time + int(between.sum())
    if not len(short) or time < SHORT_SHARE * cpu.span or cpu.threads > 1:
        return
    yield build_finding(
        "short_ops",
        "medium",
        {
            "calls": Count(len(short)),
            "of": Count(len(at)),
            "short_ns": Time(short.time),
            "between_ns": Time(int(between.sum())),
            "share": Share(time, cpu.span, verdict.base),
        },
        short.longest_first(),
        "calls share",
    )


@says("short_ops")
def _short_ops(c: Claims) -> tuple[str, str, str]:
    return (
        f"Calls of short ops take {c.share}",
        f"{c.calls} of {c.of:call} of ops take less than 10 µs each, {c.short_ns} in all, and {c.between_ns} "
        "pass right after them in pieces as short. Most of that is PyTorch's and Python's work for a call, "
        "and the profiler's.",
        "Larger batches make each call do more. torch.compile makes one call of many small ops.",
    )
