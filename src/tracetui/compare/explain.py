"""Explains the difference in sentences with numbers, the largest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tracetui.analysis.calls.compiling import compile_phases
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.device_work import op_behind
from tracetui.analysis.idle.exposed_time import host_copies
from tracetui.analysis.idle.kinds import communicates
from tracetui.analysis.names.communication import is_communication
from tracetui.compare.change_text import call_changes, call_names, device_changes
from tracetui.compare.context import ComparisonContext
from tracetui.compare.examples import in_pairs
from tracetui.compare.machine_speed import FEW_CALLS, LIKE
from tracetui.compare.model import Explanation
from tracetui.compare.naming import NAMED, counted, listed, short
from tracetui.compare.sides import by_graph, loads_otherwise
from tracetui.compare.timing import Slower
from tracetui.compare.unrecorded import only_in_left_out
from tracetui.core.safe_text import plain
from tracetui.core.units import capital, duration, plural, significant, verb
from tracetui.trace.model import DEVICE_WORK, I64, Kind, Trace

MACHINE, DEVICE = 0.02, 0.03
"""The machine is mentioned if it was at least this much faster or slower, on the CPU and on the device,"""
LEAST = 0.02
"""and if that changes the step by at least this share."""
HELD = "Python, data loading, sleep{} other programs"
OUTSIDE, LITTLE, PART = 0.1, 0.03, 1 / 6
"""CPU time outside all ops is mentioned if it changes by `OUTSIDE` of the step, or by a smaller share if that
is `PART` of the change of the step."""
UNEVEN = 2
"""If the upper quartile of a name's times is more than this many times the lower one, the
sentence gives their sum."""
LIKELY = 0.5
"""A sentence gives medians if the change that they imply is at least this share of the real one, and at most
its inverse; otherwise it gives means."""
SIZES = 3
"""The most sizes from a list of tensors that are named."""


def explain(context: ComparisonContext) -> tuple[tuple[Explanation, ...], bool]:
    """(the explanations, most important first; whether both are the same program)."""
    program = [*device_changes(context), *call_changes(context), *_graphs(context), *_sizes(context)]
    same = not program and not (context.a.calls_only and context.a.no_calls)
    same = same and not any(map(len, context.matched.loads)) and not context.gradients
    same = same and not only_in_left_out(*context.whole)[0]
    waited = list(_waited(context))
    outside = [*_outside(context, sum(one.change_ns for one in waited)), *waited]
    machine = list(_machine(context, same, same and not outside_of_ops(outside)))
    found = [
        *machine,
        *_first_use(context),
        *_compiling(context),
        *outside,
        *_queued(context),
        *_exposed(context),
        *program,
        *_slower_work(context),
        *_more_steps(context),
    ]
    # What single calls took once is part of the machine's speed.
    told = any(one.on == "cpu" for one in machine)
    found += [one for one in _slower_calls(context) if not (told and one.kind == "once")]
    device = context.by_device
    if not told:
        found += _same_calls(context, sum(one.first(device)[0] for one in found))

    def weight(one: Explanation) -> tuple[bool, int]:
        # If the device sets the pace, what the CPU does meanwhile comes second, unless the device waits for
        # it.
        return device and one.on == "cpu", -abs(one.first(device)[0])

    order = sorted(found, key=weight)
    graph = [one for one in order if one.kind == "graph"]
    calls = next((n for n, one in enumerate(order) if one.kind == "calls"), len(order))
    if graph and order.index(graph[0]) > calls:  # the graph is why the calls differ
        order = [*order[:calls], *graph, *(one for one in order[calls:] if one not in graph)]
    return tuple(order), same


def _first_use(context: ComparisonContext) -> Iterator[Explanation]:
    """The device or its libraries are used for the first time on one side."""
    one = context.idle.get("initialisation")
    before, after = (one.a or 0.0, one.b or 0.0) if one else (0.0, 0.0)
    if abs(after - before) >= LEAST * max(context.step, context.metrics["step_ns"].b or 0):
        told = f"{duration(after)}{context.each} instead of {_or_none(before)}"
        text = f"The first use of the GPU and its libraries takes {told}."
        yield Explanation("initialisation", text, round(after - before), "cpu")


def _compiling(context: ComparisonContext) -> Iterator[Explanation]:
    """torch.compile compiles in some steps of one side."""
    before, after = (int(side.compiling.sum()) for side in context.whole)
    change = after / context.whole[1].rounds - before / context.whole[0].rounds
    if abs(change) < LEAST * max(context.step, context.metrics["step_ns"].b or 0):
        return
    told = []
    for letter, side, time in zip("AB", context.whole, (before, after), strict=True):
        if time:
            at = np.flatnonzero(side.compiling)
            steps = listed([side.label(int(i)) for i in at]) if len(at) <= NAMED else f"{len(at):,} steps"
            told.append(f"{duration(time)} in {letter}" + (f" ({steps})" if len(side.steps) else ""))
    text = f"torch.compile compiles during the recording: {', '.join(told)}."
    text += " It does so once for each graph and each new set of shapes."
    a, b = (compile_phases(side.part.whole) for side in context.sides)
    a, b = (at[side.round_of(at) >= 0] for side, at in zip(context.sides, (a, b), strict=True))
    yield context.told("compiling", text, change, "cpu", a, b, context.longest(a, b))


def _queued(context: ComparisonContext) -> Iterator[Explanation]:
    """The device left queued work waiting."""
    one = context.idle.get("queued")
    if one is None or one.within_noise:
        return
    before, after = one.a or 0.0, one.b or 0.0
    if abs(after - before) >= OUTSIDE * max(context.step, context.metrics["step_ns"].b or 0):
        told = f"{duration(after)}{context.each} instead of {_or_none(before)}"
        text = f"The GPU leaves queued work waiting for {told}: it waits for another stream or process."
        if context.gpus > 1:
            text = (
                f"Work that is queued waits for {told}, on {context.gpus:,} GPUs together: for another GPU, "
            )
            text += "stream or process."
        if not round(after):
            text = f"The GPU no longer leaves queued work waiting for {duration(before)}{context.each}."
        yield Explanation("queued", text, round(after - before), "device")


def _exposed(context: ComparisonContext) -> Iterator[Explanation]:
    """The same amount is copied, but the part of it during which no kernel runs changed."""
    copies, moved = context.metrics["copies_ns"], context.metrics["copied_bytes"]
    if copies.change is None or copies.within_noise or moved.change:
        return
    before, after = copies.a or 0.0, copies.b or 0.0
    a, b = (side.work[host_copies(side.trace, side.work)] for side in context.sides)
    # Only if the copies take as long as before: otherwise they are reported by themselves.
    as_long = 2 * abs(context.work_time(a, b).change) <= abs(copies.change)
    if as_long and abs(copies.change) >= OUTSIDE * max(context.step, context.metrics["step_ns"].b or 0):
        told = f"{duration(after)}{context.each} instead of {_or_none(before)}"
        text = f"The same amount is copied, but no kernel runs meanwhile for {told}."
        yield context.told("overlap", text, copies.change, "device", a, b, context.longest(a, b))


def _waited(context: ComparisonContext) -> Iterator[Explanation]:
    """The program waited a different time for its data or for other processes."""
    if context.by_device or context.a.calls_only:
        return
    longest = max(context.step, context.metrics["step_ns"].b or 0)
    talk = "communication", "Communication while no op runs", [side.talking for side in context.whole]
    load = "loading", "Data loading", [side.loading for side in context.whole]
    for kind, what, times in (load, talk):
        before, after = (float(np.median(one)) for one in times)
        if loads_otherwise(*context.whole) if kind == "loading" else abs(after - before) >= OUTSIDE * longest:
            text = f"{what} takes {duration(after)}{context.each} instead of {_or_none(before)}"
            if not round(after):
                text = f"{what} no longer takes {duration(before)}{context.each}"
            loads = kind == "loading" and any(map(len, context.matched.loads))
            text += f"; {call_names(context, *context.matched.loads)}." if loads else "."
            yield Explanation(kind, text, round(after - before), "cpu")


def _or_none(ns: float) -> str:
    return duration(ns) if round(ns) else "none"


def _outside(context: ComparisonContext, told: float) -> Iterator[Explanation]:
    """The time that the CPU spent outside all calls changed by more than the machine explains. The number is
    the time that the device waited for it or, without such idle time, all of it. `told`: the part that other
    explanations cover, ns."""
    step = context.metrics["step_ns"]
    longest, change = max(context.step, step.b or 0), 0 if step.within_noise else abs(step.change or 0)
    least = min(OUTSIDE * longest, max(LITTLE * longest, PART * change) if change else OUTSIDE * longest)
    if context.same_recording:  # steps of one recording vary
        least = max(OUTSIDE * longest, PART * change) if change else longest
    if context.by_device or context.a.no_calls:
        return
    one, (before, after) = context.idle.get("host"), context.outside
    if 2 * told * (after - before) > (after - before) ** 2:
        return
    ops = "all calls" if context.a.work_only else "all ops"
    held_up = HELD.format("," if context.recorded else " or") + context.recorded
    much, longer = before * ((context.speed.machine.cpu_ratio or 1.0) - 1), after - before
    # A device with other work, such as a collective that waits, is not waiting for the CPU.
    held = one.change or 0.0 if one is not None and not one.within_noise else 0.0
    if one is not None and longer * held >= held**2 / 2 > 0 and abs(held - one.machine) >= least:
        before, after = one.a or 0.0, one.b or 0.0
        for_it = f" for a CPU outside {ops}"
        text = (
            f"The GPU waits {duration(after)}{context.each} instead of {_or_none(before)}{for_it}: {held_up}."
        )
        if not round(after):
            text = f"The GPU no longer waits {duration(before)}{context.each}{for_it}: {held_up}."
    elif max(before, after) > LIKE * min(before, after) and abs(after - before - much) >= least:
        spent = f"{duration(after)}{context.each} instead of {_or_none(before)}"
        text = f"The CPU is outside {ops} for {spent}: {held_up}."
    else:
        return
    yield Explanation("host", text, round(after - before), "cpu")


def outside_of_ops(found: Sequence[Explanation]) -> bool:
    """Whether the CPU spends more or less time on something that the trace does not show: then the calls and
    kernels are the same, but the program need not be."""
    return any(one.kind in ("host", "loading") for one in found)


def _machine(context: ComparisonContext, same: bool, alone: bool) -> Iterator[Explanation]:
    """The calls and kernels that are the same took longer, or less time. `same`: there are no others;
    `alone`: and the program does nothing else differently either."""
    machine, (all_calls, all_work), work = (
        context.speed.machine,
        context.speed.all_of_it,
        context.matched.work,
    )
    cpu, device = machine.cpu_ratio or 1.0, machine.device_ratio or 1.0
    # If the device sets the pace, CPU time does not add to a step: then use the time of the calls alone.
    spent = _op_change(context) if context.by_device else context.speed.path
    a, b = work.all_a[context.pairs.comparable], work.all_b[context.pairs.comparable]
    timed = context.work_time(a, b)
    work_time = context.metrics["device_ns"].a or 1
    enough = context.related(False) and (same or machine.calls >= FEW_CALLS)
    slow_cpu = enough and abs(cpu - 1) >= MACHINE and abs(spent) >= LEAST * context.step
    # The sentence must agree with itself and, if one step stands for several, with the numbers of all steps.
    slow_cpu = slow_cpu and all_calls and spent * (cpu - 1) > 0 and _in_all(context, "cpu_op_ns", cpu)
    slow_device = (
        context.related(True)
        and all_work
        and abs(device - 1) >= DEVICE
        and abs(timed.change) >= LEAST * work_time
    ) and _in_all(context, "device_ns", device)
    if not slow_cpu and not slow_device:
        return
    calls = f"{round(machine.calls / context.count):,} calls{context.each}"
    only = not len(a) or bool(np.all(context.a.trace.kind[a] == Kind.KERNEL))
    what = ("kernel", "kernels") if only else ("kernel, copy or memset", "kernels, copies and memsets")
    kernels = plural(round(len(a) / context.count), *what) + context.each
    both = "" if alone else " that both run"
    its = "its" if alone else "the"
    of = "in ops" if context.by_device else "with the time between them"
    change = f"{'+' if spent > 0 else '-'}{duration(abs(spent))} {of}"
    told = f"{its} {calls}{both} took {significant(cpu)} times as long on the CPU ({change})"
    parts = [told] if slow_cpu else []
    if slow_device:
        parts.append(f"{its} {kernels}{both} took {significant(device)} times as long on the GPU")
    text = ", ".join(parts)
    on_device = slow_device and (not slow_cpu or context.by_device)
    if 1 < context.count < max(side.rounds for side in context.whole):
        text += f" in the {context.count} pairs of steps"
    if not context.same_recording:
        text = f"{'The same program: ' if alone else ''}{text}"
        if context.mostly(on_device):
            text += f": {context.blame('program' if alone else 'change')}"
    added, on = (timed.change, "device") if on_device else (spent, "cpu")
    yield Explanation("machine", f"{capital(text)}.", round(added), on)


def _same_calls(context: ComparisonContext, told: int) -> Iterator[Explanation]:
    """Extra (or less) time in calls that are the same, if only a few of them, or single calls, changed, so
    that it is not the machine, and `told`, the explanations so far (ns a step), leave most of the change
    open."""
    step = context.metrics["step_ns"]
    left = (step.change or 0.0) - told
    if context.by_device or step.within_noise or 2 * abs(left) < abs(step.change or 0.0):
        return
    calls, tree = context.matched.calls, context.matched.trees[0]
    same = ~context.pairs.bigger & ~context.pairs.other & ~tree.waits[tree.place[calls.a]]
    a, b = calls.a[same], calls.b[same]
    time = context.call_time(a, b)
    if time.change * left <= 0 or 2 * abs(time.change) < abs(left):
        return
    longer = context.self_time(1, b) - context.self_time(0, a)
    _, first, which = np.unique(context.a.trace.name[a], return_index=True, return_inverse=True)
    shares = np.bincount(which, longer) / (float(longer.sum()) or 1.0)
    order = [n for n in np.argsort(-shares).tolist() if shares[n] >= PART]
    most = listed([short(context.a.trace, int(a[first[n]])) for n in order])
    many = f"{counted(len(a) / context.count)} calls{context.each}"
    text = f"The same {many} took {duration(time.after)} instead of {duration(time.before)} on the CPU"
    text += f", most of it in {most}" * bool(most) + ". The recordings do not say why."
    kind = "slower" if time.change > 0 else "faster"
    places = in_pairs(a, b, np.abs(longer))
    yield context.told(kind, text, time.change, "cpu", a, b, places)


def _op_change(context: ComparisonContext) -> float:
    """How much longer the ops that are the same took, ns a step."""
    calls = context.matched.calls
    same = ~context.pairs.bigger & ~context.pairs.other & (context.a.trace.kind[calls.a] == Kind.CPU_OP)
    return context.call_time(calls.a[same], calls.b[same]).change


def _in_all(context: ComparisonContext, metric: str, ratio: float) -> bool:
    """Whether the numbers of all steps show at least half of the machine's effect on the matched steps, and
    the step did not change in the other direction."""
    row, step = context.metrics[metric], context.metrics["step_ns"].change or 0.0
    if all(side.rounds == context.count for side in context.whole):
        return True
    if (ratio - 1) * step < 0:
        return False
    return 2 * (row.change or 0.0) / ((ratio - 1) * (row.a or 1.0)) >= 1


def _graphs(context: ComparisonContext) -> Iterator[Explanation]:
    """The same work, launched by a CUDA graph on one side only."""
    at = context.matched.work.all_a, context.matched.work.all_b
    before, after = (by_graph(side, one) for side, one in zip(context.sides, at, strict=True))
    for these, come in ((after & ~before, "come"), (before & ~after, "no longer come")):
        if np.count_nonzero(these) < 2 * context.count:
            continue
        a, b = at[0][these], at[1][these]
        launches = [
            counted(len(np.unique(side.trace.launch[one])) / context.count)
            for side, one in zip(context.sides, (a, b), strict=True)
        ]
        same = f"The same {counted(len(a) / context.count)} kernels, copies and memsets{context.each}"
        text = f"{same} {come} from a CUDA graph: {launches[0]} → {launches[1]} launches"
        time = context.work_time(a, b)
        other = abs(time.change) >= DEVICE * time.before
        text += f", {duration(time.before)} → {duration(time.after)} on the GPU" if other else ""
        change = time.change if other else 0
        yield context.told("graph", f"{text}.", change, "device", a, b, in_pairs(a, b))


# The same work, on other sizes or taking a different time


def _sizes(context: ComparisonContext) -> Iterator[Explanation]:
    """Work on larger or smaller inputs; ops only if no device work explains more."""
    matched, grown, longer = context.matched, context.pairs.resized, context.pairs.stretched
    device = bool(grown.any())
    if not device and any(one.kind != "calls" for one in matched.changes):
        return
    pairs, mask = (matched.work, grown) if device else (matched.calls, context.pairs.bigger)
    if not mask.any():
        return
    sets = bool(device and np.all(context.a.trace.kind[pairs.all_a[mask]] == Kind.MEMSET))
    if sets and matched.changes:  # memsets come along with the other changes
        return
    a, b = (pairs.all_a[mask], pairs.all_b[mask]) if device else (pairs.a[mask], pairs.b[mask])
    example, more = _example(context, a, b), ""
    what = "of the kernels and copies" if device else "of the ops"
    work = verb(round(len(a) / context.count), "work")
    told = f"{counted(len(a) / context.count)} {what}{context.each} {work} on other sizes ({example})"
    if device and longer.any():
        less = context.work_time(pairs.all_a[longer], pairs.all_b[longer]).change < 0
        more = f", and {counted(np.count_nonzero(longer) / context.count)} more take "
        more += f"{'less time' if less else 'longer'} along with them, in the same grid"
        a, b = (np.concatenate([one, other[longer]]) for one, other in ((a, pairs.all_a), (b, pairs.all_b)))
    time = context.work_time(a, b) if device else context.call_time(a, b)
    text = (
        f"{told}{more}: "
        f"{duration(time.before)} → {duration(time.after)} on the {'GPU' if device else 'CPU'}"
        f"{context.each_of(time.rounds)}."
    )
    places = in_pairs(a, b, context.b.trace.duration[b])
    yield context.told("sizes", text, time.change, "device" if device else "cpu", a, b, places)


def _example(context: ComparisonContext, a: I64, b: I64) -> str:
    """The sizes of the longest of them, as far as they differ."""
    longest = int(np.argmax(context.b.trace.duration[b]))
    events = (context.a.trace, int(a[longest])), (context.b.trace, int(b[longest]))
    sizes = [{**_shapes(trace, i), **trace.args(i)} for trace, i in events]
    for key, name in (("shapes", ""), ("bytes", "bytes "), ("grid", "grid "), ("block", "block ")):
        one, other = (size.get(key) for size in sizes)
        if one != other and one is not None and other is not None:
            return plain(f"{short(*events[1])}: {name}{_by(one)} → {_by(other)}", 120)
    return short(*events[1])


def _shapes(trace: Trace, i: int) -> dict[str, object]:
    device = trace.is_kind(*DEVICE_WORK)[i]
    op = int(op_behind(trace, np.array([i]))[0]) if device else i
    dims = trace.args(op).get("Input Dims") if op >= 0 else None
    return {"shapes": [one for one in dims if one][:2]} if isinstance(dims, list) and any(dims) else {}


def _by(size: object) -> str:
    """`64x768 768x3072` for shapes, `2x66x1` for a grid."""
    if isinstance(size, list) and size and isinstance(size[0], list):
        return " ".join([*map(_by, size[:SIZES]), *([f"… ({len(size)})"] if len(size) > SIZES else [])])
    return "x".join(map(str, size)) or "scalar" if isinstance(size, list) else str(size)


def _slower_work(context: ComparisonContext) -> Iterator[Explanation]:
    time = context.a.trace.duration, context.b.trace.duration
    for one in context.pairs.outliers[1]:
        yield _slow(context, one, time, "device")


def _slower_calls(context: ComparisonContext) -> Iterator[Explanation]:
    time = np.zeros(len(context.a.trace), np.int64), np.zeros(len(context.b.trace), np.int64)
    for own, tree in zip(time, context.matched.trees, strict=True):
        own[tree.at] = tree.self_time
    for one in context.pairs.outliers[0]:
        if not one.once:
            yield _slow(context, one, time, "cpu")
    for sign in (1, -1):
        if once := [one for one in context.pairs.outliers[0] if one.once and one.change * sign > 0]:
            yield _once(context, once, time)


def _once(context: ComparisonContext, found: list[Slower], time: tuple[I64, I64]) -> Explanation:
    """Calls of several names of which only single ones took longer, or less time, reported as one: on a busy
    machine that can happen to any call."""
    a, b = (np.concatenate([getattr(one, side) for one in found]) for side in "ab")
    told = [
        f"{short(context.a.trace, int(one.a[0]))} {duration(float(np.median(time[1][one.b])))} instead of "
        f"{duration(float(np.median(time[0][one.a])))}"
        for one in found
    ]
    change = sum(one.change for one in found) / context.count
    what = f"{len(a):,} single calls took {'longer' if change > 0 else 'less time'} ({listed(told)})"
    text = f"{what}: on average {duration(abs(change))}{context.each} on the CPU."
    places = in_pairs(a, b, np.abs(time[1][b] - time[0][a]))
    return context.told("once", text, change, "cpu", a, b, places)


def _slow(context: ComparisonContext, one: Slower, time: tuple[I64, I64], on: str) -> Explanation:
    before, after = float(np.median(time[0][one.a])), float(np.median(time[1][one.b]))
    rounds = np.unique(context.b.round_of(one.b))
    alone = len(rounds) == 1 and context.count > 1
    where = f" in {context.b.label(int(rounds[0]))}" if alone else ""
    many = round(len(one.a) / context.count)
    some = f", {len(one.a):,} of {one.of:,} times" if len(one.a) < one.of else ""
    low, high = np.percentile(time[0][one.a], (25, 75))
    uneven = on == "device" and many > 1 and len(one.a) == one.of and high > UNEVEN * low
    each = context.each if uneven else ""
    if uneven:
        sums = (
            sum_into(side.round_of(at), ns[at], side.rounds)
            for side, at, ns in zip(context.sides, (one.a, one.b), time, strict=True)
        )
        before, after = (float(np.median(ns)) for ns in sums)
        some = f", {many:,} times together"
    whole = one.change / context.count
    shown = (after - before) * (1 if uneven else len(one.a) / context.count)
    if not alone and not LIKELY <= shown / (whole or 1.0) <= 1 / LIKELY:
        # The medians do not show the total.
        before, after = (
            float(ns[at].sum()) / context.count for ns, at in zip(time, (one.a, one.b), strict=True)
        )
        each, some = context.each, f"{some}, on average" if some else ", on average"
    some = some or (f", {many:,} times{context.each}" if many > 1 else "")
    name, place = short(context.a.trace, int(one.a[0])), "GPU" if on == "device" else "CPU"
    crowded = context.matched.work.all_a[context.pairs.overlap_differs]
    if on == "device" and is_communication(context.a.trace.name_of(int(one.a[0]))):
        some += ", including its wait for other ranks"
    elif on == "device" and 2 * np.isin(one.a, crowded).sum() > len(one.a):
        talk = any(communicates(side.trace)[side.trace.name[side.work]].any() for side in context.sides)
        beside = "collectives run" if talk else "other work runs"
        some += f", where {beside} beside it on one side only"
    text = f"{name} takes {duration(after)} instead of {duration(before)}{each} on the {place}{where}{some}."
    kind, places = "slower" if one.change > 0 else "faster", np.abs(time[1][one.b] - time[0][one.a])
    return context.told(kind, text, whole, on, one.a, one.b, in_pairs(one.a, one.b, places))


def _more_steps(context: ComparisonContext) -> Iterator[Explanation]:
    a, b = (side.rounds for side in context.whole)
    if a != b and min(a, b) > 1:
        yield Explanation("steps", f"B has {plural(b, 'step')}, A {a}.", 0, "cpu")
