"""The screen that follows a capture: phases with their seconds, what it prints, and Esc to end it."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from tracetui.capture import Canceled, CaptureEvent, CaptureOptions, CaptureResult, Done, Failed, start
from tracetui.tui.capture.progress import Line, capture_lines
from tracetui.tui.footer import Footer
from tracetui.tui.screens.once import LeaveOnce
from tracetui.tui.text import cell

RUNNING = (("Esc", "cancel", ""),)
FAILED = (("Esc", "back", ""), ("Enter", "back to the form", ""))


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
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"capture--{role}" for role in ("title", "done", "now", "note", "output", "error")
    }

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[Line] = []

    def show(self, lines: list[Line]) -> None:
        if lines != self.lines:
            self.lines = lines
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if not 1 <= y <= len(self.lines):
            return Strip.blank(width, self.rich_style)
        line = self.lines[y - 1]
        return Strip(
            [Segment(cell(f"  {line.text}", width), self.get_component_rich_style(f"capture--{line.role}"))]
        )


class CaptureScreen(LeaveOnce, Screen[CaptureResult | None]):
    """Its result is what was captured; None where it was cancelled or did not work."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "cancel", "Cancel", show=False, priority=True),
        Binding("enter,q", "leave", "Back", show=False),
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
        self.capture = start(self.options, self._tell)
        self.set_interval(0.1, self._draw)

    def _tell(self, event: CaptureEvent) -> None:
        """Called from the capture's threads."""
        self.post_message(self.News(event))

    def _draw(self) -> None:
        width, height = self.view.size
        now, ended = self.capture.elapsed, self.capture.end is not None
        command = self.options.command()
        self.view.show(
            capture_lines(self.capture.events, command, now, ended, max(20, width - 4), height - 2)
        )

    def on_capture_screen_news(self, message: News) -> None:
        message.stop()
        self._draw()
        event = message.event
        if isinstance(event, Done):
            self.dismiss(event.result)
        elif isinstance(event, Canceled):
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
            self.footer.say("ending the capture and everything that it started …")

    def action_leave(self) -> None:
        if self.capture.end is not None:
            self.dismiss(None)

    def on_unmount(self) -> None:
        if self.capture.end is None:
            self.capture.cancel()
