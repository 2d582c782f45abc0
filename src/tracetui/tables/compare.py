"""The tables of a comparison: the numbers of a step, what explains their difference, the averages of both.

Times and counts are per step where steps were compared, else of whole recordings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tracetui.analysis.kernel_names import short_name
from tracetui.analysis.nesting import sum_into
from tracetui.compare.metrics import MACHINE_SHARE
from tracetui.compare.model import METRICS, Comparison, Explanation, Metric
from tracetui.compare.sides import Side, paced_by_device
from tracetui.tables import markdown
from tracetui.tables.averages import part_rows
from tracetui.tables.gaps import field
from tracetui.tables.jsonable import share as finite
from tracetui.tables.lines import Span
from tracetui.tables.model import Column, Columns, Table, by_key, pick
from tracetui.tables.names import told_apart
from tracetui.tables.writers import Record, records
from tracetui.trace.model import F64, I64, Bool
from tracetui.units import capital, column_unit, duration, in_unit, percent, significant, size

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
    """What an explanation changes, (ns per step, "GPU" or "CPU"): on the GPU where that sets the pace, else
    the larger."""
    paced = all(map(paced_by_device, (comparison.a, comparison.b)))
    if one.on == "device" and (paced or abs(one.cpu_change_ns) <= abs(one.change_ns)):
        return one.change_ns, "GPU"
    return one.change_ns if one.on == "cpu" else one.cpu_change_ns, "CPU"


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


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) or value >= 1000 else f"{value:,.3g}"


def value_text(name: str, value: float | None) -> str:
    """A metric's value: a time, a share or a count; `-` where it is not known."""
    if value is None:
        return "-"
    if name == "busy_share":
        return percent(value, 1)
    if name.endswith("_bytes"):
        return size(value)
    return duration(value) if name.endswith("_ns") else _count(value)


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
            f"{key}_{which}": _each([end[i] if end else None for end in ends])
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


def _each(values: Sequence[Any]) -> Callable[[I64], list[Any]]:
    return lambda at: [values[i] for i in at.tolist()]


# What explains the difference


def explanations_table(
    comparison: Comparison, colour: Callable[[Explanation], str | None] | None = None
) -> Table:
    """A row per explanation, in their order, the largest first. `colour`: of a row's chip."""
    told = comparison.explanations
    columns = explanation_columns(told)
    return Table(
        pick(columns, "text on change cpu_change kind"),
        len(told),
        lambda r: " ".join([told[r].kind, told[r].text, *told[r].names_a, *told[r].names_b]),
        (lambda r: colour(told[r])) if colour is not None else None,
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
            .filed(**{f"{key}_ns": _each(values.tolist())})
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
        .filed(text=_each([one.text for one in told])),
        Column("on", "On", on, lambda: [one.on for one in told], 3, right=False, drop=2)
        .said("on", on)
        .filed(on=_each([one.on for one in told])),
        time("change", "Change", changes, 0),
        time("cpu_change", "also on CPU", beside, 3),
        Column("kind", "Kind", kind, lambda: [one.kind for one in told], 8, right=False, drop=4)
        .said("kind", kind)
        .filed(kind=_each([one.kind for one in told])),
        Column("names").filed(names_a=_each(called("names_a")), names_b=_each(called("names_b"))),
        Column("events").filed(
            events_a=_each([len(one.events_a) for one in told]),
            events_b=_each([len(one.events_b) for one in told]),
        ),
    )  # fmt: skip


# The averages of both


MEASURES = ("calls", "self_cpu", "cpu_total", "self_device", "device_total")


@dataclass(frozen=True, slots=True, eq=False)
class JoinedAverages:
    """The averages of both sides, joined by (name, device, annotation): arrays with an entry per row.

    What begins within the compared steps counts, device work where its launch is: the mean per step of either
    side, or the sum of a recording without steps. Rows go from the largest to the least difference, up or
    down, of self time on the device; where that is equal, or no device was recorded, on the CPU.
    """

    names: tuple[str, ...]
    device: Bool
    annotation: Bool
    a: dict[str, F64]
    """Per measure of `MEASURES`: calls, or ns."""
    b: dict[str, F64]
    first_a: I64
    """The slice of the row's first event in the steps, -1 if it has none."""
    first_b: I64
    parts: dict[str, I64]
    """The rows of each part, "all", "ops", "kernels" and "annotations", as `tables.averages.part_rows`."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def any_device(self) -> bool:
        return bool(self.device.any())

    def change(self, measure: str) -> F64:
        """b - a."""
        return self.b[measure] - self.a[measure]

    def ratio(self, measure: str) -> F64:
        """b / a; NaN where a is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.a[measure] > 0, self.b[measure] / self.a[measure], np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """The rows of one side's averages that occur in its steps."""

    keys: list[tuple[str, bool, bool]]
    values: dict[str, F64]
    first: I64
    part: list[str]


def _sums(side: Side) -> _Sums:
    averages, calls = side.results.averages(), side.results.calls()
    slices = np.concatenate([calls.cpu, calls.device])
    row = averages.row_of[slices].astype(np.int64)
    inside = (row >= 0) & (side.round_of(slices) >= 0)
    row, size = row[inside], len(averages)
    zeros = np.zeros(len(calls.device), dtype=np.int64)
    of = {
        "calls": np.ones(len(slices), dtype=np.int64),
        "self_cpu": np.concatenate([calls.self_cpu, zeros]),
        "cpu_total": np.concatenate([side.trace.duration[calls.cpu], zeros]),
        "self_device": np.concatenate([calls.self_device, calls.device_duration]),
        "device_total": np.concatenate([calls.device_total, calls.device_duration]),
    }
    sums = {measure: sum_into(row, values[inside], size) for measure, values in of.items()}
    first = np.full(size, len(side.trace), dtype=np.int64)
    at = slices[inside]
    order = np.lexsort((at, side.trace.start[at]))[::-1]
    first[row[order]] = at[order]  # the last one written is the earliest
    part = np.full(size, "ops", dtype=object)
    for name in ("annotations", "kernels"):
        part[part_rows(side.trace, averages, name)] = name
    kept = np.flatnonzero(sums["calls"])
    return _Sums(
        [(averages.names[i], bool(averages.device[i]), bool(averages.annotation[i])) for i in kept.tolist()],
        {measure: values[kept] / side.rounds for measure, values in sums.items()},
        first[kept],
        part[kept].tolist(),
    )


def joined_averages(comparison: Comparison) -> JoinedAverages:
    """The averages of both sides, row by row."""
    sides = [_sums(side) for side in comparison.counted]
    keys = {key: row for row, key in enumerate(dict.fromkeys(sides[0].keys + sides[1].keys))}
    columns: list[dict[str, F64]] = []
    firsts: list[I64] = []
    part = np.full(len(keys), "ops", dtype=object)
    for one in sides:
        at = np.array([keys[key] for key in one.keys], dtype=np.int64)
        columns.append({})
        for measure in MEASURES:
            columns[-1][measure] = np.zeros(len(keys))
            columns[-1][measure][at] = one.values[measure]
        firsts.append(np.full(len(keys), -1, dtype=np.int64))
        firsts[-1][at] = one.first
        part[at] = one.part
    away = {measure: np.abs(columns[1][measure] - columns[0][measure]) for measure in MEASURES}
    # An annotation on the device spans others: it would stand before what is in it.
    spans = np.array([device and annotation for _, device, annotation in keys], dtype=np.bool_)
    order = np.lexsort((-away["self_cpu"], -np.where(spans, 0, away["self_device"])))
    every = list(keys)
    listed = [every[i] for i in order.tolist()]
    part = part[order]
    a, b = ({measure: values[order] for measure, values in one.items()} for one in columns)
    parts = {name: np.flatnonzero(part == name) for name in ("ops", "kernels", "annotations")}
    return JoinedAverages(
        tuple(name for name, _, _ in listed),
        np.array([device for _, device, _ in listed], dtype=np.bool_),
        np.array([annotation for _, _, annotation in listed], dtype=np.bool_),
        a, b, firsts[0][order], firsts[1][order],
        {"all": np.arange(len(listed)), **parts},
    )  # fmt: skip


TITLES = {
    "calls": "Calls",
    "self_cpu": "CPU",
    "cpu_total": "CPU total",
    "self_device": "GPU",
    "device_total": "GPU total",
}
"""Self time where nothing is said: it adds up, and tells where the difference is."""
DEVICE_FIRST = "self_device self_cpu calls device_total cpu_total"
CPU_FIRST = "self_cpu calls cpu_total self_device device_total"
FORMS = "a b change ratio"


def average_columns(joined: JoinedAverages, comparison: Comparison, rows: I64 | None = None) -> Columns:
    """The columns. `rows`: those that are shown (None: all)."""
    shown = joined.parts["all"] if rows is None else rows

    @cache
    def short() -> list[str]:
        return _short_names(joined, comparison)

    def on(row: int) -> str:
        return "GPU" if joined.device[row] else "CPU"

    found = [
        Column("name", "Name", lambda r: short()[r], short, right=False, descending=False, ends=True)
        .said("name", lambda r: short()[r], lambda r: markdown.code(joined.names[r]))
        .filed(name=_each(joined.names)),
        Column("device", "On", on, lambda: joined.device, 3, right=False, drop=3)
        .said("on", on)
        .filed(
            device=_each(["CUDA" if one else "CPU" for one in joined.device.tolist()]),
            user_annotation=_each(joined.annotation.tolist()),
        ),
    ]
    first = DEVICE_FIRST if joined.any_device else CPU_FIRST
    for place, measure in enumerate(first.split()):
        found += _measure_columns(joined, measure, shown, 4 * place)
    return by_key(*found)


def _measure_columns(joined: JoinedAverages, measure: str, shown: I64, drop: int) -> list[Column]:
    """A, B, difference and ratio of one measure; times in one unit. `drop`: of the difference; B/A goes
    before A and B."""
    a, b = joined.a[measure], joined.b[measure]
    change, ratio = joined.change(measure), joined.ratio(measure)
    in_a, in_b = joined.a["calls"], joined.b["calls"]
    longest = max(float(values[shown].max(initial=0.0)) for values in (a, b))
    unit = "" if measure == "calls" else column_unit(longest)
    title, after = TITLES[measure], f" {unit}" if unit else ""

    def number(value: float) -> str:
        return in_unit(value, unit) if unit else _count(value)

    def cell(values: F64) -> Callable[[int], str]:
        return lambda r: number(float(values[r])) if values[r] else "-"

    def ratio_cell(row: int) -> str:
        if not in_a[row] or not in_b[row]:
            return ("new" if in_b[row] else "gone") if a[row] or b[row] else "-"
        return ratio_text(float(ratio[row]))

    def longest_text(values: F64, text: Callable[[int], str]) -> int:
        return len(text(int(shown[np.abs(values[shown]).argmax()]))) if len(shown) else 0

    three = ((a, cell(a)), (b, cell(b)), (change, lambda r: signed(float(change[r]), number)))
    # Of one width: in a narrow table the difference is to come back before A and B do.
    width = max(len(f"{title} diff{after}"), *(longest_text(*one) for one in three))

    def column(form: str, heading: str, values: F64, text: Callable[[int], str], more: int) -> Column:
        size, us = (1000.0, "_us") if unit and form != "ratio" else (1.0, "")
        wide = 5 if form == "ratio" else width
        return (
            Column(f"{measure}_{form}", heading, text, lambda: values, wide, drop=drop + more)
            .said(heading, text)
            .filed(**{f"{measure}_{form}{us}": lambda at: [finite(v / size) for v in values[at].tolist()]})
        )

    return [
        column("a", f"{title} A{after}", *three[0], 2 if drop else 1),
        column("b", f"{title} B{after}", *three[1], 2 if drop else 1),
        column("change", f"{title} diff{after}", *three[2], 1 if drop else 0),
        column("ratio", "B/A", ratio, ratio_cell, 3 if drop else 2),
    ]


def _short_names(joined: JoinedAverages, comparison: Comparison) -> list[str]:
    shorts = []
    for row, name in enumerate(joined.names):
        side, first = (
            (comparison.a, joined.first_a) if joined.first_a[row] >= 0 else (comparison.b, joined.first_b)
        )
        trace, event = side.trace, int(first[row])
        shorts.append(short_name(name, trace.categories[int(trace.category[event])]))
    return told_apart(shorts, joined.names, joined.device.tolist())


def averages_table(
    comparison: Comparison,
    joined: JoinedAverages | None = None,
    part: str = "all",
    colour: Callable[[str], str | None] | None = None,
) -> Table:
    """A part of both averages on the screen: "all", "ops", "kernels" or "annotations". Unsorted, the largest
    difference is first. `joined`: `joined_averages(comparison)`, if already at hand; `colour`: of a name."""
    both = joined_averages(comparison) if joined is None else joined
    rows = both.parts[part]
    columns = average_columns(both, comparison, rows)
    order = DEVICE_FIRST if both.any_device else CPU_FIRST
    keys = " ".join(f"{measure}_{form}" for measure in order.split() for form in FORMS.split())
    without = [key for key in keys.split() if not _anything(both, key.rpartition("_")[0], rows)]
    return Table(
        pick(columns, f"name device {keys}", without),
        len(both),
        lambda r: f"{columns['name'].text(r)} {both.names[r]}",
        (lambda r: colour(both.names[r])) if colour is not None else None,
        empty=f"no {part} here",
        only=rows,
        records=lambda at: averages_records(both, comparison, at),
    )


def _anything(joined: JoinedAverages, measure: str, rows: I64) -> bool:
    return bool(joined.a[measure][rows].any() or joined.b[measure][rows].any())


def averages_records(joined: JoinedAverages, comparison: Comparison, rows: I64 | None = None) -> list[Record]:
    """One object per row, with A, B, difference and ratio of each measure; times in us."""
    columns = average_columns(joined, comparison)
    keys = " ".join(f"{measure}_{form}" for measure in MEASURES for form in FORMS.split())
    return records(pick(columns, f"name device {keys}"), joined.parts["all"] if rows is None else rows)
