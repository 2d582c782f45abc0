"""Which lane an event goes to, lane names and order; instants and counters."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.kineto import Event, cpu, kernel, launch, named, notices, rows_of, run, trace_of

from tracetui.trace import Kind, Trace
from tracetui.trace.unknown import clock_offset
from tracetui.trace.unrecorded import missing_kernels


def meta(name: str, pid: Any, value: Any, tid: Any = 0) -> Event:
    key = {"process_name": "name", "thread_name": "name", "process_labels": "labels"}.get(name, "sort_index")
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": {key: value}}


def shown(trace: Trace) -> list[tuple[str, str, int]]:
    return [(lane.name, lane.kind, lane.device) for lane in trace.lanes]


def test_kineto(trace_of, event):
    trace = trace_of([
        meta("process_name", 400, "python3"), meta("process_labels", 400, "CPU"),
        meta("thread_name", 400, "thread 400 (python3)", 400), meta("process_labels", 0, "GPU 0"),
        meta("process_labels", 1, "GPU 1"), meta("thread_name", 0, "stream 7 ", 7),
        meta("process_name", 3, "python3"),
        event(pid="Spans", tid="PyTorch Profiler", cat="Trace", name="PyTorch Profiler (0)"),
        event(pid=1, tid=20, cat="kernel"), event(pid=0, tid=7, cat="kernel"),
        event(pid=0, tid=7, cat="gpu_user_annotation"), event(pid=0, tid=7, cat="cuda_sync"),
        event(pid=0, tid=21, cat="gpu_memcpy"), event(pid=400, tid=512, cat="cpu_op"),
        event(pid=400, tid=400, cat="user_annotation"),
        event(pid=-1, tid=0, cat="overhead", name="Activity Buffer Request")
    ])  # fmt: skip
    assert shown(trace) == [
        ("thread 400 (python3)", "thread", -1), ("thread 512", "thread", -1),
        ("profiler overhead", "overhead", -1), ("spans", "span", -1),
        ("stream 7 annotations", "gpu_annotation", 0), ("stream 7", "stream", 0),
        ("stream 7 sync", "sync", 0), ("stream 21", "stream", 0), ("stream 20", "stream", 1)
    ]  # fmt: skip
    # GPU 3 was never used: it has no lane and no process.
    assert [(p.pid, p.labels, p.device) for p in trace.processes] == [
        ("400", "CPU", -1), ("-1", "", -1), ("Spans", "", -1), ("0", "GPU 0", 0), ("1", "GPU 1", 1)
    ]  # fmt: skip


def test_a_process_may_have_the_number_of_a_device(trace_of, event):
    """In a container the process is often number 1, and so is a GPU."""
    trace = trace_of(
        [event(pid=1, tid=1), event(pid=1, tid=7, cat="kernel"), event(pid=1, tid=1, cat="mystery")]
    )
    assert shown(trace) == [("thread 1", "thread", -1), ("stream 7", "stream", 1)]
    assert [p.device for p in trace.processes] == [-1, 1]
    assert trace.kind.tolist() == [Kind.CPU_OP, Kind.OTHER, Kind.KERNEL]


def test_unknown_categories_on_a_labeled_device(trace_of, event):
    trace = trace_of([
        meta("process_labels", 17, "MTIA 17"), meta("thread_name", 17, "Stream 101", 3536),
        event(pid=17, tid=3536, cat="mtia_ccp_events"), event(pid=17, tid=3534, cat="mtia_runtime")
    ])  # fmt: skip
    assert shown(trace) == [("thread 3534", "thread", -1), ("stream 3536 (Stream 101)", "stream", 17)]


def test_legacy_streams(trace_of, event):
    trace = trace_of(
        [event(pid=0, tid="stream 7", cat="Kernel"), event(pid=67844, tid="4093687616", cat="Operator")]
    )
    assert shown(trace) == [("thread 4093687616", "thread", -1), ("stream 7", "stream", 0)]


def test_threads_in_order(trace_of, event):
    events = [event(pid=10, tid=tid) for tid in (100, 9, 10, "worker", 11)]
    trace = trace_of([*events, meta("thread_sort_index", 10, -5, 100), meta("thread_name", 10, "loader", 9)])
    assert [lane.name for lane in trace.lanes] == [
        "thread 10", "thread 100", "thread 9 (loader)", "thread 11", "worker"
    ]  # fmt: skip


def test_a_thread_without_a_number(trace_of, event):
    assert [lane.name for lane in trace_of([event(pid=10, tid="")]).lanes] == ["thread"]


def test_an_order_may_be_any_number(trace_of, event):
    order = [meta("thread_sort_index", 10, number, tid) for tid, number in ((1, 1 << 40), (2, 1 << 33))]
    trace = trace_of([event(pid=10, tid=1), event(pid=10, tid=2), *order])
    assert [lane.tid for lane in trace.lanes] == ["2", "1"]
    trace = trace_of([event(pid=10, tid=1), event(pid=10, tid=2), meta("thread_sort_index", 10, 1 << 70, 1)])
    assert [lane.tid for lane in trace.lanes] == ["1", "2"]  # as if it were none


def test_instants_find_their_lane(trace_of, event):
    trace = trace_of([
        event(pid=1, tid=2, ts=10), event(pid=0, tid=7, ts=20, cat="kernel"),
        {"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "pid": 1, "tid": 2, "ts": 30, "args": {
            "Bytes": 4
        }},
        {"ph": "I", "name": "on device", "pid": 0, "tid": 7, "ts": 5},
        {"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 40}
    ])  # fmt: skip
    instants = trace.instants
    assert [trace.names[n] for n in instants.name] == ["on device", "[memory]", "Record Window End"]
    assert instants.start.tolist() == [-5000, 20_000, 30_000]
    assert instants.lane.tolist() == [1, 0, -1]
    assert trace.args_of_sources(instants.source.tolist())[1] == {"Bytes": 4}
    assert trace.categories[instants.category[1]] == "cpu_instant_event"


def test_counters_are_series(trace_of, event):
    trace = trace_of([
        event(pid=1, ts=1), {"ph": "C", "name": "mem", "pid": 1, "ts": 7, "args": {"used": 2, "free": 1.5}},
        {"ph": "C", "name": "mem", "pid": 1, "ts": 3, "args": {"used": 1, "note": "text", "flag": True}},
        {"ph": "C", "name": "load", "pid": 99, "ts": 5, "args": {"value": 0.25}}
    ])  # fmt: skip
    counters = trace.counters
    rows = [
        (counters.series_names[s], int(t), float(v))
        for s, t, v in zip(counters.series, counters.start, counters.value, strict=True)
    ]
    assert rows == [
        ("mem free", 6000, 1.5), ("mem used", 2000, 1.0), ("mem used", 6000, 2.0), ("load", 4000, 0.25)
    ]  # fmt: skip
    assert counters.series_process == (0, 0, -1)


def test_pairs(trace_of, event):
    def phase(ph: str, ts: float, name: str = "b", tid: int = 1) -> Event:
        return {"ph": ph, "name": name, "pid": 1, "tid": tid, "ts": ts}

    trace = trace_of(
        [
            phase("E", 90, tid=2),  # nothing to close
            phase("B", 10, "outer"),
            phase("E", 40, "outer"),  # out of order
            phase("B", 20, "inner"),
            phase("E", 30, ""),
            phase("B", 50, "open"),
            event(ts=60, dur=40, tid=3),
        ]
    )
    rows = [
        (trace.name_of(i), int(trace.start[i]), int(trace.duration[i]), int(trace.depth[i])) for i in range(4)
    ]
    assert rows == [
        ("outer", 0, 30_000, 0), ("inner", 10_000, 10_000, 1), ("open", 40_000, 50_000, 0),
        ("op", 50_000, 40_000, 0)
    ]  # fmt: skip
    assert {n.kind: n.count for n in trace.notices} == {"unclosed": 1, "unopened": 1}
    assert trace.phases == {"E": 3, "B": 3, "X": 1}


def test_a_lane_that_says_that_it_waits_is_not_told_twice(trace_of, event):
    trace = trace_of([event(pid=0, tid="stream 7 sync", cat="cuda_sync")])
    assert [lane.name for lane in trace.lanes] == ["stream 7 sync"]


def test_async_pairs(trace_of, event):
    def phase(ph: str, ts: float, identity: Any, **more: Any) -> Event:
        return {
            "ph": ph, "name": "request", "cat": "net", "pid": 1, "tid": 5, "ts": ts, "id": identity
        } | more  # fmt: skip

    trace = trace_of([
        event(ts=0, dur=100), phase("b", 10, "0x1"), phase("b", 15, "0x2"), phase("n", 17, "0x1"),
        phase("e", 20, "0x1", tid=6), phase("e", 35, "0x2"), phase("S", 50, 7, cat="old"),
        phase("F", 60, 7, cat="old"), phase("b", 70, "0x3"), phase("e", 1, "0x4")
    ])  # fmt: skip
    assert [(lane.name, lane.kind, lane.rows) for lane in trace.lanes] == [
        ("async net", "async", 2), ("async old", "async", 1), ("thread 1", "thread", 1)
    ]  # fmt: skip
    rows = [(int(trace.start[i]), int(trace.duration[i])) for i in range(4)]
    assert rows == [(10_000, 10_000), (15_000, 20_000), (70_000, 30_000), (50_000, 10_000)]
    assert trace.instants.start.tolist() == [17_000]
    assert {n.kind: n.count for n in trace.notices} == {"async_unclosed": 1, "async_unopened": 1}
    assert trace.event(1)["id"] == "0x2"


def test_devices_that_only_their_names_tell(trace_of, event):
    """As JAX, TensorFlow, rocprof and torch_npu write them: no categories, and pids of their own."""
    names = {
        1: ("/device:TPU:0", "", 0), 2: ("/job:localhost/replica:0/task:0/device:GPU:3 Compute", "", 3),
        6: ("2 GPU4", "", 4), 449: ("Ascend Hardware", "NPU", 2), 450: ("Communication", "NPU", 2),
        460: ("NPU", "Ascend NPU", 1), 701: ("/host:CPU", "", -1),
        702: ("/job:localhost/replica:0/task:0/device:CPU:0 Compute", "", -1), 703: ("GPU Process", "", -1),
        704: ("Renderer", "GPU documents - a page", -1), 705: ("python", "CPU", -1)
    }  # fmt: skip
    said = [meta(*one) for pid, (name, label, _) in names.items() for one in _called(pid, name, label)]
    trace = trace_of([*said, *(event(pid=pid, tid=1, cat="") for pid in names)])
    assert {int(p.pid): p.device for p in trace.processes} == {pid: of[2] for pid, of in names.items()}
    assert {lane.kind for lane in trace.lanes if lane.device >= 0} == {"stream"}


def _called(pid: int, name: str, label: str) -> list[tuple[str, int, str]]:
    return [("process_name", pid, name), *([("process_labels", pid, label)] if label else [])]


@pytest.mark.parametrize("backend", ["cuda", "hip", "xpu", "mtia", "musa", "npu", "mlu", "privateuse1"])
def test_categories_of_a_backend(backend, trace_of, event):
    kinds = {"runtime": 4, "driver": 4, "kernel": 6, "memcpy": 7, "memset": 8}
    trace = trace_of([event(pid=0, tid=n, cat=f"{backend}_{what}") for n, what in enumerate(kinds)])
    assert sorted(trace.kind.tolist()) == sorted(kinds.values())
    assert [lane.kind for lane in trace.lanes] == ["thread"] * 2 + ["stream"] * 3


def test_pytorch_without_kineto_writes_no_categories(trace_of, event):
    flow = {"ph": "s", "name": "mm", "ts": 1, "tid": 4, "pid": "CPU functions", "id": 0, "cat": "cpu_to_cuda"}
    functions = [("CPU Functions", 3), ("CPU functions", 4), ("CUDA functions", 0)]
    trace = trace_of([*(event(pid=pid, tid=tid, cat="") for pid, tid in functions), flow])
    assert trace.kind.tolist() == [Kind.CPU_OP, Kind.CPU_OP, Kind.KERNEL]
    assert shown(trace) == [("thread 3", "thread", -1), ("thread 4", "thread", -1), ("stream 0", "stream", 0)]


def test_what_a_device_is_called(trace_of, event):
    labels = {0: "GPU 0", 1: "Ascend NPU", 2: "HPU 2", 3: ""}
    trace = trace_of([
        *(meta("process_labels", pid, label) for pid, label in labels.items() if label),
        meta("process_name", 5, "/device:TPU:5"),
        *(event(pid=pid, tid=7, cat="kernel") for pid in (*labels, 5))
    ])  # fmt: skip
    assert [trace.device_called(n) for n in (0, 1, 2, 3, 5)] == ["GPU 0", "NPU 1", "HPU 2", "GPU 3", "TPU 5"]


def test_what_has_the_profilers_pid_comes_after_the_threads(trace_of, event):
    """The waits of threads on XPU."""
    waits = [event(pid=-1, tid=400, cat="xpu_sync"), event(pid=-1, tid=400, cat="overhead")]
    trace = trace_of([*waits, event(pid=400, tid=400)])
    assert [(p.pid, p.device) for p in trace.processes] == [("400", -1), ("-1", -1)]
    assert [lane.kind for lane in trace.lanes] == ["thread", "overhead", "thread"]


@pytest.mark.parametrize("phases", ["be", "SF", "bn", "b"])
@pytest.mark.parametrize("category", ["kernel", "gpu_memcpy", "cuda_sync", "gpu_user_annotation"])
def test_what_is_asynchronous_keeps_no_device_busy(phases, category, trace_of):
    """It is in no stream, so there is no device whose work it could be."""
    trace = trace_of([{"ph": phase, "cat": category, "id": 1, "ts": at} for at, phase in enumerate(phases)])
    assert [(lane.kind, lane.device) for lane in trace.lanes] == [("async", -1)]
    assert trace.kind.tolist() == [Kind.OTHER]


Make = Callable[..., Event]
Load = Callable[..., Trace]


def test_pairs_on_two_threads(trace_of):
    def mark(ph: str, ts: float, name: str = "", tid: int = 1) -> Event:
        return {"ph": ph, "ts": ts, "name": name, "cat": "x", "pid": 1, "tid": tid}

    trace = trace_of(
        [
            mark("B", 10, "outer"),
            mark("B", 12.5, "inner"),
            mark("B", 11, "elsewhere", 2),
            mark("E", 15),
            mark("E", 13, tid=2),
            mark("E", 20),
            mark("E", 21),  # nothing is open
            mark("B", 30, "open"),
            mark("B", 31, "closed within"),
            mark("E", 33),
            mark("B", 40, "open too", 2),
        ]
    )
    at = named(trace)
    assert {name: (int(trace.start[i]), int(trace.duration[i])) for name, i in at.items()} == {
        "outer": (0, 10_000),
        "inner": (2_500, 2_500),
        "elsewhere": (1_000, 2_000),
        "open": (20_000, 10_000),  # until the last thing that happens
        "closed within": (21_000, 2_000),
        "open too": (30_000, 0),
    }
    assert notices(trace) == {"unclosed": 2, "unopened": 1}
    assert rows_of(trace)["inner"] == (1, "outer")
    assert dict(trace.phases) == {"B": 6, "E": 5}


def test_asynchronous_pairs_of_several_kinds(trace_of):
    def mark(ph: str, ts: float, name: str, of: object, pid: int = 1, **more: Any) -> Event:
        return {"ph": ph, "ts": ts, "name": name, "cat": "net", "pid": pid, "tid": 1, "id": of, **more}

    trace = trace_of([
        mark("b", 0, "get", 1), mark("b", 2, "inner", 1), mark("n", 3, "half way", 1),
        mark("e", 4, "inner", 1), mark("e", 9, "get", 1), mark("b", 5, "another id", 2),
        mark("e", 6, "another id", 2), mark("b", 5, "other process", 1, 2),
        mark("e", 8, "other process", 1, 2), mark("b", 1, "scoped", 1, scope="s"),
        mark("e", 2, "scoped", 1, scope="s"), mark("e", 3, "never begun", 77),
        mark("b", 7, "never ended", 78), mark("S", 1, "old", 5), mark("S", 2, "old, too", 5),
        mark("T", 2.5, "step", 5), mark("F", 3, "old", 5), mark("F", 5, "old, too", 5)
    ])  # fmt: skip
    at = named(trace)
    assert {name: (int(trace.start[i]), int(trace.duration[i])) for name, i in at.items()} == {
        "get": (0, 9000), "inner": (2000, 2000), "another id": (5000, 1000), "other process": (5000, 3000),
        "scoped": (1000, 1000), "never ended": (7000, 2000), "old": (1000, 2000), "old, too": (2000, 3000)
    }  # fmt: skip
    assert notices(trace) == {"async_unclosed": 1, "async_unopened": 1}
    assert [trace.names[i] for i in trace.instants.name] == ["step", "half way"]
    assert trace.instants.start.tolist() == [2500, 3000]
    assert {lane.kind for lane in trace.lanes} == {"async"}


def test_instants_and_counters(trace_of, event):
    trace = trace_of([
        event(name="op", ts=5, dur=1), {"ph": "i", "name": "late", "pid": 1, "tid": 1, "ts": 30, "s": "t"},
        {"ph": "I", "name": "early", "pid": 1, "tid": 7, "ts": 3},
        {"ph": "C", "name": "m", "pid": 1, "ts": 9, "args": {"b": 2, "a": 1.5, "no": "x", "nor": True}},
        {"ph": "C", "name": "m", "pid": 1, "ts": 6, "args": {"b": -3, "far": 1e301, "near": 9e299}},
        {"ph": "C", "name": "m", "pid": 1, "id": 4, "ts": 7, "args": {"value": 8}},
        {"ph": "C", "name": "m", "pid": 1, "ts": None, "args": {"b": 2}}
    ])  # fmt: skip
    assert trace.info.zero_ns == 5_000  # that of the slices: what comes before them lies before zero
    assert [
        (trace.names[n], int(t)) for n, t in zip(trace.instants.name, trace.instants.start, strict=True)
    ] == [("early", -2000), ("late", 25_000)]
    assert trace.instants.lane.tolist() == [-1, 0]
    counters = trace.counters
    samples = [
        (counters.series_names[s], int(t), float(v))
        for s, t, v in zip(counters.series, counters.start, counters.value, strict=True)
    ]
    assert samples == [
        ("m a", 4000, 1.5), ("m b", 1000, -3.0), ("m b", 4000, 2.0), ("m near", 1000, 9e299),
        ("m 4", 2000, 8.0),
    ]  # fmt: skip
    assert counters.series_process == (0, 0, 0, 0)
    assert notices(trace) == {"no_time": 1, "wrong_type": 3}


def test_a_trace_of_counters_begins_with_the_first(trace_of):
    trace = trace_of([{"ph": "C", "name": "m", "pid": 1, "ts": t, "args": {"a": t}} for t in (9, 4, 6)])
    assert (trace.info.zero_ns, trace.counters.start.tolist()) == (4000, [0, 2000, 5000])
    assert (trace.span, trace.first_view) == ((0, 0), (0, 1))


def test_lanes_in_order(trace_of, event):
    def meta(name: str, pid: int, tid: int, key: str, value: object) -> Event:
        return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": {key: value}}

    trace = trace_of([
        meta("process_name", 10, 0, "name", "python"), meta("process_name", 10, 0, "name", "python3"),
        meta("process_labels", 10, 0, "labels", "CPU"), meta("process_labels", 0, 0, "labels", "GPU 0"),
        meta("thread_name", 10, 11, "name", "loader"),
        meta("thread_name", 10, 12, "name", "thread 12 (python)"),
        meta("thread_sort_index", 10, 12, "sort_index", -5),
        meta("process_sort_index", 8, 0, "sort_index", -1), event(name="main", pid=10, tid=10),
        event(name="loader", pid=10, tid=11), event(name="twelve", pid=10, tid=12),
        event(name="other process", pid=8, tid=9), event(name="unknown here", cat="", pid=10, tid=10, ts=50),
        event(name="unknown there", cat="", pid=0, tid=20, ts=50),
        event(name="k", cat="kernel", pid=0, tid=20), event(name="k7", cat="kernel", pid=0, tid=7),
        event(name="k1", cat="kernel", pid=1, tid=7), event(name="wait", cat="cuda_sync", pid=0, tid=7),
        event(name="shadow", cat="gpu_user_annotation", pid=0, tid=7),
        event(name="buffer", cat="overhead", pid=-1, tid=0),
        event(name="span", cat="Trace", pid="Spans", tid="PyTorch Profiler")
    ])  # fmt: skip
    assert [
        (lane.name, lane.kind, lane.device, trace.processes[lane.process].pid) for lane in trace.lanes
    ] == [
        ("thread 9", "thread", -1, "8"),
        ("thread 10", "thread", -1, "10"),
        ("thread 12 (python)", "thread", -1, "10"),
        ("thread 11 (loader)", "thread", -1, "10"),
        ("profiler overhead", "overhead", -1, "-1"),
        ("spans", "span", -1, "Spans"),
        ("stream 7 annotations", "gpu_annotation", 0, "0"),
        ("stream 7", "stream", 0, "0"),
        ("stream 7 sync", "sync", 0, "0"),
        ("stream 20", "stream", 0, "0"),
        ("stream 7", "stream", 1, "1"),
    ]
    lane_of = {name: trace.lanes[int(trace.lane[i])].name for name, i in named(trace).items()}
    assert (lane_of["unknown here"], lane_of["unknown there"]) == ("thread 10", "stream 20")
    process = {p.pid: p for p in trace.processes}
    assert (process["10"].name, process["10"].labels, process["8"].sort_index) == ("python3", "CPU", -1)


def threads(trace: Trace) -> list[str]:
    return [lane.tid for lane in trace.lanes]


def test_numbers_stand_in_their_order_before_text(tmp_path):
    ids = ["10", "-3", "8", "stream x", "2", "b", "a", 7]
    trace = trace_of(tmp_path, *(cpu("op", 0, 1) | {"tid": tid} for tid in ids))
    assert threads(trace) == ["-3", "2", "7", "8", "10", "a", "b", "stream x"]


@pytest.mark.parametrize("key", ["pid", "tid"])
def test_a_number_of_any_length_is_a_label(tmp_path, key):
    """Python refuses to make numbers of so many digits."""
    labels: list[Any] = ["1" * 5000, "-" + "2" * 5000, "1" * 18, 5, "3" * 25]
    trace = trace_of(tmp_path, *(cpu("op", 0, 1) | {key: label} for label in labels))
    found = [lane.tid if key == "tid" else trace.processes[lane.process].pid for lane in trace.lanes]
    assert len(trace) == len(found) == 5
    assert found[:2] == ["5", "1" * 18]
    assert not trace.notices


@pytest.mark.parametrize(("tid", "given", "name"), [
    ("", "", "thread"), ("3", "", "thread 3"), ("-3", "", "thread -3"), ("3", "main", "thread 3 (main)"),
    ("3", "main 3", "main 3"), ("3", "thread of mine", "thread of mine"), ("worker", "", "worker"),
    ("worker", "mine", "worker"), ("thread 3", "", "thread 3"), ("", "mine", "mine")
])  # fmt: skip
def test_a_thread_is_called_by_its_number_and_its_name(tmp_path, tid, given, name):
    named: list[Event] = [{"ph": "M", "name": "thread_name", "pid": 9, "tid": tid, "args": {"name": given}}]
    (lane,) = trace_of(tmp_path, cpu("op", 0, 1) | {"tid": tid}, *(named if given else [])).lanes
    assert lane.name.strip() == name


def test_launches_that_never_ran(tmp_path):
    """Of those that later launches overtook; the last ones may still have been waiting at the end."""
    kernels = [*run(100, 5, 1), *run(200, 5, 2)]
    lost = [launch(10 * i, 50 + i) for i in range(6)]
    assert missing_kernels(trace_of(tmp_path, *kernels)) == 0
    assert missing_kernels(trace_of(tmp_path, *kernels, *lost)) == 6
    assert missing_kernels(trace_of(tmp_path, *kernels, *(e | {"ts": e["ts"] + 500} for e in lost))) == 0
    capture = cpu("cudaStreamBeginCapture", 1, 1, "cuda_runtime")
    assert missing_kernels(trace_of(tmp_path, *kernels, *lost, capture)) == 0


def test_without_launches_or_kernels_none_is_missing(tmp_path):
    copy = cpu("cudaMemcpyAsync", 5, 2, "cuda_runtime", correlation=1)
    for events in ([cpu("op", 0, 1)], [launch(0, 1)], [kernel(0, 5, 1)], [copy, kernel(9, 5, 1)]):
        trace = trace_of(tmp_path, *events)
        assert missing_kernels(trace) == 0
        assert clock_offset(trace) == 0
