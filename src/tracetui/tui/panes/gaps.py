"""The gaps pane: every stretch in which a device ran nothing, with its cause."""

from __future__ import annotations

import numpy as np
from textual import work
from textual.worker import get_current_worker

from tracetui.analysis.causes import CAUSES, Causes, totals_by
from tracetui.analysis.scope import Scope
from tracetui.trace.model import I64, Trace
from tracetui.tui.gaps import GapList, gaps_within
from tracetui.tui.panes.base import JumpToGap, Pane
from tracetui.tui.panes.facts import short
from tracetui.tui.results import Results
from tracetui.tui.tables.model import Column, Table
from tracetui.tui.units import duration, instant, share


def gaps_table(trace: Trace, gaps: GapList, causes: Causes | None) -> Table:
    """The gaps as columns; without the causes as long as they are not known yet."""
    idle = {d.device: d.idle for d in gaps.devices}

    def of_idle(row: int) -> str:
        return share(int(gaps.duration[row]), idle[int(gaps.device[row])])

    def named(event: int) -> str:
        return short(trace, event) if event >= 0 else "-"

    columns = [
        Column("duration", "Gap", lambda r: duration(int(gaps.duration[r])), lambda: gaps.duration, 12),
        Column("share", "of idle", of_idle, lambda: gaps.duration, 8, drop=3),
        Column(
            "start",
            "Start",
            lambda r: instant(int(gaps.start[r])),
            lambda: gaps.start,
            16 if not len(gaps) or int(gaps.start.max()) < 1e9 else 18,
            drop=2,
            descending=False,
        ),
        Column(
            "after",
            "Ended by",
            lambda r: named(int(gaps.after[r])),
            lambda: [trace.name_of(int(i)) for i in gaps.after],
            right=False,
            descending=False,
        ),
    ]
    if causes is not None:
        columns[1:1] = [
            Column(
                "cause",
                "Cause",
                lambda r: CAUSES[int(causes.cause[r])],
                lambda: [CAUSES[int(c)] for c in causes.cause],
                10,
                right=False,
                descending=False,
            ),
        ]
        columns[-1:-1] = [
            Column(
                "activity",
                "Meanwhile on the CPU",
                lambda r: named(int(causes.activity[r])),
                lambda: [trace.name_of(int(i)) if i >= 0 else "" for i in causes.activity],
                26,
                right=False,
                drop=4,
                descending=False,
            ),
            Column(
                "op",
                "Op around the launch",
                lambda r: named(int(causes.op[r])),
                lambda: [trace.name_of(int(i)) if i >= 0 else "" for i in causes.op],
                26,
                right=False,
                drop=5,
                descending=False,
            ),
        ]
    if len(gaps.devices) > 1:
        columns.insert(0, Column("device", "GPU", lambda r: str(int(gaps.device[r])), lambda: gaps.device, 5))

    def searched(row: int) -> str:
        event = int(gaps.after[row])
        cause = CAUSES[int(causes.cause[row])] if causes is not None else ""
        return f"{cause} {trace.name_of(event)} {short(trace, event)}"

    def same_text() -> I64:
        cause = causes.cause.astype(np.int64) if causes is not None else np.zeros(len(gaps), dtype=np.int64)
        return trace.name[gaps.after] * np.int64(len(CAUSES)) + cause

    return Table(
        tuple(columns),
        len(gaps),
        searched,
        empty="no gaps: no device ran anything here, or it never paused",
        same_text=same_text,
    )


def totals_text(gaps: GapList, causes: Causes) -> str:
    """Where the idle time went, the largest first: `idle 83.409 ms: host 45%, launch 30%`."""
    idle = int(gaps.duration.sum())
    if not idle:
        return ""
    parts = [f"{t.cause} {t.duration / idle:.0%}" for t in totals_by(causes.cause, gaps.duration)]
    return f"idle {duration(idle).strip()}: {', '.join(parts[:3])}"


class GapsPane(Pane):
    """Gaps, longest first. Enter shows one in the timeline."""

    def __init__(self, results: Results, id: str, scope: Scope | None = None) -> None:
        super().__init__(results, id)
        self.scope = scope
        self.gaps: GapList | None = None
        self.waiting = "looking for gaps …"

    def on_mount(self) -> None:
        self.load()

    @work(thread=True, exclusive=True, exit_on_error=False, group="gaps")
    def load(self) -> None:
        worker = get_current_worker()
        gaps, causes = self.results.gaps(), None
        if self.scope is not None:
            gaps, causes = gaps_within(self.results.trace, gaps, self.scope.start, self.scope.end)
        if not worker.is_cancelled:
            self.app.call_from_thread(self.show_gaps, gaps, causes)
        causes = causes or self.results.causes()
        if not worker.is_cancelled:
            self.app.call_from_thread(self.show_gaps, gaps, causes)

    def show_gaps(self, gaps: GapList, causes: Causes | None) -> None:
        self.gaps = gaps
        row = self.row
        self.set_table(gaps_table(self.results.trace, gaps, causes), "duration")
        if row is not None:
            self.show_row(row)
        if causes is not None:
            part = "in the range: " if self.scope is not None else ""
            self.set_note(part + totals_text(gaps, causes))

    def set_scope(self, scope: Scope | None) -> None:
        self.scope = scope
        self.load()

    def show_gap(self, device: int, index: int) -> None:
        """Put the cursor on a gap of a device."""
        row = self.gaps.find(device, index) if self.gaps is not None else None
        if row is not None:
            self.show_row(row)

    def on_table_view_chosen(self, message: Pane.Chosen) -> None:
        message.stop()
        if self.gaps is not None:
            device, index = int(self.gaps.device[message.row]), int(self.gaps.index[message.row])
            found = self.results.gaps().find(device, index)
            if found is not None:
                self.post_message(JumpToGap(found))
