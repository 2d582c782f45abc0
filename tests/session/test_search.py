"""What a query means, on a trace small enough to say it by hand."""

import contextlib
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.kineto import cpu, trace_of
from tests.recorded import load

from tracetui.session.query import QueryError, matches, parse_time, split
from tracetui.session.recording import Recording
from tracetui.session.session import Session
from tracetui.trace import Trace

EVENTS = (
    ("aten::mm", "cpu_op", 0, 100), ("aten::add", "cpu_op", 200, 50),
    ("cudaLaunchKernel", "cuda_runtime", 220, 5), ("Gelu Forward", "user_annotation", 400, 2000)
)  # fmt: skip


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    events = [
        {"ph": "X", "name": n, "cat": c, "pid": 1, "tid": 1, "ts": ts, "dur": dur} for n, c, ts, dur in EVENTS
    ]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return load(path)


@pytest.mark.parametrize(("query", "names"), [
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
    ("//", []),  # the beginning of an expression for a slash
    ("lane:thread", [name for name, *_ in EVENTS]),
    ("nothing-like-it", []),
])  # fmt: skip
def test_queries(trace, query, names):
    search = Session([Recording(trace)]).search
    search.find(query)
    assert [trace.name_of(search.event(place).slice) for place in range(len(search))] == names


@pytest.mark.parametrize(
    "query", ["/(/", "dur:100us", "/" + "a" * 300 + "/", "/(?=a)/", "/\\1/", "/\ud800/", "a " * 2000]
)
def test_a_wrong_query_says_so_in_one_line(trace, query):
    with pytest.raises(QueryError) as caught:
        matches(trace, query)
    assert str(caught.value)
    assert "\n" not in str(caught.value)


HALF_TYPED = "/(a+)+$|[^b-d]{2,3}(?P<x>é)\\d\\.*?/"


def test_any_beginning_of_an_expression_is_an_answer_or_a_wrong_query(trace):
    for end in range(len(HALF_TYPED) + 1):
        with contextlib.suppress(QueryError):
            matches(trace, HALF_TYPED[:end])
    assert not matches(trace, HALF_TYPED).any()


def test_no_expression_takes_long(tmp_path):
    """Python's own engine would take years."""
    path = tmp_path / "t.json"
    path.write_text(
        json.dumps([{"ph": "X", "name": "a" * 32 + "!", "pid": 1, "tid": 1, "ts": 1, "dur": 1}] * 2)
    )
    found = load(path)
    for query, count in (("/(a+)+$/", 0), ("/(a|aa)+$/", 0), ("/(.*)*x/", 0), ("/^(a*)*!$/", 2)):
        assert matches(found, query).sum() == count


def test_without_the_library_for_expressions_they_are_refused_and_texts_are_found(trace, monkeypatch):
    """However hostile they are: Python's own engine is never asked."""
    monkeypatch.setitem(sys.modules, "re2", None)
    for query in ("/mm/", "/(a+)+$/", "name:/mm/", "/half typed"):
        with pytest.raises(QueryError, match=r"need an extra: pip install 'tracetui\[regex\]'"):
            matches(trace, query)
    assert [trace.name_of(i) for i in np.flatnonzero(matches(trace, "mm"))] == ["aten::mm"]


@pytest.mark.parametrize("pattern", [
    "mm", "^a", "d$", "cuda.*kernel", "[A-F]", "l{2}|g(?:elu|n)", "\\bmm\\b", "\\w+::\\w+", "(?i)GELU", ".",
    "\\s"
])  # fmt: skip
def test_ordinary_expressions_match_as_in_python(trace, pattern):
    expected = [bool(re.search(pattern, trace.name_of(i), re.IGNORECASE)) for i in range(len(trace))]
    assert matches(trace, f"name:/{pattern}/").tolist() == expected


def test_words():
    assert split('a "b c" /d e/ -name:/f g/ dur>1ms') == ["a", "b c", "/d e/", "-name:/f g/", "dur>1ms"]
    assert split("/unfinished and") == ["/unfinished and"]


def test_times():
    assert [parse_time(t) for t in ("5", "5us", "1.5ms", "2 s", "1,000 ns")] == [5e3, 5e3, 1.5e6, 2e9, 1e3]
    assert [parse_time(t) for t in ("5\u00b5s", "5\u03bcs", ".5us", "-2ms", "1.1us")] == [
        5e3, 5e3, 500, -2e6, 1.1e3
    ]  # fmt: skip
    for text in ("soon", "", "us", "5 us 3", "1e3", "1" * 41):
        with pytest.raises(QueryError, match="250us"):
            parse_time(text)


def test_walking_goes_around_both_ends(trace):
    session = Session([Recording(trace)])
    search, navigator = session.search, session.navigator
    assert search.next(1) is None
    search.find("aten")
    first, second = (search.event(place).slice for place in range(len(search)))

    def next_from(selected: int | None, step: int) -> int | None:
        navigator.select(selected, reveal=False)
        return search.next(step)

    navigator.show(0, 2_400_000)
    assert next_from(None, 1) == 0
    assert next_from(first, 1) == 1
    assert next_from(second, 1) == 0
    assert next_from(first, -1) == 1
    other = int(np.flatnonzero(trace.start == 220_000)[0])
    assert next_from(other, 1) == 0
    assert next_from(other, -1) == 1


def test_from_the_left_edge_of_the_view(trace):
    session = Session([Recording(trace)])
    session.search.find("aten")
    session.navigator.show(160_000, 190_000)
    assert session.search.next(1) == 1
    assert session.search.next(-1) == 0


def test_a_wrong_query_leaves_the_search_as_it_was(trace):
    session = Session([Recording(trace)])
    session.search.find("aten")
    with pytest.raises(QueryError):
        session.search.find("/(/")
    assert session.search.query == "aten"
    assert len(session.search) == 2
    session.search.clear()
    assert not session.search
    assert len(session.search) == 0
    assert session.navigator.scene.source.matches is None


def test_an_expression_that_is_not_finished_is_searched_as_it_is(tmp_path):
    trace = trace_of(tmp_path, cpu("mm", 0, 5), cpu("mul", 10, 5), cpu("a/b", 20, 5))
    for query, found in (("/mm", [0]), ("/m", [0, 1]), ("/m/", [0, 1]), ("/", [2]), ("name:/mu", [1])):
        assert np.flatnonzero(matches(trace, query)).tolist() == found, query
