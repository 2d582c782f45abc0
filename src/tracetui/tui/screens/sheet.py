"""The frame of every sheet: docked at the bottom of the screen, below what the screen underneath still
shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import BindingType
from textual.containers import Vertical
from textual.geometry import Region
from textual.reactive import reactive
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.strip import Strip
from textual.widget import Widget

from tracetui.core.cells import clauses, middle
from tracetui.session.navigator import Navigator, Viewpoint, nothing
from tracetui.session.session import Session
from tracetui.tui.bindings import bind
from tracetui.tui.footer import Footer, Hints
from tracetui.tui.prompt import Prompt
from tracetui.tui.screens.once import LeaveOnce
from tracetui.tui.tables.view import TableView
from tracetui.tui.textual_private import lines_between

LEAST_PICTURE = 6
"""The least lines that a timeline and the line below it need; with fewer, the sheet just covers them."""


class TimelineScreen(Screen[None]):
    """A screen with a timeline (its `#picture`), which shrinks to make room for sheets."""

    session: Session


class SheetHead(Footer):
    """The sheet's first line: its title and, on the right, the keys or for a few seconds a message."""

    title = reactive("")

    def __init__(self, title: str, hints: Hints) -> None:
        """`title`: plain, safe text."""
        super().__init__(hints)
        self.title = title

    @property
    def room(self) -> int:
        """The number of cells for the keys: only the first two take priority over the title."""
        need = sum(len(keys) + len(text) + 3 for keys, text, _ in self.hints[:2])
        return max(need, self.size.width - 5 - cell_len(self.title))

    @property
    def left(self) -> int:
        return self.size.width - 2 - sum(len(keys) + len(text) + 3 for keys, text, _ in self.shown) + 2

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        rule, word, key = (self.style_of(name) for name in ("dim", "text", "accent"))
        if self.message:
            room = max(self.room, self.size.width * 2 // 3)
            right = [Segment(clauses(self.message, room), self.style_of("head"))]
        else:
            right = []
            for keys, text, _ in self.shown:
                right += [Segment("  ", word)] if right else []
                right += [Segment(keys, key), Segment(f" {text}", word)]
        used = sum(segment.cell_length for segment in right)
        title = middle(self.title, width - used - 6)
        line = "─" * max(0, width - used - cell_len(title) - 6)
        head = [Segment("─ ", rule), Segment(title, key), Segment(f" {line} ", rule)]
        return Strip([*head, *right, Segment(" ─", rule)]).adjust_cell_length(width, rule)


class Sheet(ModalScreen[ScreenResultType], LeaveOnce[ScreenResultType]):
    """A sheet over the bottom of the screen; its result is None if nothing was chosen.

    It is as high as its content needs, up to `SHARE` of the screen. A timeline below it shrinks to the part
    that is still in view.
    """

    SHARE: ClassVar[float] = 0.6
    DEFAULT_CSS = """
    Sheet { background: transparent; align: left bottom; }
    Sheet > .sheet { width: 100%; height: 4; background: $surface; }
    """
    BINDINGS = bind("ctrl+c app.quit", priority=True)

    def __init__(self, title: str, hints: Hints) -> None:
        super().__init__()
        self.head = SheetHead(title, hints)
        self.frame = Vertical(classes="sheet")
        self.needed: int | None = None
        """How many lines the content wants below the head."""
        self._below: TimelineScreen | None = None
        """The screen with the timeline, if there is one below."""
        self._place: Viewpoint | None = None
        """The timeline's place before the sheet opened: shrinking may make it scroll."""

    def body(self) -> Iterator[Widget]:
        """The widgets below the head."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with self.frame:
            yield self.head
            yield from self.body()

    @property
    def most(self) -> int:
        """The most lines that the sheet may have on this screen."""
        return max(8, round(self.SHARE * self.size.height))

    @property
    def tall(self) -> int:
        """Lines of the sheet, with its head."""
        return min((self.needed or 3) + 1, self.most)

    def fit(self, lines: int) -> None:
        """Take `lines` lines below the head, or as many as the screen has."""
        self.needed = lines
        self.frame.styles.height = self.tall
        if self._below is not None:
            self._below.refresh(layout=True)

    def say(self, message: str) -> None:
        """Show a message in the head for a few seconds."""
        self.head.say(message)

    # What is below

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines of the screen below, down to the sheet: Textual would draw that whole screen."""
        stack = self.app.screen_stack
        at = stack.index(self) if self in stack else 0
        end = max(crop.y, min(crop.bottom, self.frame.region.y))
        lines = lines_between(stack[at - 1], crop.y, end) if at and end > crop.y else []
        # While the terminal changes its size, the screen below still has the old one.
        lines = [line.crop(crop.x, crop.right).adjust_cell_length(crop.width) for line in lines]
        return lines + [Strip.blank(crop.width, self.rich_style)] * (crop.height - len(lines))

    def on_mount(self) -> None:
        # The next one that is no sheet: further down there may be that of another trace.
        below = next(s for s in reversed(self.app.screen_stack) if not isinstance(s, Sheet))
        if isinstance(below, TimelineScreen):
            self._below, self._place = below, self._place or below.session.navigator.viewpoint()
            below.screen_layout_refresh_signal.subscribe(self, lambda _: self._make_room())

    def on_resize(self) -> None:
        if self.needed is not None:
            self.fit(self.needed)

    def _make_room(self) -> None:
        """The screen below was laid out: make its timeline end where the sheets begin."""
        if self._below is None or self.app.screen is not self:
            return
        picture, height = self._below.query_one("#picture"), self._below.size.height
        heights = (s.tall for s in self.app.screen_stack if isinstance(s, Sheet))
        margin = picture.styles.margin.bottom
        covered = picture.region.bottom + margin - (height - max(heights))
        left = picture.region.height + margin - covered
        wanted = max(0, covered) if left >= LEAST_PICTURE else 0
        if wanted != margin:
            picture.styles.margin = (0, 0, wanted, 0)

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close. The timeline returns to its place from before the sheet; then what was chosen is done."""
        if self in self.app.screen_stack and self._below is not None and self._place is not None:
            self._below.session.navigator.return_to(self._place)
        return super().dismiss(result)

    def on_click(self, event: events.Click) -> None:
        """Close the sheet on a click above it."""
        if event.screen_y < self.frame.region.y:
            self.action_leave()

    def on_unmount(self) -> None:
        if self._below is not None:
            self._below.screen_layout_refresh_signal.unsubscribe(self)
        if self._below is not None and self._below.is_attached:
            if not any(isinstance(s, Sheet) for s in self.app.screen_stack):
                self._below.query_one("#picture").styles.margin = 0
            self._below.refresh(layout=True)


class TableSheet(Sheet[ScreenResultType]):
    """A sheet with a table."""

    list: TableView

    def body(self) -> Iterator[Widget]:
        yield self.list

    def action_choose(self) -> None:
        self.list.action_choose()


class WalkingSheet(Sheet[ScreenResultType]):
    """A sheet whose rows are places in the timeline, which shows the one under the cursor. When the sheet
    closes, the timeline first returns to its place from before, and goes from there to what was chosen."""

    def __init__(self, title: str, hints: Hints, navigator: Navigator) -> None:
        super().__init__(title, hints)
        self.navigator = navigator
        self._place = navigator.viewpoint()

    def visit(self, go: Callable[[], object] | None) -> None:
        """Show what `go` goes to, starting from the place before the sheet; None: show that place. The panes
        do not follow."""
        navigator = self.navigator
        told, navigator.on_select = navigator.on_select, nothing
        try:
            if self._place is not None:
                navigator.return_to(self._place)
            if go is not None:
                go()
            elif navigator.selected is not None and navigator.scene.gap is None:
                navigator.reveal(navigator.selected, closer=False)  # there are fewer lines now
        finally:
            navigator.on_select = told


class Rows(TableView):
    """A table without titles."""

    HEADER = 0


MOVES: list[BindingType] = bind("up move(-1)  down move(1)  pageup page(-1)  pagedown page(1)")


class ListSheet(TableSheet[ScreenResultType]):
    """A sheet with a prompt that keeps the focus, and a list below it that the keys control."""

    BINDINGS: ClassVar[list[BindingType]] = MOVES

    def on_prompt_entered(self, message: Prompt.Entered) -> None:
        self.action_choose()

    def on_prompt_left(self, message: Prompt.Left) -> None:
        self.action_leave()

    def action_move(self, step: int) -> None:
        self.list.action_move(step)

    def action_page(self, pages: int) -> None:
        self.list.action_page(pages)
