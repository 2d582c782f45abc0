"""Finds the first event of a file, and the metadata before and after the events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tracetui.formats.chrome_json.recover_text import KEY, lenient, recover_text
from tracetui.formats.chrome_json.schema import RAW_FIELDS
from tracetui.formats.chrome_json.top_level import top_level
from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.errors import NOT_A_TRACE, TraceError
from tracetui.formats.window import Window

_SEARCHED = 1 << 26
"""How far into a file to look for events."""
_ATTEMPTS = 16
_SALVAGED = re.compile(
    rb'"(baseTimeNanoseconds|displayTimeUnit|schemaVersion|traceName|record_shapes|with_stack|profile_memory)"'
    rb'\s*:\s*(-?\d{1,19}(?!\d)|"[^"\\\x00-\x1f]{0,1000}")'
)


class Beginning(Struct, frozen=True):
    """The text before the events."""

    bare: bool
    """The file is an array of events, not an object containing one."""
    header: Mapping[str, Any]
    """Top-level keys before the events."""


def find_events(window: Window, diagnostics: Diagnostics) -> Beginning:
    """Move `window` from the start of the text to the first event. Raises TraceError if there is none."""
    want = 1 << 12
    while True:
        window.fill(want)
        text = window.text()
        begin = len(text) - len(text.lstrip(b"\xef\xbb\xbf \t\r\n"))
        if text[begin : begin + 1] == b"[":
            window.skip(begin + 1)
            return Beginning(True, {})
        # If the key is inside a string or a nested object, the header does not decode.
        for _, match in zip(range(_ATTEMPTS), KEY.finditer(text), strict=False):
            header = top_level(text[: match.start()].lstrip(b"\xef\xbb\xbf") + b'"traceEvents": []}')
            if header:
                header.pop("traceEvents", None)
                window.skip(match.end())
                return Beginning(False, header)
        if window.ended or want >= _SEARCHED:
            break
        want *= 4
    return _damaged_beginning(window, text, diagnostics)


def _damaged_beginning(window: Window, text: bytes, diagnostics: Diagnostics) -> Beginning:
    """The header is broken, but there may still be events."""
    match = KEY.search(text)
    if match is not None and not recover_text(text[: match.start()], "more").events:
        diagnostics.note("bad_header", 0)
        window.skip(match.end())
        return Beginning(False, salvage(text[: match.start()]))
    found = recover_text(text, "more")
    if not found.events:
        raise TraceError(_verdict(text) if window.ended else NOT_A_TRACE)
    begin = found.places[0][0]
    head = text[:begin]
    if head.strip(b"\xef\xbb\xbf \t\r\n"):  # else events alone, such as one a line
        diagnostics.note("bad_header", 0)
    window.skip(begin)
    return Beginning(b'"traceEvents' not in head and b'"schemaVersion"' not in head, salvage(head))


def _verdict(text: bytes) -> str:
    try:
        kept = "traceEvents" in RAW_FIELDS.decode(text)
    except msgspec.ValidationError:
        kept = False
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return NOT_A_TRACE
    return f"is JSON, but {'its traceEvents is not an array' if kept else 'has no traceEvents'}"


def salvage(text: bytes) -> dict[str, Any]:
    """The simple top-level keys found in damaged text before or after the events."""
    found: dict[str, Any] = {}
    for match in _SALVAGED.finditer(text):
        found.setdefault(match.group(1).decode(), lenient(b'{"v":' + match.group(2) + b"}").get("v"))
    return {key: value for key, value in found.items() if value is not None}
