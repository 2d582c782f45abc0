"""A document as lines to move through, each of which leads to its evidence; above all the overview."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip

from tracetui.core.copying import replace
from tracetui.session.session import Session
from tracetui.tui.bindings import bind
from tracetui.tui.line_widget import LineWidget
from tracetui.tui.panes.scoped import ScopedPane, scope_texts
from tracetui.tui.part_styles import COMPONENTS, component_css, css_name, texture
from tracetui.tui.tables import drawing
from tracetui.views.model import Column, Table, scrolled
from tracetui.views.registry import VIEWS
from tracetui.views.target import Target

if TYPE_CHECKING:
    from tracetui.analysis.part import Part
    from tracetui.views.document import Document, Entry
    from tracetui.views.lines import Line
    from tracetui.views.overview_lines import Piece

BLOCKS = "▏▎▍▌▋▊▉█"
TRACK = "|track"
"""See `report.overview_lines`, which is imported only when there is something to lay out."""


def _textured(line: Line) -> Line:
    """A line with the textures that the bar has without colors."""
    from tracetui.views.overview_lines import MARK

    def one(text: str, role: str) -> str:
        part = role.removesuffix(TRACK)
        if text == MARK:
            return f"{texture(part)} "
        return "".join(texture(part) if c in BLOCKS else c for c in text) if role.endswith(TRACK) else text

    return [(one(text, role), role) for text, role in line]


class DocumentPane(ScopedPane):
    """Blocks of lines in one or two columns. Enter goes to what a line is about."""

    DEFAULT_CSS = """
    DocumentPane > .drawn--head { background: transparent; }
    DocumentPane > .drawn--good { text-style: none; }
    DocumentPane > .drawn--accent { color: $accent; background: transparent; text-style: bold; }
    DocumentPane > .overview--track { background: $panel; }
    DocumentPane > .part--kernels { color: $part-compute; }
    """ + component_css("DocumentPane")
    COMPONENT_CLASSES = COMPONENTS | {"overview--track", "part--kernels"}
    BINDINGS = bind("left side(-1)  right side(1)")

    def __init__(self, session: Session, key: str) -> None:
        super().__init__(session, key)
        self.overview: Document | None = None
        self.entries: list[Entry] = []
        self._lines: list[list[Piece]] = []
        self._laid: tuple[int, ...] = ()
        """The width and height for which the lines were laid out, and the number of entries."""
        self._held = False
        """Whether drawing waits until the place of the cursor is known."""
        self.waiting = "working it out …"

    def compute(self) -> Iterator[Callable[[], None]]:
        part = self.whole.in_scope(self.scope)
        place, _ = scope_texts(part)  # the first sentence says how busy it is
        for document in self.documents(part):
            yield partial(self.show_overview, document, place)

    def documents(self, part: Part) -> Iterable[Document]:
        """What is said of a part: first what is known soonest."""
        documents = VIEWS[self.key].make(part).documents
        return documents() if documents is not None else ()

    def show_overview(self, overview: Document, place: str) -> None:
        """`place`: the part of the trace that the overview is about."""
        before = self.entries[self.row] if self.row is not None and self.row != self._first else None
        self.overview = overview
        blocks = [(block.title, entry) for block in overview.blocks for entry in block.entries]
        entries = self.entries = [entry for _, entry in blocks]
        same = (n for n, e in enumerate(entries) if before and (e.name, e.text) == (before.name, before.text))
        columns = (
            Column("section", "Section", lambda r: blocks[r][0], None, 20, False),
            Column("name", "Name", lambda r: entries[r].name, None, 30, False),
            Column("numbers", "Numbers", lambda r: "  ".join(entries[r].numbers), None, 20, False),
            Column("text", "Text", lambda r: entries[r].text, None, 0, False),
        )
        search = partial(self._text, entries)
        table = Table(columns, len(entries), search, empty=overview.reason or "nothing to show here")
        self.set_table(table, row=next(same, None))
        if before is None and self._first is not None:
            self._go(self._first)
        self.set_note("", place)

    @property
    def busy(self) -> bool:
        return self._working

    @staticmethod
    def _text(entries: list[Entry], row: int) -> str:
        return f"{entries[row].name} {entries[row].text}"

    # Lines

    @property
    def page(self) -> int:
        return self.size.height

    def _arrange(self, keep: int | None) -> None:
        self._laid = ()
        super()._arrange(keep)
        self.top = 0
        self._to_view()

    def lines(self) -> list[list[Piece]]:
        """The lines, laid out for this width."""
        under = self.row if self.overview is not None and self.overview.fixes is not None else None
        laid = self.size.width - 2, self.page, len(self.order), -1 if under is None else under
        if self.overview is not None and self._laid != laid:
            from tracetui.views.overview_lines import lay_out

            self._laid = laid
            self._lines = lay_out(self.overview, laid[0], set(self.order.tolist()), self.page, under)
            if self.app.no_color or getattr(self.app, "color_count", 256) <= 16:
                self._lines = [
                    [replace(piece, line=_textured(piece.line)) for piece in line] for line in self._lines
                ]
        return self._lines

    @property
    def _first(self) -> int | None:
        """The topmost entry."""
        return next((p.entry for line in self.lines() for p in line if p.entry >= 0), None)

    def _place(self, entry: int) -> tuple[int, int] | None:
        """(line, first cell) of an entry."""
        places = ((y, p.left) for y, line in enumerate(self.lines()) for p in line if p.entry == entry)
        return next(places, None)

    def _to_view(self) -> None:
        """Scroll so that the line under the cursor is in view; at the top entry, everything above it is in
        view too."""
        place = self._place(self.row) if self.row is not None else None
        if place is not None and self.page > 0:
            line = place[0] if self.row != self._first else 0
            self.top = scrolled(self.top, line, self.page, max(len(self.lines()), self.page))

    def _to(self, at: int, tell: bool = True) -> None:
        top, before = self.top, self.row
        self._held = True  # draw once, when the place in the lines is known
        super()._to(at, tell)
        self.top = top  # in lines, not in entries
        self._to_view()
        self._held = False
        follows = self.overview is not None and self.overview.fixes is not None  # what to try does
        moved = {before, self.row}
        mine = [y - top for y, line in enumerate(self.lines()) if any(p.entry in moved for p in line)]
        self.redraw(mine if self.top == top and not follows else None)

    def redraw(self, lines: Collection[int] | None = None) -> None:
        if not self._held:
            super().redraw(lines)

    def action_move(self, step: int) -> None:
        """Move up or down within the column."""
        row = self.row
        place = self._place(row) if row is not None else None
        if place is None:
            return
        mine = [p.entry for line in self.lines() for p in line if p.entry >= 0 and p.left == place[1]]
        mine = list(dict.fromkeys(mine))
        self._go(mine[max(0, min(len(mine) - 1, mine.index(int(row or 0)) + step))])

    def action_first(self) -> None:
        self._go(self._first or 0)

    def action_last(self) -> None:
        self._go(next((p.entry for line in self.lines()[::-1] for p in line if p.entry >= 0), 0))

    def action_page(self, pages: int) -> None:
        self.action_move(pages * max(1, self.page - 1))

    def action_side(self, step: int) -> None:
        """Move to the other column, at the same height."""
        place = self._place(self.row) if self.row is not None else None
        if place is None:
            return
        beside = [
            (abs(p.left - place[1]), abs(y - place[0]), p.entry)
            for y, line in enumerate(self.lines())
            for p in line
            if p.entry >= 0 and (p.left > place[1] if step > 0 else p.left < place[1])
        ]
        if beside:
            self._go(min(beside)[2])

    def show_entry(self, name: str) -> None:
        """Put the cursor on the first line with this name, or about this part of the time, if there is
        one."""
        found = next((n for n, entry in enumerate(self.entries) if name in (entry.name, entry.style)), None)
        if found is not None:
            self._go(found)

    def _go(self, entry: int) -> None:
        found = np.flatnonzero(self.order == entry)
        if len(found):
            self._to(int(found[0]))

    def scroll_rows(self, rows: int) -> None:
        self.top = max(0, min(self.top + rows, len(self.lines()) - self.page))
        self.redraw()

    def on_resize(self) -> None:
        # The table's own `on_resize` runs after this one and counts rows, not lines: do the rest later.
        self.call_later(self._resized)

    def _resized(self) -> None:
        self._to_view()
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        event.prevent_default()
        lines, y = self.lines(), self.top + event.y
        under = [p for p in lines[y] if p.left <= event.x] if y < len(lines) else []
        if under and under[-1].entry >= 0:
            again = under[-1].entry == self.row
            self._go(under[-1].entry)
            if event.chain > 1 or again:
                self.action_choose()

    def target_of(self, row: int, again: int = 0) -> Target | None:
        return self.entries[row].target

    # Drawing

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.ground
        lines, at = self.lines(), self.top + y
        if self.table is None or not len(self.order):
            return super().render_line(y + 1 if self.table is not None else y)
        bar = drawing.scroll_bar(y, self.top, self.page, len(lines), self.style_of("bar"), base)
        if at >= len(lines):
            return self._blank() if bar.text == " " else Strip([Segment(" " * (width - 1), base), bar])
        segments: list[Segment] = []
        pieces = lines[at]
        for n, piece in enumerate(pieces):
            used = sum(segment.cell_length for segment in segments)
            segments.append(Segment(" " * (piece.left - used), base))
            end = pieces[n + 1].left - 1 if n + 1 < len(pieces) else width - 1
            if piece.entry >= 0 and piece.entry == self.row:
                goes_on = at > 0 and any(above.entry == piece.entry for above in lines[at - 1])
                segments += self._under_cursor(piece, end - piece.left, " " if goes_on else drawing.CURSOR)
            else:
                segments += [Segment(text, self._style(role)) for text, role in piece.line]
        strip = Strip(segments).adjust_cell_length(width - 1, base)
        return Strip([*strip, bar], width)

    def _under_cursor(self, piece: Piece, width: int, mark: str) -> list[Segment]:
        """The line under the cursor: all of its cells are marked, but the bar keeps its colors."""
        cursor = self.style_of("cursor")
        (margin, _), *rest = piece.line
        segments = [Segment(mark + margin[1:], cursor)]
        segments += [Segment(t, self._style(role) if role.endswith(TRACK) else cursor) for t, role in rest]
        return list(Strip(segments).adjust_cell_length(width, cursor))

    def _style(self, role: str) -> Style:
        if role.endswith(TRACK):
            track = self.get_component_rich_style("overview--track", partial=True)
            return self._style(role.removesuffix(TRACK)) + track
        part = f"part--{css_name(role)}"
        if part in self.COMPONENT_CLASSES:
            return self.get_component_rich_style(part)
        return self.style_of(role if f"drawn--{role}" in LineWidget.COMPONENT_CLASSES else "text")


class OverviewPane(DocumentPane):
    """The first pane: what the summary says."""

    def documents(self, part: Part) -> Iterable[Document]:
        from tracetui.views.overview_cache import (
            cached_overviews,
        )  # in this thread: the first picture goes without

        return cached_overviews(part)

    @property
    def term(self) -> str:
        """The glossary's name for the part of the time under the cursor, "" on other lines."""
        here = self.entries[self.row] if self.row is not None and self.entries else None
        blocks = self.overview.blocks if self.overview is not None else ()
        if here is None or all(
            block.key not in ("time", "fixes") or here not in block.entries for block in blocks
        ):
            return ""
        return "launch (cause)" if here.style == "launch" else here.style
