"""Damaged copies of a trace, with a record of which of its events are still whole."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal

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


def find_events(text: bytes) -> list[Event]:
    """The events of a sound trace, by the standard library, one value after the other."""
    chars = text.decode("latin-1")
    decoder = json.JSONDecoder(parse_float=Decimal)
    at = chars.index("[", chars.index('"traceEvents"')) + 1 if chars.lstrip()[0] == "{" else chars.index("[") + 1
    found = []
    while True:
        while chars[at] in ", \r\n\t":
            at += 1
        if chars[at] == "]":
            return found
        _, end = decoder.raw_decode(chars, at)
        event = json.loads(text[at:end], parse_float=Decimal)
        phase = str(event.get("ph", ""))
        row = None
        if phase == "X":
            row = (str(event["name"]), int(event["ts"] * 1000), int(event.get("dur", 0) * 1000))
        found.append(Event(at, end, phase, row))
        at = end


def mutate(size: int, lines: list[tuple[int, int]], rng: random.Random) -> list[Piece]:
    """One to four changes to a text of `size` bytes with these `lines`."""
    pieces: list[Piece] = [(0, size)]
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        kind = rng.randrange(8)
        at = rng.randrange(size)
        if kind == 0:  # a byte becomes another
            pieces = _replace(pieces, at, at + 1, bytes([rng.randrange(256)]))
        elif kind == 1:  # a byte becomes one that means something
            pieces = _replace(pieces, at, at + 1, bytes([rng.choice(_STRUCTURAL)]))
        elif kind == 2:  # bytes are put in
            junk = bytes(rng.choice(_STRUCTURAL) if rng.random() < 0.5 else rng.randrange(256) for _ in range(rng.randrange(1, 9)))
            pieces = _replace(pieces, at, at, junk)
        elif kind == 3:  # a stretch is cut out
            pieces = _replace(pieces, at, min(size, at + rng.choice((1, 2, 10, 100, 1000))), b"")
        elif kind == 4:  # the end is missing
            pieces = _replace(pieces, at, size, b"") if rng.random() < 0.5 else _replace(pieces, size - at % 200, size, b"")
        elif kind == 5:  # a line is missing
            first, last = rng.choice(lines)
            pieces = _replace(pieces, first, last, b"")
        elif kind == 6:  # a line stands there twice
            first, last = rng.choice(lines)
            pieces = _insert(pieces, last, (first, last))
        else:  # a bit is flipped
            pieces = _flip(pieces, at, rng)
    return pieces


def _flip(pieces: list[Piece], at: int, rng: random.Random) -> list[Piece]:
    return _replace(pieces, at, at + 1, b"FLIP%d" % rng.randrange(8))


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
    made = bytearray()
    for piece in pieces:
        if isinstance(piece, bytes):
            if piece.startswith(b"FLIP"):
                piece = b"%c" % (ord(" ") ^ 1 << int(piece[4:]))
            made += piece
        else:
            made += text[piece[0] : piece[1]]
    return bytes(made)


def whole_events(events: list[Event], pieces: list[Piece]) -> tuple[Counter[tuple[str, int, int]], Counter[str]]:
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
