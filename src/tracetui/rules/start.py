"""Rules on how a trace begins: first uses, a long first step, stretches before the first op, earlier work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.calls import own_time_of
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.device_text import gpus_text
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.cpu_time import cpu_time_of
from tracetui.analysis.idle.cpu_verdict import is_collective
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.initialisation import loading, profilers_work, queue_full
from tracetui.analysis.idle.split import split_of
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.analysis.recorded import asked_from_outside
from tracetui.analysis.select import has
from tracetui.analysis.steps.scope import slices_of, step_of, step_table_of, window_of
from tracetui.analysis.steps.widths import NOT_ASKED, SLOW_NS, alike_steps, cold_widths
from tracetui.analysis.verdicts import base_of, earlier_share_of, earlier_work_of, judged_range, verdict_of
from tracetui.core.columns import unique
from tracetui.core.units import duration, instant, plural, share, significant
from tracetui.rules.model import HIGH, MEDIUM, Finding, first_of
from tracetui.trace import Kind
from tracetui.trace.intervals import EMPTY, all_of
from tracetui.trace.model import F64, I64
from tracetui.trace.slices import Slices, by_name

PART = 0.1
"""Of the difference: what explains less of it does not explain it."""
STILL_COLD = 1.2
VERY_COLD_RATIO = 4.0
STRETCH_NS = 50_000
STRETCH_SHARE = 0.1
STRETCH_OF_ALL = 0.05
EARLIER_SHARE = 0.25
"""A device that is never idle runs some steps' work late: of less, nobody wonders where it comes from."""
INITIALISATION_NS = 500_000
INITIALISATION_SHARE = 0.01
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
    if lost < max(INITIALISATION_NS, INITIALISATION_SHARE * int(high[0] - low[0])):
        return
    at = unique(cpu_time_of(part).first, loading(trace))
    at = at[(trace.start[at] < high[0]) & (trace.start[at] + trace.duration[at] > low[0])]
    # An op around such a call says where, not what: name it where it holds nothing of the kind.
    calls = at[trace.kind[at] != Kind.CPU_OP]
    listed = _first_uses(part, calls)
    if 2 * sum(time for _, time in listed) < lost:
        listed = _first_uses(part, at)
    devices = len(gaps_of(part).devices)
    in_all, of_it = (", taken together", " of that") if devices > 1 else ("", "")
    told = ", ".join(f"{short_name(name, 'cuda_runtime')} ({duration(time)}{of_it})" for name, time in listed)
    first = at[np.lexsort((-trace.duration[at], trace.kind[at] == Kind.CPU_OP))]
    fraction = lost / (devices * int(high[0] - low[0]))
    steps = _in_many_steps(part, lost)
    yield Finding(
        "initialisation",
        "high" if fraction >= HIGH else "medium" if fraction >= MEDIUM else "info",
        f"First calls on {gpus_text(part)} cost {duration(lost)} of idle time{in_all}, "
        f"{share(fraction)} {base_of(part)}",
        f"Meanwhile the CPU is in calls that are slow only once: {told}. They create the context, load code, "
        "set up libraries, or are the first that the profiler sees. The verdict and the advice leave that "
        f"time out.{steps}",
        _FEW_SHAPES if steps else _RAN_BEFORE if asked_from_outside(trace) else _WARM_UP,
        first_of(first),
        {"initialisation_ns": float(lost), "calls": float(len(at)), "share": fraction},
    )


def _first_uses(part: Part, at: I64) -> list[tuple[str, int]]:
    """(name, how much of the time that devices lost to their first use passes in these slices, ns), at most
    three, the most first. Time in slices of several names is that of the first of them."""
    trace, told = part.trace, EMPTY
    found: list[tuple[str, int]] = []
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

    while len(found) < min(3, len(names)):
        times = sum_into(of, lost(start, end) - told_before(end) + told_before(start), len(names))
        top = int(np.argmax(times))
        if not times[top]:
            break
        found.append((trace.names[int(names[top])], int(times[top])))
        told = all_of((told, each[top]))
    return found


def _in_many_steps(part: Part, lost: int) -> str:
    """A sentence where each of several steps loads code: of kernels that only its shapes need, say."""
    steps = step_table_of(part)
    if not part.is_whole or len(steps) < MANY_STEPS:
        return ""
    idle = split_of(part).idle_within(steps.start, steps.end)[:, FIRST_USE]
    many = int(np.count_nonzero((idle >= lost / len(steps) / 4) & (idle >= SLOW_NS)))
    loads = np.unique(step_of(steps, part.trace.start[loading(part.trace)]))
    if many < max(MANY_STEPS, len(steps) / 2) or np.count_nonzero(loads >= 0) < many:
        return ""
    return (
        f" {many:,} of {len(steps):,} steps load code for kernels that had not run before: a matmul with new "
        "shapes can need another kernel, so this goes on until all of them are loaded."
    )


def _recorded(part: Part) -> tuple[int, int]:
    """The scope's window, at most the recording."""
    (begin, end), (low, high) = part.trace.span, window_of(part)
    return min(max(begin, low), end), min(max(begin, high), end)


def cold_start(part: Part) -> Iterator[Finding]:
    """The first step is much longer than the rest, by more than the profiler's start explains."""
    width = cold_widths(part)
    if width is None or not _is_cold(width) or asked_from_outside(part.trace):
        return
    number, ratio, text, evidence, numbers = _first_step(part, width)
    others = "others" if len(width) > 2 else "other"
    after = width[1] / max(1.0, float(np.median(width[2:]))) if len(width) > 2 else 0.0
    if after >= STILL_COLD:
        text += f"The step after it still takes {significant(after, 2)} times as long as the following ones. "
    scheduled = step_table_of(part).source.startswith("ProfilerStep")
    missing = "Step 0 is recorded: the profiler had no warm-up. " if scheduled and not number else ""
    yield Finding(
        "cold_start",
        "low",
        f"Cold start: the first step takes {significant(ratio, 2)} times as long as the {others}",
        f"{text}{missing}Code that runs for the first time creates handles, loads kernels, fills caches and "
        "allocates memory.",
        f"Ignore step {number} when you read the trace. Let a schedule run warm-up steps before the first "
        "active one: schedule(wait=1, warmup=2, active=3). That hides the cost but does not remove it: the "
        "program pays for it at every start.",
        evidence,
        numbers,
    )


def wide_first_step(part: Part) -> Iterator[Finding]:
    """The first step is much longer than the rest, but the next is like all others: the program was warm."""
    width = cold_widths(part)
    outside = asked_from_outside(part.trace)
    if width is None or (_is_cold(width) and not outside):
        return
    number, ratio, text, evidence, numbers = _first_step(part, width)
    others = "others" if len(width) > 2 else "other"
    if outside:
        reason = "The process was running before it was asked for this trace"
    elif len(width) == 2:
        reason = "There is only one other step to compare with, so the program may have been cold"
    elif width[1] < STILL_COLD * np.median(width[2:]):
        reason = "The next step is like the others, so the program was most likely warm"
    else:
        reason = "The next step is also longer than the last: two are too few to tell if the program was cold"
    yield Finding(
        "wide_first_step",
        "info",
        f"The first recorded step takes {significant(ratio, 2)} times as long as the {others}",
        f"{text}{reason}. The first calls under the profiler are slow in any process.",
        f"Read the steps after step {number}.",
        evidence,
        numbers,
    )


def _is_cold(width: F64) -> bool:
    """Whether the second step is still long, against several others, or the first one is very long."""
    still = len(width) > 3 and width[1] >= STILL_COLD * np.median(width[2:])
    return bool(still or width[0] >= VERY_COLD_RATIO * np.median(width[1:]))


def _first_step(part: Part, width: F64) -> tuple[int, float, str, tuple[int, ...], dict[str, float]]:
    """(number, ratio, how much longer it is and why, evidence, numbers) of the first step."""
    steps = alike_steps(part)
    number = int(steps.number[0])
    usual = float(np.median(width[1:]))
    whole = float(steps.end[0] - steps.start[0])
    profiler = whole - float(width[0])
    many = len(steps) > 2
    others = f"{len(steps) - 1:,} other steps take {duration(usual)} (median)"
    others = others if many else f"other step takes {duration(usual)}"
    if len(steps) < len(step_table_of(part)):
        others = others.replace(" take", " that do as much take" if many else " that does as much take", 1)
    text = f"Step {number} takes {duration(whole)} on the CPU, the {others}"
    if profiler:
        queued = "" if not len(queue_full(part.trace)) else " and waiting for room in the queue"
        text += f". Of the first, {duration(profiler)} is the profiler's own work{queued}, not counted here"
    text += ". "
    dearer = _dearer(part)
    more = sum(ns for _, ns, _ in dearer)
    if more < PART * (float(width[0]) - usual):
        text += "Most of the difference is outside of ops and calls. "
    elif dearer:
        most = 2 * more > float(width[0]) - usual
        text += (
            f"{'Most' if most else 'Part'} of the difference: "
            + ", ".join(f"{n} (+{duration(d)})" for n, d, _ in dearer)
            + ". "
        )
    evidence = first_of([int(steps.event[0]), *(i for _, _, i in dearer)])
    numbers = {"first_ns": whole, "usual_ns": usual, "profiler_ns": profiler}
    return number, float(width[0]) / usual, text, evidence, numbers


def _dearer(part: Part) -> list[tuple[str, float, int]]:
    """What took most of the first step's surplus: (name, surplus in ns, its longest slice there), at most
    two.
    """
    trace, steps = part.trace, alike_steps(part)
    lane = int(trace.lane[steps.event[0]])
    rows = np.arange(trace.lanes[lane].first, trace.lanes[lane].last)
    rows = rows[~trace.implausible[rows] & (trace.kind[rows] != Kind.PYTHON)]
    own = own_time_of(part)[rows] - _profiler_time(part, rows)
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
    inside = busy_union(trace, profilers_work(trace)).within(
        trace.start[rows], trace.start[rows] + trace.duration[rows]
    )
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
    recorded = np.flatnonzero((trace.kind != Kind.PYTHON) & ~trace.implausible)
    position = np.searchsorted(recorded, at, side="right")
    at, position = at[position < len(recorded)], position[position < len(recorded)]
    inner = Slices(trace, recorded[position])
    inside = (inner.lane == at.lane) & (inner.start < at.end)
    at, inner = at[inside], inner[inside]
    stretch = inner.start - at.start - busy_union(trace, profilers_work(trace)).within(at.start, inner.start)
    long = (stretch >= STRETCH_NS) & (stretch >= STRETCH_SHARE * at.duration)
    at, inner, stretch = at[long], inner[long], stretch[long]
    if not len(at) or stretch.sum() < STRETCH_OF_ALL * part.length:
        return
    order = np.argsort(-stretch, kind="stable")
    at, inner, stretch = at[order], inner[order], stretch[order]
    name = short_name(at.first_name, "user_annotation")
    first = short_name(inner.first_name, "cpu_op")
    fraction = share(stretch[0] / at.duration[0])
    others = ""
    if len(at) > 1:
        more = plural(len(at) - 1, "more such stretch", "more such stretches")
        others = f"With {more} it adds up to {duration(stretch.sum())}. "
    code, how = (
        "code that is not recorded, such as Python",
        "Record with with_stack=True to see the Python functions, or put record_function around the parts.",
    )
    if has(trace, Kind.PYTHON):
        code, how = "Python", "Look at the Python functions there, on the timeline."
    yield Finding(
        "before_the_first_op",
        "low",
        f"{name}: {duration(stretch[0])} pass before anything in it is recorded",
        f"{name} runs for {duration(at.duration[0])}, of which {duration(stretch[0])} ({fraction}) "
        f"pass before {first} begins. {others}In that time the thread is in no op, launch or other "
        f"annotation: it runs {code}, or it waits.",
        how,
        first_of(np.stack([at.at, inner.at], axis=1).ravel()),
        {"stretch_ns": float(stretch[0]), "total_ns": float(stretch.sum()), "count": float(len(at))},
    )


def work_in_flight_at_start(part: Part) -> Iterator[Finding]:
    """Much of what the device is busy with was launched before the recording."""
    fraction = earlier_share_of(part)
    if fraction < EARLIER_SHARE:
        return
    low, high = judged_range(part)
    at = Slices(part.trace, earlier_work_of(part))
    at = at[(at.start < high) & (at.end > low)]
    what = plural(len(at), "kernel, copy or memset", "kernels, copies and memsets")
    yield Finding(
        "work_in_flight_at_start",
        "info",
        f"{share(fraction)} of the busy time is work that was launched before the recording",
        f"No launch in the trace belongs to {what} that came first in their streams. All of it was queued "
        f"when the recording began, and the last of it runs until {instant(int(at.end.max()))}. It belongs "
        "to no op and no step.",
        "Do not look for what launched it. To record only work launched during the recording, call "
        "torch.cuda.synchronize() before it starts; or record more steps, so that this matters less.",
        first_of(at.longest_first()),
        {"share": fraction, "events": float(len(at)), "last_end_ns": float(at.end.max())},
    )
