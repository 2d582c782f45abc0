"""The summary: what is in a trace, and where to look. It is the overview as text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tracetui.analysis.calls.averages import Averages, averages_of
from tracetui.analysis.calls.launches import short_kernels_of
from tracetui.analysis.idle.causes import cause_totals
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.idle.verdict import busy_shares, judge
from tracetui.analysis.part import Part
from tracetui.analysis.rates.counters import device_counters
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import earlier_share_of, verdict_of, verdict_times_of
from tracetui.core.threads import run_parallel, threads_for
from tracetui.rules import find_findings
from tracetui.trace.model import DEVICE_WORK, Trace
from tracetui.trace.saved import keeps
from tracetui.trace.unrecorded import unrecorded
from tracetui.views.answer import Answer
from tracetui.views.device_counters import counters_json
from tracetui.views.document import Document, document_json
from tracetui.views.document_text import document_lines, document_markdown
from tracetui.views.findings import findings_json
from tracetui.views.fixes import fixes, fixes_json
from tracetui.views.gaps_text import device_names
from tracetui.views.jsonable import dumps, us
from tracetui.views.jsonable import share as json_share
from tracetui.views.overview import overviews, recorded_slices
from tracetui.views.steps import steps_from, steps_json
from tracetui.views.summary_cache import METRICS, KeptSummary, file_name, keep_summary
from tracetui.views.verdicts import causes_json, verdict_json

TOP = 8
"""Most names in JSON of where device (or CPU) time goes."""

STEPS_KEPT = 5000
"""JSON with more steps than this takes long to make, and is not kept."""


def summarize(part: Part) -> Document:
    """Everything that the summary shows."""
    at_once: list[Callable[[], object]] = [partial(find_findings, part), partial(averages_of, part)]
    run_parallel(at_once, threads_for(len(part.trace)))
    *_, document = overviews(part)
    return document


def find_summary(part: Part, json: bool) -> tuple[KeptSummary, str]:
    """What the command prints, and its JSON if asked for. It is kept if it is of all of a large file."""
    document, source = summarize(part), part.trace.reader.source
    text = dumps(summary_json(part, document)) if json else ""
    kept_summary = KeptSummary(recorded_slices(part.trace), document, metrics_of(part))
    if part.is_whole and keeps(source):
        keep_summary(source, kept_summary, text if len(steps_of(part).rows) <= STEPS_KEPT else "")
    return kept_summary, text


def metrics_of(part: Part) -> dict[str, float | None]:
    """The shares from 0 to 1 that `METRICS` names, None where the trace does not show one."""
    return {name: _metric(part, name) for name in METRICS}


def _metric(part: Part, name: str) -> float | None:
    steps, verdict = steps_from(steps_of(part), part.scope), verdict_of(part)
    if name == "busy":
        return verdict.busy_share
    if name == "step-busy":
        if verdict.cpu is not None or not gaps_of(part).devices or not steps.rows:
            return verdict.busy_share
        return float(busy_shares(np.array([row.judged for row in steps.rows])).min())
    if name == "device-busy":
        times = (time for time in verdict_times_of(part) if time.any())
        shares = (judge(time, None).busy_share for time in times)
        return min((share for share in shares if share is not None), default=None)
    parts = (steps.whole,) if part.is_whole else steps.rows
    talk = sum(row.communication for row in parts)
    return 1 - sum(row.exposed_communication for row in parts) / talk if talk else None


def summary_json(part: Part, document: Document) -> dict[str, Any]:
    """The summary as JSON-ready values."""
    trace, steps, devices = part.trace, steps_from(steps_of(part), part.scope), gaps_of(part).devices
    low, high = trace.span
    *rows, outside, whole = steps_json((*steps.rows, steps.outside, steps.whole))
    counters = {one.device: counters_json(one) for one in device_counters(part)}
    names, short, table = device_names(trace), short_kernels_of(part), averages_of(part)
    return {
        "file": file_name(trace.info.path),
        "scope": part.scope.label,
        "events": trace.events,
        "slices": len(trace),
        "lanes": len(trace.lanes),
        "devices": len(devices),
        "steps": len(rows),
        "steps_from": steps.table.source or None,
        "steps_not_recorded": steps.table.unrecorded,
        "span_ns": high - low,
        "warnings": [
            {"kind": n.kind, "level": n.level, "count": n.count, "text": n.text} for n in trace.notices
        ],
        "not_recorded": _unrecorded_json(trace),
        **verdict_json(verdict_of(part)),
        "advice": document.advice,
        "fixes": fixes_json(fixes(part)),
        "sections": document_json(document),
        "earlier_share": json_share(earlier_share_of(part)),
        "idle_by_cause": causes_json(cause_totals(causes_of(part))),
        "device_list": [
            {
                "device": one.device,
                "name": names.get(one.device, ""),
                "rank": trace.rank_of(one.device) or None,
                "busy_share": json_share(one.busy_share),
                "busy_ns": one.busy,
                "idle_ns": one.idle,
                "span_ns": one.span,
                "lead_in_ns": one.lead_in,
                "gaps": len(one),
                "counters": counters.get(one.device),
            }
            for one in devices
        ],
        "step_list": rows,
        "outside_steps": outside,
        "whole": whole,
        "top": _top_json(trace, table, bool(devices)),
        "self_cpu_us": us(table.total_self_cpu),
        "self_device_us": us(table.total_self_device),
        "findings": findings_json(trace, find_findings(part)),
        "short_kernels": {"events": short.events, "of": short.of},
    }


def _top_json(trace: Trace, table: Averages, device: bool) -> list[dict[str, Any]]:
    """The names with the most time of their own on a device, or on the CPU where there is none."""
    if device:  # PyTorch's table also has marks of synchronization
        times, column = table.self_device, "self_device_time_total"
        wanted = table.device & np.isin(trace.kind[table.first], DEVICE_WORK)
    else:
        times, column = table.self_cpu, "self_cpu_time_total"
        wanted = np.array([not name.startswith("ProfilerStep") for name in table.names], dtype=np.bool_)
    ranked = [int(i) for i in table.sorted_by(column) if wanted[i] and times[i] > 0]
    return [
        {
            "name": table.names[i],
            "device": "CUDA" if table.device[i] else "CPU",
            "calls": int(table.calls[i]),
            "self_us": us(int((table.self_device if table.device[i] else table.self_cpu)[i])),
        }
        for i in ranked[:TOP]
    ]


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


def summary_answer(part: Part) -> Answer:
    """What is in a trace and where to look. Its one row is the whole of it: to put many traces in a table."""
    document, title = summarize(part), file_name(part.trace.info.path)
    return Answer(
        "summary",
        lambda: summary_json(part, document),
        lambda: document_markdown(document, title),
        lambda width: document_lines(document, title, width),
    )
