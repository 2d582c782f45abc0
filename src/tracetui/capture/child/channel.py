"""The child's side of the two pipes: it sends events to the parent, and hears when the parent is gone."""

from __future__ import annotations

import _thread
import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from json import dumps, loads  # names of our own: a program may replace what is in these modules
from os import fstat, read, write
from time import monotonic
from typing import Any

from ..marked import MARK, kill_marked

STEP_INTERVAL = 0.1
"""Seconds between two progress events in a loop: often enough for eyes, too seldom to show in the trace."""
ANSWER_SECONDS = 60.0
"""How long the parent may take to move the files to their names."""


OURS: set[int] = set()
"""The threads that are not the program's."""


class Failure(Exception):
    """A capture that cannot go on: `kind` for the parent, the message is one line for people."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Channel:
    """Sends events as JSON lines; a thread reads what the parent says.

    `streams`: the two descriptors, to read and to write, and a third with the job if another program was here
    before. Without them they are stdin and stdout, and the program gets an empty stdin, and prints on stderr.
    """

    def __init__(self, streams: list[int]) -> None:
        self._handed = streams[2:]
        if streams:
            self._parent, self._events = streams[:2]
            for fd in streams:
                os.set_inheritable(fd, False)
        else:
            # They move to descriptors that are not inherited, so that what the workload prints, and its
            # subprocesses, cannot touch them.
            self._events = os.dup(1)
            self._parent = os.dup(0)
            os.dup2(2, 1)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.close(null)
        self._pipes = {fd: _file(fd) for fd in (self._parent, self._events)}
        self._last = 0.0
        self._lock = threading.Lock()
        self._answered = threading.Event()
        self._published = False
        self._inherits = bool(streams)
        self._folders: list[str] = []
        self.gone = False
        """Whether the parent has ended."""
        self.asked: Callable[[], object] = lambda: None
        """Called by the reading thread when the parent wants the recording to end."""
        self.left: Callable[[], object] | None = None
        """Called by it when the parent is gone; None: this process and all that it started then end, too."""

    def read_job(self) -> dict[str, Any]:
        """The first line from the parent: what to capture. From then on a thread listens to the parent.

        Returns once the folders are made, or the parent is gone.
        """
        data = b""
        while b"\n" not in data:
            chunk = read(self._handed[0] if self._handed else self._parent, 65536)
            if not chunk:
                os._exit(1)
            data += chunk
        for fd in self._handed:
            os.close(fd)
            self._answered.set()  # the folders are made
        line, _, rest = data.partition(b"\n")
        job: dict[str, Any] = loads(line)
        self._folders = [*job["made"], job["directory"]]
        job["inherits"] = self._inherits
        if self._inherits and job["kind"] in ("script", "module"):  # a program with nowhere to print to ends
            self.left = lambda: None
        aside(self._listen, rest)
        self._answered.wait()
        return job

    def hand_over(self, job: dict[str, Any]) -> list[str] | None:
        """What `main` needs to go on with this job in a program in this one's place; None: it cannot."""
        line = dumps(job).encode("ascii") + b"\n"
        if not self._inherits or self.gone or len(line) > 60_000:  # a pipe holds that
            return None
        source, sink = os.pipe()
        write(sink, line)
        os.close(sink)
        streams = [self._parent, self._events, source]
        for fd in streams:
            os.set_inheritable(fd, True)
        return [str(fd) for fd in streams]

    def clean(self) -> None:
        """Remove the folders that were made for this capture, unless there are files at their names.

        Not while the parent may be moving the files.
        """
        if self.gone or self._answered.is_set():
            *made, scratch = self._folders
            shutil.rmtree(scratch, ignore_errors=True)
            with contextlib.suppress(OSError):
                for folder in reversed(made):
                    os.rmdir(folder)

    def _listen(self, rest: bytes) -> None:
        while True:
            *lines, rest = rest.split(b"\n")
            for line in lines:
                if line == b"stop":
                    # Not here: this thread has to hear the answer about the files.
                    aside(self._stop)
                else:
                    self._published = line == b"published"
                    self._answered.set()
            chunk = read(self._parent, 65536) if self._is_ours(self._parent) else b""
            if not chunk:
                break
            rest += chunk
        self.gone = True
        self._answered.set()
        if self.left is not None:
            self.left()
        self.clean()
        if self.left is not None:
            return
        kill_marked(os.environ.get(MARK, ""), spare=os.getpid())
        if sys.platform != "win32" and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    def _is_ours(self, fd: int) -> bool:
        """Whether this is still our pipe: a program may close all files, and open others in their places."""
        return _file(fd) == self._pipes[fd]

    def _stop(self) -> None:
        self.asked()
        self.send("stopped")  # there may have been nothing to write

    def close(self) -> None:
        """Close both ends, in a process that was forked: the parent must not wait for it."""
        for fd in filter(self._is_ours, self._pipes):
            os.close(fd)

    def send(self, event: str, **fields: Any) -> None:
        if self.gone:
            return
        line = dumps(dict(fields, event=event)).encode("ascii") + b"\n"
        with self._lock, contextlib.suppress(OSError):  # the parent is gone: the reading thread says so
            while line and self._is_ours(self._events):
                line = line[write(self._events, line) :]

    def publish(self, info: dict[str, Any], files: dict[str, str]) -> bool:
        """Have the parent move these files to their names, and wait for it; False if it could not."""
        self._answered.clear()
        self.send("written", info=info, files=files)
        return not self.gone and self._answered.wait(ANSWER_SECONDS) and self._published

    def phase(self, phase: str, detail: str = "", step: int = 0, steps: int = 0) -> None:
        self.send("phase", phase=phase, detail=detail, step=step, steps=steps)
        self._last = monotonic()

    def step(self, phase: str, detail: str, step: int, steps: int) -> None:
        """Like `phase`, for a loop: sends nothing if the last event is newer than `STEP_INTERVAL`."""
        if monotonic() - self._last > STEP_INTERVAL:
            self.phase(phase, detail, step, steps)

    def note(self, kind: str, text: str) -> None:
        self.send("note", kind=kind, text=text)


def _file(fd: int) -> tuple[int, int] | None:
    """What a descriptor leads to; None if it is closed."""
    try:
        status = fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def no_signals() -> Iterator[None]:
    """Threads that are started in here get no signals: those are for the program's main thread."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def aside(target: Callable[..., object], *arguments: object) -> None:
    """Run it in a thread of ours, which does not hold up the program's end.

    None of `threading`'s: a program may join or trace all of these, wait for their end, or log their numbers.
    """

    def run() -> None:
        OURS.add(_thread.get_ident())
        try:
            target(*arguments)
        finally:
            OURS.discard(_thread.get_ident())

    with no_signals():
        _thread.start_new_thread(run, ())


def flush() -> None:
    """Push out what the workload printed, so that it reaches the parent before the next event does."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
