"""From an op to its launch and to what it launched, and back; chains of launches, and their delays."""

from typing import Any

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, step, trace_of

from tracetui.analysis.calls import flow
from tracetui.analysis.calls.chain import MOST_EVENTS, launch_chain, launched_by
from tracetui.analysis.calls.flow import follow, partner, unfollow
from tracetui.analysis.calls.launches import find_launches, short_kernels
from tracetui.analysis.steps.scope import (
    range_scope,
)
from tracetui.trace import Kind
from tracetui.views.event import event_facts


def test_links_from_an_op_and_back(tmp_path):
    trace = trace_of(
        tmp_path, cpu("aten::mm", 0, 50, **{"External id": 5}), cpu("aten::view", 2, 3),
        launch(10, 1) | {"args": {"correlation": 1, "External id": 5}}, launch(20, 2, 4, "cudaGraphLaunch"),
        cpu("cudaEventQuery", 30, 2, "cuda_runtime", correlation=9), kernel(60, 5, 1),
        kernel(70, 5, 2, name="first"), kernel(80, 5, 2, name="second"), kernel(90, 5, 77, name="lost")
    )  # fmt: skip
    at = {trace.name_of(i): i for i in range(len(trace))}

    def step_to(move: Any, name: str) -> tuple[str, str]:
        where, why = move(trace, at[name])
        return trace.name_of(where) if where is not None else "-", why

    assert step_to(follow, "aten::mm") == ("cudaLaunchKernel", "op → launch, the first of 2")
    assert step_to(follow, "cudaLaunchKernel") == ("k1", "launch → GPU event")
    assert step_to(follow, "cudaGraphLaunch") == ("first", "launch → GPU event, the first of 2")
    assert step_to(follow, "first") == ("second", "GPU event 2 of 2 from the same launch")
    assert step_to(follow, "second") == ("-", "the flow ends here; [ goes back to the launch")
    assert step_to(follow, "lost") == ("-", "this GPU event has no launch in the trace")
    assert step_to(follow, "cudaEventQuery") == ("-", "this call launched nothing")
    assert step_to(follow, "aten::view") == ("-", "nothing was launched inside this event")
    assert step_to(unfollow, "second") == ("cudaGraphLaunch", "GPU event → launch")
    assert step_to(unfollow, "cudaLaunchKernel") == ("aten::mm", "launch → op")
    assert step_to(unfollow, "cudaGraphLaunch") == ("aten::mm", "launch → op")
    assert step_to(unfollow, "aten::mm") == ("-", "no link leads here")
    assert step_to(unfollow, "lost") == ("-", "this GPU event has no launch in the trace")
    assert partner(trace, at["aten::mm"]) is None


def test_a_call_that_launches_nothing_is_no_launch(tmp_path):
    wait = cpu("cudaDeviceSynchronize", 60, 10, "cuda_runtime", correlation=8)
    marker = kernel(61, 5, 8, 20, "Context Sync", cat="cuda_sync")
    calls = [cpu("cudaMalloc", 20, 3, "cuda_runtime", correlation=9), launch(30, 1), launch(40, 2)]
    trace = trace_of(tmp_path, cpu("aten::empty", 10, 45), *calls, wait, kernel(50, 5, 1), marker)
    roles = {}
    for i in np.flatnonzero(trace.is_kind(Kind.RUNTIME)).tolist():
        roles |= {link.slice: link.role for link in launch_chain(trace, i).links if link.slice == i}
    names = [(trace.name_of(i), role) for i, role in roles.items()]
    assert names == [
        ("cudaMalloc", "call"),
        ("cudaLaunchKernel", "launch"),
        ("cudaLaunchKernel", "launch"),  # what it launched was not recorded
        ("cudaDeviceSynchronize", "call"),
    ]
    at = next(i for i in range(len(trace)) if trace.name_of(i) == "Context Sync")
    assert [fact.label for fact in event_facts(trace, at, {}) if "cudaDevice" in fact.value] == ["call"]
    assert follow(trace, next(i for i in roles if roles[i] == "call" and "Sync" in trace.name_of(i)))[1] == (
        "call → GPU event"
    )


def test_a_step_leads_to_what_another_thread_launches(tmp_path):
    """Here the first event of all."""
    trace = trace_of(tmp_path, step(1, 0, 50) | {"tid": 10}, launch(20, 1), kernel(30, 10, 1))
    assert trace.name_of(0) == "cudaLaunchKernel"
    assert [link.role for link in launch_chain(trace, 1).links] == ["step", "launch", "kernel"]


def test_a_chain_lists_the_longest(tmp_path):
    graph = [kernel(100 + 20 * i, 1 + (7 * i) % 12, 1, name=f"k{i}") for i in range(MOST_EVENTS + 3)]
    trace = trace_of(tmp_path, step(1, 0, 50), cpu("aten::mm", 10, 30), launch(20, 1), *graph)
    at = {trace.name_of(i): i for i in range(len(trace))}
    chain = launch_chain(trace, at["aten::mm"])
    assert chain.more == 3
    kernels = [link for link in chain.links if link.role == "kernel"]
    kept = sorted(range(len(graph)), key=lambda i: -((7 * i) % 12))[:MOST_EVENTS]
    assert [link.name for link in kernels] == [f"k{i}" for i in sorted(kept)]
    assert [(link.role, link.level) for link in chain.links[:3]] == [("step", 0), ("op", 1), ("launch", 2)]
    assert {link.level for link in kernels} == {3}
    # The graph's first node is the only one whose time since the launch is a delay.
    assert [(link.delay, link.after_first) for link in kernels[:2]] == [(20_000, True), (60_000, True)]
    assert (
        len(launched_by(trace, at["aten::mm"])) == len(launched_by(trace, at["ProfilerStep#1"])) == len(graph)
    )


def test_delays_and_costs_of_launches(tmp_path):
    graph = [launch(100, 5, 9, "cudaGraphLaunch"), kernel(120, 2, 5), kernel(123, 2, 5), kernel(126, 8, 5)]
    events = [launch(0, 1), kernel(20, 3, 1), launch(50, 2), kernel(40, 4, 2), kernel(70, 5, 3), *graph]
    trace = trace_of(tmp_path, *events)
    launches = find_launches(trace)
    assert [trace.name_of(int(i)) for i in launches.event] == ["k1", "k2", "k5", "k5", "k5"]
    assert launches.delay.tolist() == [20_000, -10_000, 20_000, 23_000, 26_000]
    assert launches.first.tolist() == [True, True, True, False, False]
    assert launches.cost.tolist() == [4_000, 4_000, 3_000, 3_000, 3_000]
    assert (launches.unlinked, launches.median_delay) == (1, 20_000)
    short = short_kernels(trace, launches)
    # As long as its launch is not shorter, nor what shares its launch with others.
    assert (short.events, short.of, short.names) == (1, 5, ("k1",))
    assert (short.count.tolist(), short.device_time.tolist(), short.launch_time.tolist()) == (
        [1], [3_000], [4_000]
    )  # fmt: skip
    none = find_launches(trace, range_scope(0, 1000))
    assert (len(none), none.median_delay) == (0, None)


@pytest.mark.parametrize(("start", "delay", "ahead"), [(49, None, 1_000), (50, 0, 0), (51, 1_000, 0)])
def test_a_delay_below_zero_is_not_known(tmp_path, start, delay, ahead):
    launches = find_launches(trace_of(tmp_path, launch(50, 1), kernel(start, 5, 1)))
    assert (launches.median_delay, launches.ahead) == (delay, ahead)


def test_the_other_end_of_a_flow(tmp_path):
    """An op without one has that of the op within it whose other end takes longest; one that ends within the
    op leads nowhere."""

    def flow(phase: str, at: float, number: int, tid: int) -> Event:
        mark = {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": 9, "tid": tid, "ts": at}
        return mark | ({"bp": "e"} if phase == "f" else {})

    ops = [
        cpu("linear", 0, 100), cpu("t", 10, 10), cpu("mm", 30, 10), cpu("add", 60, 10), cpu("relu", 110, 5)
    ]  # fmt: skip
    back = [cpu("back", 200, 10) | {"tid": 10}, cpu("early", 210, 20) | {"tid": 5}]
    flows = [flow("s", 31, 1, 9), flow("f", 201, 1, 10), flow("s", 61, 2, 9), flow("f", 211, 2, 5)]
    trace = trace_of(tmp_path, *ops, *back, *flows, *[flow("s", 11, 3, 9), flow("f", 62, 3, 9)])
    at = {trace.name_of(i): i for i in range(len(trace))}

    def other(name: str) -> tuple[str, bool] | None:
        found = partner(trace, at[name])
        return (trace.name_of(found[0]), found[1]) if found else None

    assert other("linear") == ("early", False)
    assert other("mm") == ("back", False)
    assert other("t") == ("add", False)
    assert other("add") == ("early", False)
    assert other("back") == ("mm", True)
    assert other("early") == ("add", True)
    assert other("relu") is None


def test_back_from_a_kernel_whose_launch_is_not_there(tmp_path):
    there = kernel(60, 20, 7)
    there["args"] |= {"External id": 3}
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 50, **{"External id": 3}), there)
    assert trace.op.tolist() == [-1, 0]
    assert flow.unfollow(trace, 1) == (0, "GPU event → op")
