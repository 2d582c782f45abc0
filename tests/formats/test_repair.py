"""Broken text: every sound event is kept, a broken one mended or dropped, and all of it counted."""

import json
import random
from typing import Any

import pytest

from tracetui.formats.chrome_json import event_builder, recover_text
from tracetui.formats.chrome_json.repair_event import repair_event

Event = dict[str, Any]


def file_with(middle: bytes, layout: str = "line") -> bytes:
    """A sound event, `middle`, and another sound event."""
    first = b'{"ph": "X", "name": "first", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
    last = b'{"ph": "X", "name": "last", "pid": 1, "tid": 1, "ts": 9, "dur": 1}'
    between = b", " if layout == "line" else b",\n  "
    return b'{"traceEvents": [\n  ' + between.join((first, middle, last)) + b"\n]}"


def broken_event(name: bytes = b'"x"', tid: bytes = b"1", value: bytes = b"1", end: bytes = b"") -> bytes:
    return (
        b'{"ph": "X", "name": ' + name + b', "pid": 1, "tid": ' + tid + b', "ts": 5, "dur": 2, "args": {"v": '
        + value + b"}" + end + b"}"
    )  # fmt: skip


MENDED = {
    "control": (broken_event(b'"a\x01\x1b[31mb"'), "control_characters", "a␁␛[31mb"),
    "newline": (broken_event(b'"a\nb\tc"'), "control_characters", "a␊b␉c"),
    "utf-8": (broken_event(b'"caf\xe9 \xff\xfe"'), "bad_utf8", "caf� ��"),
    "backslash": (broken_event(rb'"C:\data\new\users\x.py"'), "bad_escape", None),
    "backslash u": (broken_event(rb'"C:\users"'), "bad_escape", r"C:\users"),
    "half a pair": (broken_event(rb'"a\ud83db"'), "bad_escape", "a�b"),
    "inf": (broken_event(value=b"inf"), "bare_value", "x"),
    "-inf": (broken_event(value=b"-inf"), "bare_value", "x"),
    "nan": (broken_event(value=b"-nan"), "bare_value", "x"),
    "NaN": (broken_event(value=b"NaN"), "bare_value", "x"),
    "Infinity": (broken_event(value=b"[1, Infinity, -Infinity]"), "bare_value", "x"),
    "N/A": (broken_event(value=b"N/A"), "bare_value", "x"),
    "comma": (broken_event(end=b","), "comma", "x"),
    "leading comma": (broken_event(value=b'1}, "more": {,'), "comma", "x"),
    "two commas": (broken_event(value=b"1,, \"w\": 2"), "comma", "x"),
    "word": (broken_event(tid=b"main thread"), "unquoted", "x"),
}  # fmt: skip


@pytest.mark.parametrize("layout", ["line", "lines"])
@pytest.mark.parametrize("case", MENDED)
def test_what_is_mended(case, layout, trace_of):
    text, kind, name = MENDED[case]
    trace = trace_of(file_with(text, layout))
    assert trace.phases == {"X": 3}
    (notice,) = trace.notices
    assert (notice.kind, notice.level, notice.count) == (kind, "repaired", 1)
    assert notice.offset == file_with(text, layout).index(text)
    if name is not None:
        assert name in trace.names
    i = [trace.event(j)["ts"] for j in range(3)].index(5)
    assert trace.duration[i] == 2000
    assert "v" in trace.args(i)


def test_a_path_with_backslashes_keeps_its_letters(trace_of):
    assert r"C:\data\queue\x.py" in trace_of(file_with(broken_event(rb'"C:\data\queue\x.py"'))).names


DROPPED = {
    "a quote too many": broken_event(b'"say "hello" twice"'), "a quote too few": broken_event(b'"open'),
    "no closing brace": broken_event()[:-1], "no opening brace": broken_event()[1:],
    "half": broken_event()[:40], "other half": broken_event()[40:],
    "wrong brackets": broken_event(value=b'[1, {"a": 2]'), "a number like 1.": broken_event(value=b"1.")
}  # fmt: skip


@pytest.mark.parametrize("layout", ["line", "lines"])
@pytest.mark.parametrize("case", DROPPED)
def test_what_is_dropped_takes_nothing_with_it(case, layout, trace_of):
    trace = trace_of(file_with(DROPPED[case], layout))
    assert sorted(trace.names[n] for n in trace.name) == ["first", "last"]
    notice, *others = trace.notices
    assert (notice.kind, notice.level) == ("broken_event", "lost")
    assert 1 <= notice.count <= 2  # an object within it may look like another one
    assert {n.kind for n in others} <= {"separator"}
    assert [trace.event(i)["name"] for i in range(2)] == ["first", "last"]


@pytest.mark.parametrize("begun", [b"{", b'{"name": "half"', b'{"ph": "X", "name": "half"'])
def test_an_event_within_one_that_was_begun_is_kept(begun, trace_of):
    """As where two threads write at once: the first event goes on after the second one."""
    trace = trace_of(file_with(begun + broken_event() + b"}"))
    assert sorted(trace.names[n] for n in trace.name) == ["first", "last", "x"]
    # Also among others that are mended together.
    mended = broken_event(value=b"nan")
    trace = trace_of(file_with(b", ".join((mended, begun + broken_event() + b"}", mended))))
    assert sorted(trace.names[n] for n in trace.name) == ["first", "last", "x", "x", "x"]


@pytest.mark.parametrize("between", [b" ", b",,", b";", b"\x00,", b"},", b"],["])
def test_between_two_events(between, trace_of, event):
    events = [json.dumps(event(ts=i)).encode() for i in range(6)]
    trace = trace_of(b'{"traceEvents": [' + b", ".join(events[:3]) + between + b", ".join(events[3:]) + b"]}")
    assert trace.start.tolist() == [i * 1000 for i in range(6)]
    assert [n.level for n in trace.notices] == ["repaired"]


def test_many_kinds_at_once_are_counted_by_kind(trace_of, event):
    pieces = []
    for i in range(300):
        pieces.append(json.dumps(event(ts=10 * i, name="sound")).encode())
        if i % 3 == 0:
            pieces.append(broken_event(value=b"inf"))
        if i % 5 == 0:
            pieces.append(broken_event(b'"say "hello" twice"'))
    trace = trace_of(b"[" + b",\n".join(pieces) + b"]")
    assert {n.kind: n.count for n in trace.notices} == {"bare_value": 100, "broken_event": 60}
    assert sum(trace.names[n] == "sound" for n in trace.name) == 300
    assert len(trace) == 400
    # Lost ones are listed first.
    assert [n.level for n in trace.notices] == ["lost", "repaired"]


def test_truncated_in_an_event(trace_of, event):
    text = json.dumps({"traceEvents": [event(ts=i) for i in range(100)]}).encode()
    for cut in range(len(text) - 200, len(text) - 2):
        trace = trace_of(text[:cut])
        whole = text[:cut].count(b'"dur": 1}')
        assert len(trace) == whole
        (notice,) = trace.notices
        assert (notice.kind, notice.level, notice.count) == ("truncated", "lost", 1)


def test_an_array_may_stay_open(trace_of, event):
    text = b"[" + b",\n".join(json.dumps(event(ts=i)).encode() for i in range(5))
    for end in (b"", b",", b",\n", b"\n  "):
        trace = trace_of(text + end)
        assert len(trace) == 5
        assert [(n.kind, n.level) for n in trace.notices] == [("open_array", "repaired")]


def test_damage_around_the_events(trace_of, event):
    events = b", ".join(json.dumps(event(ts=i)).encode() for i in range(5))
    base = b'"baseTimeNanoseconds": 1790857026000000000'
    for text in (
        b'{"schemaVersion": 1, ' + base + b' oops "traceEvents": [' + events + b"]}",
        b'?"schemaVersion": 1, ' + base + b', "traceEvents": [' + events + b"]}",
        b'{"schemaVersion": 1, ' + base + b', "traceEvxnts": [' + events + b"]}",
        b'{"traceEvents": [' + events + b"], " + base + b', "traceName": "a"b"}',
    ):
        trace = trace_of(text)
        assert len(trace) == 5
        assert [(n.kind, n.level) for n in trace.notices] == [("bad_header", "lost")]
        assert trace.info.base_ns == 1790857026000000000


def test_events_before_a_key_that_is_no_longer_theirs(trace_of, event):
    """The first key is damaged: what follows the next one is not all that there is."""
    early, late = (", ".join(json.dumps(event(ts=i)) for i in times) for times in ((1, 2), (3, 4)))
    trace = trace_of(f'{{"traceEvxnts": [{early}], oops "traceEvents": [{late}]}}'.encode())
    assert (trace.start + trace.info.zero_ns).tolist() == [1000, 2000, 3000, 4000]


def test_a_bracket_too_many_among_the_events(trace_of, event):
    one = b", ".join(json.dumps(event(ts=i)).encode() for i in range(5))
    two = b", ".join(json.dumps(event(ts=i)).encode() for i in range(5, 9))
    trace = trace_of(b'{"traceEvents": [' + one + b"], " + two + b'], "traceName": "x"}')
    assert len(trace) == 9
    assert {n.level for n in trace.notices} == {"repaired"}
    assert trace.info.properties == {"traceName": "x"}


def test_mends_leave_sound_text_alone():
    for text in (
        b'{"a": "inf, nan, N/A ,} \\\\ \\u00e9 \\ud83d\\ude00", "b": [true, false, null, -1.5e3]}',
        b"{}",
    ):
        assert repair_event(text) == (None, [])


def test_many_events_are_repaired_as_each_alone(monkeypatch):
    rng = random.Random(7)
    one = b'{"ph":"X","name":"a\\n%d","pid":1,"tid":1,"ts":%d,"dur":1,"args":{"a":[1,2],"b":"\xc3\xa9"}}'
    pieces = [
        b"inf", b"\xff", b"\\", b",", b":", b" ", b"\x01", b"\n", b"nan", b"N A", b"\\ud800", b"1,", b"x"
    ]  # fmt: skip
    repaired = 0
    for _ in range(300):
        events = [bytearray(one % (i, i)) for i in range(5)]
        for event in rng.sample(events, 3):
            at = rng.randrange(9, len(event))  # after the phase, which tells an event
            event[at : at + rng.choice([0, 0, 1])] = rng.choice(pieces)
        text = rng.choice([b",", b", \n"]).join(events)
        for end in ("border", "file"):
            monkeypatch.setattr(recover_text, "_TOGETHER", 1 << 21)
            together = recover_text.recover_text(text, end)
            monkeypatch.setattr(recover_text, "_TOGETHER", -1)
            alone = recover_text.recover_text(text, end)
            assert (together.events, together.places) == (alone.events, alone.places)
            assert sorted(kind for kind, _ in together.notes) == sorted(kind for kind, _ in alone.notes)
            assert (together.rest, together.cut) == (alone.rest, alone.cut)
            repaired += together.settled > 0
    assert repaired > 250


def test_nothing_that_is_given_up_could_be_repaired(monkeypatch):
    rng = random.Random(11)
    plain, given_up = recover_text._is_hopeless, 0
    one = b'{"ph":"X","name":"a\\n%d","tid":1,"ts":%d,"args":{"a":[1,2],"b":"\xc3\xa9","c":true,"d":"x\\\\"}}'
    pieces = [
        *b'{}[]",:\\ \n1x-+.\x0b\t\xa0', b"inf", b"N/A", b"tru", b"null", b"\\u12", b'"}', b"},{", b'{"',
        b'""'
    ]  # fmt: skip

    def counted(text: bytes, failed: int, why: str) -> bool:
        nonlocal given_up
        given_up += plain(text, failed, why)
        return plain(text, failed, why)

    for _ in range(400):
        events = [bytearray(one % (i, i)) for i in range(3)]
        for event in rng.sample(events, 2):
            for _ in range(rng.choice([1, 1, 2])):
                piece, at = rng.choice(pieces), rng.randrange(len(event))
                event[at : at + rng.choice([0, 0, 1])] = piece if isinstance(piece, bytes) else bytes([piece])
        text = b",".join(events)
        for end in ("border", "file"):
            monkeypatch.setattr(recover_text, "_is_hopeless", counted)
            found = recover_text.recover_text(text, end)
            monkeypatch.setattr(recover_text, "_is_hopeless", lambda text, failed, why: False)
            slow = recover_text.recover_text(text, end)
            assert (found.events, found.places, found.cut) == (slow.events, slow.places, slow.cut)
    assert given_up > 500


@pytest.mark.parametrize("value", [b'"\\', b'"C:\\"', b"1]", b"[1", b'"a', b'"a"b"', b'{"a":1', b"1.", b":1"])
def test_events_that_none_can_repair_are_read_once(value, trace_of, monkeypatch):
    calls = {"value_at": 0, "_closing": 0}

    def count(name: str) -> None:
        plain = getattr(recover_text, name)

        def counted(*arguments: Any) -> Any:
            calls[name] += 1
            return plain(*arguments)

        monkeypatch.setattr(recover_text, name, counted)

    for name in calls:
        count(name)
    one = b'{"ph":"X","name":"a","pid":1,"tid":1,"ts":%d,"dur":1,"x":' + value
    sound = b'{"ph":"X","name":"b","pid":1,"tid":1,"ts":1,"dur":1}'
    trace = trace_of(b'{"traceEvents":[' + b"},".join([*(one % i for i in range(3000)), sound]) + b"]}")
    assert len(trace) == 1
    assert calls["value_at"] < 2 * 3000 + 30
    assert calls["_closing"] < 30


@pytest.mark.parametrize("value", [b"inf", b"1,", b'"\\d"', b'"\x01"', b'"\xff"', b"N A"])
def test_events_that_are_all_broken_are_not_taken_one_by_one(value, trace_of, monkeypatch):
    asked: list[bytes] = []
    plain = recover_text.value_at

    def counted(text: bytes, view: memoryview, begin: int) -> tuple[int, int, str]:
        asked.append(text)
        return plain(text, view, begin)

    monkeypatch.setattr(recover_text, "value_at", counted)
    one = b'{"ph":"X","name":"a","pid":1,"tid":1,"ts":%d,"dur":1,"x":' + value + b"}"
    sound = b'{"ph":"X","name":"b","pid":1,"tid":1,"ts":1,"dur":1}'
    trace = trace_of(b'{"traceEvents":[' + b",".join([*(one % i for i in range(3000)), sound]) + b"]}")
    (notice,) = trace.notices
    assert notice.count == 3000
    assert len(trace) == 3001
    assert len(asked) < 30


def test_broken_events_among_sound_ones_are_not_taken_one_by_one(trace_of, monkeypatch):
    asked: list[int] = []
    plain = recover_text.value_at

    def counted(text: bytes, view: memoryview, begin: int) -> tuple[int, int, str]:
        asked.append(begin)
        return plain(text, view, begin)

    monkeypatch.setattr(recover_text, "value_at", counted)
    sound = b'{"ph":"X","name":"b","pid":1,"tid":1,"ts":1,"dur":1}'
    broken = b'{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":-}'
    trace = trace_of(b'{"traceEvents":[' + b",".join([sound, broken] * 3000) + b"]}")
    (notice,) = trace.notices
    assert (notice.kind, notice.count, len(trace)) == ("broken_event", 3000, 3000)
    assert len(asked) < 30


def test_events_before_the_key_are_kept_where_the_beginning_is_broken(trace_of):
    """The key may belong to the second of two arrays, or be a word in an event."""
    one, two, three = (
        b'{"ph": "X", "name": "%s", "pid": 1, "tid": 1, "ts": %d, "dur": 1}' % (name, at)
        for at, name in enumerate((b"one", b"two", b"three"))
    )
    trace = trace_of(b'{"x": oops, "other": [' + one + b",\n" + two + b'], "traceEvents": [' + three + b"]}")
    assert {trace.name_of(i) for i in range(len(trace))} == {"one", "two", "three"}
    assert "bad_header" in {notice.kind for notice in trace.notices}


def test_a_long_duration_keeps_its_last_digit(trace_of, monkeypatch):
    """A float has no room for it, in the reader that knows no C either."""
    text = b'[{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 9007199254740.993}]'
    for library in (event_builder.LIBRARY, None):
        monkeypatch.setattr(event_builder, "LIBRARY", library)
        assert trace_of(text).duration.tolist() == [9_007_199_254_740_993]


def as_pytorch(name: str, start: int) -> str:
    """An event as PyTorch writes it: the name as it is."""
    return (
        f'{{\n    "ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 1, "tid": 1,\n'
        f'    "ts": {start}, "dur": 2,\n    "args": {{\n      "External id": 3\n    }}\n  }}'
    )


@pytest.mark.parametrize(
    "name", ['the "q" one', 'it is 5" long', '"', 'ends with "it"', 'a, "b": c', 'a\\"b"']
)
def test_quotation_marks_in_a_name(name, trace_of):
    text = file_with(b",\n  ".join(as_pytorch(name, start).encode() for start in (5, 7)), "lines")
    trace = trace_of(text)
    (notice,) = trace.notices
    assert (notice.kind, notice.level, notice.count) == ("quotes", "repaired", 2)
    assert notice.offset == text.index(as_pytorch(name, 5).encode())
    assert trace.phases == {"X": 4}
    assert list(trace.names).count(name.replace('\\"', '"')) == 1
    assert trace.event([trace.event(j)["ts"] for j in range(4)].index(7))["args"] == {"External id": 3}


@pytest.mark.parametrize("end", ['x", "id": N/A', 'x", "id": 3x'])
def test_a_broken_field_is_no_part_of_the_name(end, trace_of):
    trace = trace_of(file_with(as_pytorch(end, 5).encode(), "lines"))
    assert not any("id" in name for name in trace.names)
    assert "quotes" not in [notice.kind for notice in trace.notices]
