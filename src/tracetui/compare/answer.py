"""The difference between two sides in a sentence or two."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.compare.context import ComparisonContext
from tracetui.compare.explain import outside_of_ops
from tracetui.compare.model import Explanation
from tracetui.compare.paired import Paired
from tracetui.compare.sides import paced_by_device
from tracetui.core.units import capital, duration, percent, signed, significant

MACHINE = 0.02
"""The machine's part is mentioned if it is at least this share of the step."""
SAME, WORTH = 0.001, 0.1
"""`SAME`: a step that changes by less than this share counts as taking as long as before. `WORTH`: the
device's work gets a sentence of its own if its ratio differs from the step's by this much."""

BESIDE = "initialisation", "host", "loading", "communication", "slower", "faster"
"""Explanations of a difference on the CPU that are neither the machine nor different work."""

OVER = 2
"""If the machine explains more than this many times the change, the program made up for the rest."""


def answer(context: ComparisonContext, found: Sequence[Explanation], same: bool) -> str:
    """The difference in a sentence or two."""
    step = context.metrics["step_ns"]
    a, b = step.a or 0.0, step.b or 0.0
    change = b - a
    what = "A step" if len(context.a.steps) else "The recording"
    if not found and not change and context.metrics["device_ns"].within_noise:
        what = "calls" if context.a.calls_only else "work"
        return f"No difference: the same {what}, in the same time."
    start = f"{_sameness(context, found)}. " if same else ""
    if abs(change) < SAME * a and not context.same_recording:
        return f"{start}{what} takes {duration(b)}, as before.{_device(context)}"
    told = _takes(context, a, b)
    if context.same_recording:
        return f"{told}."
    machine = next((one for one in found if one.kind == "machine"), None)
    # If the same calls were faster in most steps but not in total, there is no explanation for that.
    on_device = machine.on == "device" if machine is not None else context.by_device
    slower = step.machine if (machine is not None or same) and context.mostly(on_device) else 0.0
    much = abs(slower) >= max(MACHINE * a, 0.2 * abs(change))
    sign = "+" if slower > 0 else "-"
    if not step.within_noise:
        without = much and 0 < b - slower < 10 * b and _adds_up(context, change - slower)
        part = f"; {sign}{duration(abs(slower))} is the machine: without it, about {duration(b - slower)}"
        return f"{start}{told}{part if without else ''}.{_device(context)}{_held(context)}"
    if same and machine is not None and (machine.on == "device" or not context.by_device):
        return f"{machine.text} {told}.{_device(context)}"
    start += f"{told}: "
    covers = slower * change > 0 and abs(change) <= abs(slower) <= OVER * abs(change)
    if much and (covers or abs(change - slower) <= 0.2 * abs(change)):
        what = "program" if same and not outside_of_ops(found) else "change"
        return f"{start}{context.blame(what)}.{_device(context)}"
    if much:
        part = f"{sign}{duration(abs(slower))} is the machine, and the rest is within noise"
        return f"{start}{part}{_though(context)}.{_device(context)}"
    return f"{start}within noise{_though(context)}.{_device(context)}"


def in_turn(found: Paired, before: float) -> str:
    """The difference in a step of rounds in which A and B took turns. `before`: A's step, ns."""
    low, high = (signed(ns, duration) for ns in found.quartiles)
    half = f"Half of the differences are between {low} and {high}."
    part = f"{signed(found.median, duration)} ({_part(before, before + found.median)})"
    if not found.clear:
        none = f"{found.rounds} rounds of A and B show no clear difference"
        return f"{none}: {part} a step in the median. {half}"
    less = found.median < 0
    rounds = found.b_shorter if less else found.rounds - found.b_shorter
    how = "less" if less else "more"
    times = f"the median of {found.rounds} rounds, in {rounds} of which it takes {how}"
    by = f"{duration(abs(found.median))} {how} a step than A ({_part(before, before + found.median)})"
    return f"B takes {by}: {times}. {half}"


def _sameness(context: ComparisonContext, found: Sequence[Explanation]) -> str:
    if not outside_of_ops(found):
        return "The same program"
    return "The same ops and kernels" if len(context.a.work) else "The same calls"


def _adds_up(context: ComparisonContext, left: float) -> bool:
    """Whether the change that the machine does not explain is about what the program is known to do
    differently."""
    return context.by_device or abs(left - context.program_cpu) <= max(abs(left) / 2, MACHINE * context.step)


def _takes(context: ComparisonContext, a: float, b: float) -> str:
    part = f" ({_part(a, b)})" if a else ""
    if not context.same_recording:
        what = "A step" if len(context.a.steps) else "The recording"
        if duration(a) == duration(b):
            more = f"{duration(abs(b - a))} {'more' if b > a else 'less'}"
            return f"{what} takes {duration(b)}, {more} than before{part}"
        return f"{what} takes {duration(b)} instead of {duration(a)}{part}"
    one, other = context.whole
    step = capital(other.label(0)) if other.rounds == 1 else "The median step"
    against = one.label(0) if one.rounds == 1 else "the median of the others"
    return f"{step} takes {duration(b)}, {against} {duration(a)}{part}"


def _part(a: float, b: float) -> str:
    """`+2.5%`, `-26%`, `12.5 times as long`."""
    if b >= 5 * a:
        return f"{significant(b / a)} times as long"
    away = abs(b - a) / a
    return f"{'+' if b > a else '-'}{percent(away, 1 if away < 0.0995 else 0)}"


def _though(context: ComparisonContext) -> str:
    """What the program does differently, for a change that is no more than steps vary. Where the device sets
    the pace, `_device` says it."""
    total = context.program_cpu
    if context.by_device or abs(total) < MACHINE * context.step:
        return ""
    more = f"{duration(abs(total))} {'less' if total < 0 else 'more'}"
    return f", though what the program does differently takes {more} on the CPU"


def known(context: ComparisonContext, found: Sequence[Explanation]) -> bool:
    """Whether the explanations add up to at least half of a step's change, leaving out the machine: then it
    is not noise. A change as small as the difference between recordings of one program does count as
    noise."""
    step = context.metrics["step_ns"]
    left = (step.change or 0.0) - step.machine
    if context.by_device:
        told: float = sum(
            one.change_ns for one in found if one.on == "device" and one.kind not in ("machine", "once")
        )
    else:
        told = context.program_cpu + sum(
            one.change_ns for one in found if one.kind in BESIDE and one.on == "cpu"
        )
    return abs(left) >= MACHINE * (step.a or 0.0) and told * left > 0 and 0.5 <= told / left <= 2


def _held(context: ComparisonContext) -> str:
    """How long the GPU waits for the CPU, if that is a good part of the change and the device sets the pace
    on at least one side."""
    (before, after), change = context.held, context.metrics["step_ns"].change or 0.0
    if (after - before) * change <= 0 or abs(after - before) < 0.2 * abs(change):
        return ""
    if not any(map(paced_by_device, context.whole)):
        return ""
    one, other = (duration(ns) if round(ns) else "none" for ns in (after, before))
    if context.gpus > 1:
        return f" The {context.gpus:,} GPUs together wait for the CPU for {one} instead of {other}."
    return f" The GPU waits for the CPU for {one} of it instead of {other}."


def _device(context: ComparisonContext) -> str:
    """A difference in the device's work that differs from that of the step."""
    work, step = context.metrics["device_ns"], context.metrics["step_ns"]
    if work.within_noise or not work.a or not work.b:
        return ""
    alike = not step.within_noise and abs(work.b / work.a - (step.ratio or 1.0)) < WORTH
    if alike or abs(work.b / work.a - 1) < MACHINE:
        return ""
    return f" The GPU's work took {duration(work.b)} instead of {duration(work.a)} ({_part(work.a, work.b)})."
