"""Recovers events from text that does not decode: keeps sound ones, repairs or drops broken ones.

An event is *sound* if it decodes on its own from its opening brace. Text between two sound events is repaired
if its meaning is certain, otherwise dropped and counted. The result depends only on the bytes, so recovering
the same piece again, for its `args`, gives the same events in the same order.
"""

from __future__ import annotations

import bisect
import json
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tracetui.formats.chrome_json.repair_event import repair_event

_OPENING = re.compile(r'\{\s*"')
_AFTER_CLOSING = re.compile(r'[}\]]\s*,?\s*(?=\{\s*")')
_BETWEEN = re.compile(rb"\}\s*,\s*(?=\{)")
_RAW = msgspec.json.Decoder(msgspec.Raw)
# Integers as floats: `int` refuses numbers with thousands of digits.
_DECODER = json.JSONDecoder(strict=False, parse_int=float)
_TOKEN = re.compile(rb'[{}\[\]]|"(?:[^"\\]|\\.)*"', re.DOTALL)
_NESTING = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}
_PIECES = 64
"""Broken text cut into more pieces than this is repaired only piece by piece."""
_LITERAL = 40
_BRACKETS = 1000
"""How many closing brackets to try, at most, as the one that closes the events."""


class _Chars(str):
    """Text that json cannot count lines in: it does so for every error, at great cost."""

    __slots__ = ()

    def count(self, *_: Any) -> int:
        return 0


@dataclass(slots=True)
class Recovered:
    """What was found in a piece of text."""

    events: list[bytes] = field(default_factory=list)
    """Texts of the events, each a JSON object that decodes, in the order of the piece."""
    places: list[tuple[int, int]] = field(default_factory=list)
    """Where each event stood in the piece."""
    notes: list[tuple[str, int]] = field(default_factory=list)
    """(kind of diagnostics, position in the piece)."""
    rest: int = 0
    """Where to continue reading: the end of the piece, or where an unfinished event may start."""
    close: int = -1
    """At the end of the file: position of the bracket that closes the events, -1 if there is none."""
    cut: int = -1
    """At the end of the file without such a bracket: where the last sound event ends."""


def is_event(value: Any) -> bool:
    """Whether a decoded value can be an event of a trace."""
    if not isinstance(value, dict):
        return False
    phase = value.get("ph")
    return isinstance(phase, str) and len(phase) <= 2 and ("ts" in value or "pid" in value or "name" in value)


def recover_text(text: bytes, end: str, bare: bool = False) -> Recovered:
    """Find the events in `text`.

    `end` says where it ends: at the "border" between two events, at the end of the "file" (an array if
    `bare`), or anywhere, with "more" to come.
    """
    # One character per byte: positions stay byte offsets, and invalid UTF-8 does no harm here.
    chars = _Chars(text.decode("latin-1"))
    out = Recovered(rest=len(text))
    done = 0  # end of the last sound event
    at = 0
    while (opening := _OPENING.search(chars, at)) is not None:
        begin = opening.start()
        try:
            value, after = _DECODER.raw_decode(chars, begin)
        except RecursionError:
            # Deep nesting, where every bracket would be tried in turn: skip to the first that closes.
            closing = _AFTER_CLOSING.search(chars, begin + 1)
            at = closing.end() if closing else len(chars)
            continue
        except ValueError:
            value = None
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
    """Whether `text` is valid JSON that ends inside a value."""
    chars = text.decode("latin-1")
    begin = len(chars) - len(chars.lstrip(" \t\r\n"))
    try:
        _DECODER.raw_decode(chars, begin)
    except json.JSONDecodeError as error:
        # For an unclosed string the error is at its start; literals and numbers are short.
        return error.msg.startswith("Unterminated string") or error.pos >= len(chars.rstrip()) - _LITERAL
    except (ValueError, RecursionError):
        return False
    return False


def fits_end(tail: bytes, bare: bool) -> bool:
    """Whether `tail` is valid after the bracket that closes the events."""
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
    """A JSON object as a dict, with invalid UTF-8 replaced; {} if it cannot be decoded."""
    try:
        found = msgspec.json.decode(text)
    except UnicodeDecodeError:
        return lenient(bytes(text).decode("utf-8", "replace").encode())
    except (msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _sound(text: bytes, begin: int, end: int, out: Recovered) -> None:
    """Keep an event that Python's lenient json accepts; repair it if strict JSON does not."""
    piece = text[begin:end]
    if decodes(piece):
        out.events.append(piece)
        out.places.append((begin, end))
    elif not _repaired(piece, begin, out):
        out.notes.append(("broken_event", begin))


def decodes(piece: bytes) -> bool:
    """Whether `piece` is one strictly valid JSON value in UTF-8."""
    try:
        _RAW.decode(piece)
        if not piece.isascii():
            piece.decode()
        elif b"\\ud" in piece or b"\\uD" in piece:
            msgspec.json.decode(piece)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return False
    return True


def _repaired(piece: bytes, begin: int, out: Recovered) -> bool:
    made, kinds = repair_event(piece)
    if made is None or not decodes(made):
        return False
    if not is_event(lenient(made)):
        return False
    out.events.append(made)
    out.places.append((begin, begin + len(piece)))
    out.notes += [(kind, begin) for kind in kinds]
    return True


def _between(text: bytes, begin: int, end: int, out: Recovered, last: bool = False) -> None:
    """Check the text between two sound events: usually a comma; otherwise repair or drop it."""
    junk = text[begin:end].strip(b" \t\r\n")
    if junk in (b",", b""):
        if not junk and begin and not last:
            out.notes.append(("separator", begin))
        return
    _broken(text, begin, end, out)


def _broken(text: bytes, begin: int, end: int, out: Recovered) -> None:
    """Repair or drop text[begin:end], in which no event is sound."""
    while begin < end and text[begin] in b", \t\r\n":
        begin += 1
    while end > begin and text[end - 1] in b", \t\r\n":
        end -= 1
    if b'"' not in text[begin:end]:
        out.notes.append(("separator", begin))
        return
    cuts = [*(m.start() + 1 for m in _BETWEEN.finditer(text, begin, end)), end]
    if len(cuts) > _PIECES:
        # Too many pieces to try each with each: one by one only.
        for cut in cuts:
            if not _repaired(text[begin:cut].strip(b", \t\r\n"), begin, out):
                out.notes.append(("broken_event", begin))
            begin = cut
        return
    first = 0
    while first < len(cuts):
        start = begin if first == 0 else cuts[first - 1]
        while start < end and text[start] in b", \t\r\n":
            start += 1
        last = bisect.bisect_left(cuts, _closing(text, start, end), first)
        if last < len(cuts) and _repaired(text[start : cuts[last]], start, out):
            first = last + 1
        else:
            out.notes.append(("broken_event", start))
            first += 1


def _closing(text: bytes, begin: int, end: int) -> int:
    """Where the object that opens at `begin` closes; a position past `end` if it does not.

    Repairs never change brackets or the ends of strings, so an event cannot end elsewhere.
    """
    depth = 0
    for token in _TOKEN.finditer(text, begin, end):
        depth += _NESTING.get(token.group(), 0)
        if not depth:
            return token.end()
    return end + 1
