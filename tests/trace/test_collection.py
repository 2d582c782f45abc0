"""Every recorded trace, against an independent and slow reading of the same file."""

import gzip
import json
from collections import Counter
from decimal import Decimal
from functools import lru_cache
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracetui.trace import NO_ID, Kind, Trace, load

DATA = Path(__file__).resolve().parent.parent / "data"
ODD = ("ts0_half.json.gz", "two_long_kernels.json.gz")
"""Made up, with times that cannot be right; `writers` are of unusual writers, with tests of their own."""
HEALTHY = [p for p in DATA.rglob("*.json.gz") if p.name not in ODD and p.parent.name != "writers"]
COLLECTION = Path(__file__).resolve().parents[3] / "shared" / "traces"
FILES = sorted([*HEALTHY, *COLLECTION.glob("wild/*.json*"), *COLLECTION.glob("wild/*/*worker0*.json")])
LARGE = 1_000_000
"""Bytes: larger ones are for the long run."""
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "cuda_sync", "concurrent_kernel")
RUNTIME = ("cuda_runtime", "cuda_driver", "runtime")
OPS = ("cpu_op", "operator")

# Of scope "module", so that the tests of one file come one after another and share what is read of it.
each_file = pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.long] if path.stat().st_size > LARGE else []) for path in FILES],
    ids=lambda path: path.name.split(".")[0], scope="module"
)  # fmt: skip


@lru_cache(maxsize=2)
def loaded(path: Path) -> Trace:
    return load(path)


Event = dict[str, Any]


class Number(str):
    """A number with a point, as it stands in the file: made in less time than a `Decimal`."""

    __slots__ = ()


@lru_cache(maxsize=2)
def read(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    try:
        data = json.loads(text, parse_float=Number)
    except json.JSONDecodeError:
        data = json.loads(text + b"]", parse_float=Number)
    events: list[dict[str, Any]] = data["traceEvents"] if isinstance(data, dict) else data
    return events


def nanoseconds(value: Any) -> int:
    if type(value) is int:
        return value * 1000
    whole, _, digits = value.partition(".")
    if len(digits) == 3 and digits.isdigit() and whole.isdigit():
        return int(whole + digits)
    return round(Decimal(value) * 1000)


def with_floats(value: Any) -> Any:
    """As `json.loads` gives it by itself."""
    if isinstance(value, dict):
        return {key: with_floats(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [with_floats(inner) for inner in value]
    return float(value) if isinstance(value, Number) else value


def absolute(trace: Trace) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Starts on the file's own clock."""
    return trace.start + (trace.info.zero_ns - (trace.info.base_ns or 0))


Row = tuple[str, int, int]


@lru_cache(maxsize=2)
def rows(path: Path) -> list[Row]:
    """(name, start on the file's own clock, duration) of every slice."""
    trace = loaded(path)
    names = list(trace.names)
    columns = (trace.name.tolist(), absolute(trace).tolist(), trace.duration.tolist())
    return [(names[name], start, duration) for name, start, duration in zip(*columns, strict=True)]


def shown_name(event: Event) -> str:
    """The event's name; for Cuspy's copies and memsets with their kinds."""
    name: str = event.get("name", "")
    args = event.get("args") or {}
    if name == "Memcpy" and "copy kind" in args:
        return f"Memcpy {args['copy kind']} ({args['src kind'].title()} -> {args['dst kind'].title()})"
    if name == "Memset" and "memory kind" in args:
        return f"Memset ({('', '', '', 'Device')[args['memory kind']]})"
    return name


def synchronous(trace: Trace) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Mask of the slices that are no asynchronous pairs."""
    return np.array([lane.kind != "async" for lane in trace.lanes], dtype=np.bool_)[trace.lane]


@each_file
def test_no_slice_is_lost(path):
    trace, events = loaded(path), read(path)
    assert trace.phases == Counter(e["ph"] for e in events)
    expected = Counter(
        (shown_name(e), nanoseconds(e["ts"]), nanoseconds(e.get("dur", e.get("tdur", 0)))) for e in events
        if e["ph"] == "X"
    )  # fmt: skip
    begins = Counter((e.get("name", ""), nanoseconds(e["ts"])) for e in events if e["ph"] == "B")
    mine = synchronous(trace)
    found = Counter(compress(rows(path), mine.tolist()))
    rest = found - expected
    assert not expected - found
    assert Counter((name, start) for name, start, _ in rest.elements()) == begins
    assert int(mine.sum()) == trace.phases.get("X", 0) + trace.phases.get("B", 0)


@each_file
def test_pairs_end_where_a_stack_says(path):
    trace, events = loaded(path), read(path)
    stacks: dict[tuple[str, str], list[tuple[str, int]]] = {}
    expected: Counter[tuple[str, int, int]] = Counter()
    for e in sorted((e for e in events if e["ph"] in "BE"), key=lambda e: nanoseconds(e["ts"])):
        stack = stacks.setdefault((str(e["pid"]), str(e["tid"])), [])
        if e["ph"] == "B":
            stack.append((e["name"], nanoseconds(e["ts"])))
        elif stack:
            name, start = stack.pop()
            expected[name, start, nanoseconds(e["ts"]) - start] += 1
    assert not expected - Counter(rows(path))
    unclosed = sum(map(len, stacks.values()))
    assert sum(n.count for n in trace.notices if n.kind == "unclosed") == unclosed


def ops_of_calls(slices: list[Event], calls: list[Event]) -> dict[int, Event]:
    """The nearest op around each call, by `id` of the call: in the call's thread, or, if that has neither ops
    nor a name, in the one thread that has ops and no calls."""
    ops: dict[Any, list[Event]] = {}
    mine: dict[Any, list[Event]] = {}
    for e in slices:
        if (e.get("cat") or "").lower() in OPS:
            ops.setdefault((e["pid"], e["tid"]), []).append(e)
    for e in calls:
        mine.setdefault((e["pid"], e["tid"]), []).append(e)
    events: dict[int, Event] = {}
    for thread, own in mine.items():
        silent = [other for other in ops if other not in mine and other[0] == thread[0]]
        around = ops.get(thread) or (ops[silent[0]] if len(silent) == 1 else [])
        open_ops: list[tuple[int, Event]] = []
        both = [
            (nanoseconds(e["ts"]), -nanoseconds(e.get("dur", 0)), of, n)
            for of, some in enumerate((around, own))
            for n, e in enumerate(some)
        ]
        for start, minus, of, n in sorted(both):
            while open_ops and open_ops[-1][0] < start - minus:
                open_ops.pop()
            if of:
                if open_ops:
                    events[id(own[n])] = open_ops[-1][1]
            else:
                open_ops.append((start - minus, around[n]))
    return events


@each_file
def test_launches_and_ops(path):
    trace, events = loaded(path), read(path)

    def args(e: dict[str, Any]) -> dict[str, Any]:
        return e.get("args") or {}

    def external(e: dict[str, Any]) -> Any:
        return args(e).get("External id", args(e).get("external id"))

    slices = [e for e in events if e["ph"] == "X"]
    kinds = [(e.get("cat") or "").lower() for e in slices]
    launched = {args(e).get("correlation") for e, k in zip(slices, kinds, strict=True) if k in RUNTIME}
    ops = {external(e): e for e, k in zip(slices, kinds, strict=True) if k in OPS and external(e) is not None}
    slices_of_ops = [e for e, k in zip(slices, kinds, strict=True) if k in OPS]
    on_device = [e for e, k in zip(slices, kinds, strict=True) if k in DEVICE]
    assert int((trace.launch >= 0).sum()) == sum(
        args(e).get("correlation") in launched for e in on_device if "correlation" in args(e)
    )
    calls = [e for e, k in zip(slices, kinds, strict=True) if k in RUNTIME]
    of_calls = ops_of_calls(slices, calls)
    foreign = any(notice.kind == "foreign_ids" for notice in trace.notices)
    for e in calls:
        if not foreign and external(e) in ops:
            of_calls.setdefault(id(e), ops[external(e)])
    by_correlation = {args(e).get("correlation"): of_calls.get(id(e)) for e in calls}
    expected = Counter(of_calls[id(e)]["name"] for e in calls if id(e) in of_calls)
    for e in on_device:
        own, number = (None if foreign else ops.get(external(e))), args(e).get("correlation")
        if e["cat"] != "cuda_sync":
            own = by_correlation.get(number) or own
        elif external(e) == number is not None:
            own = None
        expected[own["name"] if own else ""] += 1
    del expected[""]
    assert Counter(trace.name_of(int(i)) for i in trace.op[trace.op >= 0]) == expected
    for column, target in ((trace.correlation, trace.launch), (trace.external_id, trace.op)):
        at = np.flatnonzero(target >= 0)
        assert (column[at] == column[target[at]]).all()
        assert (column[at] != NO_ID).all() or None in map(external, slices_of_ops)
    assert (trace.kind[trace.launch[trace.launch >= 0]] == Kind.RUNTIME).all()


@each_file
def test_columns_are_in_order_and_lanes_cover_them(path):
    trace = loaded(path)
    key = list(zip(trace.lane.tolist(), trace.start.tolist(), (-trace.duration).tolist(), strict=True))
    assert key == sorted(key)
    assert [lane.first for lane in trace.lanes[1:]] == [lane.last for lane in trace.lanes[:-1]]
    assert all(lane.last > lane.first for lane in trace.lanes)
    for number, lane in enumerate(trace.lanes):
        assert (trace.lane[lane.first : lane.last] == number).all()
        assert int(trace.depth[lane.first : lane.last].max()) + 1 == lane.rows
    inside = np.flatnonzero(trace.parent >= 0)
    above = trace.parent[inside]
    assert (trace.lane[inside] == trace.lane[above]).all()
    assert (trace.start[above] <= trace.start[inside]).all()
    end = trace.start + trace.duration
    assert (end[above] >= end[inside]).all()
    assert trace.span == (0, int(end.max()))
    assert not trace.implausible.any()


@each_file
def test_flows_join_what_the_file_joins(path):
    trace, events = loaded(path), read(path)
    ids: dict[Any, set[str]] = {}
    for e in events:
        if e.get("cat") == "fwdbwd":
            ids.setdefault(e["id"], set()).add(e["ph"])
    assert len(trace.flow_from) == sum(phases == {"s", "f"} for phases in ids.values())
    if len(trace.flow_from):
        assert trace.flow_kind == ("fwdbwd",)
        # Both ends are ops that begin at the flow's own times, and carry one sequence number.
        pairs = zip(trace.args_of(trace.flow_from), trace.args_of(trace.flow_to), strict=True)
        assert all(a["Sequence number"] == b["Sequence number"] for a, b in pairs)


@each_file
def test_args_come_back(path):
    trace = loaded(path)
    starts = absolute(trace)
    wanted = np.linspace(0, len(trace) - 1, 50, dtype=np.int64)
    found = [trace.event(int(i)) for i in wanted]
    at = {event["ts"] for event in found}
    events = [with_floats(event) for event in read(path) if float(event.get("ts", -1)) in at]
    for i, event in zip(wanted, found, strict=True):
        assert event in events
        assert trace.name_of(int(i)) == shown_name(event)
        assert abs(int(starts[i]) - round(float(event["ts"]) * 1000)) < 500
    assert trace.args_of(wanted) == [trace.args(int(i)) for i in wanted]


@pytest.mark.parametrize(("size", "workers"), [(700, 1), (40_000, 1), (40_000, 2)])
@each_file
def test_any_chunking_gives_the_same_columns(path, size, workers, load_in):
    whole = loaded(path)
    # A thousand chunks are enough of a large file.
    other = load_in(path, max(size, whole.info.text_size // 1000), workers, 300_000)
    assert_same(whole, other)
    assert some_args(path) == other.args_of(twenty(other))


def twenty(trace: Trace) -> list[int]:
    return list(range(0, len(trace), max(1, len(trace) // 20)))


@lru_cache(maxsize=2)
def some_args(path: Path) -> list[dict[str, Any]]:
    return loaded(path).args_of(twenty(loaded(path)))


def assert_same(a: Trace, b: Trace) -> None:
    """All columns but `source`, which counts chunks."""
    columns = (
        "start duration name category kind lane depth parent correlation external_id launch op implausible"
    )
    for column in [*columns.split(), "flow_from", "flow_to", "flow_category"]:
        np.testing.assert_array_equal(getattr(a, column), getattr(b, column), err_msg=column)
    for table in ("instants", "counters"):
        for column in ("start", "name", "category", "lane", "series", "value"):
            if hasattr(getattr(a, table), column):
                np.testing.assert_array_equal(
                    getattr(getattr(a, table), column), getattr(getattr(b, table), column)
                )
    assert list(a.names) == list(b.names)
    assert (a.lanes, a.processes, a.notices, a.phases) == (b.lanes, b.processes, b.notices, b.phases)
    assert a.info.properties == b.info.properties
