"""How much is aligned: what is the same, or the same again, is not."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.compare.conftest import compared
from tests.kineto import cpu

from tracetui.analysis.part import Part
from tracetui.compare import match
from tracetui.compare.align import align
from tracetui.compare.compare import compare
from tracetui.compare.match import Between
from tracetui.trace import load

TRAIN = Path(__file__).resolve().parents[2] / "sample_traces" / "train.json.gz"


@pytest.fixture
def aligned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The lengths of what is aligned."""
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(match, "align", lambda a, b: found.append((len(a), len(b))) or align(a, b))
    return found


def test_the_same_program_needs_no_aligning(aligned):
    found = compare(Part(load(TRAIN)), Part(load(TRAIN)))
    assert len(found.work.a) == len(found.a.work)
    assert len(found.calls.a) == len(found.a.calls)
    assert aligned == []


def test_stretches_that_are_alike_are_aligned_once(aligned):
    rng = np.random.default_rng(1)
    kinds = [(rng.integers(0, 4, 9), rng.integers(0, 4, 7)) for _ in range(3)]
    # The anchors, 99, are matched; between them is one of three kinds of stretches, or nothing on one side.
    which = rng.integers(0, 3, 200)
    stretches = [(kinds[k][0], kinds[k][1] if n % 10 else kinds[k][1][:0]) for n, k in enumerate(which)]
    a, b = (np.concatenate([np.append(one[side], 99) for one in stretches]) for side in (0, 1))
    i, j = np.flatnonzero(a == 99), np.flatnonzero(b == 99)
    x, y = Between().more(a, b, i, j)
    assert len(aligned) == 3
    expected, low_a, low_b = [], 0, 0
    for (one, other), high_a, high_b in zip(stretches, i.tolist(), j.tolist(), strict=True):
        left, right = align(one, other)
        expected += [*zip(left + low_a, right + low_b, strict=True), (high_a, high_b)]
        low_a, low_b = high_a + 1, high_b + 1
    assert list(zip(x, y, strict=True)) == expected


def test_recompiled_code_is_the_same_call(tmp_path):
    """The number of the recompilation and the hash of the graph differ."""
    for name, number, graph in (("a", 3, "fwp57m3w"), ("b", 4, "fjnwawwp")):
        events = [
            cpu(f"Torch-Compiled Region: 2/{number}", 0, 100),
            cpu(f"## Call CompiledFxGraph {graph} ##", 10, 80), cpu("aten::mm", 20, 50),
            cpu("Torch-Compiled Region: 1/0", 110, 10)
        ]  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    found = compared(tmp_path / "a.json", tmp_path / "b.json")
    assert len(found.calls.a) == 4
    assert found.same_program


def test_a_call_is_the_same_with_the_version_of_its_interface(tmp_path):
    """Cuspy writes it, Kineto does not."""
    for name, version in (("a", ("", "")), ("b", ("_v3", "_v2"))):
        events = [cpu("aten::mm", 0, 50), cpu("aten::add", 60, 5)]
        for n, one in enumerate(("cudaStreamGetCaptureInfo", "cuMemAlloc")):
            events.append(cpu(one + version[n], 10 * n, 5, "cuda_runtime"))
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    found = compared(tmp_path / "a.json", tmp_path / "b.json")
    assert len(found.calls.a) == 4
    assert found.same_program
