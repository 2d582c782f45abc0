"""The same program on larger inputs."""

from __future__ import annotations

import pytest
from tests.compare.conftest import comparison
from tests.kineto import Event, cpu, kernel, launch, step

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
        event
        for k in range(4)
        for now in (3000.0 * k + 250,)
        for event in (
            cpu("aten::new", now, 20),
            launch(now + 2, 99 + k),
            kernel(now + 12, 20, 99 + k, name="fresh"),
        )
    ]
    found = comparison(tmp_path, steps(1), [*steps(2), *new])
    assert {one.kind for one in found.explanations} == {"sizes", "new"}


def test_kernels_of_one_size_that_take_longer_are_told_by_themselves(tmp_path):
    """The others do the same: no input is larger."""
    found = comparison(tmp_path, steps(1), steps(1, fixed=1.5))
    assert {one.kind for one in found.explanations} == {"slower"}
    assert all("takes 30.0 µs instead of 20.0 µs on the GPU" in one.text for one in found.explanations)
