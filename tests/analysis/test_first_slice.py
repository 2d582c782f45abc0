"""What is said of an event does not depend on its number: the trace's first slice is a slice like others."""

from typing import Any

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, step, trace_of

from tracetui.analysis.calls import flow
from tracetui.analysis.calls.ancestors import covering, op_around
from tracetui.analysis.calls.chain import launch_chain, launched_by
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.part import Part
from tracetui.timeline.navigate import linked
from tracetui.trace import Trace
from tracetui.views.event import event_facts
from tracetui.views.explain import explain
from tracetui.views.gaps import JSON, gap_columns
from tracetui.views.model import select_columns
from tracetui.views.writers import records


def arrow(number: int, begin: float, end: float, category: str = "fwdbwd") -> list[Event]:
    both = {"cat": category, "name": category, "pid": 9, "tid": 9, "id": number}
    return [both | {"ph": "s", "ts": begin}, both | {"ph": "f", "ts": end, "bp": "e"}]


FAMILIES: dict[str, list[Event]] = {
    "a launch": [launch(0, 1), kernel(10, 30, 1)],
    "a launch of two": [launch(0, 1, name="cudaGraphLaunch"), kernel(10, 30, 1), kernel(42, 5, 1)],
    "an op with its launch": [cpu("aten::mm", 0, 20, **{"External id": 1}), launch(5, 1), kernel(30, 9, 1)],
    "ops in ops": [
        cpu("aten::linear", 0, 50), cpu("aten::addmm", 5, 40), launch(10, 1), kernel(60, 9, 1),
        launch(20, 2), kernel(70, 3, 2),
    ],
    "one of the same name": [
        cpu("aten::add", 0, 50), cpu("aten::add", 1, 48), launch(10, 1), kernel(60, 9, 1)
    ],
    "forward and backward": [
        cpu("aten::mm", 0, 10), cpu("MmBackward0", 20, 10), *arrow(7, 0, 20), launch(22, 1), kernel(40, 4, 1)
    ],
    "a copy that waits": [
        launch(0, 1, 30, "cudaMemcpyAsync"), memcpy(10, 20, 1, "DtoH (Device -> Pageable)"),
    ],
    "a wait": [launch(0, 5, 50, "cudaDeviceSynchronize"), launch(60, 1), kernel(70, 9, 1)],
    "kernels without launches": [kernel(0, 9, 1), kernel(10, 9, 2), kernel(40, 9, 3, stream=20)],
    "a step": [step(3, 0, 100), cpu("aten::mm", 5, 20), launch(8, 1), kernel(50, 9, 1)],
    "gaps": [cpu("aten::mm", 0, 99), launch(2, 1), kernel(10, 9, 1), launch(40, 2), kernel(50, 9, 2)],
    "a frame": [
        cpu("a.py(1): f", 0, 50, "python_function"), cpu("aten::mm", 5, 20), launch(8, 1), kernel(50, 9, 1)
    ],
}  # fmt: skip
BEFORE = cpu("before all", 0, 0.001, "python_function") | {"pid": 1, "tid": 1}
"""An event of another process, whose lane comes first."""


def told(trace: Trace, skip: int) -> list[Any]:
    """What is said of each event, with the numbers of other events less `skip`."""

    def number(value: Any) -> Any:
        return None if value is None else int(value) - skip if int(value) >= 0 else -1

    found: list[Any] = []
    for i in range(skip, len(trace)):
        said, chain = explain(trace, i), launch_chain(trace, i)
        lane, start = trace.lane[[i]].astype(np.int64), trace.start[[i]]
        following, preceding, partner = flow.follow(trace, i), flow.unfollow(trace, i), flow.partner(trace, i)
        place = flow.place_of(trace, i)
        facts = event_facts(trace, i, {})
        found.append(
            (
                trace.name_of(i), (said.title, said.what, said.why, said.facts),
                [(number(link.slice), link.level, link.role) for link in chain.links], chain.more,
                (number(following[0]), following[1]), (number(preceding[0]), preceding[1]),
                (number(partner[0]), partner[1]) if partner else None,
                [number(j) for j in flow.launches_within(trace, i)],
                [number(j) for j in flow.device_events(trace, i)], [number(j) for j in flow.path(trace, i)],
                [number(j) for j in flow.subtree(trace, i)],
                (place.number, place.of, number(place.first)) if place else None,
                flow.launches_work(trace, i), [number(j) for j in launched_by(trace, i)],
                [(number(a), number(b)) for a, b in linked(trace, i)],
                [(fact.label, fact.value, number(fact.event)) for fact in facts],
                number(op_around(trace, np.array([i]))[0]), number(covering(trace, lane, start, start + 1)[0])
            )
        )  # fmt: skip
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_an_event_before_all_changes_nothing_of_the_others(family, tmp_path):
    events = FAMILIES[family]
    alone = told(trace_of(tmp_path, *events), 0)
    later = trace_of(tmp_path, BEFORE, *events)
    assert later.name_of(0) == "before all"
    assert told(later, 1) == alone


@pytest.mark.parametrize("family", FAMILIES)
def test_gaps_are_the_same_with_an_event_before_all(family, tmp_path):
    def gaps(*events: Event) -> list[Any]:
        results = Part(trace_of(tmp_path, *events))
        return records(select_columns(gap_columns(results), JSON), np.arange(len(gaps_of(results))))

    assert gaps(BEFORE, *FAMILIES[family]) == gaps(*FAMILIES[family])
