"""Why a rank is late: what it did meanwhile that the others did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from tracetui.analysis.steps.loading import is_loader
from tracetui.core.patterns import pattern
from tracetui.ranks.blame import Late
from tracetui.ranks.cpu import OUTSIDE, OWN, SYNC
from tracetui.ranks.summary import KernelSum, RankSummary
from tracetui.trace.model import F64, I64

CAUSES = ("loader", "host", "cpu", "compute", "gpu")
"""Its data loading; its code outside of ops; its CPU, for the same ops; other or more work than the others
have; the same work, which takes its GPU longer."""
MORE = 1.2
"""With this many times as many ops it has more to do."""
_LOADS = pattern(
    r"(?i)(?:^|[^a-z])(?:data|pre|down)?_?load(?:er|ing)?(?:[^a-z]|$)|fetch|batch|dataset|tokeni[sz]"
)
_SHOWS = 0.25
"""Steps in which a rank is late by at least this part of the most are those that count."""


class Why(Struct, frozen=True):
    """The cause, with its evidence. Times in ns, in the steps in which the rank is late."""

    cause: str
    """One of `CAUSES`."""
    place: str = ""
    """The annotation, Python function or kernel that tells most; "" for none. Safe to show."""
    spent: int = 0
    """There, by this rank."""
    usual: int = 0
    """There, by the others (median)."""
    steps: int = 0
    """How many steps it is late in."""
    of: int = 0
    ratio: float | None = None
    """How many times as long as the others it takes for the same ops or kernels."""
    more: float | None = None
    """How many times as many ops or kernels it has."""
    outside: bool = False
    """Whether the CPU was outside of all that was recorded."""
    behind: int = 0
    """How much later than the first its CPU asked for the collectives, on average by how late it was."""
    already: bool = False
    """Whether it was late mostly at the first collective that was recorded."""


def why(file: RankSummary, others: Sequence[RankSummary], late: Sequence[Late], ahead: int) -> Why:
    """Why the rank of `file` is late. `ahead`: how the job's clock lies to the file's, in ns."""

    def step_at(times: Sequence[int]) -> I64:
        return np.maximum(np.searchsorted(file.low, np.array(times) - ahead, side="right") - 1, 0)

    step = step_at([one.time for one in late])
    # What made it late may lie in the step before.
    before = step_at([one.since or one.time for one in late])
    by, steps = np.zeros(len(file.low)), np.zeros(len(file.low), np.bool_)
    np.add.at(by, step, [one.by for one in late])
    shows = (by >= _SHOWS * by.max()) & (by > 0)
    for low, high in zip(before[shows[step]].tolist(), step[shows[step]].tolist(), strict=True):
        steps[max(low, high - 1) : high + 1] = True
    chosen, many = np.flatnonzero(steps), int(shows.sum())
    held, total = sum(one.on_device for one in late), sum(one.by for one in late)
    behind = round(sum(one.behind * one.by for one in late) / max(total, 1))
    already = 2 * sum(one.by for one in late if not one.since) >= total
    if 2 * held >= total > 0:
        return _on_device(file, others, many, behind)
    mine = file.cpu.spent[chosen].sum(0)
    where = {place: i for i, place in enumerate(file.cpu.places)}
    usual, ops = _usual(file, others, chosen, where)
    more = mine - usual
    syncs = float(more[:, SYNC].sum())
    more[:, SYNC] = 0
    grown = float(np.maximum(more, 0).sum())
    if syncs > max(grown, 0.5 * float(by[chosen].sum())):
        return _on_device(file, others, many, behind)
    own = more[:, OWN].copy()
    own[where[""]] = more[where[""], OUTSIDE] + more[where[""], OWN]
    own[where["others"]] = 0
    place = int(np.argmax(own))
    if own[place] >= 0.5 * grown > 0:
        name = file.cpu.places[place]
        ways = [OWN] if name else [OWN, OUTSIDE]
        each = file.cpu.spent[:, place, ways].sum(1)
        many = int((each >= _SHOWS * each.max()).sum())
        return Why(
            "loader" if is_loader(name) or _LOADS.search(name) else "host",
            name,
            int(mine[place, ways].sum()),
            round(float(usual[place, ways].sum())),
            many,
            len(by),
            outside=not name,
            behind=behind,
        )
    busy, usually = float(mine.sum() - mine[:, SYNC].sum()), float(usual.sum() - usual[:, SYNC].sum())
    ours = float(file.cpu.ops[chosen].sum())
    more_ops = ours / ops if ops else None
    return Why(
        "compute" if more_ops is not None and more_ops >= MORE else "cpu",
        "",
        round(busy),
        round(usually),
        many,
        len(by),
        ratio=busy / usually if usually else None,
        more=more_ops,
        behind=behind,
        already=already,
    )


def _usual(
    file: RankSummary, others: Sequence[RankSummary], chosen: I64, where: Mapping[str, int]
) -> tuple[F64, float]:
    """(what the others spent in the same steps, median, by the places of `file`; their ops)."""
    found, ops = [], []
    for other in others:
        at = np.searchsorted(other.numbers, file.numbers[chosen])
        at = at[(at < len(other.numbers))]
        at = at[np.isin(other.numbers[at], file.numbers[chosen])]
        spent = np.zeros(file.cpu.spent.shape[1:])
        index = [where.get(place, 1) for place in other.cpu.places]
        np.add.at(spent, index, other.cpu.spent[at].sum(0) * (len(chosen) / len(at) if len(at) else 0.0))
        found.append(spent)
        ops.append(float(other.cpu.ops[at].sum()) * (len(chosen) / len(at) if len(at) else 0.0))
    return np.median(np.array(found), axis=0), float(np.median(ops))


def _on_device(file: RankSummary, others: Sequence[RankSummary], steps: int, behind: int) -> Why:
    """Its GPU held it up: the same kernels take longer, or it has more to do."""
    slower, more, most = 0.0, 0.0, ("", 0.0)
    for name, kernel in file.kernels.items():
        theirs = [other.kernels[name] for other in others if name in other.kernels]
        alike = [one.time / one.count for one in theirs if _alike(kernel, one)]
        usual = float(np.median([one.time for one in theirs])) if theirs else 0.0
        # Of as many kernels as the others have, what is longer; the rest is more work.
        longer = 0.0
        if alike:
            counts = min(kernel.count, float(np.median([one.count for one in theirs])))
            longer = counts * (kernel.time / kernel.count - float(np.median(alike)))
        slower += longer
        extra = kernel.time - usual - longer
        more += extra
        if extra > most[1]:
            most = (name, extra)
    usual_compute = round(float(np.median([other.compute for other in others])))
    gpu = slower >= more
    return Why(
        "gpu" if gpu else "compute",
        "" if gpu else most[0],
        file.compute,
        usual_compute,
        steps,
        len(file.low),
        ratio=kernel_ratio(file, others),
        behind=behind,
    )


def _alike(one: KernelSum, other: KernelSum) -> bool:
    return one.grids == other.grids


def kernel_ratio(file: RankSummary, others: Sequence[RankSummary]) -> float | None:
    """How many times as long as the others it takes for the same kernels: those of one name and of the same
    grids. None where there are none."""
    mine = theirs = 0.0
    for name, kernel in file.kernels.items():
        means = [
            other.kernels[name].time / other.kernels[name].count
            for other in others
            if name in other.kernels and _alike(kernel, other.kernels[name])
        ]
        if means:
            mine += kernel.time
            theirs += float(np.median(means)) * kernel.count
    return mine / theirs if theirs else None
