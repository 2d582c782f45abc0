"""The events of a segment of text, chunk by chunk, into an EventBuilder.

Each chunk starts at an event and ends at what looks like the border between two events. If the chunk decodes
as a list, that border was right: brackets and quotes balance nowhere else. If it does not, its brackets are
matched: if the guess was wrong (the border was inside a string or an inner list), a better border is used; if
the text itself is broken, it is taken apart (see `recover_text`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from tracetui.core.patterns import pattern
from tracetui.formats.chrome_json.arrays import close_before_next, enter, next_array
from tracetui.formats.chrome_json.event_builder import OTHERS, Chunk, EventBuilder
from tracetui.formats.chrome_json.recover_text import (
    SPACE,
    Recovered,
    is_event,
    is_incomplete,
    is_nothing,
    recover_text,
)
from tracetui.formats.chrome_json.rows import LosesDigits, Rows, patient_rows, typed_rows
from tracetui.formats.chrome_json.scan import ANY, Separator, last_boundary, learn_separator, outline
from tracetui.formats.chrome_json.scanner import AHEAD, LIBRARY
from tracetui.formats.chrome_json.schema import RAW_EVENTS, decoder
from tracetui.formats.chrome_json.top_level import fits_end
from tracetui.formats.window import Window

CHUNK = 1 << 19
"""Bytes to decode at once: small enough that the events of a chunk fit in a core's cache."""
_GROWTH = 8
"""A window grows to this many chunks before its text is assumed to be broken rather than one long event."""
_LONGEST = 1 << 26
"""Bytes of the longest event (64 MB), and of what may follow the events: a window grows no further."""
NOTHING = "nothing"
"""What is not noted: see `is_nothing`."""
_STRAY = pattern(rb"[, \t\r\n]*(\}[}, \t\r\n]*,[ \t\r\n]*)(?=\{)")
"""Braces that close nothing, before an event that is cut off."""
_OVERLAP = 1 << 10
"""How long a border between two events may be where one is looked for after an event that is too long."""
_ARRAYS = 1 << 12
"""How many further arrays of events to look for. Triton's Proton writes an object for each stream."""
_HEADER = 1 << 16
"""How long the keys between two arrays may be where the text before them is broken."""
BASE = "baseTimeNanoseconds"
_PATIENCE = 16
_ODD = 2
"""After so many chunks with an odd time, it is expected in all: one must not slow down the rest."""
_BLANK = 1 << 12
"""White space before an event that is longer than this is skipped without reading on for its end."""


class Broken(Exception):
    """A chunk is not a list of JSON values."""


class Holds(Exception):
    """An element of an array is no event, but an object with events of its own."""

    def __init__(self, at: int) -> None:
        super().__init__(at)
        self.at = at
        """Where it begins in the chunk."""


class Ending(Struct):
    """How reading a segment ended."""

    kind: str
    """"closed" (the array's bracket was found), "open" (the text ended first), "met" (the segment
    ends at a border between events), "lost" (it does not: the rest must be read serially from `offset`)."""
    offset: int
    tail: bytes = b""
    """With "closed": the text after the bracket. With "open": what follows the last event."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Top-level keys between two arrays of events."""
    arrays: Sequence[bool] = ()
    """See `Beginning`: of the last event."""


class Reader:
    """Reads one segment of events into an builder."""

    def __init__(self, builder: EventBuilder, arrays: Sequence[bool] = (False,), size: int = CHUNK) -> None:
        self.builder = builder
        self.arrays = list(arrays)
        """See `Beginning`."""
        self.size = size
        self.separator: Separator | None = None
        self._lessons = 8  # attempts left to learn a separator
        self._odd = 0  # chunks with a time that floats do not hold
        self._scanning = _PATIENCE
        """Chunks that the scanner may still decline before it is no longer asked."""
        self._passed: tuple[int, int] | None = None
        """(offset of a closing bracket skipped because the text after it is invalid, chunks by then)"""
        self._keys: dict[str, Any] = {}
        self._further = 0  # arrays that were found
        self._advance: Callable[[int], None] = lambda offset: None

    def clone(self) -> Reader:
        """Another reader of the same text, with an builder of its own."""
        clone = Reader(EventBuilder(), self.arrays, self.size)
        clone.separator = self.separator
        return clone

    @property
    def bare(self) -> bool:
        """The array is in no object."""
        return self.arrays[-1]

    def scans(self, window: Window) -> bool:
        """Whether the scanner reads the first events of a window."""
        if LIBRARY is None:
            return False
        window.fill(self.size)
        comma = last_boundary(window.buffer, 1, window.size + 1, self.separator)[0] - 1
        if comma <= 0:
            return False
        with window.as_list(comma) as text:
            return EventBuilder().scan(Chunk(0, comma), bytes(text))

    def read(self, window: Window, final: bool, advance: Callable[[int], None] | None = None) -> Ending:
        """Read up to the end of the text, or of the array. `final`: the end of the text is that of the file.

        `advance` is called with the offset after each chunk, and may raise to stop.
        """
        self._advance = advance or self._advance
        ending = None
        while ending is None:
            try:
                ending = self._read(window, final)
            except Holds as held:
                if final:
                    self._enter(window, held.at)
                else:
                    ending = Ending("lost", window.offset)
        ending.keys, ending.arrays = self._keys, self.arrays
        return ending

    def _read(self, window: Window, final: bool) -> Ending:
        want = self.size
        ahead = False  # not before a first chunk: small files have no second
        while True:
            if ahead and window.size <= want == self.size:
                self._scan_ahead(window)
            ahead = True
            window.fill(want)
            self._advance(window.offset)
            self.learn(window)
            if window.ended and not final:
                return self._meet(window)
            comma, brace = (at - 1 for at in last_boundary(window.buffer, 1, window.size + 1, self.separator))
            if comma > 0 and self._try(window, comma):
                window.skip(brace)
                want = self.size
                continue
            if comma <= 0 and not window.ended:
                want = self._grow(window)
                continue
            # No usable border: match the brackets.
            with memoryview(window.buffer) as view:
                shape = outline(view[1 : window.size + 1])
            border = shape.last
            if border <= 0 and (found := enter(window.text())) and "ph" not in found[1]:
                raise Holds(0)
            if shape.close >= 0 and not final:
                return Ending("lost", window.offset)
            closed = window.buffer[shape.close + 1] == ord("]")
            if shape.close >= 0 and closed and self._passed is None and self._try(window, shape.close):
                want = self.size
                if self._next_array(window, shape.close):
                    continue
                ending = self._close(window, shape.close)
                if ending is not None:
                    return ending
                self._passed = window.offset + shape.close, len(self.builder.chunks)
                window.skip(shape.close)
            elif border > 0 and border != comma and self._try(window, border):
                window.skip(border + 1)
                want = self.size
            elif window.ended and shape.close < 0 and self._try(window, window.size):
                window.skip(window.size)
                return Ending("open", window.offset)
            elif border != comma and not window.ended and self._may_go_on(window, border):
                want = self._grow(window)
            elif (close := self._close_before_next(window)) > 0:
                if not final:
                    return Ending("lost", window.offset)
                self._recover(window, close)
                window.skip(close)
                want, self._passed = self.size, None
            elif window.ended and not final:
                continue  # that was all of the segment
            elif self._repair(window, comma, brace, border):
                want = self.size
            elif window.ended:
                return self._finish(window)
            else:
                want = self._grow(window)

    def _scan_ahead(self, window: Window) -> None:
        """Read all that the scanner reads without a decision to be made here."""
        while self._scanning and self.separator is not None:
            text = window.peek(AHEAD, self.size)
            count = self.builder.scan_ahead(text, window.offset, self.size, self.separator)
            if not count:
                return
            self._scanning = _PATIENCE
            window.pass_over(count)
            self._advance(window.offset)

    def _grow(self, window: Window) -> int:
        """How far to read on for the end of the event at the beginning of the window. What is too long to be
        an event is passed over, up to what looks like the next one."""
        space = SPACE.match(window.buffer, 1, window.size + 1)
        if space and (blank := space.end() - 1) > _BLANK:
            window.skip(blank)
            return self.size
        if window.size < _LONGEST:
            return min(2 * max(window.size, self.size), _LONGEST)
        found = recover_text(window.text(), "more")
        if found.events:
            self._keep(window.offset, found, Chunk(window.offset, window.size, "more"))
            window.skip(found.rest)
            return self.size
        self.builder.store.diagnostics.note("too_long", window.offset)
        while True:
            window.skip(max(0, window.size - _OVERLAP))
            window.fill(self.size + _OVERLAP)
            self._advance(window.offset)
            at = ANY.search(window.buffer, 1, window.size + 1)
            if at is not None:
                window.skip(window.buffer.index(b"{", at.start()) - 1)
                return self.size
            if window.ended:
                window.skip(window.size)
                return self.size

    def learn(self, window: Window) -> bool:
        """Try to learn the separator between events; return whether it is known."""
        if self.separator is None and self._lessons:
            self._lessons -= 1
            window.fill(1 << 12)
            self.separator = learn_separator(window.text(1 << 16))
        return self.separator is not None

    def _may_go_on(self, window: Window, border: int) -> bool:
        """Whether to read on for the end of an event, rather than treat the text as broken."""
        return window.size < self.size * _GROWTH or (border <= 0 and is_incomplete(window.text()))

    def _meet(self, window: Window) -> Ending:
        """Read the last chunk of a non-final segment: its text must end at a border."""
        text = window.text()
        last = text.rfind(b",")
        if last >= 0 and not text[last + 1 :].strip():
            if self._try(window, last):
                return Ending("met", window.offset + window.size)
            shape = outline(text)
            if shape.last == last and shape.close < 0:
                self._recover(window, len(text))
                return Ending("met", window.offset + window.size)
        return Ending("lost", window.offset)

    # -- decoding -------------------------------------------------------------------------------------------

    def _try(self, window: Window, end: int) -> bool:
        """Decode the first `end` bytes of the window as a list of events; False if they are not one."""
        try:
            if window.is_ascii():
                with window.as_list(end) as text:
                    self._decode(text, Chunk(window.offset, end))
                return True
            copy = b"".join((b"[", window.text(end), b"]"))
            # msgspec does not check the encoding of fields that it skips.
            copy.decode()
            self._decode(copy, Chunk(window.offset, end))
        except (Broken, UnicodeDecodeError):
            return False
        return True

    def _decode(
        self, text: bytes | memoryview, chunk: Chunk, places: Sequence[tuple[int, int]] | None = None
    ) -> None:
        """Add the events in `text`, a JSON list, to the builder. Raises Broken before adding anything.

        `places`: of the events in the chunk, if they were recovered."""

        def offset_of(number: int) -> int:
            return chunk.offset + (_place(text, number) if places is None else places[number][0])

        if self._scanning and not chunk.apart:
            if self.builder.scan(chunk, text):
                self._scanning = _PATIENCE
                return
            self._scanning -= 1
        rows = self._rows(text)
        if rows is not None:
            self.builder.add(chunk, rows, lambda: RAW_EVENTS.decode(bytes(text)), offset_of)
            return
        try:
            texts = list(map(bytes, RAW_EVENTS.decode(bytes(text))))
        except (msgspec.DecodeError, RecursionError):
            raise Broken from None
        kinds = [_kind(one) for one in texts]
        numbers = [number for number, kind in enumerate(kinds) if not kind]
        for number, one in enumerate(texts):
            if kinds[number] == "not_an_event" and b"{" in one:
                # An extra bracket turns sound events into a nested list.
                raise Broken
            if kinds[number] == "broken_event" and b'"traceEvents"' in one and enter(one):
                raise Holds(_place(text, number))
        try:
            rows = patient_rows([texts[number] for number in numbers], self.builder.store.tables)
        except (msgspec.DecodeError, RecursionError):
            raise Broken from None
        if len(numbers) < len(texts) and not chunk.apart:
            for kind in set(kinds) - {"", NOTHING}:
                self.builder.store.diagnostics.note(kind, offset_of(kinds.index(kind)), kinds.count(kind))
            chunk = Chunk(chunk.offset, chunk.length, OTHERS)
        self.builder.add(
            chunk, rows, lambda: [texts[number] for number in numbers], lambda at: offset_of(numbers[at])
        )

    def _rows(self, text: bytes | memoryview) -> Rows | None:
        """Rows by the fastest decoder that accepts this text; None if only `patient_rows` can."""
        for as_text in (False, True)[self._odd >= _ODD :]:
            try:
                rows = typed_rows(decoder(as_text).decode(text), as_text, self.builder.store.tables)
            except LosesDigits:
                continue
            except msgspec.ValidationError as error:
                if not as_text and str(error).rpartition(".")[2].strip("`") in ("ts", "dur"):
                    continue
                return None
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                raise Broken from None
            except (OverflowError, struct.error):
                return None
            self._odd += as_text
            return rows
        return None

    # -- the end of the array, and broken text --------------------------------------------------------------

    def _next_array(self, window: Window, close: int) -> bool:
        """Move to the events of another array if there is one after the bracket at `close`."""
        while self._further < _ARRAYS:
            found = next_array(window.text()[close + 1 :], self.bare, len(self.arrays) > 1)
            if found is not None:
                self._further += 1
                if found.odd >= 0:
                    self.builder.store.diagnostics.note("separator", window.offset + close + 1 + found.odd)
                window.skip(close + 1 + found.at)
                self._note_keys(found.keys, window.offset)
                if found.kind == "list":
                    self.arrays.pop()
                else:
                    self.arrays[-1] = found.kind == "array"
                    kind = "listed" if found.kind == "element" else "second_array"
                    self.builder.store.diagnostics.note(kind, window.offset)
                return True
            if window.ended or window.size >= _LONGEST:
                break
            window.fill(max(window.size * 2, 1 << 16))
        return False

    def _enter(self, window: Window, at: int) -> None:
        """Go on with the events of the object at `at`, an element of an array."""
        text = window.text()
        comma = text.rfind(b",", 0, at)
        if comma > 0 and not self._try(window, comma):
            self._recover(window, comma)
        at += len(text[at:]) - len(text[at:].lstrip())
        found = enter(text[at:])
        assert found is not None
        self.arrays.append(False)
        window.skip(at + found[0])
        self._note_keys(found[1], window.offset)
        self.builder.store.diagnostics.note("listed", window.offset)

    def _note_keys(self, keys: Mapping[str, Any], offset: int) -> None:
        """Keep top-level keys."""
        if BASE in keys and self._keys.get(BASE, keys[BASE]) != keys[BASE]:
            self.builder.store.diagnostics.note("other_base", offset)
        self._keys.update(keys)

    def _close_before_next(self, window: Window) -> int:
        """In broken text, where the array closes before another one, however the text is cut; -1 if it does
        not."""
        window.fill(window.size + _HEADER)
        return close_before_next(window.text(), self.bare)

    def _close(self, window: Window, close: int) -> Ending | None:
        """An Ending for the array's bracket at `close` if valid text follows it, else None."""
        while not window.ended and window.size < _LONGEST:
            window.fill(max(window.size * 2, 1 << 16))
        tail = window.text()[close + 1 :]
        if not window.ended or not fits_end(tail, self.bare):
            return None
        return Ending("closed", window.offset + close + 1, tail)

    def _repair(self, window: Window, comma: int, brace: int, border: int) -> bool:
        """Recover events up to the window's last border; False if that makes no progress."""
        if comma > 0:
            piece, end = window.text(brace), "border" if border == comma else "more"
        elif border > 0:
            piece, end = window.text(border + 1), "more"
        elif window.ended:
            return False
        else:
            piece, end = window.text(), "more"
        found = recover_text(piece, end)
        if end == "more" and not (found.events and found.rest) and found.settled <= window.size // 4:
            return False  # too little for having read all of it
        self._keep(window.offset, found, Chunk(window.offset, len(piece), end))
        window.skip(found.rest)
        return True

    def _finish(self, window: Window) -> Ending:
        """Recover the rest of a broken file: its last events, then the end of the array."""
        text = window.text()
        end = "array" if self.bare else "file"
        found = recover_text(text, end)
        offset = window.offset
        self._keep(offset, found, Chunk(offset, len(text), end))
        if self._passed is not None and len(self.builder.chunks) == self._passed[1]:
            return Ending("closed", self._passed[0] + 1, text[1:])
        if found.close >= 0:
            return Ending("closed", offset + found.close + 1, text[found.close + 1 :])
        if stray := _STRAY.match(text, found.cut):
            self.builder.store.diagnostics.note("separator", offset + stray.start(1))
        left = text[stray.end() if stray else found.cut :].lstrip(b", \t\r\n\x00")
        at = offset + len(text) - len(left)
        if left[:1] == b"]":  # what follows the events is broken
            return Ending("closed", at + 1, left[1:])
        if left:
            return Ending("open", at, left)
        return Ending("open", offset + len(text))

    def _recover(self, window: Window, size: int) -> None:
        """Recover the events in the first `size` bytes, which end at the border of one."""
        found = recover_text(window.text(size), "border")
        self._keep(window.offset, found, Chunk(window.offset, size, "border"))

    def _keep(self, offset: int, found: Recovered, chunk: Chunk) -> None:
        for kind, at in found.notes:
            self.builder.store.diagnostics.note(kind, offset + at)
        if found.events:
            self._decode(b"[" + b",".join(found.events) + b"]", chunk, found.places)


def _kind(element: bytes) -> str:
    """What an element of an array is noted as; "" for an event, `NOTHING` for what is not noted."""
    if element[:1] != b"{":
        return "not_an_event"
    if is_nothing(element):
        return NOTHING
    return "" if is_event(element) else "broken_event"


def _place(text: bytes | memoryview, number: int) -> int:
    """Where the element with this number of a JSON list begins in it, without its bracket."""
    text, end = bytes(text), 1
    for piece in map(bytes, RAW_EVENTS.decode(text)[: number + 1]):
        begin = text.index(piece, end)
        end = begin + len(piece)
    return begin - 1


def reread(text: bytes, chunk: Chunk) -> Sequence[bytes | msgspec.Raw]:
    """The texts of the events in a chunk's text, numbered as when it was first read.

    Raises msgspec.DecodeError if the text has changed.
    """
    if chunk.apart not in ("", OTHERS):
        return recover_text(text, chunk.apart).events
    texts = RAW_EVENTS.decode(b"[" + text + b"]")
    return [t for t in texts if not _kind(bytes(t))] if chunk.apart else texts
