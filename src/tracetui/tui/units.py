"""Times and counts as people read them: fixed decimals, one space, the unit."""

from __future__ import annotations

import re

_MICRO = re.compile(r"(?<=\d )us\b")


def duration(ns: float) -> str:
    """Three decimals and the unit in two cells, so that a column lines up: `12.345 µs`, `1.200 s `."""
    size = abs(ns)
    if size < 999_999.5:
        return f"{ns / 1e3:.3f} µs"
    if size < 999_999_500:
        return f"{ns / 1e6:.3f} ms"
    return f"{ns / 1e9:,.3f} s "


def instant(ns: float) -> str:
    """A time from the trace's zero, exact: `1,234.567 µs` up to a second, then `1.234567890 s`."""
    if abs(ns) < 1e9:
        return f"{ns / 1e3:,.3f} µs"
    return f"{ns / 1e9:,.9f} s"


def share(part: float, whole: float) -> str:
    """Per cent with two decimals, as in PyTorch's table; `-` of nothing."""
    return f"{100 * part / whole:.2f}%" if whole else "-"


def size(count: float) -> str:
    """Bytes in powers of 1024: `1.50 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:.2f} TiB"


def plural(count: int, word: str) -> str:
    """`1 match`, `2 matches`, `3 gaps`."""
    many = word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")
    return f"{count:,} {word if count == 1 else many}"


def micro(sentence: str) -> str:
    """A sentence of the analyses, which write `us` for terminals and files alike, as the app writes it."""
    return _MICRO.sub("µs", sentence)
