"""What screens ask of the app."""

from __future__ import annotations

from pathlib import Path

from textual.message import Message


class OpenTrace(Message):
    """Open a trace."""

    def __init__(self, path: str | Path) -> None:
        super().__init__()
        self.path = path


class WantCapture(Message):
    """Show the capture form."""


class NextTrace(Message):
    """Show the next trace of this session."""
