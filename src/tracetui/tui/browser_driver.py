"""Textual's driver for a browser, for a viewer that must neither outlive its server nor grow without bound.

`tracetui serve` names it to Textual (TEXTUAL_DRIVER). `cli/server.py` is at the other end of the pipes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import deque
from concurrent import futures
from contextlib import suppress
from typing import Any, BinaryIO, TextIO

from textual.app import App, ScreenStackError
from textual.drivers.web_driver import WebDriver
from textual.message import Message

AHEAD = 200
"""Keys and moves of the mouse that the app is given before it has dealt with earlier ones."""
MOST_FILES = 4
"""Files that can be downloaded, each held in memory: the last ones."""


class BrowserDriver(WebDriver):
    """Ends the process with its standard input, and takes input only as fast as the app deals with it."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        super().__init__(app, **options)
        self._viewer, self._sending, self._given = app, threading.Lock(), 0
        self._running = asyncio.get_running_loop()
        self._offered: deque[BinaryIO | TextIO] = deque()

    def write(self, data: str) -> None:
        with self._sending:  # the thread that reads the input writes, too, and packets must stay whole
            super().write(data)

    def write_meta(self, data: dict[str, object]) -> None:
        with self._sending:
            super().write_meta(data)

    def write_binary_encoded(self, data: tuple[str | bytes, ...]) -> None:
        """A part of a file: `("deliver_chunk", key, part)`. As the key, a new line, and the part."""
        _, key, part = (one.encode() if isinstance(one, str) else one for one in data)
        packet = key + b"\n" + part
        with self._sending:
            os.write(self.fileno, b"P" + len(packet).to_bytes(4, "big") + packet)

    def run_input_thread(self) -> None:
        super().run_input_thread()
        if not self.exit_event.is_set():  # the server is gone, or this thread has failed
            with suppress(OSError):
                os.write(2, b"tracetui: its input has ended, or is more than fits into its memory\n")
            os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))

    def process_message(self, message: Message) -> None:
        super().process_message(message)
        self._hold_back()

    def on_meta(self, packet_type: str, payload: dict[str, object]) -> None:
        super().on_meta(packet_type, payload)
        self._hold_back()

    def _hold_back(self) -> None:
        """Wait, on the thread that reads the input, while the app is behind."""
        self._given += 1
        while self._given >= AHEAD and not self.exit_event.wait(0.01):
            with suppress(futures.TimeoutError, ScreenStackError):  # busy; it begins, or ends
                self._given = asyncio.run_coroutine_threadsafe(self._waiting(), self._running).result(1)

    async def _waiting(self) -> int:
        """How many messages the app has still to deal with. Runs after all that was given to the loop."""
        app = self._viewer
        return max(one.message_queue_size for one in (app, app.screen, app.focused or app))

    def deliver_binary(self, binary: BinaryIO | TextIO, **facts: Any) -> None:
        self._offered.append(binary)
        if len(self._offered) > MOST_FILES:
            self._offered.popleft().close()
        super().deliver_binary(binary, **facts)
