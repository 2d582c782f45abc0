"""Fields of the wrong type: each event that has one is counted once, and the others are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.kineto import cpu, trace_of

from tracetui.formats.chrome_json.top_level import find_close


@pytest.mark.parametrize(
    ("fields", "slices"),
    [
        *(({"name": value}, 2) for value in (7, ["n"], {"a": 1})),
        *(({"cat": value}, 2) for value in (7, ["c"], {"a": 1})),
        *(({"args": value}, 2) for value in (7, "text", [1])),
        *(({"pid": value}, 2) for value in ([1], {"a": 1})),
        *(({"tid": value}, 2) for value in ([1], {"a": 1})),
        *(({"dur": value}, 2) for value in ("long", [1])),
        ({"name": 7, "tid": [1]}, 2),
    ],
)
def test_a_field_of_the_wrong_type(tmp_path: Path, fields: dict[str, Any], slices: int) -> None:
    trace = trace_of(tmp_path, cpu("good", 0, 5), cpu("odd", 1, 2) | fields)
    assert {n.kind: n.count for n in trace.notices}["wrong_type"] == 1
    assert len(trace) == slices
    assert "good" in [trace.name_of(i) for i in range(len(trace))]


@pytest.mark.parametrize("phase", [7, ["X"], {"a": 1}, True, None])
@pytest.mark.parametrize("ways", [{}, {"name": 7}])
def test_what_has_no_phase_cannot_be_read(tmp_path: Path, phase: Any, ways: dict[str, Any]) -> None:
    trace = trace_of(tmp_path, cpu("good", 0, 5), cpu("odd", 1, 2) | {"ph": phase}, cpu("last", 9, 2) | ways)
    assert [(n.kind, n.count) for n in trace.notices if n.level == "lost"] == [("broken_event", 1)]
    assert len(trace) == 2
    assert [trace.event(i)["ts"] for i in range(2)] == [0, 9]


@pytest.mark.parametrize("fields", [{"args": None}, {"cat": None}, {"name": None}, {"pid": None, "tid": "x"}])
def test_what_is_null_is_not_there(tmp_path: Path, fields: dict[str, Any]) -> None:
    trace = trace_of(tmp_path, cpu("good", 0, 5), cpu("odd", 1, 2) | fields)
    assert "wrong_type" not in {n.kind for n in trace.notices}
    assert len(trace) == 2


@pytest.mark.parametrize("text", ["--5", "-", "- 5", "\u00b2"])
def test_text_that_is_nearly_a_number(tmp_path: Path, text: str) -> None:
    ids = {"External id": text, "correlation": text, "device": text, "stream": text}
    odd = cpu("odd", 1, 2, "kernel") | {"pid": text, "tid": text, "args": ids}
    sort = {"ph": "M", "name": "thread_sort_index", "pid": text, "tid": text, "args": {"sort_index": text}}
    trace = trace_of(tmp_path, cpu("good", 0, 5), odd, odd | {"tid": f"stream {text}"}, sort)
    assert len(trace) == 3
    assert trace.external_id.tolist() == [-1] * 3


def test_the_end_of_the_events_is_found_behind_brackets_that_do_not_fit() -> None:
    inner = b'{"args": {"a": [1], "b": [2]}}'
    text = inner + b'], "last": 1} ], "x" ]}'
    assert find_close(text, 0, False) == len(text) - 2
    assert find_close(b'], "a", ' * 3 + b"]}", 0, False) == 3 * 8
    assert find_close(b'], "a", ' * 3 + b"]}", 0, True) == -1
