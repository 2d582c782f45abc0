"""What is around the events: the top-level keys, and the bracket that closes the events."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from tracetui.core.patterns import pattern
from tracetui.formats.chrome_json.schema import RAW_FIELDS

_CLOSED = pattern(rb'\]\s*(?:\}\s*\Z|,\s*"|\Z)')
_BUDGET = 32
"""Bytes that failed attempts may read, for each byte of the text."""
_SMALL = 1 << 20
"""Top-level values longer than this stay undecoded."""


def fits_end(tail: bytes, bare: bool) -> bool:
    """Whether `tail` is valid after the bracket that closes the events."""
    rest = tail.strip(b" \t\r\n\x00")
    if bare:
        return not rest
    if rest.startswith(b"}"):
        return len(rest) == 1
    return bool(ending_keys(rest))


def find_close(text: bytes, begin: int, bare: bool) -> int:
    """Position of the bracket that closes the events, from `begin` on; -1 for none."""
    whole = len(text.rstrip(b" \t\r\n\x00"))
    budget = _BUDGET * len(text)
    for match in _CLOSED.finditer(text, begin, whole):
        budget -= whole - match.start()
        if fits_end(text[match.start() + 1 : whole], bare):
            return match.start()
        if budget < 0:
            break
    return -1


def top_level(text: bytes) -> dict[str, Any]:
    """A JSON object as a dict, with invalid UTF-8 replaced; {} if it cannot be decoded. Long values
    stay `msgspec.Raw`: decoded, they might take fifty times the memory."""
    try:
        found: dict[str, Any] = dict(RAW_FIELDS.decode(text))
        for key, raw in found.items():
            found[key] = decoded(raw) if len(memoryview(raw)) <= _SMALL else raw.copy()
    except UnicodeDecodeError:
        return top_level(text.decode("utf-8", "replace").encode())
    except (ValueError, msgspec.DecodeError, RecursionError):
        return {}
    return found


def decoded(text: bytes | memoryview | msgspec.Raw) -> Any:
    """A JSON value, with invalid UTF-8 replaced, and numbers that are out of range by None.

    Raises ValueError, msgspec.DecodeError or RecursionError."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.ValidationError, UnicodeDecodeError):
        import json  # slow to import, and rarely needed

        chars = bytes(text).decode("utf-8", "replace")
        return json.loads(chars, parse_float=_number, parse_int=_number, parse_constant=_no_constant)


def _number(text: str) -> int | float | None:
    """None if it is out of range."""
    try:
        return int(text)
    except ValueError:
        value = float(text)  # with a point, or with too many digits
        return value if math.isfinite(value) else None


def _no_constant(text: str) -> None:
    raise ValueError(text)  # NaN is no JSON


def ending_keys(tail: bytes) -> dict[str, Any]:
    """The top-level keys of the text after the events' closing bracket."""
    rest = tail.strip(b" \t\r\n\x00")
    return top_level(b"{" + rest[1:]) if rest.startswith(b",") else {}
