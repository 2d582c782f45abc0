"""The end of a recording while a program is in the middle of things: none of them may outlive it.

PyTorch notes the end of an operator or annotation where it noted its begin. If that recording was stopped
meanwhile, its memory has been given back; with several threads, or if another recording runs by then, it
crashes.
"""

from __future__ import annotations

import functools
import sys
import threading
from time import sleep
from typing import Any

from .channel import OURS

IN_FLIGHT = 0.2
"""Seconds in which operators of other threads end, which nobody can ask."""
NOTING = 0.02
"""Seconds in which they are noted: where no other recording follows, they may end later."""


class OpenRanges:
    """Knows what `record_function` has opened."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[Any, int]] = {}

    def install(self) -> None:
        """Begin to watch. PyTorch has been imported."""
        from torch.autograd.profiler import record_function

        enter, leave = record_function.__enter__, record_function.__exit__

        @functools.wraps(enter)
        def entered(record: Any) -> Any:
            result = enter(record)
            self._open[id(record)] = record, threading.get_ident()
            return result

        @functools.wraps(leave)
        def left(record: Any, *args: Any) -> Any:
            self._open.pop(id(record), None)
            return leave(record, *args)

        record_function.__enter__, record_function.__exit__ = entered, left

    def settle(self, all_threads: bool, last: bool) -> None:
        """Call this before a recording is stopped: ends what is open, of all threads or of this one.

        With other threads at work, nothing new is noted from here on, and what they are in may end first.
        `last`: no other recording follows.
        """
        import torch

        for key, (record, thread) in list(self._open.items()):
            if all_threads or thread == threading.get_ident():
                self._open.pop(key, None)
                # That it ends once more later does nothing.
                torch.ops.profiler._record_function_exit._RecordFunction(record.record)
        if all_threads and set(sys._current_frames()) - OURS - {threading.get_ident()}:
            torch._C._autograd._clear_callbacks()
            sleep(NOTING if last else IN_FLIGHT)


def in_backward() -> bool:
    """Whether a backward pass is running, in which an annotation of autograd's is open."""
    import torch

    return bool(torch._C._current_graph_task_id() != -1)
