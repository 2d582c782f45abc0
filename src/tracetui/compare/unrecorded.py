"""What one side of a comparison did not record, so that only the rest is compared."""

from __future__ import annotations

from typing import Any

from tracetui.analysis.select import name_mask, names_of, plausible
from tracetui.analysis.steps.scope import is_analyzable, step_table_of
from tracetui.compare.match import Matches
from tracetui.compare.sides import Side, side_of
from tracetui.core.copying import replace
from tracetui.trace.model import DEVICE_WORK, I64, Kind
from tracetui.trace.unknown import work_lost

SAMPLED = 256
"""The most ops whose arguments are read."""


def recorded_by_both(a: Side, b: Side) -> tuple[Side, Side]:
    """The two sides, each without what the other did not record."""
    if not (len(a.steps) and len(b.steps)):
        # Steps are not compared with a recording that has none: compare the whole recordings.
        a, b = side_of(a.part, []), side_of(b.part, [])
    # What the profiler lost is nothing that the program no longer does: compare the steps that are whole.
    a, b = _whole_steps(a), _whole_steps(b)
    lost, empty = any(work_lost(side.trace) or side.lost for side in (a, b)), nothing(a, b)
    if lost or empty or unrecorded_work(a, b):
        a, b = replace(a, calls_only=True), replace(b, calls_only=True)
    if empty or unrecorded_cpu(a, b):
        a, b = replace(a, work_only=True, no_calls=True), replace(b, work_only=True, no_calls=True)
    elif unrecorded_ops(a, b):
        a, b = replace(a, work_only=True), replace(b, work_only=True)
    return a, b


def _whole_steps(side: Side) -> Side:
    """The side with only those of its steps whose launches all have their work in the file, if any has."""
    whole = [i for i, row in enumerate(side.rows) if not row.lost] if len(side.steps) else []
    return replace(side.only(whole), left_out=len(side.steps) - len(whole)) if whole else side


def unrecorded_work(a: Side, b: Side) -> str:
    """Which side recorded nothing on the device although it launches kernels: "A", "B", or "" if both
    recorded some, or neither did."""
    return _one_without(a, b, *DEVICE_WORK)


def nothing(a: Side, b: Side) -> str:
    """Which side has nothing to compare: "A", "B", or "" if both have something."""
    return next((c for c, one in zip("AB", (a, b), strict=True) if not is_analyzable(one.part.whole)), "")


def unrecorded_cpu(a: Side, b: Side) -> str:
    """Which side recorded nothing on the CPU, while both recorded the device: "A", "B" or ""."""
    work_a, work_b = (len(plausible(side.trace, *DEVICE_WORK)) for side in (a, b))
    has_a, has_b = (bool(len(plausible(side.trace, Kind.CPU_OP, Kind.RUNTIME))) for side in (a, b))
    return ("B" if has_a else "A") if has_a != has_b and work_a and work_b else ""


def unrecorded_ops(a: Side, b: Side) -> str:
    """Which side recorded no ops although it launches kernels, and not by a graph: "A", "B" or ""."""
    return _one_without(a, b, Kind.CPU_OP)


def steps_left_out(side: Side) -> int:
    """How many of the steps that were asked for are not compared, as what they launch is not in the file."""
    table, asked = step_table_of(side.part), len(side.steps) + side.left_out
    return side.left_out + (table.unrecorded if 0 < asked == len(table) else 0)


def only_in_left_out(a: Side, b: Side) -> tuple[str, list[str]]:
    """The side whose steps that are left out call what no other step of either side does ("" for none), and
    the names of that."""
    if not steps_left_out(a) + steps_left_out(b):
        return "", []
    every = {name for side in (a, b) for name in names_of(side.trace, side.calls)}
    for letter, side in zip("AB", (a, b), strict=True):
        at = plausible(side.trace, Kind.CPU_OP, Kind.RUNTIME)
        start = side.trace.start[at]
        for _, low, high in step_table_of(side.part).others if len(side.steps) else ():
            names = names_of(side.trace, at[(start >= low) & (start < high)])
            if more := [name for name in dict.fromkeys(names) if name not in every]:
                return letter, more
    return "", []


def _some_ops(side: Side, calls: I64) -> list[dict[str, Any]]:
    """The arguments of the first of these calls that are ops: they are near each other in the file."""
    return side.trace.args_of(calls[side.trace.kind[calls] == Kind.CPU_OP][:SAMPLED])


def unsized(a: Side, b: Side) -> bool:
    """Whether ops take longer on larger inputs (because they compute on the CPU), and the input sizes were
    not recorded on both sides."""
    computes = not any(len(plausible(side.trace, *DEVICE_WORK)) for side in (a, b))
    sized = (any(args.get("Input Dims") for args in _some_ops(side, side.calls)) for side in (a, b))
    return computes and not all(sized)


def gradients(a: Side, b: Side, calls: Matches) -> str:
    """The only side that records what a backward pass would need: "A" or "B". "" if both do or neither does,
    or if too few calls are the same: a compiled function or a graph does not show it."""
    if 2 * len(calls.a) < max(len(a.calls), len(b.calls)):
        return ""
    has = []
    for side, at in ((a, calls.a), (b, calls.b)):
        numbers = [args.get("Sequence number") for args in _some_ops(side, at)]
        has.append(any(isinstance(number, int) and number >= 0 for number in numbers))
    return ("A" if has[0] else "B") if has[0] != has[1] else ""


def _one_without(a: Side, b: Side, *kinds: Kind) -> str:
    has_a, has_b = (bool(len(plausible(side.trace, *kinds))) for side in (a, b))
    trace = (b if has_a else a).trace
    launches = name_mask(trace, lambda name: "LaunchKernel" in name)[
        trace.name[plausible(trace, Kind.RUNTIME)]
    ]
    return ("B" if has_a else "A") if has_a != has_b and launches.any() else ""
