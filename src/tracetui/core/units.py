"""Numbers as text, for every part of the program: times, shares, rates, sizes, counts.

Times are written with `µs`. If that cannot be shown (`--ascii`, or the output's encoding lacks it), the
writer replaces it with `us`. JSON fields and PyTorch's own tables (`tracetui.views.pytorch_table`) use `us`.

Rounding never gives 1000 of a unit: 999.96 µs is `1.00 ms`, not `1000.0 µs`. A share below the whole is never
`100%`, and one above nothing is never `0%`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction

BEFORE_UNIT = re.compile(r"(?<=\d) (?=(?:[nµm]?s|[kMGT]i?B|[kMGT]?B(?:/s)?|[kMGT]?FLOP/s)\b)")
"""The space between a number and its unit, where lines must not break."""

COLUMN_UNITS = ((10e6, "µs", 1e3), (10e9, "ms", 1e6), (float("inf"), "s", 1e9))
"""(times below this many ns, their unit in a column, ns)."""
_UNITS = ((1, "ns"), (1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s"))
# Microseconds may be written with a u, with the micro sign U+00B5 or the Greek letter U+03BC.
_TIME = re.compile(r"\s*(-?(?:\d+(?:\.\d*)?|\.\d+))\s*(ns|[u\u00b5\u03bc]s|ms|s|)\s*", re.ASCII)
LONGEST_TIME = 40
"""Characters of a typed time."""


def significant(value: float, digits: int = 3) -> str:
    """A number >= 0 with this many significant digits, large ones as integers: `2.50`, `15.3`, `1,234`."""
    for decimals in range(digits - 1, 0, -1):
        text = f"{value:.{decimals}f}"
        if len(text) <= digits + 1:
            return text
    return f"{value:,.0f}"


def duration(ns: float, digits: int = 3) -> str:
    """A time for people: `850 ns`, `15.3 µs`, `2.50 ms`, `1.29 s`; `digits` significant digits."""
    if ns < 0:
        return "-" + duration(-ns, digits)
    if ns < 999.5:
        return f"{ns:.0f} ns"
    for scale, unit in _UNITS[1:-1]:
        text = significant(ns / scale, digits)
        if float(text.replace(",", "")) < 1000:
            return f"{text} {unit}"
    return f"{significant(ns / 1e9, digits)} s"


def fixed(ns: float) -> str:
    """A time for a column: three decimals, the unit in two cells: `12.345 µs`, `1.200 s `."""
    if abs(ns) < 999_999.5:
        return f"{ns / 1e3:.3f} µs"
    if abs(ns) < 999_999_500:
        return f"{ns / 1e6:.3f} ms"
    return f"{ns / 1e9:,.3f} s "


def exact(ns: float) -> str:
    """Like `fixed`, without padding, for a sentence."""
    return fixed(ns).rstrip()


def column_unit(longest_ns: float) -> str:
    """The unit of a column with this longest time: µs below 10 ms, ms below 10 s, then s."""
    return next(unit for end, unit, _ in COLUMN_UNITS if longest_ns < end)


def in_unit(ns: float, unit: str = "µs") -> str:
    """A time in `unit` (µs, ms or s), for a column whose title has the unit: `1,234.567`; never 0 for
    something."""
    size = next(size for _, name, size in COLUMN_UNITS if name == unit)
    text = f"{ns / size:,.3f}"
    return text if not ns or float(text.replace(",", "")) else f"{'>-' if ns < 0 else '<'}0.001"


def instant(ns: int) -> str:
    """An exact time since the trace's zero: `1,234.567 µs` up to a second, then `1.234567890 s`."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    scale, unit, decimals = (1_000, "µs", 3) if ns < 1_000_000_000 else (1_000_000_000, "s", 9)
    whole, rest = divmod(ns, scale)
    return f"{sign}{whole:,}.{rest:0{decimals}d} {unit}"


def age(seconds: float) -> str:
    """How long something has lasted, in one unit, rounded down: `12 s`, `5 min`, `3 h`, `4 d`."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(0, int(seconds))} s"


def tick(ns: int, step: int) -> str:
    """A time since the trace's zero with the precision of `step` (ns): `12.30 ms` for a step of 10 µs."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    scale, unit = next((s, u) for s, u in reversed(_UNITS) if ns >= s or s == 1)
    decimals = 0
    while decimals < 9 and scale > step * 10**decimals:
        decimals += 1
    whole, rest = divmod(ns, scale)
    part = f"{rest:0{len(str(scale)) - 1}d}"[:decimals] if scale > 1 and decimals else ""
    return f"{sign}{whole}.{part} {unit}" if part else f"{sign}{whole} {unit}"


def parse_time(text: str) -> Fraction:
    """Nanoseconds of a typed time: `250us`, `1.5 ms`, `.5s`, `1,000 ns`; without a unit, µs.

    Raises ValueError. Its message is not for users: callers have examples that suit them.
    """
    match = _TIME.fullmatch(text.replace(",", ""))
    if match is None or len(text) > LONGEST_TIME:
        raise ValueError(f"no time: {text[:LONGEST_TIME]!r}")
    return Fraction(match[1]) * next((scale for scale, unit in _UNITS if unit == match[2]), 1_000)


def parse_duration(text: str) -> int:
    """A time such as `5us` or `1.5ms` in ns; microseconds if it has no unit. Raises ValueError."""
    try:
        if (time := parse_time(text)) >= 0:
            return int(time)
    except ValueError:
        pass
    raise ValueError(f"expected a time, for example 5us, 1.5ms or 2s; got {text[:40]!r}")


def as_typed(ns: int) -> str:
    """An exact time since the trace's zero without trailing zeros: `60 ms`, `1.5 µs`."""
    step = 1
    while ns and ns % (10 * step) == 0:
        step *= 10
    return tick(ns, step)


def percent(part: float, decimals: int) -> str:
    """A share of 1 with this many decimals: `34.6%`, `<0.1%`; below 1 at most `99.9%`."""
    least = 10.0**-decimals
    value = 100 * part
    text = f"{min(value, 100 - least) if value < 100 else value:.{decimals}f}"
    if value > 0 and float(text) == 0:
        text = f"<{least:.{decimals}f}"
    return text + "%"


def share(part: float) -> str:
    """A share of 1: `3.4%`, `97%`, `99.9%`, `<0.1%`."""
    exact = abs(part) < 0.0995 or 0.995 <= part < 1
    return percent(part, 1 if exact else 0)


def share_of(part: float, whole: float) -> str:
    """A share with two decimals for a column, as in PyTorch's table; `-` if the whole is 0."""
    return percent(part / whole, 2) if whole else "-"


def ratio_text(ratio: float | None) -> str:
    """b over a for a column: `1.34`, `0.077`, `12.5`; `-` where it is not known."""
    if ratio is None or not math.isfinite(ratio):
        return "-"
    if ratio >= 0.1:
        return significant(ratio)
    return "0" if not ratio else f"{ratio:.3f}" if ratio >= 0.0005 else "<0.001"


def signed(value: float, text: Callable[[float], str]) -> str:
    """A difference with its sign; `-` for none."""
    return f"{'+' if value > 0 else '-'}{text(abs(value))}" if value else "-"


def rate(per_second: float, unit: str) -> str:
    """A rate in powers of 1000: `694 TFLOP/s`, `3.06 TB/s`."""
    return _scaled(per_second, 1000, ("", "k", "M", "G", "T"), unit)


def size(count: float) -> str:
    """Bytes of a file or a copy, in powers of 1000 like bandwidths: `4 B`, `33.6 MB`."""
    return _scaled(count, 1000, ("", "k", "M", "G", "T"), "B")


def memory_size(count: float) -> str:
    """Bytes of a device's memory, in powers of 1024 as PyTorch counts it: `512 B`, `1.50 KiB`, `80.0 GiB`."""
    return _scaled(count, 1024, ("", "Ki", "Mi", "Gi", "Ti"), "B")


def _scaled(value: float, base: int, prefixes: tuple[str, ...], unit: str) -> str:
    if value < 0:
        return "-" + _scaled(-value, base, prefixes, unit)
    for prefix in prefixes[:-1]:
        if value < base - 0.5:
            text = significant(value) if prefix or value != int(value) else f"{value:.0f}"
            return f"{text} {prefix}{unit}"
        value /= base
    return f"{significant(value)} {prefixes[-1]}{unit}"


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 call`, `20 calls`, `2 matches`; `many` is an irregular plural: `2 copies`."""
    many = many or noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")
    return f"{count:,} {noun if count == 1 else many}"


def such(count: int, noun: str, name: str, many: str = "") -> str:
    """`1 call (NAME)`, `20 calls such as NAME`."""
    return plural(count, noun, many) + (f" ({name})" if count == 1 else f" such as {name}")


def capital(text: str) -> str:
    """A text with a capital letter first, the rest as it is."""
    return text[:1].upper() + text[1:]


def verb(count: int, many: str) -> str:
    """A verb that agrees with a count: `1 call takes`, `2 calls take`."""
    return f"{many}s" if count == 1 else many
