"""Limits of rules and tables, each with the smallest thing that shows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.kineto import Event, cpu, launch, memcpy, run, step, trace_of
from tests.rules.test_rules import A10, found

from tracetui.analysis.names.kernel_names import decode
from tracetui.analysis.rates.inputs import ITEM_SIZE
from tracetui.analysis.steps.scope import find_steps
from tracetui.session.marks import event_of, mark_on
from tracetui.timeline.series import brief_of


def note(name: str, start: float, duration: float) -> Event:
    return cpu(name, start, duration, "user_annotation")


@pytest.mark.parametrize(("alone", "severity"), [(30, "medium"), (31, "high"), (9, "")])
def test_communication_of_a_cpu(tmp_path: Path, alone: int, severity: str) -> None:
    """While no thread is in an op, of 100 us."""
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 100 - alone), note("gloo:all_reduce", 100 - alone, alone))
    finding = found(trace, "communication")
    assert (finding.severity if finding is not None else "") == severity


def test_what_is_called_pinned_and_is_no_copy(tmp_path: Path) -> None:
    copy = memcpy(100, 1000, 1)
    copy["args"]["bytes"] = 10_000_000
    events = [launch(95, 1, name="cudaMemcpyAsync"), *run(1200, 500, 2)]
    assert found(trace_of(tmp_path, copy, *events, **A10), "slow_copies") is not None
    other = copy | {"name": "Move (Pinned -> Device)"}
    assert found(trace_of(tmp_path, other, *events, **A10), "slow_copies") is None


@pytest.mark.parametrize(("more", "cold"), [(4, True), (5, False), (1, True)])
def test_steps_that_do_twice_as_much_as_the_first_are_compared_with_it(
    tmp_path: Path, more: int, cold: bool
) -> None:
    events: list[Event] = []
    for n in range(4):
        events.append(step(n, 3000 * n, 2600 if n == 0 else 200))
        for k in range(2 if n == 0 else more):
            events += run(3000 * n + 10 + 20 * k, 5, 9 * n + k + 1)
    assert (found(trace_of(tmp_path, *events), "cold_start") is not None) is cold


def test_the_sizes_of_the_types() -> None:
    """As NumPy has them, of those that it has."""
    for name, size in ITEM_SIZE.items():
        known = name.replace("fp", "float") if name[:2] == "fp" and name != "fp8" else name
        if known not in ("tf32", "bf16", "fp8"):
            assert np.dtype(known).itemsize == size, name
    assert (ITEM_SIZE["tf32"], ITEM_SIZE["bf16"], ITEM_SIZE["fp8"]) == (4, 2, 1)


def test_convolutions_on_plain_units() -> None:
    assert decode("void wgrad2d_c1_k1_nhwc_kernel<float>(int)").tensor_cores is False
    assert decode("void implicit_convolve_sgemm<float, 128>(int)").tensor_cores is False


def test_an_annotation_of_several_processes(tmp_path: Path) -> None:
    """Steps by an annotation that somebody asks for are those of all, unlike the profiler's own."""
    events = [note("batch", 100 * n, 90) for n in range(2)]
    events += [e | {"pid": 10, "tid": 10, "ts": e["ts"] + 40} for e in events]
    events += [*run(10, 5, 1), *run(110, 5, 2)]
    assert len(find_steps(trace_of(tmp_path, *events), "batch")) == 4


def test_a_mark_on_one_of_two_that_are_alike(tmp_path: Path) -> None:
    """On the lane that it was made on, else on any."""
    events = [cpu("aten::mm", 5, 10) | {"tid": tid} for tid in (1, 2, 3)]
    trace = trace_of(tmp_path, *events)
    for i in range(3):
        assert event_of(trace, mark_on(trace, i, 0)) == i
    assert event_of(trace, mark_on(trace, 1, 0)._replace(lane="gone")) == 0


def test_large_counts_in_brief() -> None:
    assert [brief_of(value, "count") for value in (1e9, 1.4e9, 999e6, 1e4, 9999)] == [
        "1G",
        "1G",
        "999M",
        "10k",
        "9999",
    ]


@pytest.mark.parametrize(
    "odd", [{"id": [0]}, {"id": {}}, {"numSms": 10**400}, {"numSms": -1}, {"numSms": "132"}]
)
def test_odd_properties_of_a_device(tmp_path: Path, odd: dict[str, object]) -> None:
    launched, done = run(10, 900, 1, "few")
    done["args"]["grid"] = [4, 1, 1]
    properties = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132} | odd]}
    events = [launched, done, *run(920, 50, 2, "many")]
    assert found(trace_of(tmp_path, *events, **properties), "small_grids") is None
    properties["deviceProperties"] = [{"id": 0, "name": "NVIDIA H200", "numSms": 132}]
    assert found(trace_of(tmp_path, *events, **properties), "small_grids") is not None
