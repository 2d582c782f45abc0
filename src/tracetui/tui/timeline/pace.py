"""When the next frame may be drawn: when the last one has left, and over SSH not too many a second."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from textual.app import App

from tracetui.tui.textual_private import behind

RETRY = 0.004
"""Seconds until a terminal that had not kept up is looked at again."""
SSH_FRAMES = 20
"""Frames a second over SSH, where nobody asks for others: 10 kB each of a held pan are 1.6 Mbit/s."""


def frame_limit(asked: int | None, environ: Mapping[str, str] = os.environ) -> int:
    """Frames a second at most, 0 for no limit: what the settings ask for, else by where the terminal is."""
    if asked is not None:
        return asked
    return SSH_FRAMES if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY") else 0


class Pace:
    """Holds frames back: a key after a pause is answered at once, keys that follow fast share a frame."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`limit`: frames a second, 0 for as many as there are."""
        self._clock = clock
        self.period = 1 / limit if limit else 0.0
        """Seconds between two frames at least."""
        self._next = 0.0

    def wait(self, app: App[Any]) -> float:
        """Seconds until it may be asked again whether to draw; 0.0: now, and the frame counts as drawn."""
        now = self._clock()
        if now < self._next:
            return self._next - now
        if behind(app):
            return RETRY
        self._next = now + self.period
        return 0.0
