"""The child process: starting it, and ending it together with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tracetui.capture.marked import MARK, kill_marked

CHILD = Path(__file__).parent / "child" / "__main__.py"


class StartError(Exception):
    """The child cannot be started: `kind` as in `events.Failed`, the message is one line."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Child:
    """A running child and its pipes.

    One carries the job and our answers; when it closes, the child knows that this process is gone. One
    carries events. With `inherit` the child has the standard streams of this process, as a program has that
    is started from a shell, and its place in the terminal; else stdin is empty, and stderr carries what it
    prints.
    """

    def __init__(self, python: str, inherit: bool = False) -> None:
        self._mark = uuid.uuid4().hex
        self.inherits = inherit and sys.platform != "win32"
        # Ctrl+C in a terminal then reaches the child by itself, as it would without us. In a session of its
        # own it reaches only this process, which then decides.
        self.shares_terminal = self.inherits and _in_front()
        how: dict[str, Any] = {
            "env": {**os.environ, MARK: self._mark},
            "start_new_session": not self.shares_terminal,
        }
        try:
            if self.inherits:
                theirs_in, ours_out = os.pipe()
                ours_in, theirs_out = os.pipe()
                theirs = (theirs_in, theirs_out)
                try:
                    command = [python, str(CHILD), *map(str, theirs)]
                    self.process = subprocess.Popen(command, pass_fds=theirs, **how)
                finally:
                    for fd in theirs:
                        os.close(fd)
                self._jobs: IO[bytes] = os.fdopen(ours_out, "wb", 0)
                self.events: IO[bytes] = os.fdopen(ours_in, "rb")
                self.output: IO[bytes] | None = None
            else:
                pipe = subprocess.PIPE
                self.process = subprocess.Popen(
                    [python, "-u", str(CHILD)], stdin=pipe, stdout=pipe, stderr=pipe, **how
                )
                assert self.process.stdin is not None
                assert self.process.stdout is not None
                self._jobs, self.events = self.process.stdin, self.process.stdout
                self.output = self.process.stderr
        except OSError as error:
            raise StartError("no_python", f"cannot run {python}: {error.strerror or error}") from error

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def reaped(self) -> bool:
        """Whether it has been waited for: from then on its process id may be reused."""
        return self.process.returncode is not None

    def send(self, line: bytes) -> None:
        with suppress(OSError, ValueError):  # it ended at once: the exit status says more
            self._jobs.write(line)
            self._jobs.flush()

    def wait(self, kill: Callable[[int], bool] = lambda status: True) -> int:
        """Wait for the child to end, and return its exit status. `kill`: whether what it left is killed."""
        if hasattr(os, "waitid"):
            # Not reaped yet: until then, nobody else can get its process id or group.
            ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            assert ended is not None
            status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        else:
            status = self.process.wait()
        if kill(status):
            self.kill()
        return self.process.wait()

    def signal(self, number: int) -> None:
        """Send a signal to the child itself."""
        with suppress(ProcessLookupError, PermissionError, OSError):
            self.process.send_signal(number)

    def terminate(self) -> None:
        """Ask the child and its processes to end."""
        if sys.platform == "win32":
            self.kill()
            return
        self._signal_all(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the child and everything that it started."""
        if sys.platform == "win32":
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(self.pid)], capture_output=True, check=False)
            return
        kill_marked(self._mark)
        self._signal_all(signal.SIGKILL)  # those that cleared their environment, too

    def _signal_all(self, number: int) -> None:
        if self.shares_terminal:
            self.signal(number)
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def _in_front() -> bool:
    """Whether this process has a terminal, and is in its foreground."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
