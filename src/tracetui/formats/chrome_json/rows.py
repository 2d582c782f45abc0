"""Turns the events of a chunk into a few arrays, with names and (ph, cat, pid, tid) as numbers.

`typed_rows` is the normal path, from msgspec structs. `patient_rows` decodes one field at a time and accepts
anything: a list for a time, a number for a name, ids beyond 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import pack, pack_into
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from tracetui.core.columns import I32, I64, NO_ID, NO_TIME
from tracetui.formats.chrome_json.schema import RAW_FIELDS
from tracetui.formats.chrome_json.times import (
    FLOAT_LIMIT,
    exact,
    from_floats,
    from_texts,
    shrink,
)
from tracetui.formats.store import Tables

_NAME_LIMIT = 1 << 16


class Rows(Struct):
    """The events of a chunk, in file order. Arrays of equal length; times in nanoseconds."""

    head: I32
    name: I32
    start: I64
    duration: I64
    correlation: I64
    external: I64
    pick_flow: Callable[[I64], tuple[list[Any], list[bool]]]
    """For row indices: the flow ids, for `Tables.flow_ids`, and whether each binds to the enclosing slice."""
    pick_lower: Callable[[I64], list[int]]
    """For row indices: the `external id` (in lower case), or NO_ID."""
    wrong: Sequence[int] = ()
    """The rows of events with a field of the wrong type (treated as missing)."""


class LosesDigits(Exception):
    """A time of a chunk is too large for a float."""


def typed_rows(events: list[Any], as_text: bool, tables: Tables) -> Rows:
    """Raises LosesDigits if floats would lose digits, OverflowError or struct.error if an integer exceeds
    64 bits or an event has neither a name nor a time nor a process. `as_text`: see `decoder`."""
    count = len(events)
    wrong: Sequence[int] = ()
    if as_text:
        times, texts = [bytes(e.ts).strip(b'"') for e in events], [bytes(e.dur) for e in events]
        start, duration = from_texts(times), from_texts([text.strip(b'"') for text in texts])
        odd = np.flatnonzero((start == NO_TIME) | (duration == NO_TIME)).tolist()
        wrong = [i for i in odd if _is_wrong(events[i].ts, start[i]) or _is_wrong(texts[i], duration[i])]
        shrink(times, duration)
    else:
        # Twice as fast as `np.fromiter`.
        packed = pack(f"{2 * count}d", *[e.ts for e in events], *[e.dur for e in events])
        raw = np.frombuffer(packed, np.float64)
        # NaN, a missing time, compares as false.
        if (np.abs(raw) >= FLOAT_LIMIT).any():
            raise LosesDigits
        both = from_floats(raw)
        start, duration = both[:count], both[count:]
    if any(not (events[i].name or events[i].pid) for i in np.flatnonzero(start == NO_TIME).tolist()):
        raise OverflowError  # perhaps it is none
    ids = np.empty(2 * count, np.int64)
    numbers = (*[e.args.correlation for e in events], *[e.args.external for e in events])
    pack_into(f"{2 * count}q", ids.data, 0, *numbers)
    correlation, external = ids[:count], ids[count:]
    name = np.fromiter(map(tables.names.__getitem__, [e.name for e in events]), np.int32, count)
    number = tables.heads.__getitem__
    head = np.fromiter(map(number, [(e.ph, e.cat, e.pid, e.tid) for e in events]), np.int32, count)

    def pick_flow(indices: I64) -> tuple[list[Any], list[bool]]:
        picked = [events[i] for i in indices.tolist()]
        return [e.id for e in picked], [e.bp == "e" or e.ph != "f" for e in picked]

    def pick_lower(indices: I64) -> list[int]:
        return [events[i].args.lower for i in indices.tolist()]

    return Rows(head, name, start, duration, correlation, external, pick_flow, pick_lower, wrong)


def _is_wrong(raw: msgspec.Raw | bytes, time: int) -> bool:
    """Whether the text of a time is there, and says none."""
    return bool(time == NO_TIME and bytes(raw))


class _Unreadable:
    """Stands for a value that cannot be decoded, such as a number out of range."""


_UNREADABLE = _Unreadable()


def _decoded(fields: dict[str, msgspec.Raw], key: str) -> Any:
    raw = fields.get(key)
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return _UNREADABLE


def _text(value: Any) -> str:
    """A label of any type as text."""
    if isinstance(value, str):
        return value
    if value is None or value is _UNREADABLE:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return str(int(value))
    try:
        return msgspec.json.encode(value)[:_NAME_LIMIT].decode("utf-8", "replace")
    except (msgspec.EncodeError, RecursionError, OverflowError):
        return "?"


def _label(value: Any) -> int | str:
    return value if type(value) is int and abs(value) < 1 << 63 else _text(value)  # None becomes ""


def _fields(raw: msgspec.Raw | None) -> dict[str, msgspec.Raw] | None:
    """The texts of an object's fields; {} for null or none, None for what is no object."""
    try:
        return {} if raw is None or bytes(raw) == b"null" else RAW_FIELDS.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def _id(value: Any) -> int | None:
    """The id that a value says; None if it says none."""
    if value is None:
        return NO_ID
    if (isinstance(value, str) and value.strip().removeprefix("-").isdecimal() and len(value) < 20) or (
        isinstance(value, float) and value.is_integer()
    ):
        value = int(value)
    return value if type(value) is int and -(1 << 63) <= value < 1 << 63 else None


def _time(fields: dict[str, msgspec.Raw], key: str) -> int:
    raw = fields.get(key)
    return NO_TIME if raw is None else exact(bytes(raw).decode("ascii", "replace"))


def patient_rows(texts: Sequence[bytes | msgspec.Raw], tables: Tables) -> Rows:
    """Rows from the texts of events, each a JSON object. A slow Python loop, for odd chunks only."""
    count = len(texts)
    numbers = np.zeros((7, count), dtype=np.int64)
    flows: list[tuple[Any, bool]] = []
    times: list[bytes] = []
    wrong: list[int] = []
    for at, text in enumerate(texts):
        fields = RAW_FIELDS.decode(text)
        phase, category, name = (_decoded(fields, key) for key in ("ph", "cat", "name"))
        pid, tid, args = _decoded(fields, "pid"), _decoded(fields, "tid"), _fields(fields.get("args"))
        start, duration = _time(fields, "ts"), _time(fields, "dur")
        # Only the ids: what else is in `args`, such as a number out of range, is of no concern here.
        ids = [_id(_decoded(args or {}, key)) for key in ("correlation", "External id", "external id")]
        flow = _decoded(fields, "id")
        if (
            not (isinstance(phase, str | None) and isinstance(name, str | None))
            or not (isinstance(category, str | None) and isinstance(pid, int | str | None))
            or not (isinstance(tid, int | str | None) and args is not None)
            or any(_is_wrong(fields.get(k, b""), t) for k, t in (("ts", start), ("dur", duration)))
            or None in ids
            or flow is _UNREADABLE
        ):
            wrong.append(at)
        times.append(bytes(fields.get("ts", b"")).strip(b' "'))
        head = tables.heads[_text(phase), _text(category), _label(pid), _label(tid)]
        known = (NO_ID if number is None else number for number in ids)
        numbers[:, at] = head, tables.names[_text(name)], start, duration, *known
        flows.append((None if flow is _UNREADABLE else flow, _decoded(fields, "bp") == "e" or phase != "f"))

    def pick_flow(indices: I64) -> tuple[list[Any], list[bool]]:
        picked = [flows[i] for i in indices.tolist()]
        return [i for i, _ in picked], [b for _, b in picked]

    def pick_lower(indices: I64) -> list[int]:
        lower: list[int] = numbers[6][indices].tolist()
        return lower

    shrink(times, numbers[3])
    heads, names = numbers[:2].astype(np.int32)
    return Rows(heads, names, numbers[2], numbers[3], numbers[4], numbers[5], pick_flow, pick_lower, wrong)
