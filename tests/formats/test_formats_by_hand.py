"""Places of damage, headers cut anywhere, fields of odd types: each with the exact answer."""

from __future__ import annotations

import gzip
import itertools
import json
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracetui.core.columns import Columns
from tracetui.formats import source
from tracetui.formats.chrome_json import rows
from tracetui.formats.chrome_json.recover_text import decodes, is_event, is_incomplete, lenient, recover_text
from tracetui.formats.chrome_json.top_level import find_close, fits_end, top_level
from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.encodings import gzip as gzip_encoding
from tracetui.formats.encodings import zstd as zstd_encoding
from tracetui.formats.encodings.blocks import Blocks, Marked
from tracetui.formats.store import Store
from tracetui.trace import Trace, TraceError, load

Event = dict[str, Any]


def places(trace: Trace) -> dict[str, tuple[int, int]]:
    """Kind of notice to (count, offset of the first)."""
    return {notice.kind: (notice.count, notice.offset) for notice in trace.notices}


# Where things are, with chunks of all sizes


def text_of(pieces: list[bytes], after: bytes = b"]}") -> bytes:
    return b'{"traceEvents": [' + b", ".join(pieces) + after


@pytest.mark.parametrize("size", [64, 150, 1 << 18])
def test_places_are_those_of_the_text(
    size: int, tmp_path: Path, event: Callable[..., Event], load_in: Callable[..., Trace]
) -> None:
    sound = [json.dumps(event(ts=i, name=f"e{i}")).encode() for i in range(40)]
    path = tmp_path / "t.json"
    cases = {
        "not_an_event": text_of([*sound[:20], b'"word"', b"17", *sound[20:]]),
        "broken_event": text_of([*sound[:20], b'{"ph": "X", "ts": 1, "name": "x" "y"}', *sound[20:]]),
        "bad_escape": text_of([*sound[:20], rb'{"ph": "X", "ts": 1, "dur": 1, "name": "C:\d"}', *sound[20:]]),
        "second_array": text_of(
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
def test_what_is_sound_is_found_between_any_junk(
    seed: int, tmp_path: Path, event: Callable[..., Event], load_in: Callable[..., Trace]
) -> None:
    """Junk without quotes hides no event, whatever the chunks are."""
    rng = random.Random(seed)
    pieces = [json.dumps(event(ts=i, name=f"e{i}")).encode() for i in range(60)]
    text = b'{"traceEvents": ['
    for n, piece in enumerate(pieces):
        junk = bytes(rng.choice(b"x,;19 .-") for _ in range(rng.randrange(40))) if rng.random() < 0.2 else b""
        text += piece + (b", " if n < 59 else b"") + junk
    path = tmp_path / "t.json"
    path.write_bytes(text + b"]}")
    found = [load_in(path, size) for size in (50, 333, 1 << 18)]
    for trace in found:
        assert sorted(trace.name_of(i) for i in range(len(trace))) == sorted(f"e{i}" for i in range(60))
        assert all(notice.level != "lost" or notice.kind == "not_an_event" for notice in trace.notices)
        assert [trace.event(i)["name"] for i in range(60)] == [trace.name_of(i) for i in range(60)]


# Pieces of text


def test_what_is_an_event() -> None:
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


def test_endings() -> None:
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


def test_whether_more_must_follow() -> None:
    for text, expected in ((b'{"a": [1', True), (b'{"a"', True), (b"{}", False), (b"{]", False)):
        assert is_incomplete(text) is expected, text[:20]
    assert isinstance(is_incomplete(b"[" * 200_000), bool), "some versions of Python go so deep, others not"


def test_objects_with_bad_bytes() -> None:
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


def test_what_is_recovered_of_a_piece() -> None:
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


# Fields of odd types: one event of another type makes its chunk take the patient way


def test_fields_of_odd_types(trace_of: Callable[..., Trace], event: Callable[..., Event]) -> None:
    odd = event(ts=100, name=5, tid=1.0, cat=None, args=[1])
    trace = trace_of(
        [event(ts=0, name="a", dur=7), odd, event(ts=50, name="b", dur=3, args={"correlation": "12"})]
    )
    at = {trace.name_of(i): i for i in range(len(trace))}
    assert set(at) == {"a", "b", "5"}
    assert places(trace)["wrong_type"][0] == 1
    assert [int(trace.duration[at[name]]) for name in ("a", "b", "5")] == [7000, 3000, 1000]
    assert trace.correlation[at["b"]] == 12
    assert trace.correlation[at["a"]] == -1


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("dur", [1], 1), ("dur", "3", 0), ("dur", 3.5, 0), ("ts", {"a": 1}, 1), ("ts", "4", 0),
        ("pid", 1.5, 1),
        ("tid", [1], 1), ("tid", "x", 0), ("pid", None, 0), ("args", 4, 1), ("args", None, 0), ("name", 1, 1),
        ("name", None, 0), ("cat", 3, 1), ("cat", "new", 0),
    ],
)  # fmt: skip
def test_which_types_are_wrong(
    field: str, value: Any, wrong: int, trace_of: Callable[..., Trace], event: Callable[..., Event]
) -> None:
    # The first event sends the whole chunk the patient way.
    patient = event(ts=1, name="patient", args={"External id": "1"})
    trace = trace_of(
        [patient, event(ts=2, name="it") | {field: value}, event(ts=3, name="alone in its chunk")]
    )
    assert places(trace).get("wrong_type", (0, 0))[0] == wrong


@pytest.mark.parametrize("patient", [False, True])
@pytest.mark.parametrize(("value", "wrong"), [("long", 1), ("", 1), ({}, 1), (None, 1), ("3", 0)])
def test_a_duration_that_is_none_is_counted(
    value: Any, wrong: int, patient: bool, trace_of: Callable[..., Trace], event: Callable[..., Event]
) -> None:
    """However the chunk is decoded: by way of text, for its times, or the patient way."""
    first = event(ts=1, name="first") | ({"args": {"External id": "1"}} if patient else {"dur": "5"})
    trace = trace_of([first, event(ts=2, name="it", dur=value), event(ts=3, name="alone in its chunk")])
    assert places(trace).get("wrong_type", (0, 0))[0] == wrong


@pytest.mark.parametrize("patient", [False, True])
def test_flows_bind_to_what_encloses_them_or_follows(
    patient: bool, trace_of: Callable[..., Trace], event: Callable[..., Event]
) -> None:
    flow = {"cat": "mine", "name": "f", "pid": 1, "tid": 2, "id": 7}
    events = [
        event(ts=0, dur=10, name="from"),
        event(ts=20, dur=10, tid=2, name="around"),
        event(ts=40, dur=10, tid=2, name="after"),
        flow | {"ph": "s", "ts": 5, "tid": 1},
    ]
    odd = [event(ts=60, name="odd", args=[1])] if patient else []
    for more, target in (({"bp": "e"}, "around"), ({}, "after")):
        trace = trace_of([*events, flow | {"ph": "f", "ts": 25} | more, *odd])
        pairs = [
            (trace.name_of(a), trace.name_of(b))
            for a, b in zip(trace.flow_from.tolist(), trace.flow_to.tolist(), strict=True)
        ]
        assert pairs == [("from", target)], more


def test_labels_and_ids_of_any_type() -> None:
    for value, label in (
        (5, 5), (-5, -5), ((1 << 63) - 1, (1 << 63) - 1), (1 << 63, str(1 << 63)), (True, "true"), (None, ""),
        ("x", "x"), (3.0, "3"), (3.5, "3.5"), (float(1 << 53), "9007199254740992.0"), ([1, "a"], '[1,"a"]'),
        ("x" * 99_999, "x" * 99_999), (["x" * 99_999], '["' + "x" * 65_534),
    ):  # fmt: skip
        found = rows._label(value)
        assert (found, type(found)) == (label, type(label)), value
    for value, number in (
        (7, 7), (-7, -7), ((1 << 63) - 1, (1 << 63) - 1), (1 << 63, None), (-(1 << 63), -(1 << 63)),
        (True, None), (None, -1), ("12", 12), (" -12 ", -12), ("1" * 19, int("1" * 19)), ("1" * 20, None),
        ("x", None), (4.0, 4), ("1.5", None), (4.5, None), ([4], None), (1e30, None),
    ):  # fmt: skip
        assert rows._id(value) == number, value


def test_counts_of_phases_over_many_heads(
    trace_of: Callable[..., Trace], event: Callable[..., Event]
) -> None:
    """More heads than room was made for at first, new ones in every chunk."""
    events = [event(ts=i, tid=i % 400, cat=f"c{i % 7}", ph="XBEi"[i % 4]) for i in range(3000)]
    trace = trace_of(events)
    assert trace.phases == {"X": 750, "B": 750, "E": 750, "i": 750}
    store = Store()
    rng, expected = random.Random(1), dict[int, int]()
    for _ in range(50):
        low = rng.randrange(500)
        heads = [low + rng.randrange(90) for _ in range(rng.randrange(40))]
        store.count(np.array(heads, np.int32))
        for head in heads:
            expected[head] = expected.get(head, 0) + 1
    assert store.total == sum(expected.values())
    assert {i: n for i, n in enumerate(store._counts.tolist()) if n} == expected
    assert Store().is_empty
    assert not store.is_empty


# Compressed text


def test_a_gzip_header_cut_anywhere() -> None:
    for extra, name, comment, sum_up in itertools.product((0, 1), repeat=4):
        flags = 4 * extra | 8 * name | 16 * comment | 2 * sum_up
        header = b"\x1f\x8b\x08" + bytes([flags]) + b"\x00" * 6
        header += struct.pack("<H", 3) + b"abc" if extra else b""
        header += b"file\x00" if name else b""
        header += b"comment\x00" if comment else b""
        header += b"\x12\x34" if sum_up else b""
        body = header + zlib.compress(b"x")
        for cut in range(len(body)):
            expected = -1 if cut < 10 else None if cut < len(header) else len(header)
            assert gzip_encoding._header(body[:cut]) == expected, (flags, cut)
    assert gzip_encoding._header(b"\x1f\x8b\x07" + bytes(20)) == -1
    assert gzip_encoding._header(b"\x1f\x8c\x08" + bytes(20)) == -1


def test_frames_of_zstd_are_known_by_their_first_bytes() -> None:
    assert zstd_encoding.sniff(b"\x28\xb5\x2f\xfd...")
    for first in range(256):
        assert zstd_encoding.sniff(bytes([first]) + b"\x2a\x4d\x18") == (0x50 <= first <= 0x5F)
    assert not zstd_encoding.sniff(b"\x50\x2a\x4d\x19")


@pytest.mark.parametrize("block", [7, 100, 1 << 20])
def test_members_one_after_the_other(block: int, tmp_path: Path) -> None:
    rng = random.Random(block)
    texts = [bytes(rng.randrange(97, 110) for _ in range(rng.randrange(900))) for _ in range(6)]
    path = tmp_path / "t.gz"
    data = b"".join(map(gzip.compress, texts))
    for tail, kinds in (
        (b"", []),
        (b"\x00" * 50, []),
        (b"junk" * 9, ["trailing"]),
        (data[:5], ["truncated"]),
    ):
        path.write_bytes(data + tail)
        diagnostics = Diagnostics()
        with path.open("rb", buffering=0) as file:
            blocks = Blocks(gzip_encoding._MEMBERS, file, diagnostics, block)
            pieces = list(iter(blocks.next, b""))
            assert b"".join(pieces) == b"".join(texts)
            assert max(map(len, pieces)) <= block
            assert (blocks.produced, blocks.next()) == (sum(map(len, texts)), b"")
        assert list(diagnostics.found) == kinds
        if kinds:
            assert diagnostics.found[kinds[0]] == [1, sum(map(len, texts))]


def test_a_wrong_checksum_or_length_loses_nothing(tmp_path: Path) -> None:
    text = b"some text " * 50
    data = gzip.compress(text)
    path = tmp_path / "t.gz"
    for at in range(1, 9):
        path.write_bytes(data[:-at] + bytes([data[-at] ^ 1]) + data[len(data) - at + 1 :])
        diagnostics = Diagnostics()
        with path.open("rb", buffering=0) as file:
            assert b"".join(iter(Blocks(gzip_encoding._MEMBERS, file, diagnostics).next, b"")) == text
        assert list(diagnostics.found) == ["bad_checksum"]
    path.write_bytes(data[:-3])
    diagnostics = Diagnostics()
    with path.open("rb", buffering=0) as file:
        assert b"".join(iter(Blocks(gzip_encoding._MEMBERS, file, diagnostics).next, b"")) == text
    assert diagnostics.found == {"truncated": [1, len(text)]}


def test_any_part_of_compressed_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracetui.formats.encodings.blocks._SPACING", 200_000)
    rng = random.Random(3)
    text = bytes(rng.choices(b"abcdefgh", k=1_000_000))
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(text[:400_000], 1) + gzip.compress(text[400_000:], 1))
    with path.open("rb", buffering=0) as file:
        parts = Marked(gzip_encoding._MEMBERS, file, path.stat().st_size)
        for offset in (
            0,
            999_999,
            5,
            400_000,
            399_990,
            1_000_000,
            1_000_050,
            250_000,
            131_072,
            131_071,
            262_144,
        ):
            for length in (0, 1, 30, 200_000):
                assert parts.read(offset, length) == text[offset : offset + length], (offset, length)
        for _ in range(30):
            offset = rng.randrange(len(text))
            assert parts.read(offset, 100) == text[offset : offset + 100]
        assert 4 <= len(parts._marks) <= 7
        assert parts._marks[0][0] == 0


# What is kept


def test_columns_grow_with_what_is_added() -> None:
    rng = random.Random(1)
    for share in (0.0, 0.01, 0.5, 1.0):
        columns, expected = Columns({"a": np.int64, "b": np.int8}), list[int]()
        for _ in range(40):
            piece = [rng.randrange(100) for _ in range(rng.randrange(300))]
            columns.add(share, a=np.array(piece, np.int64), b=np.array(piece, np.int8))
            expected += piece
            assert len(columns) == len(expected)
            assert all(len(column) >= len(expected) for column in columns.arrays.values())
            # Not copied for every piece, nor without bound.
            assert len(columns.arrays["a"]) <= max(
                1024, 110 * len(expected) if share else 2 * len(expected) + 600
            )
        assert columns.take("a").tolist() == columns.take("b").tolist() == expected
        assert columns.take("a").dtype == np.int64


def test_notices_keep_the_first_place_and_the_first_detail() -> None:
    diagnostics = Diagnostics()
    diagnostics.note("comma", 50)
    diagnostics.note("comma", 20, 2, detail="one")
    diagnostics.note("comma", 90, detail="two")
    diagnostics.note("comma", -1)
    diagnostics.note("comma", 0, 0)
    diagnostics.note("stray")
    diagnostics.note("stray", 7)
    diagnostics.note("truncated", 5)
    other = Diagnostics()
    other.note("comma", 10, 4, detail="three")
    diagnostics.absorb(other)
    found = [(n.kind, n.count, n.offset) for n in diagnostics.notices()]
    assert found == [("truncated", 1, 5), ("stray", 2, 7), ("comma", 9, 10)]
    assert diagnostics.notices()[2].text == "an extra comma (one)"
    assert diagnostics.lost == 1


def test_notices_come_in_one_order() -> None:
    """Readers that find the same in another order say the same."""
    kinds = ["stray", "no_time", "no_duration", "comma", "truncated", "broken_event"]
    said = []
    for order in (kinds, kinds[::-1]):
        diagnostics = Diagnostics()
        for kind in order:
            diagnostics.note(kind, 1)
        said.append([notice.kind for notice in diagnostics.notices()])
    assert said[0] == said[1]
    assert said[0][:3] == ["broken_event", "truncated", "no_time"]


def test_ids_of_flows() -> None:
    tables = Store().tables
    assert tables.flow_ids([1, -5, (1 << 62) - 1]).tolist() == [1, -5, (1 << 62) - 1]
    other = 1 << 62
    for edge in (other, -other):
        assert Store().tables.flow_ids(["a", edge]).tolist() == [other, other + 1]
        tables = Store().tables
        tables.flow_ids(["a"])
        assert tables.flow_ids([edge]).tolist() == [other + 1]
    tables = Store().tables
    found = tables.flow_ids([1, "a", 1 << 62, None, "a", [1], -(1 << 62)])
    assert found.tolist() == [1, other, other + 1, -(1 << 63), other, other + 2, other + 3]
    assert tables.flow_ids([7, 1 << 62]).tolist() == [7, other + 1]
    assert tables.flow_ids([7, -(1 << 62)]).tolist() == [7, other + 3]


def test_a_block_device_is_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.json"
    path.write_text("[]")
    monkeypatch.setattr(source.stat, "S_ISBLK", lambda mode: True)
    with pytest.raises(TraceError, match="is a device, not a trace"):
        load(path)


def test_an_event_without_a_duration_is_told(
    trace_of: Callable[..., Trace], event: Callable[..., Event]
) -> None:
    """Of the thread's time, which old tools write, it is known."""
    bare = {key: value for key, value in event(ts=9).items() if key != "dur"}
    trace = trace_of([event(ts=1), bare, bare | {"ts": 12, "tdur": 2}])
    assert trace.duration.tolist() == [event()["dur"] * 1000, 0, 2000]
    assert [(notice.kind, notice.count) for notice in trace.notices] == [("no_duration", 1)]
