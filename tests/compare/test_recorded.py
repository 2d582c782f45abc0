"""What one recording has and the other has not, because it was not recorded."""

import json

import pytest
from tests.compare.conftest import compared, comparison
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


def test_kernels_that_the_profiler_lost_are_told(pair):
    def lossy(events):
        gone = [e for e in events if e.get("cat") == "kernel"][40:50]
        return [event for event in events if event not in gone]

    found = pair("train", lossy)
    assert "B has 1 more step: what it launches is not in the file, or not all" in found.notes
    assert not found.explanations
    assert found.metrics["kernels"].change == found.metrics["launches"].change == 0


def test_kernels_that_are_lost_in_every_step_are_not_compared(pair):
    found = pair(
        "train", lambda events: [e for i, e in enumerate(events) if i % 50 or e.get("cat") != "kernel"]
    )
    assert any("lacks the device events of" in note for note in found.notes)
    assert found.answer == "No difference: the same calls, in the same time."
    assert found.metrics["kernels"].b is None
    assert found.metrics["launches"].change == 0


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
    events: list[Event] = []
    for n in range(begin, begin + 40):
        now, what = 30.0 * n, n % 10
        name = f"work{what}" if what else "Memcpy DtoH (Device -> Pinned)"
        events += [cpu(f"aten::op{what}", now, 20), launch(now + 2, n + 1)]
        events.append(kernel(now + 12, 10, n + 1, name=name, cat="kernel" if what else "gpu_memcpy"))
    return events


def test_steps_that_begin_elsewhere_are_no_change(tmp_path):
    """One loop: steps from the profiler, which begin after the copy, and from what repeats."""
    steps = [step(k, 300.0 * k + 120, 300) for k in range(4)]
    found = comparison(tmp_path, loop(4) + steps, loop(1))
    assert any(
        note.startswith("the steps of A come from ProfilerStep, those of B from ") for note in found.notes
    )
    assert not [one.text for one in found.explanations if one.kind in ("gone", "new", "order", "calls")]


@pytest.mark.parametrize("name", ["train", "llm_decode"])
def test_a_cpu_that_is_not_recorded_is_not_gone(pair, name):
    found = pair(name, lambda events: [event for event in events if event.get("cat") in DEVICE])
    assert found.explanations == ()
    assert "B did not record the CPU: only the GPU's work is compared" in found.notes
    assert found.metrics["kernels"].change == 0
    for metric in ("launches", "cpu_op_ns"):
        assert found.metrics[metric].b is None, metric
    assert not found.idle


def test_launches_that_are_not_linked_are_not_gone(pair):
    def bare(events):
        for event in events:
            if event.get("ph") == "X":
                event.pop("args", None)
        return events

    found = pair("train", bare)
    assert any(note.startswith("B does not show what launched the GPU's work: ") for note in found.notes)
    assert found.metrics["launches"].b is None
    assert not found.idle


@pytest.mark.parametrize("letter", ["A", "B"])
def test_what_is_cut_off_is_not_gone(tmp_path, letter):
    text = json.dumps({"traceEvents": [step(0, 0, 1200), *loop(0)]})
    for name, known in (("A", text), ("B", text)):
        (tmp_path / f"{name}.json").write_text(known[:-300] if name == letter else known)
    found = compared(tmp_path / "A.json", tmp_path / "B.json")
    note = f"the file of {letter} is cut off: only calls are compared, and what is gone may be missing"
    assert note in found.notes
    assert found.metrics["kernels"].b is None


def test_a_trace_of_something_else_is_not_the_same_program(tmp_path):
    found = comparison(tmp_path, [cpu("draw", 10.0 * n, 5, "") for n in range(9)], loop(0))
    assert found.explanations == ()
    assert not found.same_program
    assert found.notes[-1] == "A has no events of PyTorch's profiler: there is nothing to compare"
