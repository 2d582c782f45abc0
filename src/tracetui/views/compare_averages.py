"""The averages of both sides of a comparison, row by row: the mean of a step, else of whole recordings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from tracetui.analysis.calls.averages import averages_of
from tracetui.analysis.calls.calls import calls_of
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.names.kernel_names import short_name
from tracetui.analysis.names.short_names import told_apart
from tracetui.compare.model import Comparison
from tracetui.compare.sides import Side
from tracetui.core.units import column_unit, in_unit, ratio_text, signed
from tracetui.trace.model import F64, I64, Bool
from tracetui.views import markdown
from tracetui.views.averages import part_rows
from tracetui.views.compare import count_text
from tracetui.views.jsonable import share as finite
from tracetui.views.model import Column, Columns, Table, by_key, each, select_columns
from tracetui.views.writers import Record, records

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
    averages, calls = averages_of(side.part), calls_of(side.part)
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
        .with_text("name", lambda r: short()[r], lambda r: markdown.code(joined.names[r]))
        .with_fields(name=each(joined.names.__getitem__)),
        Column("device", "On", on, lambda: joined.device, 3, right=False, drop=3)
        .with_text("on", on)
        .with_fields(
            device=each(lambda r: "CUDA" if joined.device[r] else "CPU"),
            user_annotation=lambda at: joined.annotation[at].tolist(),
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
        return in_unit(value, unit) if unit else count_text(value)

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
            .with_text(heading, text)
            .with_fields(
                **{f"{measure}_{form}{us}": lambda at: [finite(v / size) for v in values[at].tolist()]}
            )
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
    color: Callable[[str], str | None] | None = None,
) -> Table:
    """A part of both averages on the screen: "all", "ops", "kernels" or "annotations". Unsorted, the largest
    difference is first. `joined`: `joined_averages(comparison)`, if already at hand; `color`: of a name."""
    both = joined_averages(comparison) if joined is None else joined
    rows = both.parts[part]
    columns = average_columns(both, comparison, rows)
    order = DEVICE_FIRST if both.any_device else CPU_FIRST
    keys = " ".join(f"{measure}_{form}" for measure in order.split() for form in FORMS.split())
    without = [key for key in keys.split() if not _anything(both, key.rpartition("_")[0], rows)]
    return Table(
        select_columns(columns, f"name device {keys}", without),
        len(both),
        lambda r: f"{columns['name'].text(r)} {both.names[r]}",
        (lambda r: color(both.names[r])) if color is not None else None,
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
    return records(
        select_columns(columns, f"name device {keys}"), joined.parts["all"] if rows is None else rows
    )
