"""The rule on autograd's anomaly mode."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.analysis.calls.backward import checked_for_nan, searches_for_nan
from tracetui.analysis.part import Part
from tracetui.analysis.verdicts import base_of
from tracetui.core.columns import unique
from tracetui.core.units import duration, plural, share
from tracetui.rules.model import MEDIUM, Finding, first_of


def anomaly_detection(part: Part) -> Iterator[Finding]:
    """Autograd's anomaly mode is on: it checks each gradient, and waits for the answer."""
    checks = checked_for_nan(part)
    if not searches_for_nan(part):
        return
    total = checks.time
    fraction = total / part.length
    nodes = len(unique(part.trace.parent[checks]))
    yield Finding(
        "anomaly_detection",
        "medium" if fraction >= MEDIUM else "low",
        f"Autograd's anomaly detection takes at least {share(fraction)} {base_of(part)}",
        f"After {plural(nodes, 'node')} of the backward pass, autograd searches its results for NaN "
        f"(aten::isnan, aten::_is_any_true, aten::item), for {duration(total)} in all; each time the CPU "
        "waits for the GPU's answer. In the forward pass, it also records the Python stack of every op; the "
        "trace does not show that.",
        "It is for debugging: remove torch.autograd.set_detect_anomaly(True), detect_anomaly(), or a "
        "trainer's detect_anomaly.",
        first_of(checks.longest_first()),
        {"nodes": float(nodes), "check_ns": float(total), "share": fraction},
    )
