"""The threads that workers run in."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures.thread import ThreadPoolExecutor
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")


class Threads(ThreadPoolExecutor):
    """Threads in which each task has a context of its own. What a worker leaves in the context of its thread
    would keep a closed screen, with its trace, until that thread has something else to do."""

    def submit(self, function: Callable[..., T], /, *given: Any, **named: Any) -> Future[T]:
        return super().submit(Context().run, function, *given, **named)
