"""Several processes under torchrun: each captures itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tracetui.trace import load

from . import warm

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ddp.py"


@pytest.mark.torch
def test_each_rank_has_a_trace_with_its_communication(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
