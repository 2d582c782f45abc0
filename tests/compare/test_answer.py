"""The answer, where steps vary."""

from types import SimpleNamespace
from typing import Any

import pytest

from tracetui.compare.answer import _device, answer, known
from tracetui.compare.explain import _in_all, _waited
from tracetui.compare.model import Explanation, Metric


def told(*found: Explanation, machine: float = 0.0, program: float = 0.0, step: Metric | None = None) -> str:
    """The answer to a step of 14 instead of 15 ms, which is within noise; or to another one."""
    step = step or Metric(15e6, 14e6, True, machine=machine)
    facts: Any = SimpleNamespace(
        metrics={"step_ns": step, "device_ns": Metric(1e6, 1e6, True)},
        a=SimpleNamespace(steps=[0]), same_recording=False, by_device=False, step=15e6, recorded="",
        held=(0.0, 0.0),
        mostly=lambda device: True, program_cpu=program, blame="the machine, not the {}".format,
    )  # fmt: skip
    return answer(facts, found, False)


def test_what_the_program_does_otherwise_is_no_noise():
    machine = Explanation("machine", "Slower.", -500_000, "cpu")
    gone = Explanation("calls", "Gone.", -400_000, "cpu")
    takes = "A step takes 14.0 ms instead of 15.0 ms (-6.7%): "
    though = ", though what the program does differently takes 400 µs less on the CPU."
    assert told(gone, program=-4e5) == f"{takes}within noise{though}"
    part = f"{takes}-500 µs is the machine, and the rest is within noise"
    assert told(machine, gone, machine=-5e5, program=-4e5) == part + though
    assert told(machine, gone, machine=-5e5, program=-1e5) == f"{part}."


@pytest.mark.parametrize(("slower", "said"), [
    (0, "within noise"),
    (-190_000, "within noise"),  # too little of it to be told
    (-250_000, "-250 µs is the machine, and the rest is within noise"),
    (+500_000, "+500 µs is the machine, and the rest is within noise"),
    (-790_000, "-790 µs is the machine, and the rest is within noise"),
    (-810_000, "the machine, not the change"),
    (-2_000_000, "the machine, not the change"),  # more than all of it
    (-2_010_000, "-2.01 ms is the machine, and the rest is within noise"),  # the program made up for it
])  # fmt: skip
def test_the_part_of_the_machine_in_a_change_that_is_no_more_than_steps_vary(slower, said):
    step = Metric(10e6, 9e6, True, machine=slower)
    answer = told(*[Explanation("machine", "Other.", slower, "cpu")] * bool(slower), step=step)
    assert answer == f"A step takes 9.00 ms instead of 10.0 ms (-10%): {said}."


def test_without_the_machine_only_where_the_rest_is_known():
    """Steps that vary: what is left of the change is not what the program is known to do otherwise."""
    machine = Explanation("machine", "Slower.", -9_000_000, "cpu")
    step = Metric(24e6, 21e6, False, machine=-9e6)
    assert told(machine, step=step, program=6e6).endswith(
        "; -9.00 ms is the machine: without it, about 30.0 ms."
    )
    assert told(machine, step=step, program=4e5) == "A step takes 21.0 ms instead of 24.0 ms (-12%)."


def test_a_small_change_is_not_the_same_number_twice():
    step = Metric(10.80e6, 10.83e6, False)
    gone = Explanation("calls", "New.", 30_000, "cpu")
    assert told(gone, step=step) == "A step takes 10.8 ms, 30.0 µs more than before (+0.3%)."


def test_the_machine_is_not_told_of_a_step_that_went_the_other_way():
    """The calls of the step that was matched took longer, the median of the steps is shorter."""

    def said(step_b: float, ops_b: float) -> bool:
        metrics = {"step_ns": Metric(10e6, step_b, False), "cpu_op_ns": Metric(5e6, ops_b, False)}
        facts: Any = SimpleNamespace(
            metrics=metrics, count=1, whole=(SimpleNamespace(rounds=5), SimpleNamespace(rounds=1))
        )
        return _in_all(facts, "cpu_op_ns", 1.06)

    assert said(11e6, 5.4e6)
    assert said(11e6, 5.2e6)
    assert not said(9e6, 5.4e6)
    assert not said(11e6, 5e6)


def test_a_change_of_which_half_is_known_is_no_noise():
    """Of 1 ms, of which 200 us are the machine. What the calls behind new kernels take is not told twice."""

    def of(program: float, *found: Explanation, device: bool = False, change: float = 1e6) -> bool:
        step = Metric(10e6, 10e6 + change, True, machine=0.2 * change)
        facts: Any = SimpleNamespace(metrics={"step_ns": step}, by_device=device, program_cpu=program)
        return known(facts, found)

    assert of(5e5)
    assert not of(3e5)
    assert not of(-5e5)
    machine = Explanation("machine", "Slower.", 500_000, "cpu")
    outside = Explanation("host", "Python.", 300_000, "cpu")
    new = Explanation("new", "New.", 600_000, "device", cpu_change_ns=600_000)
    assert of(2e5, outside)
    assert not of(2e5, machine)
    assert not of(2e5, Explanation("slower", "Kernels.", 300_000, "device"))
    assert not of(0, new)
    # One that is larger than the change of the step says nothing of it.
    assert not of(2e6)
    assert of(0, new, device=True)
    assert not of(5e5, outside, device=True)
    assert not of(0, new, Explanation("gone", "Gone.", -600_000, "device"), device=True)
    assert not of(0, Explanation("machine", "Slower.", 600_000, "device"), device=True)
    # By as little recordings of one program differ.
    assert not of(1e4, change=2e4)


@pytest.mark.parametrize(("work", "said"), [
    (1_010_000, ""),  # so much it varies by itself
    (1_500_000, " The GPU's work took 1.50 ms instead of 1.00 ms (+50%)."),
    (500_000, " The GPU's work took 500 µs instead of 1.00 ms (-50%)."),
])  # fmt: skip
def test_the_work_of_the_device_is_told_where_it_changes(work, said):
    step = Metric(10e6, 10e6, True)
    facts: Any = SimpleNamespace(metrics={"step_ns": step, "device_ns": Metric(1e6, work, False)})
    assert _device(facts) == said


@pytest.mark.parametrize(("after", "told"), [(10e6, True), (1e9, False)])
def test_data_loading_is_told_where_it_is_a_part_of_the_longer_step(after, told):
    sides = [
        SimpleNamespace(loading=[ns], talking=[0], times=[step], work_time=[0], calls_only=False)
        for ns, step in ((0, 10e6), (2_000_000, after))
    ]
    facts: Any = SimpleNamespace(
        by_device=False, a=SimpleNamespace(calls_only=False), step=10e6, each=" per step", whole=sides,
        metrics={"step_ns": Metric(10e6, after, False)}, matched=SimpleNamespace(loads=([], [])),
    )  # fmt: skip
    assert [(one.kind, one.change_ns) for one in _waited(facts)] == ([("loading", 2_000_000)] if told else [])
