"""What two sequences have in common, in order, in linear memory."""

from __future__ import annotations

import numpy as np
from rapidfuzz.distance import Levenshtein

from tracetui.core.columns import repeated
from tracetui.trace.model import I64

WINDOW = 1 << 14
"""How many tokens of each sequence are compared at a time: the cost of a pair of windows is quadratic."""
LARGEST = 1 << 17
"""Windows grow up to this size if two of them have hardly anything in common, because something long is new
or gone."""
KEPT = 0.75
"""The share of a window's matches that is kept, unless it is the last window: matches near its end may be
wrong."""
COMMON = 0.1
FEW = 64
"""How many tokens are tried first: most stretches have nothing in common."""
_SURROGATES = 0xD800, 0x800
_TOP = 0x10FFFF - _SURROGATES[1]


def align(a: I64, b: I64) -> tuple[I64, I64]:
    """Positions of equal tokens in `a` and `b`, chosen for as few edits as possible: (in `a`, in `b`), both
    ascending, with ``a[i] == b[j]``. `a` and `b` hold token numbers."""
    if not len(a) or not len(b):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    front = _common(a, b)
    if front == len(a) == len(b):
        return np.arange(front), np.arange(front)
    back = _common(a[front:][::-1], b[front:][::-1])
    inner_a, inner_b = a[front : len(a) - back], b[front : len(b) - back]
    found_a, found_b = _inner(inner_a, inner_b)
    ends = np.arange(back, dtype=np.int64)
    return (
        np.concatenate([np.arange(front), found_a + front, ends + len(a) - back]),
        np.concatenate([np.arange(front), found_b + front, ends + len(b) - back]),
    )


def _common(a: I64, b: I64) -> int:
    """How many tokens at the start of both are equal."""
    size = min(len(a), len(b))
    differ = np.flatnonzero(a[:size] != b[:size])
    return int(differ[0]) if len(differ) else size


def _inner(a: I64, b: I64) -> tuple[I64, I64]:
    """Like `align`, window by window."""
    if len(a) <= WINDOW and len(b) <= WINDOW:
        apart = max(len(a), len(b)) <= FEW and not set(a.tolist()) & set(b.tolist())
        return _edits(a[:0], b[:0]) if apart else _edits(a, b)
    kept: list[tuple[I64, I64]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    low_a = low_b = 0
    size = WINDOW
    while low_a < len(a) and low_b < len(b):
        part_a, part_b = a[low_a : low_a + size], b[low_b : low_b + size]
        at_a, at_b = _edits(part_a, part_b)
        last = low_a + size >= len(a) and low_b + size >= len(b)
        if not last and len(at_a) < COMMON * size and size < LARGEST:
            size *= 4
            continue
        if not last:
            sure = (at_a < KEPT * size) & (at_b < KEPT * size)
            at_a, at_b = at_a[sure], at_b[sure]
        kept.append((at_a + low_a, at_b + low_b))
        if last:
            break
        low_a, low_b = (
            (int(at_a[-1]) + low_a + 1, int(at_b[-1]) + low_b + 1)
            if len(at_a)
            else (low_a + size // 2, low_b + size // 2)
        )
        size = WINDOW
    return np.concatenate([one for one, _ in kept]), np.concatenate([one for _, one in kept])


def _edits(a: I64, b: I64) -> tuple[I64, I64]:
    """Like `align`, in time proportional to the product of the lengths."""
    distinct, number = np.unique(np.concatenate([a, b]), return_inverse=True)
    if len(distinct) > _TOP:  # more than a text can tell apart: a false match is taken out below
        number %= _TOP
    blocks = Levenshtein.editops(_text(number[: len(a)]), _text(number[len(a) :])).as_matching_blocks()
    begin_a, begin_b, size = np.array([(block.a, block.b, block.size) for block in blocks], dtype=np.int64).T
    within = np.arange(size.sum()) - repeated(np.cumsum(size) - size, size)
    at_a, at_b = repeated(begin_a, size) + within, repeated(begin_b, size) + within
    same = a[at_a] == b[at_b]
    return at_a[same], at_b[same]


def _text(tokens: I64) -> str:
    """Each token as a character: no sequence type compares faster than text."""
    low, size = _SURROGATES
    points = np.where(tokens >= low, tokens + size, tokens).astype("<u4")
    return points.tobytes().decode("utf-32-le")
