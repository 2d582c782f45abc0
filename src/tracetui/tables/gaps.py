"""The table of gaps: the stretches in which a device ran nothing, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from rich.cells import cell_len

from tracetui.analysis.activity import MOST, activity_text, activity_texts
from tracetui.analysis.causes import CAUSES
from tracetui.analysis.kernel_names import decode
from tracetui.analysis.results import Results
from tracetui.cells import fit
from tracetui.tables import markdown
from tracetui.tables.lines import Line
from tracetui.tables.model import Column, Columns, Table, by_key, pick
from tracetui.tables.names import short_names, short_of
from tracetui.tables.times import time_column
from tracetui.tables.writers import aligned, cells, records
from tracetui.trace.model import I64, Trace
from tracetui.units import duration, instant, share_of

SCREEN = ("device", "duration", "cause", "share", "start", "activity", "op", "until")
TEXT = ("start", "duration", "cause", "step", "until", "activity")
JSON = ("start", "duration", "cause", "since", "until", "launch", "op", "step", "activity")
FILE = ("device", "start", "duration", "share", "since", "until", "cause", "launch", "op", "step", "activity")


def gap_columns(results: Results, causes: bool = True) -> Columns:
    """The columns; without `causes` those that need none."""
    return by_key(*_gap_columns(results), *(_cause_columns(results) if causes else ()))


def _gap_columns(results: Results) -> list[Column]:
    trace, gaps = results.trace, results.gaps()
    idle = {d.device: d.idle for d in gaps.devices}

    def decoded(row: int) -> str:
        return decode(trace.name_of(int(gaps.after[row]))).short

    def part(row: int) -> float | None:
        whole = idle[int(gaps.device[row])]
        return int(gaps.duration[row]) / whole if whole else None

    return [
        Column(
            "device",
            "GPU",
            lambda r: str(int(gaps.device[r])),
            lambda: gaps.device,
            5,
            fields={"device": lambda at: gaps.device[at].tolist()},
        ),
        time_column(
            "duration",
            "Gap",
            gaps.duration,
            heading="length",
            cell=lambda r: duration(int(gaps.duration[r])),
            fields={"duration_ns": lambda at: gaps.duration[at].tolist()},
        ),
        Column(
            "share",
            "of idle",
            lambda r: share_of(int(gaps.duration[r]), idle[int(gaps.device[r])]),
            lambda: gaps.duration,
            8,
            drop=3,
            fields={"share_of_idle": lambda at: [part(row) for row in at.tolist()]},
        ),
        time_column(
            "start",
            "Start",
            gaps.start,
            drop=2,
            zero="0",
            descending=False,
            heading="at",
            cell=lambda r: instant(int(gaps.start[r])),
            fields={"start_ns": lambda at: gaps.start[at].tolist()},
        ),
        Column("since", fields={"after": _named(trace, gaps.before)}),
        Column(
            "until",
            "Ended by",
            _short(trace, gaps.after),
            lambda: short_names(trace, gaps.after),
            right=False,
            descending=False,
            ends=True,
            heading="until",
            cell=decoded,
            markdown=lambda r: markdown.code(decoded(r)),
            fields={"before": _named(trace, gaps.after)},
        ),
    ]


def _cause_columns(results: Results) -> list[Column]:
    trace, number = results.trace, results.step_table().number.tolist()
    causes, small = results.causes(), results.small_ops()
    activity = partial(activity_text, trace, causes, small)

    def step(row: int, none: str) -> str:
        at = int(causes.step[row])
        return str(number[at]) if at >= 0 else none

    def most(at: I64) -> list[str | None]:
        return [trace.names[i] if i >= 0 else None for i in small.name[at].tolist()]

    return [
        Column(
            "cause",
            "Cause",
            lambda r: CAUSES[causes.cause[r]],
            lambda: [CAUSES[c] for c in causes.cause.tolist()],
            10,
            right=False,
            descending=False,
            heading="cause",
            cell=lambda r: (CAUSES[causes.cause[r]], "accent"),
            fields={"cause": lambda at: [CAUSES[c] for c in causes.cause[at].tolist()]},
        ),
        Column("launch", fields={"launch": _named(trace, causes.launch)}),
        Column(
            "op",
            "Op around the launch",
            _short(trace, causes.op),
            lambda: short_names(trace, causes.op),
            26,
            right=False,
            drop=5,
            descending=False,
            ends=True,
            fields={"op": _named(trace, causes.op)},
        ),
        Column(
            "step",
            heading="step",
            cell=lambda r: step(r, "-"),
            markdown=lambda r: step(r, ""),
            fields={"step": lambda at: [number[i] if i >= 0 else None for i in causes.step[at].tolist()]},
        ),
        Column(
            "activity",
            "Meanwhile on the CPU",
            activity,
            lambda: activity_texts(trace, causes, small),
            26,
            right=False,
            drop=4,
            descending=False,
            heading="the CPU was in",
            cell=activity,
            markdown=lambda r: markdown.code(activity(r)),
            fields={
                "cpu": _named(trace, causes.activity),
                "cpu_ops": lambda at: small.count[at].tolist(),
                "cpu_most": most,
            },
        ),
    ]


def _short(trace: Trace, events: I64) -> Callable[[int], str]:
    """The short name of each slice; "-" for -1."""
    return lambda row: short_of(trace, int(events[row])) if events[row] >= 0 else "-"


def _named(trace: Trace, events: I64) -> Callable[[I64], list[str | None]]:
    """The full names of chosen slices; None for -1."""
    names = (*trace.names, None)

    def chosen(at: I64) -> list[str | None]:
        index = np.where(events[at] >= 0, trace.name[events[at]], -1)
        return [names[i] for i in index.tolist()]

    return chosen


def gaps_table(results: Results, causes: bool = True) -> Table:
    """The gaps on the screen; without `causes` as long as they are not known yet."""
    trace, gaps = results.trace, results.gaps()
    columns = gap_columns(results, causes)

    def searched(row: int) -> str:
        event = int(gaps.after[row])
        cause = columns["cause"].text(row) if causes else ""
        return f"{cause} {trace.name_of(event)} {short_of(trace, event)}"

    def same_text() -> I64:
        name = trace.name[gaps.after].astype(np.int64)
        return name * len(CAUSES) + results.causes().cause if causes else name

    return Table(
        pick(columns, SCREEN if len(gaps.devices) > 1 else SCREEN[1:]),
        len(gaps),
        searched,
        empty="no gaps: no device ran anything here, or it never paused",
        same_text=same_text,
        records=lambda order: records(pick(columns, FILE), order),
    )


def gaps_text(columns: Columns, rows: Sequence[int], width: int) -> list[Line]:
    """Gaps as lines of at most `width` cells. The last two columns are cut to what the others leave: each to
    half, or to what the other spares."""
    shown = pick(columns, TEXT)
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
