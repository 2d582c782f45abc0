"""What a query means, on a trace small enough to say it by hand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tracetui.session.match_walk import by_time, next_match
from tracetui.session.query import QueryError, matches, parse_time, split
from tracetui.trace import Trace, load

EVENTS = (
    ("aten::mm", "cpu_op", 0, 100),
    ("aten::add", "cpu_op", 200, 50),
    ("cudaLaunchKernel", "cuda_runtime", 220, 5),
    ("Gelu Forward", "user_annotation", 400, 2000),
)


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    events = [
        {"ph": "X", "name": n, "cat": c, "pid": 1, "tid": 1, "ts": ts, "dur": dur} for n, c, ts, dur in EVENTS
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return load(path)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", []),
        ("MM", ["aten::mm"]),
        ("aten::", ["aten::mm", "aten::add"]),
        ("cuda_run", ["cudaLaunchKernel"]),
        ("cat:cpu_op", ["aten::mm", "aten::add"]),
        ("name:cpu_op", []),
        ("cat:cpu_op -mm", ["aten::add"]),
        ("/^aten::(mm|add)$/", ["aten::mm", "aten::add"]),
        ("/gelu forward/", ["Gelu Forward"]),
        ('"gelu forward"', ["Gelu Forward"]),
        ("gelu forward", ["Gelu Forward"]),
        ("dur>60us", ["aten::mm", "Gelu Forward"]),
        ("dur>=2ms", ["Gelu Forward"]),
        ("dur>=2,000\u00b5s", ["Gelu Forward"]),
        ("dur>=2000\u03bcs", ["Gelu Forward"]),
        ("dur<50", ["cudaLaunchKernel"]),
        ("cat:cpu_op dur>60us", ["aten::mm"]),
        ("at>=400us", ["Gelu Forward"]),
        ("lane:thread", [name for name, *_ in EVENTS]),
        ("nothing-like-it", []),
    ],
)
def test_queries(trace: Trace, query: str, names: list[str]) -> None:
    found = by_time(trace, matches(trace, query))
    assert [trace.name_of(int(i)) for i in found] == names


@pytest.mark.parametrize("query", ["/(/", "dur:100us", "/" + "a" * 300 + "/"])
def test_a_wrong_query_says_so_in_one_line(trace: Trace, query: str) -> None:
    with pytest.raises(QueryError) as caught:
        matches(trace, query)
    assert str(caught.value)
    assert "\n" not in str(caught.value)


def test_words() -> None:
    assert split('a "b c" /d e/ -name:/f g/ dur>1ms') == ["a", "b c", "/d e/", "-name:/f g/", "dur>1ms"]
    assert split("/unfinished and") == ["/unfinished and"]


def test_times() -> None:
    assert [parse_time(t) for t in ("5", "5us", "1.5ms", "2 s", "1,000 ns")] == [5e3, 5e3, 1.5e6, 2e9, 1e3]
    assert [parse_time(t) for t in ("5\u00b5s", "5\u03bcs", ".5us", "-2ms", "1.1us")] == [
        5e3,
        5e3,
        500,
        -2e6,
        1.1e3,
    ]
    for text in ("soon", "", "us", "5 us 3", "1e3", "1" * 41):
        with pytest.raises(QueryError, match="250us"):
            parse_time(text)


def test_walking_goes_around_both_ends(trace: Trace) -> None:
    found = by_time(trace, matches(trace, "aten"))
    first, second = (int(i) for i in found)
    assert next_match(trace, found, None, 0, 1) == 0
    assert next_match(trace, found, first, 0, 1) == 1
    assert next_match(trace, found, second, 0, 1) == 0
    assert next_match(trace, found, first, 0, -1) == 1
    assert next_match(trace, found, None, 150_000, 1) == 1
    assert next_match(trace, found, None, 150_000, -1) == 0
    assert next_match(trace, np.zeros(0, dtype=np.int64), None, 0, 1) is None
