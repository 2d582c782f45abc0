"""The arguments of an event as JSON, under the names that Kineto gives them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, cast

from tracetui.formats.pftrace.schema import ANNOTATIONS, ARGUMENTS, STRING_VALUES
from tracetui.formats.pftrace.wire import (
    BYTES,
    FIXED64,
    VARINT,
    Malformed,
    Value,
    fields,
    flat,
    numbers,
    parts,
    signed,
    text,
)

Interned = Callable[[int, int], str]
"""What was interned, by field of InternedData and iid."""
_DEEPEST = 32
_KNOWN: dict[bytes, tuple[str, Any]] = {}
_MOST_KNOWN, _SHORT = 1 << 12, 1 << 10
"""Annotations that are remembered at most, and bytes of one."""
_KINETO = {
    "device id": "device", "context id": "context", "stream id": "stream",
    "registers_per_thread": "registers per thread", "shared_mem_dynamic": "shared memory",
}  # fmt: skip
_TEXTS = frozenset({"arch", "process_name"})
_OMITTED = {"graph id": "graph node id", "channel_type": "channel", "registers per thread": "shared memory"}
"""Cuspy leaves out what is 0: where the first is there, so was the second."""


def of_event(data: bytes, span: tuple[int, int], interned: Interned) -> dict[str, Any]:
    """The debug annotations of a track event. Raises Malformed."""
    return of_notes(data, list(parts(data, span, 4)), interned)


def of_notes(data: bytes, spans: Sequence[tuple[int, int]], interned: Interned) -> dict[str, Any]:
    """The same, of annotations that have been found."""
    return dict([_KNOWN.get(data[a:b]) or _known(data[a:b], interned) for a, b in spans])


def _known(data: bytes, interned: Interned) -> tuple[str, Any]:
    """The name and the value of an annotation. Many are alike, such as the types of an operator's inputs."""
    asked = False

    def ask(number: int, iid: int) -> str:
        nonlocal asked
        asked = True
        return interned(number, iid)

    try:
        found = _annotation(data, (0, len(data)), ask, 0)
    except Malformed:
        return "?", "malformed"
    if not asked and len(data) <= _SHORT:  # else it may mean something else elsewhere
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[data] = found
    return found


def _annotation(data: bytes, span: tuple[int, int], interned: Interned, depth: int) -> tuple[str, Any]:
    name, value = "", cast(Any, None)
    array: list[Any] = []
    entries: dict[str, Any] = {}
    for number, _, what in fields(data, *span):
        if number == 10 and isinstance(what, tuple):
            name = text(data, what)
        elif isinstance(what, int):
            if number == 1:
                name = interned(ANNOTATIONS, what)
            elif number == 2:
                value = what != 0
            elif number == 3:
                value = what
            elif number == 4:
                value = signed(what)
            elif number == 5:
                (value,) = struct.unpack("<d", what.to_bytes(8, "little"))
            elif number == 7:
                value = hex(what)
            elif number == 17:
                value = interned(STRING_VALUES, what)
        elif number in (6, 9):
            value = text(data, what)
        elif number == 12:
            array.append(_annotation(data, what, interned, depth + 1)[1] if depth < _DEEPEST else "...")
        elif number == 11:
            key, entry = _annotation(data, what, interned, depth + 1) if depth < _DEEPEST else ("", "...")
            entries[key] = entry
        elif number == 8:
            value = _nested(data, what, depth + 1)
        elif number == 14:
            value = f"({what[1] - what[0]} bytes)"
    return name, entries or array if value is None else value


def _nested(data: bytes, span: tuple[int, int], depth: int) -> Any:
    """The value of an older annotation."""
    value: Any = None
    keys, values, array = list[str](), list[Any](), list[Any]()
    for number, _, what in fields(data, *span):
        if isinstance(what, tuple):
            if number == 2:
                keys.append(text(data, what))
            elif number in (3, 4):
                one = _nested(data, what, depth + 1) if depth < _DEEPEST else "..."
                (values if number == 3 else array).append(one)
            elif number == 8:
                value = text(data, what)
        elif number == 5:
            value = signed(what)
        elif number == 6:
            (value,) = struct.unpack("<d", what.to_bytes(8, "little"))
        elif number == 7:
            value = what != 0
    return (dict(zip(keys, values, strict=False)) or array) if value is None else value


def of_stage(data: bytes, span: tuple[int, int], interned: Interned) -> dict[str, Any]:
    """The arguments of GPU work. Raises Malformed."""
    found: dict[str, Any] = {}
    for number, _, value in fields(data, *span):
        if number == 6 and isinstance(value, tuple):
            one = data[value[0] : value[1]]
            name, said = _extra(one) if len(one) <= _SHORT else _extra.__wrapped__(one)
            found[name] = said
        elif number == 21 and isinstance(value, tuple):
            _launch(data, value, interned, found)
        elif number == 18:
            kind = BYTES if isinstance(value, tuple) else VARINT
            found.setdefault("event waits", []).extend(numbers(data, kind, value))
        elif number in (10, 17) and isinstance(value, int):
            found["submission"] = value
    for there, omitted in _OMITTED.items():
        if there in found:
            found.setdefault(omitted, 0)
    return found


@lru_cache(_MOST_KNOWN)
def _extra(data: bytes) -> tuple[str, Any]:
    """The name and the value of an argument of GPU work: most are those of the event before."""
    about = flat(data, (0, len(data)))
    name, said = text(data, about.get(1, 0)), text(data, about.get(2, 0))
    return _KINETO.get(name, name), said if name in _TEXTS else _said(said)


def _said(value: str) -> Any:
    """A number that was written as text, or the text."""
    digits = value.removeprefix("-")
    return int(value) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else value


def _launch(data: bytes, span: tuple[int, int], interned: Interned, found: dict[str, Any]) -> None:
    for number, _, value in fields(data, *span):
        if number in (1, 2) and isinstance(value, tuple):
            size = flat(data, value)
            found["grid" if number == 1 else "block"] = [_whole(size.get(axis, 0)) for axis in (1, 2, 3)]
        elif number == 3 and isinstance(value, tuple):
            name, said = "", cast(Any, None)
            for part, kind, what in fields(data, *value):
                if isinstance(what, tuple):
                    if part == 2:
                        name = text(data, what)
                    elif part == 6:
                        said = text(data, what)
                elif part == 1:
                    name = interned(ARGUMENTS, what)
                elif part in (3, 4):
                    said = signed(what) if part == 3 else what
                elif part == 5 and kind == FIXED64:
                    (said,) = struct.unpack("<d", what.to_bytes(8, "little"))
                elif part == 7:
                    said = interned(STRING_VALUES, what)
            found[_KINETO.get(name, name)] = said


def _whole(value: Value) -> int:
    return value if isinstance(value, int) else 0
