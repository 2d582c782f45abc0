"""Which times cannot be, rule by rule in plain Python, on times that lie at the rules' borders."""

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from tracetui.core.columns import TIME_LIMIT
from tracetui.formats.diagnostics import Diagnostics
from tracetui.trace.implausible import LONGEST, first_view, mark_implausible
from tracetui.trace.model import Kind

SECOND = 1_000_000_000
Slice = tuple[Kind, int, int, int]
"""Kind, lane, start, duration. Lanes 0 and 1 are threads, 2 and 3 streams of a device."""
HOST, DEVICE = (0, 1), (2, 3)
WORK = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)


def astray(times: list[int]) -> tuple[int, int]:
    """(the least, the greatest) time that still belongs to the others."""
    ordered = sorted(times)
    shares = (0.1, 0.9) if len(times) > 50 else (0.25, 0.75)
    low, high = (int(np.quantile(ordered, share)) for share in shares)
    far = 100_000 * max(high - low, SECOND // 100)
    if ordered[0] >= low - far and ordered[-1] <= high + far:
        return ordered[0], ordered[-1]
    holes = [(a, b) for a, b in pairwise(ordered) if b - a > far // 2]
    least = max((b for _, b in holes if b <= low), default=ordered[0])
    return least, min((a for a, _ in holes if a >= high), default=ordered[-1])


def slowly(slices: list[Slice]) -> tuple[list[bool], list[bool], list[int], Counter[str]]:
    """(implausible, cut, durations, notices)"""
    every = range(len(slices))
    start, duration = [s[2] for s in slices], [s[3] for s in slices]
    notes: Counter[str] = Counter()
    negative = {i for i in every if duration[i] < 0}
    notes["negative_duration"] = len(negative)
    endless = {i for i in every if abs(start[i]) >= TIME_LIMIT or duration[i] >= LONGEST}
    bad, overlong = negative | endless, set[int]()
    if len(slices) - len(bad) >= 3:
        least, greatest = astray([start[i] for i in every if i not in bad])
        stray = {i for i in every if i not in bad and not least <= start[i] <= greatest}
        notes["stray"] = len(stray)
        bad |= stray
        good = [i for i in every if i not in bad]
        first, last = min(start[i] for i in good), max(start[i] for i in good)
        spans = [start[i] + duration[i] for i in good if slices[i][0] == Kind.SPAN]
        recorded = max(spans, default=first)
        past = [i for i in good if start[i] + duration[i] > recorded]
        host = [i for i in good if slices[i][1] in HOST and slices[i][0] != Kind.SPAN]
        long = [i for i in past if i in host and duration[i] > 1000 * max(last - first, SECOND)]
        if len(long) > 1:
            reaches = sorted(start[i] + duration[i] - first for i in long)
            if reaches[-1] <= 1.1 * reaches[-2]:
                long = []
        host = [i for i in host if i not in long]
        if host:
            reach = max(max(start[i] + duration[i] for i in host), recorded) - first
            limit = min(100 * max(reach, SECOND // 1000), max(10 * reach, 60 * SECOND))
            long += [i for i in past if slices[i][1] in DEVICE and duration[i] > limit]
        overlong = {*long, *(i for i in endless if first <= start[i] <= last)}
        bad |= overlong
    cut: set[int] = set()
    made = list(duration)
    for i in overlong:
        if slices[i][0] in WORK:
            same = [k for k in every if slices[k][0] in WORK and slices[k][1] == slices[i][1]]
            after = [start[k] for k in same if start[k] > start[i] and (k in overlong or k not in bad)]
            if after:
                cut.add(i)
                made[i] = min(after) - start[i]
    notes["clipped_duration"] = len(cut)
    notes["impossible_time"] = len(endless - cut)
    notes["impossible_duration"] = len(overlong - endless - cut)
    bad -= cut
    return [i in bad for i in every], [i in cut for i in every], made, +notes


def some(rng: random.Random) -> list[Slice]:
    """A burst of events, and some at the borders of what is believed."""
    base = rng.choice((0, 0, 5, TIME_LIMIT - 500 * SECOND))
    width = rng.choice((1000, SECOND // 100, SECOND))
    slices: list[Slice] = []
    for _ in range(rng.choice((2, 4, 8, 60))):
        lane = rng.randrange(4)
        kind = Kind.CPU_OP if lane in HOST else rng.choice((*WORK, Kind.SYNC))
        slices.append((kind, lane, base + rng.randrange(width), rng.randrange(width // 10)))
    if rng.random() < 0.3:
        slices.append((Kind.SPAN, 1, base, rng.choice((width, 60 * SECOND, 2000 * SECOND))))
    starts = [s[2] for s in slices]
    first, last = min(starts), max(starts)
    reach = max([s[2] + s[3] for s in slices if s[1] in HOST], default=first) - first
    exact = (
        -1, 0, 1000 * max(last - first, SECOND), 100 * max(reach, SECOND // 1000),
        max(10 * reach, 60 * SECOND), 10 * reach, 60 * SECOND, 100 * reach, 1100 * SECOND,
        1250 * SECOND, LONGEST - 1, LONGEST, TIME_LIMIT, TIME_LIMIT + 5,
    )  # fmt: skip
    low, high = (int(q) for q in np.quantile(starts, (0.25, 0.75)))
    far = 100_000 * max(high - low, SECOND // 100)
    away = (
        first, last, first + width // 2, low - far, high + far, low - far // 2, high + far // 2,
        last + far // 2, first - far // 2, TIME_LIMIT, -TIME_LIMIT,
    )  # fmt: skip
    for _ in range(rng.randrange(1, 5)):
        lane = rng.randrange(4)
        kind = Kind.CPU_OP if lane in HOST else rng.choice((*WORK, Kind.SYNC))
        at = rng.choice(away) + rng.choice((-1, 0, 0, 1)) if rng.random() < 0.4 else rng.choice(starts)
        length = rng.choice(exact) + rng.choice((-1, 0, 1)) if rng.random() < 0.7 else rng.randrange(width)
        slices.append((kind, lane, at, min(length, 2 * TIME_LIMIT - max(at, 0))))
    rng.shuffle(slices)
    return slices


@pytest.mark.parametrize("part", range(4))
def test_the_masks_agree_with_rules_taken_one_by_one(part):
    for seed in range(150 * part, 150 * (part + 1)):
        slices = some(random.Random(seed))
        columns = zip(*slices, strict=True)
        kind, lane, start, duration = (np.array(list(column), dtype=np.int64) for column in columns)
        diagnostics = Diagnostics()
        on_device = np.array([False, False, True, True])
        implausible, cut = mark_implausible(
            kind.astype(np.int8), lane.astype(np.int32), start, duration, on_device, diagnostics
        )
        expected = slowly(slices)
        found = implausible.tolist(), cut.tolist(), duration.tolist()
        notes = Counter({kind: count for kind, (count, _) in diagnostics.found.items()})
        assert (*found, notes) == expected, (seed, slices)


def test_what_is_shown_first_leaves_out_spans_and_overhead_where_there_is_more():
    rng = random.Random(1)
    for _ in range(100):
        count = rng.randrange(5)
        kind = np.array([rng.choice((Kind.CPU_OP, Kind.SPAN, Kind.OVERHEAD)) for _ in range(count)], np.int8)
        start, duration = (np.array([rng.randrange(9) for _ in range(count)], np.int64) for _ in range(2))
        bad = np.array([rng.random() < 0.4 for _ in range(count)], bool)
        sound = [i for i in range(count) if not bad[i]]
        matters = [i for i in sound if kind[i] == Kind.CPU_OP] or sound or list(range(count))
        low = min((int(start[i]) for i in matters), default=0)
        high = max((int(start[i] + duration[i]) for i in matters), default=0)
        assert first_view(kind, start, duration, bad) == (low, max(low + 1, high))
