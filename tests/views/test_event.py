"""What the facts of an event say where a nearby case says something else."""

from typing import Any

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, memory, trace_of

from tracetui.trace import Trace
from tracetui.trace.memory import memory_records
from tracetui.views.device_facts import device_facts
from tracetui.views.event import event_facts, trace_facts
from tracetui.views.explain import explain


def test_memory_in_the_details(tmp_path):
    def record(at: float, size: int, kind: int, total: int) -> Event:
        args = {"Bytes": size, "Device Type": kind, "Device Id": 0 if kind else -1, "Total Allocated": total}
        return memory(at, 0) | {"args": args}

    events = [record(1, 1024, 0, 1024), record(2, 2048, 1, 2048), record(15, -512, 1, 1536)]
    trace = trace_of(tmp_path, cpu("aten::mm", 10, 10), cpu("early", 0, 0.5), *events, record(30, 0, 0, 0))
    records = memory_records(trace)

    def said(name: str) -> dict[str, str]:
        at = next(i for i in range(len(trace)) if trace.name_of(i) == name)
        return {fact.label: fact.value for fact in event_facts(trace, at, {}, records)}

    facts = said("aten::mm")
    assert facts["memory, CPU"] == "1.00 KiB allocated, at its start"
    assert facts["memory, GPU 0"] == "2.00 KiB allocated, at its start"
    assert facts["allocates"] == "-512 B GPU, until its end"
    assert not {"memory, CPU", "memory, GPU 0", "allocates"} & set(said("early"))


def test_details_of_a_kernel(tmp_path):
    trace = trace_of(tmp_path, launch(0, 1), kernel(10, 5, 1))

    def said(**args: Any) -> dict[str, str]:
        return {fact.label: fact.value for fact in event_facts(trace, 1, args)}

    assert "10.000 µs" in " ".join(said().values())  # from its launch, the first slice of all
    assert said(grid=[2, 3], block=[128])["grid"] == "2 × 3 blocks of 128 threads"
    for grid in ([], [1, 2, 3, 4], [1.5], "1", [True]):
        assert "blocks" not in said(grid=grid, block=[128]).get("grid", "")
    assert said(bytes=4096, **{"memory bandwidth (GB/s)": 12.5})["moves"] == "4,096 bytes at 12.5 GB/s"
    assert said(bytes=4096, **{"memory bandwidth (GB/s)": 0})["moves"] == "4,096 bytes"


def number(trace: Trace, name: str) -> int:
    return next(i for i in range(len(trace)) if trace.name_of(i) == name)


def test_no_time_of_its_own(tmp_path):
    """What lies wholly under another has none; under one of its own name, it is counted there."""
    trace = trace_of(tmp_path, cpu("outer", 0, 50), cpu("shell", 0, 50), cpu("core", 0, 50))

    def told(i: int) -> list[str]:
        return [fact.value for fact in event_facts(trace, i, {}) if fact.label == "self time"]

    assert told(number(trace, "shell")) == ["0.000 µs, 0.00% of it"]
    assert told(number(trace, "core")) == []
    trace = trace_of(tmp_path, cpu("same", 0, 50), cpu("same", 1, 48), cpu("core", 5, 10))
    inner = int(np.flatnonzero(trace.duration == 48_000)[0])
    assert told(inner) == ["counted in the call of the same name around it, as PyTorch does"]
    assert told(int(trace.parent[inner])) == ["40.000 µs, 80.00% of it"]


def test_kernels_without_a_launch_have_none_in_common(tmp_path):
    """A pause of 3 us is one between two nodes only where both came from one launch."""
    gap = "between the"
    trace = trace_of(tmp_path, kernel(0, 9, 1), kernel(12, 9, 2))
    assert not any(gap in line for line in explain(trace, 1).why)
    trace = trace_of(
        tmp_path, launch(0, 1, name="cudaGraphLaunch"), kernel(10, 9, 1, name="a"), kernel(22, 9, 1, name="b")
    )
    (said,) = [line for line in explain(trace, number(trace, "b")).why if gap in line]
    assert said == "The GPU was idle for 3.00 µs between the previous node and this one."


def test_the_file_is_named(tmp_path):
    assert trace_facts(trace_of(tmp_path, cpu("a", 0, 10)))[0] == ("file", str(tmp_path / "t.json"), -1)


def test_an_annotation_on_the_gpu_launches_nothing(tmp_path):
    """Its namesake on the CPU does."""
    shadow = kernel(5, 40, 0, name="round", cat="gpu_user_annotation")
    events = cpu("round", 0, 30, "user_annotation"), launch(2, 1), kernel(10, 9, 1), shadow
    trace = trace_of(tmp_path, *events)
    for i in np.flatnonzero([trace.name_of(i) == "round" for i in range(len(trace))]).tolist():
        on_device = trace.lanes[int(trace.lane[i])].device >= 0
        facts = [f"{fact.label} {fact.value}" for fact in event_facts(trace, i, {})]
        assert any(fact.startswith("on the GPU 1 event") for fact in facts) is not on_device, facts


@pytest.mark.parametrize(
    ("speed", "said"), [(3, True), (999_999_999, True), (1e9, False), (0, False), (True, False), ("3", False)]
)
def test_a_rate_that_can_be(speed, said):
    facts, shown = device_facts({"bytes": 5000, "memory bandwidth (GB/s)": speed}, {})
    (moves,) = [text for name, text in facts if name == "moves"]
    assert (moves != "5,000 bytes") is said
    assert "bytes" in shown


def test_properties_of_a_file_keep_their_names(tmp_path):
    """Up to 40 characters of them."""
    names = {"k" * 39: 1, "K" * 40: 2, "long" * 20: 3}
    facts = {fact.label: fact.value for fact in trace_facts(trace_of(tmp_path, cpu("a", 0, 1), **names))}
    assert facts["k" * 39] == "1"
    assert facts["K" * 40] == "2"
    (cut,) = (label for label, value in facts.items() if value == "3")
    assert cut.startswith("longlong")
    assert len(cut) <= 40
