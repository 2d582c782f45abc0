"""Columns of times: the title has the unit of all rows, so that digits line up."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracetui.core.units import column_unit, in_unit
from tracetui.trace.model import F64, I64
from tracetui.views.model import Column


def time_column(
    key: str,
    title: str,
    values: I64 | F64,
    drop: int = 0,
    *,
    zero: str = "-",
    total: int = 0,
    rows: I64 | None = None,
    **more: Any,
) -> Column:
    """A column of times in ns. `zero`: the text for 0; `total`: a sum that has to fit, too; `rows`: those
    that are shown (None: all); `more`: further fields of `Column`.

    It is as wide as its longest number or its title.
    """
    every = np.asarray(values, dtype=np.float64)
    every = every if rows is None else every[rows]
    longest = float(np.abs(every).max(initial=0.0))
    unit = column_unit(longest)
    heading = f"{title} {unit}"

    def text(row: int) -> str:
        ns = values[row]
        return in_unit(ns, unit) if ns else zero

    longest = max(longest, total)
    least = len(in_unit(-longest if every.min(initial=0.0) < 0 else longest, unit))
    return Column(key, heading, text, lambda: values, max(len(heading), least), right=True, drop=drop, **more)
