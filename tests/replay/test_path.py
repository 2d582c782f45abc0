"""The critical path."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.recorded import load
from tests.replay import machine
from tests.replay.machine import Machine
from tests.replay.test_machine import PROGRAMS, STEPS

from tracetui.analysis.part import Part
from tracetui.replay.graph import graph_of
from tracetui.replay.path import critical_path

SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"


def _check(part: Part) -> None:
    """Nothing overlaps, and nearly all of the time of the steps is on the path."""
    path, found = critical_path(part), graph_of(part)
    assert np.all(path.start[1:] >= path.end[:-1] - 10_000)
    spent = int((path.end - path.start).sum())
    steps = float(found.measured[found.marks[-1]] - found.measured[found.marks[0]])
    between = 10_000 * len(path.start)
    assert steps - between <= spent <= steps + 10_000


@pytest.mark.parametrize("step", PROGRAMS, ids=lambda step: step.__name__)
def test_it_is_all_of_the_time(tmp_path, step):
    _check(Part(Machine().steps(STEPS, step).trace(tmp_path)))


@pytest.mark.parametrize("name", ["train", "mlp_eager", "llm_decode", "attention_math"])
def test_of_recordings(name):
    _check(Part(load(SAMPLES / f"{name}.json.gz")))


def test_who_is_on_it(tmp_path):
    path = critical_path(Part(Machine().steps(STEPS, machine.device_bound).trace(tmp_path)))
    on_cpu = path.slices < 0
    assert (path.end - path.start)[on_cpu].sum() < 0.02 * (path.end - path.start).sum()
    part = Part(Machine().steps(STEPS, machine.host_bound).trace(tmp_path))
    path = critical_path(part)
    on_cpu = path.slices < 0
    assert (path.end - path.start)[on_cpu].sum() > 0.98 * (path.end - path.start).sum()
    assert part.trace.lanes[path.lane].tid == "9"


def test_what_a_stream_waits_for_is_on_it(tmp_path):
    part = Part(Machine().steps(STEPS, machine.two_streams).trace(tmp_path))
    path = critical_path(part)
    names = {part.trace.name_of(int(i)) for i in path.slices[path.slices >= 0]}
    assert {"side", "gemm", "add"} <= names
