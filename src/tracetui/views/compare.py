"""The numbers of a comparison, as rows and texts.

Times and counts are per step where steps were compared, else of whole recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tracetui.compare.metrics import MACHINE_SHARE
from tracetui.compare.model import METRICS, Comparison, Explanation, Metric
from tracetui.compare.sides import paced_by_device
from tracetui.core.units import duration, percent, ratio_text, signed, size
from tracetui.views.gaps import field
from tracetui.views.lines import Span
from tracetui.views.model import Column, Columns, by_key

WORDS = {
    "step_ns": "step time",
    "device_ns": "GPU work",
    "busy_share": "GPU busy",
    "compute_ns": "compute",
    "communication_ns": "exposed comm.",
    "copies_ns": "exposed copies",
    "launches": "launches",
    "kernels": "kernels",
    "copied_bytes": "bytes copied",
    "cpu_op_ns": "CPU in ops",
    "peak_allocated_bytes": "peak allocated",
    "peak_reserved_bytes": "peak reserved",
}
"""What people call a metric."""
WHOLE = "time"
"""`step_ns` of a recording without steps."""


# One number of each side


def main_change(comparison: Comparison, one: Explanation) -> tuple[int, str]:
    """What an explanation changes most of all, (ns per step, "GPU" or "CPU")."""
    change, on = one.first(all(map(paced_by_device, (comparison.a, comparison.b))))
    return change, "GPU" if on == "device" else "CPU"


def count_text(value: float) -> str:
    """A count, or the mean of some."""
    return f"{value:,.0f}" if value == round(value) or value >= 1000 else f"{value:,.3g}"


def value_text(name: str, value: float | None) -> str:
    """A metric's value: a time, a share or a count; `-` where it is not known."""
    if value is None:
        return "-"
    if name == "busy_share":
        return percent(value, 1)
    if name.endswith("_bytes"):
        return size(value)
    return duration(value) if name.endswith("_ns") else count_text(value)


def change_text(name: str, change: float | None) -> str:
    """The difference of a metric: `+2.81 ms`, `-7.5 points`, `+1`; `-` for none."""
    if change is None:
        return "-"
    if name == "busy_share":
        return signed(change, lambda v: f"{100 * v:.1f} points" if v >= 0.0005 else "<0.1 points")
    return signed(change, lambda v: value_text(name, v))


def spread_text(name: str, spread: tuple[float, float] | None) -> str:
    """The least and the most of a step: `240 .. 337 µs`, `1.06 ms` if they look alike; "" if equal."""
    if spread is None or spread[0] == spread[1]:
        return ""
    low, high = (value_text(name, end) for end in spread)
    if low == high:
        return low
    number, _, unit = low.rpartition(" ")
    return f"{number if number and high.endswith(f' {unit}') else low} .. {high}"


def _noise(name: str, metric: Metric, step: Metric) -> str:
    """What a difference is, where it is no effect: the machine's speed, or no more than steps vary. Of the
    busy share the time of a step says so; a count is never the machine's."""
    if not metric.change:
        return "same" if metric.change == 0 else ""
    if not metric.within_noise:
        return ""
    if name in ("launches", "kernels") or name.endswith("_bytes"):
        return "within noise"
    time = step if name == "busy_share" else metric
    change = time.change or 0.0
    little = MACHINE_SHARE * max(time.a or 0, time.b or 0)
    if abs(change) <= little or abs(time.machine) < little:
        return "within noise"
    return "the machine" if abs(change - time.machine) < abs(change) / 2 else "within noise"


@dataclass(frozen=True, slots=True)
class Number:
    """A row of the numbers: a metric, or the idle time of a cause."""

    name: str
    """A key of `metrics`, or "idle CAUSE"; ends in "_ns" if it is a time."""
    title: str
    metric: Metric
    noise: str = ""
    """What its difference is, where it is no effect: "same", "the machine", "within noise"."""
    idle: bool = False


def numbers(comparison: Comparison) -> list[Number]:
    """The metrics that are not 0 in both, then idle time by cause."""
    words = WORDS if comparison.per_step else {**WORDS, "step_ns": WHOLE}
    metrics = comparison.metrics
    found = [
        Number(name, words[name], one, _noise(name, one, metrics["step_ns"]))
        for name in METRICS
        if (one := metrics.get(name)) is not None
    ]
    found = [one for one in found if one.metric.a or one.metric.b]
    idle = [
        Number(f"idle_{field(cause)}", f"idle: {cause}", one, _noise("idle", one, one), idle=True)
        for cause, one in comparison.idle.items()
    ]
    return found + idle


def number_columns(rows: Sequence[Number]) -> Columns:
    """The columns of these numbers, for text and Markdown."""

    def column(key: str, heading: str, text: Callable[[Number], str]) -> Column:
        return Column(key).with_text(heading, lambda r: text(rows[r]))

    def spread(key: str) -> Column:
        """The least and the most of a step."""

        def cell(r: int) -> Span:
            return spread_text(rows[r].name, getattr(rows[r].metric, key)), "dim"

        return Column(key).with_text(f"steps of {key[-1].upper()}", cell)

    return by_key(
        Column("name", right=False).with_text("", lambda r: rows[r].title, markdown_heading="Number"),
        column("a", "A", lambda row: value_text(row.name, row.metric.a)),
        column("b", "B", lambda row: value_text(row.name, row.metric.b)),
        column("change", "difference", lambda row: change_text(row.name, row.metric.change)),
        column("ratio", "B/A", lambda row: ratio_text(row.metric.ratio)),
        Column("noise", right=False).with_text("", lambda r: (rows[r].noise, "dim")),
        spread("spread_a"),
        spread("spread_b"),
    )
