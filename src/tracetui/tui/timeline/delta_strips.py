"""Lines of a canvas as Textual strips that take few bytes to send."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from rich.console import Console
from rich.segment import Segment
from textual.strip import Strip

from tracetui.timeline.canvas import WIDE, Bool, Packed, Run, runs, runs_among
from tracetui.trace.model import I64
from tracetui.tui.textual_private import LazyStrip
from tracetui.tui.timeline.ansi import ansi, rich_style

SKIP = 6
"""The cursor jumps over more than this many unchanged cells; fewer are sent again."""


class Board:
    """What the terminal shows of a widget, line by line; None if we do not know."""

    def __init__(self, height: int) -> None:
        self.lines: list[Packed | None] = [None] * height


class DeltaStrip(LazyStrip):
    """A line that sends colors only where they change, and only the cells that have changed.

    Textual's own strips reset the color after every segment, and send everything to the left of a change.
    With these, a widget refreshes the region up to `end`; the compositor asks for it with `crop(0, end)`, and
    gets a patch. Whole lines are sent in full. If a dialog covers part of a line, the compositor divides it:
    from then on we do not know what the terminal shows there, until the line is sent in full again.
    """

    __slots__ = ["_before", "_board", "_cells", "_different", "_line", "end"]

    def __init__(self, cells: Packed, line: int, board: Board) -> None:
        super().__init__(
            lambda: [Segment(text, rich_style(style)) for text, style in runs(cells)], len(cells)
        )
        self._cells, self._line, self._board = cells, line, board
        self._before = board.lines[line]
        self._different = changed(self._before, cells)
        at = np.flatnonzero(self._different)
        self.end = int(at[-1]) + 1 if len(at) else 0
        """The cell after the last one that differs from what the terminal shows."""

    def render(self, console: Console) -> str:
        self._board.lines[self._line] = self._cells
        return ansi(runs(self._cells))

    def crop(self, start: int, end: int | None = None) -> Strip:
        if start <= 0 and (end is None or end >= self.cell_length):
            return self
        if start == 0 and end is not None and end >= self.end and self._board.lines[self._line] is not None:
            return _Patch(self)
        return self.piece(start, self.cell_length if end is None else end)

    def piece(self, start: int, end: int) -> Strip:
        """Cells `start` to `end` as they are."""
        self._board.lines[self._line] = None
        return super().crop(start, end)

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        cuts = list(cuts)
        if cuts != [self.cell_length]:
            self._board.lines[self._line] = None
        return super().divide(cuts)

    def patch(self) -> str:
        """The codes that turn the line on the terminal into this one; the cursor must be at the line's
        start."""
        shown = self._board.lines[self._line]
        self._board.lines[self._line] = self._cells
        if shown is None or len(shown) != len(self._cells):
            return ansi(runs(self._cells))
        different = self._different if shown is self._before else changed(shown, self._cells)
        at = np.flatnonzero(different)
        if not len(at):
            return ""
        end = int(at[-1]) + 1
        return ansi(runs_among(self._cells[:end], with_short_breaks(different[:end], at)))


class _Patch(LazyStrip):
    """The changed part of a `DeltaStrip`."""

    __slots__ = ["_whole"]

    def __init__(self, whole: DeltaStrip) -> None:
        super().__init__(lambda: list(whole), whole.cell_length)
        self._whole = whole

    def render(self, console: Console) -> str:
        return self._whole.patch()


def changed(shown: Packed | None, cells: Packed) -> Bool:
    """Which cells differ. If one half of a wide character does, both count; if we do not know what is shown,
    all cells count."""
    if shown is None or len(shown) != len(cells):
        return np.ones(len(cells), dtype=np.bool_)
    different: Bool = shown != cells
    second = np.flatnonzero(cells >> 24 == WIDE)
    if len(second):
        second = second[second > 0]
        either = different[second] | different[second - 1]
        different[second] = different[second - 1] = either
    return different


def with_short_breaks(different: Bool, at: I64) -> Bool:
    """The cells to send: those that differ (`at`: their positions), and short runs between them."""
    found = different.copy()
    breaks = np.diff(at)
    for n in np.flatnonzero((breaks > 1) & (breaks <= SKIP)).tolist():
        found[at[n] : at[n + 1]] = True
    return found


def whole(cells: Sequence[Run], width: int) -> Strip:
    """A line that is always sent in full, but in few bytes."""
    return _Whole(cells, width)


class _Whole(Strip):
    __slots__ = ["_runs"]

    def __init__(self, cells: Sequence[Run], width: int) -> None:
        super().__init__([Segment(text, rich_style(style)) for text, style in cells], width)
        self._runs = cells

    def render(self, console: Console) -> str:
        return ansi(self._runs)
