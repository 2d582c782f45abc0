"""A program under a capture does what it does without one: some of benchmarks/programs; the comparison."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.conftest import module_at

from . import warm

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def alone() -> ModuleType:
    """benchmarks/capture_alone.py."""
    return module_at(ROOT / "benchmarks" / "capture_alone.py")


def warmed(command: list[str], start_new_session: bool, **how: Any) -> subprocess.Popen[Any]:
    """The command with PyTorch loaded."""
    python, *words = command
    if words[:2] == ["-m", "tracetui"]:
        words = [warm.__file__, "tracetui", *words[2:]]
    streams = {
        name: os.dup(how.pop(name).fileno()) for name in ("stdin", "stdout", "stderr")
    }  # it closes them
    return warm.Popen([python, "-u", *words], **streams, **how)


@pytest.mark.torch
@pytest.mark.parametrize("name", [
    "cleans_up", "os_exit", "sigterm_self", "thread_trains", "copies_the_optimizer",
    *(
        pytest.param(name, marks=pytest.mark.long) for name in (
            "asyncio_task", "bare_except", "exit_3", "optimizer_per_task"
        )
    )
])  # fmt: skip
def test_a_program_is_as_without_us(name, alone, tmp_path):
    assert alone.try_program(name, alone.CAPTURE, tmp_path, start=warmed)[0] == []


PROGRAM = """
import os, sys
print("begins", flush=True)
for step in range(int(os.environ.get("STEPS", "30"))):
    pass
print("trained")
print("not good", file=sys.stderr)
open("kept.txt", "w").write("kept")
print("cleanup: done", flush=True)
sys.exit(3)
"""
CAPTURE = """
import json, os, pathlib, subprocess, sys
done = subprocess.run([sys.executable, sys.argv[1]], stdout=-1, stderr=-1, text=True)
out, err, status, steps = done.stdout, done.stderr, done.returncode, 3
events = [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{i}", "ts": i} for i in range(steps)]
trace, folder = json.dumps({"traceEvents": events}), pathlib.Path("traces/x")
folder.mkdir(parents=True)
err += "tracetui: note: the steps are recorded\\n"
summary = "3 steps\\ntraces/x/x.json\\n"
#BREAK
(folder / "x.json").write_text(trace)
(folder / "x.txt").write_text("table")
(folder / "x.meta.json").write_text(json.dumps({"steps": steps}))
sys.stderr.write(err)
sys.stdout.write(out + summary)
sys.exit(status)
"""
BREAKS = {
    "status = 0": ["exit code: 0, and 3 without us"],
    "status = 131": ["exit code: 131, and 3 without us"],
    "out = out.replace('begins', '')": ["stdout: -begins", "stdout: +"],
    "out = out.replace('trained', 'failed')": ["stdout: -trained", "stdout: +failed"],
    "summary += 'trained'": ["stdout: this line of the script comes again: trained"],
    "summary = ''": ["stdout: does not name x.json"],
    "err += 'Traceback'": ["stderr: +Traceback"],
    "err = err[5:]": ["stderr: -not good", "stderr: +ood"],
    "err = ''": ["stderr: -not good"],
    "open('more.txt', 'w').close()": ["files: 1 x more.txt: e3b0c442 under capture"],
    "open('kept.txt', 'w').close()": [
        "files: 1 x kept.txt: 79f076ab without us",
        "files: 1 x kept.txt: e3b0c442 under capture",
    ],
    "os.unlink('kept.txt')": ["files: 1 x kept.txt: 79f076ab without us"],
    "subprocess.Popen(['sleep', '300'])": ["left behind: 1 x sleep 300"],
    "subprocess.Popen(['sleep', '300'], env={}, start_new_session=True)": ["left behind: 1 x sleep 300"],
    "subprocess.Popen(['sleep', '300'], cwd='/')": ["left behind: 1 x sleep 300"],
    "trace = trace[:-5]": [
        "stdout: more of it, and no trace: 3 steps",
        "the capture of x.meta.json is not whole",
        "x.json has no .meta.json",
        "nothing was recorded",
    ],
    "steps = 4": ["x.json: 3 steps are in it, .meta.json says 4"],
    "trace = trace.replace('Step#1', '')": [
        "x.json: 2 steps are in it, .meta.json says 3",
        "x.json: 2 steps, and 3 were wanted",
    ],
    "(folder / '.capture-1').mkdir()": ["traces/x/.capture-1 was left in the output folder"],
    "sys.stdout.write(out); sys.stderr.write(done.stderr); sys.exit(3)": [
        "an output folder without a file was left",
        "nothing was recorded",
    ],
}  # fmt: skip
"""Lines put into a capture, and what has to be noticed."""


@pytest.fixture
def compared(alone: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What differs under a capture with this line in it."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "simple.py").write_text(PROGRAM)
    monkeypatch.setattr(alone, "PROGRAMS", tmp_path / "programs")
    monkeypatch.setattr(alone, "SETTLE", 0.2)

    def compare(line: str, stop: bool = False) -> list[str]:
        capture = tmp_path / "capture.py"
        capture.write_text(CAPTURE.replace("#BREAK", line))
        found: list[str] = alone.try_program("simple", [sys.executable, str(capture)], tmp_path, stop)[0]
        return found

    return compare


def test_a_capture_that_does_no_harm(compared):
    assert compared("") == []


@pytest.mark.parametrize("line", BREAKS)
def test_harm_is_noticed(line, compared):
    found = compared(line)
    assert len(found) == len(BREAKS[line])
    for text, start in zip(found, BREAKS[line], strict=True):
        assert text.startswith("to the end: " + start)


def test_a_capture_that_does_not_stop(compared):
    assert compared("", stop=True) == ["stopped: exit code: 3, not 0", "stopped: ran to its end"]
    assert compared("out, status = 'begins', 0", stop=True)[-1] == "stopped: did not run: cleanup: done"
