"""The rule on autograd's anomaly mode."""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.analysis.calls.backward import checked_for_nan
from tracetui.analysis.idle.verdict import OF_RECORDING
from tracetui.analysis.part import Part
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.columns import unique
from tracetui.core.units import duration, plural, share
from tracetui.rules.model import MEDIUM, Finding, first_of, longest_first

ANOMALY_SHARE = 0.05


FIRST_TURN_OFF = (
    "First turn off autograd's anomaly detection: it is for debugging, and waits for the GPU after each node "
    "of the backward pass."
)
"""What to try against anything else."""


def anomaly_detection(part: Part) -> Iterator[Finding]:
    """Autograd's anomaly mode is on: it checks each gradient, and waits for the answer."""
    trace, at = part.trace, checked_for_nan(part)
    total, span = int(trace.duration[at].sum()), part.span[1] - part.span[0]
    fraction = total / span if span else 0.0
    if fraction < ANOMALY_SHARE:
        return
    nodes = len(unique(trace.parent[at]))
    yield Finding(
        "anomaly_detection",
        "medium" if fraction >= MEDIUM else "low",
        f"Autograd's anomaly detection takes at least {share(fraction)} "
        f"{OF_RECORDING if part.is_whole else verdict_of(part).base}",
        f"After {plural(nodes, 'node')} of the backward pass, autograd searches its results for NaN "
        f"(aten::isnan, aten::_is_any_true, aten::item), for {duration(total)} in all; each time the CPU "
        "waits for the GPU's answer. In the forward pass, it also records the Python stack of every op; the "
        "trace does not show that.",
        "It is for debugging: remove torch.autograd.set_detect_anomaly(True), detect_anomaly(), or a "
        "trainer's detect_anomaly.",
        first_of(longest_first(trace, at)),
        {"nodes": float(nodes), "check_ns": float(total), "share": fraction},
    )
