"""How a capture can end badly: always a clear message, no half file, no process left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.capture.conftest import alive, wait_until

from tracetui.capture import files, interpreter, run
from tracetui.capture.events import Cancelled, Done, Failed, Output, Phase, Progress
from tracetui.capture.options import CaptureOptions
from tracetui.capture.run import start
from tracetui.core.writing import link_new

from . import warm

torch = pytest.mark.torch
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")
Make = Callable[..., CaptureOptions]

# Starts a child in its group, one in a session of its own, and tells the ids of all three.
SLEEPER = """
import os, subprocess, sys, time
group = subprocess.Popen(["sleep", "300"])
alone = subprocess.Popen(["sleep", "300"], start_new_session=True)
print("pids", os.getpid(), group.pid, alone.pid, flush=True)
time.sleep(300)
"""


@pytest.fixture
def sleeper(tmp_path: Path) -> str:
    path = tmp_path / "sleeper.py"
    path.write_text(SLEEPER)
    return str(path)


def cli(*words: str, cwd: Path) -> subprocess.Popen[str]:
    return warm.tracetui("capture", *words, "--device", "cpu", "--no-open", cwd=cwd)


def pids_told(lines: list[str]) -> list[int]:
    return [int(word) for line in lines if line.startswith("pids ") for word in line.split()[1:]]


@torch
@linux
@pytest.mark.parametrize(
    "number", [getattr(signal, s) for s in ("SIGINT", "SIGTERM", "SIGQUIT") if hasattr(signal, s)]
)
def test_a_signal_ends_everything(sleeper, tmp_path, number):
    process = cli(sleeper, cwd=tmp_path)
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if line.startswith("pids "):
            break
    pids = pids_told(lines)
    assert len(pids) == 3
    assert all(map(alive, pids))
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 128 + number
    assert err.splitlines()[-1] == "tracetui: capture canceled; no file was written"
    assert out == ""
    assert not any(map(alive, pids))
    assert not (tmp_path / "traces").exists()


@torch
@linux
def test_several_signals_at_once_are_one(sleeper, tmp_path):
    """As when a terminal is closed: the system sends it, and so does the shell."""
    process = cli(sleeper, cwd=tmp_path)
    assert process.stdout is not None
    pids = pids_told([process.stdout.readline()])
    for _ in range(100):
        process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGHUP
    assert err.splitlines()[-1] == "tracetui: capture canceled; no file was written"
    assert not any(map(alive, pids))
    assert not (tmp_path / "traces").exists()


@torch
@linux
def test_a_killed_parent_leaves_the_program_alone(tmp_path):
    """It goes on to its own end, as if nobody recorded; a workload of ours ends."""
    script = tmp_path / "train.py"
    script.write_text(
        "import os, time, torch\n"
        "model = torch.nn.Linear(4, 4)\n"
        "optimizer = torch.optim.SGD(model.parameters())\n"
        "print('pids', os.getpid(), flush=True)\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "for _ in range(30): model(torch.ones(4)).sum().backward(); optimizer.step()\n"
        "open('ended', 'w').close()\n"
    )
    process = cli(str(script), cwd=tmp_path)
    assert process.stdout is not None
    pids = pids_told([process.stdout.readline()])
    process.kill()
    assert wait_until(lambda: not list(tmp_path.glob("traces/*/.capture-*")))
    (tmp_path / "go").touch()
    assert wait_until((tmp_path / "ended").exists)
    process.communicate(timeout=300)
    assert wait_until(lambda: not any(map(alive, pids)))
    assert not (tmp_path / "traces").exists()


@torch
@linux
def test_a_recorder_that_nobody_reads_writes_its_files(tmp_path):
    (tmp_path / "train.py").write_text(KILLER.replace("MOMENT", "None"))
    process = cli("train.py", cwd=tmp_path)
    assert process.stderr is not None
    process.stderr.close()  # before it says anything: it takes a moment to start
    process.stderr = None
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert out.splitlines()[-1].endswith(".meta.json")


KILLER = """
import atexit, os, signal
def kill(moment):
    if moment == MOMENT:
        os.kill(os.getppid(), signal.SIGKILL)
atexit.register(kill, "exit")
kill("start")
import torch
kill("imported")
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters())
for step in range(12):
    model(torch.ones(4)).sum().backward()
    optimizer.step()
    kill(step)
kill("end")
os.close(os.open("ended", os.O_CREAT))
"""


@torch
@linux
@pytest.mark.parametrize("moment", ["start", "imported", 0, 5, "end", "exit"])
def test_a_parent_killed_in_any_moment_leaves_nothing(moment, tmp_path):
    (tmp_path / "train.py").write_text(KILLER.replace("MOMENT", repr(moment)))
    many = ["--active", "30"]  # never complete, so it is written when the program ends
    process = cli("train.py", *many, cwd=tmp_path)
    out, err = process.communicate(timeout=300)  # they close with the program
    assert process.returncode == -signal.SIGKILL
    assert (tmp_path / "ended").exists()
    assert wait_until(lambda: not (tmp_path / "traces").exists()), list(tmp_path.glob("traces/*/*"))
    assert [line for line in (out + err).splitlines() if not line.startswith("tracetui: capturing on")] == []


@pytest.mark.usefixtures("warm_start")
@torch
def test_a_trace_comes_after_all_that_belongs_to_it(options, monkeypatch):
    linked: list[str] = []

    def link(source: Path, target: Path) -> None:
        linked.append("".join(target.suffixes[-2:]))
        link_new(source, target)

    monkeypatch.setattr(files, "link_new", link)
    assert isinstance(start(options(averages_json=True)).wait(), Done)
    assert linked == [".meta.json", ".averages.json", ".txt", ".json"]


@torch
def test_what_a_thread_of_ours_imports_is_there_before_the_program_goes_on(options, tmp_path):
    """Otherwise both import the same modules at once, and one of them sees half of one."""
    (tmp_path / "train.py").write_text(
        "import sys, time\nassert 'torch' not in sys.modules\n"
        "import torch\nprint('torch._inductor.config' in sys.modules)\n"
    )
    capture = start(options(str(tmp_path / "train.py"), duration=0.2))
    capture.wait()
    assert [event.text for event in capture.events if isinstance(event, Output)] == ["True"]


@torch
@linux
def test_a_killed_parent_takes_a_callable_along(tmp_path):
    (tmp_path / "endless.py").write_text(
        "import os, time\ndef step():\n    print('pids', os.getpid(), flush=True)\n    time.sleep(300)\n"
    )
    process = cli("endless:step", cwd=tmp_path)
    assert process.stdout is not None
    pids = pids_told([process.stdout.readline()])
    process.kill()
    process.communicate(timeout=300)
    assert wait_until(lambda: not any(map(alive, pids)))
    assert wait_until(lambda: not list(tmp_path.glob("traces/*/.capture-*")))


@pytest.mark.usefixtures("warm_start")
@torch
@linux
def test_cancel(sleeper, options, tmp_path):
    capture = start(options(sleeper))
    told: list[int] = []
    for event in capture:
        if isinstance(event, Output) and event.text.startswith("pids"):
            told = pids_told([event.text])
            began = time.monotonic()
            capture.cancel()
            capture.cancel()
    assert isinstance(capture.end, Cancelled)
    assert time.monotonic() - began < 60
    assert len(told) == 3
    assert wait_until(
        lambda: not any(map(alive, told))
    )  # those that the script started are not ours to wait for
    assert not (tmp_path / "out").exists()
    capture.cancel()  # nothing more to end
    assert capture.elapsed == capture.end.elapsed


def test_cancel_at_once(options, tmp_path):
    capture = start(options())
    capture.cancel()
    assert isinstance(capture.wait(), Cancelled | Failed)
    assert capture.pid is None or wait_until(lambda: not alive(capture.pid or 0))
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("warm_start")
@torch
@linux
def test_a_killed_child(sleeper, options, tmp_path):
    capture = start(options(sleeper))
    told: list[int] = []
    for event in capture:
        if isinstance(event, Output) and event.text.startswith("pids"):
            told = pids_told([event.text])
            assert capture.pid == told[0]
            os.kill(told[0], signal.SIGKILL)
    end = capture.end
    assert isinstance(end, Failed)
    assert (end.kind, end.message) == ("killed", f"{sleeper} was killed (SIGKILL; out of memory?)")
    assert not any(map(alive, told))  # nor what the child had started
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("warm_start")
@torch
def test_a_crash(tmp_path, options, monkeypatch):
    monkeypatch.setattr(run, "TAIL_LINES", 60)  # the stack is longer in a fork
    script = tmp_path / "crash.py"
    script.write_text("import ctypes\nprint('soon')\nctypes.string_at(0)\n")
    end = start(options(str(script))).wait()
    assert isinstance(end, Failed)
    assert end.message == f"{script} was killed (SIGSEGV)"
    assert end.tail[0] == "soon"
    assert any("crash.py" in line for line in end.tail)  # where it crashed


@pytest.mark.usefixtures("warm_start")
@torch
def test_a_forked_process_that_holds_the_pipes(tmp_path, options):
    """A worker that outlives the child must not keep the parent waiting for the pipes to end."""
    script = tmp_path / "fork.py"
    script.write_text(
        "import os, sys, time\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    time.sleep(3000)\n"
        "print('pids', pid, flush=True)\n"
        "os._exit(7)\n"
    )
    capture = start(options(str(script)))
    end = capture.wait()
    assert isinstance(end, Failed)
    assert end.message == f"{script} ended with exit status 7"
    assert end.elapsed < 600, "not until that ends"
    told = pids_told([event.text for event in capture.events if isinstance(event, Output)])
    assert len(told) == 1
    assert wait_until(lambda: not alive(told[0]))  # a killed process takes a moment to go


@pytest.mark.usefixtures("warm_start")
@torch
@pytest.mark.parametrize(("code", "words"), [(3, "with exit status 3"), ("no data", "with: no data")])
def test_an_exit_status_of_the_script(code, words, tmp_path, options):
    script = tmp_path / "leave.py"
    script.write_text(f"raise SystemExit({code!r})\n")
    end = start(options(str(script))).wait()
    assert isinstance(end, Failed)
    assert end.message == f"{script} ended {words}"


@pytest.mark.usefixtures("warm_start")
@torch
@linux
def test_a_full_disk(options, tmp_path, monkeypatch):
    """No file may grow beyond 4 KB: the trace breaks off in the middle, which Kineto does not report."""
    monkeypatch.setenv(warm.LONGEST_FILE, "4096")
    end = start(options("mlp")).wait()
    assert isinstance(end, Failed)
    assert end.kind == "disk"
    assert "full" in end.message or "cannot write" in end.message
    assert not (tmp_path / "out").exists()


def test_a_missing_directory(tmp_path, options):
    output = str(tmp_path / "no" / "such")
    end = start(options(output=output)).wait()
    assert isinstance(end, Failed)
    assert end.message == f"cannot write to {output}: no such directory"


@pytest.mark.usefixtures("warm_start")
@torch
def test_a_directory_that_goes_away(sleeper, tmp_path, options):
    script = tmp_path / "remover.py"
    script.write_text(
        f"import shutil, torch\ntorch.ones(2).cos()\nshutil.rmtree({str(tmp_path / 'out')!r})\n"
    )
    end = start(options(str(script))).wait()
    assert isinstance(end, Failed)
    assert end.kind == "disk"
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_way(tmp_path, options):
    (tmp_path / "out").write_text("mine")
    end = start(options()).wait()
    assert isinstance(end, Failed)
    assert end.kind == "disk"
    assert (tmp_path / "out").read_text() == "mine"


def test_no_torch(options, tmp_path, wrapped_python):
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nshift\nexec "{sys.executable}" -S "$@"\n')  # without site-packages
    bare.chmod(0o755)
    end = start(options(python=str(bare))).wait()
    assert isinstance(end, Failed)
    assert end.kind == "no_torch"
    assert end.message == f"PyTorch is not installed. Install it: {sys.executable} -m pip install torch"
    assert end.tail == ()


def test_no_torch_here(options, monkeypatch):
    monkeypatch.setattr(interpreter, "find_spec", lambda name: None)
    monkeypatch.setattr(interpreter, "active_pythons", lambda: iter(()))
    end = start(options()).wait()
    assert isinstance(end, Failed)
    assert end.kind == "no_torch"
    assert f"{sys.executable} -m pip install torch" in end.message


@pytest.mark.parametrize("version", ["2.3.1+cu121", "1.13.0"])
def test_an_old_torch(version, options, tmp_path, wrapped_python):
    package = tmp_path / "old" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"__version__ = {version!r}\n")
    end = start(options(python=wrapped_python(f'export PYTHONPATH="{tmp_path}/old"'))).wait()
    assert isinstance(end, Failed)
    assert end.kind == "old_torch"
    assert end.message.startswith(f"torch {version} is too old, 2.4 or newer is needed. Update it: ")
    assert end.message.endswith("-m pip install --upgrade torch")


def test_a_torch_that_does_not_load(options, tmp_path, wrapped_python):
    package = tmp_path / "broken" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')\n")
    end = start(options(python=wrapped_python(f'export PYTHONPATH="{tmp_path}/broken"'))).wait()
    assert isinstance(end, Failed)
    assert end.message == "importing torch failed: libcudart.so.12: cannot open shared object file"


@pytest.mark.parametrize(("python", "words"), [
    ("/no/such/python", "--python: no such program: /no/such/python"),
    ("/bin/true", "/bin/true did not run the capture (exit status 0)")
])  # fmt: skip
def test_a_python_that_is_none(python, words, options):
    end = start(options(python=python)).wait()
    assert isinstance(end, Failed)
    assert (end.kind, end.message) == ("no_python", words)


@pytest.mark.usefixtures("warm_start")
@torch
def test_no_such_device(options):
    end = start(options(device="cuda")).wait()
    if isinstance(end, Done):
        pytest.skip("there is a GPU")
    assert isinstance(end, Failed)
    assert end.kind == "no_device"
    assert "sees no CUDA device; try --device cpu" in end.message


@pytest.mark.usefixtures("warm_start")
@torch
def test_a_backend_that_the_device_has_not(options):
    end = start(options("attention", {"backend": "cudnn"})).wait()
    assert isinstance(end, Failed)
    assert (end.kind, end.message) == ("usage", "--backend cudnn needs a GPU")


def test_a_callback_may_wait_for_a_thread_that_asks_for_events(options, tmp_path):
    """A user interface does: its callback waits for the main thread, and that looks at the capture."""
    asked: list[int] = []
    ready = threading.Event()

    def on_event(event: object) -> None:
        ready.wait(60)
        asker = threading.Thread(target=lambda: asked.append(len(capture.events)), daemon=True)
        asker.start()
        asker.join(300)

    capture = start(options(output=str(tmp_path / "no" / "such")), on_event)
    ready.set()
    assert isinstance(capture.wait(), Failed)
    assert wait_until(lambda: asked == [1, 2])


@pytest.mark.usefixtures("warm_start")
@torch
def test_events_come_one_at_a_time_and_in_order(options):
    seen: list[object] = []
    capture = start(options(), seen.append)
    end = capture.wait()
    assert wait_until(lambda: seen == list(capture) == list(capture.events))
    assert seen[-1] is end
    assert seen[0] == Progress(0.0, Phase.STARTING)
    texts = [event.text for event in capture.events if isinstance(event, Progress)]
    assert texts[0] == "importing torch"
    assert texts[1].startswith("looking for a device: torch ")
    assert "warming up: step 2 of 3" in texts
    assert "profiling: step 1 of 5 (wait)" in texts
    assert "profiling: step 5 of 5 (active)" in texts
    assert texts[-1] == "exporting: 8_fp32_warm_eager.txt"
    times = [event.elapsed for event in capture.events]
    assert times == sorted(times)
