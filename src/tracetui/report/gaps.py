"""Gaps as text, Markdown and JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from tracetui.analysis.activity import MOST, activity_text, small_ops
from tracetui.analysis.causes import (
    CAUSE_TEXT,
    CAUSES,
    Causes,
    CauseTotal,
    cause_totals,
    gap_causes,
    lead_in_cause,
)
from tracetui.analysis.gaps import DeviceGaps, clip, find_gaps
from tracetui.analysis.kernel_names import decode
from tracetui.analysis.scope import Scope, StepTable, find_steps
from tracetui.analysis.steps import step_windows
from tracetui.analysis.verdict import busy_text
from tracetui.report import markdown
from tracetui.report.jsonable import share as json_share
from tracetui.report.lines import Line, Span, bar, columns, fit
from tracetui.safe_text import plain
from tracetui.trace import Trace
from tracetui.units import duration, instant, plural, share

__all__ = [
    "GapReport",
    "cause_lines",
    "device_name",
    "gap_report",
    "gaps_json",
    "gaps_lines",
    "gaps_markdown",
]


@dataclass(frozen=True, slots=True)
class GapReport:
    """The gaps of one device in a scope, with their causes."""

    gaps: DeviceGaps
    causes: Causes
    totals: list[CauseTotal]
    lead_in: Causes | None
    name: str
    """What the device is, safe to show; "" where the trace does not say."""


def device_name(trace: Trace, device: int) -> str:
    """The device's name by `deviceProperties`, safe to show; "" where there is none."""
    for entry in trace.info.devices:
        if entry.get("id") == device and isinstance(entry.get("name"), str):
            return plain(entry["name"], 60)
    return ""


def gap_report(trace: Trace, scope: Scope | None = None) -> list[GapReport]:
    """The gaps of every device; for a step those within its window (see `summarize_steps`)."""
    reports = []
    steps = find_steps(trace)
    for gaps in find_gaps(trace):
        lead_in = lead_in_cause(trace, gaps) if scope is None or scope.kind == "whole" else None
        if scope is not None and scope.kind != "whole":
            gaps = clip(gaps, *_stretch(trace, scope, steps))
        causes = gap_causes(trace, gaps, steps)
        totals = cause_totals(gaps, causes)
        reports.append(GapReport(gaps, causes, totals, lead_in, device_name(trace, gaps.device)))
    return reports


def _stretch(trace: Trace, scope: Scope, steps: StepTable) -> tuple[int, int]:
    if scope.kind != "step":
        return scope.start, scope.end
    low, high = step_windows(trace, steps)
    return int(low[scope.step]), int(high[scope.step])


def gaps_json(trace: Trace, reports: list[GapReport], minimum: int = 0) -> dict[str, Any]:
    """All gaps of at least `minimum` ns in order of time; the sums are over all gaps."""
    steps = find_steps(trace)
    return {"devices": [_device_json(trace, steps, report, minimum) for report in reports]}


def _device_json(trace: Trace, steps: StepTable, report: GapReport, minimum: int) -> dict[str, Any]:
    gaps, causes = report.gaps, report.causes
    names = trace.names
    name = trace.name.tolist()
    small = small_ops(trace, gaps.before, causes)

    def name_of(i: int) -> str | None:
        return names[name[i]] if i >= 0 else None

    number = steps.number.tolist()
    wanted = [i for i, length in enumerate(gaps.duration.tolist()) if length >= minimum]
    rows = zip(
        gaps.start.tolist(),
        gaps.duration.tolist(),
        causes.cause.tolist(),
        gaps.before.tolist(),
        causes.event.tolist(),
        causes.launch.tolist(),
        causes.op.tolist(),
        causes.step.tolist(),
        causes.activity.tolist(),
        small.count.tolist(),
        small.name.tolist(),
        strict=True,
    )
    listed = list(rows)
    return {
        "device": gaps.device,
        "name": report.name,
        "first_ns": gaps.first,
        "last_ns": gaps.last,
        "busy_ns": gaps.busy,
        "span_ns": gaps.span,
        "idle_ns": gaps.idle,
        "busy_share": json_share(gaps.busy_share),
        "lead_in_ns": gaps.lead_in,
        "lead_in_cause": CAUSES[int(report.lead_in.cause[0])] if report.lead_in else None,
        "gap_count": len(gaps),
        "causes": [{"cause": t.cause, "gaps": t.gaps, "duration_ns": t.duration} for t in report.totals],
        "gaps": [
            {
                "start_ns": start,
                "duration_ns": length,
                "cause": CAUSES[cause],
                "after": name_of(before),
                "before": name_of(event),
                "launch": name_of(launch),
                "op": name_of(op),
                "step": number[step] if step >= 0 else None,
                "cpu": name_of(activity),
                "cpu_ops": ops,
                "cpu_most": names[most] if most >= 0 else None,
            }
            for start, length, cause, before, event, launch, op, step, activity, ops, most in (
                listed[i] for i in wanted
            )
        ],
    }


def headline(report: GapReport) -> str:
    """One line on a device."""
    gaps = report.gaps
    name = f" ({report.name})" if report.name else ""
    line = f"GPU {gaps.device}{name}: busy {busy_text(gaps.busy_share)} of {duration(gaps.span)}"
    return f"{line}, idle {duration(gaps.idle)} in {plural(len(gaps), 'gap')}"


def lead_in_line(report: GapReport) -> str | None:
    """What there is to say about the time before the device's first event."""
    if report.lead_in is None:
        return None
    cause = CAUSES[int(report.lead_in.cause[0])]
    begun = f"first event {duration(report.gaps.lead_in)} after the CPU's"
    return f"{begun} ({cause}: {CAUSE_TEXT[cause]})"


def cause_lines(totals: list[CauseTotal], idle: int, width: int) -> list[Line]:
    """Idle time by cause, with bars. The last column takes the room that is left."""
    wide = max(8, min(20, width - 72))
    rows: list[list[str | Span]] = [
        [
            (t.cause, "accent"),
            duration(t.duration),
            share(t.duration / idle) if idle else "",
            (bar(t.duration / idle if idle else 0.0, wide), "accent"),
            f"{t.gaps:,} x",
        ]
        for t in totals
    ]
    lines = columns(rows, "<>><>")
    for line, total in zip(lines, totals, strict=True):
        used = sum(len(text) for text, _ in line)
        line.append((f"  {fit(CAUSE_TEXT[total.cause], max(0, width - used - 2))}", "dim"))
    return lines


def gaps_lines(
    trace: Trace, reports: list[GapReport], width: int, minimum: int = 0, limit: int = 20
) -> list[Line]:
    """Per device a headline, its idle time by cause, and its longest gaps: `limit` of them, 0 for all."""
    if not reports:
        return [[("The trace has no device events.", "")]]
    steps = find_steps(trace)
    lines: list[Line] = []
    for report in reports:
        gaps, causes = report.gaps, report.causes
        lines += [[]] if lines else []
        lines.append([(headline(report), "title")])
        if (lead_in := lead_in_line(report)) is not None:
            lines.append([(fit(f"  {lead_in}", width), "dim")])
        lines += [[], [("Idle by cause", "head")], *cause_lines(report.totals, gaps.idle, width)]
        order = gaps.longest(minimum)
        shown = order[:limit] if limit else order
        small = small_ops(trace, gaps.before, causes)
        lines += [[], [("Longest gaps" if minimum <= 0 else f"Gaps of {duration(minimum)} and more", "head")]]
        rows: list[list[str | Span]] = [
            [(h, "dim") for h in ("at", "length", "cause", "step", "until", "the CPU was in")]
        ]
        for i in shown.tolist():
            step = int(causes.step[i])
            rows.append(
                [
                    instant(int(gaps.start[i])),
                    duration(int(gaps.duration[i])),
                    (CAUSES[int(causes.cause[i])], "accent"),
                    str(steps.number[step]) if step >= 0 else "-",
                    decode(trace.name_of(int(causes.event[i]))).short,
                    activity_text(trace, causes, small, i),
                ]
            )
        _fit_names(rows, width)
        lines += columns(rows, ">><><<")
        if len(order) > len(shown):
            lines.append(
                [(f"  and {plural(len(order) - len(shown), 'more gap')} (--limit 0 lists all)", "dim")]
            )
    return lines


def _fit_names(rows: list[list[str | Span]], width: int) -> None:
    """Cut the last two columns to what the others leave of `width`: each to half, or to what the other
    spares."""
    sizes = [max(cell_len(_text(row[i])) for row in rows) for i in range(6)]
    room = width - sum(sizes[:4]) - 6 * len("  ")
    last = max(12, min(sizes[5], room // 2))
    first = max(12, min(sizes[4], room - last))
    last = max(last, room - first)
    for row in rows[1:]:
        row[4], row[5] = fit(_text(row[4]), first), _fit_activity(_text(row[5]), last)


def _fit_activity(text: str, width: int) -> str:
    count, several, name = text.partition(MOST)
    if not several or cell_len(text) <= width:
        return fit(text, width)
    return f"{count}: {fit(name, width - len(count) - 2)}"


def _text(cell: str | Span) -> str:
    return cell if isinstance(cell, str) else cell[0]


def gaps_markdown(trace: Trace, reports: list[GapReport], minimum: int = 0, limit: int = 20) -> str:
    """Per device the causes and the longest gaps as Markdown tables."""
    if not reports:
        return "The trace has no device events.\n"
    steps = find_steps(trace)
    text = ""
    for report in reports:
        gaps, causes = report.gaps, report.causes
        lead_in = lead_in_line(report)
        text += markdown.heading(headline(report)) + (f"\n{markdown.cell(lead_in)}\n" if lead_in else "")
        text += "\n" + causes_markdown(report.totals, gaps.idle)
        rows = []
        order = gaps.longest(minimum)
        small = small_ops(trace, gaps.before, causes)
        for i in (order[:limit] if limit else order).tolist():
            step = int(causes.step[i])
            rows.append(
                [
                    instant(int(gaps.start[i])),
                    duration(int(gaps.duration[i])),
                    CAUSES[int(causes.cause[i])],
                    str(steps.number[step]) if step >= 0 else "",
                    markdown.code(decode(trace.name_of(int(causes.event[i]))).short),
                    markdown.code(activity_text(trace, causes, small, i)),
                ]
            )
        headers = ["At", "Length", "Cause", "Step", "Until", "The CPU was in"]
        text += "\n" + markdown.table(headers, rows, ">><><<") + "\n"
    return text


def causes_markdown(totals: list[CauseTotal], idle: int) -> str:
    """Idle time by cause as a Markdown table."""
    rows = [
        [
            t.cause,
            duration(t.duration),
            share(t.duration / idle) if idle else "",
            f"{t.gaps:,}",
            CAUSE_TEXT[t.cause],
        ]
        for t in totals
    ]
    return markdown.table(["Cause", "Idle", "Share", "Gaps", ""], rows, "<>>><")
