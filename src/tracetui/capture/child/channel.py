"""The child's side of the two pipes: it sends events to the parent, and ends when the parent is gone."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from typing import Any

from ..marked import MARK, kill_marked

STEP_INTERVAL = 0.1
"""Seconds between two progress events in a loop: often enough for eyes, too seldom to show in the trace."""


class Failure(Exception):
    """A capture that cannot go on: `kind` for the parent, the message is one line for people."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Channel:
    """Sends events as JSON lines, and ends this process and all it started when the parent is gone."""

    def __init__(self) -> None:
        # The pipes arrive as stdin and stdout, the way that works on every system. They move to descriptors
        # that are not inherited, so that what the workload prints, and its subprocesses, cannot touch them.
        self._events = os.dup(1)
        self._parent = os.dup(0)
        os.dup2(2, 1)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        self._last = 0.0
        self._lock = threading.Lock()

    def read_job(self) -> dict[str, Any]:
        """The first line from the parent: what to capture. From then on the parent is watched."""
        data = b""
        while not data.endswith(b"\n"):
            chunk = os.read(self._parent, 65536)
            if not chunk:
                os._exit(1)
            data += chunk
        job: dict[str, Any] = json.loads(data)
        threading.Thread(target=self._watch, args=(job["directory"],), daemon=True).start()
        return job

    def _watch(self, directory: str) -> None:
        while os.read(self._parent, 65536):
            pass
        shutil.rmtree(directory, ignore_errors=True)
        kill_marked(os.environ.get(MARK, ""), spare=os.getpid())
        if sys.platform != "win32" and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    def send(self, event: str, **fields: Any) -> None:
        line = json.dumps(dict(fields, event=event)).encode("ascii") + b"\n"
        with self._lock:
            while line:
                line = line[os.write(self._events, line) :]

    def phase(self, phase: str, detail: str = "", step: int = 0, steps: int = 0) -> None:
        self.send("phase", phase=phase, detail=detail, step=step, steps=steps)
        self._last = time.monotonic()

    def step(self, phase: str, detail: str, step: int, steps: int) -> None:
        """Like `phase`, for a loop: sends nothing if the last event is newer than `STEP_INTERVAL`."""
        if time.monotonic() - self._last > STEP_INTERVAL:
            self.phase(phase, detail, step, steps)

    def note(self, kind: str, text: str) -> None:
        self.send("note", kind=kind, text=text)


def flush() -> None:
    """Push out what the workload printed, so that it reaches the parent before the next event does."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
