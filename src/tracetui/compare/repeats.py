"""Work that is new, or gone, because a run of equal blocks is longer, or shorter: a layer more."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tracetui.compare.changes import Change
from tracetui.compare.facts import Facts
from tracetui.trace.model import I64

SMALLEST = 4
"""Events of a block: fewer that come again are no part of a program that has a name."""
CHECKED = 8
"""Places that are looked at; a change is the same in all of them."""


class Block(NamedTuple):
    """Kernels, copies and sets that follow each other on one stream, again and again."""

    size: int
    """Events."""
    times: tuple[int, int]
    """How often in a row they come on side a, and on b."""


def longer_run(facts: Facts, change: Change) -> Block | None:
    """The block of which a change adds some to those that both sides have, or takes some away; None if it is
    no such change, or not the same one in all its places."""
    new = change.kind == "new"
    if not (new or change.kind == "gone"):
        return None
    part = change.b if new else change.a
    ends = [0, *(end[new] for end in change.ends[:CHECKED])]
    if ends[1] < SMALLEST:
        return None
    side, other = (facts.b, facts.a) if new else (facts.a, facts.b)
    partner = facts.work.links(len(side.trace), back=new)
    found = set()
    for low, high in pairwise(ends):
        own = np.array(part.events[low:high], dtype=np.int64)
        mine, round_ = side.work, int(side.round_of(own[:1])[0])
        mine = mine[(side.round_of(mine) == round_) & (side.trace.lane[mine] == side.trace.lane[own[0]])]
        found.add(_run(mine, side.trace.name[mine].astype(np.int64), own, partner, other.work))
    if len(found) != 1:
        return None
    (run,) = found
    if run is None:
        return None
    size, more, fewer = run
    return Block(size, (fewer, more) if new else (more, fewer))


def _run(mine: I64, name: I64, own: I64, partner: I64, its: I64) -> tuple[int, int, int] | None:
    """(size of the block, times on this side, on the other). `mine`: the events of a round on a stream, with
    their names; `own`: those among them that only this side has; `its`: all events of the other side."""
    count, at = len(own), int(np.searchsorted(mine, own[0]))
    if not np.array_equal(mine[at : at + count], own):
        return None
    within = name[at : at + count]
    sizes = (size for size in range(SMALLEST, count + 1) if not count % size)
    # Of itself at the most.
    size = next(size for size in sizes if np.array_equal(within[size:], within[: count - size]))
    before = np.flatnonzero(name[:at] != name[size : at + size])
    low = int(before[-1]) + 1 if len(before) else 0
    after = np.flatnonzero(name[at + count :] != name[at + count - size : len(name) - size])
    high = at + count + (int(after[0]) if len(after) else len(name) - at - count)
    # The rest of the run has to be a run of the other side, too.
    rest = partner[np.concatenate([mine[low:at], mine[at + count : high]])]
    if len(rest) < size or (rest < 0).any() or (np.diff(np.searchsorted(its, rest)) != 1).any():
        return None
    return size, (high - low) // size, len(rest) // size
