"""Protobuf's wire format: the fields of a message."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MASK = (1 << 64) - 1
_LONGEST = 10
"""Bytes of a number at most."""


class Malformed(ValueError):
    """These bytes are not a message."""


Value = int | tuple[int, int]
"""A number, or where bytes begin and end."""


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """(the number at `at`, where it ends). Raises Malformed."""
    value = shift = 0
    for place in range(at, min(end, at + _LONGEST)):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, place + 1
        shift += 7
    raise Malformed


def fields(data: bytes, begin: int, end: int) -> Iterator[tuple[int, int, Value]]:
    """(number, wire type, value) of each field of the message between the two. Raises Malformed."""
    at = begin
    while at < end:
        if at + 1 < end and 8 <= (key := data[at]) < 0x80:
            # Most keys take a byte, lengths and numbers one or two: without calls, this takes a third of the
            # time.
            short, first = data[at + 1], at + 2
            if short >= 0x80:
                if first == end:
                    raise Malformed
                short += (data[first] << 7) - 0x80
                first += 1
            if short < 0x4000:
                kind = key & 7
                if kind == VARINT:
                    at = first
                    yield key >> 3, VARINT, short
                    continue
                if kind == BYTES and first + short <= end:
                    at = first + short
                    yield key >> 3, BYTES, (first, at)
                    continue
        key, at = varint(data, at, end)
        number, kind = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise Malformed
        if kind == VARINT:
            value, at = varint(data, at, end)
            yield number, kind, value
        elif kind == BYTES:
            length, at = varint(data, at, end)
            if length > end - at:
                raise Malformed
            yield number, kind, (at, at + length)
            at += length
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
            if size > end - at:
                raise Malformed
            yield number, kind, int.from_bytes(data[at : at + size], "little")
            at += size
        else:
            raise Malformed


def signed(value: int) -> int:
    """An unsigned number of 64 bits as a signed one."""
    return value - (1 << 64) if value >> 63 else value


def numbers(data: bytes, kind: int, value: Value, fixed: bool = False) -> list[int]:
    """The numbers of a repeated field: one, or packed. Raises Malformed."""
    if not isinstance(value, tuple):
        return [value] if kind == (FIXED64 if fixed else VARINT) else []
    at, end = value
    found = []
    if fixed:
        if (end - at) % 8:
            raise Malformed
        return [int.from_bytes(data[i : i + 8], "little") for i in range(at, end, 8)]
    while at < end:
        number, at = varint(data, at, end)
        found.append(number)
    return found


def text(data: bytes, value: Value) -> str:
    """The text of a field; bytes that are not UTF-8 are replaced."""
    return data[value[0] : value[1]].decode("utf-8", "replace") if isinstance(value, tuple) else ""


def parts(data: bytes, span: Value, number: int) -> Iterator[tuple[int, int]]:
    """The messages of a repeated field of a message. Raises Malformed."""
    if isinstance(span, tuple):
        for one, _, value in fields(data, *span):
            if one == number and isinstance(value, tuple):
                yield value


def flat(data: bytes, span: Value) -> dict[int, Value]:
    """The last value of each field of a message. Raises Malformed."""
    return {number: value for number, _, value in fields(data, *span)} if isinstance(span, tuple) else {}
