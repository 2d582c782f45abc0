"""Loading a trace in a thread: it can start before the app runs, reports progress, and can be cancelled."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tracetui.core.threads import import_numpy, run_parallel, share_free_memory, threads_for

if TYPE_CHECKING:
    from tracetui.session.recording import Recording
    from tracetui.trace.model import Trace


AFTER = 2.0
"""Seconds until a trace is written to the cache: it is on the screen by then."""


class LoadTask:
    """One trace being loaded in a thread. Its fields may be read from any thread."""

    def __init__(self, path: str | Path, draws: bool = False) -> None:
        """`draws`: whether the beginning of a large file is wanted before all of it is read."""
        self.path, self.draws = str(path), draws
        self.beginning: Future[None] = Future()
        """Done once the beginning of a large file can be drawn. It may never be."""
        self.part: Recording | None = None
        """The recording of the longest beginning so far, while the rest is read."""
        self.done = 0
        self.total = 0
        self.trace: Trace | None = None
        self.error: str | None = None
        """Why the file could not be loaded, in one safe line."""
        self.cancelled = False
        self.ended: Future[None] = Future()

    def start(self) -> LoadTask:
        """Start the thread. It is a daemon: it does not keep the program alive."""
        share_free_memory()
        threading.Thread(target=self._run, name="load trace", daemon=True).start()
        return self

    def cancel(self) -> None:
        """Ask the load to stop; it stops at its next progress report. What has been read is dropped."""
        self.cancelled, self.trace = True, None

    @property
    def share(self) -> float:
        """The share of the bytes that has been read, 0 to 1."""
        return min(1.0, self.done / self.total) if self.total else 0.0

    def _progress(self, done: int, total: int) -> bool:
        self.done, self.total = done, total
        return not self.cancelled

    def _show(self, part: Trace) -> None:
        """Called on the loading thread, then on others."""
        from tracetui.session.recording import Recording

        recording = Recording(part, part=True)
        if self.beginning.done():
            recording.prepare_part()
        self.part = recording
        if self.ended.done():
            self.part = None  # too late
        elif not self.beginning.done():
            self.beginning.set_result(None)

    def _run(self) -> None:
        try:
            # Imported here, in parallel with the start of the app.
            import_numpy()
            from tracetui.trace import Cancelled, TraceError, load

            # Imports what is needed next, while the file is read.
            threading.Thread(target=import_module, args=("tracetui.session.session",), daemon=True).start()
            try:
                show = self._show if self.draws else None
                loaded = load(self.path, self._progress, show=show)
                if self.cancelled:
                    raise Cancelled
                from tracetui.analysis.calls.graphs import with_module_lanes
                from tracetui.session.recording import Recording
                from tracetui.trace.saved import keep

                traces: list[Trace] = []
                tasks = [
                    lambda: traces.append(with_module_lanes(loaded)),
                    lambda: Recording.prepare(loaded),  # usually there are no such lanes
                ]
                run_parallel(tasks, threads_for(len(loaded)))
                trace = traces[0]
                if trace is not loaded:
                    Recording.prepare(trace)
                self.trace = trace
                keep(loaded, AFTER, lambda: Recording.keep_prepared(trace))
                # The loaded objects stay: without this, each full collection would visit all of them, which
                # costs a frame.
                if not self.cancelled:
                    gc.freeze()
            except TraceError as error:
                self.error = str(error)
            except Cancelled:
                self.cancelled = True
            except MemoryError:
                self.error = f"{self.name}: does not fit into this machine's memory"
        except Exception as error:
            from tracetui.core.safe_text import plain

            self.error = plain(f"{self.name}: could not be loaded ({type(error).__name__}: {error})", 400)
        finally:
            if self.cancelled:  # too late to stop
                self.trace = None
            self.ended.set_result(None)
            self.part = None

    @property
    def name(self) -> str:
        """The file's name, safe to show."""
        from tracetui.core.safe_text import plain

        return "standard input" if self.path == "-" else plain(Path(self.path).name, 80)
