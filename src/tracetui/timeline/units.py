"""Times and durations as short text."""

from __future__ import annotations

UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs"), (1, "ns"))


def duration(ns: int, digits: int = 3) -> str:
    """A duration with its unit, e.g. "12.3 µs", with `digits` significant digits (whole numbers keep all)."""
    if ns < 0:
        return "-" + duration(-ns, digits)
    size, unit = next((s, u) for s, u in UNITS if ns >= s or s == 1)
    value = ns / size
    decimals = max(0, digits - len(str(ns // size))) if size > 1 else 0
    text = f"{value:.{decimals}f}"
    if size < 1_000_000_000 and size > 1 and float(text) >= 1000:
        return duration(size * 1000, digits)
    return f"{text} {unit}"


def instant(ns: int, step: int) -> str:
    """An instant to the precision of `step` nanoseconds, e.g. "12.30 ms" for a step of 10 µs."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    size, unit = next((s, u) for s, u in UNITS if ns >= s or s == 1)
    decimals = 0
    while decimals < 9 and size > step * 10**decimals:
        decimals += 1
    whole, rest = divmod(ns, size)
    part = f"{rest:0{len(str(size)) - 1}d}"[:decimals] if size > 1 and decimals else ""
    return f"{sign}{whole}.{part} {unit}" if part else f"{sign}{whole} {unit}"
