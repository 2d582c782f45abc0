"""A verdict as JSON: its parts, what it leaves out, the causes of idle time."""

from __future__ import annotations

from collections.abc import Sequence

from tracetui.analysis.idle.causes import CauseTotal
from tracetui.analysis.idle.verdict import PARTS, Verdict
from tracetui.views.jsonable import share as json_share
from tracetui.views.writers import Record

VERDICT_STYLE = {
    "overhead-bound": "bad", "communication-bound": "bad", "copy-bound": "bad", "mixed": "warn",
    "compute-bound": "good", "CPU-only": "accent", "not known": "dim",
}  # fmt: skip


def parts_json(verdict: Verdict) -> list[Record]:
    """How the time that a verdict is about splits."""
    return [
        {"part": part, "duration_ns": time, "share": json_share(verdict.share(part))}
        for part, time in zip(PARTS, verdict.parts, strict=False)
    ]


def left_out_json(verdict: Verdict) -> list[Record]:
    """What a verdict leaves out."""
    return [{"what": what, "duration_ns": time} for what, time in verdict.left_out]


def cpu_json(verdict: Verdict) -> Record | None:
    """What the time of a CPU-only trace went to; None for others."""
    time = verdict.cpu
    if time is None:
        return None
    return {
        "span_ns": time.span,
        "ops_ns": time.ops,
        "data_loading_ns": time.data_loading,
        "exposed_communication_ns": time.exposed_communication,
        "outside_ns": time.outside,
        "ops_share": json_share(time.ops / time.span),
        "communication_ns": time.communication,
        "threads": time.threads,
        "thread_ops_ns": time.thread_ops,
        "top_op": {"name": time.top, "calls": time.top_calls, "self_ns": time.top_self} if time.top else None,
    }


def causes_json(totals: Sequence[CauseTotal]) -> list[Record]:
    """One object per cause that occurs."""
    return [{"cause": t.cause, "gaps": t.gaps, "duration_ns": t.duration} for t in totals]


def verdict_json(verdict: Verdict) -> Record:
    """A verdict with its numbers."""
    return {
        "verdict": verdict.verdict,
        "busy_share": json_share(verdict.busy_share),
        "launch_delay_ns": verdict.launch_delay,
        "reason": verdict.reason,
        "communication_share": json_share(verdict.communication_share),
        "parts": parts_json(verdict),
        "left_out": left_out_json(verdict),
        "cpu": cpu_json(verdict),
    }
