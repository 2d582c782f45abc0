"""Compressed traces: several members, cut ones, damaged ones; and reading their args again."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracetui.trace import Trace, inflate
from tracetui.trace.diagnostics import Diagnostics
from tracetui.trace.files import Source
from tracetui.trace.inflate import Members

Event = dict[str, Any]


@pytest.fixture(params=["isal", "zlib"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both the fast library and the one that is always there."""
    if request.param == "zlib":
        monkeypatch.setattr(inflate, "igzip_lib", None)
    elif inflate.igzip_lib is None:
        pytest.skip("isal is not installed")
    return str(request.param)


@pytest.fixture
def text(event: Callable[..., Event]) -> bytes:
    events = [
        event(ts=i, name=f"op{i % 7}", args={"External id": i, "x": f"{i * 7919 % 10007:x}"})
        for i in range(5000)
    ]
    return json.dumps({"schemaVersion": 1, "traceEvents": events, "traceName": "x"}, indent=1).encode()


def kinds(trace: Trace) -> dict[str, int]:
    return {notice.kind: notice.count for notice in trace.notices}


def test_one_member_and_several(library: str, text: bytes, trace_of: Callable[..., Trace]) -> None:
    parts = [text[:1], text[1:50_000], b"", text[50_000:]]
    for data in (gzip.compress(text), b"".join(map(gzip.compress, parts)), gzip.compress(text) + b"\0" * 512):
        trace = trace_of(data)
        assert (len(trace), kinds(trace)) == (5000, {})
        assert trace.info.text_size == len(text)
        assert trace.info.properties == {"schemaVersion": 1, "traceName": "x"}


def test_header_with_all_its_fields(library: str, text: bytes, trace_of: Callable[..., Trace]) -> None:
    plain = gzip.compress(text, mtime=0)
    header = (
        plain[:3]
        + bytes([4 | 8 | 16 | 2])
        + plain[4:10]
        + b"\x03\x00abc"
        + b"name\x00"
        + b"comment\x00"
        + b"\x12\x34"
    )
    trace = trace_of(header + plain[10:])
    assert (len(trace), kinds(trace)) == (5000, {})


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_cut_file_opens_up_to_its_end(
    share: float, library: str, text: bytes, trace_of: Callable[..., Trace]
) -> None:
    data = gzip.compress(text)
    data = data[: int(len(data) * share)]
    found = inflated_part(data)
    trace = trace_of(data)
    whole = found.count(b'"dur"') - (not found.rstrip().endswith(b"}"))
    assert whole <= len(trace) <= found.count(b'"ph"')
    assert len(trace) > 0
    assert trace.start.tolist() == [i * 1000 for i in range(len(trace))]
    assert set(kinds(trace)) == {"truncated"}
    assert "cut off" in trace.notices[0].text


def inflated_part(data: bytes) -> bytes:
    """The text of a cut file, byte by byte, by the standard library."""
    import zlib

    inflater = zlib.decompressobj(31)
    return b"".join(inflater.decompress(data[i : i + 1]) for i in range(len(data)))


def test_only_the_trailer_is_missing(library: str, text: bytes, trace_of: Callable[..., Trace]) -> None:
    trace = trace_of(gzip.compress(text)[:-3])
    assert (len(trace), set(kinds(trace))) == (5000, {"truncated"})


def test_a_wrong_checksum_costs_nothing(library: str, text: bytes, trace_of: Callable[..., Trace]) -> None:
    data = bytearray(gzip.compress(text))
    data[-6] ^= 1
    trace = trace_of(bytes(data))
    assert (len(trace), kinds(trace)) == (5000, {"bad_checksum": 1})
    assert trace.args(4999)["External id"] == 4999


def test_garbage_behind_the_end(library: str, text: bytes, trace_of: Callable[..., Trace]) -> None:
    trace = trace_of(gzip.compress(text) + b"and now for something else")
    assert (len(trace), kinds(trace)) == (5000, {"trailing": 1})


def test_damage_in_the_middle(library: str, text: bytes, trace_of: Callable[..., Trace]) -> None:
    """Up to the damage all is read, and what comes of it later is counted as lost."""
    data = bytearray(gzip.compress(text))
    middle = len(data) // 2
    data[middle : middle + 40] = b"\xff" * 40
    trace = trace_of(bytes(data))
    sound = inflated_part(gzip.compress(text)[: middle - 8])
    assert len(trace) >= sound.count(b'"dur"') - 1 > 1000
    assert any(notice.level == "lost" for notice in trace.notices)
    # Damaged data may repeat text from before.
    assert set(range(sound.count(b'"dur"') - 1)) <= set(trace.external_id.tolist())
    for i in range(0, len(trace), 100):
        assert trace.args(i)["External id"] == trace.external_id[i]


def test_args_in_any_order(library: str, text: bytes, tmp_path: Path, load_in: Callable[..., Trace]) -> None:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(text[:100_000]) + gzip.compress(text[100_000:]))
    trace = load_in(path, 5_000)
    for i in (4999, 0, 2500, 2501, 1, 4000, 3999):
        assert trace.args(i)["External id"] == i
    wanted = [4000, 3, 3, 2000, 4999]
    assert [args["External id"] for args in trace.args_of(wanted)] == wanted


def test_members_can_be_forked(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(text[:70_000]) + gzip.compress(text[70_000:]))
    with path.open("rb", buffering=0) as file:
        members = Members(file, Diagnostics(), block=10_000, steps=True)
        forks = []
        made = b""
        while block := members.next():
            made += block
            forks.append((len(made), members.fork()))
        assert made == text
        for begin, fork in reversed(forks):
            rest = b""
            while block := fork.next():
                rest += block
            assert rest == text[begin:]


def test_far_apart_places_of_a_long_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tracetui.trace import args

    monkeypatch.setattr(args, "_SPACING", 50_000)
    text = b"".join(b"%07d\n" % i for i in range(100_000))
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(text))
    with path.open("rb", buffering=0) as file:
        stamp = (path.stat().st_size, path.stat().st_mtime_ns)
        inflated = args.InflatedText(Source(str(path), file, path.stat().st_size, True, stamp))
        for at in (700_000, 16, 799_990, 400_000, 400_008, 0, 650_000):
            assert inflated.read(at, 100) == text[at : at + 100]
        assert inflated.read(len(text) - 5, 100) == text[-5:]
