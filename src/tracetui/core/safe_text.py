"""Make text from files safe: whatever a stranger wrote reaches the terminal as plain characters."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_UNSAFE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1: escape sequences, new lines, the 8-bit CSI
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # invisible, or fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line separators, bidirectional controls
    "\ufe00-\ufe0f\ufeff\ufff0-\ufffb"  # variation selectors, byte order mark, interlinear marks
    "\ud800-\udfff"  # lone surrogates: a terminal's encoder would raise on them
    "\U000e0000-\U000e0fff"  # tags, more variation selectors
    "]"
)

_MARKS = 4
"""No script puts more combining marks on a letter; a pile of them would paint over other lines."""


@lru_cache(maxsize=2)
def _piles(end: int) -> re.Pattern[str]:
    """Matches runs of more than `_MARKS` combining marks below `end`. Built on first use: it looks up the
    category of every character."""
    marks = "".join(c for c in map(chr, range(0x300, end)) if unicodedata.category(c) in ("Mn", "Me"))
    return re.compile(f"[{marks}]{{{_MARKS + 1},}}")


def _without_piles(text: str) -> str:
    # `re` has no bitmap beyond the basic plane: marks there cost fifty times as much per character.
    piles = _piles(0x10000 if max(text) <= "\uffff" else 0x20000)
    return piles.sub(lambda pile: pile[0][:_MARKS] + "\ufffd", text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # its control picture, e.g. ␛
    return "␡" if code == 0x7F else "\ufffd"


def plain(text: str, limit: int | None = None) -> str:
    """The text with everything that could move the cursor, or hide or reorder text, made visible.

    Console markup such as `[bold]` stays: callers print it as plain text, never as markup.
    `limit`: most characters, the last one an ellipsis if cut.
    """
    if limit is not None and len(text) > limit:
        text = text[: max(0, limit - 1)] + "…"
    if text.isascii():
        return text if text.isprintable() else _UNSAFE.sub(_visible, text)
    return _without_piles(_UNSAFE.sub(_visible, text))
