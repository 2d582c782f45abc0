"""Start and follow a capture: `start` returns a `Capture`, which yields events and can be cancelled."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from tracetui.capture.events import (
    Cancelled,
    CaptureEvent,
    CaptureResult,
    Done,
    Failed,
    Note,
    Output,
    Phase,
    Progress,
    phase_times,
)
from tracetui.capture.files import Scratch, amend, publish, scratch_of
from tracetui.capture.interpreter import find_python
from tracetui.capture.options import PROGRAMS, WARMUP_STEPS, CaptureOptions
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
"""How long a workload or a callable may take to exit after its last event."""
STOP_SECONDS = 30.0
"""How long the child may take to write what there is once it is to stop."""
LAST_SECONDS = 120.0
"""How long a program may take to end after its recording is written: see child/ending.py."""


def start(
    options: CaptureOptions,
    on_event: Callable[[CaptureEvent], object] | None = None,
    inherit: bool = False,
) -> Capture:
    """Start a capture in a child process and return at once.

    Raises `OptionError` for invalid options; everything else that goes wrong is a `Failed` event.
    `on_event` is called from background threads, one call at a time, and must not raise.
    The last event is `Done`, `Failed` or `Cancelled`; the child has ended by then, and all that it started,
    except for what a program of the user's own leaves running. `inherit`: the program gets this process's
    standard streams, so that there is no `Output`.
    """
    options.check()
    return Capture(options, on_event, inherit)


class Capture:
    """A running capture. Iterate over it for its events (from the first one, as often as you like)."""

    def __init__(
        self,
        options: CaptureOptions,
        on_event: Callable[[CaptureEvent], object] | None,
        inherit: bool = False,
    ) -> None:
        self.options = options
        self._inherit = inherit
        self._on_event = on_event
        self._events: list[CaptureEvent] = []
        self._printed = 0
        self._news = threading.Condition()
        self._telling = threading.Lock()
        self._began = time.monotonic()
        self._child: Child | None = None
        self._cancelled = False
        self._said: dict[str, dict[str, Any]] = {}  # the child's last words, by kind
        self._result: CaptureResult | None = None
        self._publishing: OSError | None = None  # why the files could not be moved to their names
        self._signaled = False
        self._stopping = threading.Event()
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
        """End the child and everything that it started. Returns at once; the last event follows in seconds.

        That is `Cancelled`, or `Done` if the files had been written. Does nothing if the capture has ended.
        """
        with self._news:
            self._cancelled = True
            child = self._child
        if child is not None and not child.reaped:
            child.terminate()
            self._kill_after(GRACE_SECONDS, child)

    def stop(self, number: int) -> None:
        """Have a program's recording end with what there is, then send it this signal. Returns at once.

        In a terminal, the signals that its keys send have reached the program by themselves.
        """
        child = self._child
        if child is None or self.options.kind not in PROGRAMS:
            self.cancel()
            return
        self._signaled = True
        child.send(b"stop\n")

        def forward() -> None:
            if child.shares_terminal and number in (signal.SIGINT, getattr(signal, "SIGQUIT", None)):
                return
            self._stopping.wait(STOP_SECONDS)
            if not child.reaped:
                child.signal(number)

        threading.Thread(target=forward, daemon=True).start()

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
            scratch = scratch_of(self.options)
            child = self._start_child()
            status = self._follow(child, scratch)
            end = self._conclude(status)
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

    def _start_child(self) -> Child:
        python, said = find_python(self.options.python)
        if said:
            self._emit(Note(self._now(), "python", _safe(said)))
        child = Child(python, self._inherit and self.options.kind != "workload")
        with self._news:
            self._child = child
            cancelled = self._cancelled
        if cancelled:
            child.kill()
        return child

    def _follow(self, child: Child, scratch: Scratch) -> int:
        """Give the child its job and pass on its events until it ends; returns its exit status."""
        other = self.options.other()
        job = asdict(self.options) | {
            "kind": self.options.kind,
            "params": self.options.values(),
            "warmup_steps": WARMUP_STEPS,
            "by_device": {
                device: {"dtype": options.dtype, "stem": options.stem}
                for device in ("cuda", "xpu", "cpu")
                for options in (self.options.on(device),)
            },
            "against": None
            if other is None
            else {
                **{name: getattr(other, name) for name in ("target", "kind", "compile", "mode")},
                "params": other.values(),
                "dtypes": {device: other.on(device).dtype for device in ("cuda", "xpu", "cpu")},
            },
            "active": self.options.active if other is None else self.options.rounds,
            "directory": str(scratch.directory),
            "made": [str(path.absolute()) for path in scratch.made],
        }
        child.send(json.dumps(job).encode("ascii") + b"\n")
        try:
            scratch.make()  # from here on the child knows what to remove if this process is killed
        except OSError:
            child.kill()
            child.wait()
            raise
        child.send(b"begin\n")
        readers = [threading.Thread(target=self._read_events, args=(child, scratch), daemon=True)]
        if child.output is not None:
            readers.append(threading.Thread(target=self._read_output, args=(child.output,), daemon=True))
        for reader in readers:
            reader.start()
        # What a program that ends by itself leaves running, it would have left without us.
        program = self.options.kind in PROGRAMS and child.inherits
        status = child.wait(
            lambda status: self._signaled or self._cancelled or not program or "ending" in self._said
        )
        for reader in readers:
            reader.join(5.0)  # the pipes close with the last process that has them open
        return status

    def _read_events(self, child: Child, scratch: Scratch) -> None:
        for line in child.events:
            with suppress(ValueError, KeyError):  # only the child writes here; skip truncated lines
                message = json.loads(line)
                kind = message["event"]
                if kind == "phase":
                    phase = Phase(message["phase"])
                    counts = int(message["step"]), int(message["steps"])
                    self._emit(Progress(self._now(), phase, _safe(message["detail"]), *counts))
                elif kind == "note":
                    self._emit(Note(self._now(), message["kind"], _safe(message["text"])))
                else:
                    self._said[kind] = message
                    if kind == "written":
                        child.send(b"published\n" if self._publish(scratch, message) else b"failed\n")
                    if kind in ("written", "failed", "stopped"):
                        self._stopping.set()
                    if self.options.kind not in PROGRAMS:
                        self._kill_after(EXIT_SECONDS, child)
                    elif kind == "ending":
                        self._kill_after(LAST_SECONDS, child)

    def _publish(self, scratch: Scratch, message: dict[str, Any]) -> bool:
        """Move the child's files to their names, with the .meta.json as far as it is known."""
        info = {**message["info"], **self._seconds()}
        try:
            self._result = publish(self.options, scratch, message["files"], info, self._notes())
        except OSError as error:
            self._publishing = error
            return False
        scratch.remove()  # the program may run on for hours, and nobody may be there at its end
        return True

    def _seconds(self) -> dict[str, Any]:
        times = phase_times(self.events, self._now())
        return {"seconds": {phase.value: round(s, 3) for phase, s in times}}

    def _notes(self) -> tuple[Note, ...]:
        return tuple(event for event in self.events if isinstance(event, Note))

    def _read_output(self, pipe: IO[bytes]) -> None:
        for raw in pipe:
            # A progress bar rewrites its line: only the last state counts.
            text = raw.decode("utf-8", "replace").rstrip("\r\n").rpartition("\r")[2][:LINE_LIMIT]
            if text.startswith("USDT:"):
                continue  # Kineto's own probes, printed by torch 2.13
            self._tail.append(text)
            self._emit(Output(self._now(), text))

    def _conclude(self, status: int) -> Done | Failed | Cancelled:
        program = self.options.kind in PROGRAMS
        # A program that we ended, by whatever it took, ends well.
        if "ending" in self._said and (status < 0 or status == 128 + signal.SIGINT):
            status = 0
        code = (status if status > 0 else 128 - status) if program and status else None
        if self._result is not None:
            if code:
                how = _how_it_left(self._said, status)
                text = f"{self.options.target} {how}; what it did until then is recorded"
                if "ending" in self._said:  # unittest takes a SystemExit for an error
                    text = f"{self.options.target} {how} when it was stopped (--run-to-end lets it finish)"
                self._emit(Note(self._now(), "script_failed", _safe(text)))
            info = self._seconds()
            if code:
                info["exit_status"] = code
            with suppress(OSError):  # what was written before stands
                return Done(self._now(), amend(self._result, info, self._notes()))
            return Done(self._now(), self._result)
        if self._cancelled:
            return Cancelled(self._now())
        if self._publishing is not None:
            return Failed(self._now(), "disk", _disk_message(self.options.output, self._publishing))
        if "theirs" in self._said:
            return self._theirs(self._said["theirs"]["traces"], code)
        if "failed" in self._said and not (code and self._said["failed"]["kind"] == "nothing"):
            last = self._said["failed"]
            kind = str(last["kind"])
            tail = self._safe_tail() if kind in ("workload", "out_of_memory") else ()
            return Failed(self._now(), kind, _safe(str(last["message"])), tail, code)
        if status >= 0 and not any(
            isinstance(e, Progress) and e.phase is not Phase.STARTING for e in self.events
        ):
            text = f"{self.options.python or 'Python'} did not run the capture (exit status {status})"
            return Failed(self._now(), "no_python", text, self._safe_tail())
        if program and (status >= 0 or "left" in self._said):
            text = f"{self.options.target} {_how_it_left(self._said, status)}"
            if not status:
                text += " and did not say what was recorded: it closed files that are not its own"
            return Failed(self._now(), "workload", _safe(text), self._safe_tail(), code)
        text = f"{self.options.target if program else 'the capture process'} {_how_it_ended(status)}"
        return Failed(self._now(), "killed", _safe(text), self._safe_tail(), code)

    def _theirs(self, traces: list[str], code: int | None) -> Done | Failed:
        """What the program's own profilers recorded."""
        there = [Path(trace) for trace in traces if os.path.isfile(trace)]
        if not there:
            text = "the script profiles itself and wrote no trace, and nothing else was recorded "
            text += "(--ours switches its profilers off)"
            return Failed(self._now(), "own_profiler", text, (), code)
        name = _safe(there[-1].name)
        rest = f" (the last of {len(there)})" if len(there) > 1 else ""
        self._emit(
            Note(self._now(), "own_profiler", f"the script recorded {name} itself{rest}: opening that")
        )
        info = {"exit_status": code} if code is not None else {}
        return Done(self._now(), CaptureResult(there[-1], None, None, None, info, self._notes()))

    def _safe_tail(self) -> tuple[str, ...]:
        return tuple(_safe(line) for line in self._tail if line.strip())


def _safe(text: str) -> str:
    from tracetui.core.safe_text import plain

    return plain(text.replace("\t", "    "))


def _how_it_left(said: dict[str, dict[str, Any]], status: int) -> str:
    if "left" in said:
        return str(said["left"]["message"])
    return f"ended with exit status {status}" if status >= 0 else _how_it_ended(status)


def _how_it_ended(status: int) -> str:
    if status >= 0:
        return f"ended unexpectedly, with exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    if name == "SIGKILL":
        name += "; out of memory?"
    return f"was killed ({name})"


def _disk_message(output: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"cannot write to {output}: no such directory"
    return f"cannot write to {output}: {error.strerror or error}"
