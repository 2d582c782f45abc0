"""Loading off the UI's thread: it may begin before the app runs, tells how far it is, and can be stopped."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracetui.trace.model import Trace


class LoadTask:
    """One trace being loaded in a thread. Read its fields from any thread; they only ever move forward."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.done = 0
        self.total = 0
        self.trace: Trace | None = None
        self.error: str | None = None
        """One line, safe to show, where the file could not be opened."""
        self.cancelled = False
        self.finished = threading.Event()
        self._callbacks: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def start(self) -> LoadTask:
        """Begin. The thread is a daemon: it never keeps a program alive that wants to end."""
        threading.Thread(target=self._run, name="load trace", daemon=True).start()
        return self

    def cancel(self) -> None:
        """Ask the load to stop; it ends at its next progress report."""
        self.cancelled = True

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call back once it has ended, from the loading thread, or right now where it has ended already."""
        with self._lock:
            if not self.finished.is_set():
                self._callbacks.append(callback)
                return
        callback()

    @property
    def share(self) -> float:
        """How much of the bytes has been read, 0 to 1."""
        return min(1.0, self.done / self.total) if self.total else 0.0

    def _progress(self, done: int, total: int) -> bool:
        self.done, self.total = done, total
        return not self.cancelled

    def _run(self) -> None:
        try:
            # Imported here, so that it runs beside the app's own start.
            from tracetui.trace import Cancelled, TraceError, load

            try:
                self.trace = load(self.path, self._progress)
                # The loaded objects stay: without this, each full collection looks at all of them again, and
                # costs a frame.
                gc.freeze()
            except TraceError as error:
                self.error = str(error)
            except Cancelled:
                self.cancelled = True
            except MemoryError:
                self.error = f"{self.name}: does not fit into this machine's memory"
        except Exception as error:
            from tracetui.safe_text import plain

            self.error = plain(f"{self.name}: could not be loaded ({type(error).__name__}: {error})", 400)
        finally:
            with self._lock:
                self.finished.set()
                callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()

    @property
    def name(self) -> str:
        """The file's name, safe to show."""
        from tracetui.safe_text import plain

        return "standard input" if self.path == "-" else plain(Path(self.path).name, 80)
