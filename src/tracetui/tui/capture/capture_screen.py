"""The screen of a running capture: its phases with their seconds, its output, and Esc to cancel it."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from tracetui.capture.events import Cancelled, CaptureEvent, CaptureResult, Done, Failed
from tracetui.capture.options import CaptureOptions
from tracetui.capture.run import start
from tracetui.cells import cell
from tracetui.tui.bindings import bind
from tracetui.tui.capture.progress import Line, capture_lines
from tracetui.tui.footer import Footer
from tracetui.tui.screens.once import LeaveOnce
from tracetui.tui.tables.drawing import scroll_bar

RUNNING = (("Esc", "cancel", "cancel"),)
FAILED = (("Enter", "change and try again", "again"), ("Esc", "back", "cancel"), ("↑↓", "scroll", ""))


class CaptureView(Widget):
    """The lines of a capture."""

    DEFAULT_CSS = """
    CaptureView { height: 1fr; }
    CaptureView > .capture--title { color: $accent; text-style: bold; }
    CaptureView > .capture--done { color: $foreground; }
    CaptureView > .capture--now { color: $accent; text-style: bold; }
    CaptureView > .capture--note { color: $warning; }
    CaptureView > .capture--output { color: $text-muted; }
    CaptureView > .capture--error { color: $error; text-style: bold; }
    CaptureView > .capture--bar { color: $scrollbar; background: $scrollbar-background; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"capture--{role}" for role in ("title", "done", "now", "note", "output", "error", "bar")
    }

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Line] = []
        self.top = 0

    def show(self, lines: list[Line]) -> None:
        if lines != self.lines:
            self.lines = lines
            self.scroll_lines(0)
            self.refresh()

    def scroll_lines(self, lines: int) -> None:
        """Scroll, if there is more than fits the screen."""
        top = max(0, min(self.top + lines, len(self.lines) + 1 - self.size.height))
        if top != self.top:
            self.top = top
            self.refresh()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-3)

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        at, style = self.top + y - 1, self.get_component_rich_style
        bar = scroll_bar(y, self.top, height, len(self.lines) + 1, style("capture--bar"), self.rich_style)
        if not 0 <= at < len(self.lines):
            return Strip([Segment(" " * (width - 1), self.rich_style), bar], width)
        line = self.lines[at]
        text = Segment(cell(f"  {line.text}", width - 1), style(f"capture--{line.role}"))
        return Strip([text, bar], width)


class CaptureScreen(LeaveOnce[CaptureResult | CaptureOptions]):
    """Runs a capture. The result: what was captured, or the options to try again, or None to go back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bind("escape,ctrl+c cancel", priority=True),
        *bind("enter again  q leave  up read(-1)  down read(1)  pageup read(-10)  pagedown read(10)"),
    ]

    class News(Message):
        """Something happened in the capture."""

        def __init__(self, event: CaptureEvent) -> None:
            super().__init__()
            self.event = event

    def __init__(self, options: CaptureOptions) -> None:
        super().__init__()
        self.options = options
        self.view = CaptureView()
        self.footer = Footer(RUNNING)
        self.cancelling = False

    def compose(self) -> ComposeResult:
        yield self.view
        yield self.footer

    def on_mount(self) -> None:
        self.capture = start(self.options, self._post)
        self.set_interval(0.1, self._draw)

    def _post(self, event: CaptureEvent) -> None:
        """Called on the capture's threads."""
        self.post_message(self.News(event))

    def _draw(self) -> None:
        width, height = self.view.size
        now, ended = self.capture.elapsed, self.capture.end is not None
        command = self.options.command()
        self.view.show(
            capture_lines(self.capture.events, command, now, ended, max(20, width - 4), height - 2)
        )

    def on_capture_screen_news(self, message: News) -> None:
        self._draw()
        event = message.event
        if isinstance(event, Done):
            self.dismiss(event.result)
        elif isinstance(event, Cancelled):
            self.dismiss(None)
        elif isinstance(event, Failed):
            self.footer.set_hints(FAILED)
            self.footer.say("")

    def action_cancel(self) -> None:
        if self.capture.end is not None:
            self.dismiss(None)
        else:
            self.cancelling = True
            self.capture.cancel()
            self.footer.say("ending the capture and everything it started …")

    def action_again(self) -> None:
        """Back to the form, as it was filled in."""
        if self.capture.end is not None:
            self.dismiss(self.options)

    def action_read(self, lines: int) -> None:
        self.view.scroll_lines(lines)

    def action_leave(self) -> None:
        if self.capture.end is not None:
            self.dismiss(None)

    def on_unmount(self) -> None:
        if self.capture.end is None:
            self.capture.cancel()
