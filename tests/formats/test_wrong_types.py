"""Fields of the wrong type: each event that has one is counted once, and the others are read."""

from typing import Any

import pytest
from tests.formats.test_recover import places
from tests.kineto import cpu, trace_of

from tracetui.formats.chrome_json import rows
from tracetui.formats.chrome_json.top_level import find_close


@pytest.mark.parametrize(("fields", "slices"), [
    *(({"name": value}, 2) for value in (7, ["n"], {"a": 1})),
    *(({"cat": value}, 2) for value in (7, ["c"], {"a": 1})),
    *(({"args": value}, 2) for value in (7, "text", [1])),
    *(({"pid": value}, 2) for value in ([1], {"a": 1})), *(({"tid": value}, 2) for value in ([1], {"a": 1})),
    *(({"dur": value}, 2) for value in ("long", [1])), ({"name": 7, "tid": [1]}, 2)
])  # fmt: skip
def test_a_field_of_the_wrong_type(tmp_path, fields, slices):
    trace = trace_of(tmp_path, cpu("good", 0, 5), cpu("odd", 1, 2) | fields)
    assert {n.kind: n.count for n in trace.notices}["wrong_type"] == 1
    assert len(trace) == slices
    assert "good" in [trace.name_of(i) for i in range(len(trace))]


@pytest.mark.parametrize("phase", [7, ["X"], {"a": 1}, True, None])
@pytest.mark.parametrize("ways", [{}, {"name": 7}])
def test_what_has_no_phase_cannot_be_read(tmp_path, phase, ways):
    trace = trace_of(tmp_path, cpu("good", 0, 5), cpu("odd", 1, 2) | {"ph": phase}, cpu("last", 9, 2) | ways)
    assert [(n.kind, n.count) for n in trace.notices if n.level == "lost"] == [("broken_event", 1)]
    assert len(trace) == 2
    assert [trace.event(i)["ts"] for i in range(2)] == [0, 9]


@pytest.mark.parametrize("fields", [{"args": None}, {"cat": None}, {"name": None}, {"pid": None, "tid": "x"}])
def test_what_is_null_is_not_there(tmp_path, fields):
    trace = trace_of(tmp_path, cpu("good", 0, 5), cpu("odd", 1, 2) | fields)
    assert "wrong_type" not in {n.kind for n in trace.notices}
    assert len(trace) == 2


@pytest.mark.parametrize("text", ["--5", "-", "- 5", "\u00b2"])
def test_text_that_is_nearly_a_number(tmp_path, text):
    ids = {"External id": text, "correlation": text, "device": text, "stream": text}
    odd = cpu("odd", 1, 2, "kernel") | {"pid": text, "tid": text, "args": ids}
    sort = {"ph": "M", "name": "thread_sort_index", "pid": text, "tid": text, "args": {"sort_index": text}}
    trace = trace_of(tmp_path, cpu("good", 0, 5), odd, odd | {"tid": f"stream {text}"}, sort)
    assert len(trace) == 3
    assert trace.external_id.tolist() == [-1] * 3


def test_the_end_of_the_events_is_found_behind_brackets_that_do_not_fit():
    text = b'{"args": {"a": [1], "b": [2]}}' + b'], "last": 1} ], "x" ]}'
    assert find_close(text, 0, False) == len(text) - 2
    assert find_close(b'], "a", ' * 3 + b"]}", 0, False) == 3 * 8
    assert find_close(b'], "a", ' * 3 + b"]}", 0, True) == -1


Event = dict[str, Any]


def test_fields_of_odd_types(trace_of, event):
    odd = event(ts=100, name=5, tid=1.0, cat=None, args=[1])
    trace = trace_of(
        [event(ts=0, name="a", dur=7), odd, event(ts=50, name="b", dur=3, args={"correlation": "12"})]
    )
    at = {trace.name_of(i): i for i in range(len(trace))}
    assert set(at) == {"a", "b", "5"}
    assert places(trace)["wrong_type"][0] == 1
    assert [int(trace.duration[at[name]]) for name in ("a", "b", "5")] == [7000, 3000, 1000]
    assert trace.correlation[at["b"]] == 12
    assert trace.correlation[at["a"]] == -1


@pytest.mark.parametrize(("field", "value", "wrong"), [
    ("dur", [1], 1), ("dur", "3", 0), ("dur", 3.5, 0), ("ts", {"a": 1}, 1), ("ts", "4", 0),
    ("pid", 1.5, 1),
    ("tid", [1], 1), ("tid", "x", 0), ("pid", None, 0), ("args", 4, 1), ("args", None, 0), ("name", 1, 1),
    ("name", None, 0), ("cat", 3, 1), ("cat", "new", 0),
])  # fmt: skip
def test_which_types_are_wrong(field, value, wrong, trace_of, event):
    # The first event sends the whole chunk the patient way.
    patient = event(ts=1, name="patient", args={"External id": "1"})
    trace = trace_of(
        [patient, event(ts=2, name="it") | {field: value}, event(ts=3, name="alone in its chunk")]
    )
    assert places(trace).get("wrong_type", (0, 0))[0] == wrong


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize(("value", "wrong"), [("long", 1), ("", 1), ({}, 1), (None, 1), ("3", 0)])
def test_a_duration_that_is_none_is_counted(value, wrong, patient, trace_of, event):
    """However the chunk is decoded: by way of text, for its times, or the patient way."""
    first = event(ts=1, name="first") | ({"args": {"External id": "1"}} if patient else {"dur": "5"})
    trace = trace_of([first, event(ts=2, name="it", dur=value), event(ts=3, name="alone in its chunk")])
    assert places(trace).get("wrong_type", (0, 0))[0] == wrong


@pytest.mark.parametrize("patient", [False, True])
def test_flows_bind_to_what_encloses_them_or_follows(patient, trace_of, event):
    flow = {"cat": "mine", "name": "f", "pid": 1, "tid": 2, "id": 7}
    events = [
        event(ts=0, dur=10, name="from"), event(ts=20, dur=10, tid=2, name="around"),
        event(ts=40, dur=10, tid=2, name="after"), flow | {"ph": "s", "ts": 5, "tid": 1}
    ]  # fmt: skip
    odd = [event(ts=60, name="odd", args=[1])] if patient else []
    for more, target in (({"bp": "e"}, "around"), ({}, "after")):
        trace = trace_of([*events, flow | {"ph": "f", "ts": 25} | more, *odd])
        pairs = [
            (trace.name_of(a), trace.name_of(b))
            for a, b in zip(trace.flow_from.tolist(), trace.flow_to.tolist(), strict=True)
        ]
        assert pairs == [("from", target)], more


def test_labels_and_ids_of_any_type():
    for value, label in (
        (5, 5), (-5, -5), ((1 << 63) - 1, (1 << 63) - 1), (1 << 63, str(1 << 63)), (True, "true"), (None, ""),
        ("x", "x"), (3.0, "3"), (3.5, "3.5"), (float(1 << 53), "9007199254740992.0"), ([1, "a"], '[1,"a"]'),
        ("x" * 99_999, "x" * 99_999), (["x" * 99_999], '["' + "x" * 65_534),
    ):  # fmt: skip
        found = rows._label(value)
        assert (found, type(found)) == (label, type(label)), value
    for value, number in (
        (7, 7), (-7, -7), ((1 << 63) - 1, (1 << 63) - 1), (1 << 63, None), (-(1 << 63), -(1 << 63)),
        (True, None), (None, -1), ("12", 12), (" -12 ", -12), ("1" * 19, int("1" * 19)), ("1" * 20, None),
        ("x", None), (4.0, 4), ("1.5", None), (4.5, None), ([4], None), (1e30, None),
    ):  # fmt: skip
        assert rows._id(value) == number, value


def test_an_event_without_a_duration_is_told(trace_of, event):
    """Of the thread's time, which old tools write, it is known."""
    bare = {key: value for key, value in event(ts=9).items() if key != "dur"}
    trace = trace_of([event(ts=1), bare, bare | {"ts": 12, "tdur": 2}])
    assert trace.duration.tolist() == [event()["dur"] * 1000, 0, 2000]
    assert [(notice.kind, notice.count) for notice in trace.notices] == [("no_duration", 1)]
