"""Kernels of CUDA graphs: by module, where they are annotated, and by their place in the graph."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import SAMPLES
from tests.kineto import Event, cpu, kernel, launch, trace_of
from tests.recorded import load

from tracetui.analysis.calls.averages import averages
from tracetui.analysis.calls.chain import launch_chain
from tracetui.analysis.calls.flow import place_of
from tracetui.analysis.calls.graphs import TITLE, is_annotated, module_of, with_module_lanes
from tracetui.analysis.calls.launches import find_launches
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import range_scope
from tracetui.rules import find_findings
from tracetui.timeline.track_layout import Of, lay_out
from tracetui.trace import Kind, Trace
from tracetui.tui.panes.details import args_of
from tracetui.views.averages import averages_json
from tracetui.views.event import event_facts
from tracetui.views.explain import explain

WQ = {"module_kind": "attention", "module_fqn": "layers.0.attention.wq"}
WO = {"module_kind": "attention", "module_fqn": "layers.0.attention.wo"}
FFN = {"module_kind": "ffn", "module_fqn": "layers.0.feed_forward"}


def node(
    start: float, duration: float, correlation: int, number: int, note: dict[str, Any], tid: int = 7
) -> Event:
    """A kernel of a graph's replay, as `torch.profiler._chrome_trace_export` of PyTorch 2.15 writes it: what
    Kineto says of it, then the annotation, its values as text. With `graph_lanes="all"` it is moved to the
    annotated stream, and `original_stream` says where it ran.
    """
    args: dict[str, Any] = {
        "External id": 4, "queued": 0, "device": 0, "context": 1, "stream": tid, "correlation": correlation,
        "registers per thread": 32, "shared memory": 0, "blocks per SM": 1.0, "warps per SM": 4.0,
        "grid": [132, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %": 6, "graph id": 3,
        "graph node id": (3 << 32) + number,
    }  # fmt: skip
    moved = {"original_stream": 13} if tid != 13 else {}
    event = {"ph": "X", "cat": "kernel", "name": f"k{number}", "pid": 0, "tid": tid, "ts": start}
    return event | {"dur": duration, "args": args | note | moved}


def replay(start: float, correlation: int) -> list[Event]:
    """A graph of six nodes, launched at `start`."""
    return [
        launch(start, correlation, 9, "cudaGraphLaunch")
        | {"args": {"External id": 4, "correlation": correlation}},
        node(start + 20, 10, correlation, 1, WQ), node(start + 31, 9, correlation, 2, WQ),
        node(start + 40, 5, correlation, 3, WO), node(start + 50, 30, correlation, 4, FFN, tid=8),
        node(start + 81, 4, correlation, 5, FFN | {"autograd_phase": "backward"}),
        node(start + 90, 2, correlation, 6, {})
    ]  # fmt: skip


def annotated(tmp_path: Path) -> Trace:
    names = [{"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}}, {
        "ph": "M", "name": "thread_name", "pid": 0, "tid": 8, "args": {"name": "tensor parallel"}
    }]  # fmt: skip
    step = cpu("replay", 0, 500, **{"External id": 4})
    return trace_of(tmp_path, *names, step, *replay(10, 30), *replay(210, 31), cudaGraphInlineAnnotated=True)


def test_averages_by_module(tmp_path):
    trace = annotated(tmp_path)
    table = averages(trace, group="module")
    time = {
        (table.names[i], table.groups[i]): (int(table.calls[i]), int(table.self_device[i]))
        for i in np.flatnonzero(table.device).tolist()
    }
    assert time == {
        ("k1", "layers.0.attention.wq"): (2, 20_000), ("k2", "layers.0.attention.wq"): (2, 18_000),
        ("k3", "layers.0.attention.wo"): (2, 10_000), ("k4", "layers.0.feed_forward"): (2, 60_000),
        ("k5", "layers.0.feed_forward (backward)"): (2, 8_000), ("k6", ""): (2, 4_000)
    }  # fmt: skip
    assert table.total_self_device == averages(trace).total_self_device == 120_000
    rows = averages_json(table, range(len(table)))
    assert {row["group"] for row in rows} == {"", *(group for _, group in time)}


@pytest.mark.parametrize("name", ["mlp_cuda_graph", "train", "mlp_eager"])
def test_a_trace_without_annotations_has_the_rows_that_it_has_without_grouping(name):
    trace = load(SAMPLES / f"{name}.json.gz")
    plain, grouped = averages(trace), averages(trace, group="module")
    assert set(grouped.groups) == {""}
    assert [replace(row) for row in grouped.rows()] == plain.rows()
    assert with_module_lanes(trace) is trace


def test_without_annotations_a_modules_python_frame_tells_it(tmp_path):
    frame = cpu("nn.Module: Linear_0", 0, 100, "python_function")
    plain = cpu("linear.py(9): forward", 5, 90, "python_function")  # nearer, but no module
    op = cpu("aten::mm", 10, 50, **{"External id": 1})
    gemm = node(80, 10, 5, 1, {})
    lone = cpu("aten::add", 200, 5)
    table = averages(trace_of(tmp_path, frame, plain, op, launch(20, 5), gemm, lone), group="module")
    assert dict(zip(table.names, table.groups, strict=True)) == {
        "aten::mm": "Linear_0", "cudaLaunchKernel": "Linear_0", "k1": "Linear_0", "aten::add": "",
    }  # fmt: skip


@pytest.mark.parametrize(("args", "module"), [
    ({"graph node id": 5} | FFN, "layers.0.feed_forward"),
    ({"graph node id": 5, "name": "phase_A"}, "phase_A"),  # mark_kernels("phase_A")
    ({"graph node id": 5, "str": "phase_A"}, "phase_A"),  # of files from before 2.13
    ({"graph node id": 0, "name": "phase_A"}, ""),  # of no graph: it has another meaning
    ({"graph node id": 5, "name": ["phase_A"]}, ""),
    ({"graph node id": 5, "module_fqn": 3, "name": "a"}, "a"),
    ({"graph node id": 5, "name": "\x1b[31mred"}, "␛[31mred"),
    ({"graph node id": 5, "name": "x" * 9999}, "x" * 299 + "…"),
    ({}, ""),
])  # fmt: skip
def test_what_an_annotation_says(args, module):
    assert module_of(args) == module


def test_modules_have_a_lane_and_lie_in_one_another(tmp_path):
    trace = with_module_lanes(annotated(tmp_path))
    lane = next(lane for lane in trace.lanes if lane.name == TITLE)
    assert (lane.device, lane.rows) == (0, 4)
    layout = lay_out([trace], 50)
    shown = [trace.lanes[i].name for i in layout.ref[layout.of == Of.LANE].tolist()]
    assert shown == ["thread 9", TITLE, "stream 7", "stream 8 (tensor parallel)"]
    first = [i for i in range(lane.first, lane.last) if trace.start[i] < 200_000]
    assert [
        (trace.name_of(i), int(trace.depth[i]), int(trace.start[i]), int(trace.duration[i])) for i in first
    ] == [
        ("layers", 0, 30_000, 65_000),
        ("layers.0", 1, 30_000, 65_000),
        ("layers.0.attention", 2, 30_000, 25_000),
        ("layers.0.attention.wq", 3, 30_000, 20_000),
        ("layers.0.attention.wo", 3, 50_000, 5_000),
        ("layers.0.feed_forward", 2, 60_000, 30_000),
        ("layers.0.feed_forward (backward)", 2, 91_000, 4_000),
    ]
    assert lane.last - lane.first == 2 * len(first)
    assert args_of(trace, first[0]).keys() == {"made by"}
    assert {(int(trace.op[i]), int(trace.launch[i]), int(trace.source[i])) for i in first} == {(-1, -1, -1)}


def test_modules_have_a_lane_where_no_launch_was_recorded(tmp_path):
    """As with ProfilerActivity.CUDA alone, or where the recording began after the launch."""
    events = [e for e in replay(10, 30) if e["cat"] == "kernel"]
    trace = with_module_lanes(trace_of(tmp_path, *events, cudaGraphInlineAnnotated=True))
    assert TITLE in [lane.name for lane in trace.lanes]


def test_a_module_alone_in_each_replay(tmp_path):
    """What follows in the next replay, or on another device, is another call of it."""
    events = [
        e for n in range(3)
        for e in (launch(100 * n, 30 + n, 9, "cudaGraphLaunch"), node(100 * n + 20, 10, 30 + n, 1, WQ))
    ]  # fmt: skip
    away = node(320, 10, 32, 1, WQ)
    away |= {"pid": 1, "args": away["args"] | {"device": 1}}
    trace = with_module_lanes(trace_of(tmp_path, *events, away, cudaGraphInlineAnnotated=True))
    starts = [
        (lane.device, [int(trace.start[i]) for i in range(lane.first, lane.last) if not trace.depth[i]])
        for lane in trace.lanes if lane.name == TITLE
    ]  # fmt: skip
    assert starts == [(0, [20_000, 120_000, 220_000]), (1, [320_000])]


def test_a_lane_of_modules_changes_nothing_else(tmp_path):
    before = annotated(tmp_path)
    trace = with_module_lanes(before)
    columns = "start duration name category kind lane depth parent correlation external_id launch op source"
    for column in columns.split():
        assert getattr(trace, column)[: len(before)].tolist() == getattr(before, column).tolist(), column
    assert trace.lanes[: len(before.lanes)] == before.lanes
    assert averages(trace).rows() == averages(before).rows()
    assert gaps_of(Part(trace)).duration.tolist() == gaps_of(Part(before)).duration.tolist()
    assert int(np.count_nonzero(trace.kind == Kind.OTHER)) == len(trace) - len(before)


def test_the_finding_on_graphs_knows_whether_they_are_annotated(tmp_path):
    by_module = "the averages by module split its time"
    found = {finding.rule: finding for finding in find_findings(Part(annotated(tmp_path)))}
    assert by_module in found["cuda_graphs"].advice
    sample = find_findings(Part(load(SAMPLES / "mlp_cuda_graph.json.gz")))
    advice = next(finding.advice for finding in sample if finding.rule == "cuda_graphs")
    assert by_module not in advice
    assert "Per-op tables cannot split a graph's time" in advice


def test_idle_time_between_two_nodes_is_no_launch(tmp_path):
    trace = annotated(tmp_path)
    at = {trace.name_of(i): i for i in reversed(range(len(trace)))}
    said = " ".join(explain(trace, at["k2"]).why)
    assert "The GPU was idle for 1.00 µs between the previous node and this one." in said
    assert "on its way" not in said
    assert "between the node" not in " ".join(explain(trace, at["k1"]).why)


def test_the_delay_of_a_graph_is_that_of_its_first_node(tmp_path):
    trace = annotated(tmp_path)
    launches = find_launches(trace)
    assert launches.delay[launches.first].tolist() == [20_000] * 2
    assert launches.median_delay == 20_000
    # A part of the trace that the first node lies outside of.
    some = find_launches(trace, range_scope(55_000, 100_000))
    assert (some.first.any(), some.median_delay, some.cost.tolist()) == (False, None, [1_500] * 2)
    at = {trace.name_of(i): i for i in reversed(range(len(trace)))}
    assert place_of(trace, at["k4"]) == (4, 6, at["k1"])
    assert place_of(trace, at["replay"]) is None
    facts = {fact.label: fact.value for fact in event_facts(trace, at["k1"], trace.args(at["k1"]))}
    assert facts["launch"] == "cudaGraphLaunch, 20.000 µs before this start, the first of its 6 events"
    assert facts["module"] == "layers.0.attention.wq"
    facts = event_facts(trace, at["k4"], {})
    said = next(n for n, fact in enumerate(facts) if fact.label == "launch")
    assert facts[said].value == "cudaGraphLaunch, 20.000 µs before the first of its 6 events"
    assert facts[said + 1] == ("", "this is number 4, 30.000 µs after the first", at["k1"])
    link = launch_chain(trace, at["k4"]).links[-1]
    assert (link.delay, link.after_first) == (30_000, True)


def test_a_few_annotated_kernels_are_enough(tmp_path):
    """Four places are looked at."""
    for annotated in (0, 75, 150, 225):
        events = [kernel(10 * n, 5, n) for n in range(300)]
        events[annotated]["args"]["module_fqn"] = "model.layers.0"
        assert is_annotated(trace_of(tmp_path, *events), np.arange(300))
    assert not is_annotated(trace_of(tmp_path, *[kernel(10 * n, 5, n) for n in range(300)]), np.arange(300))
