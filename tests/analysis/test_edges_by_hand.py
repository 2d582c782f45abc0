"""Single decisions of the analyses, each on the smallest trace that shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of

from tracetui.analysis.calls.averages import averages
from tracetui.analysis.calls.calls import build_calls, is_collective
from tracetui.analysis.calls.chain import MOST_EVENTS, launch_chain, launched_by
from tracetui.analysis.calls.flow import follow, partner, unfollow
from tracetui.analysis.calls.groups import shape_text
from tracetui.analysis.idle.activity import activity_text, activity_texts, small_ops
from tracetui.analysis.idle.causes import CAUSES, gap_causes
from tracetui.analysis.idle.gaps import find_gaps
from tracetui.analysis.idle.waited_for import waits_for_others
from tracetui.analysis.part import Part, Scope
from tracetui.analysis.rates.peaks import find_peak
from tracetui.analysis.steps.scope import range_scope
from tracetui.rules import Finding, find_findings
from tracetui.rules.recording import _what_it_interrupts
from tracetui.trace import Kind, Trace
from tracetui.views.event import event_facts

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"
TALK = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def found(trace: Trace, rule: str, scope: Scope | None = None) -> Finding | None:
    every = find_findings(Part(trace).in_scope(scope))
    return next((finding for finding in every if finding.rule == rule), None)


def memory(at: float, size: int, tid: int = 9, name: str = "[memory]") -> Event:
    args = {"Bytes": size, "Device Type": 1, "Device Id": 0}
    return {"ph": "i", "s": "t", "name": name, "pid": 9, "tid": tid, "ts": at, "args": args}


# Averages


def table(trace: Trace, **more: Any) -> dict[str, tuple[int, int, int, int, int]]:
    """Name to (calls, CPU total, self CPU, device total, self device)."""
    return {
        row.name: (row.calls, row.cpu_total, row.self_cpu, row.device_total, row.self_device)
        for row in averages(trace, **more).rows()
    }


def test_averages_of_memory_alone(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, memory(5, 10), memory(6, -10), memory(7, 1, name="[OutOfMemory]"))
    assert table(trace) == {"[memory]": (2, 0, 0, 0, 0), "[OutOfMemory]": (1, 0, 0, 0, 0)}


@pytest.mark.parametrize("far", [3, 10**9])
def test_ids_of_ops_may_be_far_apart(tmp_path: Path, far: int) -> None:
    """A kernel belongs to the op of its id, and to none where no op has it."""
    work = [kernel(100 * n, 10 + n, n) for n in range(4)]
    for event, number in zip(work, (1, far, 2, far + 1), strict=True):
        event["args"]["External id"] = number
    ops = [cpu("a", 0, 5, **{"External id": 1}), cpu("b", 10, 5, **{"External id": far})]
    found = table(trace_of(tmp_path, *ops, *work))
    assert (found["a"][3], found["b"][3]) == (10_000, 11_000)


def test_memory_of_a_scope(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 1), *(memory(at, 8) for at in (10, 20, 30)), memory(0.5, 8))
    assert table(trace)["[memory]"][0] == 3  # one lies in the op
    assert table(trace, scope=range_scope(20_000, 30_000))["[memory]"][0] == 1
    assert "[memory]" not in table(trace, scope=range_scope(30_001, 90_000))


def test_what_averages_leave_out(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        cpu("train.py(1): main", 0, 100, "python_function"),
        cpu("aten::mm", 10, 50),
        cpu("aten::is_leaf", 12, 5),
        kernel(20, 5, 1, name="event", cat="cuda_event"),
        kernel(20, 5, 2, name="k"),
        cpu("aten::mm", 200, -4),
    )
    assert table(trace) == {"aten::mm": (1, 50_000, 50_000, 0, 0), "k": (1, 0, 0, 5_000, 5_000)}
    assert averages(trace).left_out == 1
    with_python = table(trace, python_functions=True)
    assert with_python["train.py(1): main"] == (1, 100_000, 50_000, 0, 0)
    assert len(build_calls(trace).cpu) == 1
    assert len(build_calls(trace, True).cpu) == 2


def test_a_chain_of_calls_of_one_name_is_one(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        cpu("aten::to", 0, 100, **{"External id": 1}),
        cpu("aten::to", 10, 80, **{"External id": 2}),
        cpu("aten::to", 20, 60, **{"External id": 3}),
        cpu("aten::copy_", 30, 40, **{"External id": 4}),
        kernel(50, 7, 1) | {"args": {"External id": 3, "device": 0, "stream": 7}},
        kernel(60, 9, 2) | {"args": {"External id": 1, "device": 0, "stream": 7}},
    )
    # The outermost keeps its duration, and takes the innermost's child and device time instead of its own.
    assert table(trace) == {
        "aten::to": (1, 100_000, 60_000, 7_000, 7_000),
        "aten::copy_": (1, 40_000, 40_000, 0, 0),
        "k1": (1, 0, 0, 7_000, 7_000),
        "k2": (1, 0, 0, 9_000, 9_000),
    }


def test_two_children_of_one_name_stay(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, cpu("a", 0, 100), cpu("a", 10, 20), cpu("a", 40, 20))
    assert table(trace) == {"a": (3, 140_000, 100_000, 0, 0)}


def test_a_collective_stands_outside_of_the_tree(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        cpu("step", 0, 100, "user_annotation"),
        cpu("nccl:all_reduce", 10, 50, "user_annotation"),
        cpu("aten::add", 20, 10),
    )
    assert table(trace) == {
        "step": (1, 100_000, 90_000, 0, 0),
        "nccl:all_reduce": (1, 50_000, 0, 0, 0),
        "aten::add": (1, 10_000, 10_000, 0, 0),
    }
    assert is_collective("gloo:x")
    assert not is_collective("my nccl:x")


def test_annotations_on_the_device_lose_what_the_export_adds(tmp_path: Path) -> None:
    shadow = kernel(10, 5, 0, name="forward", cat="gpu_user_annotation")
    trace = trace_of(tmp_path, shadow, kernel(30, 0.001, 0, name="tiny", cat="gpu_user_annotation"))
    assert table(trace) == {"forward": (1, 0, 0, 4_998, 4_998), "tiny": (1, 0, 0, 0, 0)}
    calls = build_calls(trace)
    assert (calls.device_start - trace.start[calls.device]).tolist() == [1, 1]
    assert averages(trace).total_self_device == 0  # annotations do not count there


def test_averages_in_order(tmp_path: Path) -> None:
    events = [cpu("b", 0, 10), cpu("a", 20, 30), cpu("c", 60, 10), cpu("c", 80, 10)]
    made = averages(trace_of(tmp_path, *events))
    assert made.names == ("b", "a", "c")

    def order(column: str, **more: Any) -> list[str]:
        return [made.names[i] for i in made.sorted_by(column, **more)]

    assert order("cpu_time_total") == ["a", "c", "b"]
    assert order("cpu_time_total", ascending=True) == ["b", "c", "a"]
    assert order("cpu_time") == ["a", "b", "c"]
    assert order("count") == ["c", "b", "a"]
    assert order("name") == ["c", "b", "a"]
    assert order("name", ascending=True) == ["a", "b", "c"]
    with pytest.raises(KeyError):
        made.sorted_by("no such column")


@pytest.mark.parametrize(
    ("dims", "text"),
    [
        ([[2, 3], []], "[[2, 3], []]"),
        ([[[2], [3]], [4]], "[[], [4]]"),
        ("no", "[]"),
        ([], "[]"),
        ([5], "[5]"),
    ],
)
def test_shapes_as_pytorch_writes_them(dims: Any, text: str) -> None:
    assert shape_text(dims) == text


# Causes and what the CPU did


def test_the_first_slice_of_all_may_be_the_launch(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, launch(20, 2), kernel(0, 10, 1), kernel(30, 5, 2))
    (gaps,) = find_gaps(trace)
    causes = gap_causes(trace, gaps)
    assert (CAUSES[int(causes.cause[0])], causes.launch.tolist()) == ("host", [0])
    assert causes.activity.tolist() == [-1]


def test_the_first_slice_of_all_may_be_what_the_cpu_did(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, cpu("enumerate(DataLoader)#x", 0, 90, "user_annotation"), launch(80, 2),
        kernel(0, 10, 1), kernel(100, 5, 2),
    )  # fmt: skip
    (gaps,) = find_gaps(trace)
    causes = gap_causes(trace, gaps)
    small = small_ops(trace, gaps.before, causes)
    assert causes.activity.tolist() == [0]
    texts = activity_texts(trace, causes, small)
    assert texts == [activity_text(trace, causes, small, 0)]
    assert "DataLoader" in texts[0]


def test_many_small_ops(tmp_path: Path) -> None:
    ops = [
        cpu(name, 10 + 15 * i, 13)
        for i, name in enumerate(["aten::add", "aten::mul", "aten::add", "aten::mm"])
    ]
    trace = trace_of(
        tmp_path,
        kernel(0, 15, 1),  # the first op began before the gap
        *ops,
        cpu("aten::inner", 26, 5),
        launch(66, 2),  # and the last one launches
        kernel(80, 5, 2),
    )
    (gaps,) = find_gaps(trace)
    causes = gap_causes(trace, gaps)
    small = small_ops(trace, gaps.before, causes)
    assert (small.count.tolist(), [trace.names[i] for i in small.name]) == ([4], ["aten::add"])
    assert activity_texts(trace, causes, small) == ["4 ops, most in aten::add"]


# Devices


def device(**more: Any) -> dict[str, Any]:
    return {"name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132} | more


@pytest.mark.parametrize(
    ("properties", "known"),
    [
        (device(), True),
        (device(computeMinor=1), False),
        (device(computeMajor=None), True),
        (device(numSms=131), False),
        (device(numSms=None), True),
        (device(name="NVIDIA H2000"), False),
    ],
)
def test_which_device_it_is(properties: dict[str, Any], known: bool) -> None:
    assert (find_peak(properties) is not None) == known


@pytest.mark.parametrize(
    ("gib", "known"),
    [(192, True), (192 * 0.951, True), (192 * 0.949, False), (192 * 1.049, True), (192 * 1.051, False)],
)
def test_a_nameless_device_is_known_by_its_memory(gib: float, known: bool) -> None:
    nameless = {
        "name": "",
        "computeMajor": 9,
        "computeMinor": 4,
        "numSms": 304,
        "totalGlobalMem": gib * 2**30,
    }
    assert (find_peak(nameless) is not None) == known
    assert find_peak(nameless | {"numSms": None}) is None


# Links


def test_links_from_an_op_and_back(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        cpu("aten::mm", 0, 50, **{"External id": 5}),
        cpu("aten::view", 2, 3),
        launch(10, 1) | {"args": {"correlation": 1, "External id": 5}},
        launch(20, 2, 4, "cudaGraphLaunch"),
        cpu("cudaEventQuery", 30, 2, "cuda_runtime", correlation=9),
        kernel(60, 5, 1),
        kernel(70, 5, 2, name="first"),
        kernel(80, 5, 2, name="second"),
        kernel(90, 5, 77, name="lost"),
    )
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


def test_a_call_that_launches_nothing_is_no_launch(tmp_path: Path) -> None:
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


def test_a_step_leads_to_what_another_thread_launches(tmp_path: Path) -> None:
    """Here the first event of all."""
    trace = trace_of(tmp_path, step(1, 0, 50) | {"tid": 10}, launch(20, 1), kernel(30, 10, 1))
    assert trace.name_of(0) == "cudaLaunchKernel"
    assert [link.role for link in launch_chain(trace, 1).links] == ["step", "launch", "kernel"]


@pytest.mark.parametrize(("streams", "others"), [((), True), ((7,), False), ((7, 8), True)])
def test_work_of_one_stream_waits_for_no_other(
    tmp_path: Path, streams: tuple[int, ...], others: bool
) -> None:
    """Without any device nothing is known of it."""
    work = [event for i in streams for event in run(100 * i, 10, i, stream=i)]
    assert waits_for_others(trace_of(tmp_path, step(1, 0, 50), *work)) is others


def test_a_chain_lists_the_longest(tmp_path: Path) -> None:
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


# Rules at their limits


@pytest.mark.parametrize(("alone", "fires"), [(99, False), (100, True)])
def test_a_tenth_of_communication_is_enough(tmp_path: Path, alone: float, fires: bool) -> None:
    events = [
        launch(100, 1),
        kernel(100, 900 - alone, 1),
        *run(950 - alone, 50 + alone, 2, TALK, stream=13),
        *run(1000, 100, 3),
    ]
    assert (found(trace_of(tmp_path, *events), "communication") is not None) == fires


@pytest.mark.parametrize(
    ("first", "other", "end", "fires"),
    [
        (100, 99, 400, True),
        (100, 101, 400, False),  # less than half of the work
        (100, 80, 600, True),  # the device is busy for 0.3 of its time
        (100, 80, 601, False),
    ],
)
def test_a_hotspot(tmp_path: Path, first: float, other: float, end: float, fires: bool) -> None:
    half = (other - 1) / 2
    events = [*run(100, first, 1, GEMM), *run(100 + first, half, 2, "k"), *run(99 + end, 1, 3, "last")]
    events += run(100 + first + half, half, 4, "l")
    assert (found(trace_of(tmp_path, *events), "hotspot") is not None) == fires


def test_stretches_before_the_first_op(tmp_path: Path) -> None:
    parts = [
        event
        for i, wait in enumerate((60, 90, 70))
        for event in (
            cpu(f"part {i}", 1000 * i, 500 - 100 * i, "user_annotation"),
            cpu("aten::mm", 1000 * i + wait, 10),
            *run(1000 * i + wait + 20, 5, i + 1),
        )
    ]
    finding = found(trace_of(tmp_path, *parts), "before_the_first_op")
    assert finding is not None
    assert finding.numbers == {"stretch_ns": 90_000, "total_ns": 220_000, "count": 3}
    assert finding.claims["name"] == "part 1"
    assert f"{finding.claims['share']:bare}" == "22%"
    waits = [p | {"name": "gloo:all_reduce"} if p["name"].startswith("part") else p for p in parts]
    assert found(trace_of(tmp_path, *waits), "before_the_first_op") is None


def test_data_loading_of_a_range(tmp_path: Path) -> None:
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    trace = trace_of(tmp_path, step(1, 0, 1000), cpu(name, 500, 40, "user_annotation"), *run(800, 100, 1))
    assert found(trace, "data_loading") is None  # 4 % of the step
    finding = found(trace, "data_loading", scope=range_scope(450_000, 1_250_000))
    assert finding is not None
    assert finding.numbers == {"loading_ns": 40_000, "share": 0.05}
    assert found(trace, "data_loading", scope=range_scope(450_000, 1_251_000)) is None


def test_spread_needs_three_steps_that_run_the_same(tmp_path: Path) -> None:
    def steps(*names: str) -> Trace:
        events = [
            event
            for i, name in enumerate(names)
            for event in (step(i, 1000 * i, 900), *run(1000 * i + 100, 100 + 100 * i, i + 1, name))
            if name or event["name"].startswith("ProfilerStep#")
        ]
        return trace_of(tmp_path, *events)

    assert found(steps("a", "a", "a"), "spread") is not None
    assert found(steps("a", "a", "a"), "spread", scope=range_scope(0, 5_000_000)) is None
    assert found(steps("b", "a", "a"), "spread") is None
    assert found(steps("b", "a", "a", "a"), "spread") is not None
    assert found(steps("", "a", "a", "a"), "spread") is not None  # the first runs none


def test_pageable_copies(tmp_path: Path) -> None:
    def copied(length: float) -> Finding | None:
        events = [launch(10, 1, name="cudaMemcpyAsync"), memcpy(20, length, 1, "HtoD (Pageable -> Device)")]
        return found(trace_of(tmp_path, *events, *run(4000, 20, 2)), "pageable_memory")

    assert copied(49.999) is None  # 50 us at least
    finding = copied(50)
    assert finding is not None
    assert finding.numbers["copy_ns"] == 50_000
    assert "1.00 GB/s" in finding.text


@pytest.mark.parametrize(
    ("lengths", "advice"), [((2, 2, 20), "Give the GPU more work"), ((2, 40, 40), "Look at what Python does")]
)
def test_the_advice_where_the_cpu_sets_the_pace(
    tmp_path: Path, lengths: tuple[float, ...], advice: str
) -> None:
    """Where most kernels are shorter than their launches, there is too little to launch."""
    events = [cpu("aten::mm", 500 * i + 80, 215) for i in range(2)]
    for i, length in enumerate(lengths):
        events += [launch(500 * i, i + 1, 30), kernel(500 * i + 35, length, i + 1)]
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert finding is not None
    assert finding.advice.startswith(advice)
    assert finding.numbers["short_launches"] == sum(length < 30 for length in lengths)


@pytest.mark.parametrize(("end", "fires"), [(1000, True), (1001, False)])
def test_a_stretch_before_the_first_op_is_a_twentieth_of_all(tmp_path: Path, end: float, fires: bool) -> None:
    events = [cpu("part", 0, 400, "user_annotation"), cpu("aten::mm", 50, 10), *run(300, 5, 1)]
    trace = trace_of(tmp_path, *events, cpu("aten::add", end - 10, 10))
    assert (found(trace, "before_the_first_op") is not None) == fires


def test_the_op_that_the_profiler_interrupts_may_be_the_first_of_all(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 100), cpu("Buffer Flush", 20, 10, "overhead") | {"tid": 99})
    op, flush = (next(i for i in range(len(trace)) if trace.name_of(i) == name) for name in
                 ("aten::mm", "Buffer Flush"))  # fmt: skip
    assert op == 0
    told = _what_it_interrupts(Part(trace), np.array([flush]), 0, 100_000)
    assert told[:2] == (flush, "aten::mm")


@pytest.mark.parametrize(("wait", "fires"), [(50, True), (49.999, False)])
def test_the_shortest_stretch_before_the_first_op(tmp_path: Path, wait: float, fires: bool) -> None:
    events = [
        cpu("part", 0, 400, "user_annotation"),
        cpu("aten::mm", wait, 10),
        *run(300, 5, 1),
        *run(390, 5, 2),
    ]
    assert (found(trace_of(tmp_path, *events), "before_the_first_op") is not None) == fires


def test_calls_that_wait_without_a_device_cost_it_nothing(tmp_path: Path) -> None:
    wait = launch(10, 1, 5000, "cudaStreamSynchronize")
    finding = found(trace_of(tmp_path, cpu("aten::item", 0, 6000), wait), "blocking_calls")
    assert finding is not None
    assert (finding.numbers["wait_ns"], finding.numbers["idle_ns"]) == (5_000_000, 0)
