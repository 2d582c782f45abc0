"""The decoder in C against the one in Python, and what any bytes become.

The mutants are the same in every run. TRACETUI_FUZZ=20000 tries more of them, TRACETUI_FUZZ_SEED others.
"""

import gzip
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats import packets
from tests.formats.test_fuzz import assemble, mutate

from tracetui.formats.pftrace import decoder
from tracetui.formats.pftrace import packets as reference
from tracetui.formats.pftrace.reader import read
from tracetui.formats.pftrace.schema import Decoded, Numbers, Table, tables
from tracetui.formats.pftrace.wire import varint
from tracetui.formats.registry import FORMATS
from tracetui.formats.source import open_source
from tracetui.trace import TraceError, load

DATA = Path(__file__).resolve().parent.parent / "data" / "pytorch215"
MUTANTS = int(os.environ.get("TRACETUI_FUZZ", "400"))
SEED = int(os.environ.get("TRACETUI_FUZZ_SEED", "20261128"))
LONGEST = 10.0
"""Seconds of one mutant at most: it takes a hundredth."""
TEXTS: dict[str, Callable[[], bytes]] = {
    **packets.ALL, "graph": lambda: gzip.decompress((DATA / "cuspy_graph.pftrace.gz").read_bytes()),
    "pm": lambda: gzip.decompress((DATA / "cuspy_pm.pftrace.gz").read_bytes())
}  # fmt: skip
native = pytest.mark.skipif(decoder.LIBRARY is None, reason="the library is not installed")


def spans(text: bytes) -> list[tuple[int, int]]:
    """Where the packets of a sound text are."""
    found, at = [], 0
    while at < len(text):
        length, begin = varint(text, at + 1, len(text))
        found.append((at, begin + length))
        at = begin + length
    return found


def mutant(text: bytes, places: list[tuple[int, int]], rng: random.Random) -> bytes:
    """A changed text: bytes, packets, and what is special about packets."""
    made = assemble(text, mutate(text, places, rng))
    for _ in range(rng.choice((0, 0, 1, 3))):
        at = rng.randrange(len(made) + 1)
        kind = rng.randrange(5)
        if kind == 0:  # a giant number
            put = b"\xff" * rng.randrange(1, 12) + b"\x01"
        elif kind == 1:  # a field that is there already, or is not known
            number = rng.choice((1, 3, 4, 6, 8, 9, 10, 11, 12, 13, 23, 42, 47, 52, 53, 58, 59, 60, 128, 4000))
            put = bytes(_key(number, rng.choice((0, 1, 2, 5, 3)))) + rng.randbytes(rng.randrange(9))
        elif kind == 2:  # messages in messages
            put = b""
            for _ in range(rng.choice((3, 100))):
                put = b"\x62" + bytes(_number(len(put))) + put
        elif kind == 3:  # a length that is wrong
            put = bytes([rng.randrange(256)])
            made = made[:at] + made[at + 1 :]
        else:  # a packet from elsewhere
            first, last = rng.choice(places)
            put = text[first:last]
        made = made[:at] + put + made[at:]
    return made


def _number(value: int) -> list[int]:
    return [value] if value < 128 else [value & 127 | 128, *_number(value >> 7)]


def _key(number: int, kind: int) -> list[int]:
    return _number(number << 3 | kind)


def everything(of: Any, text: bytes, cut: int) -> tuple[list[Decoded], Numbers, Table]:
    """All that a decoder says of a text, `cut` bytes of which it gets at a time."""
    table = tables()
    made, at, found = of(table), 0, []
    while at < len(text):
        size = cut
        while True:
            decoded = made.decode(text[at : at + size], at)
            if decoded.consumed or decoded.state in ("lost", "long") or at + size >= len(text):
                break
            size *= 2
        found.append(decoded)
        at += decoded.consumed
        if decoded.state in ("lost", "long") or not decoded.consumed:
            break
    return found, made.known(), table


def whole(found: list[Decoded]) -> Decoded:
    """What was decoded, however many calls it took."""
    specials = [one for decoded in found for one in decoded.specials]
    snapshots = [one for decoded in found for one in decoded.snapshots]
    state = found[-1].state if found else ""
    return Decoded(sum(decoded.consumed for decoded in found), state, specials, snapshots)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Decode all texts in parts, whatever came of it before. Which parts could be joined."""
    joined: list[bool] = []
    join = decoder._One.join

    def noted(one: decoder._One, other: decoder._One, share: float) -> bool:
        joined.append(join(one, other, share))
        return joined[-1]

    monkeypatch.setattr(decoder._One, "join", noted)
    monkeypatch.setattr(decoder.NativeDecoder, "PART", 300)
    monkeypatch.setattr(decoder, "_LONGEST_PAUSE", 0)
    monkeypatch.setattr(decoder, "usable_cores", lambda: 3)
    return joined


def same(text: bytes, cut: int) -> None:
    mine, known, table = everything(decoder.NativeDecoder, text, cut)
    theirs, wanted, other = everything(reference.Decoder, text, cut)
    assert known == wanted
    for name in ("strings", "refs", "tracks", "heads", "series"):
        assert list(getattr(known, name)) == list(getattr(wanted, name)), name
    assert whole(mine) == whole(theirs)
    for name, columns in table.items():
        assert len(columns) == len(other[name]), name
        for column, array in columns.arrays.items():
            one, two = array[: len(columns)], other[name].arrays[column][: len(columns)]
            assert one.dtype == two.dtype
            assert np.array_equal(one, two, equal_nan=one.dtype.kind == "f"), (name, column)


@native
@pytest.mark.parametrize("name", TEXTS)
def test_both_decoders_say_the_same(name):
    text = TEXTS[name]()
    for cut in (1, 100, 4096, len(text)):
        same(text, cut)


@native
@pytest.mark.parametrize("name", TEXTS)
def test_parts_that_are_decoded_at_once_say_the_same(name, in_parts):
    text = TEXTS[name]()
    for cut in (1000, 1 << 14, len(text)):
        same(text, cut)
    assert name not in ("graph", "pm") or set(in_parts) == {True, False}


@native
@pytest.mark.parametrize("name", TEXTS)
def test_parts_of_mutants_that_are_decoded_at_once_say_the_same(name, in_parts):
    of_mutants(name, 1 << 13)
    assert name not in ("graph", "pm") or set(in_parts) == {True, False}


@native
@pytest.mark.parametrize("name", TEXTS)
def test_both_decoders_say_the_same_of_mutants(name):
    of_mutants(name, 1 << 16)


def of_mutants(name: str, cut: int) -> None:
    text = TEXTS[name]()
    places = spans(text)
    for number in range(-(-MUTANTS // len(TEXTS))):
        made = mutant(text, places, random.Random(f"{SEED} {name} {number}"))
        try:
            same(made, cut)
        except AssertionError as error:
            pytest.fail(f"{name} {number}: {error}")


@native
def test_both_pair_the_same():
    from tracetui.formats.pftrace.pairing import pair

    rng = np.random.default_rng(SEED)
    for number in range(300):
        tracks, count = int(rng.integers(1, 4)), int(rng.integers(0, 12))
        ends = int(rng.integers(0, 12))
        largest = int(rng.choice([3, 20, 1000]))
        slices = {
            "head": rng.integers(0, tracks, count).astype(np.int32),
            "start": np.sort(rng.integers(0, largest, count))
            if number % 2 else rng.integers(0, largest, count),
            "duration": np.where(rng.random(count) < 0.9, np.iinfo(np.int64).min, 5)
        }  # fmt: skip
        ended = {
            "head": rng.integers(0, tracks, ends).astype(np.int32),
            "row": np.sort(rng.integers(0, count + 1, ends)).astype(np.int32),
            "start": rng.integers(0, 2 * largest, ends),
        }
        copies = [{k: v.copy() for k, v in one.items()} for one in (slices, ended)]
        track_of = np.arange(tracks, dtype=np.int32)
        found = (
            decoder.pair(slices, ended, track_of, tracks), slices["duration"].tolist(), ended["row"].tolist()
        )  # fmt: skip
        other = pair(*copies, track_of, tracks), copies[0]["duration"].tolist(), copies[1]["row"].tolist()
        assert found == other, number


@pytest.mark.parametrize("name", TEXTS)
def test_any_bytes_are_a_trace_or_an_error_of_one_line(name, tmp_path):
    text, path = TEXTS[name](), tmp_path / "trace"
    places = spans(text)
    module = next(f for f in FORMATS if getattr(f, "__name__", "").endswith(".pftrace"))
    for number in range(-(-MUTANTS // len(TEXTS))):
        made = mutant(text, places, random.Random(f"{SEED} {name} {number}"))
        path.write_bytes(gzip.compress(made, 1) if number % 5 == 0 else made)
        begun = time.process_time()
        try:
            if made:
                module.read(open_source(path), lambda done, total: None)
            trace = load(path)
        except TraceError as error:
            if not str(error).isprintable():
                pytest.fail(f"{name} {number}: {error!r}")
            continue
        assert len(trace.reader.read(trace.source.tolist())) == len(trace), (name, number)
        assert time.process_time() - begun < LONGEST, (name, number)


def test_a_chunk_of_any_size_gives_the_same(tmp_path):
    path = tmp_path / "a.pftrace"
    path.write_bytes(TEXTS["pm"]())
    wanted = load(path)
    for size in (1, 50, 1000, 7777):
        contents = read(open_source(path), lambda done, total: None, size=size)
        assert len(contents.store.slices) == len(wanted)
        names = list(contents.store.tables.names)
        assert set(names) == set(wanted.names)
