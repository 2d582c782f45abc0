"""Finds the first event of a file, and the metadata before and after the events."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tracetui.core.errors import NOT_A_TRACE, TraceError
from tracetui.formats.chrome_json.arrays import KEY, enter
from tracetui.formats.chrome_json.recover_text import is_incomplete, lenient, recover_text
from tracetui.formats.chrome_json.schema import RAW_FIELDS
from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.window import Window

_SEARCHED = 1 << 26
"""How far into a file to look for events."""
_TOO_FAR = "has no traceEvents in its first 64 MB: tracetui looks for them no further"
_SALVAGED = re.compile(
    rb'"(baseTimeNanoseconds|displayTimeUnit|schemaVersion|traceName|record_shapes|with_stack|profile_memory)"'
    rb'\s*:\s*(-?\d{1,19}(?!\d)|"[^"\\\x00-\x1f]{0,1000}")'
)


class Beginning(Struct, frozen=True):
    """The text before the events."""

    arrays: tuple[bool, ...]
    """For each of the arrays that the first event is in, from the outermost on: whether it is in no object.

    (True,) if the file is an array of events, (False,) if it is an object containing one, (True, False) if it
    is a list of such objects.
    """
    header: Mapping[str, Any]
    """Top-level keys before the events."""


def find_events(window: Window, diagnostics: Diagnostics) -> Beginning:
    """Move `window` from the start of the text to the first event. Raises TraceError if there is none."""
    want = 1 << 12
    while True:
        window.fill(want)
        text = window.text()
        begin = len(text) - len(text.lstrip(b"\xef\xbb\xbf \t\r\n"))
        listed = text[begin : begin + 1] == b"["
        first = len(text) - len(text[begin + 1 :].lstrip(b" \t\r\n")) if listed else begin
        if found := enter(text[first:]):
            window.skip(first + found[0])
            if listed:
                diagnostics.note("listed", window.offset)
            return Beginning((True, False) if listed else (False,), found[1])
        if listed and (window.ended or want >= _SEARCHED or not is_incomplete(text[first:])):
            window.skip(begin + 1)
            return Beginning((True,), {})
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
        return Beginning((False,), salvage(text[: match.start()]))
    found = recover_text(text, "more")
    if not found.events:
        begun = text.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{"
        raise TraceError(_verdict(text) if window.ended else _TOO_FAR if begun else NOT_A_TRACE)
    begin = found.places[0][0]
    head = text[:begin]
    if head.strip(b"\xef\xbb\xbf \t\r\n"):  # else events alone, such as one a line
        diagnostics.note("bad_header", 0)
    window.skip(begin)
    bare = b'"traceEvents' not in head and b'"schemaVersion"' not in head
    return Beginning((bare,), salvage(head))


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
