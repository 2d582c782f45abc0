"""A piece of text that does not decode, taken apart: every sound event in it is kept, a broken one mended or
dropped.

An event is *sound* when it decodes by itself from its opening brace on. What lies between two sound events is
mended where the meaning is certain, and otherwise dropped and counted. The result depends on the bytes alone,
so that the same piece taken apart again, for its `args`, gives the same events in the same order.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tracetui.trace.repair_event import STRING, mend

_OPENING = re.compile(r'\{\s*"')
_AFTER_CLOSING = re.compile(r'[}\]]\s*,?\s*(?=\{\s*")')
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_RAW = msgspec.json.Decoder(msgspec.Raw)
# Floats for integers: `int` refuses numbers of thousands of digits.
_DECODER = json.JSONDecoder(strict=False, parse_int=float)
_PIECES = 64
"""In how many pieces at most a broken stretch is tried."""
_LITERAL = 40
_USUAL = 1 << 14
"""Nearly all events are shorter."""
_BRACKETS = 1000
"""How many closing brackets at most are tried as the one that closes the events."""


@dataclass(slots=True)
class Repaired:
    """What was found in a piece of text."""

    events: list[bytes] = field(default_factory=list)
    """Texts of the events, each a JSON object that decodes, in the order of the piece."""
    places: list[tuple[int, int]] = field(default_factory=list)
    """Where each event stood in the piece."""
    notes: list[tuple[str, int]] = field(default_factory=list)
    """(kind of diagnostics, position in the piece)."""
    rest: int = 0
    """Where reading goes on: the end of the piece, or what may be the beginning of an event that goes on
    beyond it."""
    close: int = -1
    """At the end of the file: position of the bracket that closes the events, -1 where there is none."""
    cut: int = -1
    """At the end of the file without such a bracket: where the last sound event ends."""


def is_event(value: Any) -> bool:
    """Whether a decoded value can be an event of a trace."""
    if not isinstance(value, dict):
        return False
    phase = value.get("ph")
    return isinstance(phase, str) and len(phase) <= 2 and ("ts" in value or "pid" in value or "name" in value)


def take_apart(text: bytes, end: str, bare: bool = False) -> Repaired:
    """Find the events in `text`.

    `end` says where it ends: at the "border" between two events, at the end of the "file" (an array if
    `bare`), or anywhere, with "more" to come.
    """
    # One character per byte: positions stay byte offsets, and invalid UTF-8 does no harm here.
    chars = text.decode("latin-1")
    out = Repaired(rest=len(text))
    done = 0  # end of the last sound event
    at = 0
    while True:
        opening = _OPENING.search(chars, at)
        if opening is None:
            break
        begin = opening.start()
        try:
            value, after = _decode(chars, begin)
        except RecursionError:
            # Thousands of brackets, each of which would be tried in turn: go on after the first that closes.
            closing = _AFTER_CLOSING.search(chars, begin + 1)
            at = closing.end() if closing else len(chars)
            continue
        except ValueError:
            at = begin + 1
            continue
        if not is_event(value):
            at = begin + 1
            continue
        _between(text, done, begin, out)
        _sound(text, begin, after, out)
        done = at = after
    if end == "more":
        following = _OPENING.search(chars, done)
        out.rest = following.start() if following else len(text)
    elif end == "file":
        out.close = find_close(text, done, bare)
        if out.close < 0:
            out.cut = done
            return out
    _between(text, done, out.close if end == "file" else out.rest, out, last=True)
    return out


def is_incomplete(text: bytes) -> bool:
    """Whether `text` is sound JSON as far as it goes, but ends inside a value."""
    chars = text.decode("latin-1")
    begin = len(chars) - len(chars.lstrip(" \t\r\n"))
    try:
        _DECODER.raw_decode(chars, begin)
    except json.JSONDecodeError as error:
        return _runs_out(error, len(chars.rstrip()))
    except (ValueError, RecursionError):
        return False
    return False


def _runs_out(error: json.JSONDecodeError, end: int) -> bool:
    """Whether the text may be sound as far as it goes, which is to `end`."""
    # Where a string is not closed, its beginning is told; the literals and numbers are at most so long.
    return error.msg.startswith("Unterminated string") or error.pos >= end - _LITERAL


def _decode(chars: str, begin: int) -> tuple[Any, int]:
    """The object that begins at `begin`, and where it ends. Raises ValueError and RecursionError."""
    # An error counts the lines of all the text that was given: at first, give little.
    piece = chars[begin : begin + _USUAL]
    try:
        value, length = _DECODER.raw_decode(piece)
    except json.JSONDecodeError as error:
        if not _runs_out(error, len(piece)):
            raise
        return _DECODER.raw_decode(chars, begin)
    return value, begin + length


def fits_end(tail: bytes, bare: bool) -> bool:
    """Whether `tail` may stand after the bracket that closes the events."""
    rest = tail.strip(b" \t\r\n\x00")
    if bare:
        return not rest
    if rest.startswith(b"}"):
        return len(rest) == 1
    return rest.startswith(b",") and bool(lenient(b"{" + rest[1:]))


def find_close(text: bytes, begin: int, bare: bool) -> int:
    """Position of the bracket that closes the events, from `begin` on; -1 for none."""
    at = begin - 1
    for _ in range(_BRACKETS):
        at = text.find(b"]", at + 1)
        if at < 0 or fits_end(text[at + 1 :], bare):
            return at
    return -1


def lenient(text: bytes | msgspec.Raw) -> dict[str, Any]:
    """A JSON object as a dict, with invalid UTF-8 replaced; {} for what cannot be decoded at all."""
    try:
        found = msgspec.json.decode(text)
    except UnicodeDecodeError:
        return lenient(bytes(text).decode("utf-8", "replace").encode())
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _sound(text: bytes, begin: int, end: int, out: Repaired) -> None:
    """Keep an event that decodes by lenient rules; mend what the strict ones do not take."""
    piece = text[begin:end]
    if decodes(piece):
        out.events.append(piece)
        out.places.append((begin, end))
    elif not _mended(piece, begin, out):
        out.notes.append(("broken_event", begin))


def decodes(piece: bytes) -> bool:
    """Whether `piece` is one JSON value in UTF-8, by the strict rules."""
    try:
        _RAW.decode(piece)
        if not piece.isascii():
            piece.decode()
        elif b"\\ud" in piece or b"\\uD" in piece:
            msgspec.json.decode(piece)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return False
    return True


def _mended(piece: bytes, begin: int, out: Repaired) -> bool:
    made, kinds = mend(piece)
    if made is None or not decodes(made):
        return False
    try:
        if not is_event(msgspec.json.decode(made)):
            return False
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    out.events.append(made)
    out.places.append((begin, begin + len(piece)))
    out.notes += [(kind, begin) for kind in kinds]
    return True


def _between(text: bytes, begin: int, end: int, out: Repaired, last: bool = False) -> None:
    """What lies between two sound events: usually a comma; otherwise mend or drop it."""
    junk = text[begin:end].strip(b" \t\r\n")
    if junk in (b",", b""):
        if not junk and begin and not last:
            out.notes.append(("separator", begin))
        return
    _broken(text, begin, end, out)


def _broken(text: bytes, begin: int, end: int, out: Repaired) -> None:
    """Mend or drop text[begin:end], in which no event is sound."""
    while begin < end and text[begin] in b", \t\r\n":
        begin += 1
    while end > begin and text[end - 1] in b", \t\r\n":
        end -= 1
    if begin >= end:
        out.notes.append(("separator", begin))
        return
    if b'"' not in text[begin:end]:
        out.notes.append(("separator", begin))
        return
    cuts = [m.start() + 1 for m in _BETWEEN.finditer(text, begin, end)]
    cuts.append(end)
    if len(cuts) > _PIECES:
        # Too many pieces to try each with each: one by one only.
        for cut in cuts:
            if not _mended(text[begin:cut].strip(b", \t\r\n"), begin, out):
                out.notes.append(("broken_event", begin))
            begin = cut
        return
    first = 0
    while first < len(cuts):
        start = begin if first == 0 else cuts[first - 1]
        while start < end and text[start] in b", \t\r\n":
            start += 1
        for last in range(first, len(cuts)):
            piece = text[start : cuts[last]]
            if _mended(piece, start, out):
                first = last + 1
                break
            if last + 1 == len(cuts) or _lost(piece):
                out.notes.append(("broken_event", start))
                first += 1
                break


def _lost(piece: bytes) -> bool:
    """Whether `piece` cannot be mended whatever follows: an error lies before the end of its last string."""
    chars = piece.decode("utf-8", "replace")
    sure = chars[: max((match.end() for match in STRING.finditer(chars)), default=0)].encode()
    made = (mend(sure)[0] or sure).decode()
    try:
        _DECODER.raw_decode(made)
    except json.JSONDecodeError as error:
        return error.pos < len(made)
    except RecursionError:
        return False
    return True
