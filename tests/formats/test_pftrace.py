"""Reads .pftrace: against Perfetto's own descriptors, and against the JSON of the same program."""

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats import packets
from tests.formats import perfetto_oracle as oracle

from tracetui.formats.pftrace.event_reader import FileReader
from tracetui.session.folder import traces_in
from tracetui.trace import Trace, TraceError, load
from tracetui.views.write_json import write_json

ROOT = Path(__file__).resolve().parent.parent.parent
OWN = ROOT / "tests" / "data" / "pytorch215"
SHARED = ROOT.parent / "shared" / "traces" / "pytorch215"
RECORDED = sorted(OWN.glob("*.pftrace.gz")) + sorted(SHARED.glob("**/*.pftrace.gz"))
KINDS = {
    "Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Annotation": "gpu_user_annotation",
}  # fmt: skip


def rows(trace: Trace) -> list[tuple[str, int, int]]:
    zero = trace.info.zero_ns
    return sorted(
        (trace.name_of(i), int(trace.start[i]) + zero, int(trace.duration[i])) for i in range(len(trace))
    )


def shown(one: oracle.Slice) -> str:
    """Its name; a memset's with its kind of memory, 3 for the device, as Kineto writes it."""
    return "Memset (Device)" if one.name == "Memset" and one.args.get("memory kind") == "3" else one.name


def bare(name: str) -> str:
    """A copy's or a memset's name as Cuspy writes it."""
    return name.partition(" ")[0] if name.startswith(("Memcpy ", "Memset ")) else name


def as_in_json(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments of GPU work under their names in JSON."""
    named = {"device id": "device", "stream id": "stream", "context id": "context"}
    texts = ("arch", "process_name")
    return {named.get(k, k): v if k in texts else int(v) for k, v in args.items()}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_slice_is_as_perfetto_says(path):
    trace, wanted = load(path), oracle.slices(oracle.trace_of(path))
    assert trace.notices == ()
    assert rows(trace) == sorted((shown(one), one.start, one.duration) for one in wanted)
    events = trace.reader.read(trace.source.tolist())
    base = trace.info.zero_ns - (trace.info.base_ns or 0)
    mine: dict[tuple[str, int, int], list[Any]] = {}
    for i, event in enumerate(events):
        assert (event["ph"], event["name"]) == ("X", bare(trace.name_of(i)))
        assert event["cat"] == trace.categories[trace.category[i]]
        assert round(event["ts"] * 1000) == trace.start[i] + base
        assert round(event["dur"] * 1000) == trace.duration[i]
        key = trace.name_of(i), int(trace.start[i]) + trace.info.zero_ns, int(trace.duration[i])
        mine.setdefault(key, []).append((event["cat"], event["args"]))
    for one in wanted:
        found = mine[shown(one), one.start, one.duration]
        if one.category in KINDS:
            args = as_in_json(one.name, one.args)
            assert any(cat == KINDS[one.category] and args.items() <= has.items() for cat, has in found)
        else:
            assert any(
                (cat, has) == (one.category, one.args) or cat in ("cuda_sync", "overhead")
                for cat, has in found
            )


@pytest.mark.parametrize(
    "pair", [(OWN / "cuspy_training.pftrace.gz", OWN / "cuspy_training.json.gz")],
    ids=lambda pair: pair[0].name
)  # fmt: skip
def test_the_same_program_as_json_has_the_same_ops_and_kernels(pair):
    def counted(trace: Trace) -> Counter[tuple[str, str]]:
        return Counter(
            (trace.categories[c], bare(trace.names[n]))
            for c, n in zip(trace.category.tolist(), trace.name.tolist(), strict=True)
            if trace.categories[c] not in ("Trace", "cuda_sync")
        )

    mine, theirs = map(load, pair)
    assert counted(mine) == counted(theirs)
    lanes = [
        [(lane.tid, lane.kind) for lane in trace.lanes if lane.kind not in ("span", "sync")]
        for trace in (mine, theirs)
    ]
    assert lanes[0] == lanes[1]


def test_the_arguments_of_a_kernel_have_the_names_of_json():
    mine, theirs = load(OWN / "cuspy_training.pftrace.gz"), load(OWN / "cuspy_training.json.gz")
    for category in ("kernel", "gpu_memset", "cpu_op", "cuda_runtime"):
        found = []
        for trace in (mine, theirs):
            i = next(i for i in range(len(trace)) if trace.categories[trace.category[i]] == category)
            found.append(set(trace.args(i)))
        assert found[1] - found[0] <= {"priority", "value", "flags"}, category


def made(tmp_path: Path, name: str) -> Trace:
    path = tmp_path / f"{name}.pftrace"
    path.write_bytes(packets.ALL[name]())
    return load(path)


def slices_of(trace: Trace) -> list[tuple[str, str, str, str, int, int]]:
    """(process, lane, category, name, start, duration)."""
    return [
        (
            trace.processes[lane.process].name or trace.processes[lane.process].pid, lane.name,
            trace.categories[trace.category[i]], trace.name_of(i), int(trace.start[i]), int(trace.duration[i])
        ) for lane in trace.lanes for i in range(lane.first, lane.last)
    ]  # fmt: skip


def flows_of(trace: Trace) -> set[tuple[str, str]]:
    pairs = zip(trace.flow_from.tolist(), trace.flow_to.tolist(), strict=True)
    return {(trace.name_of(one), trace.name_of(other)) for one, other in pairs}


def test_tracks_of_every_kind(tmp_path):
    trace = made(tmp_path, "tracks")
    assert slices_of(trace) == [
        ("server", "thread 78 (worker)", "net,rpc", "outer", 0, 100),
        ("server", "thread 78 (worker)", "", "inner", 10, 50),
        ("server", "process", "", "of the process", 60, 10),
        ("server", "requests / GET /", "", "one", 20, 70), ("server", "requests / GET /", "", "two", 30, 65),
        ("Tracks", "alone", "", "on its own", 41, 10)
    ]  # fmt: skip
    assert trace.info.zero_ns == packets.EPOCH
    assert [trace.names[n] for n in trace.instants.name.tolist()] == ["now"]
    assert flows_of(trace) == {("inner", "one"), ("one", "on its own"), ("on its own", "of the process")}
    counters = trace.counters
    assert counters.series_names == ("memory (bytes)", "requests done (requests)", "load")
    assert counters.value.tolist() == [3072.0, 7168.0, 2.0, 4.0, 6.0, 0.5]
    assert not trace.notices


def test_sequences_with_defaults_and_clocks_of_their_own(tmp_path):
    trace = made(tmp_path, "sequences")
    rows = slices_of(trace)
    one = [("prog", "thread 51 (one)", "a,b", "first of one", 6000 * n, 3000) for n in range(4)]
    assert rows[:4] == one
    names = ["first of two"] * 2 + ["second of two"] * 2
    categories = ["a,b"] * 2 + ["c,d"] * 2
    assert [row[2:4] for row in rows[4:]] == list(zip(categories, names, strict=True))
    assert [row[4:] for row in rows[4:]] == [(1000 + 8000 * n, 4000) for n in range(4)]
    assert trace.correlation.tolist() == [100, 101, 102, 103, 200, 201, -1, -1]
    assert trace.args_of(list(range(8)))[1] == {"correlation": 101, "said": "a word"}, "those of the end, too"
    assert [notice.kind for notice in trace.notices] == ["not_read", "dropped"]
    assert "1 ftrace_events, 1 process_stats" in trace.notices[0].text


def test_the_gpu_work_of_other_writers(tmp_path):
    trace = made(tmp_path, "gpu")
    assert [row[1:] for row in slices_of(trace)] == [
        ("queue 0 of old", "render", "render", 500, 11), ("queue A", "Vertex", "Vertex", 0, 60),
        ("queue A", "kernel", "Dispatch", 100, 60), ("queue A", "Vertex", "named", 200, 60),
        ("queue A", "kernel", "Dispatch", 300, 60)
    ]  # fmt: skip
    assert [lane.device for lane in trace.lanes] == [0, 1]
    pairs = zip(trace.flow_from.tolist(), trace.flow_to.tolist(), strict=True)
    assert sorted((int(trace.start[a]), int(trace.start[b])) for a, b in pairs) == [
        (0, 100), (100, 200), (200, 300)
    ]  # fmt: skip
    assert (trace.counters.series_names, trace.counters.value.tolist()) == (("GPU busy",), [1.5, 2.5])
    assert trace.info.devices == ({"id": 0, "name": "Model X"},)


def test_copies_and_memsets_are_named_by_their_arguments(tmp_path, monkeypatch):
    monkeypatch.setattr(FileReader, "read", lambda *_: pytest.fail("no packet is read a second time"))
    found = sorted(slices_of(made(tmp_path, "transfers")), key=lambda row: row[4])
    assert [name for *_, name, _, _ in found] == [
        "Memcpy HtoD (Pinned -> Device)", "Memset (Pinned)", "Memcpy", "Memcpy", "Memset", "Memset", "other",
        "Memset (Device Static)",
    ]  # fmt: skip


def test_arguments_of_every_type(tmp_path):
    args = made(tmp_path, "arguments").args(0)
    assert str(args.pop("deep")).count("[") == 33, "100 are in the file"
    assert args == {
        "bool_value": True, "uint_value": 1 << 63, "int_value": -5, "double_value": 0.25,
        "string_value": "text", "pointer_value": "0xff", "legacy_json_value": '{"a": 1}',
        "nested": {"list": [1, 2]}, "older": {"k": 3}
    }  # fmt: skip


def test_ends_in_the_order_of_begins_are_told_from_nested_ones(tmp_path):
    """Cuspy's lists: slices that touch, of no length, and that cross; and the same as nested events."""
    b = packets.Builder()
    b.thread(1, 1, 1)
    begins = [(0, 100), (10, 20), (20, 20), (20, 30), (90, 110)]
    for number, (begin, _) in enumerate(begins):
        b.event(begin, packets.BEGIN, 1, f"s{number}")
    for _, end in begins:
        b.event(end, packets.END, 1)
    path = tmp_path / "listed.pftrace"
    path.write_bytes(b.bytes())
    trace = load(path)
    found = {trace.name_of(i): (int(trace.start[i]), int(trace.duration[i])) for i in range(len(trace))}
    assert found == {f"s{n}": (a, e - a) for n, (a, e) in enumerate(begins)}
    b = packets.Builder()
    b.thread(1, 1, 1)
    for time, kind, name in ((0, 1, "a"), (10, 1, "b"), (20, 2, ""), (20, 1, "c"), (20, 2, ""), (30, 2, "")):
        b.event(time, kind, 1, name)
    path.write_bytes(b.bytes())
    trace = load(path)
    found = {trace.name_of(i): (int(trace.start[i]), int(trace.duration[i])) for i in range(len(trace))}
    assert found == {"a": (0, 30), "b": (10, 10), "c": (20, 0)}


@pytest.mark.parametrize("path", sorted(OWN.glob("*.pftrace.gz")), ids=lambda path: path.name)
def test_repair_writes_json_that_is_the_same_trace(path, tmp_path):
    trace, out = load(path), tmp_path / "clean.json"
    count = write_json(trace, out)
    again = load(out)
    assert again.events == count
    for name in ("start", "duration", "correlation", "external_id", "depth", "parent", "launch"):
        assert np.array_equal(getattr(trace, name), getattr(again, name)), name
    assert slices_of(trace) == slices_of(again)
    assert trace.counters.value.tolist() == again.counters.value.tolist()
    assert (trace.info.zero_ns, trace.info.devices) == (again.info.zero_ns, again.info.devices)
    assert not again.notices
    assert trace.args_of(range(len(trace))) == again.args_of(range(len(trace)))


def test_the_rank_and_the_device_are_said(tmp_path):
    assert load(OWN / "cuspy_graph.pftrace.gz").info.devices == (
        {"id": 0, "name": "sm_90", "computeMajor": 9, "computeMinor": 0},
    )
    b = packets.Builder()
    b.thread(1, 1, 1)
    for name, rank, ranks in (("tp", 0, "[3, 5]"), ("0", 5, "[]")):
        event = b.event(0, packets.BEGIN, 1, "record_param_comms").track_event
        for key, value in (("Process Group Name", name), ("Process Group Ranks", ranks)):
            note = event.debug_annotations.add()
            note.name, note.string_value = key, value
        for key, number in (("Rank", rank), ("Group size", 8)):
            note = event.debug_annotations.add()
            note.name, note.int_value = key, number
        b.event(1, packets.END, 1)
    path = tmp_path / "rank.pftrace"
    path.write_bytes(b.bytes())
    assert load(path).info.distributed == {"rank": 5, "world_size": 8}


def load_of(data: bytes, tmp_path: Path) -> Trace:
    path = tmp_path / "whole.pftrace"
    path.write_bytes(data)
    return load(path)


def test_what_is_wrong_is_one_line_or_a_notice(tmp_path):
    path = tmp_path / "a.pftrace"
    whole = packets.tracks()

    def kinds(data: bytes) -> dict[str, int]:
        path.write_bytes(data)
        return {notice.kind: notice.count for notice in load(path).notices}

    assert kinds(whole[:-3]) == {"truncated": 1}
    assert kinds(whole[:-3] + b"\x00" * 1000) == {"broken_event": 1}
    middle = whole[: len(whole) // 2]
    assert "broken_event" in kinds(middle + b"\xff" * 50 + whole)
    assert kinds(whole + packets.tracks()[:0] + b"\x0a\x04\x08\x01\x0b\x0b")["broken_event"] == 1
    assert kinds(whole + b"\x0a\x03\xe0\x3e\x01") == {"not_read": 1}
    for length in (b"\xff\xff\x0f", b"\xff\xff\xff\xff\x0f"):  # longer than the rest, and than any packet
        damaged = kinds(middle + b"\x0a" + length + whole)
        assert damaged["broken_event"] >= 1
        assert "truncated" not in damaged
        assert len(load(path)) > len(load_of(whole, tmp_path)), "what follows is read"
    b = packets.Builder()
    b.thread(1, 1, 1)
    b.slice(0, 5, 1, "known")
    b.slice(0, 5, 99, "on an unknown track")
    b.event(5, packets.BEGIN, 1, name_iid=7)
    b.event(6, packets.END, 1)
    b.event(7, packets.END, 1)
    b.packet(None).track_event.type = packets.INSTANT
    for name in ("x", "y"):
        b.packet().interned_data.event_names.add(iid=1, name=name)
    assert kinds(packets.tracks().replace(b"inner", b"in\xffer")) == {"bad_utf8": 1}
    many = packets.Builder()
    many.thread(1, 1, 1)
    many.slice(0, 5, 1, "busy", flow_ids=list(range(1, 300)))
    assert kinds(many.bytes()) == {"not_read": 1}
    assert kinds(b.bytes()) == {"no_time": 1, "undescribed": 2, "unopened": 1, "defined_twice": 1}
    path.write_bytes(packets.Builder().bytes() or b"\x0a\x02\x50\x01")
    with pytest.raises(TraceError, match=r"a\.pftrace: is a Perfetto trace without events"):
        load(path)


def test_absurd_times_are_kept_within_bounds(tmp_path):
    b = packets.Builder()
    b.thread(1, 1, 1)
    b.slice(0, 5, 1, "sound")
    b.made.add_packet().CopyFrom(b.event(0, packets.BEGIN, 1, "absurd"))
    for packet in b.made.trace.packet[-2:]:
        packet.timestamp = (1 << 64) - 1
    path = tmp_path / "a.pftrace"
    path.write_bytes(b.bytes())
    trace = load(path)
    assert int(trace.start[[trace.name_of(i) for i in range(len(trace))].index("sound")]) == 0
    assert trace.implausible.any()


def test_traces_of_a_folder_are_found(tmp_path):
    (tmp_path / "a.pftrace").write_bytes(packets.tracks())
    (tmp_path / "b.pftrace").write_bytes(b"something else")
    (tmp_path / "c.pftrace.gz").write_bytes(gzip.compress(packets.gpu()))
    assert sorted(found.path.name for found in traces_in(tmp_path)) == ["a.pftrace", "c.pftrace.gz"]
