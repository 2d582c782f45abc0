"""Columns of times: one unit for all rows, said in the title, so that their digits line up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracetui.tables.model import Column, Values
from tracetui.units import column_unit, in_unit


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
    unit = column_unit(longest)
    heading = f"{title} {unit}"

    def text(row: int) -> str:
        ns = value(row)
        return in_unit(ns, unit) if ns else zero

    least = len(in_unit(-longest if every.min(initial=0.0) < 0 else longest, unit))
    return Column(key, heading, text, values, max(len(heading), least), True, drop, descending)
