"""The summary: what is in a trace, and where to look. As text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tracetui.analysis.calls.averages import Averages, averages_of
from tracetui.analysis.calls.launches import ShortKernels, short_kernels_of
from tracetui.analysis.idle.causes import CauseTotal, cause_totals
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.idle.verdict import busy_shares, busy_text, judge
from tracetui.analysis.names.kernel_names import decode
from tracetui.analysis.names.short_names import told_apart
from tracetui.analysis.part import Part
from tracetui.analysis.rates.counters import device_counters
from tracetui.analysis.steps.steps import Steps, steps_of
from tracetui.analysis.verdicts import earlier_share_of, judged_times_of, verdict_of
from tracetui.core.cells import fit, wrap
from tracetui.core.threads import threads_for, together
from tracetui.core.units import capital, duration, plural, share
from tracetui.rules import find_findings
from tracetui.trace.model import DEVICE_WORK, Trace
from tracetui.trace.unrecorded import unrecorded
from tracetui.views import markdown
from tracetui.views.answer import Answer
from tracetui.views.device_counters import counters_json, counters_text
from tracetui.views.file_notes import file_notes
from tracetui.views.findings import findings_json
from tracetui.views.findings_text import LEVEL_STYLE, finding_titles, findings_markdown, unknown_events
from tracetui.views.gap_words import words_of_all
from tracetui.views.gaps_text import (
    GapReport,
    cause_lines,
    causes_markdown,
    gap_report,
    head_lines,
    headline,
    lead_in_line,
)
from tracetui.views.jsonable import dumps, us
from tracetui.views.jsonable import share as json_share
from tracetui.views.kept_summary import METRICS, WIDEST, Forms, file_name
from tracetui.views.lines import INDENT, Line, Span, bar, columns, paragraph
from tracetui.views.parts import TimePart, time_parts
from tracetui.views.steps import steps_from, steps_json, steps_lines, steps_markdown
from tracetui.views.verdicts import VERDICT_STYLE, causes_json, verdict_json

TOP = 8
"""Most names in the list of where device (or CPU) time goes."""
STEPS_SHOWN = 10
FINDINGS_SHOWN = 8
STEPS_KEPT = 5000
"""JSON with more steps than this takes long to make, and is not kept."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The contents of a summary of a trace, or of a part of it."""

    part: Part
    file: str
    """The file's name, safe to show."""
    gaps: list[GapReport]
    steps: Steps
    """With the rows of the scope."""
    table: Averages
    top: list[int]
    """Rows of `table` by self time on the device (without one: on the CPU), largest first."""
    short: ShortKernels
    idle_by_cause: list[CauseTotal]


def summarize(part: Part) -> Summary:
    """Compute everything that the summary shows."""
    trace = part.trace
    at_once: list[Callable[[], object]] = [partial(find_findings, part), partial(averages_of, part)]
    together(at_once, threads_for(len(trace)))
    table, reports = averages_of(part), gap_report(part)
    if reports:
        ranked = [int(i) for i in table.sorted_by("self_device_time_total")]
        top = [i for i in ranked if _is_work(trace, table, i) and table.self_device[i] > 0]
    else:
        ranked = [int(i) for i in table.sorted_by("self_cpu_time_total") if table.self_cpu[i] > 0]
        top = [i for i in ranked if not table.names[i].startswith("ProfilerStep")]  # of no op
    return Summary(
        part,
        file_name(trace.info.path),
        reports,
        steps_from(steps_of(part), part.scope),
        table,
        top,
        short_kernels_of(part),
        cause_totals(causes_of(part)),
    )


def summary_form(summary: Summary, form: str, width: int) -> str | list[Line]:
    """As "json" or "markdown", or as lines for a screen of this width."""
    if form == "json":
        return dumps(summary_json(summary))
    return summary_markdown(summary) if form == "markdown" else summary_lines(summary, width)


def every_form(summary: Summary, *widths: int) -> Forms:
    """All that can be said of it, as lines for screens of these widths."""
    return Forms(
        summary.file,
        dumps(summary_json(summary)) if len(summary.steps.rows) <= STEPS_KEPT else "",
        summary_markdown(summary),
        {width: summary_lines(summary, width) for width in {min(width, WIDEST) for width in widths}},
        {name: metric(summary, name) for name in METRICS},
    )


def _is_work(trace: Trace, table: Averages, i: int) -> bool:
    """Whether a row is of kernels, copies or memsets. PyTorch's table also has marks of synchronization."""
    return bool(table.device[i]) and trace.kind[table.first[i]] in DEVICE_WORK


def _total(summary: Summary) -> int:
    """The total time that the list is about, ns."""
    if summary.top and summary.table.device[summary.top[0]]:
        return sum(_own(summary.table, i) for i in summary.top)
    return summary.table.total_self_cpu


def _own(table: Averages, i: int) -> int:
    """The self time of a row, on the device or the CPU, ns."""
    return int((table.self_device if table.device[i] else table.self_cpu)[i])


def metric(summary: Summary, name: str) -> float | None:
    """A share from 0 to 1, None if the trace does not show it. Raises KeyError if not one of `METRICS`."""
    rows, verdict = summary.steps.rows, verdict_of(summary.part)
    if name == "busy":
        return verdict.busy_share
    if name == "step-busy":
        if verdict.cpu is not None or not summary.gaps or not rows:
            return verdict.busy_share
        return float(busy_shares(np.array([row.judged for row in rows])).min())
    if name == "device-busy":
        times = (time for time in judged_times_of(summary.part) if time.any())
        shares = (judge(time, None).busy_share for time in times)
        return min((part for part in shares if part is not None), default=None)
    if name == "overlap":
        parts = (summary.steps.whole,) if summary.part.is_whole else rows
        talk = sum(r.communication for r in parts)
        return 1 - sum(r.exposed_communication for r in parts) / talk if talk else None
    raise KeyError(name)


def summary_json(summary: Summary) -> dict[str, Any]:
    """The summary as JSON-ready values."""
    trace, table, steps = summary.part.trace, summary.table, summary.steps
    low, high = trace.span
    *rows, outside, whole = steps_json((*steps.rows, steps.outside, steps.whole))
    counters = {one.device: counters_json(one) for one in device_counters(summary.part)}
    return {
        "file": summary.file,
        "scope": summary.part.scope.label,
        "events": trace.events,
        "slices": len(trace),
        "lanes": len(trace.lanes),
        "devices": len(summary.gaps),
        "steps": len(rows),
        "steps_from": steps.table.source or None,
        "steps_not_recorded": steps.table.unrecorded,
        "span_ns": high - low,
        "warnings": [
            {"kind": n.kind, "level": n.level, "count": n.count, "text": n.text} for n in trace.notices
        ],
        "not_recorded": _unrecorded_json(trace),
        **verdict_json(verdict_of(summary.part)),
        "earlier_share": json_share(earlier_share_of(summary.part)),
        "idle_by_cause": causes_json(summary.idle_by_cause),
        "device_list": [
            {
                "device": r.gaps.device,
                "name": r.name,
                "rank": r.rank or None,
                "busy_share": json_share(r.gaps.busy_share),
                "busy_ns": r.gaps.busy,
                "idle_ns": r.gaps.idle,
                "span_ns": r.gaps.span,
                "lead_in_ns": r.gaps.lead_in,
                "gaps": len(r.gaps),
                "counters": counters.get(r.gaps.device),
            }
            for r in summary.gaps
        ],
        "step_list": rows,
        "outside_steps": outside,
        "whole": whole,
        "top": [
            {
                "name": table.names[i],
                "device": "CUDA" if table.device[i] else "CPU",
                "calls": int(table.calls[i]),
                "self_us": us(_own(table, i)),
            }
            for i in summary.top[:TOP]
        ],
        "self_cpu_us": us(table.total_self_cpu),
        "self_device_us": us(table.total_self_device),
        "findings": findings_json(trace, find_findings(summary.part)),
        "short_kernels": {"events": summary.short.events, "of": summary.short.of},
    }


def _unrecorded_json(trace: Trace) -> dict[str, int]:
    found = unrecorded(trace)
    return {
        "launches": len(found.launches),
        "of_launches": found.of,
        "at_the_beginning": found.before,
        "at_the_end": found.after,
        "events_without_launch": len(found.work),
        "launched_before": found.earlier,
    }


def _title(summary: Summary) -> str:
    trace = summary.part.trace
    low, high = trace.span
    lanes = sum(1 for lane in trace.lanes if lane.last > lane.first)
    what = f"{plural(trace.events, 'event')}, {plural(len(trace), 'slice')} on {plural(lanes, 'lane')}"
    return f"{what}, {duration(high - low)}"


def _verdict(summary: Summary) -> tuple[str, str, str]:
    """(the verdict, its numbers, the reason)."""
    verdict = verdict_of(summary.part)
    numbers = []
    if verdict.busy_share is not None:
        who = "GPU" if len(gaps_of(summary.part).devices) < 2 else "GPUs"
        numbers.append(f"{who} busy {busy_text(verdict.busy_share)} {verdict.of()}")
    if verdict.launch_delay is not None:
        numbers.append(f"launch to start {duration(verdict.launch_delay)} (median)")
    reason = unknown_events(summary.part) or verdict.reason
    return verdict.verdict, ", ".join(numbers), reason


def summary_lines(summary: Summary, width: int) -> list[Line]:
    """The summary in lines of at most `width` cells: the verdict first."""
    width = min(width, WIDEST)
    part, trace = summary.part, summary.part.trace
    word, numbers, reason = _verdict(summary)
    lines: list[Line] = [
        *_beside((fit(summary.file, width), "title"), (_title(summary), "dim"), 2, width),
        *([] if part.is_whole else [[(f"only {part.scope.label}", "warn")]]),
        [],
        *_beside((capital(word), VERDICT_STYLE[word]), (numbers, ""), 3, width),
        *paragraph(reason, min(width, 102), "dim", INDENT),
        *_time_lines(summary, width),
    ]
    for report in summary.gaps:
        lines += [[], *head_lines(report, width)]
        for said in _counters(part, report):
            lines += paragraph(said, width, "", INDENT)
        if len(summary.gaps) > 1:
            lines += cause_lines(report, width)
    if findings := find_findings(part):
        lines += [[], [("Findings", "head")], *finding_titles(findings, width, FINDINGS_SHOWN)]
    if summary.steps.rows:
        lines += [[], [("Steps", "head")], *steps_lines(summary.steps, width, STEPS_SHOWN)]
    lines += _top_lines(summary, width)
    if about := file_notes(trace):
        lines += [[], [("About the file", "head")]]
        for level, count, text in about:
            head = [(f"  {level:<8}  ", LEVEL_STYLE.get(level, ""))]
            lines += paragraph(f"{count:,} x {text}", width, head=head)
    return lines


def _counters(part: Part, report: GapReport) -> list[str]:
    """What the counters of a device say, if it has any."""
    return [counters_text(one) for one in device_counters(part) if one.device == report.gaps.device]


def _beside(first: Span, second: Span, apart: int, width: int) -> list[Line]:
    """Two texts on one line, or below each other where there is no room."""
    if not second[0]:
        return [[first]]
    if len(wrap(f"{first[0]}{'':<{apart}}{second[0]}", width)) == 1:
        return [[first, (f"{'':<{apart}}{second[0]}", second[1])]]
    return [[first], *paragraph(second[0], width, second[1], INDENT)]


def _time(summary: Summary) -> tuple[str, tuple[TimePart, ...]]:
    """How the time that the verdict is about was spent, with a title. No rows without devices."""
    verdict = verdict_of(summary.part)
    together = f" on {plural(len(summary.gaps), 'device')} together" if len(summary.gaps) > 1 else ""
    counts = " that count" if verdict.noticeably_left_out else ""
    words = words_of_all(summary.part)
    title = f"Where the time goes: {duration(verdict.judged)} {verdict.base}{counts}{together}"
    return title, time_parts(verdict, words) if verdict.cpu is None else ()


def _time_lines(summary: Summary, width: int) -> list[Line]:
    title, rows = _time(summary)
    if not rows:
        return []
    cells: list[list[str | Span]] = [
        [
            (part.what, "accent" if part.share is not None else "dim"),
            duration(part.duration),
            _share_text(part),
            (bar(part.share or 0.0, 10), "accent"),
        ]
        for part in rows
    ]
    lines = columns(cells, "<>><")
    for line, part in zip(lines, rows, strict=True):
        used = sum(len(text) for text, _ in line)
        line.append((f"  {fit(part.text, max(0, width - used - 2))}", "dim"))
    return [[], [(title, "head")], *lines]


def _share_text(part: TimePart) -> str:
    return share(part.share) if part.share is not None else "-"


def _top_lines(summary: Summary, width: int) -> list[Line]:
    table = summary.table
    if not summary.top:
        return []
    total = _total(summary)
    rows: list[list[str | Span]] = []
    for i, name in zip(summary.top[:TOP], _top_names(summary), strict=True):
        part = _own(table, i) / total if total else 0.0
        took, calls = duration(_own(table, i)), f"{int(table.calls[i]):,} x"
        rows.append([share(part), (bar(part, 10), "accent"), took, calls, fit(name, width - 42)])
    what = "Kernels and copies" if table.device[summary.top[0]] else "self CPU time"
    more = len(summary.top) - TOP
    head: Line = [(f"{what}, {duration(total)} in all", "head")]
    if more > 0:
        head.append((f"  (the first {TOP} of {len(summary.top)} names)", "dim"))
    return [[], head, *columns(rows, "><>><")]


def _top_names(summary: Summary) -> list[str]:
    """Short names of the first rows, told apart where two have the same one."""
    table, top = summary.table, summary.top[:TOP]
    shorts = [decode(table.names[i]).short if table.device[i] else table.names[i] for i in top]
    return told_apart(shorts, [table.names[i] for i in top], [bool(table.device[i]) for i in top])


def summary_markdown(summary: Summary) -> str:
    """The summary to paste into an issue or a chat."""
    part, trace = summary.part, summary.part.trace
    word, numbers, reason = _verdict(summary)
    text = markdown.heading(summary.file, 2) + f"\n{markdown.cell(_title(summary))}\n\n"
    numbers = f": {numbers}" if numbers else ""
    text += f"**{capital(word)}**{markdown.cell(numbers)}. {markdown.cell(reason)}\n"
    title, spent = _time(summary)
    if spent:
        cells = [[p.what, duration(p.duration), _share_text(p), p.text] for p in spent]
        text += "\n" + markdown.heading(title, 3)
        text += "\n" + markdown.table(["Part", "Time", "Share", ""], cells, "<>><")
    for report in summary.gaps:
        lead_in = lead_in_line(report)
        text += "\n" + markdown.heading(headline(report), 3)
        text += f"\n{markdown.cell(lead_in)}\n" if lead_in else ""
        text += "".join(f"\n{markdown.cell(said)}\n" for said in _counters(part, report))
        text += "\n" + causes_markdown(report)
    if summary.steps.rows:
        text += "\n" + markdown.heading("Steps", 3) + "\n" + steps_markdown(summary.steps, STEPS_SHOWN)
    table = summary.table
    total, rows = _total(summary), []
    for i, short in zip(summary.top[:TOP], _top_names(summary), strict=True):
        own, calls = _own(table, i), f"{int(table.calls[i]):,}"
        rows.append([share(own / total) if total else "", duration(own), calls, markdown.code(short)])
    if rows:
        text += "\n" + markdown.heading("Where the time goes", 3) + "\n"
        text += markdown.table(["Share", "Time", "Calls", "Name"], rows, ">>><")
    if find_findings(part):
        text += "\n" + markdown.heading("Findings", 3) + "\n" + findings_markdown(part)
    if about := file_notes(trace):
        text += "\n" + markdown.heading("About the file", 3) + "\n"
        text += "".join(f"- {level}: {count:,} x {markdown.cell(said)}\n" for level, count, said in about)
    return text


def summary_answer(part: Part) -> Answer:
    """What is in a trace and where to look. Its one row is the whole of it: to put many traces in a table."""
    summary = summarize(part)
    return Answer(
        "summary",
        lambda: summary_json(summary),
        lambda: summary_markdown(summary),
        lambda width: summary_lines(summary, min(width, WIDEST)),
    )
