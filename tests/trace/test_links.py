"""Launches, ops and flows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests import kineto
from tests.kineto import named

from tracetui.trace import Trace
from tracetui.trace.links import borrow_ids
from tracetui.trace.model import NO_ID, Kind
from tracetui.trace.unknown import idle_known, unknown_events

Event = dict[str, Any]


@pytest.fixture
def launch(event: Callable[..., Event]) -> Callable[..., Event]:
    def make(ts: float, correlation: int, **args: Any) -> Event:
        return event(
            cat="cuda_runtime", name="cudaLaunchKernel", ts=ts, args={"correlation": correlation, **args}
        )

    return make


@pytest.fixture
def kernel(event: Callable[..., Event]) -> Callable[..., Event]:
    def make(ts: float, correlation: int, **more: Any) -> Event:
        args = {"correlation": correlation, **more.pop("args", {})}
        return event(cat="kernel", name="k", pid=0, tid=7, ts=ts, args=args, **more)

    return make


def start_of(trace: Trace, i: int) -> int | None:
    return None if i < 0 else int(trace.start[i] + trace.info.zero_ns) // 1000


@pytest.mark.parametrize(("correlation", "external", "borrowed"), [
    ([NO_ID, NO_ID, NO_ID], [4, 5, 4], True),
    ([NO_ID, NO_ID, 4], [4, 5, 4], False),  # the file has its own
    ([NO_ID, NO_ID, NO_ID], [4, 4, 4], False),  # two launches with one id
    ([NO_ID, NO_ID, NO_ID], [4, 5, 6], False),  # nothing in common
    ([NO_ID, NO_ID, NO_ID], [NO_ID, NO_ID, NO_ID], False),
])  # fmt: skip
def test_ids_are_borrowed_where_there_are_none(correlation, external, borrowed):
    kind = np.array([Kind.RUNTIME, Kind.RUNTIME, Kind.KERNEL], np.int8)
    own, other = np.array(correlation, np.int64), np.array(external, np.int64)
    assert borrow_ids(kind, own, other) is borrowed
    found = (own.tolist(), other.tolist())
    assert found == ((external, [NO_ID] * 3) if borrowed else (correlation, external))


def test_ids_that_are_used_again(trace_of, launch, kernel):
    """Two profiles in one file: the last launch before the kernel is its own."""
    trace = trace_of([
        launch(1, 5), kernel(10, 5), launch(100, 5), kernel(110, 5), launch(200, 6), kernel(205, 9),
        kernel(207, 6)
    ])  # fmt: skip
    kernels = [i for i in range(len(trace)) if trace.name_of(i) == "k"]
    assert [start_of(trace, int(trace.launch[i])) for i in kernels] == [1, 100, None, 200]


def test_a_kernel_before_its_launch_is_said(trace_of, launch, kernel):
    trace = trace_of([launch(10, 1), kernel(7.5, 1), launch(20, 2), kernel(20, 2)])
    (notice,) = trace.notices
    assert (notice.kind, notice.level, notice.count) == ("before_launch", "odd", 1)
    assert "2.500 µs" in notice.text
    # It is kept, linked, and no other number depends on it.
    assert not trace.implausible.any()


def test_ops(trace_of, event, launch, kernel):
    trace = trace_of([
        event(name="aten::mm", ts=1, dur=9, args={"External id": 12}), launch(2, 1, **{"External id": 12}),
        kernel(20, 1, args={"External id": 12}), kernel(30, 2, args={"external id": 12}),
        kernel(40, 3, args={"External id": 99}),
        event(cat="cuda_sync", pid=0, tid=7, ts=50, args={"External id": 12, "correlation": 12}),
        event(cat="user_annotation", name="step", ts=0, dur=100, args={"External id": 99}),
        event(cat="gpu_user_annotation", pid=0, tid=7, ts=20, dur=30, args={"External id": 12})
    ])  # fmt: skip
    linked = {
        start_of(trace, i): trace.name_of(int(trace.op[i])) for i in range(len(trace)) if trace.op[i] >= 0
    }
    assert linked == {2: "aten::mm", 20: "aten::mm", 30: "aten::mm"}


def flow(ph: str, ts: float, identity: Any, tid: int = 1, cat: str = "fwdbwd", **more: Any) -> Event:
    return {"ph": ph, "id": identity, "pid": 1, "tid": tid, "ts": ts, "cat": cat, "name": cat, **more}


def joined(trace: Trace) -> set[tuple[str, str, str]]:
    return {
        (trace.name_of(int(a)), trace.name_of(int(b)), trace.flow_kind[int(c)])
        for a, b, c in zip(trace.flow_from, trace.flow_to, trace.flow_category, strict=True)
    }


def test_flows(trace_of, event):
    trace = trace_of(
        [
            event(name="forward", ts=10, dur=50),
            event(name="inner", ts=20, dur=5),
            event(name="backward", ts=100, dur=50, tid=2),
            event(name="later", ts=200, dur=50, tid=2),
            flow("s", 10, 1),
            flow("f", 100, 1, 2, bp="e"),
            flow("s", 22, "0xff"),  # an id in letters; binds to the innermost
            flow("f", 120, "0xff", 2, bp="e"),
            flow("s", 40, 2, cat="other"),
            flow("f", 160, 2, 2, cat="other"),  # binds to the next that starts
            flow("s", 10, 3),  # no end
            flow("f", 100, 4, 2, bp="e"),  # no beginning
            flow("s", 15, 5),
            flow("f", 500, 5, 2, bp="e"),  # ends in nothing
            flow("s", 10, 6, cat="ac2g"),
            flow("f", 100, 6, 2, cat="ac2g", bp="e"),
            flow("s", 30, 10**30),
            flow("f", 210, 10**30, 2, bp="e"),
        ]
    )
    assert joined(trace) == {
        ("forward", "backward", "fwdbwd"), ("inner", "backward", "fwdbwd"), ("forward", "later", "other"),
        ("forward", "later", "fwdbwd")
    }  # fmt: skip
    assert trace.notices == ()


def test_flow_ids_that_are_used_again(trace_of, event):
    events = [event(name=f"a{i}", ts=10 * i, dur=5) for i in range(4)]
    events += [event(name=f"b{i}", ts=10 * i + 6, dur=3, tid=2) for i in range(4)]
    for i in range(4):
        events += [flow("s", 10 * i, 1), flow("t", 10 * i + 7, 1, 2), flow("f", 10 * i + 8, 1, 2, bp="e")]
    trace = trace_of(events)
    assert joined(trace) == {(f"a{i}", f"b{i}", "fwdbwd") for i in range(4)} | {
        (f"b{i}", f"b{i}", "fwdbwd") for i in range(4)
    }


def test_a_pair_whose_clocks_disagree(trace_of, event):
    trace = trace_of([
        event(name="a", ts=10, dur=5), event(name="b", ts=5, dur=2, tid=2), flow("s", 10, 1),
        flow("f", 5, 1, 2, bp="e")
    ])  # fmt: skip
    assert joined(trace) == {("a", "b", "fwdbwd")}


CALL, WORK = int(Kind.RUNTIME), int(Kind.KERNEL)


def test_clocks_that_differ_too_much_tell_no_idle_time(trace_of, launch, kernel):
    """Work that starts before its launch: a little is a matter of the clocks' precision."""
    known = {}
    for early in (49.999, 50.0):
        pairs = [(launch(100 * n, n), kernel(100 * n - early, n)) for n in range(1, 4)]
        known[early] = idle_known(trace_of([event for pair in pairs for event in pair]))
    assert known == {49.999: True, 50.0: False}


def test_what_takes_no_time_fills_none(tmp_path):
    """An event of a device that is not known to be work, and a kernel: both of no length, at once."""
    odd = kineto.kernel(10, 0, 2, stream=9, name="odd", cat="something")
    trace = kineto.trace_of(tmp_path, kineto.launch(0, 1), kineto.kernel(10, 0, 1), odd)
    assert len(unknown_events(trace)) == 1
    assert idle_known(trace)


Make = Callable[..., Event]


Load = Callable[..., Trace]


def test_a_correlation_in_old_spelling(trace_of, event):
    trace = trace_of([
        event(name="op", ts=0, dur=9, args={"External id": 3}),
        event(name="call", cat="Runtime", ts=1, args={"correlation": 7, "external id": 3}),
        event(name="other", cat="Runtime", ts=2, args={"correlation": 8}),
        event(name="k", cat="Kernel", pid=0, tid=7, ts=20, args={"correlation": 7, "external id": 3})
    ])  # fmt: skip
    at = named(trace)
    assert trace.external_id[at["call"]] == trace.external_id[at["k"]] == 3
    assert [int(trace.op[at[n]]) for n in ("call", "k", "other", "op")] == [*[at["op"]] * 3, -1]
    assert [int(trace.launch[at[n]]) for n in ("k", "call")] == [at["call"], -1]


def flow_end(ph: str, ts: float, number: int, tid: int = 1, **more: Any) -> Event:
    return {"ph": ph, "id": number, "pid": 1, "tid": tid, "ts": ts, "cat": "x", "name": "x", **more}


@pytest.mark.parametrize(("begin", "end", "more", "linked"), [
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
])  # fmt: skip
def test_what_a_flow_joins(trace_of, event, begin, end, more, linked):
    slices = [("a", 10, 10, 1), ("in a", 12, 2, 1), ("b", 100, 10, 2), ("c", 200, 10, 2)]
    events = [event(name=name, ts=ts, dur=dur, tid=tid) for name, ts, dur, tid in slices]
    trace = trace_of([*events, flow_end("s", begin, 1), flow_end("f", end, 1, 2, **more)])
    found = [
        (trace.name_of(int(a)), trace.name_of(int(b)))
        for a, b in zip(trace.flow_from, trace.flow_to, strict=True)
    ]
    assert found == ([linked] if linked else [])
