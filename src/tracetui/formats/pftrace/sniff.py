"""Tells a trace of packets from other bytes."""

from __future__ import annotations

from tracetui.formats.foreign import is_xplane
from tracetui.formats.pftrace.wire import Malformed, fields, varint

_ENOUGH = 3
"""Packets that make sure."""
_LEAST = 1 << 12
"""Bytes of a packet that is not whole that make sure."""
_KNOWN = {(n, 0) for n in (3, 8, 10, 13, 58, 79, 87)} | {
    (n, 2) for n in (1, 2, 6, 7, 9, 11, 12, 33, 35, 36, 43, 44, 45, 50, 51, 52, 53, 59, 60, 69, 89, 133)
}
"""Fields that packets have, and their wire types: one of them is in nearly every packet."""
_TIME_OR_SEQUENCE = {(8, 0), (10, 0)}
"""What else lies within a packet has hardly ever both a number and a type of these."""


def sniff(head: bytes, name: str) -> bool:
    """Whether the text is a series of packets, none of them of another format that looks alike."""
    return packets_at(head, 0, _KNOWN)[0] and not is_xplane(head, name)


def packets_at(data: bytes, at: int, known: set[tuple[int, int]] = _TIME_OR_SEQUENCE) -> tuple[bool, int]:
    """(whether packets follow each other from `at` on, to the end of `data` or as many as make sure; how many
    fields were looked at). The last one may be cut off, the others have one of the `known` fields."""
    looked = 0
    for number in range(_ENOUGH):
        if at >= len(data):
            return number > 0, looked
        if data[at] != 0x0A:
            return False, looked
        try:
            length, begin = varint(data, at + 1, len(data))
        except Malformed:
            return number > 0 and len(data) - at < 11, looked
        if begin + length > len(data):
            return number > 0 or _begins(data, begin), looked
        found, count = _is_packet(data, begin, begin + length, known)
        looked += count
        if not found:
            return False, looked
        at = begin + length
    return True, looked


def _is_packet(data: bytes, begin: int, end: int, known: set[tuple[int, int]]) -> tuple[bool, int]:
    """Whether it is one, and how many fields were looked at."""
    found, count = False, 0
    try:
        for count, (number, kind, _) in enumerate(fields(data, begin, end), 1):  # noqa: B007
            found = found or (number, kind) in known
    except Malformed:
        found = False
    return found, count


def _begins(data: bytes, begin: int) -> bool:
    """Whether the first packet, which is larger than `data`, begins as packets do."""
    try:
        key, _ = varint(data, begin, len(data))
    except Malformed:
        return False
    return len(data) - begin >= _LEAST and (key >> 3, key & 7) in _KNOWN
