"""How a program is ended once its recording is written: so that its own cleanup runs, and yet it ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from time import sleep
from typing import Any

from .channel import Channel, aside, flush

PATIENCE = 15.0
"""Seconds for a program to clean up and end before it is asked again."""
SOON = 1.0
"""Seconds before a main thread hears that the thread that trained has ended."""


def recorded(error: BaseException) -> BaseException:
    """What unwinds a program whose recording is written; its `finally` and `with` do their work.

    A `SystemExit`, since asyncio, thread pools and frameworks let that through, and threads end by it.
    """
    error.tracetui = True  # type: ignore[attr-defined]
    return error


class Ender:
    """Ends this program, gently first."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._raised = 0
        self.begun = False
        self.main_ended = False
        """Whether the main thread has ended the program: to interrupt it would only disturb its exit."""
        self.exit = os._exit
        """What ends the process at once."""

    def raise_here(self) -> None:
        """Called between two steps, in the thread that trains: raises `recorded`.

        Called again: the program caught it and goes on, so it is asked as by Ctrl+C. Then it ends here.
        """
        self._raised += 1
        main = threading.current_thread() is threading.main_thread()
        if self._raised > 3:
            self.leave()
        self._begin(PATIENCE if main and self._raised == 1 else SOON)
        if loops := sys.modules.get("asyncio.base_events"):
            _say_nothing_of_it(loops)
        if main:
            stop_timer()  # of the step that has ended: it must not go off while the program cleans up
        raise recorded(KeyboardInterrupt() if main and self._raised > 1 else SystemExit(0))

    def interrupt(self) -> None:
        """Called in a thread of ours: the program is asked to end as by Ctrl+C."""
        self._begin(0.0)

    def _begin(self, seconds: float) -> None:
        if not self.begun:
            self.begun = True
            self._channel.send("ending")
            aside(self._insist, seconds)

    def _insist(self, seconds: float) -> None:
        sleep(seconds)
        for wait in (PATIENCE, PATIENCE):
            self._interrupt_main()
            sleep(wait)
        if hasattr(signal, "SIGTERM") and callable(signal.getsignal(signal.SIGTERM)):
            os.kill(os.getpid(), signal.SIGTERM)
            sleep(PATIENCE)
        self.leave()

    def _interrupt_main(self) -> None:
        if self.main_ended:
            return
        if sys.platform == "win32":
            import _thread

            _thread.interrupt_main()
        else:
            os.kill(os.getpid(), signal.SIGINT)

    def leave(self) -> None:
        """End now: what is registered to run at exit runs, what is printed comes out."""
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()
        flush()
        self.exit(0)


def stop_timer() -> tuple[float, float]:
    """Stop the program's timer, as of `signal.alarm`; returns the seconds left, and its interval."""
    return signal.setitimer(signal.ITIMER_REAL, 0) if hasattr(signal, "setitimer") else (0.0, 0.0)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl+C does not lose what there is: the program gets it afterwards.

    Nor does the program's timer go on: what we take here is no part of the step that it guards.
    """
    if threading.get_ident() != threading.main_thread().ident:
        yield  # only the main one is interrupted
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    left = stop_timer()
    try:
        yield
    finally:
        if any(left):
            signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
        if pressed:
            signal.raise_signal(signal.SIGINT)


def _say_nothing_of_it(loops: Any) -> None:
    """An event loop reports a task that ended by an error that nobody asked for."""
    kind = loops.BaseEventLoop
    original = kind.call_exception_handler

    def call(loop: Any, context: dict[str, Any]) -> None:
        if not hasattr(context.get("exception"), "tracetui"):
            original(loop, context)

    if original.__name__ != call.__name__:
        kind.call_exception_handler = call
