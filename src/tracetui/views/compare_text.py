"""A comparison as text, Markdown and JSON: the answer, what explains it, the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

from rich.cells import cell_len

from tracetui.analysis.steps.scope import step_table_of
from tracetui.compare.metrics import MACHINE_SHARE
from tracetui.compare.model import METRICS, Comparison, Explanation, Metric
from tracetui.compare.paired import Paired
from tracetui.compare.sides import Side, device_name
from tracetui.core.cells import fit
from tracetui.core.safe_text import plain
from tracetui.core.units import capital, duration, plural, signed
from tracetui.trace.model import I64
from tracetui.views import markdown
from tracetui.views.answer import Answer
from tracetui.views.compare import main_change, number_columns, numbers
from tracetui.views.compare_averages import average_columns, averages_records, joined_averages
from tracetui.views.document import Block, Entry, sentences, table
from tracetui.views.document_text import forms
from tracetui.views.findings import evidence_json
from tracetui.views.jsonable import share as finite
from tracetui.views.limits import Outcome, limits_json, limits_rows, wall_time_note
from tracetui.views.lines import Line, Span, columns
from tracetui.views.model import Column, select_columns
from tracetui.views.target import Target
from tracetui.views.writers import Record, aligned, cells, markdown_table

SHOWN = 8
"""Explanations in text and Markdown, if not all are asked for; JSON has all."""
FEW = 3
"""The same for two programs with hardly anything in common: there the numbers say more."""
EVIDENCE = 10
"""Events of an explanation in JSON: the first of each side."""
SHORTEST_NAME = 16
"""Cells of a name, at least, if it has to be cut."""
ENOUGH = 30
"""Columns are left out until names have this many cells, or all that they need."""
NOISE = {
    "within noise": "within noise: apart from the machine's speed, no more than steps vary anyway, or less "
    f"than {MACHINE_SHARE:.0%} of a time",
    "the machine": "the machine: explained by how much slower or faster it ran what both sides have",
}
"""What the words beside the numbers mean."""


@dataclass(frozen=True, slots=True)
class Report:
    """A comparison, and what to say about it."""

    comparison: Comparison
    names: tuple[str, str]
    """What the two sides are called: a file, or its steps. Safe to show."""
    outcomes: tuple[Outcome, ...] = ()
    """Of the limits."""
    averages: int = 0
    """Rows of averages in text and Markdown."""
    every: bool = False
    """Whether text and Markdown have all explanations."""
    predicted: float | None = None
    """How much longer B was predicted to take than A, of a step, ns."""


def file_names(a: str, b: str) -> tuple[str, str]:
    """The names of two files, with as many folders as tell them apart. Safe to show."""
    parts = [PurePath("standard input" if path == "-" else path).parts for path in (a, b)]
    names = ("", "")
    for count in range(1, max(map(len, parts)) + 1):
        left, right = ("/".join(part[-count:]) for part in parts)
        names = plain(left, 100), plain(right, 100)
        if left != right:
            break
    return names if names[0] != names[1] else (plain(parts[0][-1], 100), plain(parts[1][-1], 100))


def _about(side: Side) -> str:
    """A side's steps, its GPU, and what holds it back."""
    steps = plural(len(side.steps), "step") if len(side.steps) else "as a whole"
    return ", ".join(filter(None, (steps, device_name(side), side.verdict)))


def _told(found: Comparison) -> tuple[Explanation, ...]:
    """The explanations, unless the answer already says the only one. A note says how many steps there are."""
    told = tuple(one for one in found.explanations if one.kind != "steps")
    return told if len(told) != 1 or told[0].text not in found.answer else ()


def _text(found: Comparison, one: Explanation) -> str:
    """What explains a part. What the answer above begins with is not repeated."""
    return "The machine, as said above." if one.text in found.answer else one.text


def _sentence(note: str) -> str:
    return f"{capital(note)}{'' if note.endswith(('.', '?')) else '.'}"


# Text and Markdown


def compare_blocks(report: Report) -> list[Block]:
    """The answer first."""
    found, (told, rest) = report.comparison, _shown(report)
    sides = zip("AB", report.names, (found.a, found.b), strict=True)
    names = [_line(letter, "accent", f"{name}, {_about(side)}") for letter, name, side in sides]
    why = [_line(*_change(found, one), _text(found, one)) for one in told]
    rests = (rest,) if rest else ()
    answer = (found.answer, *([_sentence(found.mismatch)] if found.mismatch else ()))
    if report.predicted is not None and found.paired is not None:
        measured, before = (signed(ns, duration) for ns in (found.paired.median, report.predicted))
        answer = (*answer, f"Predicted was {before} a step at most; {measured} was measured.")
    return [
        Block("", "", "", (), foot=answer, style="title"),
        Block("", "", "", tuple(names)),
        Block("", "What explains the difference" if why else "", "", tuple(why), foot=rests),
        *(sentences(_sentence(note)) for note in found.notes if note != found.mismatch),
        *_number_tables(found),
        *(_average_tables(found, report.averages) if report.averages else ()),
        *(_limit_tables(report.outcomes) if report.outcomes else ()),
    ]


def _line(name: str, style: str, text: str) -> Entry:
    return Entry(name, (), None, style, text, Target())


def _cut(names: Sequence[str], room: int) -> list[str]:
    """The names in at most `room` cells, all of one length."""
    short = [fit(name, max(SHORTEST_NAME, room)) for name in names]
    longest = max(map(cell_len, short), default=0)
    return [name + " " * (longest - cell_len(name)) for name in short]


def _shown(report: Report) -> tuple[tuple[Explanation, ...], str]:
    """(the explanations that are shown, what the others come to together)."""
    found, told = report.comparison, _told(report.comparison)
    shown = SHOWN if not found.mismatch else FEW
    left = () if report.every else told[shown:]
    if not left:
        return told, ""
    sums = {"GPU": 0, "CPU": 0}
    for one in left:
        change, where = main_change(found, one)
        sums[where] += change
    come = ", ".join(f"{signed(ns, duration)} {where}" for where, ns in sums.items() if ns) or "no time"
    return told[:shown], f"and {len(left)} more: {come} in all (--all lists them)"


def _change(comparison: Comparison, one: Explanation) -> Span:
    change, where = main_change(comparison, one)
    if not change:
        return "", ""
    style = "dim" if one.kind == "machine" else "warn" if change > 0 else "good"
    return f"{signed(change, duration)} {where}", style


def _fitted(
    title: str, shown: Sequence[Column], rows: Sequence[int], width: int, less: Sequence[str]
) -> list[Line]:
    """A table with a title above its first column, in at most `width` cells. Columns go, in the order of
    `less` (their keys; some go together), until it fits; then the texts of the first column are cut."""
    for gone in range(len(less) + 1):
        without = " ".join(less[:gone]).split()
        left = [column for column in shown if column.key not in without]
        body = cells(left, rows)
        others = aligned(left[1:], [row[1:] for row in body])
        room = width - max(cell_len(line_text(line).rstrip()) for line in others)
        names = [title, *(f"  {row[0][0]}" for row in body)]
        if room >= min(ENOUGH, max(map(cell_len, names))):
            break
    styles = ["head", *("" for _ in body)]
    return [
        [(name, style), *line] for name, style, line in zip(_cut(names, room), styles, others, strict=True)
    ]


def line_text(line: Line) -> str:
    return "".join(text for text, _ in line)


def _numbers(found: Comparison) -> tuple[Column, ...]:
    without = () if found.per_step else ("spread_a", "spread_b")
    return select_columns(
        number_columns(numbers(found)), "name a b change ratio noise spread_a spread_b", without
    )


def _number_tables(found: Comparison) -> list[Block]:
    rows, shown, less = numbers(found), _numbers(found), ("spread_a spread_b", "ratio", "noise", "change")
    title, at = "Per step (median)" if found.per_step else "Whole recording", range(len(rows))
    lines = partial(_fitted, title, shown, at, less=less)
    noise = [text for word, text in NOISE.items() if any(row.noise == word for row in rows)]
    return [table(title, lines, partial(markdown_table, shown, at), *noise, style="")] if rows else []


def _limit_tables(outcomes: Sequence[Outcome]) -> list[Block]:
    rows = limits_rows(outcomes)
    body = [[markdown.cell(c if isinstance(c, str) else c[0]) for c in row] for row in rows]

    def lines(width: int) -> list[Line]:
        found = columns(rows, "<><<")
        for line in found:
            text, style = line[-1]
            line[-1] = fit(text, width - cell_len(line_text(line[:-1]))), style
        return found

    text = partial(markdown.table, ["Metric", "Change", "Limit", ""], body, "<><<")
    note = wall_time_note(outcomes)
    return [table("Limits", lines, text, _sentence(note) if note else "")]


def _averages(found: Comparison) -> tuple[tuple[Column, ...], I64]:
    """(columns, rows) of the kernels and copies, or of the ops where a trace has none of those."""
    joined = joined_averages(found)
    measure, part = ("self_device", "kernels") if joined.any_device else ("self_cpu", "ops")
    keys = " ".join(f"{measure}_{form}" for form in ("a", "b", "change", "ratio"))
    columns = average_columns(joined, found, joined.parts[part])
    return select_columns(columns, f"name {keys} calls_a calls_b"), joined.parts[part]


def _average_tables(found: Comparison, limit: int) -> list[Block]:
    shown, rows = _averages(found)
    by_form = {column.key.rpartition("_")[2]: column.key for column in shown}
    less = ("calls_a calls_b", by_form["ratio"], by_form["change"])
    title, at = f"By name{' (mean per step)' if found.per_step else ''}", rows[:limit].tolist()
    more = f"and {plural(len(rows) - limit, 'name')} more: --json has all" if len(rows) > limit else ""
    lines = partial(_fitted, title, shown, at, less=less)
    return [table(title, lines, partial(markdown_table, shown, at), more, style="")]


# JSON


def compare_json(report: Report) -> Record:
    """The comparison as JSON-ready values."""
    comparison = report.comparison
    joined = joined_averages(comparison)
    return {
        "answer": comparison.answer,
        "same_program": comparison.same_program,
        "per_step": comparison.per_step,
        "a": _side_json(comparison.a, report.names[0]),
        "b": _side_json(comparison.b, report.names[1]),
        "notes": list(comparison.notes),
        **{name: _metric_json(comparison.metrics[name]) for name in METRICS},
        "idle_by_cause": [
            {
                "cause": cause,
                "a_ns": round(one.a or 0),
                "b_ns": round(one.b or 0),
                "change_ns": round(one.b or 0) - round(one.a or 0),
                "within_noise": one.within_noise,
            }
            for cause, one in comparison.idle.items()
        ],
        "machine": {
            "cpu_ratio": finite(comparison.machine.cpu_ratio),
            "device_ratio": finite(comparison.machine.device_ratio),
            "calls": comparison.machine.calls,
            "work": comparison.machine.work,
        },
        "explanations": [_explanation_json(comparison, one) for one in comparison.explanations],
        "averages": averages_records(joined, comparison),
        "limits": limits_json(report.outcomes),
        "paired": _paired_json(comparison.paired, report.predicted) if comparison.paired else None,
    }


def _paired_json(found: Paired, predicted: float | None) -> Record:
    return {
        "rounds": found.rounds,
        "median_ns": round(found.median),
        "quartiles_ns": list(map(round, found.quartiles)),
        "range_ns": list(map(round, found.range)),
        "b_shorter": found.b_shorter,
        "clear": found.clear,
        "predicted_ns": None if predicted is None else round(predicted),
    }


def _side_json(side: Side, name: str) -> Record:
    table = step_table_of(side.part)
    return {
        "name": name,
        "path": plain(side.trace.info.path),
        "steps": [int(table.number[i]) for i in side.steps.tolist()],
        "steps_from": table.source or None,
        "device": device_name(side) or None,
        "verdict": side.verdict,
    }


def _metric_json(metric: Metric) -> Record:
    return {
        "a": metric.a,
        "b": metric.b,
        "change": metric.change,
        "ratio": finite(metric.ratio),
        "within_noise": metric.within_noise,
        "machine": metric.machine or 0.0,
        "spread_a": list(metric.spread_a) if metric.spread_a else None,
        "spread_b": list(metric.spread_b) if metric.spread_b else None,
    }


def _explanation_json(found: Comparison, one: Explanation) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "text": one.text,
        "on": one.on,
        "change_ns": one.change_ns,
        "cpu_change_ns": one.cpu_change_ns,
        "names_a": list(one.names_a),
        "names_b": list(one.names_b),
        "events_a": len(one.events_a),
        "events_b": len(one.events_b),
        "evidence_a": [evidence_json(found.a.trace, i) for i in one.events_a[:EVIDENCE].tolist()],
        "evidence_b": [evidence_json(found.b.trace, i) for i in one.events_b[:EVIDENCE].tolist()],
    }


def compare_answer(report: Report) -> Answer:
    """A comparison, with a row per explanation."""
    return Answer(
        "compare",
        lambda: compare_json(report),
        *forms(lambda: compare_blocks(report)),
        lambda data: list(data["explanations"]),
    )
