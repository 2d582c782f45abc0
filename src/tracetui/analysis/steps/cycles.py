"""A sequence of names that repeats: where its repetitions begin and end."""

from __future__ import annotations

import numpy as np

from tracetui.trace.model import F64, I64

ALIKE = 0.8
"""The share of its names that a repetition must have in common with the others, counted from either end."""
TIMES = 3
"""At least this many whole repetitions make a loop."""
UNEXPLAINED = 0.002
"""The share of launches that may be outside all repetitions. A forward pass of a hundred layers with ten
kernels each has more launches than that around its layers."""
BITS = 20
"""A sequence counts as repeating if at most one in 2**20 shuffled sequences would repeat by chance."""
CANDIDATES = 8


def find_cycle(token: I64, time: I64, copies: I64) -> tuple[I64, I64] | None:
    """(first, end) positions of the repetitions in a sequence of names that repeats; None if it does not.

    Any name that occurs often enough and about evenly spaced may begin the cycle. The rarest names are tried
    first (the layers of a model repeat within a step) and, of those that occur equally often, the one after
    the longest pause.
    """
    n = len(token)
    count = np.bincount(token)
    order = np.argsort(token, kind="stable")
    where = np.split(order, np.cumsum(count)[:-1])
    pause = np.diff(time, prepend=time[:1])
    best: dict[int, tuple[float, I64]] = {}
    for places in where:
        if len(places) < TIMES or 2 * len(places) > n:
            continue
        gaps = np.diff(places)
        usual = float(np.median(gaps))
        if 2 * int((np.abs(gaps - usual) <= max(1.0, 0.2 * usual)).sum()) <= len(gaps):
            continue
        waited = float(np.median(pause[places[1:]]))
        if places[0] == 0 and n - places[-1] == usual:  # the recording consists of whole repetitions
            waited = float(n * pause.max() + 1)
        if waited > best.get(len(places), (-1.0, places))[0]:
            best[len(places)] = (waited, places)
    chosen: tuple[I64, I64] | None = None
    rounds = 0
    for size in sorted(best)[:CANDIDATES]:
        times = round(size / rounds) if rounds else 0
        if rounds and (times < 2 or abs(size - times * rounds) > times):
            continue
        cycle = _repetitions(token, best[size][1], count, copies)
        if cycle is None:
            continue
        if chosen is None:
            chosen, rounds = cycle, size
        elif _each_hands_over(copies, *cycle):  # what looked like one repetition was several rounds of a loop
            return cycle
    return chosen


def _each_hands_over(copies: I64, low: I64, high: I64) -> bool:
    """Whether each repetition but the last copies something to the host."""
    passed = copies[np.minimum(high, len(copies) - 1)] - copies[low]
    return bool(np.all(passed[:-1] > 0))


def _repetitions(token: I64, anchor: I64, count: I64, copies: I64) -> tuple[I64, I64] | None:
    """The repetitions that begin at the anchors, if the sequence consists of nothing else."""
    n = len(token)
    low, high = anchor, np.append(anchor[1:], n)
    length = high - low
    usual = int(np.argmax(np.bincount(length[:-1])))
    model = int(np.flatnonzero(length == usual)[len(np.flatnonzero(length == usual)) // 2])
    cycle = token[low[model] : high[model]]

    # How many names of each repetition match the cycle: up to some place counted from its beginning, and
    # after that counted from its end. Single names may differ: a kernel for an input that is not aligned.
    piece = np.repeat(np.arange(len(low)), length)
    at = np.arange(low[0], n)
    ahead, behind = at - low[piece], high[piece] - 1 - at
    of_ahead, of_behind = np.minimum(ahead, usual - 1), usual - 1 - np.minimum(behind, usual - 1)
    same_ahead = (ahead < usual) & (token[low[0] :] == cycle[of_ahead])
    same_behind = (behind < usual) & (token[low[0] :] == cycle[of_behind])
    starts = low - low[0]

    def most(worth_ahead: F64, worth_behind: F64) -> F64:
        before, after = (np.cumsum(worth) for worth in (worth_ahead, worth_behind))
        opened, whole = (
            cum[starts] - worth[starts] for cum, worth in ((before, worth_ahead), (after, worth_behind))
        )
        total = after[starts + length - 1] - whole
        split = before - opened[piece] + total[piece] - (after - whole[piece])
        best: F64 = np.maximum(np.maximum.reduceat(split, starts), total)
        return best

    information = -np.log2(count[cycle] / n)
    shared = np.minimum(most(same_ahead.astype(float), same_behind.astype(float)), np.minimum(length, usual))
    bits = most(
        np.where(same_ahead, information[of_ahead], 0), np.where(same_behind, information[of_behind], 0)
    )
    whole = shared >= ALIKE * np.maximum(length, usual)
    held = int(length[whole].sum())
    least = (shared / length)[whole].min(initial=1.0)  # the end matches the cycle as well as the others do
    if not whole[-1] and length[-1] < usual and same_ahead[starts[-1] :].mean() >= least:
        held += int(length[-1])  # cut by the end of the recording
    head = int(low[0])
    fits = head <= usual and bool(np.array_equal(token[:head], cycle[usual - head :]))
    if fits or _each_hands_over(copies, low[whole], high[whole]):
        held += head
    if int(whole.sum()) < TIMES or n - held > UNEXPLAINED * n:
        return None
    if float(bits[whole & (np.arange(len(low)) != model)].sum()) < BITS:
        return None
    return low[whole], high[whole]
