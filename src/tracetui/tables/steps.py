"""The table of steps: what each took, launched, and left idle; what lies outside of them; and the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tracetui.analysis.causes import CAUSES
from tracetui.analysis.scope import Scope
from tracetui.analysis.steps import StepRow, Steps
from tracetui.analysis.verdict import Verdict, busy_text
from tracetui.cells import fit
from tracetui.tables.jsonable import share as json_share
from tracetui.tables.lines import Line
from tracetui.tables.model import I64, Column, Columns, Fields, Table, by_key, pick
from tracetui.tables.times import time_column
from tracetui.tables.writers import Record, aligned, cells, markdown_table, records
from tracetui.units import duration, plural, share, share_of

SCREEN = (
    "label",
    "window",
    "duration",
    "busy",
    "idle",
    "compute",
    "communication",
    "exposed",
    "copy",
    "kernels",
    "launches",
    "verdict",
    "cause",
)
WITHOUT_DEVICE = ("label", "window", "duration")
TEXT = (
    "label",
    "window",
    "busy",
    "idle",
    "mostly",
    "compute",
    "communication",
    "copy",
    "launches",
    "kernels",
    "unusual",
)
JSON = (
    "label",
    "duration",
    "window",
    "busy_time",
    "idle",
    "busy",
    "mostly",
    "compute",
    "communication",
    "exposed",
    "copy",
    "exposed_copy",
    "set",
    "launches",
    "kernels",
    "copies",
    "verdict",
    "unusual",
)
FILE = tuple("cause" if key == "mostly" else key for key in JSON)
"""In a file the idle time of each cause has a field of its own."""

Value = Callable[[StepRow], Any]


def step_columns(rows: Sequence[StepRow]) -> Columns:
    """The columns of these rows. Times in ns; the sums over all steps and `outside` are those of `whole`.

    `busy_share` is that of the row's own busy and idle time; `verdict_busy_share` what its verdict rests on,
    which for `whole` is the share within the steps.
    """

    def fields(**values: Value) -> Fields:
        def of(value: Value) -> Callable[[I64], list[Any]]:
            return lambda at: [value(rows[i]) for i in at.tolist()]

        return {name: of(value) for name, value in values.items()}

    def time(key: str, title: str, value: Value, drop: int, **more: Any) -> Column:
        return time_column(key, title, np.array([value(r) for r in rows], dtype=np.int64), drop, **more)

    def length(row: StepRow) -> int:
        return row.window[1] - row.window[0]

    def count(key: str, title: str, value: Value, drop: int) -> Column:
        return Column(
            key,
            title,
            lambda r: f"{value(rows[r]):,}" if value(rows[r]) else "-",
            lambda: np.array([value(r) for r in rows]),
            max(9, len(title) + 2),
            drop=drop,
            heading=key,
            cell=lambda r: f"{value(rows[r]):,}",
            fields=fields(**{key: value}),
        )

    def said(value: Value) -> Callable[[int], str]:
        """A time in words, "-" for none."""
        return lambda r: duration(value(rows[r])) if value(rows[r]) else "-"

    def busy(row: StepRow) -> str:
        return busy_text(row.busy_share) if row.busy_share is not None else "-"

    def idle_causes(row: StepRow) -> str:
        parts = [f"{t.cause} {share(t.duration / row.idle)}" for t in row.idle_by_cause if t.duration]
        return ", ".join(parts[:3]) or "-"

    def idle_of(cause: str) -> Value:
        return lambda row: next((t.duration for t in row.idle_by_cause if t.cause == cause), 0)

    # What no row has gives way first.
    communicates = any(r.communication for r in rows)
    return by_key(
        Column(
            "label",
            "Step",
            lambda r: f"{rows[r].label}{' !' if rows[r].unusual else ''}",
            lambda: np.arange(len(rows)),
            11,
            right=False,
            descending=False,
            cell=lambda r: (rows[r].label, "title" if rows[r].number < 0 else ""),
            markdown_heading="Step",
            fields=fields(label=lambda r: r.label, step=lambda r: r.number if r.number >= 0 else None),
        ),
        time(
            "duration",
            "on the CPU",
            lambda r: r.duration,
            6,
            fields=fields(start_ns=lambda r: r.start, duration_ns=lambda r: r.duration),
        ),
        time(
            "window",
            "Span",
            length,
            0,
            heading="window",
            cell=said(length),
            fields=fields(window_start_ns=lambda r: r.window[0], window_ns=length),
        ),
        Column("busy_time", fields=fields(busy_ns=lambda r: r.busy)),
        time(
            "idle",
            "GPU idle",
            lambda r: r.idle,
            2,
            heading="idle",
            cell=lambda r: duration(rows[r].idle),
            fields=fields(idle_ns=lambda r: r.idle),
        ),
        Column(
            "busy",
            "GPU busy",
            lambda r: share_of(rows[r].busy, rows[r].busy + rows[r].idle),
            lambda: np.array([r.busy_share or 0.0 for r in rows]),
            9,
            heading="busy",
            cell=lambda r: busy(rows[r]),
            fields=fields(busy_share=lambda r: json_share(r.busy_share)),
        ),
        Column(
            "mostly",
            right=False,
            heading="mostly",
            cell=lambda r: rows[r].idle_by_cause[0].cause if rows[r].idle_by_cause else "-",
            fields=fields(
                idle_by_cause=lambda r: [
                    {"cause": t.cause, "gaps": t.gaps, "duration_ns": t.duration} for t in r.idle_by_cause
                ]
            ),
        ),
        Column(
            "cause",
            "Idle because of",
            lambda r: idle_causes(rows[r]),
            right=False,
            clauses=True,
            fields=fields(**{f"idle_{cause}_ns": idle_of(cause) for cause in CAUSES}),
        ),
        time(
            "compute",
            "Compute",
            lambda r: r.compute,
            7,
            heading="compute",
            cell=lambda r: duration(rows[r].compute),
            fields=fields(compute_ns=lambda r: r.compute),
        ),
        time(
            "communication",
            "Comm.",
            lambda r: r.communication,
            1 if communicates else 8,
            heading="comm",
            markdown_heading="Comm.",
            cell=said(lambda r: r.communication),
            fields=fields(communication_ns=lambda r: r.communication),
        ),
        time(
            "exposed",
            "exposed",
            lambda r: r.exposed_communication,
            3 if communicates else 9,
            fields=fields(exposed_communication_ns=lambda r: r.exposed_communication),
        ),
        time(
            "copy",
            "Copies",
            lambda r: r.copy + r.set,
            10,
            heading="copies",
            cell=said(lambda r: r.copy),
            fields=fields(copy_ns=lambda r: r.copy),
        ),
        Column("exposed_copy", fields=fields(exposed_copy_ns=lambda r: r.exposed_copy)),
        Column("set", fields=fields(set_ns=lambda r: r.set)),
        count("launches", "Launches", lambda r: r.launches, 5),
        count("kernels", "Kernels", lambda r: r.kernels, 4),
        Column("copies", fields=fields(copies=lambda r: r.copies)),
        Column(
            "verdict",
            "Verdict",
            lambda r: rows[r].verdict.verdict,
            width=14,
            right=False,
            drop=3,
            fields=fields(
                verdict=lambda r: r.verdict.verdict,
                launch_delay_ns=lambda r: r.verdict.launch_delay,
                reason=lambda r: r.verdict.reason,
                communication_share=lambda r: json_share(r.verdict.communication_share),
                verdict_busy_share=lambda r: json_share(r.verdict.busy_share),
            ),
        ),
        Column(
            "unusual",
            right=False,
            cell=lambda r: ("unusual", "warn") if rows[r].unusual else "",
            fields=fields(unusual=lambda r: r.unusual),
        ),
    )


def table_rows(steps: Steps) -> tuple[StepRow, ...]:
    """The rows on the screen."""
    return (*steps.rows, *((steps.outside,) if steps.rows else ()), steps.whole)


def steps_table(steps: Steps) -> Table:
    """The steps on the screen."""
    rows = table_rows(steps)
    columns = step_columns(rows)
    device = any(r.busy + r.idle for r in rows)
    return Table(
        pick(columns, SCREEN if device else WITHOUT_DEVICE),
        len(rows),
        lambda r: rows[r].label,
        dim=lambda r: rows[r].event < 0,
        empty="no steps",
        records=lambda order: records(pick(columns, FILE), order),
    )


def steps_json(rows: Sequence[StepRow]) -> list[Record]:
    """One object per row."""
    return records(pick(step_columns(rows), JSON), np.arange(len(rows)))


def all_steps_json(steps: Steps) -> Record:
    """The steps, what lies outside of them, and the whole."""
    *rows, outside, whole = steps_json((*steps.rows, steps.outside, steps.whole))
    return {"annotation": steps.table.name, "steps": rows, "outside": outside, "whole": whole}


def verdict_json(verdict: Verdict) -> Record:
    """A verdict with its numbers."""
    return {
        "verdict": verdict.verdict,
        "busy_share": json_share(verdict.busy_share),
        "launch_delay_ns": verdict.launch_delay,
        "reason": verdict.reason,
        "communication_share": json_share(verdict.communication_share),
    }


def steps_lines(steps: Steps, width: int, limit: int = 0) -> list[Line]:
    """One line per step, then what lies outside, then the whole; `limit`: steps shown, 0 for all."""
    # Narrow terminals do without the columns that say least.
    left_out = {"launches", "communication", "copy"} if width < 100 else set()
    if left_out and any(row.communication for row in steps.rows):
        left_out = left_out - {"communication"} | {"kernels"}
    if steps.whole.busy == 0:  # a trace of the CPU alone
        left_out = set(TEXT) - {"label", "window", "unusual"}
    rows = _text_rows(steps, limit)
    shown = pick(step_columns(rows), [key for key in TEXT if key not in left_out])
    body = cells(shown, range(len(rows)))
    lines = aligned(shown, [[(fit(label, 24), style), *rest] for (label, style), *rest in body])
    if limit and len(steps.rows) > limit:
        lines.insert(limit + 1, [(f"  and {plural(len(steps.rows) - limit, 'step')} more", "dim")])
    if not steps.rows:
        lines.append([(f"  The trace has no {steps.table.name} annotations.", "dim")])
    return lines


def steps_markdown(steps: Steps, limit: int = 0) -> str:
    rows = _text_rows(steps, limit)
    return markdown_table(pick(step_columns(rows), TEXT), range(len(rows)))


def _text_rows(steps: Steps, limit: int) -> list[StepRow]:
    rows = list(steps.rows[:limit] if limit else steps.rows)
    outside = steps.outside
    anything = outside.busy or outside.idle or outside.kernels
    return [*rows, *([outside] if steps.rows and anything else []), steps.whole]


def steps_from(steps: Steps, scope: Scope) -> Steps:
    """The step of the scope, or those that start in it. `outside` and `whole` stay the trace's."""
    return _chosen(steps, scope, lambda row: scope.start <= row.start < scope.end)


def steps_within(steps: Steps, scope: Scope) -> Steps:
    """The step of the scope, or those whose windows reach into it. `outside` and `whole` stay the trace's."""
    return _chosen(steps, scope, lambda row: row.window[0] < scope.end and row.window[1] > scope.start)


def _chosen(steps: Steps, scope: Scope, wanted: Callable[[StepRow], bool]) -> Steps:
    if scope.kind == "whole":
        return steps
    if scope.kind == "step":
        return replace(steps, rows=(steps.rows[scope.step],))
    return replace(steps, rows=tuple(row for row in steps.rows if wanted(row)))
