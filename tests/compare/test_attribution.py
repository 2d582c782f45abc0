"""The time that a change takes on the CPU, from the events that the small traces are made of."""

from __future__ import annotations

from tests.compare.test_changes import Program, both
from tests.compare.test_pairs import of


def took(program: Program, name: str) -> float:
    """us that the calls of a name take, once each."""
    return sum(float(e["dur"]) for e in program.events if e["name"] == name)


def test_the_whole_op_counts_where_it_launches_nothing_else_on_both_sides(tmp_path):
    a = Program(("mm", "gemm"), ("embedding", "old"), ("add", "plus"))
    b = Program(("mm", "gemm"), ("embedding", "index", "scatter"), ("add", "plus"))
    (became,) = [e for e in both(tmp_path, a, b).explanations if e.on == "device"]
    before, after = took(a, "embedding"), took(b, "embedding")
    assert became.cpu_change_ns == 1000 * (after - before)
    assert f"{before:.1f} µs → {after:.1f} µs on the CPU" in became.text


def test_of_an_op_that_launches_the_same_work_too_only_the_launches_count(tmp_path):
    """So the two sides are of the same calls."""
    a = Program(("mm", "gemm"), ("norm", "mean", "scale"), ("add", "plus"))
    b = Program(("mm", "gemm"), ("norm", "mean", "scale_fast", "shift"), ("add", "plus"))
    (became,) = [e for e in both(tmp_path, a, b).explanations if e.on == "device"]
    (each,) = {float(e["dur"]) for e in a.events + b.events if e["name"] == "cudaLaunchKernel"}
    assert became.cpu_change_ns == 1000 * each


def test_the_copies_within_an_op_are_counted_with_it():
    """And not again where the copy is told."""
    found = of("matmul_add_4096_eager", "matmul_add_4096_compile")
    fused, copy = (e for e in found.explanations if e.on == "device")
    assert (
        "33.6 µs → 41.6 µs on the CPU" in fused.text
    )  # aten::matmul and aten::add; aten::addmm, of the JSON
    assert (copy.kind, copy.cpu_change_ns) == ("new", 0)


def test_python_within_compiled_code_is_no_call():
    """51.3 us of `## Call CompiledFxGraph` are in no call, the median; of A's Python nothing is known."""
    (calls,) = [e for e in of("mlp_eager", "mlp_compile").explanations if e.kind == "calls"]
    assert calls.text.endswith(
        "are gone and 1 (Torch-Compiled Region: 0/0) is new: 40.6 µs → 25.1 µs per step. This leaves out "
        "what compiled code does between its calls: 51.3 µs per step in B."
    )
