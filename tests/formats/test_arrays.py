"""Several arrays of events in one file, one after the other or in a list: all are read, and it is said."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tracetui.cli import main
from tracetui.formats.chrome_json import scan

from .alike import differences, made

Event = dict[str, Any]


def events(name: str, count: int, first: int = 0) -> list[Event]:
    thread = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "dur": 5}
    return [thread | {"ts": first + 10 * i} for i in range(count)]


def trace(name: str, count: int, first: int = 0, **keys: Any) -> dict[str, Any]:
    """A whole trace, with lists of objects before and after its events."""
    devices = {"deviceProperties": [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}]}
    return {**devices, **keys, "traceEvents": events(name, count, first), "more": [{"a": 1}, {"b": [2]}]}


def text(*parts: Any, between: str = "\n") -> str:
    return between.join(map(json.dumps, parts))


ARRAY, OBJECT, OTHER = events("a", 5), trace("b", 7, 100), trace("c", 300, 1000)
FILES: dict[str, tuple[str, int, dict[str, int]]] = {
    # (text, slices, notices)
    "an array, then an object": (text(ARRAY, OTHER), 305, {"second_array": 1}),
    "an object, then an array": (text(OTHER, ARRAY), 305, {"second_array": 1}),
    "two arrays": (text(ARRAY, events("b", 7)), 12, {"second_array": 1}),
    "two arrays and a comma": (text(ARRAY, events("b", 7), between=",\n"), 12, {"second_array": 1}),
    "an empty array, then an object": (text([], OTHER), 300, {"second_array": 1}),
    "objects": (text(OBJECT, OTHER, between=""), 307, {"second_array": 1}),
    "objects, one a line": (text(OBJECT, OTHER, OBJECT) + "\n", 314, {"second_array": 2}),
    "objects with commas": (text(OBJECT, OTHER, between=", "), 307, {"second_array": 1}),
    "byte order marks between": (
        "\ufeff" + text(OBJECT, OTHER, ARRAY, between="\n\ufeff"),
        312,
        {"second_array": 2, "separator": 2},
    ),
    "comments between": (
        text(ARRAY, OBJECT, OTHER, between="// rank 1\n"),
        312,
        {"second_array": 2, "separator": 2},
    ),
    "record separators between": (
        text(OBJECT, OTHER, ARRAY, between="\x1e"),
        312,
        {"second_array": 2, "separator": 2},
    ),
    "a list of one": (text([OTHER]), 300, {"listed": 1}),
    "a list": (text([OBJECT, OTHER, OBJECT]), 314, {"listed": 3}),
    "an indented list": (json.dumps([OBJECT, OTHER], indent=2), 307, {"listed": 2}),
    "a list of many": (text([OBJECT] * 60), 420, {"listed": 60}),
    "many, one a line": (text(*[OBJECT] * 60), 420, {"second_array": 59}),
    "a list, then an object": (text([OBJECT], OTHER), 307, {"listed": 1, "second_array": 1}),
    "a list that is not closed": (text([OBJECT, OTHER])[:-1], 307, {"listed": 2, "truncated": 1}),
    "among events": (text([*ARRAY, OTHER, *ARRAY]), 310, {"listed": 1}),
    "among the events of an object": (text({"traceEvents": [*ARRAY, OTHER, *ARRAY]}), 310, {"listed": 1}),
    "first among events": (text([OBJECT, *ARRAY]), 12, {"listed": 1}),
    "among other things": (text([*ARRAY, 5, [1], OTHER]), 305, {"listed": 1, "not_an_event": 2}),
    "on other clocks": (
        text([trace("a", 5, baseTimeNanoseconds=5), trace("b", 7, baseTimeNanoseconds=9)]),
        12,
        {"listed": 2, "other_base": 1},
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_all_are_read_however_they_are_cut(case, tmp_path):
    content, slices, notices = FILES[case]
    path = tmp_path / "trace.json"
    path.write_text(content)
    found = made(path, "at once")
    assert len(found["names"]) == slices
    assert {n.kind: n.count for n in found["notices"]} == notices
    assert not differences(path)


def test_check_says_it(tmp_path, capsys):
    path = tmp_path / "trace.json"
    path.write_text(FILES["a list"][0])
    with pytest.raises(SystemExit) as end:
        main(["check", str(path)], prog_name="tracetui")
    assert end.value.code == 0
    assert "314 slices" in (out := capsys.readouterr().out)
    assert "3  a trace that is an element of a list: its events are read" in out


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_clean_copy_has_the_events_of_all(name, tmp_path):
    path, copy = tmp_path / "trace.json", tmp_path / name
    path.write_text(FILES["among the events of an object"][0])
    with pytest.raises(SystemExit):
        main(["check", str(path), "--repair", str(copy)], prog_name="tracetui")
    found = made(copy, "at once")
    assert (len(found["names"]), found["notices"]) == (310, ())


@pytest.mark.parametrize("listed", [False, True])
def test_many_small_ones_take_no_longer_each(listed, tmp_path, monkeypatch):
    """Little of the text after each is looked at."""
    looked = 0

    def counted(*args: Any, **more: Any) -> Any:
        nonlocal looked
        found = np.frombuffer(*args, **more)
        looked += len(found)
        return found

    path = tmp_path / "trace.json"
    path.write_text(text([OBJECT] * 1000) if listed else text(*[OBJECT] * 1000))
    monkeypatch.setattr(scan, "np", SimpleNamespace(**vars(np) | {"frombuffer": counted}))
    found = made(path, "at once")
    assert len(found["names"]) == 7000
    assert looked < 60 * path.stat().st_size


@pytest.mark.parametrize(
    "text", ["[{{}},{0},{1}]", "[{0},{{ }},{{}},{1}]", "[{0},{1},{{}}\n]", "[{0},{{}},x,{1},{{}}]"]
)
def test_an_object_without_fields_is_nothing(text, tmp_path):
    """JAX ends its arrays with one."""
    path = tmp_path / "t.json"
    path.write_text(text.format(*map(json.dumps, events("a", 2))))
    assert differences(path) == []
    found = made(path, "at once")
    assert (len(found["start"]), sum(found["phases"].values())) == (2, 2)
    assert [notice.kind for notice in found["notices"]] == (["separator"] if "x" in text else [])
