"""A comparison as text, Markdown and JSON: the answer, what explains it, the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from rich.cells import cell_len

from tracetui.analysis.steps.scope import step_table_of
from tracetui.compare.metrics import MACHINE_SHARE
from tracetui.compare.model import METRICS, Comparison, Explanation, Metric
from tracetui.compare.sides import Side, device_name
from tracetui.core.cells import fit
from tracetui.core.safe_text import plain
from tracetui.core.units import capital, duration, plural, signed
from tracetui.trace.model import I64
from tracetui.views import markdown
from tracetui.views.answer import Answer
from tracetui.views.compare import main_change, number_columns, numbers
from tracetui.views.compare_averages import average_columns, averages_records, joined_averages
from tracetui.views.findings import evidence_json
from tracetui.views.jsonable import share as finite
from tracetui.views.limits import Outcome, limits_json, limits_rows, wall_time_note
from tracetui.views.lines import INDENT, Line, Span, columns, paragraph
from tracetui.views.model import Column, pick
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


# Text


def compare_lines(report: Report, width: int) -> list[Line]:
    """The comparison in lines of at most `width` cells: the answer first."""
    width = min(width, 120)
    found = report.comparison
    lines = paragraph(found.answer, width, "title")
    if found.strange:
        lines += paragraph(_sentence(found.strange), width, "warn")
    lines += [[], *_side_lines(report, width)]
    if _told(found):
        lines += [[], [("What explains the difference", "head")], *_explanation_lines(report, width)]
    notes = [note for note in found.notes if note != found.strange]
    lines += [[]] if notes else []
    for note in notes:
        lines += paragraph(_sentence(note), width, "dim")
    lines += _number_lines(found, width)
    if report.averages:
        lines += _average_lines(found, report.averages, width)
    if report.outcomes:
        lines += [[], [("Limits", "head")], *_limit_lines(report.outcomes, width)]
        if note := wall_time_note(report.outcomes):
            lines += paragraph(_sentence(note), width, "dim", INDENT)
    return lines


def _side_lines(report: Report, width: int) -> list[Line]:
    about = [_about(side) for side in (report.comparison.a, report.comparison.b)]
    if max(map(cell_len, about)) > width - 5 - SHORTEST_NAME:
        about = [text.partition(",")[0] for text in about]
    names = _cut(report.names, width - 5 - max(map(cell_len, about)))
    return [
        [(f"{letter}  ", "accent"), (name, ""), (f"  {more}", "dim")]
        for letter, name, more in zip("AB", names, about, strict=True)
    ]


def _cut(names: Sequence[str], room: int) -> list[str]:
    """The names in at most `room` cells, all of one length."""
    short = [fit(name, max(SHORTEST_NAME, room)) for name in names]
    longest = max(map(cell_len, short), default=0)
    return [name + " " * (longest - cell_len(name)) for name in short]


def _shown(report: Report) -> tuple[tuple[Explanation, ...], str]:
    """(the explanations that are shown, what the others come to together)."""
    found, told = report.comparison, _told(report.comparison)
    shown = SHOWN if not found.strange else FEW
    left = () if report.every else told[shown:]
    if not left:
        return told, ""
    sums = {"GPU": 0, "CPU": 0}
    for one in left:
        change, where = main_change(found, one)
        sums[where] += change
    come = ", ".join(f"{signed(ns, duration)} {where}" for where, ns in sums.items() if ns) or "no time"
    return told[:shown], f"and {len(left)} more: {come} in all (--all lists them)"


def _explanation_lines(report: Report, width: int) -> list[Line]:
    """Each after what it adds or takes away."""
    found, (told, rest) = report.comparison, _shown(report)
    changes = [_change(found, one) for one in told]
    wide = max(len(text) for text, _ in changes)
    lines: list[Line] = []
    for one, (change, style) in zip(told, changes, strict=False):
        lines += paragraph(_text(found, one), width, head=[(f"  {change:>{wide}}  ", style)])
    return lines + (paragraph(rest, width, "dim", INDENT) if rest else [])


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
    return pick(number_columns(numbers(found)), "name a b change ratio noise spread_a spread_b", without)


def _number_lines(found: Comparison, width: int) -> list[Line]:
    rows = numbers(found)
    if not rows:
        return []
    less = ("spread_a spread_b", "ratio", "noise", "change")
    lines: list[Line] = [[], *_fitted(_numbers_title(found), _numbers(found), range(len(rows)), width, less)]
    shown = " ".join(map(line_text, lines))
    for text in (text for word, text in NOISE.items() if word in shown):
        lines += paragraph(text, width, "dim", INDENT)
    return lines


def _limit_lines(outcomes: Sequence[Outcome], width: int) -> list[Line]:
    lines = columns(limits_rows(outcomes), "<><<")
    for line in lines:
        text, style = line[-1]
        line[-1] = fit(text, width - cell_len(line_text(line[:-1]))), style
    return lines


def _numbers_title(found: Comparison) -> str:
    return "Per step (median)" if found.per_step else "Whole recording"


def _averages(found: Comparison) -> tuple[tuple[Column, ...], I64]:
    """(columns, rows) of the kernels and copies, or of the ops where a trace has none of those."""
    joined = joined_averages(found)
    measure, part = ("self_device", "kernels") if joined.any_device else ("self_cpu", "ops")
    keys = " ".join(f"{measure}_{form}" for form in ("a", "b", "change", "ratio"))
    columns = average_columns(joined, found, joined.parts[part])
    return pick(columns, f"name {keys} calls_a calls_b"), joined.parts[part]


def _average_lines(found: Comparison, limit: int, width: int) -> list[Line]:
    shown, rows = _averages(found)
    by_form = {column.key.rpartition("_")[2]: column.key for column in shown}
    less = ("calls_a calls_b", by_form["ratio"], by_form["change"])
    table = _fitted(_averages_title(found), shown, rows[:limit].tolist(), width, less)
    lines: list[Line] = [[], *table]
    if len(rows) > limit:
        lines.append([(f"  and {plural(len(rows) - limit, 'name')} more: --json has all", "dim")])
    return lines


def _averages_title(found: Comparison) -> str:
    return f"By name{' (mean per step)' if found.per_step else ''}"


# Markdown


def compare_markdown(report: Report) -> str:
    """The comparison to paste into an issue or a pull request."""
    found = report.comparison
    text = f"**{markdown.cell(found.answer)}**\n\n"
    for letter, side, name in zip("AB", (found.a, found.b), report.names, strict=True):
        text += f"- {letter}: {markdown.code(name)}, {markdown.cell(_about(side))}\n"
    told, rest = _shown(report)
    if told:
        text += "\n" + markdown.heading("What explains the difference", 3) + "\n"
        for one in told:
            change = _change(found, one)[0]
            text += f"- {f'{change}: ' if change else ''}{markdown.cell(_text(found, one))}\n"
        text += f"- {rest}\n" if rest else ""
    text += "".join(f"\n{markdown.cell(_sentence(note))}\n" for note in found.notes)
    if rows := numbers(found):
        table = markdown_table(_numbers(found), range(len(rows)))
        text += "\n" + markdown.heading(_numbers_title(found), 3) + "\n" + table
        text += "".join(f"\n{markdown.cell(told)}\n" for word, told in NOISE.items() if word in table)
    if report.averages:
        shown, at = _averages(found)
        table = markdown_table(shown, at[: report.averages].tolist())
        text += "\n" + markdown.heading(_averages_title(found), 3) + "\n" + table
    if report.outcomes:
        body = [
            [markdown.cell(str(c if isinstance(c, str) else c[0])) for c in row]
            for row in limits_rows(report.outcomes)
        ]
        text += "\n" + markdown.heading("Limits", 3) + "\n"
        text += markdown.table(["Metric", "Change", "Limit", ""], body, "<><<")
        if note := wall_time_note(report.outcomes):
            text += f"\n{markdown.cell(_sentence(note))}\n"
    return text


# JSON


def compare_json(report: Report) -> Record:
    """The comparison as JSON-ready values."""
    found = report.comparison
    joined = joined_averages(found)
    return {
        "answer": found.answer,
        "same_program": found.same_program,
        "per_step": found.per_step,
        "a": _side_json(found.a, report.names[0]),
        "b": _side_json(found.b, report.names[1]),
        "notes": list(found.notes),
        **{name: _metric_json(found.metrics[name]) for name in METRICS},
        "idle_by_cause": [
            {
                "cause": cause,
                "a_ns": round(one.a or 0),
                "b_ns": round(one.b or 0),
                "change_ns": round(one.b or 0) - round(one.a or 0),
                "within_noise": one.within_noise,
            }
            for cause, one in found.idle.items()
        ],
        "machine": {
            "cpu_ratio": finite(found.machine.cpu_ratio),
            "device_ratio": finite(found.machine.device_ratio),
            "calls": found.machine.calls,
            "work": found.machine.work,
        },
        "explanations": [_explanation_json(found, one) for one in found.explanations],
        "averages": averages_records(joined, found),
        "limits": limits_json(report.outcomes),
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


def compare_answer(found: Comparison, names: tuple[str, str]) -> Answer:
    """A comparison, with a row per explanation. `names`: of the sides, safe to show."""
    report = Report(found, names)
    return Answer(
        "compare",
        lambda: compare_json(report),
        lambda: compare_markdown(report),
        lambda width: compare_lines(report, width),
        lambda data: list(data["explanations"]),
    )
