"""What each fix would be worth, and a step under a scenario, as a replay of the recording has it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.part import Part
from tracetui.analysis.select import slices_named
from tracetui.core.errors import TraceError
from tracetui.core.safe_text import plain
from tracetui.core.units import duration, percent, share
from tracetui.replay.graph import graph_of
from tracetui.replay.scenario import MOVE, OVERLAP, REMOVE, SPEED_UP, Change, Scenario, movable, waits
from tracetui.replay.worths import NO_TIME, Range, Worth, Worths, predict, worth, worths
from tracetui.rules.claims import Remedy
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.model import I64
from tracetui.views import markdown
from tracetui.views.answer import Answer
from tracetui.views.lines import INDENT, Line, Span, bar, columns, paragraph
from tracetui.views.whatif_document import documents

SHOWN = 15
_NAMED = (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON, Kind.RUNTIME, *DEVICE_WORK)
WHY = {
    "no_steps": "the trace has no steps",
    "reproduction": "the replay of the recording is more than 2% off",
    "second_thread": "a second thread launches work on its own",
    "collectives": "collectives hold the step up, and what the other ranks do is not in this file",
    "unrecorded": "device events are missing in the file",
    "within_noise": "within the noise",
}
CAUSES = {
    "graphs": "launches in one call (a CUDA graph)",
    "dispatch": "CPU time in ops",
    "host": "CPU time outside of ops",
    "sync": "waits of the CPU for the device",
    "overlap": "copies and collectives beside other work",
}
KINDS = {"annotation": "CPU time in", "op": "CPU time in", "kernel": "device time of"}
Measures = Callable[[float, Sequence[Worth], bool], Sequence[tuple[Worth, str]]]
"""From the median step (ns), the worths, and whether a GPU has worked: what can be measured, and by which
command."""
HEAD = "What it is worth in this recording if it takes no time, of a step"
BACKWARD = "autograd::engine::evaluate_function: "
ABOUT = (
    "Worths are of this recording, and no forecast. They do not add up: where one thing is gone, another "
    "holds the step up. What the profiler itself costs makes those of the CPU upper bounds."
)


def whatif_answer(
    part: Part,
    graphs: bool = False,
    cpu: float = 1.0,
    without: Sequence[str] = (),
    kernel: Sequence[tuple[str, float]] = (),
    no_sync: bool = False,
    overlap: bool = False,
    measures: Measures | None = None,
) -> Answer:
    """What each fix is worth; with options, also a step in which all of them are true. `cpu`: how many times
    as fast the CPU is; `without`: names of what is taken out; `kernel`: names, and what part of their time
    they take; `measures`: finds the commands that measure worths. Always of the whole trace. Raises
    TraceError for a name that nothing has."""
    notes = () if part.is_whole else ("This is about the whole trace.",)
    part = part.whole
    trace = part.trace
    changes = [Change(REMOVE, _called(trace, name)) for name in without]
    for name, times in kernel:
        changes.append(Change(SPEED_UP, _called(trace, name, DEVICE_WORK), 1 / max(times, NO_TIME)))
    if no_sync and len(trace):
        changes.append(Change(MOVE, waits(graph_of(part))))
    if overlap and len(trace):
        changes.append(Change(OVERLAP, movable(graph_of(part))))
    asked = bool(changes) or graphs or cpu != 1.0
    scenario = Scenario(changes, cpu, graphs=graphs)
    found = worths(part)
    predicted = predict(part, scenario) if asked else None
    muted = worth(part, scenario)[1] if asked else found.muted
    known = [one for one in found.each if one.muted is None]
    on_gpu = bool(trace.is_kind(*DEVICE_WORK).any())
    measured = measures(found.step_ns, known, on_gpu) if measures is not None else ()
    return Answer(
        "whatif",
        lambda: _json(found, predicted, muted) | {"measures": _measures_json(measured)},
        lambda: _markdown(found, predicted, muted) + _measures_markdown(measured),
        lambda width: [*_lines(found, predicted, muted, width), *_measures_lines(measured)],
        lambda data: data["worths"],
        notes,
        documents=lambda: documents(part, found, _reason(found), _what, WHY),
    )


def remedy_worth(part: Part, remedy: Remedy) -> tuple[float, str | None]:
    """(what a finding's remedy is worth, ns of the mean step; why not to rely on it, or None)."""
    change = Change(remedy.what, remedy.slices.at, remedy.factor or 1 / NO_TIME)
    return worth(part.whole, Scenario([change]))


def _called(trace: Trace, name: str, kinds: Sequence[Kind] = _NAMED) -> I64:
    """The slices of this name; if there are none, those whose names contain it."""
    for wanted in (name.__eq__, lambda text: name in text):
        at = slices_named(trace, wanted)
        at = at[trace.is_kind(*kinds)[at] & ~trace.implausible[at]]
        if len(at):
            return at
    raise TraceError(f"nothing in this trace is called {plain(name, 60)!r}")


def _json(found: Worths, predicted: Range | None, muted: str | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "step_ns": round(found.step_ns),
        "steps": found.steps,
        "spread_ns": round(found.spread_ns),
        "reproduction_error": found.reproduction_error,
        "muted": muted,
    }
    if predicted is not None:
        data["predicted_ns"] = {
            "low": round(predicted.low), "value": round(predicted.value), "high": round(predicted.high)
        }  # fmt: skip
    data["worths"] = [
        {
            "kind": one.kind,
            "name": one.name,
            "worth_ns": round(one.worth_ns),
            "derivative_ns": None if one.derivative_ns is None else round(one.derivative_ns),
            "muted": one.muted,
        }
        for one in found.each
    ]
    return data


def _measures_json(measures: Sequence[tuple[Worth, str]]) -> list[dict[str, Any]]:
    return [{"kind": one.kind, "name": one.name, "command": command} for one, command in measures]


def _measures_markdown(measures: Sequence[tuple[Worth, str]]) -> str:
    return "".join(f"\nMeasure it ({markdown.cell(_what(one))}): `{text}`\n" for one, text in measures)


def _measures_lines(measures: Sequence[tuple[Worth, str]]) -> list[Line]:
    """One line for each command, uncut: they are copied."""
    lines: list[Line] = [[], [("Measure it", "title")]] if measures else []
    for one, command in measures:
        lines += [[*INDENT, (_what(one), "")], [*INDENT, *INDENT, (command, "accent")]]
    return lines


def _measured(found: Worths) -> str:
    if found.muted == "no_steps":
        return f"The recording takes {duration(found.step_ns)}."
    of = f", the median of {found.steps:,}" if found.steps > 1 else ""
    off = percent(abs(found.reproduction_error), 2)
    return f"A step takes {duration(found.step_ns)} in this recording{of}. The replay is {off} off."


def _reason(found: Worths) -> str:
    return " ".join(filter(None, (_measured(found), _unsure(found.muted), ABOUT)))


def _predicted(found: Worths, predicted: Range) -> str:
    low, value, high = (duration(ns) for ns in (predicted.low, predicted.value, predicted.high))
    now = duration(found.step_ns)
    return f"With that, a step in this recording would take {value} ({low} to {high}) instead of {now}."


def _unsure(muted: str | None) -> str:
    return f"Not to be relied on: {WHY[muted]}." if muted else ""


def _share(one: Worth, found: Worths) -> float:
    return min(1.0, one.worth_ns / found.step_ns) if found.step_ns else 0.0


def _what(one: Worth) -> str:
    if one.kind == "cause":
        return CAUSES[one.name]
    name = short_name(one.name, "kernel") if one.kind == "kernel" else one.name.removeprefix(BACKWARD)
    return f"{KINDS[one.kind]} {name}"


def _lines(found: Worths, predicted: Range | None, muted: str | None, width: int) -> list[Line]:
    wide = min(width, 100)
    lines = paragraph(_measured(found), wide)
    if predicted is not None:
        lines += paragraph(_predicted(found, predicted), wide, "title")
    if said := _unsure(muted):
        lines += paragraph(said, wide, "warn")
    lines += [[], [(HEAD, "title")]]
    rows: list[list[str | Span]] = []
    for one in found.each[:SHOWN]:
        part = _share(one, found)
        style = "dim" if one.muted else ""
        what = _what(one)
        room = max(20, width - 32 - (20 if one.muted == "within_noise" else 0))
        what = what if len(what) <= room else what[: room - 1] + "…"
        note = f" ({WHY[one.muted]})" if one.muted == "within_noise" else ""
        rows.append(
            [(duration(one.worth_ns), style), (share(part), style), bar(part, 10), (what + note, style)]
        )
    lines += columns(rows, ">><<") if rows else [[*INDENT, ("nothing", "")]]
    return [*lines, [], *paragraph(ABOUT, wide, "dim")]


def _markdown(found: Worths, predicted: Range | None, muted: str | None) -> str:
    said = [_measured(found), _predicted(found, predicted) if predicted else "", _unsure(muted)]
    text = "".join(f"{markdown.cell(one)}\n\n" for one in said if one)
    text += "| worth | of a step | if it takes no time |\n| ---: | ---: | --- |\n"
    for one in found.each[:SHOWN]:
        note = f" ({WHY[one.muted]})" if one.muted == "within_noise" else ""
        part = share(_share(one, found))
        text += f"| {duration(one.worth_ns)} | {part} | {markdown.cell(_what(one) + note)} |\n"
    return f"{text}\n{ABOUT}\n"
