"""Rules on how a trace begins: first uses, a long first step, stretches before the first op, earlier work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.calls import exclusive_time_of
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.device_text import gpus_text
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.cpu_time import cpu_time_of
from tracetui.analysis.idle.cpu_verdict import is_collective
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.initialization import loading, profilers_work, queue_full
from tracetui.analysis.idle.split import split_of
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.analysis.recorded import asked_from_outside
from tracetui.analysis.select import has_kind
from tracetui.analysis.steps.scope import slices_of, step_of, step_table_of, window_of
from tracetui.analysis.steps.widths import NOT_ASKED, SLOW_NS, alike_steps, cold_widths
from tracetui.analysis.verdicts import base_of, earlier_time_of, earlier_work_of, verdict_of, verdict_window
from tracetui.core.columns import unique
from tracetui.core.units import duration, instant, plural
from tracetui.rules.claims import Claim, Claims, Count, Named, Names, Ratio, Remedy, Share, Time, says
from tracetui.rules.model import HIGH, MEDIUM, Finding, build_finding
from tracetui.trace import Kind
from tracetui.trace.intervals import EMPTY, all_of
from tracetui.trace.model import F64, I64
from tracetui.trace.slices import Slices, by_name
from tracetui.trace.unended import unfinished

PART = 0.1
"""Of the difference: what explains less of it does not explain it."""
STILL_COLD = 1.2
VERY_COLD_RATIO = 4.0
STRETCH_NS = 50_000
STRETCH_SHARE = 0.1
STRETCH_OF_ALL = 0.05
EARLIER_SHARE = 0.25
"""A device that is never idle runs some steps' work late: of less, nobody wonders where it comes from."""
INITIALIZATION_NS = 500_000
INITIALIZATION_SHARE = 0.01
MANY_STEPS = 3
FIRST_USE = CAUSES.index("initialisation")
_WARM_UP = (
    "Do not count it: it happens only once. Warm up before the recording starts, with schedule(wait=1, "
    "warmup=2, active=3). Each start of the program may pay for it, too: if that matters, load less, or load "
    "later."
)
_RAN_BEFORE = (
    "Do not count it: it happens only once. The process was running when it was asked for this trace: look "
    "at the later part, or record for longer."
)
_FEW_SHAPES = (
    "Pad to a few sizes, so that few kernels are needed, and run each size once before the recording."
)


def initialisation(part: Part) -> Iterator[Finding]:
    """The device waited for what its first use makes slow."""
    trace = part.trace
    low, high = (np.array([time]) for time in _recorded(part))
    lost = int(split_of(part).idle_within(low, high)[0, FIRST_USE])
    if lost < max(INITIALIZATION_NS, INITIALIZATION_SHARE * int(high[0] - low[0])):
        return
    at = unique(cpu_time_of(part).first, loading(trace))
    at = at[(trace.start[at] < high[0]) & (trace.end_of(at) > low[0])]
    # An op around such a call says where, not what: name it where it holds nothing of the kind.
    calls = at[trace.kind[at] != Kind.CPU_OP]
    listed = _first_uses(part, calls)
    if 2 * sum(time for _, time in listed) < lost:
        listed = _first_uses(part, at)
    devices = len(gaps_of(part).devices)
    first = Slices(trace, at[np.lexsort((-trace.duration[at], trace.kind[at] == Kind.CPU_OP))])
    share = Share(lost, devices * int(high[0] - low[0]), base_of(part))
    yield build_finding(
        "initialisation",
        "high" if share.value >= HIGH else "medium" if share.value >= MEDIUM else "info",
        {
            "initialisation_ns": Time(lost),
            "calls": Count(len(at)),
            "share": share,
            "gpus": Count(devices),
            "names": Names(tuple(Named(short_name(name, "cuda_runtime"), ns=ns) for name, ns in listed)),
            "ran_before": asked_from_outside(trace),
            **_in_many_steps(part, lost),
        },
        first,
        "initialisation_ns calls share",
        remedy=Remedy("remove", first),
    )


@says("initialisation")
def _initialisation(c: Claims) -> tuple[str, str, str]:
    in_all, of_it = (", taken together", " of that") if c.gpus.n > 1 else ("", "")
    told = ", ".join(f"{each.name} ({duration(each.ns)}{of_it})" for each in c.names.each)
    steps = ""
    if "loading_steps" in c:
        steps = (
            f" {c.loading_steps} of {c.steps} steps load code for kernels that had not run before: a matmul "
        )
        steps += "with new shapes can need another kernel, so this goes on until all of them are loaded."
    return (
        f"First calls on {gpus_text(c.gpus.n)} cost {c.initialisation_ns} of idle time{in_all}, {c.share}",
        f"Meanwhile the CPU is in calls that are slow only once: {told}. They create the context, load code, "
        "set up libraries, or are the first that the profiler sees. The verdict and the advice leave that "
        f"time out.{steps}",
        _FEW_SHAPES if steps else _RAN_BEFORE if c.ran_before else _WARM_UP,
    )


def _first_uses(part: Part, at: I64) -> list[tuple[str, int]]:
    """(name, how much of the time that devices lost to their first use passes in these slices, ns), at most
    three, the most first. Time in slices of several names is that of the first of them."""
    trace, told = part.trace, EMPTY
    first_uses: list[tuple[str, int]] = []
    names, which = by_name(trace, at)
    order = np.argsort(which, kind="stable")
    each = [busy_union(trace, one) for one in np.split(at[order], np.flatnonzero(np.diff(which[order])) + 1)]
    of = np.repeat(np.arange(len(each)), [len(one) for one in each])
    start, end = (np.concatenate([getattr(one, time) for one in each]) for time in ("start", "end"))

    def lost(low: I64, high: I64) -> I64:
        return split_of(part).idle_within(low, high)[:, FIRST_USE]

    def told_before(time: I64) -> I64:
        if not len(told):
            return np.zeros_like(time)
        last = np.searchsorted(told.start, time, side="right") - 1
        before = np.cumsum(lost(told.start, told.end)) - lost(told.start, told.end)
        return np.where(last >= 0, before[last] + lost(told.start[last], np.minimum(time, told.end[last])), 0)

    while len(first_uses) < min(3, len(names)):
        times = sum_into(of, lost(start, end) - told_before(end) + told_before(start), len(names))
        top = int(np.argmax(times))
        if not times[top]:
            break
        first_uses.append((trace.names[int(names[top])], int(times[top])))
        told = all_of((told, each[top]))
    return first_uses


def _in_many_steps(part: Part, lost: int) -> dict[str, Claim]:
    """How many of several steps load code: of kernels that only their shapes need, say."""
    steps = step_table_of(part)
    if not part.is_whole or len(steps) < MANY_STEPS:
        return {}
    idle = split_of(part).idle_within(steps.start, steps.end)[:, FIRST_USE]
    many = int(np.count_nonzero((idle >= lost / len(steps) / 4) & (idle >= SLOW_NS)))
    loads = np.unique(step_of(steps, part.trace.start[loading(part.trace)]))
    if many < max(MANY_STEPS, len(steps) / 2) or np.count_nonzero(loads >= 0) < many:
        return {}
    return {"loading_steps": Count(many), "steps": Count(len(steps))}


def _recorded(part: Part) -> tuple[int, int]:
    """The scope's window, at most the recording."""
    (begin, end), (low, high) = part.trace.span, window_of(part)
    return min(max(begin, low), end), min(max(begin, high), end)


def cold_start(part: Part) -> Iterator[Finding]:
    """The first step is much longer than the rest, by more than the profiler's start explains."""
    width = cold_widths(part)
    if width is None or not _is_cold(width) or asked_from_outside(part.trace):
        return
    scheduled = step_table_of(part).source.startswith("ProfilerStep")
    claims, longest = _first_step(part, width)
    claims["without_warm_up"] = scheduled and not alike_steps(part).number[0]
    if len(width) > 2:
        claims["after"] = Ratio(width[1] / max(1.0, float(np.median(width[2:]))))
    at = Slices(part.trace, alike_steps(part).event[:1])
    yield build_finding("cold_start", "low", claims, at, FIRST_STEP, first=[at.first, *longest])


@says("cold_start")
def _cold_start(c: Claims) -> tuple[str, str, str]:
    text = _first_step_text(c)
    if "after" in c and c.after.value >= STILL_COLD:
        text += f"The step after it still takes {c.after} times as long as the following ones. "
    missing = "Step 0 is recorded: the profiler had no warm-up. " if c.without_warm_up else ""
    return (
        f"Cold start: the first step takes {c.ratio} times as long as the {_others(c)}",
        f"{text}{missing}Code that runs for the first time creates handles, loads kernels, fills caches and "
        "allocates memory.",
        f"Ignore step {c.number} when you read the trace. Let a schedule run warm-up steps before the first "
        "active one: schedule(wait=1, warmup=2, active=3). That hides the cost but does not remove it: the "
        "program pays for it at every start.",
    )


def wide_first_step(part: Part) -> Iterator[Finding]:
    """The first step is much longer than the rest, but the next is like all others: the program was warm."""
    width = cold_widths(part)
    outside = asked_from_outside(part.trace)
    if width is None or (_is_cold(width) and not outside):
        return
    claims, longest = _first_step(part, width)
    claims["reason"] = (
        "ran before" if outside
        else "only one other" if len(width) == 2
        else "next like the others" if width[1] < STILL_COLD * np.median(width[2:])
        else "too few"
    )  # fmt: skip
    at = Slices(part.trace, alike_steps(part).event[:1])
    yield build_finding("wide_first_step", "info", claims, at, FIRST_STEP, first=[at.first, *longest])


_REASONS = {
    "ran before": "The process was running before it was asked for this trace",
    "only one other": "There is only one other step to compare with, so the program may have been cold",
    "next like the others": "The next step is like the others, so the program was most likely warm",
    "too few": "The next step is also longer than the last: two are too few to tell if the program was cold",
}


@says("wide_first_step")
def _wide_first_step(c: Claims) -> tuple[str, str, str]:
    return (
        f"The first recorded step takes {c.ratio} times as long as the {_others(c)}",
        f"{_first_step_text(c)}{_REASONS[c.reason]}. The first calls under the profiler are slow in any "
        "process.",
        f"Read the steps after step {c.number}.",
    )


def _others(c: Claims) -> str:
    return "others" if c.others_alike.n > 1 else "other"


FIRST_STEP = "first_ns usual_ns profiler_ns"


def _is_cold(width: F64) -> bool:
    """Whether the second step is still long, against several others, or the first one is very long."""
    still = len(width) > 3 and width[1] >= STILL_COLD * np.median(width[2:])
    return bool(still or width[0] >= VERY_COLD_RATIO * np.median(width[1:]))


def _first_step(part: Part, width: F64) -> tuple[dict[str, Claim], list[int]]:
    """(how much longer the first step is and why, the slices that show why)."""
    steps = alike_steps(part)
    usual = float(np.median(width[1:]))
    whole = float(steps.end[0] - steps.start[0])
    dearer = _dearer(part)
    claims: dict[str, Claim] = {
        "first_ns": Time(whole),
        "usual_ns": Time(usual),
        "profiler_ns": Time(whole - float(width[0])),
        "number": f"{steps.number[0]}",
        "ratio": Ratio(float(width[0]) / usual),
        "others_alike": Count(len(steps) - 1),
        "all_alike": len(steps) == len(step_table_of(part)),
        "queue_full": len(queue_full(part.trace)) > 0,
        "dearer": Names(tuple(Named(name, ns=ns) for name, ns, _ in dearer)),
        "more_ns": Time(float(width[0]) - usual),
    }
    return claims, [i for _, _, i in dearer]


def _first_step_text(c: Claims) -> str:
    many = c.others_alike.n > 1
    alike = "" if c.all_alike else " that do as much" if many else " that does as much"
    others = f"{c.others_alike} other steps{alike} take {c.usual_ns} (median)"
    others = others if many else f"other step{alike} takes {c.usual_ns}"
    text = f"Step {c.number} takes {c.first_ns} on the CPU, the {others}"
    if c.profiler_ns.ns:
        queued = " and waiting for room in the queue" if c.queue_full else ""
        text += f". Of the first, {c.profiler_ns} is the profiler's own work{queued}, not counted here"
    text += ". "
    more = sum(each.ns for each in c.dearer.each)
    if more < PART * c.more_ns.ns:
        text += "Most of the difference is outside of ops and calls. "
    elif c.dearer.each:
        most = "Most" if 2 * more > c.more_ns.ns else "Part"
        listed = ", ".join(f"{each.name} (+{duration(each.ns)})" for each in c.dearer.each)
        text += f"{most} of the difference: {listed}. "
    return text


def _dearer(part: Part) -> list[tuple[str, float, int]]:
    """What took most of the first step's surplus: (name, surplus in ns, its longest slice there), at most
    two.
    """
    trace, steps = part.trace, alike_steps(part)
    lane = int(trace.lane[steps.event[0]])
    rows = np.arange(trace.lanes[lane].first, trace.lanes[lane].last)
    rows = rows[~trace.implausible[rows] & (trace.kind[rows] != Kind.PYTHON)]
    own = exclusive_time_of(part)[rows] - _profiler_time(part, rows)
    sums = []
    for i in range(min(len(steps), 20)):
        inside = (trace.start[rows] > steps.start[i]) & (trace.start[rows] < steps.end[i])
        sums.append(np.bincount(trace.name[rows[inside]], own[inside], len(trace.names)))
        if i == 0:
            first, first_own = rows[inside], own[inside]
    surplus = sums[0] - np.median(np.stack(sums[1:]), axis=0)
    found = []
    for name in np.argsort(-surplus)[:2]:
        mine = np.flatnonzero(trace.name[first] == name)
        if len(mine) and surplus[name] > 0.1 * surplus[surplus > 0].sum():
            longest = int(first[mine[np.argmax(first_own[mine])]])
            found.append((trace.names[int(name)], float(surplus[name]), longest))
    return found


def _profiler_time(part: Part, rows: I64) -> I64:
    """How much of each slice's own time was the profiler's. ``rows`` are rows of one lane, in order."""
    trace = part.trace
    inside = busy_union(trace, profilers_work(trace)).overlap(trace.start[rows], trace.end_of(rows))
    around = np.searchsorted(rows, trace.parent[rows])
    has = np.flatnonzero((around < len(rows)) & (trace.parent[rows] >= 0))
    has = has[rows[around[has]] == trace.parent[rows[has]]]
    return inside - sum_into(around[has], inside[has], len(rows))


def before_the_first_op(part: Part) -> Iterator[Finding]:
    """A long time between an annotation's start and the first event recorded in it."""
    if verdict_of(part).verdict == "compute-bound":  # the device has enough to do meanwhile
        return
    trace = part.trace
    # A collective waits for other ranks, on a thread of its own.
    at = slices_of(
        part, Kind.ANNOTATION, lambda name: not (name.startswith(NOT_ASKED) or is_collective(name))
    )
    at = at[~np.isin(at.at, list(unfinished(trace)))]
    recorded = np.flatnonzero((trace.kind != Kind.PYTHON) & ~trace.implausible)
    position = np.searchsorted(recorded, at, side="right")
    at, position = at[position < len(recorded)], position[position < len(recorded)]
    inner = Slices(trace, recorded[position])
    inside = (inner.lane == at.lane) & (inner.start < at.end)
    at, inner = at[inside], inner[inside]
    stretch = inner.start - at.start - busy_union(trace, profilers_work(trace)).overlap(at.start, inner.start)
    long = (stretch >= STRETCH_NS) & (stretch >= STRETCH_SHARE * at.duration)
    at, inner, stretch = at[long], inner[long], stretch[long]
    if not len(at) or stretch.sum() < STRETCH_OF_ALL * part.length:
        return
    order = np.argsort(-stretch, kind="stable")
    at, inner, stretch = at[order], inner[order], stretch[order]
    yield build_finding(
        "before_the_first_op",
        "low",
        {
            "name": short_name(at.first_name, "user_annotation"),
            "first": short_name(inner.first_name, "cpu_op"),
            "share": Share(int(stretch[0]), int(at.duration[0]), "of it"),
            "stretch_ns": Time(int(stretch[0])),
            "total_ns": Time(int(stretch.sum())),
            "count": Count(len(at)),
            "runs_ns": Time(int(at.duration[0])),
            "python": has_kind(trace, Kind.PYTHON),
        },
        Slices(trace, np.stack([at.at, inner.at], axis=1).ravel()),
        "stretch_ns total_ns count",
    )


@says("before_the_first_op")
def _before_the_first_op(c: Claims) -> tuple[str, str, str]:
    others = ""
    if c.count.n > 1:
        more = plural(c.count.n - 1, "more such stretch", "more such stretches")
        others = f"With {more} it adds up to {c.total_ns}. "
    code, how = (
        "code that is not recorded, such as Python",
        "Record with with_stack=True to see the Python functions, or put record_function around the parts.",
    )
    if c.python:
        code, how = "Python", "Look at the Python functions there, on the timeline."
    return (
        f"{c.name}: {c.stretch_ns} pass before anything in it is recorded",
        f"{c.name} runs for {c.runs_ns}, of which {c.stretch_ns} ({c.share:bare}) pass before {c.first} "
        f"begins. {others}In that time the thread is in no op, launch or other annotation: it runs {code}, "
        "or it waits.",
        how,
    )


def work_in_flight_at_start(part: Part) -> Iterator[Finding]:
    """Much of what the device is busy with was launched before the recording."""
    earlier = Share(*earlier_time_of(part), "of the busy time")
    if earlier.value < EARLIER_SHARE:
        return
    low, high = verdict_window(part)
    at = Slices(part.trace, earlier_work_of(part))
    at = at[(at.start < high) & (at.end > low)]
    yield build_finding(
        "work_in_flight_at_start",
        "info",
        {
            "share": earlier,
            "events": Count(len(at)),
            "last_end_ns": Time(int(at.end.max())),
        },
        at.longest_first(),
        "share events last_end_ns",
    )


@says("work_in_flight_at_start")
def _work_in_flight_at_start(c: Claims) -> tuple[str, str, str]:
    return (
        f"{c.share} is work that was launched before the recording",
        f"No launch in the trace belongs to {c.events:kernel, copy or memset/kernels, copies and memsets} "
        "that came first in their streams. All of it was queued when the recording began, and the last of it "
        f"runs until {instant(c.last_end_ns.ns)}. It belongs to no op and no step.",
        "Do not look for what launched it. To record only work launched during the recording, call "
        "torch.cuda.synchronize() before it starts; or record more steps, so that this matters less.",
    )
