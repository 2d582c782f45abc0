"""Recording a process that was not started for it.

On Python 3.14 the script gets there as it really does; before, by a signal, which the main thread takes
at the same point.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tracetui.capture.live import inject, procfs
from tracetui.capture.live.inject import record_injected
from tracetui.capture.live.model import AttachError, LiveEvent, Recorded, RecordRequest, Stage, Status

from . import warm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
torch_too = pytest.mark.torch
LIVE = hasattr(sys, "remote_exec")
STANDIN = """
import os, select, signal, sys
def told_to_end(seconds):
    return select.select([sys.stdin], [], [], seconds)[0]
def run(*_):
    path = os.environ["STANDIN"]
    if os.path.exists(path):
        script = open(path).read()
        os.unlink(path)
        exec(open(script).read(), {})
if not hasattr(sys, "remote_exec"):
    signal.signal(signal.SIGUSR1, run)
"""
LOOP = """
import threading, time
import torch

def work(size):
    a = torch.randn(size, size)
    while not done:
        a @ a
        time.sleep(0.001)

done = []
other = threading.Thread(target=work, args=(8,), name="other")
other.start()
print("ready", flush=True)
a = torch.randn(16, 16)
while not told_to_end(0.001):
    torch.relu(a)
done.append(True)
other.join()
print("left", threading.active_count(), sorted(set(threading._active) - {threading.get_ident()}), flush=True)
sys.exit(7)
"""


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(inject, "recording_root", lambda: tmp_path / "temporary")


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a program that says "ready"; a script reaches it by a signal where Python has nothing better."""
    started: list[subprocess.Popen[str]] = []
    standin = tmp_path / "standin"

    def signalled(pid: int, script: Path) -> None:
        standin.write_text(str(script))
        os.kill(pid, signal.SIGUSR1)

    if not LIVE:
        monkeypatch.setattr(inject, "_check", lambda _: None)
        monkeypatch.setattr(inject, "_remote_exec", signalled)

    def start(text: str, cold: bool = LIVE) -> subprocess.Popen[str]:
        """`cold`: with PyTorch to be imported, and an end like any other's."""
        program = tmp_path / "program.py"
        program.write_text(STANDIN + text)
        process: subprocess.Popen[str] = (subprocess.Popen if cold else warm.Popen)(
            [sys.executable, "-u", str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
            env={**os.environ, "STANDIN": str(standin), "OMP_NUM_THREADS": "1"}
        )  # fmt: skip
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def told_to_end(process: subprocess.Popen[str]) -> str:
    """What it says from then on."""
    return process.communicate("end\n", timeout=300)[0]


def is_clean(tmp_path: Path) -> bool:
    """Whether no folder of a recording is left, within a while."""
    end = time.monotonic() + 60
    while list((tmp_path / "temporary").iterdir()):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def until(events: Iterator[LiveEvent], stage: Stage) -> None:
    assert any(isinstance(event, Status) and event.stage is stage for event in events)


def slices(recorded: Recorded) -> list[dict[str, Any]]:
    events = json.loads(recorded.paths[0].read_text())["traceEvents"]
    return [event for event in events if event.get("ph") == "X"]


@torch_too
def test_all_threads_are_recorded_and_nothing_is_left(start, tmp_path):
    process = start(LOOP)
    *events, recorded = record_injected(process.pid, RecordRequest(0.2, steps=3), tmp_path / "out")
    assert isinstance(recorded, Recorded)
    assert recorded.paths == (tmp_path / "out" / f"pid_{process.pid}.json",)
    assert recorded.notes == (
        "steps cannot be counted in a process that was not started for it: recorded 200 ms",
    )
    # It may be through with that before we look.
    assert {Status(Stage.RECORDING, "200 ms"), Status(Stage.WRITING)} & set(events)
    found = slices(recorded)
    threads = {
        name: {event["tid"] for event in found if event["name"] == name}
        for name in ("aten::mm", "aten::relu")
    }
    assert all(len(where) == 1 for where in threads.values())
    assert threads["aten::mm"] != threads["aten::relu"]
    span = max(event["ts"] for event in found) - min(event["ts"] for event in found)
    assert 150_000 < span < 30_000_000, "µs: a busy machine ends it late"
    assert list((tmp_path / "temporary").iterdir()) == []
    assert told_to_end(process) == "left 1 []\n"
    assert process.wait() == 7


@torch_too
def test_what_is_recorded_and_again(start, tmp_path):
    process = start(LOOP)
    *_, plain = record_injected(process.pid, RecordRequest(0.1), tmp_path / "out")
    asked = RecordRequest(0.1, with_stack=True, record_shapes=True, profile_memory=True)
    *_, more = record_injected(process.pid, asked, tmp_path / "out")
    assert isinstance(plain, Recorded)
    assert isinstance(more, Recorded)
    assert more.paths[0].name == f"pid_{process.pid}-2.json"
    assert not any("Input Dims" in event.get("args", {}) for event in slices(plain))
    assert any("Input Dims" in event.get("args", {}) for event in slices(more))
    assert not any(event.get("cat") == "python_function" for event in slices(plain))
    assert any(event.get("cat") == "python_function" for event in slices(more))
    header = json.loads(more.paths[0].read_text())
    assert (header["record_shapes"], header["with_stack"], header["profile_memory"]) == (1, 1, 1)


@torch_too
def test_a_process_that_records_itself_is_left_alone(start, tmp_path):
    process = start(
        "import torch\n"
        "with torch.profiler.profile() as profile:\n"
        "    torch.ones(1) + 1\n"
        "    print('ready', flush=True)\n"
        "    while not told_to_end(0.01): torch.ones(1) + 1\n"
        "print(len(profile.events()) > 0)\n"
    )
    with pytest.raises(
        AttachError, match=f"process {process.pid} cannot be recorded: it is already being profiled"
    ):
        list(record_injected(process.pid, RecordRequest(0.1), tmp_path / "out"))
    assert told_to_end(process) == "True\n"
    assert process.wait() == 0
    assert is_clean(tmp_path)


@pytest.mark.skipif(LIVE, reason="is found before")
def test_a_process_without_torch(start, tmp_path):
    process = start("print('ready', flush=True)\nwhile not told_to_end(0.01): pass", cold=True)
    with pytest.raises(AttachError, match="it has not imported PyTorch"):
        list(record_injected(process.pid, RecordRequest(0.1), tmp_path / "out"))
    assert is_clean(tmp_path)
    told_to_end(process)
    assert process.wait() == 0


@torch_too
def test_a_process_that_ends_meanwhile(start, tmp_path):
    process = start(LOOP, cold=True)
    assert process.stdin is not None
    events = record_injected(process.pid, RecordRequest(3600), tmp_path / "out")
    until(events, Stage.RECORDING)
    process.stdin.write("end\n")
    process.stdin.flush()
    with pytest.raises(AttachError, match=f"process {process.pid} ended before its trace was written"):
        list(events)
    assert process.wait() == 7
    assert process.stdout is not None
    assert process.stdout.read().startswith("left ")
    assert is_clean(tmp_path)
    assert list((tmp_path / "out").iterdir()) == []


@torch_too
@pytest.mark.parametrize("stage", [Stage.WARMING_UP, Stage.RECORDING])
def test_a_recording_that_is_broken_off(start, tmp_path, stage):
    process = start(LOOP)
    wanted = RecordRequest(60, start_in=60 if stage is Stage.WARMING_UP else 0)
    events = record_injected(process.pid, wanted, tmp_path / "out")
    until(events, stage)
    events.close()  # type: ignore[attr-defined]
    assert is_clean(tmp_path)
    *_, recorded = record_injected(process.pid, RecordRequest(0.1), tmp_path / "out")  # it can be asked again
    assert isinstance(recorded, Recorded)
    assert len(slices(recorded)) > 10
    told_to_end(process)
    assert process.wait() == 7


ASKER = """
import sys
from pathlib import Path
from tracetui.capture.live.model import RecordRequest
from tests.capture import test_live_inject as tests
tests.inject.recording_root = lambda: Path(sys.argv[2])
if not tests.LIVE:
    def signalled(pid, script):
        Path(sys.argv[2]).with_name("standin").write_text(str(script))
        tests.os.kill(pid, tests.signal.SIGUSR1)
    tests.inject._check, tests.inject._remote_exec = lambda _: None, signalled
for event in tests.record_injected(int(sys.argv[1]), RecordRequest(60), Path(sys.argv[2]).with_name("out")):
    print(event.stage.value, flush=True)
"""


@torch_too
def test_who_asked_is_killed(start, tmp_path):
    process = start(LOOP)
    command = [sys.executable, "-c", ASKER, str(process.pid), str(tmp_path / "temporary")]
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root), *filter(None, sys.path)])
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=root, env={**os.environ, "PYTHONPATH": path}
    ) as asker:
        assert asker.stdout is not None
        assert any(line == "recording\n" for line in asker.stdout)
        asker.kill()
    assert is_clean(tmp_path)
    assert told_to_end(process) == "left 1 []\n"
    assert process.wait() == 7


@torch_too
def test_a_main_thread_in_a_long_call(start, tmp_path, monkeypatch):
    """It runs the script when it is back, long after everybody has gone: that then only cleans up."""
    monkeypatch.setattr(inject, "BEGIN_SECONDS", 0.3)
    process = start(
        "import ctypes, time, torch\n"
        f"left = {str(tmp_path / 'temporary')!r}\n"
        "signals = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n"
        "print('ready', flush=True)\n"
        "ctypes.CDLL(None).getchar()\n"
        "signal.pthread_sigmask(signal.SIG_SETMASK, signals)\n"
        "while os.listdir(left): time.sleep(0.01)\n"
        "print('done', flush=True)\n"
    )
    with pytest.raises(AttachError, match=r"making no progress \(its main thread is in one long call\)"):
        list(record_injected(process.pid, RecordRequest(0.1), tmp_path / "out"))
    assert len(list((tmp_path / "temporary").iterdir())) == 1  # the script, which it may still open
    assert told_to_end(process) == "done\n", "it has cleaned up"
    assert process.wait() == 0


def test_errors_are_shown_safely(start, tmp_path, monkeypatch):
    def fail(pid: int, script: Path) -> None:
        (script.parent / "error").write_text("RuntimeError: \x1b[2J\nno\n" + "x" * 999)
        (script.parent / "began").touch()
        (script.parent / "ended").touch()

    monkeypatch.setattr(inject, "_check", lambda _: None)
    monkeypatch.setattr(inject, "_remote_exec", fail)
    with pytest.raises(AttachError) as caught:
        list(record_injected(os.getpid(), RecordRequest(0.1), tmp_path / "out"))
    assert str(caught.value).isprintable()
    assert "cannot be recorded: RuntimeError: ␛[2J no xxx" in str(caught.value)
    assert len(str(caught.value)) < 400
    assert is_clean(tmp_path)


# --- Why a process cannot be asked ------------------------------------------------------------------------
def refusal(pid: int, output: Path) -> str:
    with pytest.raises(AttachError) as caught:
        list(record_injected(pid, RecordRequest(0.1), output))
    assert not output.exists()
    return str(caught.value)


def test_there_is_no_such_process(tmp_path):
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert refusal(process.pid, tmp_path / "out") == f"there is no process {process.pid}"


def test_another_users_process(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert "is another user's: run tracetui as that user" in refusal(os.getpid(), tmp_path / "out")


def test_a_program_that_is_not_python_is_never_run(tmp_path):
    with subprocess.Popen(["sleep", "60"]) as process:
        while procfs.is_python(process.pid):  # not yet what it will be
            time.sleep(0.01)
        message = refusal(process.pid, tmp_path / "out")
        process.kill()
    assert "is not Python's own program: start it with tracetui run -- … next time" in message


@pytest.mark.skipif(LIVE, reason="needs an older Python")
def test_an_older_python(tmp_path):
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert refusal(os.getpid(), tmp_path / "out") == (
        f"process {os.getpid()} runs Python {version}, and only 3.14 or later can be asked without having "
        "been started for it: start it with tracetui run -- … next time"
    )


def answers(
    monkeypatch: pytest.MonkeyPatch, stdout: str = "3 14 True\n", stderr: str = "", code: int = 0
) -> None:
    answer = SimpleNamespace(stdout=stdout, stderr=stderr, returncode=code)
    monkeypatch.setattr(inject, "_run", lambda *_: answer)


def test_torch_is_not_imported(tmp_path, monkeypatch):
    answers(monkeypatch)
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert "has not imported PyTorch, at least not yet" in refusal(process.pid, tmp_path / "out")
        process.kill()


@pytest.mark.parametrize(("variables", "options"), [
    ({"PYTHON_DISABLE_REMOTE_DEBUG": "1"}, []), ({}, ["-X", "disable_remote_debug"])
])  # fmt: skip
def test_remote_debugging_is_disabled(tmp_path, monkeypatch, variables, options):
    answers(monkeypatch)
    command = [sys.executable, *options, "-S", "-c", "print(flush=True); input()"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env={**os.environ, **variables}, **pipes) as process:
        process.stdout.readline()
        assert "was started with remote debugging disabled" in refusal(process.pid, tmp_path / "out")
        process.kill()


def test_a_container(tmp_path, monkeypatch):
    monkeypatch.setattr(procfs, "sees_our_files", lambda _: False)
    assert "runs in a container: run tracetui in that container" in refusal(os.getpid(), tmp_path / "out")


@pytest.mark.parametrize(("scope", "words"), [
    ("1\n", "only its parent may, since kernel.yama.ptrace_scope is 1, which an administrator can set to 0"),
    ("3\n", "only an administrator may, since kernel.yama.ptrace_scope is 3; or start it with tracetui run"),
    (None, "docker run --cap-add SYS_PTRACE")
])  # fmt: skip
def test_no_right_to_trace(tmp_path, monkeypatch, scope, words):
    monkeypatch.setattr(inject, "_check", lambda _: None)
    answers(monkeypatch, stderr="Traceback…\nPermissionError: [Errno 1] Operation not permitted\n", code=1)
    right = inject._right_to_trace
    yama = tmp_path / "sys/kernel/yama"
    yama.mkdir(parents=True)
    if scope is not None:
        (yama / "ptrace_scope").write_text(scope)

    def elsewhere() -> str:
        with monkeypatch.context() as patch:
            patch.setattr(procfs, "PROC", tmp_path)
            return right()

    monkeypatch.setattr(inject, "_right_to_trace", elsewhere)
    with pytest.raises(AttachError, match=f"process {os.getpid()} may not be traced: ") as caught:
        list(record_injected(os.getpid(), RecordRequest(0.1), tmp_path / "out"))
    assert words in str(caught.value)
    assert is_clean(tmp_path)


def test_what_python_says_otherwise(tmp_path, monkeypatch):
    monkeypatch.setattr(inject, "_check", lambda _: None)
    answers(monkeypatch, stderr="RuntimeError: \x1b[31mNo\n", code=1)
    with pytest.raises(AttachError, match=r"cannot be asked \(RuntimeError: ␛\[31mNo\): start it with"):
        list(record_injected(os.getpid(), RecordRequest(0.1), tmp_path / "out"))
    assert is_clean(tmp_path)


def test_the_process_s_own_python_is_run():
    ended = inject._run(os.getpid(), procfs.environment(os.getpid()), "-c", inject._VERSION)
    assert ended.stdout.split() == [*map(str, sys.version_info[:2]), str(LIVE)]
