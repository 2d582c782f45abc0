"""The steps pane: one row per ProfilerStep, what lies outside of them, and the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from tracetui.analysis.results import Results
from tracetui.analysis.scope import Scope
from tracetui.analysis.steps import StepRow, Steps
from tracetui.tables.model import Column, Table
from tracetui.tables.records import steps_records
from tracetui.tables.times import time_column
from tracetui.tui.panes.base import Jump, ShowSpan
from tracetui.tui.panes.scoped import ScopedPane, within
from tracetui.units import plural, share, share_of


def table_rows(steps: Steps) -> tuple[StepRow, ...]:
    """What each row of the table speaks of."""
    return (*steps.rows, *((steps.outside,) if steps.rows else ()), steps.whole)


def steps_table(steps: Steps) -> Table:
    """The steps as columns."""
    rows = table_rows(steps)

    def length(row: StepRow) -> int:
        return row.window[1] - row.window[0]

    def time(key: str, title: str, value: Callable[[StepRow], int], drop: int) -> Column:
        every = np.array([value(r) for r in rows], dtype=np.int64)
        return time_column(key, title, lambda r: int(every[r]), lambda: every, drop)

    def count(key: str, title: str, value: Callable[[StepRow], int], drop: int) -> Column:
        return Column(
            key,
            title,
            lambda r: f"{value(rows[r]):,}" if value(rows[r]) else "-",
            lambda: np.array([value(r) for r in rows]),
            max(9, len(title) + 2),
            True,
            drop,
        )

    def busy(r: int) -> str:
        row = rows[r]
        return share_of(row.busy, row.busy + row.idle)

    def idle_cause(r: int) -> str:
        row = rows[r]
        parts = [f"{t.cause} {share(t.duration / row.idle)}" for t in row.idle_by_cause if t.duration]
        return ", ".join(parts[:3]) or "-"

    # What there is none of gives way first.
    communicates = any(r.communication for r in rows)
    columns: tuple[Column, ...] = (
        Column(
            "label",
            "Step",
            lambda r: f"{rows[r].label}{' !' if rows[r].unusual else ''}",
            lambda: np.arange(len(rows)),
            11,
            False,
            0,
            False,
        ),
        time("window", "Span", length, 0),
        time("duration", "on the CPU", lambda r: r.duration, 6),
        Column(
            "busy",
            "GPU busy",
            busy,
            lambda: np.array([r.busy_share or 0.0 for r in rows]),
            9,
        ),
        time("idle", "GPU idle", lambda r: r.idle, 2),
        time("compute", "Compute", lambda r: r.compute, 7),
        time("communication", "Comm.", lambda r: r.communication, 1 if communicates else 8),
        time("exposed", "exposed", lambda r: r.exposed_communication, 3 if communicates else 9),
        time("copy", "Copies", lambda r: r.copy + r.set, 10),
        count("kernels", "Kernels", lambda r: r.kernels, 4),
        count("launches", "Launches", lambda r: r.launches, 5),
        Column("verdict", "Verdict", lambda r: rows[r].verdict.verdict, None, 14, False, 3),
        Column("cause", "Idle because of", idle_cause, None, 0, False, clauses=True),
    )
    if not any(r.busy + r.idle for r in rows):  # no device: there is nothing to say of one
        columns = tuple(c for c in columns if c.key in ("label", "window", "duration"))
    return Table(
        columns,
        len(rows),
        lambda r: rows[r].label,
        dim=lambda r: rows[r].event < 0,
        empty="no steps",
        records=lambda order: steps_records(rows, order),
    )


def steps_within(steps: Steps, scope: Scope | None) -> Steps:
    """The step of the scope, or those whose windows reach into it. `outside` and `whole` stay the trace's."""
    if scope is None or scope.kind == "whole":
        return steps
    if scope.kind == "step":
        return replace(steps, rows=(steps.rows[scope.step],))

    def reaches(row: StepRow) -> bool:
        start, end = row.window
        return start < scope.end and end > scope.start

    return replace(steps, rows=tuple(r for r in steps.rows if reaches(r)))


def steps_text(steps: Steps, scope: Scope | None, count: int) -> str:
    """What the steps pane speaks of; `count`: the steps of the whole trace."""
    if not count:
        return "no ProfilerStep in this trace: the whole of it"
    of = f"{len(steps.rows):,} of " if within(scope) else ""
    said = f"{of}{plural(count, 'step')}"
    return f"{said}; ! differs from the others" if any(r.unusual for r in steps.rows) else said


class StepsPane(ScopedPane):
    """Steps by time. Enter shows one in the timeline."""

    def __init__(self, results: Results, id: str, scope: Scope | None = None) -> None:
        super().__init__(results, id, scope)
        self.steps: Steps | None = None
        self.waiting = "looking at the steps …"
        self._event: int | None = None

    def work_out(self) -> Iterator[Callable[[], None]]:
        scope, steps = self.scope, self.results.steps()
        part = steps_within(steps, scope)
        yield partial(self.show_steps, part, steps_text(part, scope, len(steps.rows)), within(scope))

    def show_steps(self, steps: Steps, note: str, where: str) -> None:
        row = self.row if self.cursor else None
        before = self._rows[row].label if row is not None else None
        self.steps = steps
        self.set_table(steps_table(steps), "label", False)
        for n, shown in enumerate(self._rows):
            if shown.label == before:
                self.show_row(n)
                break
        self.set_note(note, where)
        self.follow(self._event)

    @property
    def _rows(self) -> tuple[StepRow, ...]:
        return table_rows(self.steps) if self.steps is not None else ()

    def follow(self, event: int | None) -> None:
        """The step in which the event, or its launch, begins."""
        self._event = event
        if event is None or self.steps is None:
            return
        trace = self.results.trace
        time = int(trace.start[trace.launch[event] if trace.launch[event] >= 0 else event])
        for n, row in enumerate(self.steps.rows):
            if row.start <= time < row.start + row.duration:
                self.show_row(n)
                return

    def on_table_view_chosen(self, message: ScopedPane.Chosen) -> None:
        message.stop()
        if self.steps is None:
            return
        if message.row < len(self.steps.rows):
            row = self.steps.rows[message.row]
            self.post_message(Jump(row.event, row.verdict.reason, show=row.window))
        else:
            self.post_message(ShowSpan(*self.results.trace.span, self.steps.whole.verdict.reason))
