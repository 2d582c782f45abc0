"""The screen while a trace is being read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip

from tracetui.core.cells import cell, wrap
from tracetui.core.units import size
from tracetui.tui.bindings import bind
from tracetui.tui.line_widget import LineWidget, Run
from tracetui.tui.loading import LoadTask
from tracetui.tui.textual_private import forget_drawn

if TYPE_CHECKING:
    from tracetui.session.recording import Recording


class Progress(LineWidget):
    """What is being read, how far it has got, and the key to cancel; or why it failed."""

    DEFAULT_CSS = """
    Progress { width: 100%; height: 100%; }
    Progress > .drawn--accent { text-style: none; }
    """

    def __init__(self, tasks: Sequence[LoadTask]) -> None:
        super().__init__()
        self.tasks = tuple(tasks)

    @property
    def load_task(self) -> LoadTask:
        """The task to show: one that failed, else the first that is still reading."""
        failed = (task for task in self.tasks if task.error is not None)
        reading = (task for task in self.tasks if not task.ended.done())
        return next(failed, None) or next(reading, self.tasks[0])

    @property
    def back(self) -> bool:
        """Whether there is a screen to go back to."""
        return len(self.app.screen_stack) > 1

    def lines(self, width: int) -> list[Run]:
        """All lines, from top to bottom."""
        task = self.load_task
        if task.error is not None:
            return [
                *((line, "bad") for line in wrap(task.error, width)),
                ("", "text"),
                ("Esc  back" if self.back else "Esc  quit", "dim"),
            ]
        done, bar = f", {size(task.done)} so far" if task.done else "", ""
        if task.total:
            done, cells = f", {size(task.done)} of {size(task.total)}", width - 6
            bar = f"{('█' * round(task.share * cells)).ljust(cells, '░')} {task.share:4.0%}"
        said = f"reading {task.name}{done}"
        return [(said, "text"), (bar, "accent"), ("", "text"), ("Esc  cancel", "dim")]

    def advance(self) -> None:
        """Draw the two lines that show the progress."""
        self.refresh(Region(0, (self.size.height - 4) // 2, self.size.width, 2))

    def line_at(self, y: int, inner: int) -> Run | None:
        """Line `y` of the screen."""
        lines = self.lines(inner)
        at = y - (self.size.height - len(lines)) // 2
        return lines[at] if 0 <= at < len(lines) else None

    async def on_click(self, event: events.Click) -> None:
        line = self.line_at(event.y, self.inner)
        if line is not None and line[1] == "dim":
            await self.screen.run_action("cancel")

    @property
    def inner(self) -> int:
        """The width of the text in cells."""
        return max(10, min(72, self.size.width - 4))

    def render_line(self, y: int) -> Strip:
        width, inner = self.size.width, self.inner
        line = self.line_at(y, inner)
        if line is None:
            return Strip.blank(width, self.rich_style)
        text, look = line
        left, style = (width - inner) // 2, self.style_of(look)
        return Strip([Segment(" " * left, style), Segment(cell(text, width - left), style)], width)


class LoadingScreen(Screen[None]):
    """Shows that a trace is being read, then tells the app."""

    BINDINGS = bind("escape,q,ctrl+c cancel")

    class Ended(Message):
        """The task has ended, successfully or not."""

        def __init__(self, loading: LoadingScreen) -> None:
            super().__init__()
            self.loading = loading

    class Begun(Ended):
        """The beginning of the only task's file can be drawn."""

    def __init__(self, *tasks: LoadTask, beside: Recording | None = None) -> None:
        """`tasks`: one, or several to be shown together; `beside`: the recording that a single one is to be
        compared with."""
        super().__init__()
        self.tasks, self.beside = tasks, beside

    @property
    def finished(self) -> bool:
        """Whether everything is read, or something cannot be read."""
        return any(task.error for task in self.tasks) or all(task.ended.done() for task in self.tasks)

    def compose(self) -> ComposeResult:
        yield Progress(self.tasks)

    def on_mount(self) -> None:
        self._timer = self.set_interval(1 / 10, self._tick)
        for task in self.tasks:
            task.ended.add_done_callback(lambda _: self._ended())
        if len(self.tasks) == 1 and self.beside is None:
            self.tasks[0].beginning.add_done_callback(lambda _: self.begun())

    def on_screen_resume(self) -> None:
        """Post `Ended` again: the app ignores it while another screen (the palette) covers this one."""
        if self.finished:
            self._ended()
        elif self.tasks[0].beginning.done():
            self.begun()

    def on_unmount(self) -> None:
        forget_drawn()

    def _ended(self) -> None:
        """Called on the loading thread."""
        self.post_message(self.Ended(self))

    def begun(self) -> None:
        """Called on the loading thread."""
        self.post_message(self.Begun(self))

    def _tick(self) -> None:
        if self.finished:
            self._timer.stop()
        else:
            self.advance()

    def advance(self) -> None:
        """Show the progress."""
        self.query_one(Progress).advance()

    def failed(self) -> None:
        """Show the error."""
        self.query_one(Progress).refresh()

    def action_cancel(self) -> None:
        for task in self.tasks:
            task.cancel()
        if len(self.app.screen_stack) > 1:
            self.app.pop_screen()  # back to where the user opened the trace
        else:
            self.app.exit(return_code=1 if any(task.error for task in self.tasks) else 0)
