"""What the findings say and advise, on the smallest traces in which it was once not so."""

from __future__ import annotations

from pathlib import Path

from tests.analysis.test_rules import found
from tests.kineto import Event, cpu, kernel, launch, run, step, trace_of


def optimizer(name: str, start: int, kernels: int, first: int) -> list[Event]:
    """One call, with a launch every 20 us."""
    events = [cpu(f"Optimizer.step#{name}.step", start, 20 * kernels, "user_annotation")]
    for n in range(kernels):
        events += [launch(start + 20 * n + 2, first + n), kernel(start + 20 * n + 8, 2, first + n)]
    return events


def test_kernels_a_call_are_those_of_one_optimizer(tmp_path: Path) -> None:
    """SparseAdam for the embeddings, tensor by tensor, and Adam for the rest, in a few kernels."""
    events = [*optimizer("SparseAdam", 0, 240, 1), *optimizer("Adam", 5000, 10, 500), *run(6000, 90, 999)]
    finding = found(trace_of(tmp_path, *events), "optimizer_loop")
    assert finding is not None
    assert finding.title == "Optimizer.step#SparseAdam.step launches 240 kernels a call"
    assert finding.text.startswith("1 call takes 4.80 ms")
    assert "has neither foreach=True nor fused=True" in finding.advice


def test_all_phases_that_compile_are_named(tmp_path: Path) -> None:
    """The backward pass is compiled when it first runs, not within what compiles the forward pass."""
    events = [step(0, 0, 6000), step(1, 7000, 100), *run(10, 5, 1), *run(7010, 5, 2)]
    for name, start, length in (("_compile.compile_inner", 100, 2000), ("backward._backward_impl", 3000, 2500)):
        events += [cpu(f"{name} (dynamo_timed)", start, length), cpu("inner (dynamo_timed)", start + 1, 1900)]
    finding = found(trace_of(tmp_path, *events), "compiling")
    assert finding is not None
    assert (
        "in backward._backward_impl (2.50 ms) and _compile.compile_inner (2.00 ms), and in what they call."
    ) in finding.text
