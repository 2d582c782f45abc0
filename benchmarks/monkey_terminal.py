"""The app on a pseudo-terminal in this process: what it writes is drawn, keys and the mouse come as bytes.

Textual's Pilot runs an app without a terminal: it never writes a line, reads a byte or hears of a new size.
"""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import queue
import signal
import struct
import sys
import termios
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pyte
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.app import App, ScreenStackError
from textual.keys import key_to_character
from textual.pilot import Pilot

from monkey_acts import Act

AFTER_ESCAPE = 0.006
"""Seconds until Esc counts as a key of its own, with ESCDELAY=5."""
LONGEST = 20.0
"""Seconds in which the app must begin, end, or show what it means to."""
BYTES = {
    keys[0].value: text
    for text, keys in sorted(ANSI_SEQUENCES_KEYS.items(), key=lambda item: -len(item[0]))
    if isinstance(keys, tuple) and len(keys) == 1
}
BYTES |= {"enter": "\r", "tab": "\t", "escape": "\x1b", "space": " ", "backspace": "\x7f"}
BUTTONS = {1: 0, 2: 1, 3: 2}
HELD = {"": 0, "shift": 4, "ctrl": 16}
WHEEL = {"wheel up": 64, "wheel down": 65}
BROKEN = b"\xff\xfe\xc3"


class Terminal:
    """A pseudo-terminal in place of this process's own, from which it takes descriptors 0, 1 and 2."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self.screen)
        self._came: queue.SimpleQueue[bytes | tuple[int, int]] = queue.SimpleQueue()
        self.master, terminal = os.openpty()
        self._tell_size(size)
        for descriptor in (0, 1, 2):
            os.dup2(terminal, descriptor)
        os.close(terminal)
        # Whatever they were before, such as a file.
        raw = (io.FileIO(n, "r" if n == 0 else "w", closefd=False) for n in (0, 1, 2))
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = (
            io.TextIOWrapper(each, "utf-8", write_through=True) for each in raw
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        with suppress(OSError):
            while data := os.read(self.master, 1 << 16):
                self._came.put(data)

    def _tell_size(self, size: tuple[int, int]) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))

    def resize(self, size: tuple[int, int]) -> None:
        """Take another size (columns, lines), and say so as the system does."""
        self._came.put(size)
        self._tell_size(size)
        os.kill(os.getpid(), signal.SIGWINCH)

    async def send(self, data: bytes) -> None:
        """Send what a key or the mouse sends, and wait until it is read."""
        os.write(self.master, data)
        end = time.monotonic() + LONGEST
        while time.monotonic() < end:
            waiting = fcntl.ioctl(0, termios.FIONREAD, b"\0" * 4)
            await asyncio.sleep(0.001)
            if not any(waiting):
                return
        raise TimeoutError("the app does not read its keys")

    def lines(self) -> list[str]:
        """What the terminal shows now."""
        while not self._came.empty():
            came = self._came.get()
            if isinstance(came, bytes):
                self._stream.feed(came)
            else:
                self.screen.resize(came[1], came[0])
                for line in self.screen.buffer.values():
                    line.clear()  # terminals differ in what they do with their lines
        return self.screen.display


def bytes_of(act: Act, size: tuple[int, int]) -> list[bytes]:
    """What a terminal of this size (columns, lines) sends."""
    if act.kind == "odd":
        return [BROKEN, *(text.encode() for text in act.keys)]
    if act.kind == "keys":
        return [(BYTES.get(key) or key_to_character(key) or "").encode() for key in act.keys]

    def mouse(place: tuple[float, float], button: int, sign: str = "M") -> bytes:
        x, y = int(place[0] * size[0]) + 1, int(place[1] * size[1]) + 1
        return f"\x1b[<{button + HELD[act.held]};{x};{y}{sign}".encode()

    if act.kind == "move":
        return [mouse(act.at, 35)]
    if act.kind in WHEEL:
        return [mouse(act.at, WHEEL[act.kind])]
    button = BUTTONS[act.button]
    if act.kind == "click":
        return [mouse(act.at, button), mouse(act.at, button, "m")]
    middle = ((act.at[0] + act.to[0]) / 2, (act.at[1] + act.to[1]) / 2)
    moves = [mouse(place, 32) for place in (act.at, middle, act.to)]
    return [mouse(act.at, 0), *moves, mouse(act.to, 0, "m")]


def meant(app: App[Any]) -> list[str]:
    """The lines that the app means to show."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


class Hand(Pilot[Any]):
    """What uses the app at its terminal."""

    def __init__(self, app: App[Any], terminal: Terminal) -> None:
        super().__init__(app)
        self.terminal = terminal

    async def do(self, act: Act) -> None:
        """Do one thing, and wait until the app has come to rest."""
        if act.kind == "resize":
            self.terminal.resize(act.size)
        elif act.kind == "pause":
            await self.pause(0.15)
        else:
            for data in bytes_of(act, self.app.size):
                await self.terminal.send(data)
                if data == b"\x1b":
                    await asyncio.sleep(AFTER_ESCAPE)
        await self.pause(0)

    async def wrong_picture(self) -> str:
        """How the terminal's lines differ from those that the app means to show; "" if they soon agree."""
        screen, end = self.terminal.screen, time.monotonic() + LONGEST
        while self.app.is_running:
            size, wanted, shown = self.app.screen.size, meant(self.app), self.terminal.lines()
            if wanted == shown and size == (screen.columns, screen.lines):
                return ""
            if time.monotonic() > end:
                rows = [n for n, pair in enumerate(zip(wanted, shown, strict=False)) if pair[0] != pair[1]]
                found = "".join(f"\n  {n}: meant {wanted[n]!r}\n  {n}: shown {shown[n]!r}" for n in rows[:4])
                return f"{self.app.screen} of {size} on {screen.columns}x{screen.lines}{found}"
            await self.pause(0.02)
        return ""


@asynccontextmanager
async def running(app: App[Any], terminal: Terminal) -> AsyncIterator[Hand]:
    """Run an app on this terminal. Raises what ended it."""
    task = asyncio.create_task(app.run_async())
    end = time.monotonic() + LONGEST
    while not (app.is_running and app.screen_stack and app.screen.size) and not task.done():
        await asyncio.sleep(0.01)
        if time.monotonic() > end:
            raise TimeoutError("the app does not begin")
    try:
        with app._context():
            yield Hand(app, terminal)
    except ScreenStackError:  # it has ended meanwhile
        if app.is_running:
            raise
    finally:
        await asyncio.wait_for(task, LONGEST)
    if app._exception is not None:
        raise app._exception
