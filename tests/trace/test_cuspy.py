"""What Cuspy (PyTorch 2.15) writes otherwise than Kineto, and ids that are not those of ops."""

import gzip
import json
import random
from typing import Any

import numpy as np
import pytest
from tests.formats.alike import WAYS, made
from tests.kineto import Event, cpu, kernel, launch, notices, trace_of
from tests.kineto import named as places_by_name
from tests.recorded import ROOT, load

from tracetui.analysis.calls.averages import averages
from tracetui.analysis.calls.flow import device_events
from tracetui.analysis.devices import work_of_devices
from tracetui.analysis.idle.stream_waits import waits_of
from tracetui.analysis.steps.scope import launch_times
from tracetui.formats.store import Tables
from tracetui.formats.transfers import full_name
from tracetui.timeline.series import counters
from tracetui.trace import Trace
from tracetui.trace.callers import _within
from tracetui.trace.model import GRAPH_DEPENDENCY, NO_ID, Kind
from tracetui.trace.transfers import name_transfers

HANDLE = 185_317_056
"""The number of a thread that is none of its own."""


def on(tid: int, *events: Event) -> list[Event]:
    return [event | {"tid": tid} for event in events]


def named(tid: int, name: str, pid: int = 9) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "ts": 0, "args": {"name": name}}


def backward(tid: int, handle: int, first: int = 100, count: int = 5) -> list[Event]:
    """Ops of a thread, and in each a launch whose tid is the handle of the thread."""
    ops = [cpu(f"op{n}", first + 20 * n, 15, **{"External id": tid * 100 + n}) for n in range(count)]
    calls = [launch(first + 20 * n + 3, tid * 100 + n) for n in range(count)]
    work = [kernel(first + 20 * n + 10, 2, tid * 100 + n) for n in range(count)]
    return [*on(tid, *ops), *on(handle, *calls), *work]


def kernels(device: int) -> list[Event]:
    label = {"ph": "M", "name": "process_labels", "pid": device, "tid": 0, "ts": 0}
    return [label | {"args": {"labels": f"GPU {device}"}}, kernel(5, 2, device, pid=device)]


def lanes(trace: Trace) -> list[str]:
    return [lane.name for lane in trace.lanes if lane.kind == "thread"]


def test_calls_belong_to_the_thread_whose_ops_contain_them(tmp_path):
    main = [cpu("forward", 0, 50, **{"External id": 1}), launch(10, 1), kernel(20, 3, 1)]
    trace = trace_of(
        tmp_path,
        *main,
        named(9, "thread 9 (python3)"),
        named(9, "thread 9"),  # Cuspy says it a second time
        named(12, "thread 12 (pt_autograd_0)"),
        named(HANDLE, f"thread {HANDLE}"),
        *backward(12, HANDLE),
        *on(HANDLE, launch(195, 77, name="cudaEventQuery")),  # between its ops
    )
    assert lanes(trace) == ["thread 9 (python3)", "thread 12 (pt_autograd_0)"]
    assert not trace.notices
    where = places_by_name(trace)
    for n in range(5):
        (call,) = (i for i in range(len(trace)) if trace.correlation[i] == 1200 + n and trace.kind[i] == 4)
        work = where[f"k{1200 + n}"]
        assert trace.parent[call] == trace.op[call] == trace.op[work] == where[f"op{n}"]
        assert trace.launch[work] == call
        assert trace.external_id[call] == trace.external_id[work] == 1200 + n
    query = where["cudaEventQuery"]
    assert trace.lane[query] == trace.lane[where["op0"]]
    assert trace.parent[query] == trace.op[query] == -1
    rows = {row.name: row for row in averages(trace).rows()}
    assert [rows[f"op{n}"].self_device for n in range(5)] == [2000] * 5


@pytest.mark.parametrize(("events", "moved"), [
    (backward(12, HANDLE), 5),
    ([*backward(12, HANDLE), named(HANDLE, "thread -9 (pt_nccl_watchdg)")], 0),  # it has a name
    ([*backward(12, HANDLE), named(HANDLE, "thread -2002909504")], 5),  # the number keeps its sign
    ([*backward(12, HANDLE), *on(HANDLE, cpu("its own op", 0, 5))], 0),
    ([*backward(12, HANDLE), *on(12, launch(105, 78))], 0),  # CUPTI knows that thread
    ([event | {"pid": 8} if event["tid"] == HANDLE else event for event in backward(12, HANDLE)], 0),
    ([*backward(12, HANDLE), *on(HANDLE, *(launch(300 + n, 80 + n) for n in range(4)))], 5),
    ([*backward(12, HANDLE), *on(HANDLE, *(launch(300 + n, 80 + n) for n in range(6)))], 0),
    ([*backward(12, HANDLE), *on(HANDLE, launch(110, 80, 20))], 0),  # from one op into the next
    ([*backward(12, HANDLE), *backward(13, HANDLE + 1, 111)], 10),  # both at once, not quite in step
    ([*backward(12, HANDLE), *on(HANDLE + 1, launch(104, 90, 1), launch(124, 91, 1))], 5),  # a watchdog
])  # fmt: skip
def test_which_calls_change_their_lane(tmp_path, events, moved):
    trace = trace_of(tmp_path, cpu("forward", 0, 10), *events)
    threads = {int(trace.lane[i]) for i in range(len(trace)) if trace.kind[i] == Kind.CPU_OP}
    calls = [i for i in range(len(trace)) if 1200 <= trace.correlation[i] < 1400 and trace.kind[i] == 4]
    assert sum(int(trace.lane[i]) in threads and trace.parent[i] >= 0 for i in calls) == moved


def test_calls_that_two_threads_may_have_made_stay_and_it_is_said(tmp_path):
    two = trace_of(tmp_path, *backward(12, HANDLE), *on(13, cpu("all along", 90, 200)))
    assert notices(two) == {"whose_calls": 5}
    assert len(lanes(two)) == 3
    alike = trace_of(
        tmp_path, *backward(12, HANDLE), *on(HANDLE + 1, *(launch(104 + 20 * n, n) for n in range(5)))
    )
    assert notices(alike) == {"whose_calls": 10}
    watchdog = trace_of(tmp_path, *backward(12, HANDLE), *on(HANDLE + 1, launch(104, 90, 1)))
    assert notices(watchdog) == {"whose_calls": 1}
    assert len(lanes(watchdog)) == 2


def test_what_is_inside_an_op_and_what_crosses_one():
    rng = random.Random(5)
    for _ in range(300):
        ops = sorted((a, a + rng.randrange(8)) for a in rng.choices(range(30), k=rng.randrange(1, 6)))
        calls = sorted((a, a + rng.randrange(4)) for a in rng.choices(range(30), k=5))
        crossing = [any(a < border < b for op in ops for border in op) for a, b in calls]
        inside = [
            not crosses and any(x <= a and b <= y for x, y in ops)
            for (a, b), crosses in zip(calls, crossing, strict=True)
        ]
        given = [np.array(one, np.int64) for pair in (calls, ops) for one in zip(*pair, strict=True)]
        assert _within(*given) == (sum(inside), sum(crossing))


def op(name: str, start: float, duration: float, number: int, tid: int = 9) -> Event:
    return cpu(name, start, duration, **{"External id": number}) | {"tid": tid}


def call(start: float, correlation: int, number: int | None = None, tid: int = 9) -> Event:
    event = launch(start, correlation) | {"tid": tid}
    if number is not None:
        event["args"] = event["args"] | {"External id": number}
    return event


def work(start: float, correlation: int, number: int | None = None) -> Event:
    args = {"correlation": correlation} | ({"External id": number} if number is not None else {})
    return kernel(start, 3, correlation, args=args)


def ops_of(trace: Trace) -> dict[int, tuple[str, str]]:
    """The op of each call and of its work, by correlation."""
    found: dict[int, list[str]] = {}
    for kind in (Kind.RUNTIME, Kind.KERNEL):
        for i in np.flatnonzero(trace.kind == kind).tolist():
            name = trace.name_of(int(trace.op[i])) if trace.op[i] >= 0 else "-"
            found.setdefault(int(trace.correlation[i]), []).append(name)
            assert trace.external_id[i] == (trace.external_id[trace.op[i]] if trace.op[i] >= 0 else NO_ID)
    return {key: (one, other) for key, (one, other) in found.items()}


def test_ids_that_are_the_correlation_are_no_ops(tmp_path):
    """As PyTorch wrote them from 2022 to 2023: `aten::empty` has the id that the convolution's launch has."""
    trace = trace_of(
        tmp_path,
        op("aten::conv", 0, 100, 1),
        op("aten::cudnn_conv", 10, 50, 2),
        op("aten::empty", 20, 5, 3),
        op("aten::add", 200, 50, 4),
        *(
            event
            for n, start in ((3, 30), (4, 70), (900, 210))
            for event in (call(start, n, n), work(300 + n, n, n))
        ),
        call(260, 2, 2),  # in no op
        work(280, 2, 2),
    )
    assert ops_of(trace) == {
        3: ("aten::cudnn_conv",) * 2, 4: ("aten::conv",) * 2, 900: ("aten::add",) * 2, 2: ("-", "-"),
    }  # fmt: skip
    assert notices(trace) == {"foreign_ids": 3}
    rows = {row.name: row for row in averages(trace).rows()}
    assert rows["aten::empty"].device_total == 0
    assert rows["aten::conv"].device_total == 6000


def test_an_op_that_contains_its_launch_is_the_one_that_the_id_names(tmp_path):
    trace = trace_of(
        tmp_path,
        op("outer", 0, 100, 1),
        op("inner", 10, 50, 2),
        op("elsewhere", 0, 100, 3, tid=8),
        op("ended", 105, 5, 4),
        op("later", 200, 5, 5),
        op("note", 300, 50, 6) | {"cat": "user_annotation"},
        op("in the note", 290, 100, 7),
        call(20, 1, 2), work(400, 1, 2),
        call(30, 2, 1), work(410, 2, 1),  # of the one around it
        call(40, 3, 3), work(420, 3, 3),  # of another thread's
        call(50, 4, 4), work(430, 4, 4),  # of one that comes later: that around it
        call(120, 5, 4), work(440, 5, 4),  # in none, but it began before
        call(130, 6, 5), work(450, 6, 5),  # in none, and it begins later
        call(70, 7), work(460, 7),  # no id
        call(80, 8), work(470, 8, 1),  # its work has one
        call(90, 9, 99), work(480, 9, 99),  # of an op that is not in the file
    )  # fmt: skip
    assert ops_of(trace) == {
        1: ("inner",) * 2, 2: ("outer",) * 2, 3: ("elsewhere",) * 2, 4: ("inner",) * 2, 5: ("ended",) * 2,
        6: ("-",) * 2, 7: ("outer",) * 2, 8: ("outer",) * 2, 9: ("outer",) * 2,
    }  # fmt: skip
    assert notices(trace) == {"other_op": 1}


def test_the_id_of_an_annotation_stays(tmp_path):
    trace = trace_of(
        tmp_path, op("aten::mm", 0, 100, 1), op("note", 10, 50, 2) | {"cat": "user_annotation"},
        call(20, 5, 2), work(200, 5, 2)
    )  # fmt: skip
    rows = {row.name: row for row in averages(trace).rows()}
    assert rows["note"].self_device == 3000
    assert rows["aten::mm"].self_device == 0
    assert not trace.notices


def copied(way: Any, source: Any, target: Any) -> dict[str, Any]:
    return {"copy kind": way, "src kind": source, "dst kind": target}


@pytest.mark.parametrize(("name", "args", "full"), [
    ("Memcpy", copied("HtoD", "pinned", "device"), "HtoD (Pinned -> Device)"),
    ("Memcpy", copied("DtoH", "device", "pageable"), "DtoH (Device -> Pageable)"),
    ("Memcpy", copied(8, 3, "5"), "DtoD (Device -> Managed)"),
    ("Memcpy", copied("PtoP", "device_static", 3), "PtoP (Device Static -> Device)"),
    ("Memcpy", {"copy kind": "HtoD", "src kind": "pinned"}, ""),
    ("Memcpy", copied(99, 1, 1), ""),
    ("Memcpy", copied("\x1b[31m", "pinned", "device"), ""),
    ("Memcpy", copied(["HtoD"], "pinned", "device"), ""),
    ("Memcpy", [], ""),
    ("Memset", {"memory kind": 3}, "(Device)"),
    ("Memset", {"memory kind": "0"}, "(Unknown)"),
    ("Memset", {"memory kind": -1}, ""),
    ("Memset", {}, ""),
])  # fmt: skip
def test_the_names_of_copies_and_memsets(tmp_path, name, args, full):
    expected = f"{name} {full}".strip()
    assert full_name(name, args) == expected
    kind = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}[name]
    events = [kernel(5, 2, 1, name=name, cat=kind, args=args), cpu(name, 0, 1), kernel(9, 2, 2, name=name)]
    trace = trace_of(tmp_path, *events)
    assert sorted(trace.name_of(i) for i in range(3)) == sorted([expected, name, name])


def test_waits_without_a_stream_have_a_lane_of_their_own(tmp_path):
    def wait(tid: int, start: float, correlation: int) -> Event:
        args = {"stream": -1, "wait_on_stream": -1, "correlation": correlation}
        return kernel(start, 1, correlation, tid, "Stream Wait Event", cat="cuda_sync", args=args)

    events = [
        launch(0, 1), kernel(5, 9, 1, stream=1), launch(6, 2), launch(8, 3), kernel(20, 5, 3, stream=2),
        named(1, "stream -1 ", 0), wait(1, 7, 2),
    ]  # fmt: skip
    trace = trace_of(tmp_path, *events)
    device = [lane.name for lane in trace.lanes if lane.device == 0]
    assert device == ["stream 1", "stream 2", "sync, no stream"]
    (waits,) = waits_of(trace, np.array([places_by_name(trace)["k3"]]))
    assert not len(waits)  # -1 is not stream 1
    perfetto = trace_of(tmp_path, kernel(5, 9, 1), wait(2147483647, 7, 2))
    assert [lane.name for lane in perfetto.lanes] == ["stream 7", "sync, no stream"]


def test_the_mark_of_an_event_in_a_graph_is_no_work(tmp_path):
    replay = launch(0, 1, name="cudaGraphLaunch")
    mark = kernel(11, 0.001, 1, name="EventRecord", cat="graph_event_node")
    trace = trace_of(tmp_path, replay, kernel(5, 2, 1, name="a"), mark, kernel(20, 2, 1, name="b"))
    where = places_by_name(trace)
    assert trace.lanes[int(trace.lane[where["EventRecord"]])].name == "stream 7"
    assert work_of_devices(trace)[0].tolist() == [where["a"], where["b"]]
    assert device_events(trace, where["cudaGraphLaunch"]) == [where["a"], where["b"]]
    assert "EventRecord" not in averages(trace).names


def flow(phase: str, number: int | str, event: Event, **more: Any) -> Event:
    return (
        {"ph": phase, "cat": "ac2g", "name": "ac2g", "id": number, "bp": "e"}
        | {key: event[key] for key in ("pid", "tid", "ts")} | more
    )  # fmt: skip


def test_dependencies_in_a_graph_are_flows_between_its_nodes(tmp_path):
    """Read alike by the scanner in C and by Python; a launch's flow is none of them, whatever its id."""
    replay = launch(0, 1, name="cudaGraphLaunch")
    a, b, c = (
        kernel(at, 2, 1, stream, name) for at, stream, name in ((5, 7, "a"), (8, 8, "b"), (12, 7, "c"))
    )
    first = 1 << 40
    events = [
        replay, a, b, c, flow("s", 1, replay), flow("f", 1, a),
        flow("s", first, a), flow("f", first, b), flow("s", first + 1, b), flow("f", first + 1, c),
        flow("s", first - 1, a), flow("f", first - 1, c),
        flow("s", first + 2, replay), flow("f", first + 2, c),
        flow("s", str(first + 3), a), flow("f", str(first + 3), c),
    ]  # fmt: skip
    trace = trace_of(tmp_path, *events)
    found = [
        (trace.name_of(int(i)), trace.name_of(int(j)), trace.flow_kind[int(kind)])
        for i, j, kind in zip(trace.flow_from, trace.flow_to, trace.flow_category, strict=True)
    ]
    assert found == [("a", "b", GRAPH_DEPENDENCY), ("b", "c", GRAPH_DEPENDENCY)]
    where = places_by_name(trace)
    assert device_events(trace, where["cudaGraphLaunch"]) == [where["a"], where["b"], where["c"]]
    one, *others = (made(tmp_path / "t.json", how) for how in WAYS)
    assert all(other == one for other in others)


def test_annotations_on_the_gpu_find_theirs_by_their_work(tmp_path):
    def note(name: str, start: float, duration: float, number: int) -> Event:
        return op(name, start, duration, number) | {"cat": "user_annotation"}

    def shadow(name: str, start: float, duration: float, number: int, stream: int = 7) -> Event:
        args = {"External id": number} if number else {}
        return kernel(start, duration, 0, stream, name, cat="gpu_user_annotation", args=args)

    trace = trace_of(
        tmp_path,
        note("forward", 0, 50, 101), note("forward", 200, 50, 102), note("without", 0, 20, 103),
        note("other", 0, 300, 7), note("x", 1, 2, 8),
        call(10, 1), work(100, 1), call(210, 2), work(250, 2), work(280, 77),
        shadow("forward", 99.999, 3.002, 7), shadow("forward", 249.999, 3.002, 8),
        shadow("forward", 279.999, 3.002, 9), shadow("x", 99.999, 3.002, 12), shadow("other", 99, 200, 7, 9),
        shadow("without", 99.999, 3.002, 0),
    )  # fmt: skip
    shadows = np.flatnonzero(trace.kind == Kind.GPU_ANNOTATION)
    found = {(trace.name_of(int(i)), int(trace.start[i])): int(trace.external_id[i]) for i in shadows}
    assert found == {
        ("forward", 99_999): 101, ("forward", 249_999): 102, ("forward", 279_999): NO_ID,
        ("x", 99_999): NO_ID, ("other", 99_000): 7, ("without", 99_999): 103,
    }  # fmt: skip
    assert launch_times(trace, shadows[trace.external_id[shadows] == 102]).tolist() == [200_000]


def test_a_format_may_leave_the_names_to_their_arguments():
    """Then the events are read again, in the order of the file, until some that say nothing."""
    read: list[int] = []

    class Reader:
        def read(self, sources: list[int]) -> list[dict[str, Any]]:
            read.extend(sources)
            return [{"args": {"memory kind": source}} for source in sources]

    tables = Tables()
    bare, other = tables.names["Memset"], tables.names["Memcpy"]
    kind = np.array([Kind.MEMSET, Kind.KERNEL, Kind.MEMSET, Kind.MEMCPY], np.int8)
    name = np.array([bare, bare, bare, other], np.int32)
    name_transfers(kind, name, np.array([3, 1, 2, 9]), tables, Reader())  # type: ignore[arg-type]
    names = list(tables.names)
    assert [names[i] for i in name] == ["Memset (Device)", "Memset", "Memset (Pinned)", "Memcpy"]
    assert read == [9, 2, 3]


def test_counters_belong_to_their_gpu(tmp_path):
    def sample(gpu: int, value: float) -> Event:
        pid, at = f"GPU {gpu} Counters", 10.0 + gpu
        return {"ph": "C", "name": "Power (W)", "pid": pid, "ts": at, "args": {"": value}}

    one = trace_of(tmp_path, *kernels(1), sample(1, 130.5))
    assert [(x.name, x.device, x.value.tolist()) for x in counters(one)] == [("Power", 1, [130.5])]
    two = trace_of(tmp_path, *kernels(0), *kernels(1), sample(0, 90), sample(1, 130))
    found = [(x.name, x.device, x.value.tolist()) for x in counters(two)]
    assert found == [("GPU 0 Power", 0, [90]), ("GPU 1 Power", 1, [130])]


RECORDED = [
    *("sample_traces/train_ddp", "sample_traces/train_memory", "tests/data/pairs/train_item"),
    *(
        f"tests/data/two_gpus/{name}"
        for name in ("data_parallel_training", "pipeline_training", "two_threads")
    ),
    "tests/data/ranks/ddp_batch_straggler/rank1",
]


@pytest.mark.parametrize("name", RECORDED)
def test_a_recording_of_kineto_with_cuspys_numbers_is_read_as_before(tmp_path, name):
    """Without the ids of ops on calls and work, and with each thread's calls but the main one's on a lane
    without a name: those of autograd's threads go back, the watchdog's stay where they are."""
    path = ROOT / f"{name}.json.gz"
    trace, content = load(path), json.loads(gzip.decompress(path.read_bytes()))
    ops = {(e["pid"], e["tid"]) for e in content["traceEvents"] if e.get("cat") == "cpu_op"}
    handles: dict[Any, int] = {}
    for e in content["traceEvents"]:
        thread, args = (e.get("pid"), e.get("tid")), e.get("args", {})
        if e.get("cat") in ("cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy", "gpu_memset"):
            args.pop("External id", None)
            if e["cat"].startswith("cuda") and thread[0] != thread[1]:
                e["tid"] = handles.setdefault(thread, 1_500_000_000 + len(handles))
        elif e.get("name") == "thread_name" and thread not in ops and thread[0]:
            args["name"] = f"thread {thread[1]}"
    assert handles
    (tmp_path / "t.json").write_text(json.dumps(content))
    assert linked(load(tmp_path / "t.json")) == linked(trace)


def linked(trace: Trace) -> list[tuple[object, ...]]:
    """What each call and each piece of device work belongs to."""
    kinds = (Kind.RUNTIME, Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
    threads = {int(lane) for lane in set(trace.lane[trace.kind == Kind.CPU_OP].tolist())}
    found = []
    for i in np.flatnonzero(np.isin(trace.kind, kinds)).tolist():
        op, parent, lane = int(trace.op[i]), int(trace.parent[i]), int(trace.lane[i])
        about = [(trace.name_of(j), int(trace.start[j])) if j >= 0 else () for j in (op, parent)]
        where = trace.lanes[lane].tid if lane in threads else ""
        found.append((int(trace.correlation[i]), int(trace.start[i]), where, *about))
    return sorted(found, key=repr)
