"""Files that a tool has merged from those of several ranks: labels, devices, and ids that several use."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, step, trace_of

from tracetui.analysis.device_text import device_text
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import find_steps
from tracetui.rules import find_findings
from tracetui.trace import Trace
from tracetui.trace.build import _flow_ids
from tracetui.trace.lanes import _device_indices
from tracetui.views.gaps_text import gap_report, gaps_json, headline
from tracetui.views.summary import summary_answer

FORWARD = {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 3}


def of_rank(number: int, late: float = 0) -> list[Event]:
    """A process with its device, as Kineto writes them: ids begin anew in each process."""
    return [
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}},
        {"ph": "M", "name": "process_labels", "pid": 1, "tid": 0, "args": {"labels": "GPU 1"}},
        step(7, late, 100), cpu("aten::mm", late + 5, 20, **{"External id": 4}), launch(late + 10, 1),
        kernel(late + 30, 40 + number, 1, pid=number, args={"correlation": 1, "External id": 4}),
        FORWARD | {"ph": "s", "pid": 9, "tid": 9, "ts": late + 6}, cpu("MmBackward0", late + 60, 10),
        FORWARD | {"ph": "f", "bp": "e", "pid": 9, "tid": 9, "ts": late + 61}
    ]  # fmt: skip


def merged(tmp_path: Path, *ranks: tuple[str, list[Event]]) -> Trace:
    """As SGLang merges: the label before each pid, whatever its type, and no other change."""
    events = [event | {"pid": f"{label} {event['pid']}"} for label, events in ranks for event in events]
    devices = [{"id": n, "name": f"GPU type {n}"} for n in (0, 1)] * len(ranks)
    return trace_of(tmp_path, *events, deviceProperties=devices)


def two(tmp_path: Path) -> Trace:
    # The second launches between the first one's launch and kernel: only the labels keep them apart.
    return merged(tmp_path, ("[TP00]", of_rank(0)), ("[TP01]", of_rank(1, late=15)))


def test_labels_of_lanes_processes_and_devices(tmp_path):
    trace = two(tmp_path)
    assert [(lane.name, lane.device) for lane in trace.lanes] == [
        ("[TP00] thread 9", -1), ("[TP01] thread 9", -1), ("[TP00] stream 7", 0), ("[TP01] stream 7", 1)
    ]  # fmt: skip
    assert [(p.pid, p.rank, p.device) for p in trace.processes] == [
        ("[TP00] 9", "TP00", -1), ("[TP01] 9", "TP01", -1), ("[TP00] 0", "TP00", 0), ("[TP01] 1", "TP01", 1)
    ]  # fmt: skip


def test_ids_hold_within_a_rank(tmp_path):
    trace = two(tmp_path)
    rank = np.array([trace.processes[lane.process].rank for lane in trace.lanes])[trace.lane]
    kernels = np.flatnonzero(trace.launch >= 0)
    assert len(kernels) == 2
    assert rank[kernels].tolist() == rank[trace.launch[kernels]].tolist() == ["TP00", "TP01"]
    assert rank[trace.op[kernels]].tolist() == ["TP00", "TP01"]
    flows = [(str(rank[a]), str(rank[b])) for a, b in zip(trace.flow_from, trace.flow_to, strict=True)]
    assert sorted(flows) == [("TP00", "TP00"), ("TP01", "TP01")]


def joined(*ranks: list[Event]) -> list[Event]:
    """The files one after the other, and no word on it: only the processes' and the devices' pids differ."""
    return [
        event | {"pid": 100 + n if event["pid"] == 9 else n}
        for n, events in enumerate(ranks)
        for event in events
    ]


@pytest.mark.parametrize("late", [2000, 15, 0, -15, -2000])
def test_ids_of_a_file_that_does_not_say_it_was_merged(tmp_path, late):
    ranks = []
    for n, offset in ((0, 0.0), (1, late)):
        events = []
        for i in range(20):
            at = 5000 + 100 * i + offset
            ids = {"correlation": i, "External id": 50 + i}
            events += [cpu("aten::mm", at, 20, **{"External id": 50 + i}), launch(at + 5, i)]
            events.append(kernel(at + 12, 40, i, pid=n, args=ids))
        ranks.append(events[2 * n :])  # of the second the first launch is not recorded
    trace = trace_of(tmp_path, *joined(*ranks))
    process = np.array([lane.process for lane in trace.lanes])[trace.lane]
    device = np.array([lane.device for lane in trace.lanes])[trace.lane]
    kernels = np.flatnonzero(trace.launch >= 0)
    assert len(kernels) == 39
    for linked in (trace.launch, trace.op):
        pids = [trace.processes[process[i]].pid for i in linked[kernels]]
        assert pids == [str(100 + n) for n in device[kernels]]


def test_data_loading_of_several_ranks_is_told_of_each(tmp_path):
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    ranks = [
        [step(1, 0, 1000), cpu(loader, 10, 80, "user_annotation"), launch(100, 1), kernel(110, 800, 1)]
        for _ in range(4)
    ]
    (finding,) = [
        one for one in find_findings(Part(trace_of(tmp_path, *joined(*ranks)))) if one.rule == "data_loading"
    ]
    assert f"{finding.claims['share']}" == "8.0% of the step"


def test_shown_and_in_json(tmp_path):
    results = Part(two(tmp_path))
    lines = [headline(report) for report in gap_report(results)]
    assert [line.split(":")[0] for line in lines] == [
        "[TP00] GPU 0 (GPU type 0)", "[TP01] GPU 1 (GPU type 1)"
    ]  # fmt: skip
    assert [d["rank"] for d in gaps_json(results)["devices"]] == ["TP00", "TP01"]
    devices: list[dict[str, Any]] = summary_answer(results).data()["device_list"]
    assert [(d["device"], d["rank"]) for d in devices] == [(0, "TP00"), (1, "TP01")]
    assert device_text(results, gaps_of(results).devices[1]) == "GPU 1 of TP01"


def test_the_steps_of_one_rank(tmp_path):
    """The one that launched most: steps of several ranks overlap, and their windows would cut each other."""
    steps = find_steps(two(tmp_path))
    assert (steps.source, steps.number.tolist(), steps.start.tolist()) == (
        "ProfilerStep of TP01", [7], [15_000]
    )  # fmt: skip


def test_devices_with_the_same_number(tmp_path):
    """Each rank sees only its own device, as number 0."""
    trace = merged(tmp_path, *reversed([(f"[DP00-TP{n:02d}]", of_rank(0)) for n in range(12)]))
    devices = [(p.rank, p.device) for p in trace.processes if p.device >= 0]
    assert devices == [(f"DP00-TP{n:02d}", n) for n in range(12)]
    assert gap_report(Part(trace))[11].name == "GPU type 0"


@pytest.mark.parametrize(("pid", "name", "rank"), [
    ("[TP00-DP01-PP02-EP03] 12", "python", "TP00-DP01-PP02-EP03"), ("rank 3", "python", "rank 3"),
    ("Rank_3/812", "python", "Rank_3"), (812, "Rank 3: python", "Rank 3"), (812, "[rank3] python", "rank3"),
    (812, "python", ""), ("ranking", "frank 3", "")
])  # fmt: skip
def test_wordings(tmp_path, pid, name, rank):
    named = {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    trace = trace_of(tmp_path, named, cpu("aten::mm", 0, 1) | {"pid": pid})
    assert trace.processes[0].rank == rank
    assert trace.lanes[0].name == (f"[{rank}] thread 9" if rank else "thread 9")


def test_a_label_is_text_of_strangers(tmp_path):
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 1) | {"pid": "[TP\x1b]0;x\x0700] 3"})
    assert not set("\x1b\x07") & set(trace.processes[0].rank + trace.lanes[0].name)


def test_a_file_of_one_rank_stays_as_it_is(tmp_path):
    trace = trace_of(tmp_path, *of_rank(1))
    assert {p.rank for p in trace.processes} == {""}
    assert {lane.device for lane in trace.lanes} == {-1, 1}
    assert find_steps(trace).source == "ProfilerStep"


def test_flows_of_several_ranks_never_share_an_id(tmp_path):
    """Flow 1 of the first rank, flow 0 of the second: no sum of both numbers tells them apart."""
    plan = SimpleNamespace(rank_of_lane=np.array([0, 1, 2], dtype=np.int32))
    flow, lanes = np.repeat(np.array([40, 41, 42]), 3), np.tile(np.array([0, 1, 2], dtype=np.int32), 3)
    assert len(set(_flow_ids(flow, plan, lanes).tolist())) == 9  # type: ignore[arg-type]


def test_devices_of_ranks_keep_their_numbers_unless_two_claim_one():
    assert _device_indices({"a 3": ("a", "3"), "b 5": ("b", "5")}) == {"a 3": 3, "b 5": 5}
    assert _device_indices({"a 3": ("a", "3"), "b 3": ("b", "3")}) == {"a 3": 0, "b 3": 1}
