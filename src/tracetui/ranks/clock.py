"""One clock for all ranks. Ranks of one host share theirs; between hosts, collectives tell, as they end
together: one offset and, where the clocks run apart, a drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from tracetui.core.copying import replace
from tracetui.ranks.calls import Key
from tracetui.ranks.order import ALIKE, ON_ONE_CLOCK, Line, can_be, ends_apart, places
from tracetui.ranks.summary import RankSummary
from tracetui.trace.model import I64

LONG = 16
"""With fewer collectives than this, no drift is told from chance."""
MOST = 0.8
"""So many of the ends have to fit."""
_MOST_DRIFT = 1e-2


class Clock(Struct, frozen=True):
    """How a rank's clock lies to the job's, which is that of the lowest rank."""

    offset: int = 0
    """To be added to the file's times, in ns: at `at`."""
    drift: float = 0.0
    """By how much it changes per ns."""
    at: int = 0
    known: bool = True
    """Whether collectives tell it; else it is taken for the job's."""

    def on(self, times: I64) -> I64:
        """The file's times on the job's clock."""
        moved = times + self.offset
        return moved + np.rint((times - self.at) * self.drift).astype(np.int64) if self.drift else moved


Lines = Mapping[Key, Mapping[int, Line]]
"""By key and rank."""


def clocks_of(files: Sequence[RankSummary], ranks: Sequence[int], lines: Lines) -> dict[int, Clock]:
    """The clock of each rank. Ranks are reached from the lowest one by groups in common."""
    found = {ranks[0]: Clock()}
    groups: dict[int, list[Key]] = {rank: [] for rank in ranks}
    for key, by_rank in lines.items():
        for rank in by_rank:
            groups[rank].append(key)
    waiting = [ranks[0]]
    while waiting:
        near = waiting.pop(0)
        samples: dict[int, list[tuple[I64, I64]]] = {}
        for key in groups[near]:
            for rank, line in lines[key].items():
                if rank not in found:
                    samples.setdefault(rank, []).append(_apart(_on(lines[key][near], found[near]), line))
        for rank in sorted(samples):
            if (clock := _fit(samples[rank])) is not None:
                found[rank] = clock
                waiting.append(rank)
        if not waiting and (fits := _fits(lines, found)) is not None:
            found[fits] = Clock()
            waiting.append(fits)
    _of_hosts(files, ranks, found)
    return {rank: found.get(rank, Clock(known=False)) for rank in ranks}


def _on(line: Line, clock: Clock) -> Line:
    return replace(line, start=clock.on(line.start), end=clock.on(line.end))


def _fits(lines: Lines, found: Mapping[int, Clock]) -> int | None:
    """A rank whose sends and receives do not tell its clock, as nobody waited in them, but can be on the
    job's."""
    for key, by_rank in lines.items():
        if key.kind == "pair" and len(by_rank) == 2:
            for rank, other in (sorted(by_rank), sorted(by_rank, reverse=True)):
                known = rank not in found and other in found
                if known and can_be(_on(by_rank[other], found[other]), by_rank[rank]):
                    return rank
    return None


def _apart(there: Line, line: Line) -> tuple[I64, I64]:
    """(times of a rank, how much later its calls ended than those of one whose clock is known)."""
    none = np.zeros(0, np.int64)
    place = places(there, line, aligned=False)
    if place is None:
        return none, none
    both = (place >= 0) & (place < len(there))
    if not both.any() or (there.op[place[both]] != line.op[both]).any():
        return none, none
    time, apart = ends_apart(there, line, place)
    return (time, apart) if len(time) and _spread(time, apart) <= ALIKE else (none, none)


def _spread(time: I64, apart: I64) -> float:
    clock = _line(time, apart)
    return float(np.quantile(np.abs(apart + clock.offset + (time - clock.at) * clock.drift), MOST))


def _fit(samples: Sequence[tuple[I64, I64]]) -> Clock | None:
    """The clock by the ends of collectives of several groups."""
    time = np.concatenate([time for time, _ in samples])
    if not len(time):
        return None
    apart = np.concatenate([apart for _, apart in samples])
    clock = _line(time, apart)
    if abs(clock.offset) <= ON_ONE_CLOCK and not clock.drift:
        return Clock()
    return clock


def _line(time: I64, apart: I64) -> Clock:
    """An offset, and a drift if that explains much more."""
    middle, at = float(np.median(apart)), int(np.median(time))
    flat = Clock(-round(middle), 0.0, at)
    if len(time) < LONG or len(np.unique(time)) < LONG:
        return flat
    x, y = (time - at).astype(np.float64), apart - middle
    keep = np.ones(len(x), np.bool_)
    for _ in range(4):
        slope, base = np.polyfit(x[keep], y[keep], 1)
        away = np.abs(y - slope * x - base)
        keep = away <= max(3 * 1.4826 * float(np.median(away)), 1_000.0)
    span = float(x.max() - x.min())
    rest = float(np.median(np.abs(y - slope * x - base)))
    if abs(slope) > _MOST_DRIFT or abs(slope) * span < 20_000 or 2 * rest > float(np.median(np.abs(y))):
        return flat
    return Clock(-round(middle + base), -float(slope), at)


def _of_hosts(files: Sequence[RankSummary], ranks: Sequence[int], found: dict[int, Clock]) -> None:
    """Ranks of one host share a clock, as far as that is what their collectives say."""
    hosts: dict[str, list[int]] = {}
    for file, rank in zip(files, ranks, strict=True):
        if file.host is not None and rank in found:
            hosts.setdefault(file.host, []).append(rank)
    for mine in hosts.values():
        close = [rank for rank in mine if abs(found[rank].offset - found[mine[0]].offset) <= ON_ONE_CLOCK]
        middle = int(np.median([found[rank].offset for rank in close]))
        if len(close) > 1 and not any(found[rank].drift for rank in close):
            shared = Clock() if any(found[rank] == Clock() for rank in close) else Clock(middle)
            found.update(dict.fromkeys(close, shared))
