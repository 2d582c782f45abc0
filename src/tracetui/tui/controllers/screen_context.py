"""What the controllers of a trace screen share: its session, its widgets, messages and threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct
from textual import messages
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import Worker

from tracetui.session.navigator import Navigator
from tracetui.session.session import Session
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Trace
from tracetui.tui.footer import Footer
from tracetui.tui.panes.area import PaneArea
from tracetui.tui.panes.scoped import ScopedPane
from tracetui.tui.timeline.view import TimelineView


class Escape(Struct, frozen=True):
    """One thing that Esc undoes."""

    active: Callable[[], object]
    """Whether there is anything to undo now: true or false, of any type."""
    undo: Callable[[], object]


@dataclass(eq=False)
class ScreenContext:
    """The trace screen, as its controllers see it."""

    screen: Screen[None]
    session: Session
    timeline: TimelineView
    area: PaneArea
    footer: Footer
    absent: str = ""
    """What keys say that only other layouts have."""
    escapes: list[Escape] = field(default_factory=list)
    """What Esc can undo, as a stack: each controller pushes its own entries, the longest-lasting first. One
    press undoes the topmost active entry."""
    on_recording: list[Callable[[], object]] = field(default_factory=list)
    """Called when the selection has gone to another recording."""
    _active: int = 0
    """The recording that the panes are about."""

    @property
    def navigator(self) -> Navigator:
        """The user's place in the session."""
        return self.session.navigator

    @property
    def trace(self) -> Trace:
        """The trace of the active recording."""
        return self.navigator.trace

    def give_keys(self, *controllers: object) -> None:
        """Make the `action_` methods of the controllers the screen's own."""
        for controller in controllers:
            for name in dir(controller):
                if name.startswith("action_"):
                    setattr(self.screen, name, getattr(controller, name))

    def escape(self) -> bool:
        """Undo the topmost active entry. False if there is none."""
        found = next((e for e in reversed(self.escapes) if e.active()), None)
        if found is not None:
            found.undo()
        return found is not None

    def say(self, message: str) -> None:
        """Show a message in the footer: what a key did, if that is not obvious, or why it did nothing."""
        self.footer.say(message)
        self.draw_soon(self.footer)

    def jump(self, event: int, message: str = "", of: int | None = None) -> None:
        """Select an event of a recording (None: the active one) and bring it into view."""
        self.navigator.select(event, of=of)
        self.follow_at_once()
        if message:
            self.say(message)

    def jump_if(self, event: int | None) -> None:
        """Jump to the event that was chosen on a sheet, if one was."""
        if event is not None:
            self.jump(event)

    def jumped_from(self, before: Viewport) -> None:
        """A row of a table may have moved the view: the table's scope must not follow. `before`: the view
        until then."""
        if self.navigator.view != before and isinstance(self.area.open, ScopedPane):
            self.session.scopes.jumped()

    def follow_at_once(self) -> None:
        """Update the open pane in the same frame as the timeline, if that is cheap.

        The timeline's own message comes too late for that frame, and two frames take twice as long.
        """
        self.follow_recording()
        pane = self.area.open
        if pane is not None and pane.eager:
            pane.follow(self.navigator.selected)
            self.draw_soon(pane)

    def follow_recording(self) -> None:
        """Make everything that is about one recording follow the selection to another."""
        if self._active != self.navigator.active:
            self._active = self.navigator.active
            for call in self.on_recording:
                call()
            self.draw_soon(self.area.tabs)

    def draw_soon(self, widget: Widget) -> None:
        """Draw a widget's changes in the next frame."""
        self.screen.post_message(messages.Update(widget))

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call a function later; the timer can be stopped."""
        return self.screen.set_timer(seconds, call)

    def in_thread(self, work: Callable[[], object], group: str, exclusive: bool = False) -> Worker[Any]:
        """Run a function in a worker thread."""
        return self.screen.run_worker(
            work, thread=True, exit_on_error=False, group=group, exclusive=exclusive
        )

    def from_thread(self, call: Callable[..., object], *args: object) -> None:
        """From a worker thread, call a function on the UI thread."""
        self.screen.app.call_from_thread(call, *args)
