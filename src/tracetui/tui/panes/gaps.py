"""The gaps pane: every stretch in which a device ran nothing."""

from __future__ import annotations

from textual import work
from textual.worker import get_current_worker

from tracetui.trace.model import Trace
from tracetui.tui.gaps import GapList
from tracetui.tui.panes.base import JumpToGap, Pane
from tracetui.tui.panes.facts import short
from tracetui.tui.results import Results
from tracetui.tui.tables.model import Column, Table
from tracetui.tui.units import duration, instant, share


def gaps_table(trace: Trace, gaps: GapList) -> Table:
    """The gaps as columns."""
    idle = {d.device: d.idle for d in gaps.devices}
    columns = [
        Column("duration", "Gap", lambda r: duration(int(gaps.duration[r])), lambda: gaps.duration, 12),
        Column(
            "share",
            "of idle",
            lambda r: share(int(gaps.duration[r]), idle[int(gaps.device[r])]),
            lambda: gaps.duration,
            8,
            True,
            2,
        ),
        Column(
            "start", "Start", lambda r: instant(int(gaps.start[r])), lambda: gaps.start, 18, True, 3, False
        ),
        Column(
            "after",
            "Ended by",
            lambda r: short(trace, int(gaps.after[r])),
            lambda: [trace.name_of(int(i)) for i in gaps.after],
            0,
            False,
            0,
            False,
        ),
    ]
    if len(gaps.devices) > 1:
        columns.insert(
            0,
            Column(
                "device", "GPU", lambda r: str(int(gaps.device[r])), lambda: gaps.device, 5, True, 0, False
            ),
        )
    return Table(
        tuple(columns),
        len(gaps),
        lambda r: f"{trace.name_of(int(gaps.after[r]))} {short(trace, int(gaps.after[r]))}",
        empty="no gaps: no device ran anything here, or it never paused",
    )


class GapsPane(Pane):
    """Gaps, longest first. Enter shows one in the timeline."""

    def __init__(self, results: Results, id: str) -> None:
        super().__init__(results, id)
        self.gaps: GapList | None = None
        self.waiting = "looking for gaps …"

    def on_mount(self) -> None:
        self.load()

    @work(thread=True, exclusive=True, group="gaps")
    def load(self) -> None:
        worker = get_current_worker()
        gaps = self.results.gaps()
        if not worker.is_cancelled:
            self.app.call_from_thread(self.show_gaps, gaps)

    def show_gaps(self, gaps: GapList) -> None:
        self.gaps = gaps
        self.set_table(gaps_table(self.results.trace, gaps), "duration")

    def on_table_view_chosen(self, message: Pane.Chosen) -> None:
        message.stop()
        self.post_message(JumpToGap(message.row))
