"""The screen of a running capture: its phases with their seconds, its output, and keys to end it."""

from __future__ import annotations

import signal
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from tracetui.capture.events import Cancelled, CaptureEvent, CaptureResult, Done, Failed
from tracetui.capture.options import PROGRAMS, CaptureOptions
from tracetui.capture.run import start
from tracetui.tui.bindings import bind
from tracetui.tui.capture.progress import Line, capture_lines
from tracetui.tui.footer import Footer
from tracetui.tui.line_widget import ScrolledLines
from tracetui.tui.screens.once import LeaveOnce

RUNNING = (("Esc", "cancel", "cancel"),)
PROGRAM = (("s", "stop it, keep what is recorded", "keep"), *RUNNING)
FAILED = (("Enter", "change and try again", "again"), ("Esc", "back", "cancel"), ("↑↓", "scroll", ""))
LOOKS = {
    "title": "accent", "done": "text", "now": "accent", "note": "warn", "output": "dim", "error": "bad"
}  # fmt: skip
"""The styles of the lines, by role."""


class CaptureView(ScrolledLines):
    """The lines of a capture."""

    DEFAULT_CSS = "CaptureView > .drawn--warn { text-style: none; }"

    def show(self, lines: list[Line]) -> None:
        self.lines = [[], *([(line.text, LOOKS[line.role])] for line in lines)]
        self.scroll_rows(0)


class CaptureScreen(LeaveOnce[CaptureResult | CaptureOptions]):
    """Runs a capture. The result: what was captured, or the options to try again, or None to go back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bind("escape,ctrl+c cancel", priority=True),
        *bind("enter again  q leave  s keep  up read(-1)  down read(1)  pageup read(-10)  pagedown read(10)"),
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
        self.program = options.kind in PROGRAMS
        self.footer = Footer(PROGRAM if self.program else RUNNING)
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
            self.footer.hints = FAILED
            self.footer.say("")

    def action_cancel(self) -> None:
        if self.capture.end is not None:
            self.dismiss(None)
        else:
            self.cancelling = True
            self.capture.cancel()
            self.footer.say("ending the capture and everything it started …")

    def action_keep(self) -> None:
        if self.program and self.capture.end is None:
            self.capture.stop(signal.SIGINT)
            self.footer.say("keeping what is recorded, and ending the program …")

    def action_again(self) -> None:
        """Back to the form, filled in as before."""
        if self.capture.end is not None:
            self.dismiss(self.options)

    def action_read(self, lines: int) -> None:
        self.view.scroll_rows(lines)

    def action_leave(self) -> None:
        if self.capture.end is not None:
            self.dismiss(None)

    def on_unmount(self) -> None:
        if self.capture.end is None:
            self.capture.cancel()
