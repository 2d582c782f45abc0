"""Damaged copies of real traces: never a crash, never a hang, no event lost whose own bytes are whole.
One worker and two make the same of them, in chunks of any size, in C and in Python.

The mutants are the same in every run. TRACETUI_FUZZ=50000 tries more of them, TRACETUI_FUZZ_SEED others; with
it, each may take `SECONDS` and `MEGABYTES` more than the sound file, and the worst are printed (`pytest -s`).
"""

import contextlib
import gzip
import json
import os
import random
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

import pytest

from tracetui.trace import Trace, TraceError, load

from .alike import WAYS, differences

MUTANTS = int(os.environ.get("TRACETUI_FUZZ", "1000"))
BY_HAND = "TRACETUI_FUZZ" in os.environ
SECONDS, MEGABYTES = 2.0, 500.0
SEED = int(os.environ.get("TRACETUI_FUZZ_SEED", "20261121"))
DATA = Path(__file__).resolve().parent.parent / "data"
Piece = tuple[int, int] | bytes
"""A stretch of the original, or bytes put in."""

_STRUCTURAL = b'{}[]",:\\\n \x00\xff'


@dataclass(frozen=True)
class Event:
    """An event of the original: where it stands, and what a reader must make of it."""

    begin: int
    end: int
    phase: str
    slice: tuple[str, int, int] | None
    """(name, start, duration) of an `X`, in nanoseconds."""


@lru_cache
def find_events(text: bytes) -> list[Event]:
    """The events of a sound trace, by the standard library, one value after the other."""
    chars = text.decode("latin-1")
    decoder = json.JSONDecoder(parse_float=Decimal)
    at = (
        chars.index("[", chars.index('"traceEvents"')) + 1 if chars.lstrip()[0] == "{" else chars.index("[")
        + 1
    )  # fmt: skip
    events = []
    while True:
        while chars[at] in ", \r\n\t":
            at += 1
        if chars[at] == "]":
            return events
        _, end = decoder.raw_decode(chars, at)
        event = json.loads(text[at:end], parse_float=Decimal)
        phase = str(event.get("ph", ""))
        row = None
        if phase == "X":
            row = (str(event["name"]), int(event["ts"] * 1000), int(event.get("dur", 0) * 1000))
        events.append(Event(at, end, phase, row))
        at = end


def mutate(text: bytes, lines: list[tuple[int, int]], rng: random.Random) -> list[Piece]:
    """One to four changes to a text with these `lines`."""
    size = len(text)
    pieces: list[Piece] = [(0, size)]
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        kind = rng.randrange(8)
        at = rng.randrange(size)
        if kind == 0:  # a byte becomes another
            pieces = _replace(pieces, at, at + 1, bytes([rng.randrange(256)]))
        elif kind == 1:  # a byte becomes one that means something
            pieces = _replace(pieces, at, at + 1, bytes([rng.choice(_STRUCTURAL)]))
        elif kind == 2:  # bytes are put in
            count = rng.randrange(1, 9)
            junk = [
                rng.choice(_STRUCTURAL) if rng.random() < 0.5 else rng.randrange(256) for _ in range(count)
            ]
            pieces = _replace(pieces, at, at, bytes(junk))
        elif kind == 3:  # a stretch is cut out
            pieces = _replace(pieces, at, min(size, at + rng.choice((1, 2, 10, 100, 1000))), b"")
        elif kind == 4:  # the end is missing
            pieces = _replace(pieces, at if rng.random() < 0.5 else size - at % 200, size, b"")
        elif kind == 5:  # a line is missing
            first, last = rng.choice(lines)
            pieces = _replace(pieces, first, last, b"")
        elif kind == 6:  # a line stands there twice
            first, last = rng.choice(lines)
            pieces = _insert(pieces, last, (first, last))
        else:  # a bit is flipped
            pieces = _replace(pieces, at, at + 1, bytes([text[at] ^ 1 << rng.randrange(8)]))
    return pieces


def _replace(pieces: list[Piece], first: int, last: int, put: bytes) -> list[Piece]:
    """Take [first, last) of the original out of all pieces; `put` stands where it began."""
    made: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, bytes) or piece[1] <= first or (piece[0] >= last and piece[0] > first):
            made.append(piece)
            continue
        if piece[0] < first:
            made.append((piece[0], first))
        if put:
            made.append(put)
        if last < piece[1]:
            made.append((max(last, piece[0]), piece[1]))
    return made


def _insert(pieces: list[Piece], at: int, again: tuple[int, int]) -> list[Piece]:
    made: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, bytes) or not piece[0] <= at <= piece[1]:
            made.append(piece)
            continue
        made += [(piece[0], at), again, (at, piece[1])]
    return [p for p in made if isinstance(p, bytes) or p[0] < p[1]]


def assemble(text: bytes, pieces: list[Piece]) -> bytes:
    return b"".join(p if isinstance(p, bytes) else text[p[0] : p[1]] for p in pieces)


def whole_events(
    events: list[Event], pieces: list[Piece]
) -> tuple[Counter[tuple[str, int, int]], Counter[str]]:
    """(slices, phases) of the events whose own bytes stand in the mutant as they were."""
    slices: Counter[tuple[str, int, int]] = Counter()
    phases: Counter[str] = Counter()
    for piece in pieces:
        if isinstance(piece, bytes):
            continue
        for event in events:
            if piece[0] <= event.begin and event.end <= piece[1]:
                phases[event.phase] += 1
                if event.slice is not None:
                    slices[event.slice] += 1
    return slices, phases


@lru_cache
def bases() -> list[bytes]:
    """Small real traces: in Kineto's layout, all on one line, and as a bare array with an event a line."""
    small = gzip.decompress((DATA / "matmul_add_64_cold_eager.json.gz").read_bytes())
    larger = gzip.decompress((DATA / "mlp_eager.json.gz").read_bytes())
    data = json.loads(small)
    lines = ",\n".join(json.dumps(e) for e in data["traceEvents"])
    return [small, larger, json.dumps(data).encode(), f"[\n{lines}\n]".encode()]


@lru_cache
def short(text: bytes) -> bytes:
    """A trace with the first events of each kind, and the text around them as it was: most of what can happen
    to a trace can happen to this one, in less time."""
    events = find_events(text)
    kept: dict[tuple[str, str], list[bytes]] = {}
    for event in events:
        piece = text[event.begin : event.end]
        same = kept.setdefault((event.phase, json.loads(piece).get("cat", "")), [])
        if len(same) < 2:
            same.append(piece)
    middle = text[events[0].end : events[1].begin].join(piece for same in kept.values() for piece in same)
    return text[: events[0].begin] + middle + text[events[-1].end :]


def spans_of_lines(text: bytes) -> list[tuple[int, int]]:
    made, at = [], 0
    for line in text.splitlines(keepends=True):
        made.append((at, at + len(line)))
        at += len(line)
    return made


def missing(trace: Trace, slices: Counter[tuple[str, int, int]], phases: Counter[str]) -> Counter[object]:
    """What of the whole events is not in the trace."""
    clock = trace.info.zero_ns - (trace.info.base_ns or 0)
    columns = (trace.name.tolist(), trace.start.tolist(), trace.duration.tolist())
    found = Counter(
        (trace.names[n], start + clock, length) for n, start, length in zip(*columns, strict=True)
    )
    lost: Counter[object] = Counter(dict(slices - found))
    lost.update(phases - Counter(trace.phases))
    return lost


SHARDS = 8


def peak() -> float:
    """Most memory that this process has had since `reset_peak`, MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


@dataclass
class Cost:
    """What opening a file took."""

    seconds: float
    megabytes: float
    what: str


class Meter:
    """Measures each opening, and keeps the worst."""

    def __init__(self) -> None:
        self.worst = {"seconds": Cost(0, 0, ""), "megabytes": Cost(0, 0, "")}

    @contextlib.contextmanager
    def measure(self, what: str, sound: Cost | None = None) -> Iterator[Cost]:
        """With `sound`, the bounds beyond its cost are checked."""
        cost = Cost(0, 0, what)
        if BY_HAND:
            reset_peak()
        before, begun = peak() if BY_HAND else 0, time.process_time()
        try:
            yield cost
        finally:
            cost.seconds = time.process_time() - begun
            cost.megabytes = peak() - before if BY_HAND else 0
        if BY_HAND and sound is not None:
            for of, bound in (("seconds", SECONDS), ("megabytes", MEGABYTES)):
                beyond = getattr(cost, of) - getattr(sound, of)
                if beyond > getattr(self.worst[of], of):
                    self.worst[of] = Cost(beyond if of == "seconds" else 0, beyond, what)
                assert beyond <= bound, f"{what}: {beyond:.2f} {of} more than the sound file"

    def report(self) -> str:
        return ", ".join(f"{getattr(c, of):.2f} {of} ({c.what})" for of, c in self.worst.items())


@pytest.mark.parametrize("size", [None, 2000], ids=["ordinary chunks", "small chunks"])
@pytest.mark.parametrize("shard", range(SHARDS // 2))
@pytest.mark.parametrize("mutants", [MUTANTS, pytest.param(20 * MUTANTS, marks=pytest.mark.long)])
def test_mutants(mutants, shard, size, tmp_path, load_in):
    texts = [*map(short, bases()), *bases()]
    events = [find_events(text) for text in texts]
    lines = [spans_of_lines(text) for text in texts]
    path = tmp_path / "mutant.json"
    opened = refused = 0
    meter, sound = Meter(), list[Cost]()
    for i, text in enumerate(texts):
        path.write_bytes(text)
        with meter.measure(f"sound file {i}") as cost:
            load(path) if size is None else load_in(path, size)
        sound.append(cost)
    for number in range(shard * 2 + (size is not None), mutants, SHARDS):
        rng = random.Random(SEED * 1_000_003 + number)
        which = rng.randrange(len(texts) // 2) + len(texts) // 2 * (number // SHARDS % 3 == 0)
        pieces = mutate(texts[which], lines[which], rng)
        mutant = assemble(texts[which], pieces)
        zipped = rng.random() < 0.1
        other = rng.choice([*WAYS][1:])
        path.unlink()  # where a file becomes another, some systems wait for the disk
        path.write_bytes(gzip.compress(mutant, 1) if zipped else mutant)
        slices, phases = whole_events(events[which], pieces)
        if BY_HAND or number // SHARDS % 8 == 0:
            found = differences(path, ("at once", "by two workers", other))
            assert not found, f"mutant {number} is not read alike: {found}"
        try:
            with meter.measure(f"mutant {number}", sound[which]) as cost:
                trace = load(path) if size is None else load_in(path, size)
        except TraceError as error:
            if slices or not str(error).isprintable():
                pytest.fail(f"mutant {number} was refused: {error!r}")
            refused += 1
            continue
        opened += 1
        assert cost.seconds < 20, f"mutant {number} took too long"
        lost = missing(trace, slices, phases)
        assert not lost, f"mutant {number} lost {lost}, though their bytes are whole"
        for event in trace.reader.read(trace.source[::50].tolist()):
            assert event.get("ts") is not None
    if opened + refused >= 200:  # of few, all may be among those
        assert opened > 7 * refused  # whose header is damaged
    if BY_HAND:
        print(f"\n{opened + refused} mutants; worst beyond the sound file: {meter.report()}")


@pytest.mark.parametrize("seed", range(60))
def test_damaged_compression(seed, tmp_path):
    """What comes before the first damaged byte is there."""
    text = bases()[1]
    events = find_events(text)
    data = bytearray(gzip.compress(text))
    rng = random.Random(SEED + seed)
    at = rng.randrange(20, len(data))
    if rng.random() < 0.5:
        data[at] ^= 1 << rng.randrange(8)
    else:
        del data[at:]
    path = tmp_path / "mutant.json.gz"
    path.write_bytes(bytes(data))
    # The last bytes before the damage may not have come out yet: deflate looks ahead.
    sound = len(zlib.decompressobj(31).decompress(gzip.compress(text)[: max(0, at - 64)]))
    expected = [e for e in events if e.end < sound]
    try:
        trace = load(path)
    except TraceError:
        assert not expected
        return
    lost = missing(trace, Counter(e.slice for e in expected if e.slice), Counter(e.phase for e in expected))
    assert not lost
    assert trace.notices
