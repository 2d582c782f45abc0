"""The tables of a comparison: the numbers of a step, and what explains their difference.

Times and counts are per step where steps were compared, else of whole recordings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetui.compare.metrics import MACHINE_SHARE
from tracetui.compare.model import METRICS, Comparison, Explanation, Metric
from tracetui.compare.sides import paced_by_device
from tracetui.tables.gaps import field
from tracetui.tables.jsonable import share as finite
from tracetui.tables.lines import Span
from tracetui.tables.model import Column, Columns, Table, by_key, pick
from tracetui.tables.writers import records
from tracetui.trace.model import I64
from tracetui.units import capital, duration, percent, significant, size

WORDS = {
    "step_ns": "step time",
    "device_ns": "GPU work",
    "busy_share": "GPU busy",
    "compute_ns": "compute",
    "communication_ns": "exposed communication",
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


def ratio_text(ratio: float | None) -> str:
    """b over a for a column: `1.34`, `0.077`, `12.5`; `-` where it is not known."""
    if ratio is None or not math.isfinite(ratio):
        return "-"
    if ratio >= 0.1:
        return significant(ratio)
    return "0" if not ratio else f"{ratio:.3f}" if ratio >= 0.0005 else "<0.001"


def signed(value: float, text: Callable[[float], str]) -> str:
    """A difference with its sign; `-` for none."""
    return f"{'+' if value > 0 else '-'}{text(abs(value))}" if value else "-"


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


def _noise(metric: Metric, time: Metric) -> str:
    """What a difference is, where it is no effect: the machine's speed, or no more than steps vary. `time`:
    what says so; of a metric that is no time, that of a step."""
    if not metric.change:
        return "same" if metric.change == 0 else ""
    if not metric.within_noise:
        return ""
    change = time.change or 0.0
    if abs(change) <= MACHINE_SHARE * max(time.a or 0, time.b or 0):
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
        Number(name, words[name], one, _noise(one, one if name.endswith("_ns") else metrics["step_ns"]))
        for name in METRICS
        if (one := metrics.get(name)) is not None
    ]
    found = [one for one in found if one.metric.a or one.metric.b]
    idle = [
        Number(f"idle_{field(cause)}", f"idle: {cause}", one, _noise(one, one), idle=True)
        for cause, one in comparison.idle.items()
    ]
    return found + idle


SCREEN = "name a b change ratio noise spread_a spread_b"


def metrics_table(comparison: Comparison) -> Table:
    """A, B, difference and ratio of each number, the idle time by cause last."""
    rows = numbers(comparison)
    return Table(
        pick(number_columns(rows), SCREEN),
        len(rows),
        lambda r: rows[r].title,
        dim=lambda r: rows[r].idle or bool(rows[r].noise),
        empty="no numbers: no events that PyTorch records",
        records=lambda order: records(pick(number_columns(rows), SCREEN), order),
    )


def number_columns(rows: Sequence[Number]) -> Columns:
    """The columns of these numbers. Sorted by value, times come with times: all others are below them."""

    def each(value: Callable[[Number], Any]) -> Callable[[I64], list[Any]]:
        return lambda at: [value(rows[i]) for i in at.tolist()]

    def column(key: str, title: str, text: Callable[[Number], str], drop: int = 0) -> Column:
        def of(row: Number) -> float:
            found = getattr(row.metric, key)
            return math.nan if found is None else float(found)

        texts = [text(row) for row in rows]
        width = max([len(title), *map(len, texts)])
        return (
            Column(key, title, texts.__getitem__, lambda: np.array([of(r) for r in rows]), width, drop=drop)
            .said(title.lower() if len(title) > 3 else title, texts.__getitem__)
            .filed(**{key: each(lambda row: finite(getattr(row.metric, key)))})
        )

    def spread(key: str) -> Column:
        """The least and the most of a step."""
        title = f"steps of {key[-1].upper()}"
        ends = [getattr(row.metric, key) for row in rows]
        texts = [spread_text(row.name, end) for row, end in zip(rows, ends, strict=True)]
        width = max([len(title), *map(len, texts)])
        files = {
            f"{key}_{which}": each_of([end[i] if end else None for end in ends])
            for i, which in enumerate(("min", "max"))
        }
        return (
            Column(key, capital(title), texts.__getitem__, width=width, drop=3)
            .said(title, lambda r: (texts[r], "dim"))
            .filed(**files)
        )

    def titles() -> list[str]:
        return [row.title for row in rows]

    def noise(row: int) -> Span:
        return rows[row].noise, "dim"

    return by_key(
        Column("name", "Number", lambda r: rows[r].title, titles, right=False, descending=False)
        .said("", lambda r: rows[r].title, markdown_heading="Number")
        .filed(name=each(lambda row: row.name)),
        column("a", "A", lambda row: value_text(row.name, row.metric.a)),
        column("b", "B", lambda row: value_text(row.name, row.metric.b)),
        column("change", "Difference", lambda row: change_text(row.name, row.metric.change)),
        column("ratio", "B/A", lambda row: ratio_text(row.metric.ratio), 2),
        Column("noise", "", lambda r: noise(r)[0], width=12, right=False, drop=1)
        .said("", noise)
        .filed(within_noise=each(lambda row: row.metric.within_noise)),
        spread("spread_a"),
        spread("spread_b"),
    )  # fmt: skip


def each_of(values: Sequence[Any]) -> Callable[[I64], list[Any]]:
    """What a file's column takes: the values of some rows."""
    return lambda at: [values[i] for i in at.tolist()]


# What explains the difference


def explanations_table(
    comparison: Comparison, color: Callable[[Explanation], str | None] | None = None
) -> Table:
    """A row per explanation, in their order, the largest first. `color`: of a row's chip."""
    told = comparison.explanations
    columns = explanation_columns(told)
    return Table(
        pick(columns, "text on change cpu_change kind"),
        len(told),
        lambda r: " ".join([told[r].kind, told[r].text, *told[r].names_a, *told[r].names_b]),
        (lambda r: color(told[r])) if color is not None else None,
        empty=comparison.answer,
        records=lambda order: records(pick(columns, "kind text on change cpu_change names events"), order),
    )


def explanation_columns(told: Sequence[Explanation]) -> Columns:
    """The columns of these explanations. The change is on the GPU or the CPU, as `on` says."""

    def time(key: str, title: str, values: I64, drop: int) -> Column:
        texts = [signed(float(v), duration) for v in values.tolist()]
        width = max([len(title), *map(len, texts)])
        return (
            Column(key, title, texts.__getitem__, lambda: values, width, drop=drop)
            .said(title.lower(), texts.__getitem__)
            .filed(**{f"{key}_ns": each_of(values.tolist())})
        )

    def on(row: int) -> str:
        return "GPU" if told[row].on == "device" else "CPU"

    def kind(row: int) -> str:
        return told[row].kind

    def called(key: str) -> list[list[str]]:
        return [list(getattr(one, key)) for one in told]

    changes = np.array([one.change_ns for one in told], dtype=np.int64)
    beside = np.array([one.cpu_change_ns for one in told], dtype=np.int64)
    return by_key(
        Column("text", "What explains the difference", lambda r: told[r].text, right=False, clauses=True)
        .said("what", lambda r: told[r].text)
        .filed(text=each_of([one.text for one in told])),
        Column("on", "On", on, lambda: [one.on for one in told], 3, right=False, drop=2)
        .said("on", on)
        .filed(on=each_of([one.on for one in told])),
        time("change", "Change", changes, 0),
        time("cpu_change", "also on CPU", beside, 3),
        Column("kind", "Kind", kind, lambda: [one.kind for one in told], 8, right=False, drop=4)
        .said("kind", kind)
        .filed(kind=each_of([one.kind for one in told])),
        Column("names").filed(names_a=each_of(called("names_a")), names_b=each_of(called("names_b"))),
        Column("events").filed(
            events_a=each_of([len(one.events_a) for one in told]),
            events_b=each_of([len(one.events_b) for one in told]),
        ),
    )  # fmt: skip
