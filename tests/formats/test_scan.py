"""Brackets, quotes and borders between events, against a reader of one character at a time."""

import io
import json
import os
import random

import pytest

from tracetui.formats.chrome_json import scan
from tracetui.formats.chrome_json.scan import Outline, last_boundary, learn_separator, outline
from tracetui.formats.chrome_json.segments import cut
from tracetui.formats.window import Window


def slow_outline(text: bytes) -> tuple[list[int], int]:
    """(all outermost commas, the closing bracket or -1)"""
    commas, depth, inside, escaped = [], 0, False, False
    for at, byte in enumerate(text):
        letter = chr(byte)
        if escaped:
            escaped = False
            # Outside of a text a backslash means nothing, but a quote after it opens none either.
            continue
        if letter == "\\":
            escaped = True
        elif letter == '"':
            inside = not inside
        elif inside:
            continue
        elif letter in "{[":
            depth += 1
        elif letter in "}]":
            depth -= 1
            if depth < 0:
                return commas, at
        elif letter == "," and depth == 0:
            commas.append(at)
    return commas, -1


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 20])
def test_the_outline_of_any_text(block, monkeypatch):
    monkeypatch.setattr(scan, "_BLOCK", block)
    rng = random.Random(block)
    for _ in range(250):
        letters = rng.choice(('{}[]",\\a', ",,,{}a", '"\\,', "{[,]}", 'a,a,a,"', '\\\\\\"",'))
        text = "".join(rng.choice(letters) for _ in range(rng.randrange(60))).encode()
        # A backslash before a bracket or a comma escapes nothing outside of a text.
        text = text if '"' in letters else text.replace(b"\\", b"")
        for bad in (b"\\{", b"\\}", b"\\[", b"\\]", b"\\,"):
            text = text.replace(bad, b"\\n")
        commas, close = slow_outline(text)
        found = outline(text)
        assert (found.last, found.close) == (commas[-1] if commas else -1, close), text
        assert found.commas == commas[: len(found.commas)]
        assert len(found.commas) >= min(len(commas), 8)


def test_nothing_has_no_outline():
    assert outline(b"") == Outline([], -1, -1)


EVENTS = [{"ph": "X", "name": "}, {", "args": {"list": [{"ph": 1}, {"ph": 2}]}}] * 4
LAYOUTS = {
    "lines": (",\n  ", b"},\n  {", 1, 5), "lines with braces apart": ("\n ,\n{\n", None, None, None),
    "one line": (", ", b'}, {"ph"', 1, 3), "tight": (",", b'},{"ph"', 1, 2)
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_stands_between_two_events(layout):
    between, expected, comma, brace = LAYOUTS[layout]
    if expected is None:
        found = learn_separator(b'{"a": 1' + "\n},\n{".join('"a": 1' for _ in range(3))[6:].encode())
        assert found == (b"\n},\n{", 2, 4)  # with its line break, it needs no key
        return
    found = learn_separator(between.join(map(json.dumps, EVENTS)).encode())
    assert (found.comma, found.brace) == (comma, brace)
    if "\n" in between:
        assert found.text[found.comma : found.comma + 1] == b","
    assert found.text == expected if layout != "lines" else found.text.startswith(expected)


def test_a_border_that_is_nested_or_in_a_text_teaches_nothing():
    assert learn_separator(b'{"a":[{"b":1},{"b":2}],"c":"},{"}') is None
    assert learn_separator(b'1, 2, {"a":1}') is None
    assert learn_separator(b'{"a":[{"b":1},{"b":2}]} , {"c":1}') == (b'} , {"c"', 2, 4)
    # The second border does, where the first is odd.
    assert learn_separator(b'1,{"a":1},{"a":2}') == (b'},{"a"', 1, 2)


def test_the_last_border():
    text = b'{"a":1},{"a":2} , {"a":3'
    separator = learn_separator(b'{"a":1},{"a":2}')
    assert last_boundary(text, 0, len(text), separator) == (7, 8)
    assert last_boundary(text, 0, len(text), None) == (16, 18)
    assert last_boundary(text, 0, 20, None) == (16, 18)
    assert last_boundary(text, 0, 19, None) == (7, 8)  # its quote is not in the part
    assert last_boundary(text, 7, 19, None) == (-1, -1)
    assert last_boundary(text, 6, 14, separator) == (7, 8)
    assert last_boundary(text, 7, 14, separator) == (-1, -1)
    assert last_boundary(b"x" * 100, 0, 100, separator) == (-1, -1)


@pytest.mark.parametrize("distance", [100, 20_000, 100_000])
def test_a_border_far_from_the_end_is_found(distance):
    text = b'{"a":1},{"a":"' + b"x" * distance
    assert last_boundary(text, 0, len(text), None) == (7, 8)
    assert last_boundary(text, 8, len(text), None) == (-1, -1)


@pytest.mark.parametrize("block", [40, 100, 1000, 5000])
def test_segments_follow_each_other_from_event_to_event(block, tmp_path):
    events = [json.dumps({"ph": "X", "name": "x" * (i * 7 % 90), "ts": i}).encode() for i in range(60)]
    text = b",\n".join(events) + b"]}"
    path = tmp_path / "t"
    path.write_bytes(b"[" + text)
    separator = learn_separator(text)
    assert separator is not None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        found = list(cut(separator, 1, len(text) + 1, block, descriptor))
    finally:
        os.close(descriptor)
    assert [one.number for one in found] == list(range(len(found)))
    assert [one.final for one in found] == [False] * (len(found) - 1) + [True]
    assert (found[0].begin, found[-1].end) == (1, len(text) + 1)
    borders = [one.begin for one in found[1:]]
    assert borders == [one.end for one in found[:-1]]
    starts = {1 + sum(len(e) + 2 for e in events[:i]) for i in range(len(events))}
    assert set(borders) <= starts
    for one in found:
        if not one.final:  # as long as was asked for, and an event more
            assert block <= one.end - one.begin <= block + 200
    assert found[-1].end - found[-1].begin <= block + block // 2 + 200


def test_a_window_slides_over_the_text():
    rng = random.Random(5)
    text = bytes(rng.randrange(32, 126) for _ in range(20_000))
    pieces = rng.choices(range(1, 700), k=10_000)
    read = io.BytesIO(text).readinto
    window = Window(lambda view: read(view[: pieces.pop()]), 0)
    at = 0
    while not window.ended or window.size:
        window.fill(rng.choice((1, 10, 5000)))
        assert (window.offset, window.text()) == (at, text[at : at + window.size])
        end = rng.randrange(window.size + 1)
        assert window.text(end) == text[at : at + end]
        assert window.text(window.size + 50) == window.text()
        if end:
            with window.as_list(end) as listed:
                assert bytes(listed) == b"[" + text[at : at + end] + b"]"
        assert window.text() == text[at : at + window.size]
        window.skip(end)
        at += end
    assert at == len(text)
    window.fill(99)
    assert window.size == 0
