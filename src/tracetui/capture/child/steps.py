"""Where a program's step ends: with its leading optimizer's, or with an annotation that the user names."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any

ENOUGH = 2
"""So many more steps than ever before without the leader's: then it has left the stage."""


class Leader:
    """Which of a program's optimizers ends its steps: the first, until another goes on without it.

    Several optimizers in turn (a GAN's, one per parameter) make one step together. A new one per task, or per
    phase of the training, takes over.
    """

    def __init__(self) -> None:
        self._leader: weakref.ref[Any] | None = None
        self._since: dict[int, int] = {}  # steps of others, by id, since the leader's last
        self._usual: dict[int, int] = {}  # the most of these between two steps of the leader
        self.names: list[str] = []
        """What counted, e.g. "SGD.step", in order."""

    def ends_step(self, optimizer: Any) -> bool:
        """Whether this step of an optimizer ends one of the program."""
        leader = self._leader() if self._leader is not None else None
        if optimizer is leader:
            for other, count in self._since.items():
                self._usual[other] = max(count, self._usual.get(other, 0))
            self._since = {}
            return True
        if leader is not None:
            key = id(optimizer)
            self._since[key] = self._since.get(key, 0) + 1
            if self._since[key] < self._usual.get(key, 0) + ENOUGH:
                return False
        self._leader = weakref.ref(optimizer)
        self._since, self._usual = {}, {}
        name = f"{type(optimizer).__name__}.step"
        if name not in self.names:
            self.names.append(name)
        return True


class Steps:
    """Calls `count` after each step of the program, in the thread that made it."""

    def __init__(self, count: Callable[[], object], annotation: str | None) -> None:
        self._count, self._annotation = count, annotation
        self._leader = Leader()
        self._due = threading.local()
        self._lock = threading.Lock()
        self.annotations: dict[str, None] = {}
        """The first names of annotations that were seen."""

    @property
    def names(self) -> list[str]:
        """What counted as a step so far."""
        return [self._annotation] if self._annotation else self._leader.names

    def install(self) -> None:
        """Begin to count. PyTorch has been imported."""
        from torch.autograd.profiler import record_function

        original = record_function.__exit__

        @functools.wraps(original)
        def leave(record: Any, *args: Any) -> Any:
            result = original(record, *args)
            self._left(record.name)
            return result

        record_function.__exit__ = leave
        if not self._annotation:
            from torch.optim.optimizer import register_optimizer_step_post_hook

            register_optimizer_step_post_hook(self._stepped)

    def _stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """torch's hook: its annotation has not ended yet, and a step's border must not cut it."""
        import torch

        if not torch.compiler.is_dynamo_compiling():
            self._due.optimizer = optimizer

    def _left(self, name: str) -> None:
        if self._annotation:
            if name == self._annotation:
                self._count()
            elif len(self.annotations) < 8 and not name.startswith("ProfilerStep#"):
                self.annotations[name] = None
            return
        optimizer = getattr(self._due, "optimizer", None)
        if optimizer is not None and name.startswith("Optimizer.step#"):
            self._due.optimizer = None
            with self._lock:
                ends = self._leader.ends_step(optimizer)
            if ends:
                self._count()
