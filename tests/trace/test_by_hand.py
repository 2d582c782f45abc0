"""Small files whose columns are worked out by hand: times, rows, pairs, links, lanes, counters."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tracetui.trace import Trace
from tracetui.trace.model import cached_on_trace

Event = dict[str, Any]
Make = Callable[..., Event]
Load = Callable[..., Trace]


def named(trace: Trace) -> dict[str, int]:
    return {trace.name_of(i): i for i in range(len(trace))}


def rows(trace: Trace) -> dict[str, tuple[int, str]]:
    """Name to (depth, name of the parent)."""
    return {
        trace.name_of(i): (
            int(trace.depth[i]),
            trace.name_of(int(trace.parent[i])) if trace.parent[i] >= 0 else "",
        )
        for i in range(len(trace))
    }


def notices(trace: Trace) -> dict[str, int]:
    return {notice.kind: notice.count for notice in trace.notices}


@pytest.mark.parametrize(
    ("ts", "dur", "start", "duration"),
    [
        ("10.5", "2.25", 500, 2250),
        ("10.0004", "0.0006", 0, 1),
        ("10.9996", "1", 1000, 1000),
        ("10", "0", 0, 0),
        ('"10.001"', '"3"', 1, 3000),
        ('"12us"', '"1ms"', 2_000, 1_000_000),
        ('"0.00002s"', "1e-3", 10_000, 1),
        ("1.2e1", "1E2", 2_000, 100_000),
    ],
)
def test_times(trace_of: Load, ts: str, dur: str, start: int, duration: int) -> None:
    """The first event begins at 10 us: the trace's zero."""
    text = '{"ph":"X","cat":"cpu_op","name":"%s","pid":1,"tid":%d,"ts":%s,"dur":%s}'
    events = [text % ("zero", 1, "10", "1"), text % ("it", 2, ts, dur)]
    trace = trace_of(('{"traceEvents":[' + ",".join(events) + "]}").encode())
    at = named(trace)["it"]
    assert (int(trace.start[at]), int(trace.duration[at])) == (start, duration)
    assert trace.info.zero_ns == 10_000


@pytest.mark.parametrize("offset", [0, 1_606_910_596_297_023, 4_400_473_816_687])
def test_epochs_keep_their_nanoseconds(trace_of: Load, offset: int) -> None:
    text = '{"ph":"X","cat":"cpu_op","name":"a%d","pid":1,"tid":1,"ts":%d.%03d,"dur":0.001}'
    moments = [1, 2, 499, 500, 501, 999]
    events = ",".join(text % (m, offset, m) for m in [0, *moments])
    trace = trace_of(('{"baseTimeNanoseconds": 7, "traceEvents":[' + events + "]}").encode())
    assert trace.start.tolist() == [0, *moments]
    assert set(trace.duration.tolist()) == {1}
    assert (trace.info.zero_ns, trace.info.base_ns) == (offset * 1000 + 7, 7)


def test_nesting(trace_of: Load, event: Make) -> None:
    trace = trace_of(
        [
            event(name="first", ts=0, dur=10),
            event(name="touching", ts=10, dur=10),
            event(name="same start, shorter", ts=10, dur=5),
            event(name="same end", ts=15, dur=5),
            event(name="empty inside", ts=16, dur=0),
            event(name="empty at the end", ts=20, dur=0),
            event(name="other thread", ts=1, dur=100, tid=2),
            event(name="below it", ts=2, dur=50, tid=2),
            event(name="below that", ts=52, dur=0, tid=2),
        ]
    )
    assert rows(trace) == {
        "first": (0, ""),
        "touching": (0, ""),
        "same start, shorter": (1, "touching"),
        "same end": (1, "touching"),
        "empty inside": (2, "same end"),
        "empty at the end": (0, ""),
        "other thread": (0, ""),
        "below it": (1, "other thread"),
        "below that": (1, "other thread"),
    }
    assert [(lane.first, lane.last, lane.rows) for lane in trace.lanes] == [(0, 6, 3), (6, 9, 2)]


def test_slices_that_cross_go_below(trace_of: Load, event: Make) -> None:
    trace = trace_of(
        [
            event(name="a", ts=0, dur=10),
            event(name="in a", ts=1, dur=3),
            event(name="crosses a", ts=5, dur=10),
            event(name="in the crossing", ts=11, dur=2),
            event(name="crosses both", ts=9, dur=20),
            event(name="after", ts=40, dur=5),
            event(name="in after", ts=41, dur=1),
        ]
    )
    assert rows(trace) == {
        "a": (0, ""),
        "in a": (1, "a"),
        "crosses a": (2, ""),
        "in the crossing": (0, "crosses both"),  # row 0 is free again by then
        "crosses both": (3, ""),
        "after": (0, ""),
        "in after": (1, "after"),
    }
    assert trace.lanes[0].rows == 4
    at = named(trace)
    assert [trace.name_of(int(i)) for i in trace.children(at["after"])] == ["in after"]
    assert [trace.name_of(int(i)) for i in trace.children(at["crosses both"])] == ["in the crossing"]


def test_pairs(trace_of: Load) -> None:
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
    assert rows(trace)["inner"] == (1, "outer")
    assert dict(trace.phases) == {"B": 6, "E": 5}


def test_asynchronous_pairs(trace_of: Load) -> None:
    def mark(ph: str, ts: float, name: str, of: object, pid: int = 1, **more: Any) -> Event:
        return {"ph": ph, "ts": ts, "name": name, "cat": "net", "pid": pid, "tid": 1, "id": of, **more}

    trace = trace_of(
        [
            mark("b", 0, "get", 1),
            mark("b", 2, "inner", 1),
            mark("n", 3, "half way", 1),
            mark("e", 4, "inner", 1),
            mark("e", 9, "get", 1),
            mark("b", 5, "another id", 2),
            mark("e", 6, "another id", 2),
            mark("b", 5, "other process", 1, 2),
            mark("e", 8, "other process", 1, 2),
            mark("b", 1, "scoped", 1, scope="s"),
            mark("e", 2, "scoped", 1, scope="s"),
            mark("e", 3, "never begun", 77),
            mark("b", 7, "never ended", 78),
            mark("S", 1, "old", 5),
            mark("S", 2, "old, too", 5),
            mark("T", 2.5, "step", 5),
            mark("F", 3, "old", 5),
            mark("F", 5, "old, too", 5),
        ]
    )
    at = named(trace)
    assert {name: (int(trace.start[i]), int(trace.duration[i])) for name, i in at.items()} == {
        "get": (0, 9000),
        "inner": (2000, 2000),
        "another id": (5000, 1000),
        "other process": (5000, 3000),
        "scoped": (1000, 1000),
        "never ended": (7000, 2000),
        "old": (1000, 2000),
        "old, too": (2000, 3000),
    }
    assert notices(trace) == {"async_unclosed": 1, "async_unopened": 1}
    assert [trace.names[i] for i in trace.instants.name] == ["step", "half way"]
    assert trace.instants.start.tolist() == [2500, 3000]
    assert {lane.kind for lane in trace.lanes} == {"async"}


def test_instants_and_counters(trace_of: Load, event: Make) -> None:
    trace = trace_of(
        [
            event(name="op", ts=5, dur=1),
            {"ph": "i", "name": "late", "pid": 1, "tid": 1, "ts": 30, "s": "t"},
            {"ph": "I", "name": "early", "pid": 1, "tid": 7, "ts": 3},
            {"ph": "C", "name": "m", "pid": 1, "ts": 9, "args": {"b": 2, "a": 1.5, "no": "x", "nor": True}},
            {"ph": "C", "name": "m", "pid": 1, "ts": 6, "args": {"b": -3, "far": 1e301, "near": 9e299}},
            {"ph": "C", "name": "m", "pid": 1, "id": 4, "ts": 7, "args": {"value": 8}},
            {"ph": "C", "name": "m", "pid": 1, "ts": None, "args": {"b": 2}},
        ]
    )
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


def test_a_trace_of_counters_begins_with_the_first(trace_of: Load) -> None:
    trace = trace_of([{"ph": "C", "name": "m", "pid": 1, "ts": t, "args": {"a": t}} for t in (9, 4, 6)])
    assert (trace.info.zero_ns, trace.counters.start.tolist()) == (4000, [0, 2000, 5000])
    assert (trace.span, trace.first_view) == ((0, 0), (0, 1))


def test_old_durations(trace_of: Load, event: Make) -> None:
    """Without `dur`, the duration in thread time; without either, none."""
    thread, none, negative = (
        event(name="thread", tdur=3),
        event(name="none", ts=5),
        event(name="minus", tdur=-3),
    )
    for one in (thread, none, negative):
        del one["dur"]
    trace = trace_of([thread, none, negative])
    durations = {name: int(trace.duration[i]) for name, i in named(trace).items()}
    assert durations == {"thread": 3000, "none": 0, "minus": 0}


def test_times_that_are_missing(trace_of: Load, event: Make) -> None:
    trace = trace_of([event(name="good", ts=5), event(name="bad", ts=None), event(name="worse", ts="soon")])
    assert list(named(trace)) == ["good"]
    assert notices(trace)["no_time"] == 2
    assert dict(trace.phases) == {"X": 3}


def test_a_correlation_in_old_spelling(trace_of: Load, event: Make) -> None:
    trace = trace_of(
        [
            event(name="op", ts=0, dur=9, args={"External id": 3}),
            event(name="call", cat="Runtime", ts=1, args={"correlation": 7, "external id": 3}),
            event(name="other", cat="Runtime", ts=2, args={"correlation": 8}),
            event(name="k", cat="Kernel", pid=0, tid=7, ts=20, args={"correlation": 7, "external id": 3}),
        ]
    )
    at = named(trace)
    assert trace.external_id[at["call"]] == trace.external_id[at["k"]] == 3
    assert [int(trace.op[at[n]]) for n in ("call", "k", "other", "op")] == [*[at["op"]] * 3, -1]
    assert [int(trace.launch[at[n]]) for n in ("k", "call")] == [at["call"], -1]


def flow(ph: str, ts: float, number: int, tid: int = 1, **more: Any) -> Event:
    return {"ph": ph, "id": number, "pid": 1, "tid": tid, "ts": ts, "cat": "x", "name": "x", **more}


@pytest.mark.parametrize(
    ("begin", "end", "more", "linked"),
    [
        (10, 100, {"bp": "e"}, ("a", "b")),
        (20, 110, {"bp": "e"}, ("a", "b")),  # both ends belong to a slice
        (20.001, 100, {"bp": "e"}, None),
        (9.999, 100, {"bp": "e"}, None),
        (10, 110.001, {"bp": "e"}, None),
        (10, 100, {}, ("a", "b")),  # the next that starts, at once
        (10, 100.001, {}, ("a", "c")),
        (10, 200, {}, ("a", "c")),
        (10, 200.001, {}, None),
        (13, 100, {"bp": "e"}, ("in a", "b")),
        (14, 100, {"bp": "e"}, ("in a", "b")),
        (14.001, 100, {"bp": "e"}, ("a", "b")),
    ],
)
def test_what_a_flow_joins(
    trace_of: Load,
    event: Make,
    begin: float,
    end: float,
    more: dict[str, str],
    linked: tuple[str, str] | None,
) -> None:
    slices = [("a", 10, 10, 1), ("in a", 12, 2, 1), ("b", 100, 10, 2), ("c", 200, 10, 2)]
    events = [event(name=name, ts=ts, dur=dur, tid=tid) for name, ts, dur, tid in slices]
    trace = trace_of([*events, flow("s", begin, 1), flow("f", end, 1, 2, **more)])
    found = [
        (trace.name_of(int(a)), trace.name_of(int(b)))
        for a, b in zip(trace.flow_from, trace.flow_to, strict=True)
    ]
    assert found == ([linked] if linked else [])


def test_lanes(trace_of: Load, event: Make) -> None:
    def meta(name: str, pid: int, tid: int, key: str, value: object) -> Event:
        return {"ph": "M", "name": name, "pid": pid, "tid": tid, "args": {key: value}}

    trace = trace_of(
        [
            meta("process_name", 10, 0, "name", "python"),
            meta("process_name", 10, 0, "name", "python3"),
            meta("process_labels", 10, 0, "labels", "CPU"),
            meta("process_labels", 0, 0, "labels", "GPU 0"),
            meta("thread_name", 10, 11, "name", "loader"),
            meta("thread_name", 10, 12, "name", "thread 12 (python)"),
            meta("thread_sort_index", 10, 12, "sort_index", -5),
            meta("process_sort_index", 8, 0, "sort_index", -1),
            event(name="main", pid=10, tid=10),
            event(name="loader", pid=10, tid=11),
            event(name="twelve", pid=10, tid=12),
            event(name="other process", pid=8, tid=9),
            event(name="unknown here", cat="", pid=10, tid=10, ts=50),
            event(name="unknown there", cat="", pid=0, tid=20, ts=50),
            event(name="k", cat="kernel", pid=0, tid=20),
            event(name="k7", cat="kernel", pid=0, tid=7),
            event(name="k1", cat="kernel", pid=1, tid=7),
            event(name="wait", cat="cuda_sync", pid=0, tid=7),
            event(name="shadow", cat="gpu_user_annotation", pid=0, tid=7),
            event(name="buffer", cat="overhead", pid=-1, tid=0),
            event(name="span", cat="Trace", pid="Spans", tid="PyTorch Profiler"),
        ]
    )
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


def test_what_the_file_says_of_itself(trace_of: Load, event: Make) -> None:
    told = {
        "deviceProperties": [{"id": 0, "name": "H"}, "no object"],
        "distributedInfo": {"rank": 1},
        "record_shapes": 1,
        "traceName": "x" * 4096,
        "long": "x" * 4097,
        "list": [1],
        "baseTimeNanoseconds": 5,
    }
    trace = trace_of(json.dumps(told | {"traceEvents": [event(ts=1)]}).encode())
    assert trace.info.devices == ({"id": 0, "name": "H"},)
    assert trace.info.distributed == {"rank": 1}
    assert trace.info.properties == {"record_shapes": 1, "traceName": "x" * 4096}
    assert (trace.info.base_ns, trace.info.zero_ns) == (5, 1005)
    assert trace.events == 1


def test_devices_as_older_files_have_them(trace_of: Load, event: Make) -> None:
    """PyTorch 1.9 used other names."""
    device = {"id": 0, "name": "Tesla V100", "major": 7, "minor": 0, "multiProcessorCount": 80}
    trace = trace_of(json.dumps({"computeProperties": [device], "traceEvents": [event(ts=1)]}).encode())
    (found,) = trace.info.devices
    assert (found["name"], found["computeMajor"], found["computeMinor"], found["numSms"]) == (
        "Tesla V100",
        7,
        0,
        80,
    )


MS, SECOND = 1000.0, 1_000_000.0


@pytest.mark.parametrize(
    ("events", "odd"),
    [
        # The other slices span 10 ms at least: 100,000 times that is 1,000 s.
        ([("far", 999 * SECOND, 1, 1)], set()),
        ([("far", 1001.1 * SECOND, 1, 1)], {"far"}),
        ([("far", -999 * SECOND, 1, 1)], set()),
        ([("far", -1001.1 * SECOND, 1, 1)], {"far"}),
        # A host slice that outlasts the rest (a second at least) a thousandfold, alone.
        ([("long", 5, 999 * SECOND, 1)], set()),
        ([("long", 5, 1001 * SECOND, 1)], {"long"}),
        ([("long", 5, 1001 * SECOND, 1), ("as long", 6, 1100 * SECOND, 2)], set()),
        ([("long", 5, 1001 * SECOND, 1), ("longer", 6, 1300 * SECOND, 2)], {"long", "longer"}),
        # A kernel a hundred times as long as all that the host recorded (a millisecond at least).
        ([("k", 5, 99 * MS, 0)], set()),
        ([("k", 5, 101 * MS, 0)], {"k"}),
        ([("wait", 5, 10 * MS, 1), ("k", 5, 999 * MS, 0)], set()),
        ([("wait", 0, 10 * MS, 1), ("k", 5, 1001 * MS, 0)], {"k"}),
        ([("wait", 0, 7 * SECOND, 1), ("k", 5, 69 * SECOND, 0)], set()),
        ([("wait", 0, 7 * SECOND, 1), ("k", 5, 71 * SECOND, 0)], {"k"}),
        ([("wait", 0, 5 * SECOND, 1), ("k", 5, 59 * SECOND, 0)], set()),
        ([("wait", 0, 5 * SECOND, 1), ("k", 5, 61 * SECOND, 0)], {"k"}),
        ([("minus", 5, -1, 1)], {"minus"}),
    ],
)
def test_what_cannot_be(
    trace_of: Load, event: Make, events: list[tuple[str, float, float, int]], odd: set[str]
) -> None:
    some = [event(name=f"op{i}", ts=i, dur=0.5) for i in range(60)]
    for name, ts, dur, tid in events:
        kind = {"cat": "kernel", "pid": 0} if name == "k" else {}
        some.append(event(name=name, ts=ts, dur=dur, tid=tid + 3, **kind))
    trace = trace_of(some)
    assert {trace.name_of(i) for i in range(len(trace)) if trace.implausible[i]} == odd
    assert bool(trace.notices) == bool(odd)


@pytest.mark.parametrize("sign", ["", "-"])
def test_fractions_of_far_times(trace_of: Load, sign: str) -> None:
    """Sixteen digits before the point, on either side of zero."""
    text = '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":%s1606910596297023.%03d,"dur":1}'
    moments = [1, 2, 499, 500, 501, 999]
    trace = trace_of(("[" + ",".join(text % (sign, m) for m in moments) + "]").encode())
    first = moments[-1] if sign else moments[0]
    assert trace.start.tolist() == sorted(abs(m - first) for m in moments)


def test_a_program_without_a_garbage_collector_stays_so(trace_of: Load, event: Make) -> None:
    gc.disable()
    try:
        trace_of([event()])
        assert not gc.isenabled()
    finally:
        gc.enable()
    trace_of([event()])
    assert gc.isenabled()


class Dropping(dict[str, Any]):
    """As if another thread dropped at once what is kept."""

    def __setitem__(self, name: str, value: object) -> None:
        pass


@pytest.mark.parametrize(("derived", "made"), [(Dropping(), 2), ({}, 1)])
def test_what_another_thread_drops_is_returned_all_the_same(derived: dict[str, Any], made: int) -> None:
    count: list[int] = []

    @cached_on_trace
    def result(trace: Trace) -> None:
        count.append(1)

    trace: Any = SimpleNamespace(derived=derived)
    assert [result(trace), result(trace)] == [None, None]
    assert len(count) == made
