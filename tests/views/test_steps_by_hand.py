"""Which columns of the steps a narrow table keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.kineto import cpu, run, step, trace_of

from tracetui.analysis.steps.steps import summarize_steps
from tracetui.views.steps import source_text, step_columns, steps_table

TALK = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def test_communication_is_dropped_first_where_there_is_none(tmp_path: Path) -> None:
    for name in ("", TALK):
        steps = summarize_steps(trace_of(tmp_path, step(1, 0, 100), *run(10, 20, 1, name), *run(40, 10, 2)))
        drop = {key: column.drop for key, column in step_columns(steps.rows).items()}
        first = sorted(drop, key=lambda key: -drop[key])[:3]
        if name:
            assert (
                drop["exposed_communication"] < drop["communication"] < drop["window_idle"] < drop["compute"]
            )
            assert "communication" not in first
        else:
            assert drop["compute"] < drop["communication"] < drop["exposed_communication"]


def test_where_the_steps_come_from_is_said() -> None:
    sources = ("ProfilerStep", "repeats", "Optimizer.step", "annotation decode")
    texts = [source_text(source) for source in sources]
    assert texts[0] == ""
    assert len(set(texts)) == 4
    assert "decode" in texts[3]


def test_a_file_has_the_idle_time_of_each_cause(tmp_path: Path) -> None:
    """A gap from 30 to 100: 35 us outside of ops, 30 in one, and the launch of 5."""
    op = cpu("aten::mm", 60, 30)
    steps = summarize_steps(trace_of(tmp_path, step(1, 0, 120), *run(10, 20, 1), op, *run(100, 20, 2)))
    records = steps_table(steps).records
    assert records is not None
    idle = {
        key: value for key, value in records(np.array([0]))[0].items() if key.startswith("idle_") and value
    }
    assert {
        key: value for key, value in idle.items() if "host" in key or "dispatch" in key or "launch" in key
    } == {
        next(key for key in idle if cause in key): ns
        for cause, ns in (("host", 35_000), ("dispatch", 30_000), ("launch", 5_000))
    }
    assert sum(value for key, value in idle.items() if key != "idle_ns") == idle["idle_ns"] == 70_000
