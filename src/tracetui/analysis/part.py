"""A trace, or a part of it, with the facts that were found out about it: each is computed once, cached, and
shared by reports, tables, panes and rules.

A fact is a function of a part. Its first call computes it in the calling thread; later calls are free.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

from msgspec import Struct

from tracetui.core import threads
from tracetui.trace.model import Trace

T = TypeVar("T")

NO_STEP = -1
_NONE: Any = object()


class Scope(Struct, frozen=True):
    """A range of time [start, end) in ns. `by_launch`: device events belong where their launch is."""

    kind: str
    """One of "whole", "step", "range", "viewport"."""
    start: int = 0
    end: int = 0
    label: str = "whole trace"
    """Ready to show."""
    by_launch: bool = False
    step: int = NO_STEP
    """Index into the trace's steps, for kind "step"."""


WHOLE = Scope("whole")


class Part:
    """A trace or, if made by `in_scope`, a part of it."""

    def __init__(self, trace: Trace, scope: Scope = WHOLE, whole: Part | None = None) -> None:
        self.trace = trace
        self.scope = scope
        self._whole = whole
        """None for the whole itself: a reference cycle would keep the trace alive until the next gc run."""
        self._cached: dict[object, Any] = {}
        self._locks: dict[object, threading.Lock] = {}
        self._lock = threading.Lock()
        self._part: Part | None = None

    @property
    def whole(self) -> Part:
        """The whole trace."""
        return self._whole or self

    @property
    def is_whole(self) -> bool:
        return self._whole is None

    @property
    def span(self) -> tuple[int, int]:
        """(start, end) of the scope, in ns."""
        return self.trace.span if self.is_whole else (self.scope.start, self.scope.end)

    @property
    def length(self) -> int:
        """The length of the span, in ns."""
        return self.span[1] - self.span[0]

    def in_scope(self, scope: Scope | None) -> Part:
        """A part of the trace. Only the facts of the latest part are cached."""
        whole = self.whole
        if scope is None or scope.kind == "whole":
            return whole
        with whole._lock:
            if whole._part is None or whole._part.scope != scope:
                whole._part = Part(whole.trace, scope, whole)
            return whole._part

    def cached(self, key: object, make: Callable[[], T]) -> T:
        """The cached result under this key (a fact, or a tuple that begins with one), computed by `make` on
        the first call."""
        found: T = self._cached.get(key, _NONE)
        if found is not _NONE:
            return found
        # One lock per key: a thread that wants the gaps does not wait for the averages.
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            found = self._cached.get(key, _NONE)
            if found is _NONE:
                threads.yield_to_ui()
                found = self._cached[key] = make()
            return found

    def forget(self, *facts: object) -> None:
        """Where memory is short, drop these facts: they are computed again when needed."""
        if threads.is_short_of_memory(len(self.trace)):
            for key in list(self._cached):
                if (key[0] if isinstance(key, tuple) else key) in facts:
                    self._cached.pop(key, None)

    def knows(self, fact: object) -> bool:
        """Whether this fact is in the cache."""
        return fact in self._cached


def fact(make: Callable[[Part], T]) -> Callable[[Part], T]:
    """A function of a part whose result is computed once and cached with the part."""

    @wraps(make)
    def result(part: Part) -> T:
        return part.cached(result, partial(make, part))

    return result


def fact_of_trace(make: Callable[[Part], T]) -> Callable[[Part], T]:
    """Like `fact`, for a result that is the same for every part of the trace: `make` gets the whole."""

    @wraps(make)
    def result(part: Part) -> T:
        return part.whole.cached(result, partial(make, part.whole))

    return result
