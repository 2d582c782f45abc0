"""The steps pane: one row per ProfilerStep, what lies outside of them, and the whole."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from textual import work
from textual.worker import get_current_worker

from tracetui.analysis.steps import StepRow, Steps
from tracetui.tui.panes.base import Jump, Pane, ShowSpan
from tracetui.tui.results import Results
from tracetui.tui.tables.model import Column, Table
from tracetui.tui.units import duration, micro, plural, share


def steps_table(steps: Steps) -> Table:
    """The steps as columns."""
    rows = (*steps.rows, *((steps.outside,) if steps.rows else ()), steps.whole)

    def length(row: StepRow) -> int:
        return row.window[1] - row.window[0]

    def time(key: str, title: str, value: Callable[[StepRow], int], drop: int) -> Column:
        def text(r: int) -> str:
            return duration(value(rows[r])) if value(rows[r]) else "-   "

        return Column(key, title, text, lambda: np.array([value(r) for r in rows]), 12, True, drop)

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
        return share(row.busy, row.busy + row.idle)

    def idle_cause(r: int) -> str:
        parts = [f"{t.cause} {share(t.duration, rows[r].idle)}" for t in rows[r].idle_by_cause if t.duration]
        return ", ".join(parts[:3]) or "-"

    # What there is none of gives way first.
    communicates = any(r.communication for r in rows)
    columns = (
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
        Column("cause", "Idle because of", idle_cause, None, 0, False),
    )
    return Table(
        columns,
        len(rows),
        lambda r: rows[r].label,
        dim=lambda r: rows[r].event < 0,
        empty="no steps",
    )


class StepsPane(Pane):
    """Steps by time. Enter shows one in the timeline."""

    def __init__(self, results: Results, id: str) -> None:
        super().__init__(results, id)
        self.steps: Steps | None = None
        self.waiting = "looking at the steps …"
        self._event: int | None = None

    def on_mount(self) -> None:
        self.load()

    @work(thread=True, exclusive=True, exit_on_error=False, group="steps")
    def load(self) -> None:
        worker = get_current_worker()
        steps = self.results.steps()
        if not worker.is_cancelled:
            self.app.call_from_thread(self.show_steps, steps)

    def show_steps(self, steps: Steps) -> None:
        self.steps = steps
        self.set_table(steps_table(steps), "label", False)
        unusual = sum(r.unusual for r in steps.rows)
        said = (
            plural(len(steps.rows), "step")
            if steps.rows
            else "no ProfilerStep in this trace: the whole of it"
        )
        self.set_note(f"{said}; ! differs from the others" if unusual else said)
        self.follow(self._event)

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

    def on_table_view_chosen(self, message: Pane.Chosen) -> None:
        message.stop()
        if self.steps is None:
            return
        if message.row < len(self.steps.rows):
            row = self.steps.rows[message.row]
            self.post_message(Jump(row.event, micro(row.verdict.reason), show=row.window))
        else:
            self.post_message(ShowSpan(*self.results.trace.span, micro(self.steps.whole.verdict.reason)))
