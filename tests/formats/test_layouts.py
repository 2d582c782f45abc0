"""The same events in every layout that a file may have."""

import gzip
import io
import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracetui.core.errors import NOT_A_TRACE
from tracetui.formats import source
from tracetui.formats.chrome_json import layout
from tracetui.trace import Cancelled, Trace, TraceError, load

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Event = dict[str, Any]
EVENTS: list[Event] = [
    {"ph": "X", "cat": "cpu_op", "name": "a }, { b", "pid": 7, "tid": 7, "ts": 10.5, "dur": 5.25,
     "args": {"External id": 3, "list": [{"ph": "X", "ts": 1}, {"x": "},\n  {"}], "text": "\\\" ] } ,"}},
    {"name": "thread_name", "ph": "M", "pid": 7, "tid": 7, "ts": 0, "args": {"name": "thread 7 (main)"}},
    {"ph": "X", "cat": "kernel", "name": "ünïcödé \U0001f600", "pid": 0, "tid": 7, "ts": 20.001, "dur": 0.999,
     "args": {"External id": 3, "correlation": 9}},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": 11, "dur": 1,
     "args": {"correlation": 9, "External id": 3}},
    {"ph": "i", "name": "mark", "pid": 7, "tid": 7, "ts": 12, "s": "t"},
    {"ph": "C", "name": "memory", "pid": 7, "ts": 13, "args": {"used": 4, "free": 5.5}},
    {"ph": "B", "name": "open", "pid": 7, "tid": 8, "ts": 1},
    {"ph": "E", "name": "open", "pid": 7, "tid": 8, "ts": 4},
]  # fmt: skip
TOP = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU", "list": [{"a": 1}, {"b": 2}]}]}
TAIL = {"traceName": "x ] } .json", "displayTimeUnit": "ms", "baseTimeNanoseconds": 1_000}


def joined(events: list[Event], between: str, indent: int | None = None) -> str:
    return between.join(json.dumps(e, indent=indent) for e in events)


LAYOUTS: dict[str, Callable[[list[Event]], str]] = {
    "json.dumps": lambda events: json.dumps({**TOP, "traceEvents": events, **TAIL}),
    "tight": lambda events: json.dumps({**TOP, "traceEvents": events, **TAIL}, separators=(",", ":")),
    "pretty": lambda events: json.dumps({**TOP, "traceEvents": events, **TAIL}, indent=2),
    "one a line": lambda events: (
        '{"traceEvents": [\n' + joined(events, ",\n") + "\n], " + json.dumps(TAIL)[1:]
    ),
    "kineto": lambda events: (
        json.dumps(TOP, indent=2)[:-2] + ',\n  "traceEvents": [\n  ' + joined(events, ",\n  ", 4).replace(
            "\n}", "\n  }"
        ) + "\n  ],\n" + json.dumps(TAIL)[1:]
    ),
    "keys first": lambda events: json.dumps({**TOP, **TAIL, "traceEvents": events}),
    "keys last": lambda events: json.dumps({"traceEvents": events, **TOP, **TAIL}),
    "crlf": lambda events: json.dumps({**TOP, "traceEvents": events, **TAIL}, indent=1).replace("\n", "\r\n"),
    "byte order mark": lambda events: "\ufeff" + json.dumps({**TOP, "traceEvents": events, **TAIL}),
    "bare array": lambda events: json.dumps(events, indent=1),
    "bare, never closed": lambda events: "[\n" + joined(events, ",\n"),
    "bare, closed by a comma": lambda events: "[" + joined(events, ",\n") + ",\n",
    "name of the key in a string": lambda events: json.dumps(
        {"note": '"traceEvents": [', "inner": {"traceEvents": [1]}, "traceEvents": events, **TAIL}
    )
}  # fmt: skip


def facts(trace: Trace) -> dict[str, Any]:
    """What must not depend on the layout."""
    return {
        "phases": dict(trace.phases),
        "slices": [
            (
                trace.name_of(i), int(trace.start[i]), int(trace.duration[i]), trace.lanes[trace.lane[i]].name
            ) for i in range(len(trace))
        ],
        "events": [trace.event(i) for i in range(len(trace))], "launch": trace.launch.tolist(),
        "op": trace.op.tolist(),
        "instants": [
            (int(t), trace.names[n]) for t, n in zip(trace.instants.start, trace.instants.name, strict=True)
        ],
        "counters": (
            trace.counters.series_names, trace.counters.value.tolist(), trace.counters.start.tolist()
        ),
        "notices": [n.kind for n in trace.notices if n.kind != "open_array"]
    }  # fmt: skip


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [64, 300, 1 << 18])
def test_layout_does_not_matter(layout, size, zipped, tmp_path, load_in):
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": EVENTS * 3}))
    expected = facts(load(path))
    assert len(expected["slices"]) == 12
    data = LAYOUTS[layout](EVENTS * 3).encode()
    path.write_bytes(gzip.compress(data) if zipped else data)
    trace = load_in(path, size)
    assert facts(trace) == expected
    if "bare" not in layout:
        assert trace.info.base_ns == 1_000
    assert trace.info.text_size == len(data)
    assert trace.info.size == path.stat().st_size


texts = st.text(alphabet=st.sampled_from('{}[]",:\\ \n\té\u202eabph'), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)  # fmt: skip


@settings(max_examples=75, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rows=st.lists(
        st.tuples(texts, st.integers(0, 10**6), st.integers(0, 10**4), values), min_size=1, max_size=12
    ),
    layout=st.sampled_from(sorted(LAYOUTS)), size=st.integers(10, 4000)
)  # fmt: skip
def test_any_text_in_any_layout_and_chunking(rows, layout, size, tmp_path, load_in):
    events = [
        {"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": {"value": value}}
        for name, ts, dur, value in rows
    ]
    path = tmp_path / "trace.json"
    path.write_bytes(LAYOUTS[layout](events).encode())
    trace = load_in(path, size)
    found = sorted(json.dumps(trace.event(i)) for i in range(len(trace)))
    assert found == sorted(json.dumps(e) for e in events)
    assert [n.kind for n in trace.notices] in ([], ["open_array"])


def test_standard_input(monkeypatch, tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(LAYOUTS["kineto"](EVENTS))
    expected = facts(load(path))
    for pack in (bytes, gzip.compress, zstd.compress):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(pack(path.read_bytes()))))
        trace = load("-")
        assert facts(trace) == expected
        assert trace.info.path == "-"


def test_progress_and_cancelling(tmp_path, event):
    for pack in (bytes, gzip.compress, zstd.compress):
        path = tmp_path / "trace"
        path.write_bytes(pack(json.dumps({"traceEvents": [event(ts=i) for i in range(20_000)]}).encode()))
        calls: list[tuple[int, int]] = []
        load(path, lambda done, total, calls=calls: calls.append((done, total)))  # type: ignore[misc]
        assert calls[-1] == (path.stat().st_size,) * 2
        assert {total for _, total in calls} == {path.stat().st_size}
        assert [done for done, _ in calls] == sorted(done for done, _ in calls)
        with pytest.raises(Cancelled):
            load(path, lambda done, total: False)


@pytest.mark.parametrize(("content", "message"), [
    (b"", "is empty"), (b"  \n", NOT_A_TRACE), (b"{}", "is JSON, but has no traceEvents"),
    (b"[]", "is JSON, but has no trace events"), (b"[1, 2]", "is JSON, but has no trace events"),
    (b'[{"a": 1}]', "is JSON, but has no trace events"), (b'"text"', "is JSON, but has no traceEvents"),
    (b"null", "is JSON, but has no traceEvents"),
    (b'{"traceEvents": 5}', "is JSON, but its traceEvents is not an array"),
    (b'{"traceEvents": {}}', "is JSON, but its traceEvents is not an array"),
    (b'{"traceEvents": [1, "x"]}', "is JSON, but has no trace events"),
    (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, NOT_A_TRACE), (b"\x1f\x8b", NOT_A_TRACE),
    (b"\x1f\x8b\x08\x00" + b"a" * 30, NOT_A_TRACE), (gzip.compress(b"", mtime=0), NOT_A_TRACE),
    (gzip.compress(b"hello", mtime=0), NOT_A_TRACE), (b"\x00" * 100, NOT_A_TRACE),
    (b"[" * 100_000, "is JSON, but has no trace events")
])  # fmt: skip
def test_what_is_no_trace(content, message, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: {message}"


def test_what_cannot_be_opened(tmp_path):
    for path in (tmp_path, tmp_path / "missing.json", tmp_path / "x\x1b[31m\n.json", tmp_path / "a\x00b"):
        with pytest.raises(TraceError) as caught:
            load(path)
        assert str(caught.value).isprintable()


def test_an_empty_trace_opens(tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(b'{"traceEvents": [], "displayTimeUnit": "ns"}')
    trace = load(path)
    assert (len(trace), trace.events, trace.lanes, trace.notices) == (0, 0, (), ())
    assert trace.info.properties == {"displayTimeUnit": "ns"}
    assert trace.span == (0, 0)


def test_a_header_that_is_too_long_is_what_is_told(trace_of, monkeypatch):
    monkeypatch.setattr(layout, "_SEARCHED", 1 << 16)
    whole = b'{"note":"%s","traceEvents":[' + b'{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":1}' + b"]}"
    assert len(trace_of(whole % (b"x" * 60_000))) == 1
    with pytest.raises(TraceError, match="has no traceEvents in its first 64 MB: tracetui looks for them no"):
        trace_of(whole % (b"x" * 70_000))


Make = Callable[..., Event]
Load = Callable[..., Trace]


def test_what_the_file_says_of_itself(trace_of, event):
    told = {
        "deviceProperties": [{"id": 0, "name": "H"}, "no object"], "distributedInfo": {"rank": 1},
        "record_shapes": 1, "traceName": "x" * 4096, "long": "x" * 4097, "list": [1], "baseTimeNanoseconds": 5
    }  # fmt: skip
    trace = trace_of(json.dumps(told | {"traceEvents": [event(ts=1)]}).encode())
    assert trace.info.devices == ({"id": 0, "name": "H"},)
    assert trace.info.distributed == {"rank": 1}
    assert trace.info.properties == {"record_shapes": 1, "traceName": "x" * 4096}
    assert (trace.info.base_ns, trace.info.zero_ns) == (5, 1005)
    assert trace.events == 1


def test_devices_as_older_files_have_them(trace_of, event):
    """PyTorch 1.9 used other names."""
    device = {"id": 0, "name": "Tesla V100", "major": 7, "minor": 0, "multiProcessorCount": 80}
    trace = trace_of(json.dumps({"computeProperties": [device], "traceEvents": [event(ts=1)]}).encode())
    (found,) = trace.info.devices
    assert (found["name"], found["computeMajor"], found["computeMinor"], found["numSms"]) == (
        "Tesla V100", 7, 0, 80
    )  # fmt: skip


def test_a_block_device_is_no_trace(tmp_path, monkeypatch):
    path = tmp_path / "t.json"
    path.write_text("[]")
    monkeypatch.setattr(source.stat, "S_ISBLK", lambda mode: True)
    with pytest.raises(TraceError, match="is a device, not a trace"):
        load(path)
