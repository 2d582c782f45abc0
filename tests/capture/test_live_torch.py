"""Recording PyTorch itself while it runs: a training loop, and two ranks under torchrun."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tracetui.capture.live import meeting_folders, processes, record
from tracetui.capture.live.model import AttachError, RecordRequest, Stage, Status, seconds
from tracetui.cli.main import main
from tracetui.trace import load

pytestmark = [
    pytest.mark.torch, pytest.mark.skipif(sys.platform != "linux", reason="Kineto can be asked on Linux only")
]  # fmt: skip
LOOP = r"""
import os, sys, time, torch
import torch.distributed as dist
ranks = "RANK" in os.environ
if ranks:
    dist.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.Linear(32, 32)
# An optimizer imports torch._dynamo, which takes as long as torch: one job with it is enough.
optimizer = None if ranks else torch.optim.SGD(model.parameters(), 0.01)
told = False
done = False
while not done:
    model(torch.randn(8, 32)).sum().backward()
    if ranks:
        dist.all_reduce(model.weight.grad)
    else:
        optimizer.step()
        optimizer.zero_grad()
    if not told:
        told = True
        os.write(1, b"training\n")  # in one piece, as the other rank's
    time.sleep(0.005)
    if os.path.exists(os.path.dirname(sys.argv[1]) + "/close"):
        os.closerange(3, 4096)
    done = os.path.exists(sys.argv[1])
    if ranks:  # both end with the same step
        either = torch.tensor(float(done))
        dist.all_reduce(either)
        done = either.item() > 0
if ranks:
    dist.destroy_process_group()
print("done", *sys.argv[2:])
sys.exit(0 if ranks else 6)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A loop that runs until the file "stop" is there."""
    for name in [name for name in os.environ if name.startswith("KINETO_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    (tmp_path / "loop.py").write_text(LOOP)
    return tmp_path


def attach(folder: Path, *words: str) -> list[Path]:
    found = CliRunner().invoke(main, ["attach", *words, "--no-open", "-o", str(folder / "traces")])
    assert found.exit_code == 0, found.stderr
    return [Path(line) for line in found.stdout.splitlines()]


@contextmanager
def started_by_run(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tracetui", "run", *words, str(folder / "loop.py"), str(folder / "stop")]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as job:
        try:
            yield job
        finally:
            (folder / "stop").touch()


def wait_until_it_trains(job: subprocess.Popen[str], count: int) -> None:
    assert job.stdout is not None
    for _ in range(count):
        assert job.stdout.readline() == "training\n"


def test_a_training_loop_that_runs(folder, monkeypatch):
    """Recorded, stopped in the middle and with its descriptors closed: it goes on as without us."""
    recordings = meeting_folders.private(folder / "recordings")
    monkeypatch.setenv("KINETO_ONDEMAND_TRACE_DIR", str(recordings))
    with started_by_run(folder, sys.executable) as job:
        wait_until_it_trains(job, 1)
        (timed,) = attach(folder, str(job.pid), "--duration", "300ms")
        (counted,) = attach(folder, str(folder), "--steps", "3", "--record-shapes", "--with-stack")
        one = processes.find(job.pid)
        assert one is not None
        monkeypatch.setattr(record, "PATIENCE_SECONDS", 1.5)
        events = record.record([one], RecordRequest(steps=10), folder)
        for event in events:
            if isinstance(event, Status) and event.stage is Stage.RECORDING:
                break
        job.send_signal(signal.SIGSTOP)
        with pytest.raises(AttachError, match=r"is stopped \(SIGSTOP\)"):
            list(events)
        assert len(list(recordings.iterdir())) == 1, "it will write there"
        job.send_signal(signal.SIGCONT)
        attach(folder, str(job.pid), "--duration", "100ms")
        (folder / "close").touch()
        while processes.find(job.pid) is not None:
            time.sleep(0.02)
        refused = CliRunner().invoke(main, ["attach", str(job.pid), "--no-wait", "-o", str(folder)])
        assert f"process {job.pid} has no socket on which it asks" in refused.stderr
        (folder / "stop").touch()
        out, err = job.communicate(timeout=300)
    # Of Python frames PyTorch itself may say that one was left open.
    said = [line for line in err.splitlines() if "collection.cpp" not in line]
    assert (out, said, job.returncode) == ("done\n", [], 6), "as without us"
    trace = load(timed)
    assert {"aten::addmm", "Optimizer.step#SGD.step"} <= set(trace.names)
    length = int((trace.start + trace.duration).max() - trace.start.min()) / 1e9
    assert 0.5 * seconds("300ms") < length < 10, "s: a busy machine ends it late"
    recorded = json.loads(counted.read_text())["traceEvents"]
    assert sum(e.get("name") == "Optimizer.step#SGD.step" for e in recorded) in (2, 3, 4)
    assert any("Input Dims" in e.get("args", {}) for e in recorded)
    assert any(e.get("cat") == "python_function" for e in recorded)


@pytest.mark.long  # its short version: ranks without PyTorch, in test_live.py
def test_two_ranks_at_one_time(folder, monkeypatch):
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    told: list[dict[str, str]] = []
    configuration = record.configuration

    def tell(*facts: Any) -> str:
        text = configuration(*facts)
        told.append(dict(line.split("=", 1) for line in text.splitlines()))
        return text

    monkeypatch.setattr(record, "configuration", tell)
    with started_by_run(folder, sys.executable, *torchrun) as job:
        wait_until_it_trains(job, 2)
        paths = attach(folder, str(job.pid), "--duration", "1s")
        (folder / "stop").touch()
        out, err = job.communicate(timeout=300)
    assert job.returncode == 0, err
    assert out.count("done") == 2
    assert [path.name[-10:] for path in paths] == ["rank0.json", "rank1.json"]
    assert told[-1]["PROFILE_START_TIME"] == told[-2]["PROFILE_START_TIME"], "they were told one start"
    spans = []
    for path in paths:
        events = [e for e in json.loads(path.read_text())["traceEvents"] if e.get("ph") == "X"]
        spans.append((min(e["ts"] for e in events), max(e["ts"] for e in events)))
        assert any("all_reduce" in e["name"] for e in events)
    # A busy machine lets one go on later than the other, but not by the whole recording.
    assert max(first for first, _ in spans) < min(last for _, last in spans)
