"""The gaps pane: every stretch in which a device ran nothing, with its cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from tracetui.analysis.activity import SmallOps, activity_text, activity_texts, small_ops
from tracetui.analysis.causes import CAUSES, Causes, totals_by
from tracetui.analysis.gap_list import GapList, gaps_within
from tracetui.analysis.results import Results
from tracetui.analysis.scope import Scope
from tracetui.report.facts import short
from tracetui.tables.model import Column, Table
from tracetui.tables.names import short_names
from tracetui.tables.records import gaps_records
from tracetui.tables.times import time_column
from tracetui.trace.model import I64, Trace
from tracetui.tui.panes.base import JumpToGap
from tracetui.tui.panes.scoped import ScopedPane, within
from tracetui.units import exact, share, share_of


def gaps_table(trace: Trace, gaps: GapList, causes: Causes | None, small: SmallOps | None) -> Table:
    """The gaps as columns; without the causes as long as they are not known yet."""
    idle = {d.device: d.idle for d in gaps.devices}

    def of_idle(row: int) -> str:
        return share_of(int(gaps.duration[row]), idle[int(gaps.device[row])])

    def named(event: int) -> str:
        return short(trace, event) if event >= 0 else "-"

    columns = [
        time_column("duration", "Gap", lambda r: int(gaps.duration[r]), lambda: gaps.duration),
        Column("share", "of idle", of_idle, lambda: gaps.duration, 8, drop=3),
        time_column(
            "start",
            "Start",
            lambda r: int(gaps.start[r]),
            lambda: gaps.start,
            drop=2,
            zero="0",
            descending=False,
        ),
        Column(
            "after",
            "Ended by",
            lambda r: named(int(gaps.after[r])),
            lambda: short_names(trace, gaps.after),
            right=False,
            descending=False,
            ends=True,
        ),
    ]
    if causes is not None and small is not None:

        def meanwhile(row: int) -> str:
            return activity_text(trace, causes, small, row)

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
                meanwhile,
                lambda: activity_texts(trace, causes, small),
                26,
                right=False,
                drop=4,
                descending=False,
            ),
            Column(
                "op",
                "Op around the launch",
                lambda r: named(int(causes.op[r])),
                lambda: short_names(trace, causes.op),
                26,
                right=False,
                drop=5,
                descending=False,
                ends=True,
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
        records=lambda order: gaps_records(trace, gaps, causes, small, order),
    )


def totals_text(gaps: GapList, causes: Causes) -> str:
    """Where the idle time went, the largest first: `idle 83.409 ms: host 45%, launch 30%`."""
    idle = int(gaps.duration.sum())
    if not idle:
        return ""
    parts = [f"{t.cause} {share(t.duration / idle)}" for t in totals_by(causes.cause, gaps.duration)]
    return f"idle {exact(idle)}: {', '.join(parts[:3])}"


class GapsPane(ScopedPane):
    """Gaps, longest first. Enter shows one in the timeline."""

    def __init__(self, results: Results, id: str, scope: Scope | None = None) -> None:
        super().__init__(results, id, scope)
        self.gaps: GapList | None = None
        self._wanted: tuple[int, int] | None = None
        """The gap to put the cursor on as soon as the table has it: device, index."""
        self.waiting = "looking for gaps …"

    def work_out(self) -> Iterator[Callable[[], None]]:
        scope = self.scope
        if scope is None:
            gaps = self.results.gaps()
            yield partial(self.show_gaps, gaps, None, None)
            causes = self.results.causes()
        else:
            gaps, causes = gaps_within(self.results.trace, self.results.gaps(), *self.results.stretch(scope))
        where, note = within(scope), totals_text(gaps, causes)
        note = note or ("no gap" if where else "")
        small = small_ops(self.results.trace, gaps.before, causes)
        yield partial(self.show_gaps, gaps, causes, small, (note, where))

    def show_gaps(
        self,
        gaps: GapList,
        causes: Causes | None,
        small: SmallOps | None,
        note: tuple[str, str] | None = None,
    ) -> None:
        """`note`: what to say of the gaps, and the part of the trace that they lie in."""
        before = self._wanted or (self._gap_of(self.row) if self.cursor else None)
        self.gaps = gaps
        self.set_table(gaps_table(self.results.trace, gaps, causes, small), "duration")
        if before is not None:
            self._show_gap(*before)
        if note is not None:
            self.set_note(*note)

    def _gap_of(self, row: int | None) -> tuple[int, int] | None:
        if self.gaps is None or row is None:
            return None
        return int(self.gaps.device[row]), int(self.gaps.index[row])

    def show_gap(self, device: int, index: int) -> None:
        """Put the cursor on a gap of a device, now or as soon as the table has it."""
        self._wanted = (device, index)
        if self.gaps is not None:
            self._show_gap(device, index)

    def _show_gap(self, device: int, index: int) -> None:
        row = self.gaps.find(device, index) if self.gaps is not None else None
        if row is not None and self.show_row(row):
            self._wanted = None

    def on_table_view_highlighted(self, message: ScopedPane.Highlighted) -> None:
        message.stop()
        self._wanted = None

    def on_table_view_chosen(self, message: ScopedPane.Chosen) -> None:
        message.stop()
        if (gap := self._gap_of(message.row)) is not None:
            found = self.results.gaps().find(*gap)
            if found is not None:
                self.post_message(JumpToGap(found))
