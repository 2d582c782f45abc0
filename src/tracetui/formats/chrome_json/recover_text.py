"""Recovers events from text that does not decode: keeps sound ones, repairs or drops broken ones.

An event is *sound* if it decodes on its own from its opening brace. Text between two sound events is repaired
if its meaning is certain, otherwise dropped and counted. The result depends only on the bytes, so recovering
the same piece again, for its `args`, gives the same events in the same order.

The time is linear in the text: what fails has its price, and where the budget is spent, the search goes on
from the byte at which an attempt failed, not from the next brace.
"""

from __future__ import annotations

import bisect
import itertools
import re
from typing import Any

import msgspec
from msgspec import Struct, field

from tracetui.core.patterns import pattern
from tracetui.formats.chrome_json.repair_event import repair_event
from tracetui.formats.chrome_json.repair_many import all_decode, repair_many
from tracetui.formats.chrome_json.scan import last_boundary
from tracetui.formats.chrome_json.schema import ONE
from tracetui.formats.chrome_json.top_level import decoded, find_close

_SPACES = b" \t\r\n"
SPACE = pattern(rb"[ \t\r\n]*")
_GAP = pattern(rb"[, \t\r\n]*")
_NOTHING = pattern(rb"\{[ \t\r\n]*\}")
_NOTHINGS = pattern(_NOTHING.pattern + rb"[ \t\r\n]*,?")
_OPENING = pattern(rb'\{\s*"')
_AFTER_CLOSING = pattern(rb'[}\]]\s*(?:,\s*)?(?=\{\s*")')
_BETWEEN = pattern(rb"\}\s*,\s*(?=\{)")
_BEGUN = pattern(rb'\{\s*"ph"\s*:')
_TOKEN = pattern(rb'[{}\[\]]|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_NESTING = {b"{": 1, b"[": 1, b"}": -1, b"]": -1}
_STOPPED = pattern(r"(?:JSON is malformed: )?(.*) \(byte (\d+)\)$")
"""What msgspec says of the place where it stopped, and the place."""
_WRONG_AFTER = pattern(rb'[^"\\]*(?:\\.[^"\\]*)*"[ \t\r\n]*[^:,}\] \t\r\n]', re.DOTALL)
"""The rest of a string, and after it what no string stands before."""
_NO_VALUE = pattern(rb"[^\x00-\x1fA-Za-z_+-]")
"""What no value begins with, nor a word that may stand for one."""
_WORD_BEGUN = pattern(rb"\b(?:t|tr|tru|f|fa|fal|fals|n|nu|nul)\Z")

_NAMED = pattern(rb'\{\s{0,16}"ph": "X", "cat": "[^"\\\n]{0,64}", "name": "')
_NAME_ENDS = b'", "pid": '
"""How PyTorch writes an event: a quotation mark in the name stands there without a backslash."""
_QUOTE = pattern(rb'(\\.)|"')
_FIELD = pattern(rb'",\s*"[^"]*"\s*:')
_QUOTED = 1 << 12
"""The longest such name, and the longest rest of its event, in bytes."""

_BUDGET = 32
"""Bytes that failed attempts may read, for each byte of the text; and what else they cost, in bytes:"""
_ATTEMPT, _TOO_DEEP, _PER_TOKEN = 256, 1 << 17, 256
_TOKENS = 1 << 9
"""Brackets and texts of an event that is repaired where it stands; a longer one is between two sound ones."""
_REPAIRED = 1 << 24
"""The longest text that is repaired, in bytes."""
_TOGETHER = 1 << 21
"""The longest text whose events are repaired together: their parts take fifty times its memory at worst."""


class _Event(msgspec.Struct):
    """The fields by which an event is known."""

    ph: str
    ts: msgspec.Raw = msgspec.Raw(b"")
    pid: msgspec.Raw = msgspec.Raw(b"")
    name: msgspec.Raw = msgspec.Raw(b"")


_EVENT = msgspec.json.Decoder(_Event)
_EVENTS = msgspec.json.Decoder(list[_Event])


class Recovered(Struct):
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
    settled: int = 0
    """Up to here nothing that follows the piece can change what was found."""
    budget: int = 0
    """What failed attempts may still cost."""


def is_event(text: bytes | memoryview) -> bool:
    """Whether `text`, a JSON object, can be an event of a trace."""
    try:
        event = _EVENT.decode(text)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return False
    return _is_event(event)


def _is_event(event: _Event) -> bool:
    return bool(bytes(event.ts) or bytes(event.pid) or bytes(event.name))


def is_nothing(text: bytes | memoryview) -> bool:
    """Whether this is an object without fields. Some writers (JAX) end their arrays with one, for the comma
    before it."""
    return len(text) < 64 and _NOTHING.fullmatch(text) is not None


def recover_text(text: bytes, end: str) -> Recovered:
    """Find the events in `text`.

    `end` says where it ends: at the "border" between two events, at the end of the "file" or of an "array"
    that is all of a file, or anywhere, with "more" to come.
    """
    final = end in ("file", "array")
    out = Recovered(rest=len(text), budget=_BUDGET * len(text) + (1 << 20))
    view = memoryview(text)
    first = _OPENING.search(text)
    if first and not _is_hopeless(text, *value_at(text, view, first.start())[1:]):
        out.settled = _together(text, out, final)
    done = at = out.settled  # end of the last sound event
    phase = 0
    hopeless = set[int]()
    open_ = -1  # behind the opening of the first event that may end after the text
    while (opening := _OPENING.search(text, at)) is not None:
        begin = opening.start()
        if phase < begin and (phase := text.find(b'"ph"', begin)) < 0:
            break  # no event can follow
        after, failed, why = value_at(text, view, begin)
        if after >= 0 and is_event(view[begin:after]):
            _between(text, done, begin, hopeless, out)
            _sound(text, begin, after, out)
            done = at = after
            open_ = -1
            continue
        if failed < 0:
            # Deep nesting, where every bracket would be tried in turn: skip to the first that closes.
            open_ = opening.end() if open_ < 0 else open_
            out.budget -= _TOO_DEEP
            closing = _AFTER_CLOSING.search(text, begin + 1) if out.budget > 0 else None
            at = closing.end() if closing else len(text)
            continue
        out.budget -= failed - begin + _ATTEMPT
        name = _quoted_name(text, begin) if out.budget > 0 else None
        if name is not None:
            out.budget -= 2 * _QUOTED
            quoted = _unquoted(text, begin, *name)
            if quoted is not None:
                out.budget += 2 * _QUOTED  # only what leads nowhere counts
                _between(text, done, begin, hopeless, out)
                _keep(quoted[0], begin, quoted[1], out)
                done = at = quoted[1]
                open_ = -1
                continue
        at = begin + 1
        if _is_hopeless(text, failed, why):
            hopeless.add(begin)
        elif after < 0:
            # Perhaps only its texts or values are wrong.
            brace, cost = _closing(text, begin, len(text), _TOKENS) if out.budget > 0 else (len(text) + 1, 0)
            mended = _mended(text[begin:brace]) if brace <= len(text) else None
            if mended is not None:
                _between(text, done, begin, hopeless, out)
                _keep(mended, begin, brace, out)
                done = at = brace
                open_ = -1
                continue
            out.budget -= cost + (16 * (brace - begin) if brace <= len(text) else 0)
            if open_ < 0 and brace > len(text):
                open_ = opening.end()
        if out.budget <= 0:
            at = max(at, failed)
            # What was read as the end of a string may have been the first key of an event.
            last = text.rfind(b"{", begin + 1, at)
            if last >= 0 and text[last + 1 : at].strip(_SPACES) == b'"':
                at = last
    if end == "more":
        begun = [match.start() for match in _OPENING.finditer(text, done)]
        # What follows a colon is within an event, and does not begin one.
        outer = (begin for begin in begun if text[max(0, begin - 8) : begin].rstrip(_SPACES)[-1:] != b":")
        out.rest = next(outer, done) if begun else len(text)
        # Broken events before the last border need not be read again, with more of the text.
        last = open_ if open_ >= 0 else opening.end() if opening else len(text)
        border = last_boundary(text, done, last, None)[1]
        if border > 0:
            out.rest, out.settled = max(out.rest, border), border
    elif final:
        out.close = find_close(text, done, end == "array")
        if out.close < 0:
            out.cut = done
            return out
    _between(text, done, out.close if final else out.rest, hopeless, out, last=True)
    return out


def _together(text: bytes, out: Recovered, final: bool) -> int:
    """Recover the events that begin the text, one after the other, as long as each is sound, can be repaired
    or can only be dropped; where the last one ends. A broken one
    counts only where another follows it; `final`: where one follows that is kept, as it may be the end of the
    file."""
    found = repair_many(text) if len(text) <= _TOGETHER else None
    if found is None:
        return 0
    events = all_decode(found.pieces, _EVENTS)
    sound = [_is_event(e) for e in events] if events is not None else [_is_sound(p) for p in found.pieces]
    done = 0
    count = next((i for i in range(len(sound), 0, -1) if sound[i - 1]), 0)
    count = count if final else max(count, len(sound) - 1)
    for i, ((begin, end), good) in enumerate(zip(found.places[:count], sound[:count], strict=True)):
        if good:
            out.events.append(found.pieces[i])
            out.places.append((begin, end))
            out.notes += [(kind, begin) for kind in found.notes.get(i, ())]
        elif _quoted_name(text, begin) is not None:
            break
        elif _holds_none(text, begin, end):
            out.notes += [] if is_nothing(text[begin:end]) else [("broken_event", begin)]
        else:
            break
        done = end
    return done


def _is_sound(piece: bytes) -> bool:
    return decodes(piece) and is_event(piece)


def _holds_none(text: bytes, begin: int, end: int) -> bool:
    """Whether a broken object can hold no event: its only phase, if any, is its own."""
    phase, inner = text.find(b'"ph"', begin, end), text.find(b"{", begin + 1, end)
    return text.count(b'"ph"', begin, end) < 2 and not 0 <= inner < phase


def value_at(text: bytes, view: memoryview, begin: int) -> tuple[int, int, str]:
    """(end, failed, why) of the JSON object that opens at `begin`: `end` is -1 if it is not valid; `failed`
    is then the byte where that shows, -1 if it is nested too deep; `why` is what msgspec says. Makes no
    objects, and reads no further than it has to."""
    try:
        ONE.decode(view[begin:])
        stop = len(text)
    except RecursionError:
        return -1, -1, ""
    except (ValueError, msgspec.DecodeError) as error:
        place = _STOPPED.match(str(error))
        if place is None:
            return -1, len(text), ""  # the text ends first
        stop = begin + int(place[2])
        if "trailing characters" not in place[1]:
            return -1, stop, place[1]
        stop -= 1  # msgspec counts the character that it stopped at
    return text.rfind(b"}", begin, stop) + 1, stop, ""


def _is_hopeless(text: bytes, failed: int, why: str) -> bool:
    """Whether no repair can help an object that is wrong at `failed` (see `value_at`). Repairs never change
    brackets, numbers or the ends of strings; outside of strings only words after a colon, and commas."""
    if why in ("expected ':'", "invalid number"):
        return True
    if why == "expected '\"'":
        return text[failed : failed + 1] != b","
    if why == "invalid escaped character":
        return _WRONG_AFTER.match(text, failed + 1) is not None
    head = text[max(0, failed - 64) : failed]
    before = head.rstrip(_SPACES)[-1:]
    if why == "invalid character":
        if text[failed : failed + 1] < b" ":
            # Most often within a string.
            return _WORD_BEGUN.search(head) is None and _WRONG_AFTER.match(text, failed) is not None
        wrong = _NO_VALUE.match(text, failed)
        return wrong is not None and (before == b":" or (before in (b"[", b",") and wrong.group() != b","))
    return why.startswith("expected ','") and not before.isalpha()


def is_incomplete(text: bytes) -> bool:
    """Whether `text` is valid JSON that ends inside a value."""
    try:
        ONE.decode(text)
    except RecursionError:
        return False
    except (ValueError, msgspec.DecodeError) as error:
        return _STOPPED.match(str(error)) is None
    return False


def lenient(text: bytes | memoryview | msgspec.Raw) -> dict[str, Any]:
    """A JSON object as a dict, with invalid UTF-8 replaced, and numbers that are out of range by None; {} if
    it cannot be decoded."""
    try:
        found = decoded(text)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _sound(text: bytes, begin: int, end: int, out: Recovered) -> None:
    """Keep an event whose brackets and values are right; repair it if its texts are not."""
    piece = text[begin:end]
    if decodes(piece):
        out.events.append(piece)
        out.places.append((begin, end))
    elif not _repaired(piece, begin, out):
        out.notes.append(("broken_event", begin))


def decodes(piece: bytes) -> bool:
    """Whether `piece` is one strictly valid JSON value in UTF-8."""
    try:
        ONE.decode(piece)
        if not piece.isascii():
            piece.decode()
        elif b"\\ud" in piece or b"\\uD" in piece:
            msgspec.json.decode(piece)
    except (ValueError, RecursionError, msgspec.DecodeError):
        return False
    return True


def _mended(piece: bytes) -> tuple[bytes, list[str]] | None:
    """(the event in a piece, repaired; kinds of notices), None if that is not possible."""
    if len(piece) > _REPAIRED or b'"ph"' not in piece:
        return None
    made, kinds = repair_event(piece)
    return (made, kinds) if made is not None and decodes(made) and is_event(made) else None


def _quoted_name(text: bytes, begin: int) -> tuple[int, int] | None:
    """Where the name of the event that opens at `begin` stands, if it may have quotation marks without a
    backslash."""
    head = _NAMED.match(text, begin)
    if head is None:
        return None
    end = text.find(_NAME_ENDS, head.end(), head.end() + _QUOTED)
    name = text[head.end() : max(end, head.end())]
    if b'"' not in name or b"\n" in name or _FIELD.search(name):
        return None
    return head.end(), end


def _unquoted(text: bytes, begin: int, low: int, high: int) -> tuple[tuple[bytes, list[str]], int] | None:
    """(the event that opens at `begin`, whose name is text[low:high], as of `_mended`; where it ends), None
    if it cannot be repaired."""
    name = _QUOTE.sub(lambda quote: quote[1] or b'\\"', text[low:high])
    made = text[begin:low] + name + text[high : high + _QUOTED]
    brace, _ = _closing(made, 0, len(made), _TOKENS)
    if brace > len(made):
        return None
    made = made[:brace]
    mended = (made, []) if decodes(made) and is_event(made) else _mended(made)
    return mended and ((mended[0], ["quotes", *mended[1]]), begin + brace - (len(name) - (high - low)))


def _keep(mended: tuple[bytes, list[str]], begin: int, end: int, out: Recovered) -> None:
    out.events.append(mended[0])
    out.places.append((begin, end))
    out.notes += [(kind, begin) for kind in mended[1]]


def _repaired(piece: bytes, begin: int, out: Recovered) -> bool:
    mended = _mended(piece)
    if mended is not None:
        _keep(mended, begin, begin + len(piece), out)
    return mended is not None


def _between(
    text: bytes, begin: int, end: int, hopeless: set[int], out: Recovered, last: bool = False
) -> None:
    """Check the text between two sound events: usually a comma; otherwise repair or drop it. Nothing that
    begins in `hopeless` can be repaired."""
    junk = _NOTHINGS.sub(b"", text[begin:end]).strip(_SPACES)
    if junk in (b",", b""):
        if not junk and begin and not last:
            out.notes.append(("separator", begin))
        return
    _broken(text, begin, end, hopeless, out)
    hopeless.clear()


def _broken(text: bytes, begin: int, end: int, hopeless: set[int], out: Recovered) -> None:
    """Repair or drop text[begin:end], in which no event is sound."""
    begin = _after_gap(text, begin, end)
    end = begin + len(text[begin:end].rstrip(b", \t\r\n"))
    if text.find(b'"', begin, end) < 0:
        out.notes.append(("separator", begin))
        return
    cuts = [*(m.start() + 1 for m in _BETWEEN.finditer(text, begin, end)), end]
    first = phase = 0
    while first < len(cuts):
        start = _after_gap(text, begin if first == 0 else cuts[first - 1], end)
        last, cost = first, 0
        if phase < start and (phase := text.find(b'"ph"', start, end)) < 0:
            # No event is left in this: only to be counted.
            for begun, ended in itertools.pairwise([start, *cuts[first:]]):
                _dropped(text, begun, ended, out)
            return
        if start in hopeless:
            _dropped(text, start, cuts[first], out)
            after = cuts[first + 1] if first + 1 < len(cuts) else 0
            if text.find(b'"ph"', cuts[first], after) < 0 < after and out.budget > 0:
                # The border may be one between two objects of its own.
                closing, cost = _closing(text, start, end)
                out.budget -= cost
                last = bisect.bisect_left(cuts, closing, first)
                if last < len(cuts) and _holds_none(text, start, closing):
                    first = last
            first += 1
            continue
        if out.budget > 0:
            closing, cost = _closing(text, start, end)
            last = bisect.bisect_left(cuts, closing, first)
        if last < len(cuts) and _repaired(text[start : cuts[last]], start, out):
            first = last + 1
        else:
            out.budget -= cost
            _dropped(text, start, cuts[first], out)
            first += 1


def _dropped(text: bytes, begin: int, end: int, out: Recovered) -> None:
    """Count what is dropped: at least one event, and each that begins in it. Without any text, it is none: as
    if it stood alone between two others."""
    if text.find(b'"', begin, end) < 0:
        out.notes.append(("separator", _after_gap(text, begin, end)))
        return
    begun = [match.start() for match in _BEGUN.finditer(text, begin, end)]
    out.notes += [("broken_event", at) for at in [begin, *begun[1:]]]


def _after_gap(text: bytes, begin: int, end: int) -> int:
    gap = _GAP.match(text, begin, end)
    return gap.end() if gap else begin


def _closing(text: bytes, begin: int, end: int, most: int | None = None) -> tuple[int, int]:
    """Where the object that opens at `begin` closes, a position past `end` if it does not (within the
    first `most` tokens); and the cost.

    Repairs never change brackets or the ends of strings, so an event cannot end elsewhere.
    """
    depth = count = 0
    for count, token in enumerate(itertools.islice(_TOKEN.finditer(text, begin, end), most), 1):
        depth += _NESTING.get(token.group(), 0)
        if not depth:
            return token.end(), _PER_TOKEN * count
    return end + 1, _PER_TOKEN * count
