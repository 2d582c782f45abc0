"""Profilers that a program starts by itself: seen where all of them begin, and left alone or switched off."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ..sources import CUSPY, KINETO, source
from .frames import OWN_CODE


class Nothing:
    """The results of a profiler that was switched off: no events."""

    def events(self) -> list[object]:
        return []

    def experimental_event_tree(self) -> list[object]:
        return []

    def trace_start_ns(self) -> int:
        return 0

    def save(self, path: str) -> None:
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": []}, file)


class _Calls(threading.local):
    """Of one thread: whether it is starting or stopping ours, and whether it is in an export of a trace."""

    ours = inside = False


class OwnProfilers:
    """Watches the two functions in which every profiler of PyTorch begins.

    `before` is called when one of the program's own is about to, with the name of it that is to record a GPU,
    or none; with `off` it records nothing instead.
    """

    def __init__(self, before: Callable[[str], object], off: bool) -> None:
        self._before, self._off = before, off
        self._calls = _Calls()
        self._pid = os.getpid()
        self.seen = False
        """Whether one has begun."""
        self.traces: list[str] = []
        """Absolute paths of the traces that they wrote, in order."""

    @contextlib.contextmanager
    def ours(self) -> Iterator[None]:
        """What this thread starts and stops in here is our own profiler."""
        before, self._calls.ours = self._calls.ours, True
        try:
            yield
        finally:
            self._calls.ours = before

    def _theirs(self) -> bool:
        return not self._calls.ours and os.getpid() == self._pid

    def install(self) -> None:
        """Begin to watch. PyTorch has been imported."""
        from torch.autograd import profiler
        from torch.profiler import profile

        modules = [profiler, sys.modules.get("torch.autograd.profiler_legacy")]
        for module in modules:
            for name in ("_prepare_profiler", "_enable_profiler", "_enable_profiler_legacy"):
                if hasattr(module, name):
                    setattr(module, name, self._begin(getattr(module, name)))
        if self._off:
            profiler._disable_profiler = self._end(profiler._disable_profiler)
        base = profile.__mro__[1]
        base.__init__ = self._made(base.__init__)
        profile.__init__ = self._made(profile.__init__)
        for kind in (profiler.profile, base):
            kind.export_chrome_trace = self._exported(kind.export_chrome_trace)

    def takes_the_gpu(self) -> bool:
        """Whether the program seems to use Cuspy, PyTorch 2.15's second profiler, at some time.

        It cannot record a GPU that Kineto has recorded before in the same process.
        """
        if self._off or not hasattr(sys.modules["torch.profiler"], "CuspyConfig"):
            return False
        self.seen = self.seen or any(CUSPY.search(text) for text in map(source, _loaded()))
        return self.seen

    def takes_kineto(self) -> bool:
        """Whether it seems to use Kineto, which cannot record a GPU either where Cuspy has.

        Judging by its own files alone: many libraries could, and do not.
        """
        library = os.path.dirname(os.__file__)
        own = [name for name in _loaded() if "-packages" not in name and not name.startswith(library)]
        return not self._off and any(
            KINETO.search(text) and not CUSPY.search(text) for text in map(source, own)
        )

    def _begin(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def begin(*args: Any, **kwargs: Any) -> Any:
            if self._theirs():
                self.seen = True
                if self._off:
                    return None
                self._before("Kineto" if "CUDA" in repr(args) else "")
            return original(*args, **kwargs)

        return begin

    def _end(self, original: Callable[[], Any]) -> Callable[[], Any]:
        @functools.wraps(original)
        def end() -> Any:
            return Nothing() if self._theirs() else original()

        return end

    def _made(self, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def init(profiler: Any, *args: Any, **kwargs: Any) -> None:
            original(profiler, *args, **kwargs)
            if not self._theirs():
                return
            cuspy = getattr(profiler, "_use_cuspy", False)
            if self._off:
                profiler.record_steps = False  # its ProfilerStep#N would be in our recording
                profiler._use_cuspy, profiler._cuspy_config = False, None
            elif cuspy:
                self.seen = True
                self._before("Cuspy")

        return init

    def _exported(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def export(profiler: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
            target = os.path.abspath(path)
            if self._calls.ours or self._calls.inside:
                return original(profiler, path, *args, **kwargs)
            self._calls.inside = True
            try:
                result = original(profiler, path, *args, **kwargs)
            finally:
                self._calls.inside = False
            if not self._off and os.getpid() == self._pid:
                # Cuspy packs what it writes, whatever the name, and may do so later.
                cuspy = getattr(profiler, "_use_cuspy", False)
                if cuspy and not target.endswith(".gz"):
                    target += ".gz"
                if cuspy or os.path.isfile(target):
                    self.traces = [*(path for path in self.traces if path != target), target]
            return result

        return export


def _loaded() -> list[str]:
    """The files of the modules that the program has imported, without PyTorch's and ours."""
    others = (os.path.dirname(sys.modules["torch"].__file__ or ""), OWN_CODE)
    files = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    return [name for name in files if name.endswith(".py") and not name.startswith(others)]
