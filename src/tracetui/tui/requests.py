"""Messages with which screens ask the app for something."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message
from textual.screen import Screen

if TYPE_CHECKING:
    from tracetui.session.recording import Recording


class OpenTrace(Message):
    """Open a trace. `beside`: the recording to compare it with, which becomes A."""

    def __init__(self, path: str | Path, beside: Recording | None = None) -> None:
        super().__init__()
        self.path, self.beside = path, beside


class EndComparison(Message):
    """Show one of a screen's recordings alone, and close that screen."""

    def __init__(self, screen: Screen[None], recording: Recording) -> None:
        super().__init__()
        self.screen, self.recording = screen, recording
