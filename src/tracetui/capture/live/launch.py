"""Start a command whose processes can be asked for a trace: `tracetui run`, and `tracetui env`.

The command takes the place of this process, so its output, signals and exit code are its own. Beside it,
and no child of it, runs the program in `listener`, which answers its processes until they have ended.
Nothing in the job depends on that: without an answer, Kineto asks again a second later, from a thread of
its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from tracetui.capture.live import listener, procfs
from tracetui.capture.live.meeting_folders import (
    CLIENT,
    LONGEST_SOCKET,
    meeting_root,
    new_meeting,
    private,
    recording_root,
)
from tracetui.capture.live.model import AttachError

ASKING_SECONDS = 1
"""How often a process asks; Kineto's own default is 5."""
INTERVAL = "ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS"
STARTED = "TRACETUI_RUN"
"""Says in a job's environment that it was started by `tracetui run`: the id of that process."""
SILENT = "5"
"""A KINETO_LOG_LEVEL above "error". Kineto prints a line when it learns of a daemon, and errors while nobody
answers, but a job's output should be what it is without us."""


def environment(folder: Path, given: Mapping[str, str]) -> dict[str, str]:
    """The variables that let the processes of a job be asked in `folder`; `given` is the environment now.

    Writes Kineto's configuration file into the folder. Raises AttachError.
    """
    if len(os.fsencode(folder / CLIENT)) > LONGEST_SOCKET:
        raise AttachError(f"{folder}: this path is too long for a socket (at most 54 bytes)", 2)
    lines = f"{INTERVAL}={ASKING_SECONDS}\n"
    if given.get("KINETO_CONFIG"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            lines = Path(given["KINETO_CONFIG"]).read_text("utf-8").rstrip("\n") + "\n" + lines
    configuration = folder / "kineto.conf"
    try:
        configuration.write_text(lines, "utf-8")
    except OSError as error:
        raise AttachError(f"cannot write to {folder}: {error.strerror or error}") from error
    return {
        "KINETO_USE_DAEMON": "1",
        "KINETO_IPC_SOCKET_DIR": str(folder),
        "KINETO_CONFIG": str(configuration),
        "KINETO_LOG_LEVEL": given.get("KINETO_LOG_LEVEL", SILENT),
        "KINETO_ONDEMAND_TRACE_DIR": given.get("KINETO_ONDEMAND_TRACE_DIR") or str(recording_root()),
    }


def shared_folder(folder: Path | None) -> Path:
    """The folder for jobs that are started in other ways, made if need be. Raises AttachError."""
    return private(folder.absolute() if folder is not None else meeting_root() / "shared")


def run(command: Sequence[str], warn: Callable[[str], None]) -> NoReturn:
    """Become `command`. If it cannot be asked then, `warn` is called with the reason. Raises AttachError: 127
    if there is no such command, 126 if it cannot be run."""
    if sys.platform != "linux":
        raise AttachError("run works only on Linux: elsewhere, PyTorch cannot be asked for a trace")
    # As it was at the start: Python may have set LC_CTYPE since then, for itself and what it starts.
    variables = procfs.environment(os.getpid())
    folder = None
    if "KINETO_USE_DAEMON" not in variables:  # else it can be asked already
        try:
            folder = new_meeting()
            variables.update(environment(folder, variables))
            _answer_beside(folder)
        except (AttachError, OSError) as error:  # no reason for the job not to run
            warn(f"this command cannot be recorded: {error}")
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            folder, variables = None, procfs.environment(os.getpid())
    if "KINETO_USE_DAEMON" in variables:
        variables[STARTED] = str(os.getpid())
    # Python ignores these, and what is ignored stays so in the command.
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvpe(command[0], list(command), variables)
    except OSError as error:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        missing = isinstance(error, FileNotFoundError)
        text = "no such command" if missing else error.strerror or error
        raise AttachError(f"{command[0]}: {text}", 127 if missing else 126) from error


def _answer_beside(folder: Path) -> None:
    """Start the listener, but not as a child of this process, which the command would not expect to have."""
    pid = os.getpid()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            subprocess.Popen(
                [sys.executable, "-I", "-S", listener.__file__, str(folder), str(pid)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        os._exit(0)
    os.waitpid(child, 0)
