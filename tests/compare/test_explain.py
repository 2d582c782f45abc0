"""What a difference is put down to: idle time, casts, loading, charges, sizes."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.compare.conftest import comparison
from tests.compare.test_changes import Program, both
from tests.compare.test_pairs import of
from tests.kineto import Event, cpu, kernel, launch, step

from tracetui.compare.groups import _with_their_ops
from tracetui.compare.metrics import idle_of
from tracetui.trace.model import Kind


def test_the_machine_explains_no_more_idle_time_than_it_adds():
    class Fake:
        def __init__(self, *idle):
            self.idle = tuple({"dispatch": d, "host": h} for d, h in idle)

    a, b = Fake((800, 200), (810, 210)), Fake((1000, 300), (1010, 310))
    for one, other, sign in ((a, b, 1), (b, a, -1)):
        idle = idle_of(one, other, sign * 150.0)
        assert idle["dispatch"].machine == pytest.approx(sign * 100)
        assert idle["host"].machine == pytest.approx(sign * 50)


CAST, GEMM = (
    SimpleNamespace(kind=kind, name=name) for kind, name in (("copy", "bfloat16_copy_kernel"), ("", "gemm"))
)


def side(kernels: list[Any], compiled: bool = False) -> Any:
    """A side whose kernels one op launched."""
    return SimpleNamespace(
        top=dict.fromkeys(range(len(kernels)), 100), op=dict.fromkeys(range(len(kernels)), 100),
        inside=lambda *_: 100, kernel=kernels.__getitem__, compiled=lambda i: compiled,
        side=SimpleNamespace(trace=SimpleNamespace(kind=np.full(len(kernels), Kind.KERNEL)))
    )  # fmt: skip


def test_casts_are_told_together_unless_a_compiled_kernel_took_them_in():
    left = side([CAST, CAST, GEMM])
    groups = [("replaced", [2], [0]), ("gone", [0, 1], [])]
    assert _with_their_ops(groups, left, side([GEMM])) == [("replaced", [2], [0]), ("gone", [0, 1], [])]
    assert _with_their_ops(groups, left, side([GEMM], compiled=True)) == [("replaced", [0, 1, 2], [0])]


NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
STEP = 3_000


def loading_steps(load: float, calls: int) -> list[Event]:
    """Four steps of 3 ms: the data is loaded by so many calls, then 20 ops launch a kernel each."""
    events: list[Event] = []
    for number in range(4):
        now = number * STEP
        events += [step(number, now, STEP), cpu(NEXT, now, load, "user_annotation")]
        events += [cpu("aten::roll", now + k * load / calls, load / calls / 2) for k in range(calls)]
        for k in range(20):
            at, number_ = now + load + 30 * k, 20 * number + k + 1
            events += [cpu(f"aten::op{k}", at, 20), launch(at + 1, number_), kernel(at + 15, 1, number_)]
    return events


def test_loading_and_what_it_calls_are_one_difference(tmp_path):
    found = comparison(tmp_path, loading_steps(1_500, 40), loading_steps(200, 2))
    (one,) = [e for e in found.explanations if e.kind in ("loading", "calls")]
    assert one.kind == "loading"
    assert one.change_ns == pytest.approx(-1_300_000, rel=0.01)
    assert one.text == (
        "Data loading takes 200 µs per step instead of 1.50 ms; 38 calls per step (aten::roll) are gone."
    )
    assert not found.same_program, "it calls less, wherever that is"
    assert not found.answer.startswith("The same")


def test_calls_of_loading_that_takes_as_long_are_told_as_calls(tmp_path):
    found = comparison(tmp_path, loading_steps(1_500, 40), loading_steps(1_500, 20))
    (one,) = [e for e in found.explanations if e.kind in ("loading", "calls")]
    assert one.kind == "calls"
    assert one.text.startswith("On the CPU, 20 fewer calls per step (aten::roll): ")


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


GRIDS, SAME_GRID, SAME_SIZE = range(4), range(4, 7), range(7, 10)
"""Kernels with a block for each row of the input; with as many blocks as the device has; of the weights."""


def steps(batch: int, fixed: float = 1.0) -> list[Event]:
    events: list[Event] = []
    for n in range(40):
        now, what = 300.0 * n, n % 10
        length = 20 * fixed if what in SAME_SIZE else 20.0 * batch
        rows = 100 * batch if what in GRIDS else 132
        event = kernel(now + 12, length, n + 1, name=f"work{what}")
        event["args"] |= {"grid": [rows, 1, 1], "block": [128, 1, 1]}
        events += [cpu(f"aten::op{what}", now, 20), launch(now + 2, n + 1), event]
    return events + [step(k, 3000.0 * k, 2990) for k in range(4)]


@pytest.mark.parametrize(("a", "b", "how"), [(1, 2, "longer"), (2, 1, "less time")])
def test_kernels_in_the_same_grid_take_longer_along_with_the_others(tmp_path, a, b, how):
    found = comparison(tmp_path, steps(a), steps(b))
    (sizes,) = found.explanations
    assert sizes.kind == "sizes"
    assert f"4 of the kernels and copies per step work on other sizes (work0: grid {100 * a}x" in sizes.text
    assert (
        f", and 3 more take {how} along with them, in the same grid: {140 * a} µs → {140 * b} µs"
        in sizes.text
    )
    assert sizes.change_ns == found.metrics["device_ns"].change == (b - a) * 140_000
    assert (len(sizes.events_a), len(sizes.events_b)) == (28, 28)
    # That is no faster or slower device.
    assert found.machine.device_ratio == 1
    assert found.machine.work == 12
    assert found.metrics["device_ns"].machine == 0


def test_work_on_larger_sizes_is_told_beside_what_is_new(tmp_path):
    new = [
        event for k in range(4) for now in (3000.0 * k + 250,) for event in (
            cpu("aten::new", now, 20), launch(now + 2, 99 + k), kernel(now + 12, 20, 99 + k, name="fresh")
        )
    ]  # fmt: skip
    found = comparison(tmp_path, steps(1), [*steps(2), *new])
    assert {one.kind for one in found.explanations} == {"sizes", "new"}


def test_kernels_of_one_size_that_take_longer_are_told_by_themselves(tmp_path):
    """The others do the same: no input is larger."""
    found = comparison(tmp_path, steps(1), steps(1, fixed=1.5))
    assert {one.kind for one in found.explanations} == {"slower"}
    assert all("takes 30.0 µs instead of 20.0 µs on the GPU" in one.text for one in found.explanations)
