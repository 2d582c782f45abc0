"""A trace of a process that was not started for it, on Python 3.14: `sys.remote_exec` runs a script in it.

The script (`injected`) records in a thread of its own with PyTorch's profiler. Python's interface needs the
same Python on both sides, so the process's own program calls it, and the right to trace, as for a debugger.
Tried on live processes with Python 3.14.8 and PyTorch 2.14.1 on a CPU; not yet on a GPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tracetui.capture.live import cuspy, procfs
from tracetui.capture.live.files import keep, reason
from tracetui.capture.live.meeting_folders import new_recording, recording_root
from tracetui.capture.live.model import AttachError, LiveEvent, Recorded, RecordRequest, Stage, Status
from tracetui.core import units
from tracetui.core.safe_text import plain

BEGIN_SECONDS = 60.0
"""How long the main thread may stay in one call: the script runs once it is back in Python."""
WRITE_SECONDS = 600.0
END_SECONDS = 5.0
"""How long to wait for the process to end a recording that was broken off. If it takes longer, it cleans up
by itself."""
LEAVE_SECONDS = 10.0
"""How long a program that ends during the recording waits for the profiler, at most."""
LAUNCH_SECONDS = 20.0
POLL = 0.1

SCRIPT = Path(__file__).with_name("injected.py")
_NEXT_TIME = "start it with tracetui run -- … next time"
_VERSION = "import sys; print(*sys.version_info[:2], hasattr(sys, 'remote_exec'))"
_LAUNCH = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
_STAGES = {"writing": Stage.WRITING, "recording": Stage.RECORDING, "began": Stage.WARMING_UP}
"""The files by which the script reports how far it is, the last one first."""


def record_injected(pid: int, wanted: RecordRequest, output: Path) -> Iterator[LiveEvent]:
    """Run a script in the process that records it, and put its trace into the folder `output`.

    The same news is repeated several times a second, so that whoever iterates can close this: the recording
    is then broken off, and the script leaves nothing. Raises AttachError: the process cannot be asked in this
    way (the message says why, and what to do), or has ended.
    """
    began = procfs.started(pid)
    if began is None:
        raise AttachError(f"there is no process {pid}")
    yield Status(Stage.ASKING, f"process {pid}")
    _check(pid)
    try:
        output.mkdir(parents=True, exist_ok=True)
        folder = new_recording(recording_root()).resolve()
    except OSError as error:
        raise AttachError(f"cannot write to {plain(str(output), 300)}: {reason(error)}") from None
    launched = False
    try:
        script = _write(folder, wanted)
        launched = True
        _remote_exec(pid, script)
        yield from _follow(pid, began, folder, wanted)
        path = keep(folder / "trace.json", folder, output, f"pid_{pid}.json")
        notes: tuple[str, ...] = ()
        if wanted.steps is not None:
            took = units.duration(wanted.duration * 1e9)
            notes = (f"steps cannot be counted in a process that was not started for it: recorded {took}",)
        yield Recorded((path,), notes)
    except _NotSent:
        launched = False
        raise
    finally:
        (folder / "wanted").unlink(missing_ok=True)
        if not launched or _has_ended(pid, began, folder):
            shutil.rmtree(folder, ignore_errors=True)


class _NotSent(AttachError):
    """The script will not run."""


def _write(folder: Path, wanted: RecordRequest) -> Path:
    job = {
        "folder": str(folder),
        "asker": os.getpid(),
        "late": time.time() + BEGIN_SECONDS,
        "start_in": wanted.start_in,
        "seconds": wanted.duration,
        "leave": LEAVE_SECONDS,
        "options": {
            "with_stack": wanted.with_stack,
            "record_shapes": wanted.record_shapes,
            "profile_memory": wanted.profile_memory,
        },
    }
    script = folder / "script.py"
    script.write_text(f"JOB = {job!r}\n{SCRIPT.read_text(encoding='utf-8')}", encoding="utf-8")
    (folder / "wanted").touch()
    return script


def _follow(pid: int, began: int, folder: Path, wanted: RecordRequest) -> Iterator[Status]:
    """Wait until the trace is there. Raises AttachError."""
    news = None
    end = 0.0
    while not (folder / "trace.json").exists():
        with suppress(OSError):
            text = (folder / "error").read_text(encoding="utf-8", errors="replace")
            raise AttachError(f"process {pid} cannot be recorded: {plain(' '.join(text.split()), 300)}")
        if procfs.started(pid) != began:
            raise AttachError(f"process {pid} ended before its trace was written")
        last = news
        stage = next((stage for name, stage in _STAGES.items() if (folder / name).exists()), Stage.ASKING)
        news = Status(stage, _detail(stage, wanted))
        if news != last:
            waits = {Stage.ASKING: BEGIN_SECONDS, Stage.WARMING_UP: wanted.start_in + BEGIN_SECONDS}
            end = time.monotonic() + waits.get(stage, wanted.duration + WRITE_SECONDS)
        if time.monotonic() > end:
            stuck = "its main thread is in one long call" if stage is Stage.ASKING else stage.value
            raise AttachError(f"process {pid} is making no progress ({stuck}): try again later")
        yield news
        time.sleep(POLL)


def _detail(stage: Stage, wanted: RecordRequest) -> str:
    if stage is Stage.ASKING:
        return "its main thread to return to Python"
    return units.duration(wanted.duration * 1e9) if stage is Stage.RECORDING else ""


def _has_ended(pid: int, began: int, folder: Path) -> bool:
    """Whether nothing in the process will use the folder. (A script that still waits will delete it.)"""
    end = time.monotonic() + END_SECONDS
    while procfs.started(pid) == began:
        if (folder / "ended").exists() or not folder.exists():
            return True
        if not (folder / "began").exists() or time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _check(pid: int) -> None:
    """Raises AttachError if the process cannot be asked, as far as that can be known without trying."""
    try:
        if procfs.owner(pid) != os.geteuid():
            raise AttachError(f"process {pid} is another user's: run tracetui as that user")
        environment = procfs.environment(pid)
        arguments = procfs.arguments(pid)
        same_files = procfs.sees_our_files(pid)
        has_torch = procfs.has_torch(pid)
    except OSError as error:
        raise AttachError(f"process {pid} cannot be inspected: {reason(error)}") from None
    if not procfs.is_python(pid):
        raise AttachError(f"process {pid} is not Python's own program: {_NEXT_TIME}")
    if not same_files:
        raise AttachError(f"process {pid} runs in a container: run tracetui in that container")
    version = _run(pid, environment, "-c", _VERSION).stdout.split()
    if len(version) != 3:
        raise AttachError(f"process {pid} runs a Python that does not say its version: {_NEXT_TIME}")
    if version[2] != "True":
        raise AttachError(
            f"process {pid} runs Python {plain('.'.join(version[:2]), 20)}, and only 3.14 or later can be "
            f"asked without having been started for it: {_NEXT_TIME}"
        )
    disabled = any(argument.endswith("disable_remote_debug") for argument in arguments)
    if disabled or environment.get("PYTHON_DISABLE_REMOTE_DEBUG"):
        raise AttachError(
            f"process {pid} was started with remote debugging disabled (PYTHON_DISABLE_REMOTE_DEBUG or "
            f"-X disable_remote_debug): {_NEXT_TIME}"
        )
    if cuspy.used_by(pid):
        raise AttachError(cuspy.refusal(pid))
    if not has_torch:
        raise AttachError(f"process {pid} has not imported PyTorch, at least not yet")


def _remote_exec(pid: int, script: Path) -> None:
    """Have the process run the script. Raises _NotSent."""
    try:
        environment = procfs.environment(pid)
    except OSError:
        environment = {}
    ended = _run(pid, environment, "-c", _LAUNCH, str(pid), str(script))
    if ended.returncode == 0:
        return
    last = (ended.stderr.strip().splitlines() or ["no reason given"])[-1]
    if "PermissionError" in last or "not permitted" in last or "Permission denied" in last:
        raise _NotSent(f"process {pid} may not be traced: {_right_to_trace()}")
    raise _NotSent(f"process {pid} cannot be asked ({plain(last, 200)}): {_NEXT_TIME}")


def _run(pid: int, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """The process's own Python, with nothing of ours. Raises _NotSent."""
    kept = {name: value for name, value in environment.items() if name in ("LD_LIBRARY_PATH", "PYTHONHOME")}
    try:
        return subprocess.run(
            [str(procfs.PROC / str(pid) / "exe"), "-sS", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=kept,
            cwd="/",
            timeout=LAUNCH_SECONDS,
            check=False,
        )
    except OSError as error:
        raise _NotSent(f"the Python of process {pid} cannot be run: {reason(error)}") from None
    except subprocess.TimeoutExpired:
        # It may have been sent all the same.
        raise AttachError(f"the Python of process {pid} does not end within {LAUNCH_SECONDS:g} s") from None


def _right_to_trace() -> str:
    """What to do about it."""
    try:
        scope = (procfs.PROC / "sys/kernel/yama/ptrace_scope").read_text().strip()
    except OSError:
        scope = ""
    if scope == "1":
        why = "only its parent may, since kernel.yama.ptrace_scope is 1, which an administrator can set to 0"
    elif scope in ("2", "3"):
        why = f"only an administrator may, since kernel.yama.ptrace_scope is {scope}"
    else:
        why = "in a container, this takes a capability (docker run --cap-add SYS_PTRACE)"
    return f"{why}; or {_NEXT_TIME}"
