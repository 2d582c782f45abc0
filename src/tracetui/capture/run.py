"""Start and follow a capture: `start` returns a `Capture`, which yields events and can be cancelled."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import IO, Any

from tracetui.capture.events import (
    Cancelled,
    CaptureEvent,
    Done,
    Failed,
    Note,
    Output,
    Phase,
    Progress,
    phase_times,
)
from tracetui.capture.files import Scratch, make_scratch, publish
from tracetui.capture.interpreter import find_python
from tracetui.capture.options import WARMUP_STEPS, CaptureOptions
from tracetui.capture.process import Child, StartError

TAIL_LINES = 20
"""Number of last printed lines in a failure."""
LINE_LIMIT = 2000
"""Longer printed lines are cut to this many characters."""
KEPT_LINES = 10_000
"""Printed lines that a `Capture` keeps as events; later ones only go to `on_event`."""
GRACE_SECONDS = 2.0
"""From SIGTERM to SIGKILL."""
EXIT_SECONDS = 15.0
"""How long a child may take to exit after its last event (exit handlers of user code)."""


def start(options: CaptureOptions, on_event: Callable[[CaptureEvent], object] | None = None) -> Capture:
    """Start a capture in a child process and return at once.

    Raises `OptionError` for invalid options; everything else that goes wrong is a `Failed` event.
    `on_event` is called from background threads, one call at a time, and must not raise.
    The last event is `Done`, `Failed` or `Cancelled`; the child and everything it started have ended by then.
    """
    options.check()
    return Capture(options, on_event)


class Capture:
    """A running capture. Iterate over it for its events (from the first one, as often as you like)."""

    def __init__(self, options: CaptureOptions, on_event: Callable[[CaptureEvent], object] | None) -> None:
        self.options = options
        self._on_event = on_event
        self._events: list[CaptureEvent] = []
        self._printed = 0
        self._news = threading.Condition()
        self._telling = threading.Lock()
        self._began = time.monotonic()
        self._child: Child | None = None
        self._cancelled = False
        self._last: dict[str, Any] | None = None  # the child's "done" or "failed"
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        # A daemon: if the program ends without waiting, so does the capture, through the child's stdin.
        threading.Thread(target=self._run, name="capture", daemon=True).start()

    @property
    def elapsed(self) -> float:
        """Seconds since the start, or until the end of the capture."""
        end = self.end
        return end.elapsed if end is not None else time.monotonic() - self._began

    @property
    def events(self) -> tuple[CaptureEvent, ...]:
        """The events so far."""
        with self._news:
            return tuple(self._events)

    @property
    def end(self) -> Done | Failed | Cancelled | None:
        """The last event; None while the capture runs."""
        last = self._events[-1] if self._events else None
        return last if isinstance(last, Done | Failed | Cancelled) else None

    @property
    def pid(self) -> int | None:
        """The child's process id; None before it is started."""
        return self._child.pid if self._child else None

    def __iter__(self) -> Iterator[CaptureEvent]:
        """All events, waiting for each, until the last one."""
        i = 0
        while True:
            with self._news:
                while i >= len(self._events):
                    self._news.wait(0.5)  # with a timeout: Ctrl+C must work on every system
                event = self._events[i]
            yield event
            if isinstance(event, Done | Failed | Cancelled):
                return
            i += 1

    def wait(self) -> Done | Failed | Cancelled:
        """Wait for the end and return the last event."""
        *_, end = self
        assert isinstance(end, Done | Failed | Cancelled)
        return end

    def cancel(self) -> None:
        """End the child and everything that it started. Returns at once; `Cancelled` follows within seconds.

        Does nothing if the capture has ended.
        """
        with self._news:
            self._cancelled = True
            child = self._child
        if child is not None and not child.reaped:
            child.terminate()
            self._kill_after(GRACE_SECONDS, child)

    def _kill_after(self, seconds: float, child: Child) -> None:
        def kill() -> None:
            if self.end is None and not child.reaped:
                child.kill()

        timer = threading.Timer(seconds, kill)
        timer.daemon = True
        timer.start()

    def _emit(self, event: CaptureEvent) -> None:
        # Two locks: a callback may wait for a thread that is about to read our events.
        with self._telling:
            with self._news:
                self._printed += isinstance(event, Output)
                if not isinstance(event, Output) or self._printed <= KEPT_LINES:
                    self._events.append(event)
                self._news.notify_all()
            if self._on_event is not None:
                self._on_event(event)

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _run(self) -> None:
        scratch: Scratch | None = None
        self._emit(Progress(0.0, Phase.STARTING))
        try:
            scratch = make_scratch(self.options)
            status = self._follow(scratch)
            end = self._conclude(scratch, status)
        except StartError as error:
            end = Failed(self._now(), error.kind, str(error))
        except OSError as error:
            end = Failed(self._now(), "disk", _disk_message(self.options.output, error))
        except Exception as error:
            end = Failed(self._now(), "internal", f"internal error: {type(error).__name__}: {error}")
        if scratch is not None:
            scratch.remove()
        if isinstance(end, Failed) and self._cancelled:
            end = Cancelled(self._now())
        self._emit(end)

    def _follow(self, scratch: Scratch) -> int:
        """Run the child to its end and pass on its events; returns its exit status."""
        python, said = find_python(self.options.python)
        if said:
            self._emit(Note(self._now(), "python", _safe(said)))
        child = Child(python)
        with self._news:
            self._child = child
            cancelled = self._cancelled
        if cancelled:
            child.kill()
        job = asdict(self.options) | {
            "kind": self.options.kind,
            "params": self.options.values(),
            "warmup_steps": WARMUP_STEPS,
            "by_device": {
                device: {"dtype": options.dtype, "stem": options.stem}
                for device in ("cuda", "xpu", "cpu")
                for options in (self.options.on(device),)
            },
            "directory": str(scratch.directory),
        }
        child.send(json.dumps(job).encode("ascii") + b"\n")
        events, output = child.process.stdout, child.process.stderr
        assert events is not None
        assert output is not None
        readers = [
            threading.Thread(target=self._read_events, args=(events, child), daemon=True),
            threading.Thread(target=self._read_output, args=(output,), daemon=True),
        ]
        for reader in readers:
            reader.start()
        status = child.wait()
        for reader in readers:
            reader.join(5.0)  # the pipes close with the last process that has them open
        return status

    def _read_events(self, pipe: IO[bytes], child: Child) -> None:
        for line in pipe:
            with suppress(ValueError, KeyError):  # only the child writes here; skip truncated lines
                message = json.loads(line)
                if message["event"] == "phase":
                    phase = Phase(message["phase"])
                    counts = int(message["step"]), int(message["steps"])
                    self._emit(Progress(self._now(), phase, _safe(message["detail"]), *counts))
                elif message["event"] == "note":
                    self._emit(Note(self._now(), message["kind"], _safe(message["text"])))
                else:
                    self._last = message
                    self._kill_after(EXIT_SECONDS, child)

    def _read_output(self, pipe: IO[bytes]) -> None:
        for raw in pipe:
            # A progress bar rewrites its line: only the last state counts.
            text = raw.decode("utf-8", "replace").rstrip("\r\n").rpartition("\r")[2][:LINE_LIMIT]
            if text.startswith("USDT:"):
                continue  # Kineto's own probes, printed by torch 2.13
            self._tail.append(text)
            self._emit(Output(self._now(), text))

    def _conclude(self, scratch: Scratch, status: int) -> Done | Failed | Cancelled:
        last = self._last or {}
        if self._cancelled:
            return Cancelled(self._now())
        notes = tuple(event for event in self.events if isinstance(event, Note))
        if last.get("event") == "done":
            seconds = {phase.value: round(s, 3) for phase, s in phase_times(self.events, self._now())}
            info = {**last["info"], "seconds": seconds}
            result = publish(self.options, scratch, last["files"], info, notes)
            return Done(self._now(), result)
        if last.get("event") == "failed":
            kind = str(last["kind"])
            tail = self._safe_tail() if kind in ("workload", "out_of_memory") else ()
            return Failed(self._now(), kind, _safe(str(last["message"])), tail)
        if status >= 0 and not any(
            isinstance(e, Progress) and e.phase is not Phase.STARTING for e in self.events
        ):
            text = f"{self.options.python or 'Python'} did not run the capture (exit status {status})"
            return Failed(self._now(), "no_python", text, self._safe_tail())
        return Failed(self._now(), "killed", f"the capture {_how_it_ended(status)}", self._safe_tail())

    def _safe_tail(self) -> tuple[str, ...]:
        return tuple(_safe(line) for line in self._tail if line.strip())


def _safe(text: str) -> str:
    from tracetui.safe_text import plain

    return plain(text.replace("\t", "    "))


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"process ended unexpectedly, with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if name == "SIGKILL":
        name += "; out of memory?"
    return f"process was killed ({name})"


def _disk_message(output: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"cannot write to {output}: no such directory"
    return f"cannot write to {output}: {error.strerror or error}"
