"""What a comparison says of its sides as wholes: how they were recorded, whether they are one program."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.analysis.calls.backward import recomputed_ops
from tracetui.analysis.device_work import decoded_names
from tracetui.analysis.select import names_of
from tracetui.analysis.steps.scope import step_table_of
from tracetui.compare.context import OPTIONS, ComparisonContext, options
from tracetui.compare.merging import unrelated
from tracetui.compare.metrics import linked, links_of
from tracetui.compare.model import counted_of
from tracetui.compare.naming import listed
from tracetui.compare.sides import Side, device_name
from tracetui.compare.unrecorded import (
    nothing,
    only_in_left_out,
    steps_left_out,
    unrecorded_cpu,
    unrecorded_ops,
    unrecorded_work,
)
from tracetui.core.units import duration, plural, share
from tracetui.trace.unknown import without_duration
from tracetui.trace.unrecorded import lost_throughout, missing_kernels

STRANGE = 0.05
"""If two programs have less than this in common, B is not a changed version of A."""
LITTLE, MANY = 0.25, 12
"""With so little of the GPU's work in common and so many explanations, it probably is not either,"""
WITHIN = 0.75
"""unless nearly all of one is in the other, which does much else besides."""
WAITS = 0.001
"""If a device waits for the CPU for a smaller share of a step than this, that is not mentioned."""


def mismatch_warning(context: ComparisonContext, told: int) -> str:
    """A question to ask if the two programs have so little in common that one is hardly a changed version of
    the other. `told`: the number of explanations."""
    repeated_work = context.matched.repeated_work
    if repeated_work is not None and any(2 * inside.sum() >= len(inside) for inside in repeated_work.inside):
        return ""  # most of it is the same, only more often
    a, b = context.sides
    sizes = (a.work, b.work, context.matched.work.a), (a.calls, b.calls, context.matched.calls.a)
    known = [
        (*sorted((len(one), len(other))), len(both)) for one, other, both in sizes if len(one) or len(other)
    ]
    same = [both / most for _, most, both in known]
    if not (_compiled(a, b) or _compiled(b, a)) and max(same, default=1.0) < STRANGE:
        return "A and B have hardly anything in common: is this the same program?"
    # Nearly all of the smaller program is in the larger one, which does much else besides.
    within = all(both >= WITHIN * least for least, _, both in known)
    # A compiler leaves little of a program unchanged.
    within |= any(any(name.startswith("triton_") for name in side.trace.names) for side in (a, b))
    many = told > MANY or unrelated(context.sides, context.matched.work)
    if many and len(same) == 2 and same[0] < LITTLE and same[1] < 0.5 and not within:
        of = f"{share(same[0])} of the GPU's work and {share(same[1])} of the calls"
        return f"by name only {of} are the same in both: is this the same program?"
    return ""


def _compiled(a: Side, b: Side) -> bool:
    """Whether the names of `b`'s compiled kernels mostly mention ops that `a` runs."""
    fused = {
        op for name in decoded_names(b.trace, b.work).values() if name.family == "triton" for op in name.ops
    }
    ops = {name.rpartition("::")[2].strip("_") for name in names_of(a.trace, a.calls)}
    ops |= {op for name in decoded_names(a.trace, a.work).values() for op in name.ops}
    return bool(fused) and 2 * len(fused & ops) >= len(fused)


def notes(context: ComparisonContext, pairs: Sequence[tuple[int, int]], strange: str) -> tuple[str, ...]:
    a, b = context.whole
    found = []
    has_a, has_b = len(step_table_of(a.part)), len(step_table_of(b.part))
    if not len(a.steps) and (has_a or has_b):
        which = "A" if has_a else "B"
        found.append(f"only {which} has steps: the recordings are compared as wholes")
    elif not len(a.steps):
        found.append("there are no steps: the recordings are compared as wholes")
    if a.rounds != b.rounds and len(a.steps):
        what = f"A has {plural(a.rounds, 'step')}, B {b.rounds}"
        one, other = counted_of(a, b, pairs)
        if one is not a or other is not b:
            found.append(f"{what}: the numbers cover the {len(pairs)} that were matched on each side")
        elif len(pairs) > 1:
            found.append(f"{what}: {len(pairs)} were matched on each side; the numbers cover all steps")
        else:
            left, right = (side.label(i) for side, i in zip((a, b), pairs[0], strict=True))
            found.append(f"{what}: {left} of A and {right} of B were matched; the numbers cover all steps")
    if context.shifted:
        sources = [step_table_of(side.part).source for side in (a, b)]
        found.append(f"the steps of A come from {sources[0]}, those of B from {sources[1]}")
    if letter := nothing(a, b):
        return (*found, f"{letter} has no events of PyTorch's profiler: there is nothing to compare")
    if strange:
        found.append(strange)
    for letter, side in zip("AB", (a, b), strict=True):
        if side.trace.cut_off:
            found.append(
                f"the file of {letter} is cut off: only calls are compared, and what is gone may be missing"
            )
        elif lost := missing_kernels(side.trace) or lost_throughout(side.trace):
            found.append(
                f"{letter} lost the kernels of {plural(lost, 'launch', 'launches')}: only calls are compared"
            )
        elif zero := len(without_duration(side.trace)):
            found.append(
                f"{plural(zero, 'kernel')} of {letter} with a duration of 0: only calls are compared"
            )
        elif lost := side.lost:
            launches = plural(lost, "launch", "launches")
            found.append(f"{letter} lacks the device events of {launches}: only calls are compared")
    letter, calls = only_in_left_out(a, b)
    for each, side in zip("AB", (a, b), strict=True):
        if count := steps_left_out(side):
            it = "it launches" if count == 1 else "they launch"
            note = f"{each} has {plural(count, 'more step')}: what {it} is not in the file, or not all"
            if letter == each:
                note += f", and with calls that no other step has ({listed(calls)})"
            found.append(note)
    if not links_of(a, b) and not a.no_calls:
        which = "A" if linked(b.trace) else "B"
        found.append(
            f"{which} does not show what launched the GPU's work: its steps contain what ran during them"
        )
    if (letter := unrecorded_work(a, b)) and a.work_only:
        found.append(
            f"{letter} did not record the GPU, and the other did not record ops: only launches are compared"
        )
    elif letter:
        found.append(f"{letter} did not record the GPU: only calls are compared")
    elif letter := unrecorded_cpu(a, b):
        found.append(f"{letter} did not record the CPU: only the GPU's work is compared")
    elif letter := unrecorded_ops(a, b):
        found.append(
            f"{letter} did not record ops, which costs time on the CPU: only launches and what they run are "
            "compared"
        )
    if context.by_device:
        before, after = context.waited
        meanwhile = "what the CPU does meanwhile does not make a step longer"
        if max(before, after) >= WAITS * context.step:
            held = f"{duration(after)}{context.each} in B, {duration(before)} in A"
            meanwhile = f"what the CPU does makes a step longer only where the GPU waits for it ({held})"
        found.append(
            f"the GPU sets the pace: {meanwhile}, and a step's time runs from the end of one step's work to "
            "that of the next"
        )
    names = [device_name(side) for side in (a, b)]
    if all(names) and names[0] != names[1]:
        found.append(f"A was recorded on {names[0]}, B on {names[1]}")
    for (_, words), had_a, had_b in zip(OPTIONS, options(a), options(b), strict=True):
        if had_a != had_b:
            found.append(f"only {'A' if had_a else 'B'} recorded {words}, which costs time on the CPU")
    if context.gradients and not strange:
        found.append(
            f"gradients are on only in {context.gradients}: its ops record what a backward pass would need"
        )
    if not strange and not context.same_recording:
        again = [recomputed_ops(side.part) for side in (a, b)]
        if (again[0] is None) != (again[1] is None):
            letter, more = ("A", again[0]) if again[0] is not None else ("B", again[1])
            spent = duration(more.cpu_ns) if more is not None else ""
            found.append(
                f"the backward pass of {letter} runs forward ops again, for {spent} on the CPU, as "
                "activation checkpointing does"
            )
        found += _annotations(a, b)
    return tuple(found)


def _annotations(a: Side, b: Side) -> list[str]:
    """Which annotations only one side has, if they come in most steps."""
    names = [side.annotations for side in (a, b)]
    mine = [[name for key, name in one.items() if key not in other] for one, other in (names, names[::-1])]
    many = "annotations" if any(len(some) > 1 for some in mine) else "annotation"
    has = f"has the {many} "
    told: list[str] = []
    for letter, some in zip("AB", mine, strict=True):
        if some:
            told.append(f"only {letter} {'' if told else has}{listed(some)}")
    return [", ".join(told)] if told else []
