"""What one recording has and the other has not, because it was not recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.compare.conftest import compared
from tests.kineto import Event, cpu, kernel, launch, step

DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"}


def _without(*categories):
    return lambda events: [event for event in events if event.get("cat") not in categories]


@pytest.mark.parametrize("name", ["train", "llm_decode", "mlp_eager"])
def test_a_gpu_that_is_not_recorded_is_not_gone(pair, name):
    found = pair(name, _without(*DEVICE))
    assert found.explanations == ()
    assert found.same_program
    assert found.notes == ("B did not record the GPU: only calls are compared",)
    for metric in ("device_ns", "busy_share", "compute_ns", "launches", "kernels"):
        assert found.metrics[metric].b is None, metric
    assert not found.idle
    assert found.metrics["step_ns"].change == 0
    assert found.metrics["cpu_op_ns"].change == 0


@pytest.mark.parametrize("name", ["train", "llm_decode", "mlp_eager"])
def test_ops_that_are_not_recorded_are_not_gone(pair, name):
    def gpu_only(events):
        return [event for event in events if event.get("cat") != "cpu_op"]

    found = pair(name, gpu_only)
    assert {one.kind for one in found.explanations} <= {"host"}
    assert found.same_program
    assert found.metrics["kernels"].change == found.metrics["launches"].change == 0
    assert found.metrics["cpu_op_ns"].b is None
    assert any(note.startswith("B did not record ops, which costs time") for note in found.notes)
    assert "dispatch" not in found.idle
    assert all(one.change == 0 for one in found.idle.values())


def loop(begin: int) -> list[Event]:
    """Four turns of ten kernels, launched every 30 us, from the kernel `begin` on; a copy to the host
    ends a turn."""
    found: list[Event] = []
    for n in range(begin, begin + 40):
        now, what = 30.0 * n, n % 10
        name = f"work{what}" if what else "Memcpy DtoH (Device -> Pinned)"
        found += [cpu(f"aten::op{what}", now, 20), launch(now + 2, n + 1)]
        found.append(kernel(now + 12, 10, n + 1, name=name, cat="kernel" if what else "gpu_memcpy"))
    return found


def test_steps_that_begin_elsewhere_are_no_change(tmp_path: Path):
    """One loop: steps from the profiler, which begin after the copy, and from what repeats."""
    steps = [step(k, 300.0 * k + 120, 300) for k in range(4)]
    for name, events in (("a", loop(4) + steps), ("b", loop(1))):
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    found = compared(tmp_path / "a.json", tmp_path / "b.json")
    assert any(
        note.startswith("the steps of A come from ProfilerStep, those of B from ") for note in found.notes
    )
    assert not [one.text for one in found.explanations if one.kind in ("gone", "new", "order", "calls")]
