"""The area below the timeline: a line of tabs, and the open pane. A pane is made when it is first opened."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from itertools import chain

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tracetui.core.cells import cell, clauses, clip
from tracetui.session.session import Session
from tracetui.tui.line_widget import LineWidget
from tracetui.tui.panes import PANES, PaneSpec, keyed
from tracetui.tui.panes.base import Noted, Pane

BOLD = Style(bold=True)
"""The style of a tab's key, because tabs may stand close together."""


LONGEST = "annotations"
"""The pane whose title takes as much room as two others."""


class PaneTabs(LineWidget):
    """The panes with their keys, with the open one marked; on the right the open pane's note."""

    DEFAULT_CSS = """
    PaneTabs { height: 1; background: $panel; }
    PaneTabs > .drawn--accent { background: $surface; }
    PaneTabs > .drawn--cursor { color: $panel; background: $accent; }
    """

    open: reactive[str | None] = reactive(None)
    keys = reactive(False)
    """Whether the open pane has the focus."""

    class Picked(Message):
        """A tab was clicked."""

        def __init__(self, pane: str) -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, shared: Sequence[PaneSpec] = ()) -> None:
        """`shared`: the panes about all recordings, which come first."""
        super().__init__()
        self.specs = (*keyed(shared), *keyed(PANES))
        """The panes with their keys."""
        self.note = self.needed = ""
        self.counts: dict[str, str] = {}

    def set_note(self, note: str, needed: str = "") -> None:
        """Set the open pane's note. `needed`: its beginning, to make room for which tabs may lose their
        titles."""
        if (note, needed) != (self.note, self.needed):
            self.note, self.needed = note, needed
            self.refresh()

    def set_count(self, pane: str, count: str) -> None:
        """Set a number to show after a tab's title while it is open."""
        if self.counts.get(pane) != count:
            self.counts[pane] = count
            self.refresh()

    def labels(self) -> list[tuple[str, str]]:
        """(pane, text of its tab). If they do not fit beside the needed part of the note, all tabs first lose
        their counts, then stand closer together, then lose their titles: first the longest one, then from the
        right, and in the end all except that of the open one."""
        room = self.size.width - (len(self.needed) + 2 if self.needed else 0)
        keys = sorted((spec.key for _, spec in self.specs), key=LONGEST.__eq__)

        def labels(titled: Sequence[str], counts: bool, close: bool = True) -> list[tuple[str, str]]:
            found: list[tuple[str, str]] = []
            for n, spec in self.specs:
                title = spec.key if spec.key in titled or spec.key == self.open else ""
                count = self.counts.get(spec.key, "") if counts and spec.key == self.open else ""
                beside = not found or self.open in (spec.key, found[-1][0])
                left = " " if beside or not close else ""
                found.append((spec.key, f"{left}{' '.join(filter(None, (n, title, count)))} "))
            return found

        wide = (labels(keys, counts, close=False) for counts in (True, False))
        made = chain(wide, (labels(keys[:most], False) for most in range(len(keys), -1, -1)))
        return next((one for one in made if sum(len(text) for _, text in one) <= room), labels([], False))

    def render_line(self, y: int) -> Strip:
        tab, marked = self.style_of("dim"), self.style_of("cursor" if self.keys else "accent")
        labels = self.labels()
        segments: list[Segment] = []
        for key, text in labels:
            style, end = marked if key == self.open else tab, len(text) - len(text.lstrip()) + 1
            segments += [Segment(text[:end], style + BOLD), Segment(text[end:], style)]
        room = self.size.width - sum(len(text) for _, text in labels)
        note = clauses(self.note, room - 2) if room >= 14 else ""
        cut = note != self.note and self.note[len(note) - 1 : len(note)] not in (",", ";", ":")
        if (
            cut or len(note) < len(self.needed) or not note
        ):  # a cut-off "idle 24.947 …" says less than nothing
            note = clip(self.needed, max(0, room - 2))
        segments.append(Segment(cell(f"{note} ", max(0, room), True), tab))
        return Strip(segments).adjust_cell_length(self.size.width, tab)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        left = 0
        for key, text in self.labels():
            if left <= event.x < left + len(text):
                self.post_message(self.Picked(key))
                return
            left += len(text)


class PaneArea(Vertical):
    """Tabs and the open pane."""

    class HasKeys(Message):
        """The open pane got the keys, or lost them."""

        def __init__(self, has: bool) -> None:
            super().__init__()
            self.has = has

    DEFAULT_CSS = """
    PaneArea { height: 40%; min-height: 6; max-height: 20; }
    PaneArea.closed { height: 1; min-height: 1; }
    PaneArea.maximized { height: 1fr; max-height: 100%; }
    """

    def __init__(self, session: Session, first: str | None, shared: Sequence[PaneSpec] = ()) -> None:
        """`first`: the pane that is open at the start; `shared`: those about all recordings."""
        super().__init__()
        self._session = session
        self._first = first
        self.tabs = PaneTabs(shared)
        self._shared = {spec.key for spec in shared}
        self._made: dict[tuple[str, int], Pane] = {}
        """By name and recording; panes about all count as the first one's."""

    def compose(self) -> ComposeResult:
        yield self.tabs
        if self._first is not None:
            self.tabs.open = self._first
            yield self._pane(self._first)
        else:
            self.add_class("closed")

    @property
    def panes(self) -> dict[str, Pane]:
        """The panes of the active recording that have been made so far, by name."""
        mine = {self._place(spec.key): spec.key for _, spec in self.tabs.specs}
        return {mine[place]: pane for place, pane in self._made.items() if place in mine}

    def _place(self, key: str) -> tuple[str, int]:
        return key, 0 if key in self._shared else self._session.navigator.active

    def _pane(self, key: str) -> Pane:
        place = self._place(key)
        if place not in self._made:
            spec = next(spec for _, spec in self.tabs.specs if spec.key == key)
            module, _, name = spec.widget.partition(":")
            pane = getattr(import_module(f"tracetui.tui.panes.{module}"), name)
            self._made[place] = pane(self._session, key)
        return self._made[place]

    def follow_recording(self) -> None:
        """The selection went to another recording: show the pane of that one."""
        shown = next((pane for pane in self._made.values() if pane.is_attached and pane.display), None)
        if shown is None or self.tabs.open is None or shown is self.open:
            return
        focused = shown.has_focus
        pane = self.show_pane(self.tabs.open, shown)
        if pane is not None and focused:
            pane.focus()

    def on_descendant_focus(self) -> None:
        self.tabs.keys = True
        self.post_message(self.HasKeys(True))

    def on_descendant_blur(self) -> None:
        self.tabs.keys = False
        self.post_message(self.HasKeys(False))

    def grow(self, by: int) -> None:
        """Make the area larger by some lines or, if it is beside the timeline, by twice as many cells."""
        screen = self.screen.size
        if self.beside:
            self.styles.width = max(40, min(self.size.width + 2 * by, screen.width - 60))
        else:
            height = max(4, min(self.size.height + by, screen.height - 8))
            self.styles.height = self.styles.max_height = height

    @property
    def beside(self) -> bool:
        """Whether the area is beside the timeline rather than below."""
        return self.parent is not None and self.parent.has_class("side")

    def usual_size(self) -> None:
        """Undo what `grow` did."""
        self.styles.height = self.styles.max_height = self.styles.width = None

    @property
    def open(self) -> Pane | None:
        """The pane that is open."""
        return self._made.get(self._place(self.tabs.open)) if self.tabs.open else None

    def show_pane(self, key: str | None, before: Pane | None = None) -> Pane | None:
        """Open a pane; None closes the open one. `before`: the pane that is on the screen, if that is not the
        open one of the active recording."""
        before = before or self.open
        self.tabs.open = key
        self.set_class(key is None, "closed")
        if key is None:
            if before is not None:
                before.display = False
            self.usual_size()
            return None
        pane = self._pane(key)
        if before is not None and before is not pane:
            before.display = False
        if not pane.is_attached:
            self.mount(pane)
        pane.display = True
        pane.catch_up()
        self.tabs.set_note(pane.note, pane.needed)
        return pane

    def on_noted(self, message: Noted) -> None:
        if message.pane is self.open:
            self.tabs.set_note(message.pane.note, message.pane.needed)
