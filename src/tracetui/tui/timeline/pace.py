"""Whether the terminal keeps up: a frame is drawn only when the one before it has left."""

from __future__ import annotations

import select
import sys
from typing import Any

from textual.app import App


def behind(app: App[Any]) -> bool:
    """Whether output still waits to be written (a slow link); a headless app never waits."""
    driver = app._driver
    thread = getattr(driver, "_writer_thread", None)
    queue = getattr(thread, "_queue", None)
    if queue is None:
        return False
    if queue.qsize():
        return True
    stream = sys.__stderr__  # where Textual writes to
    if stream is None:
        return False
    try:
        return not select.select([], [stream.fileno()], [], 0)[1]
    except (OSError, ValueError):
        return False
