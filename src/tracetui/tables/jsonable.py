"""Results as strict JSON: no NaN, no infinities, no lone surrogates, keys in a stable order."""

from __future__ import annotations

import math
from typing import Any

import orjson


def dumps(value: Any) -> str:
    """JSON text with an indent of two, ending in a new line. NaN and infinities become null."""
    form = orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY
    try:
        return orjson.dumps(value, option=form).decode() + "\n"
    except TypeError:
        return orjson.dumps(_narrow(value), option=form).decode() + "\n"


def _narrow(value: Any) -> Any:
    """Sums of absurd times may need more than 64 bits, which the library refuses: such integers as floats."""
    if isinstance(value, dict):
        return {key: _narrow(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_narrow(one) for one in value]
    return float(value) if isinstance(value, int) and value.bit_length() > 63 else value


def us(ns: float) -> float:
    """Microseconds, exact to the nanosecond for times of less than a hundred days."""
    return ns / 1000


def share(value: float | None) -> float | None:
    """A share as it is; None for none."""
    return None if value is None or not math.isfinite(value) else value
