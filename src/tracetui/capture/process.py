"""The child process: starting it, and ending it together with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

from tracetui.capture.marked import MARK, kill_marked

CHILD = Path(__file__).parent / "child"


class StartError(Exception):
    """The child cannot be started: `kind` as in `events.Failed`, the message is one line."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Child:
    """A running child and its pipes.

    stdin carries the job; when it closes, the child knows that this process is gone. stdout carries events,
    stderr whatever the workload prints.
    """

    def __init__(self, python: str) -> None:
        self._mark = uuid.uuid4().hex
        command = [python, "-u", str(CHILD)]
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, MARK: self._mark},
                # A session of its own: Ctrl+C in the terminal reaches only this process, which then decides.
                start_new_session=True,
            )
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
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it ended at once: the exit status says more
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def wait(self) -> int:
        """Wait for the child to end, kill what it left behind, and return its exit status."""
        if hasattr(os, "waitid"):
            # Not reaped yet: until then, nobody else can get its process id or group.
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            self.kill()
            return self.process.wait()
        status = self.process.wait()
        self.kill()
        return status

    def terminate(self) -> None:
        """Ask the child and its processes to end."""
        if sys.platform == "win32":
            self.kill()
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill the child and everything that it started."""
        if sys.platform == "win32":
            subprocess.run(["taskkill", "/F", "/T", "/PID", str(self.pid)], capture_output=True, check=False)
            return
        kill_marked(self._mark)
        with suppress(ProcessLookupError, PermissionError):  # those that cleared their environment
            os.killpg(self.pid, signal.SIGKILL)
