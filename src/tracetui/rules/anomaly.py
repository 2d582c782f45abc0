"""The rule on autograd's anomaly mode."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.analysis.calls.backward import checked_for_nan, searches_for_nan
from tracetui.analysis.part import Part
from tracetui.analysis.verdicts import base_of
from tracetui.core.columns import unique
from tracetui.rules.claims import Claims, Count, Remedy, Share, Time, says
from tracetui.rules.model import MEDIUM, Finding, build_finding


def anomaly_detection(part: Part) -> Iterator[Finding]:
    """Autograd's anomaly mode is on: it checks each gradient, and waits for the answer."""
    checks = checked_for_nan(part)
    if not searches_for_nan(part):
        return
    share = Share(checks.time, part.length, base_of(part))
    longest = checks.longest_first()
    yield build_finding(
        "anomaly_detection",
        "medium" if share.value >= MEDIUM else "low",
        {
            "nodes": Count(len(unique(part.trace.parent[checks]))),
            "check_ns": Time(checks.time),
            "share": share,
        },
        longest,
        "nodes check_ns share",
        remedy=Remedy("remove", longest),
    )


@says("anomaly_detection")
def _anomaly_detection(c: Claims) -> tuple[str, str, str]:
    return (
        f"Autograd's anomaly detection takes at least {c.share}",
        f"After {c.nodes:node} of the backward pass, autograd searches its results for NaN (aten::isnan, "
        f"aten::_is_any_true, aten::item), for {c.check_ns} in all; each time the CPU waits for the GPU's "
        "answer. In the forward pass, it also records the Python stack of every op; the trace does not show "
        "that.",
        "It is for debugging: remove torch.autograd.set_detect_anomaly(True), detect_anomaly(), or a "
        "trainer's detect_anomaly.",
    )
