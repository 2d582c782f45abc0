"""Whom a job waits for. A rank that comes last because it had waited for another one passes that on."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from tracetui.ranks.match import Matched
from tracetui.trace.model import I64

LATENCY = 20_000
"""A kernel that starts later than this after its launch was held up on the device, ns. Shorter waits are not
passed on."""


class Late(Struct, frozen=True):
    """What a rank itself was late by at one collective, and what of that its device held up. ns."""

    collective: int
    time: int
    """When it came, on the job's clock."""
    since: int
    """When it was last together with the one that waited longest; 0 if that is not recorded."""
    by: int
    on_device: int
    behind: int
    """How much later its CPU asked for it than that of the one that waited longest."""


class Blame(Struct, frozen=True, eq=False):
    """Who waited for whom."""

    caused: Mapping[int, float]
    """By rank: how long the others waited for it while they ran nothing else, in ns, over all of them."""
    late: Mapping[int, tuple[Late, ...]]
    """By rank: at which collectives it was late by itself."""
    passed_on: Mapping[int, Mapping[int, int]]
    """By rank and another one: at how many collectives it came last mostly because it had waited for that
    one."""
    exposed: I64
    """Of each call: how long it waited for the last rank while its device ran nothing else, at least."""


def blame(matched: Matched, ranks: Sequence[int]) -> Blame:
    """Whom the ranks waited for at all matched collectives."""
    wait = matched.wait
    exposed = np.maximum(wait - matched.hidden, 0)
    caused: dict[int, float] = dict.fromkeys(ranks, 0.0)
    late: dict[int, list[Late]] = {rank: [] for rank in ranks}
    passed: dict[int, dict[int, int]] = {rank: defaultdict(int) for rank in ranks}
    waited: dict[int, deque[tuple[int, int, dict[int, float]]]] = {rank: deque() for rank in ranks}
    synced: dict[int, int] = {}
    keys_of: dict[int, set[int]] = {rank: set() for rank in ranks}
    both: dict[tuple[int, int], list[int]] = {}
    for key, rank in set(zip(matched.key[matched.of].tolist(), matched.rank.tolist(), strict=True)):
        keys_of[rank].add(key)
    first, last = matched.first.tolist(), matched.last.tolist()
    rank_of, start, called, end = (
        column.tolist() for column in (matched.rank, matched.start, matched.called, matched.end)
    )
    waits, alone, key_of = wait.tolist(), exposed.tolist(), matched.key.tolist()
    for i, slowest in enumerate(last):
        calls = range(first[i], first[i + 1])
        slow, longest = rank_of[slowest], max(calls, key=waits.__getitem__)
        by, waiting = waits[longest], rank_of[longest]
        share: dict[int, float] = {slow: 1.0}
        if by > 0:
            pair = (slow, waiting)
            if pair not in both:
                both[pair] = sorted(keys_of[slow] & keys_of[waiting])
            since = max((synced.get(key, 0) for key in both[pair]), default=0)
            share = _shares(waited[slow], since, start[slowest], slow, by)
            own = round(by * share.get(slow, 0.0))
            held = start[slowest] - max(called[slowest] + LATENCY, start[longest])
            behind = called[slowest] - called[longest]
            late[slow].append(Late(i, start[slowest], since, own, round(min(max(held, 0), own)), behind))
            other, most = max(share.items(), key=lambda one: one[1])
            if other != slow and most > 0.5 and by >= LATENCY:
                passed[slow][other] += 1
        for rank, part in share.items():
            caused[rank] += part * sum(alone[first[i] : first[i + 1]])
        for call in calls:
            if alone[call] > 0:
                waited[rank_of[call]].append((start[slowest], alone[call], share))
        synced[key_of[i]] = max(end[first[i] : first[i + 1]])
    return Blame(caused, {rank: tuple(some) for rank, some in late.items()}, passed, exposed)


def _shares(
    waited: deque[tuple[int, int, dict[int, float]]], since: int, until: int, slow: int, by: int
) -> dict[int, float]:
    """Whose fault it is that a rank was late by so much: the fault of those that it had waited for itself
    since it and the others were last together, and its own."""
    share: dict[int, float] = defaultdict(float)
    left = by
    for over, length, whose in reversed(waited):
        if over <= since or left <= 0:
            break
        if over > until:
            continue
        part = min(length, left)
        left -= part
        for rank, of in whose.items():
            share[rank] += of * part / by
    share[slow] += left / by
    return dict(share)
