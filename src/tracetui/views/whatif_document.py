"""The pane of `whatif`: what each fix is worth, some scenarios, and what holds a step up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tracetui.analysis.calls.calls import outermost_ops_of
from tracetui.analysis.names.short_names import short_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import step_table_of, step_windows_of
from tracetui.core.units import duration, share
from tracetui.replay.graph import graph_of
from tracetui.replay.path import critical_path
from tracetui.replay.scenario import MOVE, OVERLAP, Change, Scenario, movable, waits
from tracetui.replay.worths import Worth, Worths, predict, worth
from tracetui.trace import Trace
from tracetui.trace.model import I64
from tracetui.views.document import Block, Document, Entry
from tracetui.views.target import Target

PIECES = 12
"""So many pieces of a step's path are shown: the longest."""


def documents(
    part: Part, found: Worths, reason: str, what: Callable[[Worth], str], why: dict[str, str]
) -> Iterator[Document]:
    """First what each fix is worth, then also what takes longer. `what`: what a worth is of; `why`: in words,
    why not to rely on it."""
    each = tuple(_worth(part.trace, one, found, what, why) for one in found.each)
    left = (Block("worths", "If it takes no time", "worth, of a step", each),)
    yield Document(reason, "", left, ())
    if found.step_ns > 0:
        scenarios = tuple(_scenarios(part, found, why))
        path = tuple(_path(part))
        yield Document(
            reason,
            "",
            left,
            (
                Block("scenarios", "A step would take", f"instead of {duration(found.step_ns)}", scenarios),
                Block("path", "What holds a step up", "the longest, in order", path),
            ),
        )


def _worth(
    trace: Trace, one: Worth, found: Worths, what: Callable[[Worth], str], why: dict[str, str]
) -> Entry:
    part = min(1.0, one.worth_ns / found.step_ns) if found.step_ns else 0.0
    muted = f" ({why[one.muted]})" if one.muted == "within_noise" else ""
    target = Target()
    if len(one.slices):
        longest = int(one.slices[np.argmax(trace.duration[one.slices])])
        count = f", the longest of {len(one.slices):,}" if len(one.slices) > 1 else ""
        target = Target(event=longest, said=f"{what(one)}{count}")
    style = "dim" if one.muted else "accent"
    return Entry(what(one) + muted, (duration(one.worth_ns), share(part)), part, style, "", target)


def _scenarios(part: Part, found: Worths, why: dict[str, str]) -> Iterator[Entry]:
    graph = graph_of(part)
    held, aside = waits(graph), movable(graph)
    made = [
        ("launches in one call", Scenario(graphs=True), found.muted != "no_steps"),
        ("a CPU twice as fast", Scenario(cpu=2.0), True),
        ("no waits of the CPU", Scenario([Change(MOVE, held)]), len(held) > 0),
        ("copies beside the work", Scenario([Change(OVERLAP, aside)]), len(aside) > 0),
    ]
    for name, scenario, has_some in made:
        if has_some:
            step, (_, muted) = predict(part, scenario), worth(part, scenario)
            text = why[muted] if muted else f"{duration(step.low)} to {duration(step.high)}"
            yield Entry(name, (duration(step.value),), None, "dim" if muted else "accent", text, Target())


def _path(part: Part) -> Iterator[Entry]:
    """The longest pieces of the path through the step nearest to the median, by time."""
    trace, path, (low, high) = part.trace, critical_path(part), step_windows_of(part)
    begin, end = trace.span
    label = "the recording"
    if len(low):
        at = int(np.argmin(np.abs((high - low) - np.median(high - low))))
        begin, end, label = int(low[at]), int(high[at]), f"step {step_table_of(part).number[at]}"
    over, since = np.minimum(path.end, end), np.maximum(path.start, begin)
    ops = outermost_ops_of(part)
    ops = ops[graph_of(part).driver.drives(trace, ops)]
    ops = ops[np.argsort(trace.start[ops], kind="stable")]
    pieces: list[tuple[int, int, int]] = []
    for i in np.flatnonzero(over > since).tolist():
        one = int(since[i]), int(over[i]), int(path.slices[i])
        pieces += [one] if one[2] >= 0 else _in_ops(trace, ops, one[0], one[1])
    longest = sorted(pieces, key=lambda one: one[0] - one[1])[:PIECES]
    for start, stop, event in sorted(longest):
        said = f"holds {label} up for {duration(stop - start)}"
        name = short_of(trace, event) if event >= 0 else "CPU outside of ops"
        span = None if event >= 0 else (start, stop)
        target = Target(event=event if event >= 0 else None, span=span, said=f"{name} {said}")
        numbers = duration(stop - start), share((stop - start) / (end - begin))
        yield Entry(name, numbers, None, "", "", target)


def _in_ops(trace: Trace, ops: I64, start: int, stop: int) -> list[tuple[int, int, int]]:
    """A stretch of the CPU's time as pieces: (start, end, the op, or -1 outside of ops)."""
    begin, end = trace.start[ops], trace.start[ops] + trace.duration[ops]
    pieces, at = [], start
    for i in np.flatnonzero((begin < stop) & (end > start)).tolist():
        first, last = max(at, int(begin[i])), min(stop, int(end[i]))
        if first > at:
            pieces.append((at, first, -1))
        if last > first:
            pieces.append((first, last, int(ops[i])))
        at = max(at, last)
    return [*pieces, (at, stop, -1)] if at < stop else pieces
