"""When to draw the next frame: once the last one is sent, and over SSH not too often."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from textual.app import App

from tracetui.tui.textual_private import behind

RETRY = 0.004
"""Seconds between checks of a terminal that cannot keep up."""
SSH_FRAMES = 20
"""Default frames per second over SSH: at 10 kB each, a held pan sends 1.6 Mbit/s."""


def frame_limit(asked: int | None, environ: Mapping[str, str] = os.environ) -> int:
    """The most frames per second, 0 for no limit: from the settings, else limited over SSH only."""
    if asked is not None:
        return asked
    return SSH_FRAMES if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY") else 0


class Pace:
    """Limits the frames: a key after a pause is answered at once, fast keys share a frame."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`limit`: frames per second, 0 for no limit."""
        self._clock = clock
        self.period = 1 / limit if limit else 0.0
        """Least seconds between two frames."""
        self._next = 0.0

    def wait(self, app: App[Any]) -> float:
        """Seconds to wait before asking again. 0.0: draw now; the frame then counts as drawn."""
        now = self._clock()
        if now < self._next:
            return self._next - now
        if behind(app):
            return RETRY
        self._next = now + self.period
        return 0.0
