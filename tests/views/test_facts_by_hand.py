"""What the facts and the explanation of an event say where a nearby case says something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.kineto import cpu, kernel, launch, trace_of

from tracetui.analysis.calls import flow
from tracetui.session.query import matches
from tracetui.trace import Trace
from tracetui.views.event import event_facts, trace_facts
from tracetui.views.explain import explain


def number(trace: Trace, name: str) -> int:
    return next(i for i in range(len(trace)) if trace.name_of(i) == name)


def test_no_time_of_its_own(tmp_path: Path) -> None:
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


def test_kernels_without_a_launch_have_none_in_common(tmp_path: Path) -> None:
    """A pause of 3 us is one between two nodes only where both came from one launch."""
    gap = "between the"
    trace = trace_of(tmp_path, kernel(0, 9, 1), kernel(12, 9, 2))
    assert not any(gap in line for line in explain(trace, 1).why)
    trace = trace_of(
        tmp_path, launch(0, 1, name="cudaGraphLaunch"), kernel(10, 9, 1, name="a"), kernel(22, 9, 1, name="b")
    )
    (said,) = [line for line in explain(trace, number(trace, "b")).why if gap in line]
    assert said == "The GPU was idle for 3.00 µs between the previous node and this one."


def test_back_from_a_kernel_whose_launch_is_not_there(tmp_path: Path) -> None:
    there = kernel(60, 20, 7)
    there["args"] |= {"External id": 3}
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 50, **{"External id": 3}), there)
    assert trace.op.tolist() == [-1, 0]
    assert flow.unfollow(trace, 1) == (0, "GPU event → op")


def test_an_expression_that_is_not_finished_is_searched_as_it_is(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, cpu("mm", 0, 5), cpu("mul", 10, 5), cpu("a/b", 20, 5))
    for query, found in (("/mm", [0]), ("/m", [0, 1]), ("/m/", [0, 1]), ("/", [2]), ("name:/mu", [1])):
        assert np.flatnonzero(matches(trace, query)).tolist() == found, query


def test_the_file_is_named(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, cpu("a", 0, 10))
    assert trace_facts(trace)[0] == ("file", str(tmp_path / "t.json"), -1)


def test_an_annotation_on_the_gpu_launches_nothing(tmp_path: Path) -> None:
    """Its namesake on the CPU does."""
    shadow = kernel(5, 40, 0, name="round", cat="gpu_user_annotation")
    events = cpu("round", 0, 30, "user_annotation"), launch(2, 1), kernel(10, 9, 1), shadow
    trace = trace_of(tmp_path, *events)
    for i in np.flatnonzero([trace.name_of(i) == "round" for i in range(len(trace))]).tolist():
        on_device = trace.lanes[int(trace.lane[i])].device >= 0
        facts = [f"{fact.label} {fact.value}" for fact in event_facts(trace, i, {})]
        assert any(fact.startswith("on the GPU 1 event") for fact in facts) is not on_device, facts
