"""What the controllers of a trace screen share: its session, its widgets, and a way to speak to the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from textual import messages
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from textual.worker import Worker

from tracetui.session.session import Session
from tracetui.session.walk import Walk
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Trace
from tracetui.tui.footer import Footer
from tracetui.tui.panes.area import PaneArea
from tracetui.tui.panes.scoped import ScopedPane
from tracetui.tui.timeline import TimelineView


@dataclass(frozen=True, slots=True)
class Escape:
    """One thing that Esc takes back."""

    there: Callable[[], object]
    """Whether there is anything to take back now (by its truth)."""
    take_back: Callable[[], object]


@dataclass(eq=False)
class Host:
    """The trace screen as its controllers see it."""

    screen: Screen[None]
    session: Session
    timeline: TimelineView
    area: PaneArea
    footer: Footer
    escapes: list[Escape] = field(default_factory=list)
    """The stack that Esc goes down: each controller pushes what it can take back, the most lasting first; one
    press takes back the topmost that is there."""

    @property
    def walk(self) -> Walk:
        """Where one is in the session."""
        return self.session.walk

    @property
    def trace(self) -> Trace:
        """The trace of the active recording."""
        return self.walk.trace

    def escape(self) -> bool:
        """Take back one thing. False where there is none."""
        found = next((e for e in reversed(self.escapes) if e.there()), None)
        if found is not None:
            found.take_back()
        return found is not None

    def say(self, message: str) -> None:
        """Say what a key did, where that is not plain to see."""
        self.footer.say(message)
        self.draw_soon(self.footer)

    def jump(self, event: int, said: str = "") -> None:
        """Select an event and bring it into view."""
        self.walk.select(event)
        self.follow_at_once()
        if said:
            self.say(said)

    def jump_if(self, event: int | None) -> None:
        """Jump to what a sheet was left with; None and -1 for nothing."""
        if event is not None and event >= 0:
            self.jump(event)

    def jumped_from(self, before: Viewport) -> None:
        """A table asked for what is shown now; `before`: the view that it asked in."""
        if self.walk.view != before and isinstance(self.area.open, ScopedPane):
            self.session.scopes.jumped()

    def follow_at_once(self) -> None:
        """Let the open pane follow the selection in the timeline's own frame, where that is cheap.

        The timeline's message comes too late for that frame, and two frames take twice as long.
        """
        pane = self.area.open
        if pane is not None and pane.eager:
            pane.follow(self.walk.selected)
            self.draw_soon(pane)

    def draw_soon(self, widget: Widget) -> None:
        """Put what has changed of a widget into the next frame."""
        self.screen.post_message(messages.Update(widget))

    def after(self, seconds: float, call: Callable[[], None]) -> Timer:
        """Call something later; the timer can be stopped."""
        return self.screen.set_timer(seconds, call)

    def in_thread(self, work: Callable[[], object], group: str, exclusive: bool = False) -> Worker[Any]:
        """Run something off the thread that draws."""
        return self.screen.run_worker(
            work, thread=True, exit_on_error=False, group=group, exclusive=exclusive
        )

    def from_thread(self, call: Callable[..., object], *args: object) -> None:
        """Call something on the thread that draws, from another one."""
        self.screen.app.call_from_thread(call, *args)
