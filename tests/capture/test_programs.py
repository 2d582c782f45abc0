"""Awkward programs of a user's own: what is recorded of them, and what is said."""

import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.capture.conftest import events_of

from tracetui.capture.events import Done, Failed, Output
from tracetui.capture.options import CaptureOptions
from tracetui.capture.run import start

from . import warm

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("warm_start")]
Make = Callable[..., CaptureOptions]
TRAINS = """
import torch
model = torch.nn.Linear(8, 8)
def make(): return torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = make()
def one(optimizer=optimizer):
    optimizer.zero_grad()
    model(torch.randn(2, 8)).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def run(tmp_path: Path, options: Make) -> Callable[..., tuple[Any, list[str]]]:
    """Captures TRAINS and what is given; returns the last event and the lines that were printed."""

    def go(text: str, **how: Any) -> tuple[Any, list[str]]:
        script = tmp_path / "program.py"
        script.write_text(TRAINS + text)
        capture = start(options(str(script), **how))
        return capture.wait(), [event.text for event in capture.events if isinstance(event, Output)]

    return go


def steps_of(end: Any) -> list[str]:
    """The names of the recorded steps; as many as the capture claims."""
    assert isinstance(end, Done), end
    assert end.result.meta is not None
    events = sorted(events_of(end.result.trace), key=lambda event: event["ts"])
    steps = [event["name"] for event in events if event["name"].startswith("ProfilerStep#")]
    assert json.loads(end.result.meta.read_text())["steps"] == len(steps)
    return steps


THREE = ["ProfilerStep#2", "ProfilerStep#3", "ProfilerStep#4"]
ENDS = {
    "a task that nobody awaits": """
import asyncio
async def consumer(queue):
    while True:
        await queue.get(); one(); queue.task_done()
async def main():
    queue = asyncio.Queue(); task = asyncio.create_task(consumer(queue))
    for i in range(30): queue.put_nowait(i)
    await queue.join()
try: asyncio.run(main())
finally: print("cleanup")
""",
    "a bare except": """
import atexit
atexit.register(print, "cleanup")
while True:
    try: one()
    except: pass
""",
    "a thread": """
import threading
def train():
    try:
        while True: one()
    finally: print("cleanup")
thread = threading.Thread(target=train); thread.start(); thread.join()
while True: threading.Event().wait(1)
""",
    "two threads": """
from concurrent.futures import ThreadPoolExecutor
def train(number):
    mine = torch.nn.Linear(8, 8)  # one that both train would crash without us
    optimizer = torch.optim.SGD(mine.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad(); mine(torch.randn(2, 8)).sum().backward(); optimizer.step()
try:
    with ThreadPoolExecutor(2) as pool: list(pool.map(train, range(2)))
finally: print("cleanup")
""",
}


@pytest.mark.parametrize("name", ENDS)
def test_it_is_ended_with_its_cleanup_done(name, run):
    end, printed = run(ENDS[name])
    assert steps_of(end) == THREE
    assert printed.count("cleanup") == 1
    assert not any("Traceback" in line or "tracetui" in line for line in printed), printed
    assert "exit_status" not in end.result.info


@pytest.mark.parametrize(("last", "status"), [
    ("import os; os._exit(0)", None), ("import os; os._exit(9)", 9),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137), ("raise ValueError('late')", 1)
])  # fmt: skip
def test_what_follows_the_recording_loses_nothing(last, status, run):
    end, _ = run(f"for i in range(20): one()\n{last}\n", run_to_end=True)
    assert steps_of(end) == THREE
    assert end.result.info.get("exit_status") == status


def test_a_forked_child_stays_untouched(run):
    text = """
import os
for i in range(4): one()
child = os.fork()
for i in range(8):
    with torch.profiler.record_function("child" if child == 0 else "parent"): one()
if child == 0: print("the child's own end", flush=True); raise SystemExit(0)
print("waited", os.waitpid(child, 0)[1])
"""
    end, printed = run(text, run_to_end=True)
    assert steps_of(end) == THREE
    names = {e["name"] for e in events_of(end.result.trace)}
    assert "parent" in names
    assert "child" not in names
    assert "the child's own end" in printed
    assert "waited 0" in printed


def test_a_thread_per_epoch_is_recorded(run):
    text = """
import threading
for epoch in range(6):
    thread = threading.Thread(target=lambda: [one(), one()]); thread.start(); thread.join()
print("end")
"""
    end, printed = run(text, run_to_end=True)
    assert steps_of(end) == THREE
    assert "end" in printed


def test_threads_need_a_profiler_of_all_threads(run):
    text = "import threading\nt = threading.Thread(target=lambda: [one() for _ in range(20)])\n"
    text += "t.start(); t.join()"
    end, _ = run(text, profile_memory=True)
    assert isinstance(end, Failed)
    assert end.kind == "threads"
    assert end.message.endswith("which this PyTorch can record only without --profile-memory")


@pytest.mark.parametrize(("loop", "counted", "each"), [
    ("for task in range(5):\n    new = make()\n    for i in range(4): one(new)", ["SGD.step"], 1),
    (
        "other = torch.optim.Adam(model.parameters())\nfor i in range(20): one(); other.step()",
        ["SGD.step"],
        1,
    ),
    (
        "other = torch.optim.Adam(model.parameters())\n"
        "for i in range(20):\n    other.step()\n    for _ in range(5): one()",
        ["Adam.step", "SGD.step"],
        1,
    ),
    (
        "for i in range(40):\n    model(torch.ones(8)).sum().backward()\n    if i % 2: optimizer.step()",
        ["SGD.step"],
        1,
    ),
    (
        "lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=4)\n"
        "def closure():\n    loss = model(torch.ones(8)).square().sum(); loss.backward(); return loss\n"
        "for i in range(12): lbfgs.step(closure)",
        ["LBFGS.step"],
        1,
    ),
    (
        "many = [make() for _ in range(14)]\n"
        "for i in range(12):\n    model(torch.ones(8)).sum().backward()\n    for o in many: o.step()",
        ["SGD.step"],
        14,
    ),
])  # fmt: skip
def test_what_counts_as_a_step(loop, counted, each, run):
    """`each`: optimizers' steps within one of the program."""
    end, _ = run(loop)
    steps = steps_of(end)
    assert len(steps) == 3
    assert end.result.info["counted"] == counted
    events = events_of(end.result.trace)
    for step in [e for e in events if e["name"] in steps]:
        inside = [
            e["name"] for e in events if step["ts"] <= e["ts"] < step["ts"] + step["dur"]
            and e["name"] == f"Optimizer.step#{counted[-1]}"
        ]  # fmt: skip
        assert len(inside) == each


def test_a_step_that_ends_in_a_backward_pass(run):
    text = """
import warnings; warnings.simplefilter("error")
each = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
for p in each: p.register_post_accumulate_grad_hook(lambda p: each[p].step())
try:
    while True: model(torch.ones(8)).sum().backward()
finally: print("cleanup")
"""
    end, printed = run(text)
    assert steps_of(end) == THREE
    assert "cleanup" in printed
    assert not any("Warning" in line or "Traceback" in line for line in printed), printed


def test_a_warning_of_the_program_comes_as_often_as_without_us(run):
    text = "import warnings\nfor i in range(12): warnings.warn('the program says'); one()"
    end, printed = run(text, run_to_end=True)
    assert steps_of(end) == THREE
    assert sum("UserWarning: the program says" in line for line in printed) == 1


def test_frames_are_recorded_of_the_steps_only(run):
    """What comes before the first step is thrown away, and frames of an import can take gigabytes."""
    end, _ = run("for i in range(12): one()", with_stack=True)
    assert steps_of(end) == THREE
    assert any(e.get("cat") == "python_function" for e in events_of(end.result.trace))
    end, _ = run("model(torch.ones(8))", with_stack=True)
    assert steps_of(end) == ["ProfilerStep#0"]
    assert not any(e.get("cat") == "python_function" for e in events_of(end.result.trace))
    assert end.result.notes[-1].text.endswith("; it has no Python frames (--duration records them)")


def test_a_compiled_step_is_not_seen(run):
    text = "optimizer.step = torch.compile(optimizer.step, backend='eager')\nfor i in range(12): one()"
    end, _ = run(text)
    assert steps_of(end) == ["ProfilerStep#0"]
    assert "no optimizer step was seen (torch.compile hides those" in end.result.notes[-1].text
    end, _ = run(text, step_on="Optimizer.zero_grad#SGD.zero_grad")
    assert steps_of(end) == THREE


def test_a_step_by_an_annotation(run):
    text = """
for i in range(12):
    with torch.profiler.record_function("batch"): model(torch.ones(8))
"""
    end, _ = run(text, step_on="batch")
    assert steps_of(end) == THREE
    assert end.result.info["counted"] == ["batch"]
    end, _ = run(text, step_on="other")
    assert len(steps_of(end)) == 1
    assert "no annotation 'other' was seen (but batch)" in end.result.notes[-1].text


def test_a_time_instead_of_steps(run):
    text = """
import threading
def serve():
    while True: model(torch.ones(8)); threading.Event().wait(0.001)
threading.Thread(target=serve, daemon=True).start()
try: threading.Event().wait()
except KeyboardInterrupt: print("stopped")
"""
    end, printed = run(text, after=0.2, duration=0.3)
    assert steps_of(end) == []
    assert "stopped" in printed
    events = events_of(end.result.trace)
    calls = [e["ts"] for e in events if e["name"] == "aten::linear"]
    assert calls, "what other threads do is recorded"
    assert 0.05e6 < max(calls) - min(calls) < 5e6


def test_a_time_in_which_nothing_ran_is_told_at_once(run):
    text = """
import threading
try:
    for i in range(1000): threading.Event().wait(0.1)
finally: print("cleanup", i)
"""
    end, printed = run(text, after=1.0, duration=0.2)
    assert isinstance(end, Failed)
    assert re.search(
        r"no PyTorch operators in this process in these \d+\.\d s \(--after begins later\)", end.message
    )
    assert any(line.startswith("cleanup") for line in printed)
    assert "cleanup 999" not in printed


OWN = {
    "torch.profiler": "torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])",
    "_KinetoProfile": "Kineto()", "torch.autograd": "torch.autograd.profiler.profile()"
}  # fmt: skip
KINETO = """
class Kineto(torch.profiler._KinetoProfile):
    def __enter__(self): self.start(); return self
    def __exit__(self, *error): self.stop()
"""


@pytest.mark.parametrize("which", OWN)
def test_a_profiler_of_its_own_is_left_alone(which, run, tmp_path):
    text = f"""
{KINETO}
torch.profiler.schedule(wait=0, warmup=0, active=2)
with {OWN[which]} as prof:
    for i in range(12): one()
prof.export_chrome_trace({str(tmp_path / "own.json")!r})
print("rows", sum(row.count for row in prof.key_averages() if row.key == "aten::linear"))
"""
    end, printed = run(text)
    assert isinstance(end, Done), end
    assert "rows 12" in printed
    assert any("this can skew profiler results" in line for line in printed), "said by PyTorch without us"
    assert end.result.trace == tmp_path / "own.json"
    assert end.result.table is None
    assert end.result.notes[-1].text == "the script recorded own.json itself: opening that"
    end, printed = run(text, ours=True, run_to_end=True)
    assert steps_of(end) == THREE
    assert "rows 0" in printed
    assert json.loads((tmp_path / "own.json").read_text()) == {"traceEvents": []}


def test_a_module_and_its_arguments(tmp_path, options, monkeypatch):
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "beside.py").write_text("word = 'beside'")
    (folder / "train.py").write_text(
        f"{TRAINS}\nimport sys\nfrom .beside import word\nprint(word, __name__, sys.argv[1:])\n"
        "for i in range(12): one()\n"
    )
    monkeypatch.chdir(tmp_path)
    capture = start(options("package.train", module=True, script_args=("--lr", "-1", "x y")))
    end = capture.wait()
    assert steps_of(end) == THREE
    printed = [event.text for event in capture.events if isinstance(event, Output)]
    assert "beside __main__ ['--lr', '-1', 'x y']" in printed
    assert end.result.info["command"].startswith("tracetui capture package.train ")  # type: ignore[union-attr]
    assert " -- --lr -1 'x y'" in end.result.info["command"]  # type: ignore[union-attr]


def test_an_async_function(tmp_path, options, monkeypatch):
    """All its calls run in one event loop."""
    (tmp_path / "served.py").write_text(
        f"{TRAINS}\nimport asyncio\nlock = None\n"
        "async def step():\n    global lock\n    lock = lock or asyncio.Lock()\n"
        "    async with lock:\n        await asyncio.sleep(0)\n        one()\n"
    )
    monkeypatch.chdir(tmp_path)
    assert steps_of(start(options("served:step")).wait()) == THREE


@pytest.mark.skipif(sys.platform == "win32", reason="a program cannot take another one's place")
def test_a_program_that_starts_itself_anew_is_recorded(tmp_path):
    (tmp_path / "anew.py").write_text(
        "import os, sys\nif 'ANEW' not in os.environ:\n    os.environ['ANEW'] = '1'\n"
        f"    os.execv(sys.executable, [sys.executable, *sys.argv])\n{TRAINS}\n"
        "print(sys.argv, os.environ['ANEW'])\nfor i in range(12): one()\nprint('end')\n"
    )
    words = ["capture", "anew.py", "--device", "cpu", "--run-to-end", "--no-open", "--", "x"]
    with warm.tracetui(*words, cwd=tmp_path) as ran:
        out, err = ran.communicate(timeout=300)
    assert ran.returncode == 0, err
    assert out.startswith("['anew.py', 'x'] 1\nend\n")
    trace = tmp_path / "traces" / "anew" / "anew-x.json"
    assert sum(e["name"].startswith("ProfilerStep#") for e in events_of(trace)) == 3


def test_its_threads_are_its_own(run):
    """It may join all that there are, or wait for their end."""
    _, lines = run(
        "import threading\n"
        "def names(): print([t.name for t in threading.enumerate()], threading.Thread().name)\n"
        "names()\nfor i in range(8): one()\nnames()\n",
        run_to_end=True,
    )
    assert lines == ["['MainThread'] Thread-1", "['MainThread'] Thread-2"]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
@pytest.mark.parametrize("run_to_end", [True, False])
def test_its_timer_does_not_run_while_it_waits_for_us(run, run_to_end):
    """A limit to the time of a step is none to that of writing a recording, or to cleaning up."""
    end, lines = run(
        "import signal, sys, time\n"
        "profiler = sys.modules['torch.profiler'].profile\n"
        "export = profiler.export_chrome_trace\n"
        "profiler.export_chrome_trace = lambda *args: (time.sleep(1.2), export(*args))\n"
        "def late(*args): raise TimeoutError\n"
        "signal.signal(signal.SIGALRM, late)\n"
        "one()\n"
        "try:\n"
        "    for i in range(8):\n"
        "        signal.setitimer(signal.ITIMER_REAL, 1.0)\n"
        "        one()\n"
        "        signal.setitimer(signal.ITIMER_REAL, 0)\n"
        "finally:\n"
        "    time.sleep(1.2)\n"
        "    print('clean')\n",
        run_to_end=run_to_end,
    )
    assert steps_of(end) == THREE
    assert lines == ["clean"]


def test_a_time_without_operators(run):
    """The program is ended, too, and it is said why nothing was recorded."""
    end, lines = run("import time\none()\ntime.sleep(60)\nprint('still here')\n", after=1.0, duration=0.01)
    assert isinstance(end, Failed)
    assert "the script ran no PyTorch operators in this process in these " in end.message
    assert "still here" not in lines
    end, _ = run("one()\n", after=60.0)
    assert "the script ended before --after 60s" in end.message


def test_takes_its_end_for_an_error(run):
    """As unittest does. The user hears that it did so because it was stopped."""
    end, _ = run("try:\n    for i in range(9): one()\nexcept SystemExit: raise SystemExit(True) from None\n")
    assert steps_of(end) == THREE
    assert end.result.info["exit_status"] == 1
    assert end.result.notes[-1].text.endswith(
        "program.py ended with exit status 1 when it was stopped (--run-to-end lets it finish)"
    )
