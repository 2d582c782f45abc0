"""The scanner in C reads what the Python reader reads, to the last value, or declines.

The mutants are the same in every run. TRACETUI_SCANNER_MUTANTS=100000 tries more of them, TRACETUI_FUZZ_SEED
others; `-n 16` tries them in 16 processes.
"""

import gzip
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats.test_fuzz import SEED, assemble, bases, mutate, short, spans_of_lines

from tracetui.core.columns import NO_TIME
from tracetui.core.errors import TraceError
from tracetui.formats.chrome_json import event_builder
from tracetui.formats.chrome_json.reader import read
from tracetui.formats.chrome_json.scanner import LIBRARY, Scanner
from tracetui.formats.source import open_source
from tracetui.formats.store import Store, Tables

pytestmark = pytest.mark.skipif(LIBRARY is None, reason="the scanner is not installed: no C compiler")
MUTANTS = int(os.environ.get("TRACETUI_SCANNER_MUTANTS", "280"))
SHARDS = 8
ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "traces"
Both = Callable[[Path, int], tuple[Any, Any]]


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Both:
    """What a file is read to, with the scanner and without."""

    def outcome(path: Path, size: int) -> Any:
        try:
            source = open_source(path)
        except TraceError as error:
            return str(error)
        try:
            contents = read(source, lambda done, total: None, 1, size)
        except TraceError as error:
            return str(error)
        finally:
            source.file.close()
        chunks = contents.reader._chunks  # type: ignore[attr-defined]
        rest = (contents.text_size, contents.base_ns, contents.devices, contents.properties)
        return flat(contents.store), chunks, rest

    def make(path: Path, size: int) -> tuple[Any, Any]:
        ours = outcome(path, size)
        with monkeypatch.context() as patch:
            patch.setattr(event_builder, "LIBRARY", None)
            return ours, outcome(path, size)

    return make


def flat(store: Store) -> dict[str, Any]:
    """A store as plain values."""
    columns = {
        f"{kind} {name}": columns.arrays[name][: len(columns)].tolist()
        for kind, columns in (("slice", store.slices), ("point", store.points), ("sample", store.counters))
        for name in columns.kinds
    }
    tables = store.tables
    return {
        **columns, "heads": list(tables.heads), "types": [tuple(map(type, head)) for head in tables.heads],
        "names": list(tables.names), "ids": list(tables.ids), "transfers": list(tables.transfers),
        "series": store.series, "metadata": store.metadata, "asyncs": store.asyncs,
        "diagnostics": store.diagnostics.notices(), "phases": store.phases()
    }  # fmt: skip


def differing(ours: Any, reference: Any) -> str:
    """Where two outcomes differ, "" if they do not."""
    if isinstance(ours, str) or isinstance(reference, str):
        return "" if ours == reference else f"{ours!r:.200} {reference!r:.200}"
    for name, value in reference[0].items():
        if repr(ours[0][name]) != repr(value):
            return f"{name}: {ours[0][name]!r:.200} instead of {value!r:.200}"
    return "" if ours[1:] == reference[1:] else "chunks or header"


def traces() -> Iterator[Path]:
    for folder in (ROOT / "sample_traces", ROOT / "tests" / "data", SHARED):
        yield from sorted(p for p in folder.rglob("*.json*") if p.is_file() and p.stat().st_size < 6_000_000)


@pytest.mark.parametrize("path", [
    pytest.param(path, marks=[pytest.mark.long] if path.stat().st_size > 500_000 else [])
    for path in traces()
], ids=lambda path: path.name)  # fmt: skip
def test_recorded_traces(path, both):
    assert not differing(*both(path, 1 << 18))


def test_most_chunks_are_not_declined():
    text = gzip.decompress((ROOT / "sample_traces" / "mlp_eager.json.gz").read_bytes())
    begin = text.index(b"[", text.index(b'"traceEvents"'))
    events = json.loads(text[begin : text.rindex(b"]") + 1])
    assert len(Scanner(Tables()).scan(text[begin : text.rindex(b"]") + 1], 0).heads) == len(events)


@pytest.mark.parametrize("size", [1 << 18, 2000], ids=["ordinary chunks", "small chunks"])
@pytest.mark.parametrize("shard", range(SHARDS))
def test_mutants(shard, size, both, tmp_path):
    texts = [*map(short, bases()), *bases()]
    lines = [spans_of_lines(text) for text in texts]
    path = tmp_path / "mutant.json"
    for number in range(shard, MUTANTS, SHARDS):
        rng = random.Random(SEED * 7_000_003 + number)
        which = rng.randrange(len(texts) if number % 64 < SHARDS else len(texts) // 2)
        path.unlink(missing_ok=True)  # where a file becomes another, some systems wait for the disk
        path.write_bytes(assemble(texts[which], mutate(texts[which], lines[which], rng)))
        wrong = differing(*both(path, size))
        assert not wrong, f"mutant {number}: {wrong}"


# -- events that no tool wrote

_WORDS = ("X", "B", "E", "i", "s", "t", "f", "M", "C", "b", "e", "Z", "", "XX")
_CATEGORIES = ("kernel", "cpu_op", "ac2g", "fwdbwd", "odd", "", "async")
_NAMES = [
    r'"a"', r'"b"', r'"\u0061"', r'"\n"', r'"é"', r'"\ud83d\ude00"', r'""',
    r'"more_than_sixteen_bytes_and_more_than_thirty-two"', r"5", r"null"
]  # fmt: skip
_INTEGERS = [
    "0", "1", "-1", "-0", "7", "123456789012345678", "1234567890123456789", "9223372036854775808", "01"
]  # fmt: skip
_TIMES = [
    "0", "-0", "-1.5", "1.5", "1.0005", "2.0015", "-2.0025", "3.14159", "123456.7890123456", "99.9995",
    "1711964646123456", "1711964646123456.789", "1711964646123456.7895", "8796093022208",
    "8796093022207.9995", "8589934591.1234", "8589934592.00049", "8589934592.0005", "4599999999999999",
    "4600000000000000", "1711964646123456789", "100000000000000000", "1e3", "1E-2", '"5"', "null", "1.", ".5",
    "NaN", "[1]", "0.00", "4503599627370496.5", "12345678.123456789012", "0.4999999999999999",
    "9007199.2547409925", "1.00000000000001"
]  # fmt: skip
_ANY = [
    r"1", r'"x"', r"null", r"true", r"[]", r"{}", r'[1,{"a":[2]}]', r'{"b":{"c":1e5}}', r"1e400", r"tru",
    r'"\x"', r'"\ud800"'
]  # fmt: skip


def an_event(rng: random.Random) -> str:
    """An event that is mostly sound."""
    odd = rng.random() < 0.15

    def some(usual: str, *others: str) -> str:
        return rng.choice(others) if odd and rng.random() < 0.3 else usual

    def integer() -> str:
        return some(str(rng.randrange(4)), *_INTEGERS, *_ANY)

    time = rng.choice(_TIMES[:5] if rng.random() < 0.6 else _TIMES[:26])
    args = [f'"External id": {integer()}', f'"correlation": {integer()}', f'"external id": {integer()}']
    args += [f'"x": {some("1", *_ANY)}', '"y": [1, [2, {"ts": 3}]]']
    fields = {
        "ph": some(json.dumps(rng.choice(_WORDS)), *_ANY),
        "cat": some(json.dumps(rng.choice(_CATEGORIES)), '"\\u0061c2g"', *_ANY),
        "name": some(rng.choice(_NAMES[:3]), *_NAMES),
        "pid": some(rng.choice(('"1"', "1", "2")), *_INTEGERS, *_ANY),
        "tid": some(rng.choice(("1", "2")), *_INTEGERS, *_ANY), "ts": some(time, *_TIMES),
        "dur": some(rng.choice(_TIMES[:10]), *_TIMES),
        "args": some("{" + ", ".join(rng.sample(args, rng.randrange(len(args)))) + "}", *_ANY),
        "id": some(rng.choice(("1", '"0x1"', "null", '"é"')), *_INTEGERS, *_ANY),
        "bp": some(rng.choice(('"e"', "null", '"x"')), *_ANY), "s": some('"t"', *_ANY),
        "tdur": rng.choice(_TIMES[:10])
    }  # fmt: skip
    names = rng.sample(list(fields), rng.randrange(len(fields) - 3, len(fields) + 1))
    if odd and rng.random() < 0.2:
        names.append(rng.choice(names))
    space = rng.choice(("", " ", "\n\t "))
    key = '"\\u0070h"' if odd and rng.random() < 0.05 else ""
    parts = [f"{key if key and n == 'ph' else json.dumps(n)}{space}:{space}{fields[n]}" for n in names]
    return "{" + space + f"{space},{space}".join(parts) + space + "}"


@pytest.mark.parametrize("seed", range(6))
def test_events_that_no_tool_wrote(seed, both, tmp_path):
    rng = random.Random(SEED + seed)
    path = tmp_path / "odd.json"
    read = declined = 0
    for number in range(max(40, MUTANTS // 8)):
        events = [an_event(rng) for _ in range(rng.randrange(1, 30))]
        path.write_text("[" + rng.choice((",", ",\n", " ,\n  ")).join(events) + "]", encoding="utf-8")
        wrong = differing(*both(path, rng.choice((1 << 18, 700))))
        assert not wrong, f"text {number}: {wrong}"
        scanner = Scanner(Tables())
        for event in events:
            found = scanner.scan(f"[{event}]".encode(), 0)
            read += found is not None
            declined += found is None
    assert min(read, declined) > 0.03 * (read + declined)  # both paths are tested


@pytest.mark.parametrize("at", range(1, 130))
def test_text_that_ends_anywhere(at):
    args = b'{"correlation": 5, "x": [1, {"y": null}]}'
    text = b'[{"ph": "X", "name": "a\\n", "ts": 1.5, "pid": 1, "args": ' + args + b', "id": "q"}]'
    cut = text[:at]
    assert (Scanner(Tables()).scan(cut, 0) is not None) == (at >= len(text))


def test_a_chunk_that_is_declined_leaves_nothing():
    tables = Tables()
    scanner = Scanner(tables)
    assert scanner.scan(b'[{"ph":"X","name":"a","ts":1,"dur":1},{"ph":"X","name":"b","ts":[]}]', 0) is None
    assert not tables.names
    assert not tables.heads
    found = scanner.scan(b'[{"ph":"X","name":"b","ts":1,"dur":1},{"ph":"X","name":"a","ts":2}]', 3)
    assert found is not None
    assert list(tables.names) == ["b", "a"]
    assert found.slices["name"].tolist() == [0, 1]
    assert found.slices["source"].tolist() == [3 << 28, (3 << 28) + 1]
    assert found.slices["duration"].tolist() == [1000, NO_TIME]
    assert [w.slice for w in found.whole] == [1]


def test_one_name_written_in_two_ways():
    tables = Tables()
    scanner = Scanner(tables)
    for text in (b'[{"ph":"X","name":"a","ts":1}]', b'[{"ph":"X","name":"\\u0061","ts":1,"pid":""}]'):
        found = scanner.scan(text, 0)
        assert found.slices["name"].tolist() == [0]
        assert found.heads.tolist() == [0]
    assert list(tables.heads) == [("X", "", "", "")]


def test_more_than_there_is_room_for_is_declined():
    scanner = Scanner(Tables())
    assert scanner.scan(b"[" + b",".join([b"{}"] * 70_000) + b"]", 0) is None
    names = [b'{"ph":"X","ts":1,"name":"%d"}' % i for i in range(9_000)]
    assert scanner.scan(b"[" + b",".join(names) + b"]", 0) is None
    found = scanner.scan(b"[" + b",".join(names[:8_000]) + b"]", 0)
    np.testing.assert_array_equal(found.slices["name"], np.arange(8_000))


def test_deep_nesting_is_declined():
    deep = b'[{"ph":"X","ts":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}]"
    assert Scanner(Tables()).scan(deep, 0) is None


def test_ids_beyond_64_bits(both, tmp_path):
    path = tmp_path / "trace.json"
    event = {"ph": "X", "ts": 1, "dur": 1, "args": {"correlation": 1, "external id": 1 << 63}}
    path.write_text(json.dumps([event, event]))
    ours, reference = both(path, 1 << 18)
    assert not differing(ours, reference)
    assert ours[0]["slice external"] == [-1, -1]
