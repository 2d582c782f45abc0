"""Rules on how a trace begins: cold steps, stretches before the first op, the profiler's own work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.ancestors import deepest_at
from tracetui.analysis.causes import CAUSES
from tracetui.analysis.cpu_time import is_allocation, is_synchronising
from tracetui.analysis.cpu_verdict import is_collective
from tracetui.analysis.efficiency import shapes_recorded
from tracetui.analysis.findings.compiled import compile_phases
from tracetui.analysis.findings.data_loading import loading_advice, loading_time
from tracetui.analysis.findings.idle_advice import allocation_advice
from tracetui.analysis.findings.model import HIGH, MEDIUM, Finding, first_of, longest_first
from tracetui.analysis.findings.recording import recorded_too
from tracetui.analysis.findings.slow_calls import slow_calls_of
from tracetui.analysis.gaps import busy_union
from tracetui.analysis.initialisation import loading, profilers_work, queue_full
from tracetui.analysis.kernel_names import short_name
from tracetui.analysis.results import Results
from tracetui.analysis.scope import StepTable, count_in, launch_times, step_of
from tracetui.analysis.select import by_name, has
from tracetui.analysis.steps import unusual_lengths
from tracetui.analysis.sums import sum_into
from tracetui.analysis.verdict import OF_RECORDING
from tracetui.trace import Kind, Trace
from tracetui.trace.intervals import EMPTY, Union, all_of
from tracetui.trace.model import F64, I64, Bool
from tracetui.units import capital, duration, instant, plural, share, significant, verb

COLD_RATIO = 2.0
COLD_NS = 20_000
PART = 0.1
"""Of the difference: what explains less of it does not explain it."""
STILL_COLD = 1.2
VERY_COLD_RATIO = 4.0
SLOW_SHARE = 0.2
"""Of the time of all steps: what slow ones take beyond the usual, to be told."""
SLOW_NS = 200_000
"""A step that takes less than this beyond the usual need not do anything else."""
SAME = 0.02
"""Steps whose numbers of ops differ by no more than this share run the same ops."""
AS_LONG = 0.9
"""A later step that takes this share of the first one's time is as long."""
STRETCH_NS = 50_000
STRETCH_SHARE = 0.1
STRETCH_OF_ALL = 0.05
PROFILER_NS = 20_000
PROFILER_SHARE = 0.2
EARLIER_SHARE = 0.25
"""A device that is never idle runs some steps' work late: of less, nobody wonders where it comes from."""
INITIALISATION_NS = 500_000
INITIALISATION_SHARE = 0.01
MANY_STEPS = 3
FIRST_USE, PROFILER = CAUSES.index("initialisation"), CAUSES.index("profiler")
_ONLY_THERE = (
    "Look at what the program does only there: saving, evaluating, logging. If it is necessary, do it less "
    "often or in parallel with the steps."
)
_WARM_UP = (
    "Do not count it: it happens only once. Warm up before the recording starts, with schedule(wait=1, "
    "warmup=2, active=3). Each start of the program may pay for it, too: if that matters, load less, or load "
    "later."
)
_FEW_SHAPES = (
    "Pad to a few sizes, so that few kernels are needed, and run each size once before the recording."
)
_LARGER = "Look at what runs only there, and at its inputs: larger ones take longer (record_shapes=True)."
_NAMED = "Look at what calls it there, and with which inputs (record_shapes=True, with_stack=True)."
_SAME_OPS = (
    "Compare their inputs{how}: larger ones take longer. If they are alike, something else was using the CPU."
)
_OF_THE_GPU = (
    "Look at what the GPU does meanwhile: a collective that waits for another rank, larger inputs, lower "
    "clocks."
)
_SYSTEMS = (
    "A difference this small often has other causes: another process used the CPU, or Python collected "
    "garbage."
)
_NOT_ASKED = ("ProfilerStep#", "enumerate(DataLoader)#")


def initialisation(results: Results) -> Iterator[Finding]:
    """The device waited for what its first use makes slow."""
    trace = results.trace
    low, high = (np.array([time]) for time in _recorded(results))
    lost = int(results.split().idle_within(low, high)[0, FIRST_USE])
    if lost < max(INITIALISATION_NS, INITIALISATION_SHARE * int(high[0] - low[0])):
        return
    at = np.union1d(results.cpu_time().first, loading(trace))
    at = at[(trace.start[at] < high[0]) & (trace.start[at] + trace.duration[at] > low[0])]
    # An op around such a call says where, not what: name it where it holds nothing of the kind.
    calls = at[trace.kind[at] != Kind.CPU_OP]
    listed = _first_uses(results, calls)
    if 2 * sum(time for _, time in listed) < lost:
        listed = _first_uses(results, at)
    told = ", ".join(f"{short_name(name, 'cuda_runtime')} ({duration(time)})" for name, time in listed)
    first = at[np.lexsort((-trace.duration[at], trace.kind[at] == Kind.CPU_OP))]
    part = lost / (len(results.gaps().devices) * int(high[0] - low[0]))
    steps = _in_many_steps(results, lost)
    base = results.verdict().base if not results.is_whole else OF_RECORDING
    yield Finding(
        "initialisation",
        "high" if part >= HIGH else "medium" if part >= MEDIUM else "info",
        f"First calls on the GPU cost {duration(lost)} of idle time, {share(part)} {base}",
        f"Meanwhile the CPU is in calls that are slow only once: {told}. They create the context, load code, "
        "set up libraries, or are the first that the profiler sees. The verdict and the advice leave that "
        f"time out.{steps}",
        _FEW_SHAPES if steps else _WARM_UP,
        first_of(first),
        {"initialisation_ns": float(lost), "calls": float(len(at)), "share": part},
    )


def _first_uses(results: Results, at: I64) -> list[tuple[str, int]]:
    """(name, how much of the time that devices lost to their first use passes in these slices, ns), at most
    three, the most first. Time in slices of several names is that of the first of them."""
    trace, told = results.trace, EMPTY
    found: list[tuple[str, int]] = []
    names, which = by_name(trace, at)
    order = np.argsort(which, kind="stable")
    each = [busy_union(trace, one) for one in np.split(at[order], np.flatnonzero(np.diff(which[order])) + 1)]
    of = np.repeat(np.arange(len(each)), [len(one) for one in each])
    start, end = (np.concatenate([getattr(one, time) for one in each]) for time in ("start", "end"))

    def lost(low: I64, high: I64) -> I64:
        return results.split().idle_within(low, high)[:, FIRST_USE]

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


def _in_many_steps(results: Results, lost: int) -> str:
    """A sentence where each of several steps loads code: of kernels that only its shapes need, say."""
    steps = results.step_table()
    if not results.is_whole or len(steps) < MANY_STEPS:
        return ""
    idle = results.split().idle_within(steps.start, steps.end)[:, FIRST_USE]
    many = int(np.count_nonzero((idle >= lost / len(steps) / 4) & (idle >= SLOW_NS)))
    loads = np.unique(step_of(steps, results.trace.start[loading(results.trace)]))
    if many < max(MANY_STEPS, len(steps) / 2) or np.count_nonzero(loads >= 0) < many:
        return ""
    return (
        f" {many:,} of {len(steps):,} steps load code for kernels that had not run before: a matmul with new "
        "shapes can need another kernel, so this goes on until all of them are loaded."
    )


def _recorded(results: Results) -> tuple[int, int]:
    """The scope's window, at most the recording."""
    (begin, end), (low, high) = results.trace.span, results.window
    return min(max(begin, low), end), min(max(begin, high), end)


def cold_start(results: Results) -> Iterator[Finding]:
    """The first step is much longer than the rest, by more than the profiler's start explains."""
    width = _widths(results)
    if width is None or not _is_cold(width):
        return
    number, ratio, text, evidence, numbers = _first_step(results, width)
    others = "others" if len(width) > 2 else "other"
    after = width[1] / max(1.0, float(np.median(width[2:]))) if len(width) > 2 else 0.0
    if after >= STILL_COLD:
        text += f"The step after it still takes {significant(after, 2)} times as long as the following ones. "
    scheduled = results.step_table().source.startswith("ProfilerStep")
    missing = (
        "Step 0 is recorded: the profiler's schedule has no warm-up. " if scheduled and not number else ""
    )
    yield Finding(
        "cold_start",
        "low",
        f"Cold start: the first step takes {significant(ratio, 2)} times as long as the {others}",
        f"{text}{missing}Code that runs for the first time creates handles, loads kernels, fills caches and "
        "allocates memory.",
        f"Ignore step {number} when you read the trace. Let the schedule run warm-up steps before the first "
        "active one: schedule(wait=1, warmup=2, active=3). That hides the cost but does not remove it: the "
        "program pays for it at every start.",
        evidence,
        numbers,
    )


def wide_first_step(results: Results) -> Iterator[Finding]:
    """The first step is much longer than the rest, but the next is like all others: the program was warm."""
    width = _widths(results)
    if width is None or _is_cold(width):
        return
    number, ratio, text, evidence, numbers = _first_step(results, width)
    others = "others" if len(width) > 2 else "other"
    if len(width) == 2:
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


def slow_steps(results: Results) -> Iterator[Finding]:
    """Some steps take far longer than most, other than at the start: saving, evaluating."""
    trace, steps = results.trace, results.step_table()
    if len(steps) < 3 or not results.is_whole:
        return
    if results.verdict().verdict == "compute-bound":  # how long a step takes on the CPU says little there
        yield from _more_work(results, steps)
        return
    width = _own_widths(results, steps)
    # Of what the first steps do for the first time, `initialisation` tells.
    first = busy_union(trace, results.cpu_time().first).within(steps.start, steps.end)
    width = np.maximum(width - first * np.cumprod(first > 0), 0)
    usual = int(np.median(width))
    # Where steps of all lengths come, none is "usual".
    long = (width >= COLD_RATIO * usual) & (width - usual >= COLD_NS) & unusual_lengths(width)
    many, more = int(long.sum()), int((width - usual)[long].sum())
    compiled = busy_union(trace, compile_phases(results)).within(steps.start, steps.end)
    of_its_own = _widths(results) is not None or 2 * compiled[long].sum() > more
    if not long[1:].any() or more < SLOW_SHARE * width.sum() or of_its_own:
        return
    rows = _busy_rows(results, steps)
    outside = width - busy_union(trace, rows).within(steps.start, steps.end)
    rest = min(more, int((outside - np.median(outside[~long]))[long].sum()))
    where = f" For {duration(rest)} of it their thread was in no op." if 2 * rest > more else ""
    loading = loading_time(results).within(steps.start, steps.end)
    waited = min(more, int((loading - np.median(loading[~long]))[long].sum()))
    loads = 2 * waited > more
    if loads:
        where = f" For {duration(waited)} of it the program waited for its DataLoader."
    short, level = more < SLOW_NS * many, "medium"
    named, spent = ("", 0) if where or short else _dearest(results, steps, long)
    worst = int(np.argmax(steps.end - steps.start))
    only, at = _only_there(results, steps, long, worst)
    inside = _time_in(trace, at, steps, worst)
    if loads:
        advice = loading_advice(results)
    elif short:
        advice, level = _SYSTEMS, "info"
    elif is_allocation(named):
        advice = allocation_advice(results)
    elif is_synchronising(named):
        advice = _OF_THE_GPU
    elif not where and _do_the_same(trace, steps, rows, long):
        where = f" {'It runs' if many == 1 else 'They run'} as many ops as the others, and these take longer."
        advice = _SAME_OPS.format(how="" if shapes_recorded(trace) else " (record_shapes=True)")
    else:
        advice = _NAMED if named else _ONLY_THERE
    for slow in slow_calls_of(results):
        if trace.name_of(int(slow.at[0])) == named:
            advice = slow.advice(trace)
    if 2 * inside > int((width - usual).max()) and not loads:
        where += f" Found only there: {only}, {duration(inside)}{' in the longest' if many > 1 else ''}."
        advice, named = _ONLY_THERE, ""
    if named:
        longest = " in the longest" if many > 1 else ""
        spent = min(spent, int((width - usual).max()))
        wait = "a wait for the GPU, " if is_synchronising(named) else ""
        where += f" Most of it is {wait}{short_name(named, 'cuda_runtime')} (+{duration(spent)}{longest})."
    which = _numbers(steps, long)
    mean, part = duration(int(width[long].mean())), share(more / int(width.sum()))
    each, they = (f"Step {which} takes {mean}", "it takes")
    if many > 1:
        each, they = f"Steps {which} take {mean} on average", "they take"
    yield Finding(
        "slow_steps",
        level,
        f"{many:,} of {len(steps):,} steps {verb(many, 'take')} {duration(more)} longer than usual",
        f"{each} on the CPU, the median step {duration(usual)}. What {they} longer is {part} of the time of "
        f"all steps.{where}",
        advice,
        first_of(longest_first(trace, steps.event[long])),
        {"slow": float(many), "more_ns": float(more), "share": more / int(width.sum())},
    )


def _more_work(results: Results, steps: StepTable) -> Iterator[Finding]:
    """`slow_steps`, where the device sets the pace: some steps give it far more work than most."""
    trace, work = results.trace, results.work()
    begun = launch_times(trace, work)
    step = step_of(steps, begun)
    inside = step >= 0
    time = sum_into(step[inside], trace.duration[work[inside]], len(steps))
    usual = int(np.median(time))
    long = (time >= COLD_RATIO * usual) & (time - usual >= SLOW_NS) & unusual_lengths(time)
    many, more = int(long.sum()), int((time - usual)[long].sum())
    if not long[1:].any() or more < SLOW_SHARE * time.sum():
        return
    worst = int(np.argmax(time))
    only, at = _only_there(results, steps, long, worst)
    of_it = (busy_union(trace, at).touching(begun, begun + 1) > 0) & (step == worst)
    spent = int(trace.duration[work[of_it]].sum())
    told = 2 * spent > time[worst] - usual
    longest, average = (" in the longest", " on average") if many > 1 else ("", "")
    where = f" Found only there: {only}, which launches {duration(spent)}{longest}." if told else ""
    part = more / int(time.sum())
    each = f"Step {_numbers(steps, long)} launches" if many == 1 else f"Steps {_numbers(steps, long)} launch"
    yield Finding(
        "slow_steps",
        "medium" if told else "low",
        f"{many:,} of {len(steps):,} steps {verb(many, 'give')} the GPU {duration(more)} more work than "
        "usual",
        f"{each} kernels and copies of {duration(int(time[long].mean()))}{average}, the median step "
        f"{duration(usual)}. The difference is {share(part)} of the work of all steps.{where}",
        _ONLY_THERE if told else _LARGER,
        first_of([*at[:1].tolist(), *longest_first(trace, steps.event[long]).tolist()]),
        {"slow": float(many), "more_ns": float(more), "share": part},
    )


def _numbers(steps: StepTable, long: Bool) -> str:
    """The numbers of these steps, of many the first few."""
    numbers = [f"{n}" for n in steps.number[long][:5].tolist()]
    return ", ".join(numbers) + (", ..." if long.sum() > len(numbers) else "")


def _only_there(results: Results, steps: StepTable, long: Bool, worst: int) -> tuple[str, I64]:
    """The annotation that takes most of the `worst` step, of those that all `long` steps have and no other,
    "" for none; and where it stands in that step (slices)."""
    trace = results.trace
    at = results.slices(Kind.ANNOTATION, lambda name: not name.startswith(_NOT_ASKED))
    step = step_of(steps, trace.start[at])
    usual = np.unique(trace.name[at[(step >= 0) & ~long[step]]])
    mine = at[(step == worst) & ~np.isin(trace.name[at], usual)]
    for other in np.flatnonzero(long).tolist():
        mine = mine[np.isin(trace.name[mine], trace.name[at[step == other]])]
    if not len(mine):
        return "", mine
    names, which = np.unique(trace.name[mine], return_inverse=True)
    top = int(np.argmax([_time_in(trace, mine[which == i], steps, worst) for i in range(len(names))]))
    return short_name(trace.names[int(names[top])], "user_annotation"), mine[which == top]


def _time_in(trace: Trace, at: I64, steps: StepTable, step: int) -> int:
    """How much of a step passes in these slices, ns."""
    return int(busy_union(trace, at).within(steps.start[[step]], steps.end[[step]])[0])


def _dearest(results: Results, steps: StepTable, long: Bool) -> tuple[str, int]:
    """(the op or call that is most of what the longest step takes beyond the others; for how much more, ns);
    ("", 0) for none."""
    trace, worst = results.trace, int(np.argmax(steps.end - steps.start))
    rows = _busy_rows(results, steps)
    own = results.own_time()[rows]

    def spent(step: int) -> I64:
        inside = (trace.start[rows] >= steps.start[step]) & (trace.start[rows] < steps.end[step])
        return sum_into(trace.name[rows[inside]].astype(np.int64), own[inside], len(trace.names))

    others = np.flatnonzero(~long)[:20].tolist()
    surplus = spent(worst) - np.median(np.stack([spent(i) for i in others]), axis=0)
    top = int(np.argmax(surplus))
    width = steps.end - steps.start
    if 2 * surplus[top] <= width[worst] - np.median(width[~long]):
        return "", 0
    return trace.names[top], int(surplus[top])


def _busy_rows(results: Results, steps: StepTable) -> I64:
    """The ops and calls of the steps' thread and of those that launch: in the backward pass the thread waits
    for one of autograd's."""
    trace, lanes = results.trace, results.launching_lanes().copy()
    lanes[trace.lane[steps.event[0]]] = True
    rows = np.flatnonzero(trace.is_kind(Kind.CPU_OP, Kind.RUNTIME) & ~trace.implausible)
    return rows[lanes[trace.lane[rows]]]


def _do_the_same(trace: Trace, steps: StepTable, rows: I64, long: Bool) -> bool:
    """Whether the `long` steps have as many of `rows` as the others."""
    done = count_in(steps, trace.start[rows])
    usual = float(np.median(done[~long]))
    return bool((np.abs(done[long] - usual) <= SAME * usual).all())


def _widths(results: Results) -> F64 | None:
    """Each step's CPU time without the profiler's own, ns; None unless the first is much longer."""
    steps = _alike(results)
    # If the device is always busy, a slow first step on the CPU costs nothing.
    if len(steps) < 2 or not results.is_whole or results.verdict().verdict == "compute-bound":
        return None
    compiled = busy_union(results.trace, compile_phases(results)).within(steps.start[:1], steps.end[:1])
    if 2 * int(compiled[0]) > int(steps.end[0] - steps.start[0]):  # a finding of its own
        return None
    width = _own_widths(results, steps)
    most = float(np.percentile(width[1:], 75))  # several slow steps are no slow start
    wide = most > 0 and width[0] >= COLD_RATIO * most and width[0] - most >= COLD_NS
    wide = wide and bool(width[1:].max() < AS_LONG * width[0])  # else it is not for being the first
    loading = loading_time(results).within(steps.start, steps.end)
    if 2 * (int(loading[0]) - np.median(loading[1:])) > width[0] - most:  # it waits for its batch
        return None
    return width.astype(np.float64) if wide else None


def _own_widths(results: Results, steps: StepTable) -> I64:
    """Each step's time on the CPU, without the profiler's work and waiting for a place in the queue, ns."""
    trace = results.trace
    not_its_own = busy_union(trace, np.union1d(profilers_work(trace), queue_full(trace)))
    return np.asarray(steps.end - steps.start - not_its_own.within(steps.start, steps.end), dtype=np.int64)


def _alike(results: Results) -> StepTable:
    """The first step, and of the others those that do about as much: half to twice as many launches, or ops
    where the first launches nothing.
    """
    trace, steps = results.trace, results.step_table()
    if not len(steps):
        return steps
    at = results.launch_calls()
    done = count_in(steps, trace.start[at])
    if not done[0]:
        at = results.slices(Kind.CPU_OP, lambda _: True)
        done = count_in(steps, trace.start[at])
    keep = (2 * done >= done[0]) & (done <= 2 * done[0])
    return steps.only(keep)


def _is_cold(width: F64) -> bool:
    """Whether the second step is still long, against several others, or the first one is very long."""
    still = len(width) > 3 and width[1] >= STILL_COLD * np.median(width[2:])
    return bool(still or width[0] >= VERY_COLD_RATIO * np.median(width[1:]))


def _first_step(results: Results, width: F64) -> tuple[int, float, str, tuple[int, ...], dict[str, float]]:
    """(number, ratio, how much longer it is and why, evidence, numbers) of the first step."""
    steps = _alike(results)
    number = int(steps.number[0])
    usual = float(np.median(width[1:]))
    whole = float(steps.end[0] - steps.start[0])
    profiler = whole - float(width[0])
    many = len(steps) > 2
    others = f"{len(steps) - 1:,} other steps take {duration(usual)} (median)"
    others = others if many else f"other step takes {duration(usual)}"
    if len(steps) < len(results.step_table()):
        others = others.replace(" take", " that do as much take" if many else " that does as much take", 1)
    text = f"Step {number} takes {duration(whole)} on the CPU, the {others}"
    if profiler:
        queued = "" if not len(queue_full(results.trace)) else " and waiting for room in the queue"
        text += f". Of the first, {duration(profiler)} is the profiler's own work{queued}, not counted here"
    text += ". "
    dearer = _dearer(results)
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


def _dearer(results: Results) -> list[tuple[str, float, int]]:
    """What took most of the first step's surplus: (name, surplus in ns, its longest slice there), at most
    two.
    """
    trace, steps = results.trace, _alike(results)
    lane = int(trace.lane[steps.event[0]])
    rows = np.arange(trace.lanes[lane].first, trace.lanes[lane].last)
    rows = rows[~trace.implausible[rows] & (trace.kind[rows] != Kind.PYTHON)]
    own = results.own_time()[rows] - _profiler_time(results, rows)
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


def _profiler_time(results: Results, rows: I64) -> I64:
    """How much of each slice's own time was the profiler's. ``rows`` are rows of one lane, in order."""
    trace = results.trace
    inside = _overhead(results).within(trace.start[rows], trace.start[rows] + trace.duration[rows])
    around = np.searchsorted(rows, trace.parent[rows])
    has = np.flatnonzero((around < len(rows)) & (trace.parent[rows] >= 0))
    has = has[rows[around[has]] == trace.parent[rows[has]]]
    return inside - sum_into(around[has], inside[has], len(rows))


def before_the_first_op(results: Results) -> Iterator[Finding]:
    """A long time between an annotation's start and the first event recorded in it."""
    if results.verdict().verdict == "compute-bound":  # the device has enough to do meanwhile
        return
    trace = results.trace
    # A collective waits for other ranks, on a thread of its own.
    at = results.slices(
        Kind.ANNOTATION, lambda name: not (name.startswith(_NOT_ASKED) or is_collective(name))
    )
    recorded = np.flatnonzero((trace.kind != Kind.PYTHON) & ~trace.implausible)
    position = np.searchsorted(recorded, at, side="right")
    at, position = at[position < len(recorded)], position[position < len(recorded)]
    inner = recorded[position]
    end = trace.start[at] + trace.duration[at]
    inside = (trace.lane[inner] == trace.lane[at]) & (trace.start[inner] < end)
    at, inner = at[inside], inner[inside]
    stretch = trace.start[inner] - trace.start[at]
    stretch = stretch - _overhead(results).within(trace.start[at], trace.start[inner])
    long = (stretch >= STRETCH_NS) & (stretch >= STRETCH_SHARE * trace.duration[at])
    at, inner, stretch = at[long], inner[long], stretch[long]
    if not len(at) or stretch.sum() < STRETCH_OF_ALL * (results.span[1] - results.span[0]):
        return
    order = np.argsort(-stretch, kind="stable")
    at, inner, stretch = at[order], inner[order], stretch[order]
    name = short_name(trace.name_of(int(at[0])), "user_annotation")
    first = short_name(trace.name_of(int(inner[0])), "cpu_op")
    part = share(stretch[0] / trace.duration[at[0]])
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
        f"{name} runs for {duration(trace.duration[at[0]])}, of which {duration(stretch[0])} ({part}) pass "
        f"before {first} begins. {others}In that time the thread is in no op, launch or other "
        f"annotation: it runs {code}, or it waits.",
        how,
        first_of(np.stack([at, inner], axis=1).ravel()),
        {"stretch_ns": float(stretch[0]), "total_ns": float(stretch.sum()), "count": float(len(at))},
    )


def work_in_flight_at_start(results: Results) -> Iterator[Finding]:
    """Much of what the device is busy with was launched before the recording."""
    trace, part = results.trace, results.earlier_share()
    if part < EARLIER_SHARE:
        return
    low, high = results.judged_range()
    at = results.earlier_work()
    end = trace.start[at] + trace.duration[at]
    at, end = (values[(trace.start[at] < high) & (end > low)] for values in (at, end))
    what = plural(len(at), "kernel, copy or memset", "kernels, copies and memsets")
    yield Finding(
        "work_in_flight_at_start",
        "info",
        f"{share(part)} of the busy time is work that was launched before the recording",
        f"No launch in the trace belongs to {what} that came first in their streams. All of it was queued "
        f"when the recording began, and the last of it runs until {instant(int(end.max()))}. It belongs to "
        "no op and no step.",
        "Do not look for what launched it. To record only work launched during the recording, call "
        "torch.cuda.synchronize() before it starts; or record more steps, so that this matters less.",
        first_of(longest_first(trace, at)),
        {"share": part, "events": float(len(at)), "last_end_ns": float(end.max())},
    )


def profiler_overhead(results: Results) -> Iterator[Finding]:
    """The profiler's own work delays the first device event, or explains a gap."""
    trace = results.trace
    overhead = profilers_work(trace)
    if not len(overhead) or not results.gaps().devices:
        return
    spent = _overhead(results)
    for gaps, causes in zip(results.gaps().devices, results.device_causes(), strict=True):
        several, device = len(results.gaps().devices) > 1, results.device_text(gaps)
        begun = np.array([gaps.first - gaps.lead_in], dtype=np.int64)
        in_lead = int(spent.within(begun, np.array([gaps.first]))[0])
        in_gaps = np.minimum(causes.pieces[:, PROFILER], spent.within(gaps.start, gaps.end))
        worst = int(np.argmax(in_gaps)) if len(gaps) else -1
        if results.is_whole and in_lead >= max(PROFILER_NS, PROFILER_SHARE * gaps.lead_in):
            first = int(results.work()[np.searchsorted(trace.start[results.work()], gaps.first)])
            where = _what_it_interrupts(results, overhead, int(begun[0]), gaps.first)
            name = trace.name_of(where[0])
            yield Finding(
                "profiler_overhead",
                "info",
                f"{name} holds up {f'the first kernel of {device}' if several else 'the first kernel'} for "
                f"{duration(in_lead)}",
                f"{capital(device)}'s first event starts {duration(gaps.lead_in)} after the CPU does; "
                f"{duration(in_lead)} of that is the profiler's own work ({name}){where[1]}. Without a "
                "profiler, the program does not have this cost.",
                f"Do not count that stretch{' or the op around it' if where[1] else ''}. With warm-up steps "
                "in the schedule, it is over before the recording starts.",
                first_of([*(int(i) for i in where[2]), first]),
                {"profiler_ns": float(in_lead), "lead_in_ns": float(gaps.lead_in)},
                device,
            )
        if worst >= 0 and int(in_gaps.sum()) >= max(PROFILER_NS, 0.01 * gaps.span):
            many = int((in_gaps > 0).sum())
            longest = "the longest lasts" if many > 1 else "it lasts"
            where = _what_it_interrupts(results, overhead, int(gaps.start[worst]), int(gaps.end[worst]))
            name = trace.name_of(where[0])
            without = " and ".join(what for what in recorded_too(trace) if what != "shapes")
            without = without and f", or record without {without}"
            yield Finding(
                "profiler_overhead",
                "info",
                f"The profiler's own work explains {duration(in_gaps.sum())} of idle time"
                f"{f' of {device}' if several else ''}",
                f"{name} holds {device} up in {plural(many, 'gap')}{where[1]}; {longest} "
                f"{duration(gaps.duration[worst])}. Without a profiler, the program does not have "
                f"{'them' if many > 1 else 'it'}.",
                f"Do not count that time. To get less of it, record fewer steps{without}.",
                first_of([*(int(i) for i in where[2]), int(causes.event[worst])]),
                {"profiler_ns": float(in_gaps.sum()), "gaps": float(many)},
                device,
            )


def _what_it_interrupts(results: Results, overhead: I64, start: int, end: int) -> tuple[int, str, I64]:
    """(longest overhead event of a range of time, ", inside OP" or "", all its overhead events)."""
    trace = results.trace
    low = np.maximum(trace.start[overhead], start)
    length = np.minimum(trace.start[overhead] + trace.duration[overhead], end) - low
    inside = overhead[length > 0]
    longest = int(inside[np.argmax(length[length > 0])])
    middle = int(trace.start[longest] + trace.duration[longest] // 2)
    threads = np.array([i for i, lane in enumerate(trace.lanes) if lane.kind == "thread"], dtype=np.int64)
    around = deepest_at(trace, threads, np.full(len(threads), middle, dtype=np.int64))
    ops = [int(i) for i in around if i >= 0 and trace.kind[i] in (Kind.CPU_OP, Kind.RUNTIME)]
    return longest, f", inside {trace.name_of(ops[0])}" if ops else "", inside


def _overhead(results: Results) -> Union:
    return busy_union(results.trace, profilers_work(results.trace))
