"""Columns of times: one unit for all rows, said in the title, so that their digits line up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracetui.tui.tables.model import Column, Values

SECONDS_EXACT = 100
"""Times below so many seconds are told in microseconds, to the nanosecond; longer ones in milliseconds."""


def number(ns: float, unit: str = "µs") -> str:
    """A time as a number of `unit`s (µs or ms): `1,234.567`."""
    return f"{ns / (1e3 if unit == 'µs' else 1e6):,.3f}"


def unit_of(longest_ns: float) -> str:
    """The unit of a column whose longest time this is."""
    return "µs" if longest_ns < SECONDS_EXACT * 1e9 else "ms"


def time_column(
    key: str,
    title: str,
    value: Callable[[int], float],
    values: Callable[[], Values],
    drop: int = 0,
    *,
    zero: str = "-",
    descending: bool = True,
) -> Column:
    """A column of times in ns; `value`: that of a row, `values`: all of them, `zero`: what is shown for 0.

    It is as wide as its longest number and its title need.
    """
    every = np.asarray(values(), dtype=np.float64)
    longest = float(np.abs(every).max(initial=0.0))
    unit = unit_of(longest)
    heading = f"{title} {unit}"

    def text(row: int) -> str:
        ns = value(row)
        return number(ns, unit) if ns else zero

    least = len(number(-longest if every.min(initial=0.0) < 0 else longest, unit))
    return Column(key, heading, text, values, max(len(heading), least), True, drop, descending)
