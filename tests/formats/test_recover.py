"""Places of damage, and what is recovered of pieces of text: each with the exact answer."""

import json
import random
from typing import Any

import pytest

from tracetui.formats.chrome_json.recover_text import decodes, is_event, is_incomplete, lenient, recover_text
from tracetui.formats.chrome_json.top_level import find_close, fits_end, top_level
from tracetui.trace import Trace

Event = dict[str, Any]


def places(trace: Trace) -> dict[str, tuple[int, int]]:
    """Kind of notice to (count, offset of the first)."""
    return {notice.kind: (notice.count, notice.offset) for notice in trace.notices}


def array_of(pieces: list[bytes], after: bytes = b"]}") -> bytes:
    return b'{"traceEvents": [' + b", ".join(pieces) + after


@pytest.mark.parametrize("size", [64, 150, 1 << 18])
def test_places_are_those_of_the_text(size, tmp_path, event, load_in):
    sound = [json.dumps(event(ts=i, name=f"e{i}")).encode() for i in range(40)]
    path = tmp_path / "t.json"
    cases = {
        "not_an_event": array_of([*sound[:20], b'"word"', b"17", *sound[20:]]),
        "broken_event": array_of([*sound[:20], b'{"ph": "X", "ts": 1, "name": "x" "y"}', *sound[20:]]),
        "bad_escape": array_of(
            [*sound[:20], rb'{"ph": "X", "ts": 1, "dur": 1, "name": "C:\d"}', *sound[20:]]
        ),
        "second_array": array_of(
            sound[:20], b'], "other": 1, "traceEvents": [' + b", ".join(sound[20:]) + b"]}"
        ),
    }
    for kind, text in cases.items():
        path.write_bytes(text)
        trace = load_in(path, size)
        count, offset = places(trace)[kind]
        assert {trace.name_of(i) for i in range(len(trace))} >= {f"e{i}" for i in range(40)}, kind
        assert set(places(trace)) == {kind}
        if kind == "second_array":
            assert (count, offset) == (1, text.index(sound[20]))
        elif kind == "not_an_event":
            assert count == 2
            assert offset == text.index(b'"word"')
        else:
            assert (count, offset) == (1, text.index(b'{"ph": "X", "ts": 1, '))
        named = {trace.name_of(i): trace.event(i)["ts"] for i in range(len(trace))}
        assert all(named[f"e{i}"] == i for i in range(40)), kind


@pytest.mark.parametrize("seed", range(6))
def test_what_is_sound_is_found_between_any_junk(seed, tmp_path, event, load_in):
    """Junk without quotes hides no event, whatever the chunks are."""
    rng = random.Random(seed)
    pieces = [json.dumps(event(ts=i, name=f"e{i}")).encode() for i in range(60)]
    text = b'{"traceEvents": ['
    for n, piece in enumerate(pieces):
        junk = bytes(rng.choice(b"x,;19 .-") for _ in range(rng.randrange(40))) if rng.random() < 0.2 else b""
        text += piece + (b", " if n < 59 else b"") + junk
    path = tmp_path / "t.json"
    path.write_bytes(text + b"]}")
    for trace in [load_in(path, size) for size in (50, 333, 1 << 18)]:
        assert sorted(trace.name_of(i) for i in range(len(trace))) == sorted(f"e{i}" for i in range(60))
        assert all(notice.level != "lost" or notice.kind == "not_an_event" for notice in trace.notices)
        assert [trace.event(i)["name"] for i in range(60)] == [trace.name_of(i) for i in range(60)]


def test_what_is_an_event():
    for text, expected in (
        (b'{"ph":"X","ts":1}', True),
        (b'{"ph":"X","pid":1}', True),
        (b'{"ph":"X","name":1}', True),
        (b'{"ph":"XY","name":1}', True),
        (b'{"ph":"XYZ","name":1}', True),
        (b'{"ph":"X","dur":1}', False),
        (b'{"ph":1,"ts":1}', False),
        (b'{"ts":1}', False),
        (b"[]", False),
        (b'{"ph":"X"', False),
    ):
        assert is_event(text) is expected, text


def test_endings():
    for tail, bare, expected in (
        (b"", True, True),
        (b" \n\x00", True, True),
        (b"}", True, False),
        (b"}", False, True),
        (b" } \r\n", False, True),
        (b"}}", False, False),
        (b', "a": 1}', False, True),
        (b', "a": }', False, False),
        (b', "a": 1', False, False),
        (b"", False, False),
        (b"x", True, False),
    ):
        assert fits_end(tail, bare) is expected, (tail, bare)
    text = b'{"a": [1]}, {"b": [2]}], "c": [3]} \n'
    assert find_close(text, 0, False) == text.index(b'], "c"')
    assert find_close(text, text.index(b'], "c"') + 1, False) == text.rindex(b"]")
    assert find_close(b"{}] \x00", 0, True) == 2
    assert find_close(b"{} ", 0, True) == -1


def test_whether_more_must_follow():
    for text, expected in ((b'{"a": [1', True), (b'{"a"', True), (b"{}", False), (b"{]", False)):
        assert is_incomplete(text) is expected, text[:20]
    assert isinstance(is_incomplete(b"[" * 200_000), bool), "some versions of Python go so deep, others not"


def test_objects_with_bad_bytes():
    assert lenient(b'{"a": "x\xff"}') == {"a": "x\ufffd"}
    assert lenient(b"[1]") == {}
    assert lenient(b"{") == {}
    long = b'"' + b"x" * (1 << 20) + b'"'
    found = top_level(b'{"a": 1, "b": ' + long + b', "c": "' + b"y" * ((1 << 20) - 2) + b'"}')
    assert (found["a"], len(found["c"])) == (1, (1 << 20) - 2)
    assert bytes(found["b"]) == long
    assert top_level(b'{"a": "\xff"}') == {"a": "\ufffd"}
    assert top_level(b'{"a" 1}') == {}
    for sound in (b'"\\ud83d\\ude00"', b'"\xc3\xa9"', b"{}"):
        assert decodes(sound), sound
    for broken in (b'"\\ud83d"', b'"\\uD83D"', b'"\xc3"', b"{"):
        assert not decodes(broken), broken


def test_what_is_recovered_of_a_piece():
    one, two = b'{"ph":"X","name":"1","ts":1}', b'{"ph":"X","name":"2","ts":2}'
    bad = b'{"ph":"X","name":"3","ts":3,,"x":"'
    found = recover_text(one + b",\n" + two + b",", "border")
    assert (found.events, found.places) == ([one, two], [(0, 28), (30, 58)])
    assert (found.notes, found.rest) == ([], 59)
    found = recover_text(one + b" " + two, "border")
    assert found.notes == [("separator", 28)]
    found = recover_text(one + b",;," + two, "border")
    assert [kind for kind, _ in found.notes] == ["separator"]
    assert 28 <= found.notes[0][1] < 31
    more = recover_text(one + b"," + bad, "more")
    assert (more.events, more.rest, more.notes) == ([one], 29, [])
    assert recover_text(one + b", ", "more").rest == 30
    file = recover_text(one + b"," + two + b'], "a": 1}', "file")
    assert (file.events, file.close, file.cut) == ([one, two], 57, -1)
    file = recover_text(one + b"," + two[:20], "file")
    assert (file.events, file.close, file.cut) == ([one], -1, 28)
    file = recover_text(one + b"," + two + b"]\n", "array")
    assert (file.events, file.close) == ([one, two], 57)
    mended = recover_text(one + b"," + two[:-1] + b',"x":inf}' + b"," + one, "border")
    assert mended.events == [one, two[:-1] + b',"x":null}', one]
    assert mended.notes == [("bare_value", 29)]
