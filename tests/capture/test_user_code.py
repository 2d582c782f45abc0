"""A user's own callable or script, unchanged, under the profiler."""

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from tests.capture.conftest import events_of
from tests.capture.test_workloads import same_rows

from tracetui.capture.events import Done, Failed, Output
from tracetui.capture.options import CaptureOptions
from tracetui.capture.run import start

from . import warm

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("warm_start")]
Make = Callable[..., CaptureOptions]
TRAINING = """
import sys
import torch
from torch import nn

model = nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
other = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
for i in range(int(sys.argv[1])):
    model(torch.randn(2, 4)).sum().backward()
    try:
        optimizer.step()
    except Exception:
        print("a script's own net does not catch the end")
    other.step()
    optimizer.zero_grad()
    schedule.step()
    print("iteration", i, flush=True)
print(__name__, "ends", "__main__" in sys.modules)
"""


def of_the_script(text: str) -> bool:
    """Not what PyTorch for CUDA prints where there is no driver."""
    return "gpuGetDeviceCount failed" not in text


def printed(capture: object) -> list[str]:
    texts = [event.text for event in capture.events if isinstance(event, Output)]  # type: ignore[attr-defined]
    return [text for text in texts if of_the_script(text)]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAINING)
    return path


def test_a_script_is_stepped_by_its_optimizer(script, options):
    capture = start(options(str(script), script_args=("50",), averages_json=True))
    end = capture.wait()
    assert isinstance(end, Done), end
    events = events_of(end.result.trace)
    steps = {e["name"]: e for e in events if e["cat"] == "user_annotation" and "ProfilerStep" in e["name"]}
    assert list(steps) == ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"]
    # A step holds its optimizer's annotation whole: the border does not cut it.
    inside = [e for e in events if e["name"] == "Optimizer.step#AdamW.step"]
    assert len(inside) == 3
    for step, optimizer in zip(steps.values(), inside, strict=True):
        assert step["ts"] <= optimizer["ts"]
        assert optimizer["ts"] + optimizer["dur"] <= step["ts"] + step["dur"]
    # 3 to warm up, 5 under the schedule; then the script is left, in the middle of its loop.
    lines = printed(capture)
    assert lines[-1] == "iteration 6"
    assert [note.text for note in end.result.notes][-1] == (
        "stopped after step 8 (AdamW.step): the 3 wanted steps are recorded "
        "(--run-to-end lets the script finish)"
    )
    assert not any("net" in line or "Warning" in line for line in lines)
    assert end.result.trace.name == "train-50.json"
    assert end.result.trace.parent.name == "train"
    assert end.result.averages is not None
    same_rows(end.result.trace, end.result.averages)


@pytest.mark.parametrize(("ending", "status", "words"), [
    ("", None, None), ("sys.exit(0)", None, None), ("sys.exit(7)", 7, "ended with exit status 7"),
    ("sys.exit('no data')", 1, "ended with: no data"), ("raise KeyError('x')", 1, "failed: KeyError: 'x'")
])  # fmt: skip
def test_a_script_that_runs_to_its_end(ending, status, words, script, options):
    script.write_text(f"{TRAINING}\n{ending}\n")
    capture = start(options(str(script), script_args=("20",), run_to_end=True))
    end = capture.wait()
    assert isinstance(end, Done), end
    steps = [e["name"] for e in events_of(end.result.trace) if "ProfilerStep" in e["name"]]
    assert steps == ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"]
    lines = printed(capture)
    assert "iteration 19" in lines
    assert ("KeyError: 'x'" in lines) == ("KeyError" in ending)
    assert end.result.info.get("exit_status") == status
    assert "--run-to-end" in end.result.info["command"]
    told = [note.text for note in end.result.notes if note.kind in ("stopped", "script_failed")]
    assert told == ([f"{script} {words}; what it did until then is recorded"] if words else [])


def test_a_script_that_fails_early_keeps_what_was_recorded(script, options):
    script.write_text(f"{TRAINING}\nsys.exit(3)\n")
    end = start(options(str(script), script_args=("7",), run_to_end=True)).wait()
    assert isinstance(end, Done)
    assert end.result.info["exit_status"] == 3
    assert (
        end.result.notes[-1].text == f"{script} ended with exit status 3; what it did until then is recorded"
    )
    end = start(options(str(script), script_args=("4",), run_to_end=True)).wait()
    assert isinstance(end, Failed)
    assert (end.kind, end.exit_status) == ("few_steps", 3)


def test_a_script_with_a_profiler_of_its_own_is_told(script, options):
    script.write_text(TRAINING + "\nwith torch.profiler.profile():\n    model(torch.randn(2, 4))\n")
    end = start(options(str(script), script_args=("2",))).wait()
    assert isinstance(end, Failed)
    assert end.message.startswith(
        "the script profiles itself and wrote no trace, and nothing else was recorded"
    )
    # One that comes after the recorded steps is in nobody's way.
    end = start(options(str(script), script_args=("9",), run_to_end=True)).wait()
    assert isinstance(end, Done), end


def test_the_command_ends_like_the_script_that_ran_to_its_end(script, tmp_path):
    script.write_text(f"{TRAINING}\nsys.exit(7)\n")
    words = [
        "capture", str(script), "--device", "cpu", "--run-to-end", "-o", str(tmp_path / "out"), "--", "9"
    ]  # fmt: skip
    ran = warm.tracetui(*words)
    out, err = ran.communicate()
    assert ran.returncode == 7, err
    assert out.startswith("iteration 0\n")
    assert "\ntrain-9.json " in out
    assert out.splitlines()[-3] == str(tmp_path / "out" / "train" / "train-9.json")


def test_the_first_step_of_a_script(script, options):
    first = {"warmup": False, "wait": 0, "schedule_warmup": 0, "active": 2}
    end = start(options(str(script), script_args=("9",), **first)).wait()
    assert isinstance(end, Done), end
    steps = [e["name"] for e in events_of(end.result.trace) if "ProfilerStep" in e["name"]]
    assert steps == ["ProfilerStep#0", "ProfilerStep#1"]


def test_a_script_that_ends_early_keeps_what_there_is(script, options):
    end = start(options(str(script), script_args=("7",))).wait()
    assert isinstance(end, Done), end
    text = "the script ended early: 2 of 3 steps recorded; the last of the 3 in the trace is cut off"
    assert [note.text for note in end.result.notes][-1] == text
    assert end.result.info["steps"] == 3


def test_a_script_with_too_few_steps(script, options):
    end = start(options(str(script), script_args=("4",))).wait()
    assert isinstance(end, Failed)
    assert end.kind == "few_steps"
    assert "4 steps (AdamW.step), but recording starts after 5" in end.message


def test_a_script_without_optimizer_is_one_step(tmp_path, options):
    script = tmp_path / "plain.py"
    script.write_text("import torch\nx = torch.ones(4, 4) @ torch.ones(4, 4)\nprint('done', __file__)\n")
    capture = start(options(str(script)))
    end = capture.wait()
    assert isinstance(end, Done), end
    assert [note.kind for note in end.result.notes] == ["no_gpu", "one_step"]
    names = [e["name"] for e in events_of(end.result.trace)]
    assert names.count("ProfilerStep#0") == 1
    assert "aten::mm" in names
    assert printed(capture) == [f"done {script}"]


def test_a_callable(tmp_path, options, monkeypatch):
    (tmp_path / "events.py").write_text(  # a name that tracetui has, too: the user's must win
        "import torch\nclass Model:\n    @staticmethod\n    def run():\n        return torch.ones(3).cos()\n"
    )
    monkeypatch.chdir(tmp_path)
    end = start(options("events:Model.run")).wait()
    assert isinstance(end, Done), end
    assert end.result.trace.parts[-2:] == ("events.Model.run", "Model.run.json")
    assert [e["name"] for e in events_of(end.result.trace)].count("aten::cos") == 3


def test_a_chatty_script(tmp_path, options):
    """What is printed is passed on to the last line, and does not fill the memory."""
    script = tmp_path / "chatty.py"
    script.write_text(
        "import os, sys, torch\n"
        "torch.ones(2).cos()\n"
        "for i in range(12_000):\n    print(i)\n"
        "os.system('echo from the shell')\n"
        "sys.stdout.buffer.write(b'\\xff\\x00 10%\\r 20%\\n' + b'x' * 5000 + b'\\n')\n"
        "print(sys.stdin.read() == '')\n"
    )
    seen: list[str] = []
    capture = start(options(str(script)), lambda e: seen.append(e.text) if isinstance(e, Output) else None)
    assert isinstance(capture.wait(), Done)
    assert [*filter(of_the_script, seen)] == [
        *map(str, range(12_000)), "from the shell", " 20%", "x" * 2000, "True"
    ]  # fmt: skip
    assert printed(capture) == seen[:10_000]


def test_nothing_of_ours_is_imported_in_the_child(tmp_path, options):
    script = tmp_path / "modules.py"
    ours = ("tracetui", "click", "textual", "rich", "msgspec", "platformdirs")
    text = (
        f"import sys, torch\ntorch.ones(2).cos()\nprint([name for name in {ours} if name in sys.modules])\n"
    )
    script.write_text(text)
    capture = start(options(str(script)))
    assert isinstance(capture.wait(), Done)
    assert printed(capture) == ["[]"]


def test_what_fails_in_a_script_is_shown_as_it_ran(tmp_path):
    script = tmp_path / "bad.py"
    script.write_text(
        dedent(
            """
            import sys, torch
            def product():
                print("\\x1b[31mred\\x1b[0m", file=sys.stderr)
                return torch.ones(2, 3) @ torch.ones(2, 3)
            product()
            """
        )
    )
    command = ["capture", str(script), "--device", "cpu", "--no-open", "--output", str(tmp_path / "out")]
    with warm.tracetui(*command) as ran:
        out, err = ran.communicate(timeout=300)
    assert ran.returncode == 1
    assert out.startswith("bad.json ")
    assert err.splitlines()[-1].startswith(f"tracetui: {script} failed: RuntimeError: ")
    assert err.count("in product") == 1  # the traceback comes once, and without our own frames
    assert "tracetui/capture" not in err


@pytest.mark.parametrize(("target", "words"), [
    ("no_such_module:f", "no module 'no_such_module'"), ("json:nothing", "module 'json' has no 'nothing'"),
    ("json:__doc__", "json:__doc__ cannot be called: it is a str")
])  # fmt: skip
def test_what_cannot_be_called(target, words, options):
    end = start(options(target)).wait()
    assert isinstance(end, Failed)
    assert end.kind == "usage"
    assert words in end.message
