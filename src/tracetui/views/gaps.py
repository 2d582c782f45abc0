"""The table of gaps: when a device ran nothing, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.cells import cell_len

from tracetui.analysis.idle.activity import MOST, activity_text, activity_texts, small_ops_of
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.names.kernel_names import decode
from tracetui.analysis.names.short_names import short_names, short_of
from tracetui.analysis.part import Part
from tracetui.analysis.select import has_kind
from tracetui.analysis.steps.scope import step_table_of
from tracetui.core.cells import fit
from tracetui.core.units import duration, instant, share_of
from tracetui.trace import DEVICE_WORK
from tracetui.trace.model import I64, Trace
from tracetui.views import markdown
from tracetui.views.lines import Line
from tracetui.views.model import Column, Columns, Table, by_key, each, select_columns
from tracetui.views.times import time_column
from tracetui.views.writers import aligned, cells, records

SCREEN = "device duration cause share start activity op until"
TEXT = "start duration cause step until activity"
JSON = "start duration cause pieces waited since until launch op step activity"
FILE = "device start duration share since until cause by_cause waited launch op step activity"
"""Files have a field for the time of each cause."""
WIDEST = max(map(len, CAUSES))


def gap_columns(part: Part, causes: bool = True) -> Columns:
    """The columns; without `causes`, only those that do not need them."""
    return by_key(*_gap_columns(part), *(_cause_columns(part) if causes else ()))


def _gap_columns(part: Part) -> list[Column]:
    trace, gaps = part.trace, gaps_of(part)
    idle = {d.device: d.idle for d in gaps.devices}

    def decoded(row: int) -> str:
        return decode(trace.name_of(int(gaps.after[row]))).short

    def of_idle(row: int) -> str:
        return share_of(int(gaps.duration[row]), idle[int(gaps.device[row])])

    def piece(row: int) -> float | None:
        whole = idle[int(gaps.device[row])]
        return int(gaps.duration[row]) / whole if whole else None

    return [
        Column("device", "GPU", lambda r: str(int(gaps.device[r])), lambda: gaps.device, 5).with_fields(
            device=_numbers(gaps.device)
        ),
        time_column("duration", "Gap", gaps.duration)
        .with_text("length", lambda r: duration(int(gaps.duration[r])))
        .with_fields(duration_ns=_numbers(gaps.duration)),
        Column("share", "of idle", of_idle, lambda: gaps.duration, 8, drop=3).with_fields(
            share_of_idle=each(piece)
        ),
        time_column("start", "Start", gaps.start, 2, zero="0", descending=False)
        .with_text("at", lambda r: instant(int(gaps.start[r])))
        .with_fields(start_ns=_numbers(gaps.start)),
        Column("since").with_fields(after=_names(trace, gaps.before)),
        _name_column("until", "Ended by", trace, gaps.after)
        .with_text("until", decoded, lambda r: markdown.code(decoded(r)))
        .with_fields(before=_names(trace, gaps.after)),
    ]


def _cause_columns(part: Part) -> list[Column]:
    trace, number = part.trace, step_table_of(part).number.tolist()
    causes, small = causes_of(part), small_ops_of(part)
    places = np.arange(len(causes.cause))
    activity = partial(activity_text, trace, causes, small)
    beside = (causes.activity < 0) & ~small.calls

    def cause(row: int) -> str:
        return CAUSES[causes.cause[row]]

    def words(at: I64) -> list[str]:
        return _chosen(CAUSES, causes.cause[at])

    def pieces(at: I64) -> list[list[dict[str, Any]]]:
        found: list[list[dict[str, Any]]] = [[] for _ in range(len(at))]
        rows = causes.pieces[at]
        where, which = np.nonzero(rows)
        order = np.lexsort((-rows[where, which], where))
        where, which = where[order], which[order]
        for gap, i, time in zip(where.tolist(), which.tolist(), rows[where, which].tolist(), strict=True):
            found[gap].append({"cause": CAUSES[i], "duration_ns": time})
        return found

    def step(row: int, none: str) -> str:
        at = int(causes.step[row])
        return str(number[at]) if at >= 0 else none

    return [
        Column("cause", "Cause", cause, lambda: words(places), WIDEST, right=False, descending=False)
        .with_text("cause", lambda r: (cause(r), "accent"))
        .with_fields(cause=words),
        Column("pieces").with_fields(pieces=pieces),
        Column("by_cause").with_fields(
            **{field(cause): _numbers(causes.pieces[:, i]) for i, cause in enumerate(CAUSES)}
        ),
        Column("waited").with_fields(waited_for=_names(trace, causes.waited_for)),
        Column("launch").with_fields(launch=_names(trace, causes.launch)),
        _name_column("op", "Op around the launch", trace, causes.op, 26, 5).with_fields(
            op=_names(trace, causes.op)
        ),
        Column("step")
        .with_text("step", lambda r: step(r, "-"), lambda r: step(r, ""))
        .with_fields(step=lambda at: [number[i] if i >= 0 else None for i in causes.step[at].tolist()]),
        Column(
            "activity",
            "Meanwhile on the CPU",
            activity,
            lambda: activity_texts(trace, causes, small),
            26,
            right=False,
            drop=4,
            descending=False,
        )
        .with_text("the CPU was in", activity, lambda r: markdown.code(activity(r)))
        .with_fields(
            cpu=_names(trace, causes.activity),
            cpu_ops=_numbers(np.where(beside, small.count, 0)),
            cpu_most=lambda at: _chosen((*trace.names, None), np.where(beside[at], small.name[at], -1)),
        ),
    ]


def _name_column(key: str, title: str, trace: Trace, events: I64, width: int = 0, drop: int = 0) -> Column:
    """The short names of slices; "-" for -1."""

    def text(row: int) -> str:
        return short_of(trace, int(events[row])) if events[row] >= 0 else "-"

    return Column(
        key,
        title,
        text,
        lambda: short_names(trace, events),
        width,
        right=False,
        drop=drop,
        descending=False,
        ends=True,
    )


def field(cause: str) -> str:
    """What a file calls the time of a cause."""
    return f"{cause.replace(' ', '_')}_ns"


def _numbers(values: I64) -> Callable[[I64], list[int]]:
    return lambda at: values[at].tolist()


def _names(trace: Trace, events: I64) -> Callable[[I64], list[str | None]]:
    """The full names of slices; None for -1."""
    names = (*trace.names, None)
    return lambda at: _chosen(names, np.where(events[at] >= 0, trace.name[events[at]], -1))


def _chosen(texts: Sequence[Any], at: npt.NDArray[Any]) -> list[Any]:
    """The texts at these indices, by numpy: a trace may have a million gaps."""
    found: list[Any] = np.array(texts, dtype=object)[at].tolist()
    return found


def gaps_table(part: Part, causes: bool = True) -> Table:
    """The gaps on the screen; without `causes` until those are known."""
    trace, gaps = part.trace, gaps_of(part)
    columns = gap_columns(part, causes)

    def searched(row: int) -> str:
        event = int(gaps.after[row])
        cause = columns["cause"].text(row) if causes else ""
        return f"{cause} {trace.name_of(event)} {short_of(trace, event)}"

    def same_text() -> I64:
        name = trace.name[gaps.after].astype(np.int64)
        return name * len(CAUSES) + causes_of(part).cause if causes else name

    return Table(
        select_columns(columns, SCREEN, () if len(gaps.devices) > 1 else ("device",)),
        len(gaps),
        searched,
        empty=no_gaps(part),
        same_text=same_text,
        records=lambda order: records(select_columns(columns, FILE), order),
    )


def no_gaps(part: Part) -> str:
    """Why there is no gap."""
    if not has_kind(part.trace, *DEVICE_WORK):
        return "no gaps: the trace has no GPU events"
    return "no gaps: the GPU ran nothing here, never paused, or it is not known"


def gaps_text(columns: Columns, rows: Sequence[int], width: int) -> list[Line]:
    """Gaps as lines of at most `width` cells. The last two columns share the remaining width: half each, or
    what the other does not need."""
    shown = select_columns(columns, TEXT)
    body = cells(shown, rows)
    headings = [(column.heading, "") for column in shown]
    sizes = [max(cell_len(row[i][0]) for row in (headings, *body)) for i in range(len(shown))]
    room = width - sum(sizes[:-2]) - len(shown) * len("  ")
    last = max(12, min(sizes[-1], room // 2))
    name = max(12, min(sizes[-2], room - last))
    last = max(last, room - name)
    cut = [[*row[:-2], (fit(row[-2][0], name), ""), (_fit_activity(row[-1][0], last), "")] for row in body]
    return aligned(shown, cut)


def _fit_activity(text: str, width: int) -> str:
    count, several, name = text.partition(MOST)
    if not several or cell_len(text) <= width:
        return fit(text, width)
    return f"{count}: {fit(name, width - len(count) - 2)}"
