"""Files that nobody would write: an answer in bounded time, not a crash."""

import json
from typing import Any

import numpy as np
import pytest

from tracetui.trace import NO_ID, Trace, TraceError

Event = dict[str, Any]


def notices(trace: Trace) -> dict[str, int]:
    return {n.kind: n.count for n in trace.notices}


def test_deeply_nested_args(trace_of, event):
    deep: Any = 1
    for _ in range(100):
        deep = {"a": [deep]}
    trace = trace_of([event(args=deep), event(ts=5)])
    assert (len(trace), notices(trace)) == (2, {})
    assert trace.args(0) == deep


def test_nested_beyond_measure(trace_of, event):
    one = b'{"ph": "X", "ts": 1, "dur": 1, "pid": 1, "tid": 1, "name": "x", "args": '
    levels = 100_000
    sound = json.dumps(event(ts=7)).encode()
    text = b'{"traceEvents": [' + one + b'{"a":' * levels + b"1" + b"}" * levels + b"}, " + sound + b"]}"
    trace = trace_of(text)
    assert trace.event(len(trace) - 1)["ts"] == 7
    assert notices(trace) in ({}, {"broken_event": 1})
    with pytest.raises(TraceError):
        trace_of(b"[" * levels)
    trace = trace_of(b'{"traceEvents": [' + sound + b", " + one + b'{"a":' * levels)
    assert (len(trace), notices(trace)) == (1, {"truncated": 1})


def test_a_very_long_string(trace_of, event):
    size = 50_000_000
    trace = trace_of(
        [event(), event(ts=3, name="n" * size), event(ts=5, args={"s": "a" * size}), event(ts=9)]
    )
    assert (len(trace), notices(trace)) == (4, {})
    assert max(map(len, trace.names)) == size
    assert len(trace.args(2)["s"]) == size


def test_many_lanes(trace_of):
    count = 100_000
    text = b",".join(
        b'{"ph":"X","name":"a","pid":%d,"tid":%d,"ts":%d,"dur":3}' % (i % 100, i, i) for i in range(count)
    )
    trace = trace_of(b"[" + text + b"]")
    assert (len(trace), len(trace.lanes)) == (count, count)
    assert (trace.depth == 0).all()


def test_many_names_and_categories(trace_of):
    count = 70_000
    text = b",".join(
        b'{"ph":"X","name":"n%d","cat":"c%d","pid":1,"tid":1,"ts":%d,"dur":1}' % (i, i, i)
        for i in range(count)
    )
    trace = trace_of(b"[" + text + b"]")
    assert [trace.name_of(i) for i in (0, 9, count - 1)] == ["n0", "n9", f"n{count - 1}"]
    assert int(trace.category.max()) < len(trace.categories) <= 32768
    assert (trace.category >= 0).all()


def test_slices_that_all_overlap(trace_of):
    count = 20_000
    text = b",".join(b'{"ph":"X","name":"a","pid":1,"tid":1,"ts":%d,"dur":30000}' % i for i in range(count))
    trace = trace_of(b"[" + text + b"]")
    assert trace.lanes[0].rows == count
    assert len(np.unique(trace.depth)) == count


WRONG: dict[str, tuple[dict[str, Any], bool]] = {
    # what is wrong with an event: (fields, whether it still has a place in time)
    "ts a list": ({"ts": [1]}, False),
    "ts true": ({"ts": True}, False),
    "ts a word": ({"ts": "soon"}, False),
    "ts null": ({"ts": None}, False),
    "ts in quotes": ({"ts": "12.345"}, True),
    "dur in quotes": ({"dur": "9"}, True),
    "dur an object": ({"dur": {}}, True),
    "name a number": ({"name": 7}, True),
    "name null": ({"name": None}, True),
    "name a list": ({"name": ["a", {"b": "\x1b[31m"}]}, True),
    "args a string": ({"args": "x"}, True),
    "args null": ({"args": None}, True),
    "args a list": ({"args": [{"correlation": 1}]}, True),
    "pid null": ({"pid": None}, True),
    "pid huge": ({"pid": 10**50}, True),
    "tid an object": ({"tid": {"a": 1}}, True),
    "tid a float": ({"tid": 3.0}, True),
    "cat a number": ({"cat": 3}, True),
    "id an object": ({"id": {"a": 1}}, True),
    "bp a number": ({"bp": 3}, True),
    "correlation a word": ({"args": {"correlation": "x", "External id": [1]}}, True),
    "correlation huge": ({"args": {"correlation": 10**30, "External id": -(10**19)}}, True),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_types(case, trace_of, event):
    fields, placed = WRONG[case]
    trace = trace_of([
        event(ts=1, name="before"), event(ts=2, **fields) if "ts" not in fields else event(**fields),
        event(ts=20)
    ])  # fmt: skip
    assert trace.phases == {"X": 3}
    assert len(trace) == 2 + placed
    assert ("no_time" in notices(trace)) is not placed
    assert all(name.isprintable() for name in trace.names)
    if placed:
        i = next(i for i in range(3) if trace.name_of(i) != "before" and trace.start[i] < 19_000)
        assert (trace.correlation[i], trace.external_id[i]) == (NO_ID, NO_ID)
        assert trace.event(i) == event(ts=2, **fields) if "ts" not in fields else event(**fields)


def test_ids_as_text_still_link(trace_of, event):
    trace = trace_of([
        event(cat="cuda_runtime", args={"correlation": "12"}),
        event(cat="kernel", pid=0, tid=7, ts=3, args={"correlation": 12.0})
    ])  # fmt: skip
    assert trace.launch.tolist() == [-1, 0]


def test_elements_that_are_no_events(trace_of, event):
    trace = trace_of([event(), 5, None, "x", [1], event(ts=4), {"a": 1}])  # type: ignore[list-item]
    assert (len(trace), trace.phases) == (2, {"X": 2})
    assert (notices(trace)["not_an_event"], notices(trace)["broken_event"]) == (4, 1)


def test_duplicate_keys_the_last_counts(trace_of):
    trace = trace_of(b'[{"ph":"i","ph":"X","name":"a","name":"b","ts":5,"ts":2,"dur":1,"pid":1,"tid":1}]')
    assert (trace.phases, trace.name_of(0), trace.info.zero_ns) == ({"X": 1}, "b", 2000)


def test_unknown_phases_are_counted(trace_of, event):
    trace = trace_of([event(), event(ph="N"), event(ph="\x1b[2J" * 50), event(ph="")])
    assert sum(trace.phases.values()) == trace.events == 4
    assert all(phase.isprintable() and len(phase) <= 8 for phase in trace.phases)


def test_labels_are_harmless(trace_of, event):
    evil = "\x1b]0;x\x07\u202e\u200b\n[bold]"
    metadata = [
        {"ph": "M", "name": name, "pid": evil, "tid": evil, "args": {"name": evil}}
        for name in ("process_name", "process_labels", "thread_name")
    ]
    trace = trace_of([event(name=evil, cat=evil, pid=evil, tid=evil), *metadata])
    shown = [*trace.names, *trace.categories]
    for process in trace.processes:
        shown += [process.pid, process.name, process.labels]
    for lane in trace.lanes:
        shown += [lane.tid, lane.name]
    assert len(shown) > 5
    assert all(text.isprintable() for text in shown)
    assert trace.event(0)["name"] == evil
