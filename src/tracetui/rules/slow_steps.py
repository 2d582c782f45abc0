"""Rules on steps other than the first that take far longer than most."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tracetui.analysis.calls.calls import exclusive_time_of
from tracetui.analysis.calls.compiling import compile_phases
from tracetui.analysis.calls.launches import launching_lanes_of
from tracetui.analysis.calls.slow_calls import slow_calls_of
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.device_text import gpus_text
from tracetui.analysis.device_work import device_work_of
from tracetui.analysis.idle.cpu_time import cpu_time_of, is_allocation, is_synchronizing
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.analysis.rates.efficiency import shapes_recorded
from tracetui.analysis.steps.loading import loading_time
from tracetui.analysis.steps.scope import count_in, launch_times, slices_of, step_of, step_table_of
from tracetui.analysis.steps.step_table import StepTable
from tracetui.analysis.steps.steps import unusual_lengths
from tracetui.analysis.steps.widths import COLD_NS, COLD_RATIO, NOT_ASKED, SLOW_NS, cold_widths, own_widths
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules.advice import advise, allocation_advice, claim_advice, loading_advice, slow_call_advice
from tracetui.rules.claims import Claim, Claims, Count, Share, Time, says
from tracetui.rules.model import Finding, build_finding
from tracetui.trace import Kind, Trace
from tracetui.trace.model import I64, Bool
from tracetui.trace.slices import Slices

SLOW_SHARE = 0.2
"""Of the time of all steps: what slow ones take beyond the usual, to be told."""
SAME = 0.02
"""Steps whose numbers of ops differ by no more than this share run the same ops."""
_ONLY_THERE = (
    "Look at what the program does only there: saving, evaluating, logging. If it is necessary, do it less "
    "often or in parallel with the steps."
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


def slow_steps(part: Part) -> Iterator[Finding]:
    """Some steps take far longer than most, other than at the start: saving, evaluating."""
    trace, steps = part.trace, step_table_of(part)
    if len(steps) < 3 or not part.is_whole:
        return
    if verdict_of(part).verdict == "compute-bound":  # how long a step takes on the CPU says little there
        yield from _more_work(part, steps)
        return
    width = own_widths(part, steps)
    # Of what the first steps do for the first time, `initialisation` tells.
    first = busy_union(trace, cpu_time_of(part).first).overlap(steps.start, steps.end)
    width = np.maximum(width - first * np.cumprod(first > 0), 0)
    usual = int(np.median(width))
    # Where steps of all lengths come, none is "usual".
    long = (width >= COLD_RATIO * usual) & (width - usual >= COLD_NS) & unusual_lengths(width)
    many, more = int(long.sum()), int((width - usual)[long].sum())
    compiled = busy_union(trace, compile_phases(part)).overlap(steps.start, steps.end)
    of_its_own = cold_widths(part) is not None or 2 * compiled[long].sum() > more
    if not long[1:].any() or more < SLOW_SHARE * width.sum() or of_its_own:
        return
    rows = _busy_rows(part, steps)
    claims: dict[str, Claim] = {}
    outside = width - busy_union(trace, rows).overlap(steps.start, steps.end)
    rest = min(more, int((outside - np.median(outside[~long]))[long].sum()))
    if 2 * rest > more:
        claims["outside_ns"] = Time(rest)
    loading = loading_time(part).overlap(steps.start, steps.end)
    waited = min(more, int((loading - np.median(loading[~long]))[long].sum()))
    loads = 2 * waited > more
    if loads:
        claims = {"loading_ns": Time(waited)}
    short, level = more < SLOW_NS * many, "medium"
    named, spent = ("", 0) if claims or short else _dearest(part, steps, long)
    worst = int(np.argmax(steps.end - steps.start))
    only, at = _only_there(part, steps, long, worst)
    inside = _time_in(trace, at, steps, worst)
    if loads:
        advice = loading_advice(part)
    elif short:
        advice, level = claim_advice("system's"), "info"
    elif is_allocation(named):
        advice = allocation_advice(part)
    elif is_synchronizing(named):
        advice = claim_advice("GPU's")
    elif not claims and _do_the_same(trace, steps, rows, long):
        claims["same_ops"] = True
        advice = claim_advice("same ops", shapes=shapes_recorded(trace))
    else:
        advice = claim_advice("named" if named else "only there")
    for slow in slow_calls_of(part):
        if slow.calls.first_name == named:
            advice = slow_call_advice(slow)
    if 2 * inside > int((width - usual).max()) and not loads:
        claims["only"], claims["only_ns"] = only, Time(inside)
        advice, named = claim_advice("only there"), ""
    if named:
        claims["most"] = short_name(named, "cuda_runtime")
        claims["most_ns"] = Time(min(spent, int((width - usual).max())))
        claims["waits"] = is_synchronizing(named)
    yield build_finding(
        "slow_steps",
        level,
        {
            "what": "time",
            "slow": Count(many),
            "more_ns": Time(more),
            "share": Share(more, int(width.sum()), "of the time of all steps"),
            "steps": Count(len(steps)),
            "numbers": _numbers(steps, long),
            "mean_ns": Time(int(width[long].mean())),
            "usual_ns": Time(usual),
            **claims,
            **advice,
        },
        Slices(trace, steps.event[long]).longest_first(),
        "slow more_ns share",
    )


_ADVICE = {
    "only there": _ONLY_THERE,
    "larger": _LARGER,
    "named": _NAMED,
    "GPU's": _OF_THE_GPU,
    "system's": _SYSTEMS,
}


@says("slow_steps")
def _slow_steps(c: Claims) -> tuple[str, str, str]:
    many = c.slow.n > 1
    in_the_longest = " in the longest" if many else ""
    why = c.advice.each[0].name
    how = "" if c.get("shapes") else " (record_shapes=True)"
    advice = _SAME_OPS.format(how=how) if why == "same ops" else _ADVICE.get(why) or advise(c)
    where = ""
    if "outside_ns" in c:
        where += f" For {c.outside_ns} of it their thread was in no op."
    if "loading_ns" in c:
        where += f" For {c.loading_ns} of it the program waited for its DataLoader."
    if "same_ops" in c:
        where += f" {'They run' if many else 'It runs'} as many ops as the others, and these take longer."
    if "only" in c:
        launches = "which launches " if c.what == "work" else ""
        where += f" Found only there: {c.only}, {launches}{c.only_ns}{in_the_longest}."
    if "most" in c:
        wait = "a wait for the GPU, " if c.waits else ""
        where += f" Most of it is {wait}{c.most} (+{c.most_ns}{in_the_longest})."
    steps, average = (f"Steps {c.numbers}", " on average") if many else (f"Step {c.numbers}", "")
    if c.what == "work":
        return (
            f"{c.slow} of {c.steps} steps {c.slow:~give} {gpus_text(c.gpus.n)} {c.more_ns} more work than "
            "usual",
            f"{steps} {'launch' if many else 'launches'} kernels and copies of {c.mean_ns}{average}, the "
            f"median step {c.usual_ns}. The difference is {c.share}.{where}",
            advice,
        )
    takes, it_takes = ("take", "they take") if many else ("takes", "it takes")
    return (
        f"{c.slow} of {c.steps} steps {c.slow:~take} {c.more_ns} longer than usual",
        f"{steps} {takes} {c.mean_ns}{average} on the CPU, the median step {c.usual_ns}. What {it_takes} "
        f"longer is {c.share}.{where}",
        advice,
    )


def _more_work(part: Part, steps: StepTable) -> Iterator[Finding]:
    """`slow_steps`, where the device sets the pace: some steps give it far more work than most."""
    trace, work = part.trace, device_work_of(part)
    begun = launch_times(trace, work.at)
    step = step_of(steps, begun)
    inside = step >= 0
    time = sum_into(step[inside], work[inside].duration, len(steps))
    usual = int(np.median(time))
    long = (time >= COLD_RATIO * usual) & (time - usual >= SLOW_NS) & unusual_lengths(time)
    many, more = int(long.sum()), int((time - usual)[long].sum())
    if not long[1:].any() or more < SLOW_SHARE * time.sum():
        return
    worst = int(np.argmax(time))
    only, at = _only_there(part, steps, long, worst)
    of_it = busy_union(trace, at).holds(begun) & (step == worst)
    spent = work[of_it].time
    told = 2 * spent > time[worst] - usual
    claims: dict[str, Claim] = {"only": only, "only_ns": Time(spent)} if told else {}
    yield build_finding(
        "slow_steps",
        "medium" if told else "low",
        {
            "what": "work",
            "slow": Count(many),
            "more_ns": Time(more),
            "share": Share(more, int(time.sum()), "of the work of all steps"),
            "steps": Count(len(steps)),
            "numbers": _numbers(steps, long),
            "mean_ns": Time(int(time[long].mean())),
            "usual_ns": Time(usual),
            "gpus": Count(len(gaps_of(part).devices)),
            **claims,
            **claim_advice("only there" if told else "larger"),
        },
        Slices(trace, steps.event[long]),
        "slow more_ns share",
        first=[*at[:1].tolist(), *Slices(trace, steps.event[long]).longest_first()],
    )


def _numbers(steps: StepTable, long: Bool) -> str:
    """The numbers of these steps, of many the first few."""
    numbers = [f"{n}" for n in steps.number[long][:5].tolist()]
    return ", ".join(numbers) + (", ..." if long.sum() > len(numbers) else "")


def _only_there(part: Part, steps: StepTable, long: Bool, worst: int) -> tuple[str, I64]:
    """The annotation that takes most of the `worst` step, of those that all `long` steps have and no other,
    "" for none; and where it stands in that step (slices)."""
    trace = part.trace
    at = slices_of(part, Kind.ANNOTATION, lambda name: not name.startswith(NOT_ASKED)).at
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
    return int(busy_union(trace, at).overlap(steps.start[[step]], steps.end[[step]])[0])


def _dearest(part: Part, steps: StepTable, long: Bool) -> tuple[str, int]:
    """(the op or call that is most of what the longest step takes beyond the others; for how much more, ns);
    ("", 0) for none."""
    trace, worst = part.trace, int(np.argmax(steps.end - steps.start))
    rows = _busy_rows(part, steps)
    own = exclusive_time_of(part)[rows]

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


def _busy_rows(part: Part, steps: StepTable) -> I64:
    """The ops and calls of the steps' thread and of those that launch: in the backward pass the thread waits
    for one of autograd's."""
    trace, lanes = part.trace, launching_lanes_of(part).copy()
    lanes[trace.lane[steps.event[0]]] = True
    rows = np.flatnonzero(trace.is_kind(Kind.CPU_OP, Kind.RUNTIME) & ~trace.implausible)
    return rows[lanes[trace.lane[rows]]]


def _do_the_same(trace: Trace, steps: StepTable, rows: I64, long: Bool) -> bool:
    """Whether the `long` steps have as many of `rows` as the others."""
    done = count_in(steps, trace.start[rows])
    usual = float(np.median(done[~long]))
    return bool((np.abs(done[long] - usual) <= SAME * usual).all())
