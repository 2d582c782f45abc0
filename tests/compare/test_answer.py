"""The answer, where steps vary."""

from types import SimpleNamespace
from typing import Any

from tracetui.compare.answer import answer
from tracetui.compare.model import Explanation, Metric


def told(*found: Explanation, machine: float = 0.0, program: float = 0.0) -> str:
    """The answer to a step of 14 instead of 15 ms, which is no more than steps vary."""
    step = Metric(15e6, 14e6, True, machine=machine)
    facts: Any = SimpleNamespace(
        metrics={"step_ns": step, "device_ns": Metric(1e6, 1e6, True)},
        a=SimpleNamespace(steps=[0]), within=False, by_device=False, step=15e6, recorded="",
        mostly=lambda device: True, program_cpu=program,
    )  # fmt: skip
    return answer(facts, found, False)


def test_what_the_program_does_otherwise_is_no_noise():
    machine = Explanation("machine", "Slower.", -500_000, "cpu")
    gone = Explanation("calls", "Gone.", -400_000, "cpu")
    takes = "A step takes 14.0 ms instead of 15.0 ms (-6.7%): "
    though = ", though what the program does otherwise takes 400 µs less on the CPU."
    assert told(gone, program=-4e5) == f"{takes}no more than steps vary{though}"
    part = f"{takes}-500 µs is the machine, the rest no more than steps vary"
    assert told(machine, gone, machine=-5e5, program=-4e5) == part + though
    assert told(machine, gone, machine=-5e5, program=-1e5) == f"{part}."
