"""The gaps pane: every gap in which a device ran nothing, with its cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tracetui.analysis.idle.activity import small_ops_of
from tracetui.analysis.idle.causes import Causes, cause_totals
from tracetui.analysis.idle.gap_list import GapList, gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.part import Part
from tracetui.core.units import exact, share
from tracetui.session.session import Session
from tracetui.tui.panes.scoped import ScopedPane, within
from tracetui.views.gaps import gaps_table
from tracetui.views.target import Target


def totals_text(gaps: GapList, causes: Causes) -> str:
    """The largest causes of idle time: `idle 83.409 ms: host 45%, launch 30%`."""
    idle = int(gaps.duration.sum())
    if not idle:
        return ""
    parts = [f"{t.cause} {share(t.duration / idle)}" for t in cause_totals(causes)]
    return f"idle {exact(idle)}: {', '.join(parts[:3])}"


class GapsPane(ScopedPane):
    """Gaps, longest first. Enter shows the gap in the timeline."""

    def __init__(self, session: Session, key: str) -> None:
        super().__init__(session, key)
        self.gaps: GapList | None = None
        self._wanted: tuple[int, int] | None = None
        """The gap (device, index) to put the cursor on once the table has it."""
        if (gap := session.gaps.at) is not None:
            self._wanted = int(gaps_of(self.whole).device[gap]), int(gaps_of(self.whole).index[gap])
        self.waiting = "looking for gaps …"

    def work_out(self) -> Iterator[Callable[[], None]]:
        part = self.whole.within(self.scope)
        gaps = gaps_of(part)
        if part.is_whole:  # finding all causes takes a while
            yield partial(self.show_gaps, part, False)
        where, note = within(self.scope), totals_text(gaps, causes_of(part))
        small_ops_of(part)
        yield partial(self.show_gaps, part, True, (note or ("no gap" if where else ""), where))

    def show_gaps(self, part: Part, causes: bool, note: tuple[str, str] | None = None) -> None:
        """`note`: what the note says about the gaps, and the part of the trace that they are in."""
        before = self._wanted or (self._gap_of(self.row) if self.cursor else None)
        self.gaps = gaps_of(part)
        self.set_table(gaps_table(part, causes), "duration")
        if before is not None:
            self._show_gap(*before)
        if note is not None:
            self.set_note(*note)

    def _gap_of(self, row: int | None) -> tuple[int, int] | None:
        if self.gaps is None or row is None:
            return None
        return int(self.gaps.device[row]), int(self.gaps.index[row])

    def show_gap(self, device: int, index: int) -> None:
        """Put the cursor on a gap of a device, now or once the table has it."""
        self._wanted = (device, index)
        if self.gaps is not None:
            self._show_gap(device, index)

    def _show_gap(self, device: int, index: int) -> None:
        row = self.gaps.find(device, index) if self.gaps is not None else None
        if row is not None and self.show_row(row):
            self._wanted = None

    def on_table_view_highlighted(self, message: ScopedPane.Highlighted) -> None:
        self._wanted = None

    def leads_to(self, row: int, again: int = 0) -> Target | None:
        gap = self._gap_of(row)
        found = gaps_of(self.whole).find(*gap) if gap is not None else None
        return Target(gap=found) if found is not None else None
