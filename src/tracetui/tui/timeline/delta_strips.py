"""Lines of a canvas as Textual strips that take few bytes to send."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from rich.console import Console
from rich.segment import Segment
from textual.strip import Strip

from tracetui.timeline.canvas import WIDE, Packed, Run, runs
from tracetui.tui.timeline.ansi import ansi, rich_style

SKIP = 6
"""The cursor jumps over more unchanged cells than this; fewer are sent again."""


class Board:
    """What the terminal shows of a widget, line by line; None where we do not know."""

    def __init__(self, height: int) -> None:
        self.lines: list[Packed | None] = [None] * height


class DeltaStrip(Strip):
    """A line that sends colours only where they change, and only the cells that have changed.

    Textual's own strips reset the colour after every segment, and send everything to the left of a change.
    Here a widget refreshes the region up to `end`, the compositor asks for it with `crop(0, end)`, and gets a
    patch. Whole lines are sent in full. Where a dialog covers part of a line, the compositor divides it: from
    then on we do not know what the terminal shows there, until the line is sent in full again.
    """

    __slots__ = ["_board", "_cells", "_line", "end"]

    def __init__(self, cells: Packed, line: int, board: Board) -> None:
        segments = [Segment(text, rich_style(style)) for text, style in runs(cells)]
        super().__init__(segments, len(cells))
        self._cells, self._line, self._board = cells, line, board
        self.end = changed_end(board.lines[line], cells)
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
        """The codes that turn the line on the terminal into this one; the cursor is at its start."""
        shown = self._board.lines[self._line]
        self._board.lines[self._line] = self._cells
        if shown is None or len(shown) != len(self._cells):
            return ansi(runs(self._cells))
        parts: list[Run | int] = []
        at = 0
        for begin, end in spans(changed(shown, self._cells)):
            if begin > at:
                parts.append(begin - at)
            parts += runs(self._cells[begin:end])
            at = end
        return ansi(parts) if parts else ""


class _Patch(Strip):
    """The changed part of a `DeltaStrip`."""

    __slots__ = ["_whole"]

    def __init__(self, whole: DeltaStrip) -> None:
        super().__init__(list(whole), whole.cell_length)
        self._whole = whole

    def render(self, console: Console) -> str:
        return self._whole.patch()


def changed(shown: Packed, cells: Packed) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which cells differ; both cells of a wide character if either does."""
    different: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] = shown != cells
    second = np.flatnonzero(cells >> 24 == WIDE)
    if len(second):
        second = second[second > 0]
        either = different[second] | different[second - 1]
        different[second] = different[second - 1] = either
    return different


def changed_end(shown: Packed | None, cells: Packed) -> int:
    """The cell after the last one that differs; the line's length if we do not know what is shown."""
    if shown is None or len(shown) != len(cells):
        return len(cells)
    different = np.flatnonzero(changed(shown, cells))
    return int(different[-1]) + 1 if len(different) else 0


def spans(different: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> list[tuple[int, int]]:
    """The spans of cells to send: those that differ, and short runs between them."""
    at = np.flatnonzero(different)
    if not len(at):
        return []
    breaks = np.flatnonzero(np.diff(at) > SKIP)
    begins = at[np.append(0, breaks + 1)]
    ends = at[np.append(breaks, len(at) - 1)] + 1
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


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
