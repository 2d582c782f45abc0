"""Results as strict JSON: no NaN, no infinities, no lone surrogates, keys in a stable order."""

from __future__ import annotations

import math
from typing import Any

from msgspec.json import Encoder, format

_ENCODER = Encoder(enc_hook=lambda value: value.tolist())
"""Arrays and numbers of numpy become Python's."""


def dumps(value: Any) -> str:
    """JSON text with an indent of two, ending in a new line. NaN and infinities become null."""
    return format(_ENCODER.encode(value), indent=2).decode() + "\n"


def us(ns: float) -> float:
    """Microseconds, exact to the nanosecond for times of less than a hundred days."""
    return ns / 1000


def share(value: float | None) -> float | None:
    """A share as it is; None for none."""
    return None if value is None or not math.isfinite(value) else value
