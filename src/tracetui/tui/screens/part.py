"""The screen while a large trace is being read: it draws the beginning, which grows, and says nothing about
the whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from tracetui.core.units import size
from tracetui.session.recording import Recording
from tracetui.session.session import Session
from tracetui.timeline.themes import DARK, Theme
from tracetui.tui.bindings import ACTIONS, Action
from tracetui.tui.controllers.moves import Moves
from tracetui.tui.controllers.screen_context import ScreenContext
from tracetui.tui.footer import Footer
from tracetui.tui.loading import LoadTask
from tracetui.tui.panes.area import PaneArea, PaneTabs
from tracetui.tui.screens.loading import LoadingScreen
from tracetui.tui.textual_private import draw_less
from tracetui.tui.timeline.bar import SelectionBar
from tracetui.tui.timeline.view import TimelineView
from tracetui.tui.topline import top_of_single
from tracetui.tui.verdict_line import VerdictLine

LATER = "that is known once the whole file is read"
HINTS = (
    ("wasd", "move", ""),
    ("←→↑↓", "select", ""),
    ("?", "help", "help"),
    ("q", "stop reading", "cancel"),
    ("e", "explain", "explain"),
    ("f", "fit", "center"),
    ("0", "all that is drawn", "fit"),
)
HERE = ("Moving", "previous", "next", "up", "down", "explain", "clear", "help")
"""The groups and ids of the actions that need only what has been read."""
CANCEL = "quit"
APP = ("palette", "redraw")


class Waiting(PaneArea):
    """The tabs and, in place of the open pane, a line that says it is waiting."""

    DEFAULT_CSS = """
    Waiting Static { color: $text-muted; padding: 0 1; }
    """

    def compose(self) -> ComposeResult:
        yield self.tabs
        if self._first is None:
            self.add_class("closed")
        else:
            self.tabs.open = self._first
            yield Static("This pane waits until the whole file is read.", markup=False)


class PartScreen(LoadingScreen, inherit_bindings=False):
    """The timeline of the beginning of a file, with the keys that move in it. It lies on top of the
    `LoadingScreen`, which comes back if the file turns out to be broken."""

    DEFAULT_CSS = """
    PartScreen { layout: vertical; }
    PartScreen #body { height: 1fr; width: 1fr; }
    PartScreen #picture { height: 1fr; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            ",".join(a.keys),
            a.action if a.group in HERE or a.id in (*HERE, *APP) else "cancel" if a.id == CANCEL else "later",
            a.text,
            id=a.id,
            show=False,
        )
        for a in ACTIONS
    ]

    def __init__(
        self,
        task: LoadTask,
        part: Recording,
        palette: Theme,
        actions: Sequence[Action] = ACTIONS,
        pane: str | None = None,
    ) -> None:
        """`part`: what `task` has read so far; `pane`: the pane that will be open."""
        super().__init__(task)
        draw_less(self)
        self.session = Session([part], palette)
        self.timeline = TimelineView(self.session)
        self.timeline.bar = self.bar = SelectionBar()
        self.area, self.footer = Waiting(self.session, pane), Footer(HINTS)
        self.top, self.line = top_of_single(self.session.navigator.scene), VerdictLine()
        self.top.say(size(part.trace.info.size))
        self._actions = [a for a in actions if a.group in HERE or a.id in (*HERE, *APP, CANCEL)]
        self.host = ScreenContext(self, self.session, self.timeline, self.area, self.footer)
        self.host.give_keys(Moves(self.host))

    def compose(self) -> ComposeResult:
        yield self.top
        yield self.line
        with Vertical(id="body"):  # as in `TraceScreen`: the timeline keeps its height
            with Vertical(id="picture"):
                yield self.timeline
                yield self.bar
            yield self.area
        yield self.footer

    def on_mount(self) -> None:
        self.advance()
        self.timeline.focus()
        self.app.theme_changed_signal.subscribe(self, lambda _: self._follow_theme())

    def on_unmount(self) -> None:
        if self.tasks[0].cancelled or self.tasks[0].error is not None:
            self.session.let_go()

    def _follow_theme(self) -> None:
        self.timeline.set_theme(getattr(self.app, "palette", DARK))

    def begun(self) -> None:
        """Do nothing: the beginning is drawn already."""

    def action_cancel(self) -> None:
        below = self.app.screen_stack[-2]
        self.app.pop_screen()
        if isinstance(below, LoadingScreen):
            below.action_cancel()

    def advance(self) -> None:
        """Show the progress, and how much of the file the picture covers so far."""
        longer = self.tasks[0].part
        # Do not grow below another screen, which may be about an event, or while the mouse is dragged.
        free = self.app.screen is self and self.app.mouse_captured is None
        if longer is not None and longer is not self.session.active and free:
            self.session.grow(longer)
        drawn = size(self.session.active.trace.info.text_size)
        self.line.say(
            f"{self.tasks[0].share:.0%} read. Drawn: its first {drawn} of text. Events may be missing "
            "anywhere. What it means is known once all is read."
        )

    def on_key(self) -> None:
        """Remove the message about the previous key."""
        if self.footer.grow_old():
            self.call_later(self.app.call_later, self.footer.drop_old)

    def on_pane_tabs_picked(self, message: PaneTabs.Picked) -> None:
        self.action_later()

    def action_later(self) -> None:
        """Answer keys that need what has not been read yet."""
        self.host.say(LATER)

    def action_clear(self) -> None:
        if self.session.navigator.range_ns is not None:
            self.session.navigator.set_range(None)
        elif not self.host.escape():
            self.host.say("nothing to clear: q stops reading")

    def action_explain(self) -> None:
        event = self.session.navigator.selected
        if event is None:
            self.host.say("select an event first")
            return
        from tracetui.tui.screens.explain import ExplainScreen

        part, navigator = self.session.active.whole, self.session.navigator
        sheet = ExplainScreen(part, event, navigator, lambda _: self.action_later())
        self.app.push_screen(sheet)  # of a part it leads nowhere

    def action_help(self) -> None:
        from tracetui.tui.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(self._actions))
