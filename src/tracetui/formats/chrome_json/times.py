"""Converts decimal microseconds to integer nanoseconds without losing a digit.

Two ways, each exact where it is used:
- a float64 holds three decimals below 2**43 microseconds (Kineto since 2024, offsets from a base);
- an epoch (16 digits before the point) and times in quotes are read from the digits themselves.

A time has the same value whichever way it is read: what a float64 can hold is
rounded as a float64 everywhere, and halves of a larger one are rounded up.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

import numpy as np

from tracetui.core.columns import F64, I64, NO_TIME, TIME_LIMIT

FLOAT_LIMIT = float(1 << 43)
"""Below this many microseconds, a float64 still resolves single nanoseconds."""
_NANOSECONDS = 10**17
"""An integer `ts` from here on is in nanoseconds: in microseconds it would be later than the year 5000."""
_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def from_floats(values: F64) -> I64:
    """Microseconds to nanoseconds. NaN becomes NO_TIME; too large values become TIME_LIMIT."""
    missing = np.isnan(values)
    values = np.where(missing, 0.0, values)
    large = len(values) and not float(np.abs(values).max()) < FLOAT_LIMIT
    if large:
        np.clip(values, -TIME_LIMIT / 1000, TIME_LIMIT / 1000, out=values)
    whole = np.floor(values)
    # Whole and fraction separately: multiplying a large value by 1000 would round twice.
    values -= whole
    values *= 1000
    np.rint(values, out=values)
    out = whole.astype(np.int64)
    out *= 1000
    out += values.astype(np.int64)
    if large:
        np.clip(out, -TIME_LIMIT, TIME_LIMIT, out=out)
    out[missing] = NO_TIME
    return out


def shrink(texts: Sequence[bytes], durations: I64) -> None:
    """Where a `ts` is in nanoseconds (see `exact`), so is `dur`: changes `durations` in place, which assume
    microseconds. `texts`: of `ts`, without quotes."""
    for at, text in enumerate(texts):
        if durations[at] == NO_TIME or ((len(text) <= 17 or b"." in text[:17]) and b"e" not in text.lower()):
            continue
        if _is_fine(text.decode("ascii", "replace")):
            durations[at] = round(int(durations[at]) / 1000)


def _is_fine(text: str) -> bool:
    """Whether `exact` takes this for nanoseconds."""
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        return False
    return value.is_finite() and value.adjusted() <= 25 and abs(value) >= _NANOSECONDS and value % 1 == 0


def exact(text: str) -> int:
    """A number in any notation, with or without a unit, to nanoseconds; NO_TIME if it is not a number.

    A plain number is in microseconds, unless it is an integer too large for that.
    """
    text = text.strip().strip('"').strip()
    scale = 1_000
    for unit, factor in _UNITS.items():
        if text.endswith(unit) and text[: -len(unit)].rstrip()[-1:].isdigit():
            text, scale = text[: -len(unit)].rstrip(), factor
            break
    if len(text) > 400:
        return NO_TIME
    try:
        value = Decimal(text)
    except InvalidOperation:
        return NO_TIME
    if value.is_nan():
        return NO_TIME
    if value.is_infinite() or value.adjusted() > 25:
        return -TIME_LIMIT if value < 0 else TIME_LIMIT
    if value.adjusted() < -25:
        return 0
    if scale == 1_000 and abs(value) >= _NANOSECONDS and value == value.to_integral_value():
        scale = 1
    if scale == 1_000 and abs(value) < FLOAT_LIMIT:
        return int(from_floats(np.array([float(value)]))[0])
    return max(-TIME_LIMIT, min(TIME_LIMIT, int((value * scale).to_integral_value(ROUND_HALF_UP))))


def from_texts(texts: Sequence[bytes]) -> I64:
    """Numbers as written in the file (b"" if missing) to nanoseconds, one column of digits at a time."""
    count = len(texts)
    if not count:
        return np.zeros(0, dtype=np.int64)
    if max(map(len, texts)) > 24:
        return _one_by_one(texts)
    table = np.array(texts, dtype="S24").view(np.uint8).reshape(count, 24)
    value = np.zeros(count, dtype=np.int64)
    decimals = np.zeros(count, dtype=np.int8)
    digits = np.zeros(count, dtype=np.int8)
    point = np.zeros(count, dtype=np.bool_)
    up = np.zeros(count, dtype=np.bool_)
    strange = np.zeros(count, dtype=np.bool_)
    negative = table[:, 0] == ord("-")
    for at in range(24):
        column = table[:, at]
        if not column.any():
            break
        digit = column - np.uint8(48)  # anything below "0" wraps round to a large value
        is_digit = digit < 10
        is_point = column == ord(".")
        strange |= ~(is_digit | is_point | (column == 0)) | (is_point & point)
        if at == 0:
            strange &= ~negative  # a leading minus
        up |= is_digit & (decimals == 3) & (digit >= 5)
        take = is_digit & (decimals < 3)
        # Only the fourth decimal may round up.
        decimals += (is_digit & point).astype(np.int8)
        np.copyto(value, value * 10 + digit, where=take)
        digits += (is_digit & ~point).astype(np.int8)
        point |= is_point
    value *= 10 ** (3 - np.minimum(decimals, 3)).astype(np.int64)
    small = (decimals > 3) & (value < FLOAT_LIMIT * 1000)
    value += up
    np.negative(value, out=value, where=negative)
    np.clip(value, -TIME_LIMIT, TIME_LIMIT, out=value)
    # Sixteen digits of microseconds fit int64 as nanoseconds unless the first is a nine.
    large = (digits > 16) | ((digits == 16) & (table[:, 0] == ord("9")))
    for row in np.flatnonzero(strange | large | small | (digits == 0)).tolist():
        value[row] = exact(bytes(texts[row]).decode("ascii", "replace"))
    return value


def _one_by_one(texts: Sequence[bytes]) -> I64:
    found = [exact(bytes(text).decode("ascii", "replace")) for text in texts]
    return np.array(found, dtype=np.int64)
