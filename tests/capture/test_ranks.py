"""Several processes under torchrun: each captures itself."""

import subprocess
import sys
from pathlib import Path

import pytest

from tracetui.trace import load

from . import warm

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ddp.py"


@pytest.mark.torch
def test_each_rank_has_a_trace_with_its_communication(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # two ranks cannot share one GPU
    capture = [sys.executable, "-u", warm.__file__, "tracetui", "capture", str(EXAMPLE), "--no-open"]
    sizes = ["--", "--dim", "16", "--layers", "1", "--batch", "4"]
    words = ["--standalone", "--nproc-per-node", "2", "--no-python", *capture, "-o", str(tmp_path)]
    with warm.torchrun(*words, "--device", "cpu", *sizes) as ended:
        out, err = ended.communicate(timeout=300)
    assert ended.returncode == 0, err[-2000:]
    assert out.count("CPU-only") == 1, "the summary of rank 0 alone"
    for rank in (0, 1):
        trace = load(tmp_path / "ddp" / f"ddp-dim=16,layers=1,batch=4_rank{rank}.json")
        assert "gloo:all_reduce" in trace.names
        assert trace.info.path.endswith(f"rank{rank}.json")


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for torchrun")
def test_ranks_are_started_by_torchrun(tmp_path, monkeypatch):
    """Each with the same options, and with a file for the path of its trace; torchrun's exit code is ours."""
    (tmp_path / "train.py").touch()
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n[ -w "$TRACETUI_REPORT" ] && exit 5\n')
    python.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    words = ["capture", "train.py", "--ranks", "2", "--gzip", "--python", str(python), "--", "--lr", "1"]
    command = [sys.executable, "-m", "tracetui", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 5
    told = ended.stdout.splitlines()
    assert told[:6] == ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python"]
    rest = ["train.py", "--no-open", "--gzip", "--python", str(python), "--", "--lr", "1"]
    assert told[told.index("capture") + 1 :] == rest


def test_only_a_script_has_ranks():
    command = [sys.executable, "-m", "tracetui", "capture", "mlp", "--ranks", "2"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "tracetui: --ranks applies only to a script.py or -m MODULE\n"
