"""Launches, ops and flows."""

import random
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests import kineto
from tests.kineto import named

from tracetui.core.columns import blocks
from tracetui.trace import Trace, flows, links
from tracetui.trace.flows import FlowEnds, link_flows, pair_flows
from tracetui.trace.links import borrow_ids, count_before_launch
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


def test_places_are_counted_from_the_first_block_on():
    mask = np.zeros(500_000, np.bool_)
    mask[[3, 499_999]] = True
    assert links._indices(mask).tolist() == [3, 499_999]


@pytest.mark.parametrize("apart", [1, 1 << 62])
def test_flows_are_in_order_of_category_id_time_and_phase(apart):
    """Both where the ids lie close together and where they are far apart."""
    rows = [(0, 0, 0, 5, 0), (0, 0, 0, 5, 2), (0, 0, 0, 6, 1), (0, 0, apart, 1, 0), (0, 1, 0, 0, 0)]
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 0, 3, 1]):
        _, category, flow, time, phase = np.array([rows[n] for n in order], np.int64).T
        ends = FlowEnds(
            phase.astype(np.int8), category.astype(np.int32), flow, np.zeros(5, np.int32), time, flow == 0
        )
        assert [order[at] for at in flows._by_flow(ends)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("block", [1, 3, 1 << 17])
def test_the_target_of_an_id(block, monkeypatch):
    """Of several the last that does not start after the seeker; if all do, the first."""
    monkeypatch.setattr(links, "blocks", partial(blocks, size=block))
    rng = random.Random(block)
    for _ in range(150):
        count, most = rng.randrange(1, 30), rng.choice((2, 6, 40, 100))
        ids = np.array([rng.randrange(most) for _ in range(count)], np.int64)
        start = np.array([rng.randrange(40) for _ in range(count)], np.int64)
        split = rng.randrange(count + 1)
        targets, seekers = np.arange(split, dtype=np.int32), np.arange(split, count, dtype=np.int32)
        found = links._match(ids, start, targets, seekers).tolist()
        for seeker, target in zip(seekers.tolist(), found, strict=True):
            same = sorted((int(start[t]), t) for t in range(split) if ids[t] == ids[seeker])
            before = [one for one in same if one[0] <= start[seeker]]
            assert target == (before[-1] if before else same[0] if same else (0, -1))[1]


@pytest.mark.parametrize("wide", [False, True])
def test_flows_bind_to_slices(wide):
    """Two lanes of slices that nest; ids so far apart that they take the other way to sort."""
    rng = random.Random(wide)
    for _ in range(200):
        slices, lane_first, lane_last, parent = [], [], [], []
        for _ in range(2):
            lane_first.append(len(slices))
            at = 0
            for _ in range(rng.randrange(1, 5)):
                at += rng.randrange(5)
                length = rng.randrange(2, 12)
                slices.append((at, at + length))
                parent.append(-1)
                if length > 5:
                    slices.append((at + 1, at + rng.randrange(2, length)))
                    parent.append(len(slices) - 2)
                at += length
            lane_last.append(len(slices))
        ends = []
        for flow in range(rng.randrange(1, 5)):
            number = flow * ((1 << 62) // 4) if wide else flow
            phases = rng.choice(((0, 2), (0, 2), (0, 1, 2), (2, 0), (0,), (2,), (0, 2, 0, 2)))
            ends += [
                (
                    phase, rng.randrange(2), number, rng.choice((0, 1, -1, 1)), rng.randrange(45),
                    rng.random() < 0.5
                ) for phase in phases
            ]  # fmt: skip
        columns = list(zip(*ends, strict=True))
        category = np.array([0 if wide else c for c in columns[1]], np.int32)
        made = FlowEnds(
            np.array(columns[0], np.int8), category, np.array(columns[2], np.int64),
            np.array(columns[3], np.int32), np.array(columns[4], np.int64), np.array(columns[5], bool),
        )  # fmt: skip
        begin, finish = (np.array(column, np.int64) for column in zip(*slices, strict=True))
        found = link_flows(
            *pair_flows(made), begin, finish - begin, np.array(parent, np.int32), [*lane_first, len(slices)]
        )

        lanes = [range(a, b) for a, b in zip(lane_first, lane_last, strict=True)]

        def bound(
            n: int,
            made: FlowEnds = made,
            lanes: list[range] = lanes,
            begin: np.ndarray = begin,
            finish: np.ndarray = finish,
        ) -> int:
            lane, time = int(made.lane[n]), int(made.time[n])
            if lane < 0:
                return -1
            mine = lanes[lane]
            if made.encloses[n]:
                return max((i for i in mine if begin[i] <= time <= finish[i]), default=-1)
            return min((i for i in mine if begin[i] >= time), default=-1)

        groups: dict[tuple[int, int], list[int]] = {}
        for n in range(len(ends)):
            groups.setdefault((int(made.category[n]), int(made.flow[n])), []).append(n)
        expected = []
        for (kind, _), members in groups.items():
            members.sort(key=lambda n: (int(made.time[n]), int(made.phase[n])))
            phases = [int(made.phase[n]) for n in members]
            pairs = [(a, b) for a, b in pairwise(members) if made.phase[a] < 2 and made.phase[b] > 0]
            if phases == [2, 0]:
                pairs = [(members[1], members[0])]
            expected += [(bound(a), bound(b), kind) for a, b in pairs if bound(a) >= 0 and bound(b) >= 0]
        assert sorted(zip(*(column.tolist() for column in found), strict=True)) == sorted(expected)
        assert found[0].tolist() == sorted(found[0].tolist())


def test_what_starts_before_its_launch():
    start = np.array([10, 20, 5, 8, 30, 20], np.int64)
    launch = np.array([-1, -1, 0, 0, 1, 1], np.int32)
    odd = np.zeros(6, dtype=np.bool_)
    assert count_before_launch(launch, start, odd) == (2, 5)
    assert count_before_launch(np.full(6, -1, np.int32), start, odd) == (0, 0)
    assert count_before_launch(launch, start, ~odd) == (0, 0)
