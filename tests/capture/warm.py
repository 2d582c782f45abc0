"""Captures from a process that has PyTorch loaded already: imports are four of a small one's five seconds.

`Forks` starts such a process, which forks itself for each capture; `Popen` is subprocess's, but that the
child comes from there. The child is this process's own, as it would be: whoever asked becomes the parent of
processes whose own has ended. Linux only.
"""

from __future__ import annotations

import array
import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
from typing import Any

_PR_SET_CHILD_SUBREAPER = 36
_LOADED = "import torch, torch.profiler, torch._inductor, torch._dynamo"


class Forks:
    """The process that forks. Starts when it is first asked."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None

    def start(self, path: str, env: dict[str, str], streams: tuple[int, int, int]) -> int:
        """The process id of a new Python that runs the program at `path` with these standard streams."""
        if self._socket is None:
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            self._socket, theirs = socket.socketpair()
            with theirs:
                command = [sys.executable, __file__, str(theirs.fileno())]
                subprocess.Popen(command, pass_fds=[theirs.fileno()])
        job = json.dumps({"path": path, "env": env, "cwd": os.getcwd()}).encode()
        self._socket.sendall(len(job).to_bytes(4, "big"))
        socket.send_fds(self._socket, [job], list(streams))
        return int.from_bytes(self._socket.recv(4), "big")

    def end(self) -> None:
        if self._socket is not None:
            self._socket.close()


FORKS = Forks()


class Popen(subprocess.Popen[bytes]):
    """A child that runs `[python, "-u", PATH]` in a session of its own."""

    def _execute_child(self, *args: Any, **more: Any) -> None:
        given = inspect.signature(super()._execute_child).bind(*args, **more).arguments
        (_, _, path), env = given["args"], given["env"]
        names = ("p2cread", "c2pwrite", "errwrite")
        self.pid = FORKS.start(path, env, tuple(given[name] for name in names))
        self._child_created = True
        for name in names:
            os.close(given[name])


def serve(connection: socket.socket) -> None:
    """Fork for each request until the other side is gone."""
    exec(_LOADED)
    while length := connection.recv(4, socket.MSG_WAITALL):
        job, streams = b"", array.array("i")
        while len(job) < int.from_bytes(length, "big"):
            more, fds, _, _ = socket.recv_fds(connection, 65536, 3)
            job += more
            streams.extend(fds)
        read, write = os.pipe()
        if os.fork() == 0:
            if (pid := os.fork()) == 0:
                for fd in (connection.fileno(), read, write):
                    os.close(fd)
                become(json.loads(job), list(streams))
            os.write(write, pid.to_bytes(4, "big"))
            os._exit(0)
        os.wait()  # only then is the new one the child of whoever asked
        connection.sendall(os.read(read, 4))
        os.close(read)
        os.close(write)
        for fd in streams:
            os.close(fd)


def become(job: dict[str, Any], streams: list[int]) -> None:
    """Be what the job asks for, and exit with its status."""
    import runpy

    os.setsid()
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(i, mode, 1) for i, mode in enumerate("rww"))
    sys.argv, sys.path[0] = [job["path"]], job["path"]
    status: object = 0
    try:
        runpy.run_path(job["path"], run_name="__main__")
    except SystemExit as end:
        status = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
