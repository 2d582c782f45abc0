"""Steps as text, Markdown and JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tracetui.analysis.scope import Scope
from tracetui.analysis.steps import StepRow, Steps
from tracetui.analysis.verdict import Verdict, busy_text
from tracetui.report import markdown
from tracetui.report.jsonable import share as json_share
from tracetui.report.lines import Line, Span, columns, fit
from tracetui.units import duration, plural

__all__ = ["select_steps", "step_json", "steps_json", "steps_lines", "steps_markdown", "verdict_json"]

HEADERS = ("", "window", "busy", "idle", "mostly", "compute", "comm", "copies", "launches", "kernels", "")


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict with its numbers."""
    return {
        "verdict": verdict.verdict,
        "busy_share": json_share(verdict.busy_share),
        "launch_delay_ns": verdict.launch_delay,
        "reason": verdict.reason,
        "communication_share": json_share(verdict.communication_share),
    }


def step_json(row: StepRow) -> dict[str, Any]:
    """One step. Times in ns; the sums over all steps and `outside` are those of `whole`.

    `busy_share` is that of the row's own busy and idle time; `verdict_busy_share` what its verdict rests on,
    which for `whole` is the share within the steps.
    """
    verdict = verdict_json(row.verdict)
    verdict["verdict_busy_share"] = verdict.pop("busy_share")
    return {
        "label": row.label,
        "step": row.number if row.number >= 0 else None,
        "start_ns": row.start,
        "duration_ns": row.duration,
        "window_start_ns": row.window[0],
        "window_ns": row.window[1] - row.window[0],
        "busy_ns": row.busy,
        "idle_ns": row.idle,
        "busy_share": json_share(row.busy_share),
        "idle_by_cause": [
            {"cause": t.cause, "gaps": t.gaps, "duration_ns": t.duration} for t in row.idle_by_cause
        ],
        "compute_ns": row.compute,
        "communication_ns": row.communication,
        "exposed_communication_ns": row.exposed_communication,
        "copy_ns": row.copy,
        "exposed_copy_ns": row.exposed_copy,
        "set_ns": row.set,
        "launches": row.launches,
        "kernels": row.kernels,
        "copies": row.copies,
        **verdict,
        "unusual": row.unusual,
    }


def steps_json(steps: Steps) -> dict[str, Any]:
    return {
        "annotation": steps.table.name,
        "steps": [step_json(row) for row in steps.rows],
        "outside": step_json(steps.outside),
        "whole": step_json(steps.whole),
    }


def select_steps(steps: Steps, scope: Scope) -> Steps:
    """The steps of a scope: the one, or those that start in the range. `whole` stays the trace's."""
    if scope.kind == "whole":
        return steps
    if scope.kind == "step":
        return replace(steps, rows=(steps.rows[scope.step],))
    return replace(steps, rows=tuple(r for r in steps.rows if scope.start <= r.start < scope.end))


def _cells(row: StepRow) -> list[str]:
    busy = busy_text(row.busy_share) if row.busy_share is not None else "-"
    cause = row.idle_by_cause[0].cause if row.idle_by_cause else "-"
    talk = duration(row.communication) if row.communication else "-"
    window = duration(row.window[1] - row.window[0]) if row.window[1] > row.window[0] else "-"
    return [
        row.label,
        window,
        busy,
        duration(row.idle),
        cause,
        duration(row.compute),
        talk,
        duration(row.copy) if row.copy else "-",
        f"{row.launches:,}",
        f"{row.kernels:,}",
    ]


def _all_rows(steps: Steps, limit: int) -> list[StepRow]:
    rows = list(steps.rows[:limit] if limit else steps.rows)
    outside = steps.outside
    anything = outside.busy or outside.idle or outside.kernels
    return [*rows, *([outside] if steps.rows and anything else []), steps.whole]


def steps_lines(steps: Steps, width: int, limit: int = 0) -> list[Line]:
    """One line per step, then what lies outside, then the whole; `limit`: steps shown, 0 for all."""
    # Narrow terminals do without the columns that say least.
    left_out = {"launches", "comm", "copies"} if width < 100 else set()
    if left_out and any(row.communication for row in steps.rows):
        left_out = left_out - {"comm"} | {"kernels"}
    if steps.whole.busy == 0:  # a trace of the CPU alone
        left_out = set(HEADERS) - {"", "window"}
    keep = [i for i, header in enumerate(HEADERS) if header not in left_out]
    cells: list[list[str | Span]] = [[(HEADERS[i], "dim") for i in keep]]
    for row in _all_rows(steps, limit):
        mark = ("unusual", "warn") if row.unusual else ("", "")
        line: list[str | Span] = [*_cells(row), mark]
        line[0] = (fit(row.label, 24), "title" if row.number < 0 else "")
        cells.append([line[i] for i in keep])
    lines = columns(cells, "".join("<" if HEADERS[i] in ("", "mostly") else ">" for i in keep))
    if limit and len(steps.rows) > limit:
        lines.insert(limit + 1, [(f"  and {plural(len(steps.rows) - limit, 'step')} more", "dim")])
    if not steps.rows:
        lines.append([(f"  The trace has no {steps.table.name} annotations.", "dim")])
    return lines


def steps_markdown(steps: Steps, limit: int = 0) -> str:
    rows = [
        [markdown.cell(c) for c in _cells(r)] + ["unusual" if r.unusual else ""]
        for r in _all_rows(steps, limit)
    ]
    headers = [
        "Step",
        "Window",
        "Busy",
        "Idle",
        "Mostly",
        "Compute",
        "Comm.",
        "Copies",
        "Launches",
        "Kernels",
        "",
    ]
    return markdown.table(headers, rows, "<>>><>>>>><")
