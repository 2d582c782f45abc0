"""Numbers in sentences: times, shares, rates."""

from __future__ import annotations

__all__ = ["duration", "plural", "rate", "share", "size", "verb"]


def duration(ns: float) -> str:
    """Nanoseconds as people say them, three digits: ``850 ns``, ``15.3 us``, ``2.50 ms``, ``1.29 s``."""
    for unit, scale in (("ns", 1.0), ("us", 1e3), ("ms", 1e6)):
        if abs(ns) < 999.5 * scale:
            return f"{ns:.0f} ns" if unit == "ns" else f"{_three(ns / scale)} {unit}"
    return f"{_three(ns / 1e9)} s"


def share(part: float) -> str:
    """A share of one as a percentage: ``3.4 %``, ``97 %``."""
    percent = 100 * part
    return f"{percent:.1f} %" if abs(percent) < 9.95 else f"{percent:.0f} %"


def rate(per_second: float, unit: str) -> str:
    """A rate with three digits and a prefix: ``694 TFLOP/s``, ``3.06 TB/s``."""
    for prefix, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if per_second >= 0.9995 * scale:
            return f"{_three(per_second / scale)} {prefix}{unit}"
    return f"{_three(per_second / 1e3)} k{unit}"


def size(count: float) -> str:
    """Bytes, in powers of 1000: ``4 B``, ``33.6 MB``."""
    if count < 999.5:
        return f"{count:.0f} B"
    for prefix, scale in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if count < 999.5 * scale:
            return f"{_three(count / scale)} {prefix}B"
    return f"{_three(count / 1e12)} TB"


def plural(count: int, noun: str, many: str = "") -> str:
    """``1 call``, ``20 calls``, ``2 copies``."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def verb(count: int, many: str) -> str:
    """The verb that goes with a count: ``1 call takes``, ``2 calls take``."""
    return f"{many}s" if count == 1 else many


def _three(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
