"""Processes that begin with PyTorch loaded, or tracetui: imports are four of a small capture's five seconds.

`Forks` starts a process that loads it and forks itself for each one asked for; `Popen` is subprocess's, but
that the child comes from there. The child is this process's own, as it would be: whoever asked becomes the
parent of processes whose own has ended. `command_line` is tracetui's, in such a process. Linux only.
"""

from __future__ import annotations

import array
import atexit
import ctypes
import gc
import inspect
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

_PR_SET_CHILD_SUBREAPER = 36
LONGEST_FILE = "TESTS_LONGEST_FILE"
"""Variable with the bytes that a file of such a process may have, as `ulimit -f` has it."""
_TORCH = "import torch, torch.profiler, torch._inductor, torch._dynamo"
_TRACETUI = """
import importlib, pkgutil, tracetui
for module in pkgutil.walk_packages(tracetui.__path__, "tracetui."):
    if not module.name.startswith(("tracetui.capture.", "tracetui.__main__")):
        importlib.import_module(module.name)
"""


class Forks:
    """The process that forks, once it has run the code `loaded`. Starts when it is first asked."""

    def __init__(self, loaded: str) -> None:
        self._loaded = loaded
        self._socket: socket.socket | None = None

    def start(self, job: dict[str, Any], streams: list[int]) -> int:
        """The process id of a new Python that does this job with these standard streams."""
        if self._socket is None:
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            self._socket, theirs = socket.socketpair()
            with theirs:
                command = [sys.executable, __file__, str(theirs.fileno()), self._loaded]
                subprocess.Popen(command, pass_fds=[theirs.fileno()])
        text = json.dumps(job).encode()
        self._socket.sendall(len(text).to_bytes(4, "big"))
        socket.send_fds(self._socket, [text], streams)
        return int.from_bytes(self._socket.recv(4), "big")

    def end(self) -> None:
        if self._socket is not None:
            self._socket.close()


TORCH, TRACETUI = Forks(_TORCH), Forks(_TRACETUI)


def job_of(argv: list[str], env: dict[str, str] | None = None, cwd: object = None) -> dict[str, Any]:
    return {"argv": argv, "env": dict(os.environ if env is None else env), "cwd": str(cwd or os.getcwd())}


class Popen(subprocess.Popen[Any]):
    """A child that runs `[python, "-u", PATH, *arguments]`, or without "-u", in a session of its own."""

    def _execute_child(self, *args: Any, **more: Any) -> None:
        given = inspect.signature(super()._execute_child).bind(*args, **more).arguments
        argv = [word for word in given["args"][1:] if word != "-u"]
        names = ("p2cread", "c2pwrite", "errwrite")
        self._passed = given["pass_fds"]
        streams = [os.dup(i) if given[name] == -1 else given[name] for i, name in enumerate(names)]
        ours = [given[name] for name in ("p2cwrite", "c2pread", "errread") if given[name] != -1]
        self.pid = self._start(job_of(argv, given["env"], given["cwd"]), streams, ours)
        self._child_created = True
        for fd in streams:
            os.close(fd)

    def _start(self, job: dict[str, Any], streams: list[int], ours: list[int]) -> int:
        return TORCH.start(job, streams)


class Fork(Popen):
    """The same from this process itself, which has PyTorch loaded."""

    def _start(self, job: dict[str, Any], streams: list[int], ours: list[int]) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that PyTorch has threads
            pid = os.fork()
        if pid == 0:
            kept = {*streams, *self._passed}
            for fd in map(int, os.listdir("/proc/self/fd")):
                if fd > 2 and fd not in kept:
                    with suppress(OSError):
                        os.close(fd)
            become(job, streams)
        return pid


def tracetui(*words: str, cwd: Path | None = None) -> subprocess.Popen[str]:
    """The command line in a process of its own, which its captures begin from; text comes out of it."""
    command = [sys.executable, "-u", __file__, "tracetui", *words]
    return Popen(command, cwd=cwd, stdin=-1, stdout=-1, stderr=-1, text=True)


def torchrun(*words: str) -> subprocess.Popen[str]:
    """torchrun likewise, whose ranks are this file again."""
    return Popen(
        [sys.executable, "-u", __file__, "torchrun", *words], stdin=-1, stdout=-1, stderr=-1, text=True
    )


def run_ranks() -> None:
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler

    subprocess_handler.Popen = Fork  # type: ignore[misc]
    run.main(sys.argv[2:])


def command_line() -> None:
    from types import SimpleNamespace

    from tracetui.capture import process
    from tracetui.cli import main

    process.subprocess = SimpleNamespace(Popen=Fork, PIPE=subprocess.PIPE)  # type: ignore[assignment]
    main(sys.argv[2:], prog_name="tracetui")


def serve(connection: socket.socket, loaded: str) -> None:
    """Fork for each request until the other side is gone."""
    exec(loaded, {})
    gc.freeze()
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
    import fcntl
    import resource
    import runpy
    import termios

    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if callable(signal.getsignal(number)):  # of ours: a new program would not have it
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setsid()
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    if job.get("terminal"):
        fcntl.ioctl(1, termios.TIOCSCTTY, 0)
    streams_of_text = (open(i, mode, 1, closefd=False) for i, mode in enumerate("rww"))  # noqa: SIM115
    sys.stdin, sys.stdout, sys.stderr = streams_of_text
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    sys.stdout.reconfigure(write_through=True)  # as `-u` has it
    sys.stderr.reconfigure(errors="backslashreplace")
    if encoding := job["env"].get("PYTHONIOENCODING"):
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            stream.reconfigure(encoding=encoding)
    module = job["argv"].pop(1) if job["argv"][0] == "-m" else None
    sys.argv, sys.path[0] = job["argv"], job["argv"][0]
    if LONGEST_FILE in job["env"]:
        sys.dont_write_bytecode = True  # Python would not notice that it was cut off
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(job["env"][LONGEST_FILE]),) * 2)
    status: object = 0
    try:
        if module is None:
            runpy.run_path(job["argv"][0], run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0 if status is None else 1)


if __name__ == "__main__":
    if sys.argv[1] == "tracetui":
        command_line()
    elif sys.argv[1] == "torchrun":
        run_ranks()
    else:
        serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
