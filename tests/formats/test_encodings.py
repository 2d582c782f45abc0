"""Compressed traces: several members or frames, cut ones, damaged ones; and reading their args again."""

import gzip
import itertools
import json
import random
import struct
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from tests.kineto import notices

from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.encodings import blocks, plain, zstd
from tracetui.formats.encodings import gzip as gzip_encoding
from tracetui.formats.encodings import zstd as zstd_encoding
from tracetui.formats.encodings.blocks import Blocks, Marked

if sys.version_info >= (3, 14):
    from compression import zstd as library_of_zstd
else:
    from backports import zstd as library_of_zstd

Event = dict[str, Any]


@pytest.fixture(params=["isal", "zlib"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both the fast library for gzip and the one that is always there."""
    if request.param == "zlib":
        monkeypatch.setattr(gzip_encoding, "igzip_lib", None)
    elif gzip_encoding.igzip_lib is None:
        pytest.skip("isal is not installed")
    return str(request.param)


def framed(text: bytes) -> bytes:
    """`text` by zstd, with a checksum."""
    return library_of_zstd.compress(text, options={library_of_zstd.CompressionParameter.checksum_flag: 1})


@pytest.fixture(scope="module")
def text(event: Callable[..., Event]) -> bytes:
    events = [
        event(ts=i, name=f"op{i % 7}", args={"External id": i, "x": f"{i * 7919 % 10007:x}"})
        for i in range(5000)
    ]
    return json.dumps({"schemaVersion": 1, "traceEvents": events, "traceName": "x"}, indent=1).encode()


def test_one_member_and_several(library, text, trace_of):
    parts = [text[:1], text[1:50_000], b"", text[50_000:]]
    for data in (gzip.compress(text), b"".join(map(gzip.compress, parts)), gzip.compress(text) + b"\0" * 512):
        trace = trace_of(data)
        assert (len(trace), notices(trace)) == (5000, {})
        assert trace.info.text_size == len(text)
        assert trace.info.properties == {"schemaVersion": 1, "traceName": "x"}


@pytest.mark.parametrize(
    ("flags", "fields"), [(1, b""), (2, b"\x12\x34"), (8, b"name\x00"), (16, b"comment\x00"), (17, b"\x00")]
)
def test_header_with_one_field(library, text, flags, fields, trace_of):
    """The lowest flag only says that it is text."""
    plain = gzip.compress(text, mtime=0)
    trace = trace_of(plain[:3] + bytes([flags]) + plain[4:10] + fields + plain[10:])
    assert (len(trace), notices(trace)) == (5000, {})


def test_header_with_all_its_fields(library, text, trace_of):
    plain = gzip.compress(text, mtime=0)
    header = (
        plain[:3] + bytes([4 | 8 | 16 | 2]) + plain[
            4:10
        ] + b"\x03\x00abc" + b"name\x00" + b"comment\x00" + b"\x12\x34"
    )  # fmt: skip
    trace = trace_of(header + plain[10:])
    assert (len(trace), notices(trace)) == (5000, {})


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_cut_file_opens_up_to_its_end(share, library, text, trace_of):
    data = gzip.compress(text)
    data = data[: int(len(data) * share)]
    found = inflated_part(data)
    trace = trace_of(data)
    whole = found.count(b'"dur"') - (not found.rstrip().endswith(b"}"))
    assert whole <= len(trace) <= found.count(b'"ph"')
    assert len(trace) > 0
    assert trace.start.tolist() == [i * 1000 for i in range(len(trace))]
    assert set(notices(trace)) == {"truncated"}
    assert "cut off" in trace.notices[0].text


def inflated_part(data: bytes) -> bytes:
    """The text of a cut file, by the standard library; its end byte by byte."""
    inflater, sure = zlib.decompressobj(31), max(0, len(data) - 1000)
    return inflater.decompress(data[:sure]) + b"".join(
        inflater.decompress(data[i : i + 1]) for i in range(sure, len(data))
    )


def test_only_the_trailer_is_missing(library, text, trace_of):
    trace = trace_of(gzip.compress(text)[:-3])
    assert (len(trace), set(notices(trace))) == (5000, {"truncated"})


def test_a_wrong_checksum_costs_nothing(library, text, trace_of):
    data = bytearray(gzip.compress(text))
    data[-6] ^= 1
    trace = trace_of(bytes(data))
    assert (len(trace), notices(trace)) == (5000, {"bad_checksum": 1})
    assert trace.args(4999)["External id"] == 4999


def test_garbage_behind_the_end(library, text, trace_of):
    trace = trace_of(gzip.compress(text) + b"and now for something else")
    assert (len(trace), notices(trace)) == (5000, {"trailing": 1})
    assert trace.notices[0].level == "lost"


@pytest.mark.parametrize("behind", ["plain", "gzip", "zstd"])
@pytest.mark.parametrize("first", ["gzip", "zstd"])
def test_a_trace_behind_one_that_is_compressed_in_another_way_is_not_left_out_in_silence(
    first, behind, text, trace_of
):
    ways: dict[str, Callable[[bytes], bytes]] = {"plain": bytes, "gzip": gzip.compress, "zstd": framed}
    trace = trace_of(ways[first](text) + ways[behind](text))
    levels = {notice.kind: notice.level for notice in trace.notices}
    if first == behind:
        assert (len(trace), levels) == (10_000, {"second_array": "repaired"})
    else:
        assert (len(trace), levels) == (5000, {"trailing": "lost"})


def test_padding_between_two_members_is_passed_over(library, text, trace_of):
    for way in (gzip.compress, framed):
        trace = trace_of(way(text[:9000]) + b"\0" * 600_000 + way(text[9000:]) + b"\0" * 600_000)
        assert (len(trace), notices(trace)) == (5000, {})


def test_damage_in_the_middle(library, text, trace_of):
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


def test_args_in_any_order(library, text, tmp_path, load_in):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(text[:100_000]) + gzip.compress(text[100_000:]))
    trace = load_in(path, 5_000)
    for i in (4999, 0, 2500, 2501, 1, 4000, 3999):
        assert trace.args(i)["External id"] == i
    wanted = [4000, 3, 3, 2000, 4999]
    assert [args["External id"] for args in trace.args_of(wanted)] == wanted


@pytest.fixture(scope="module")
def long_text(event: Callable[..., Event]) -> bytes:
    """Several blocks of zstd (128 kB each) at least."""
    events = [event(ts=i, name=f"op{i % 7}", args={"External id": i, "x": i * 7919}) for i in range(20_000)]
    return json.dumps({"traceEvents": events, "traceName": "x"}, indent=1).encode()


def test_zstd_gives_the_same_trace(long_text, trace_of):
    expected = trace_of(long_text)
    skipped = b"\x50\x2a\x4d\x18" + (9).to_bytes(4, "little") + b"skip this"
    parts = [long_text[:1], long_text[1:1_000_000], b"", long_text[1_000_000:]]
    for data in (framed(long_text), b"".join(map(framed, parts)), skipped + framed(long_text) + b"\0" * 99):
        trace = trace_of(data, "trace.json.zst")
        for column in ("start", "duration", "name", "lane", "depth", "parent", "external_id", "op"):
            assert (getattr(trace, column) == getattr(expected, column)).all()
        assert (list(trace.names), trace.lanes, trace.notices) == (list(expected.names), expected.lanes, ())
        assert (trace.info.text_size, trace.info.size) == (len(long_text), len(data))
        some = [19_999, 0, 7_000, 12_000, 3]
        assert trace.args_of(some) == expected.args_of(some)
        assert [trace.args(i) for i in some] == [expected.args(i) for i in some]


@pytest.mark.parametrize("share", [0.3, 0.7, 0.99])
def test_a_cut_zstd_file_opens_up_to_its_end(share, long_text, trace_of):
    data = framed(long_text)
    trace = trace_of(data[: int(len(data) * share)])
    found = library_of_zstd.ZstdDecompressor().decompress(data[: int(len(data) * share)])
    assert found.count(b'"dur"') - 1 <= len(trace) <= found.count(b'"ph"')
    assert len(trace) > 1000
    assert set(notices(trace)) == {"truncated"}
    assert "cut off" in trace.notices[0].text
    assert trace.args(len(trace) - 1)["External id"] == len(trace) - 1


def test_a_damaged_zstd_file_opens_up_to_the_damage(long_text, trace_of):
    data = bytearray(framed(long_text))
    middle = len(data) // 2
    data[middle : middle + 40] = b"\xff" * 40
    sound = library_of_zstd.ZstdDecompressor().decompress(bytes(data[: middle - 1]))
    trace = trace_of(bytes(data))
    assert "bad_zstd" in notices(trace)
    assert len(trace) >= sound.count(b'"dur"') - 1 > 5000
    assert trace.external_id[:5000].tolist() == list(range(5000))
    for i in (len(trace) - 1, 0, 4000):
        assert trace.args(i)["External id"] == trace.external_id[i]


def test_a_wrong_checksum_of_zstd_costs_no_event(long_text, trace_of):
    data = bytearray(framed(long_text))
    data[-1] ^= 1
    trace = trace_of(bytes(data))
    assert (len(trace), notices(trace)) == (20_000, {"bad_zstd": 1})
    assert trace.args(19_999)["External id"] == 19_999


def test_garbage_behind_the_last_frame(long_text, trace_of):
    trace = trace_of(framed(long_text) + b"and now for something else")
    assert (len(trace), notices(trace)) == (20_000, {"trailing": 1})


@pytest.mark.parametrize("codec", [gzip_encoding._MEMBERS, zstd._FRAMES], ids=["gzip", "zstd"])
def test_decoders_can_be_forked(codec, text, tmp_path):
    """gzip's anywhere, zstd's between two frames."""
    compress = gzip.compress if codec.fork else framed
    path = tmp_path / "t"
    path.write_bytes(compress(text[:70_000]) + compress(text[70_000:]))
    with path.open("rb", buffering=0) as file:
        decoder = blocks.Blocks(codec, file, Diagnostics(), block=10_000, forkable=True)
        forks = [(0, decoder.fork())]
        made = b""
        while block := decoder.next():
            made += block
            forks.append((len(made), decoder.fork()))
        assert made == text
        assert (None in [fork for _, fork in forks]) is not bool(codec.fork)
        for begin, fork in reversed(forks):
            rest = b""
            while fork is not None and (block := fork.next()):
                rest += block
            assert fork is None or rest == text[begin:]


@pytest.mark.parametrize("kind", ["plain", "gzip", "zstd", "zstd frames"])
def test_far_apart_places_of_a_long_text(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "_SPACING", 50_000)
    text = b"".join(b"%07d\n" % i for i in range(100_000))
    frames = b"".join(framed(text[at : at + 90_000]) for at in range(0, len(text), 90_000))
    encoding, data = {
        "plain": (plain, text),
        "gzip": (gzip_encoding, gzip.compress(text)),
        "zstd": (zstd, framed(text)),
        "zstd frames": (zstd, frames),
    }[kind]
    path = tmp_path / "t"
    path.write_bytes(data)
    with path.open("rb", buffering=0) as file:
        parts = encoding.parts(file, len(data))
        for at in (700_000, 16, 799_990, 400_000, 400_008, 0, 650_000):
            assert parts.read(at, 100) == text[at : at + 100]
        assert parts.read(len(text) - 5, 100) == text[-5:]


@pytest.mark.parametrize("encoding", [gzip_encoding, zstd], ids=["gzip", "zstd"])
def test_memory_stays_bounded_when_little_becomes_much(encoding, tmp_path):
    """64 MB of spaces in a few bytes, whose end is damaged."""
    data = bytearray((gzip.compress if encoding is gzip_encoding else framed)(b" " * (1 << 26)))
    data[-12:-8] = b"\xff" * 4
    path = tmp_path / "t"
    path.write_bytes(data)
    diagnostics = Diagnostics()
    with path.open("rb", buffering=0) as file:
        stream = encoding.stream(file, len(data), diagnostics)
        try:
            size, view = 0, memoryview(bytearray(1 << 16))
            while count := stream.readinto(view):
                size += count
                assert stream.size() - size <= 8 << 20
        finally:
            stream.close()
    assert size > 1 << 25
    assert diagnostics.found


def test_salvage_goes_up_to_the_very_byte(library, text, tmp_path):
    """All that the standard library gives, fed byte by byte from the damage on, up to where it fails."""
    data = gzip.compress(text)
    path = tmp_path / "t"
    for at in range(30, len(data) - 8, len(data) // 40):
        damaged = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        inflater = zlib.decompressobj(31)
        expected = bytearray(inflater.decompress(data[:at]))
        try:
            for i in range(at, len(damaged), 100):
                before = inflater.copy()
                expected += inflater.decompress(damaged[i : i + 100])
        except zlib.error:
            with suppress(zlib.error):
                for j in range(i, i + 100):
                    expected += before.decompress(damaged[j : j + 1])
        path.write_bytes(damaged)
        with path.open("rb", buffering=0) as file:
            decoder = blocks.Blocks(gzip_encoding._MEMBERS, file, Diagnostics())
            assert b"".join(iter(decoder.next, b"")) == expected


def test_a_gzip_header_cut_anywhere():
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


def test_frames_of_zstd_are_known_by_their_first_bytes():
    assert zstd_encoding.sniff(b"\x28\xb5\x2f\xfd...")
    for first in range(256):
        assert zstd_encoding.sniff(bytes([first]) + b"\x2a\x4d\x18") == (0x50 <= first <= 0x5F)
    assert not zstd_encoding.sniff(b"\x50\x2a\x4d\x19")


@pytest.mark.parametrize("block", [7, 100, 1 << 20])
def test_members_one_after_the_other(block, tmp_path):
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


def test_a_wrong_checksum_or_length_loses_nothing(tmp_path):
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


def test_any_part_of_compressed_text(tmp_path, monkeypatch):
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
