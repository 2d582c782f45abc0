"""Several processes under torchrun: each captures itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tracetui.trace import load

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ddp.py"


@pytest.mark.torch
def test_each_rank_has_a_trace_with_its_communication(tmp_path: Path) -> None:
    capture = [sys.executable, "-m", "tracetui", "capture", str(EXAMPLE), "--no-open", "-o", str(tmp_path)]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    sizes = ["--", "--dim", "16", "--layers", "1", "--batch", "4"]
    ended = subprocess.run(
        [*launch, "--no-python", *capture, "--device", "cpu", *sizes],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout.count("CPU-only") == 1, "the summary of rank 0 alone"
    for rank in (0, 1):
        trace = load(tmp_path / "ddp" / f"warm_rank{rank}.json")
        assert "gloo:all_reduce" in trace.names
        assert trace.info.path.endswith(f"rank{rank}.json")
