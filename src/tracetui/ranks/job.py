"""A job: its ranks on one clock, who holds it back, and how the work is spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from tracetui.analysis.idle.split import COLUMNS
from tracetui.analysis.idle.verdict import Verdict, judge
from tracetui.core.errors import TraceError
from tracetui.ranks.blame import Blame, blame
from tracetui.ranks.clock import Clock
from tracetui.ranks.match import Matched, matched_of
from tracetui.ranks.summary import RankSummary
from tracetui.ranks.why import Why, kernel_ratio, why
from tracetui.trace.model import I64

LEAST_SHARE = 0.05
"""Where the others wait for a rank for less than this share of the steps, it is no straggler."""
MOSTLY = 0.5
"""A straggler causes at least this part of all waiting, and twice as much as any other rank."""


COMPARED = 32
"""A rank is compared with so many others, of more than that with some from all of them."""


class Rank(Struct, frozen=True, eq=False):
    """One rank of a job. Times in ns."""

    rank: int
    file: RankSummary
    clock: Clock
    residual: int | None
    """How far the ends of its collectives lie from those of the other ranks on the job's clock, median; None
    where nothing tells."""
    last: int
    """At how many collectives it came last."""
    wait: int
    """Its time in collectives until the last rank came."""
    transfer: int
    """The sum of the shortest duration of each of its collectives."""
    exposed_wait: int
    """What of `wait` passed while its device ran nothing else, at least."""
    caused: int
    """How long the others waited for it, over all of them, without what it passed on."""
    kernels: float | None
    """How many times as long as the others it takes for the same kernels."""
    why: Why | None
    """Why it is late, where it is."""

    @property
    def own(self) -> int:
        """Its steps without the time in which it only waited for others."""
        return max(0, self.file.step_time - self.exposed_wait)


class Straggler(Struct, frozen=True):
    """The rank that the others wait for."""

    rank: int
    share: float
    """Of the job's step time: how long the others wait for it, on average."""
    why: Why


class Job(Struct, frozen=True, eq=False):
    """The ranks of a job, and what holds it back."""

    ranks: tuple[Rank, ...]
    matched: Matched
    blame: Blame
    verdict: Verdict
    straggler: Straggler | None
    balance: float | None
    """The fastest rank's own time over the slowest's."""
    exposed: float | None
    """The share of the steps without exposed communication, on the rank that has most of it."""
    missing: tuple[int, ...]
    """Ranks of the job without a file."""
    strangers: tuple[tuple[str, str], ...]
    """(path, why: "world", "rank", "apart", "unnumbered") of the files that are not of this job."""
    unreadable: tuple[tuple[str, str], ...] = ()
    """(path, one line) of the files that could not be read."""

    @property
    def step_time(self) -> float:
        """The length of all steps together, on average over the ranks, in ns."""
        return float(np.mean([rank.file.step_time for rank in self.ranks]))


def job_of(files: Sequence[RankSummary], unreadable: Sequence[tuple[str, str]] = ()) -> Job:
    """The job that these files are of. Raises TraceError where they are of none."""
    chosen, strangers = _members(files)
    ranks = [_rank(file) for file in chosen]
    matched, clocks = matched_of(chosen, ranks)
    lost = _apart(chosen, clocks, matched)
    if lost:
        strangers += [(file.path, "apart") for file in lost]
        chosen = [file for file in chosen if file not in lost]
        if len(chosen) < 2:
            raise TraceError("these files are not of one job: no collective ran on two of them at one time")
        ranks = [_rank(file) for file in chosen]
        matched, clocks = matched_of(chosen, ranks)
    found = blame(matched, ranks)
    rows = tuple(_rows(chosen, ranks, matched, clocks, found))
    world = max((file.world or 0 for file in chosen), default=0)
    missing = sorted(set(range(world)) - set(ranks))
    alone = [1 - min(1.0, row.file.exposed_steps / row.file.step_time) for row in rows if row.file.step_time]
    slowest = max((row.own for row in rows), default=0)
    return Job(
        rows,
        matched,
        found,
        _verdict(chosen),
        _straggler(rows),
        min(row.own for row in rows) / slowest if slowest else None,
        min(alone, default=None),
        tuple(missing),
        tuple(strangers),
        tuple(unreadable),
    )


def _rank(file: RankSummary) -> int:
    assert file.rank is not None
    return file.rank


def _members(files: Sequence[RankSummary]) -> tuple[list[RankSummary], list[tuple[str, str]]]:
    """(the files of the job by rank; (path, why) of the others)."""
    strangers = [(file.path, "unnumbered") for file in files if file.rank is None]
    numbered = [file for file in files if file.rank is not None]
    worlds = Counter(file.world for file in numbered if file.world)
    if worlds:
        (world, _), *_ = worlds.most_common()
        strangers += [(file.path, "world") for file in numbered if file.world not in (None, world)]
        numbered = [file for file in numbered if file.world in (None, world)]
    often = Counter(map(_rank, numbered))
    twice = [file for file in numbered if often[_rank(file)] > 1]
    once = [file for file in numbered if often[_rank(file)] == 1]
    if twice and not once:
        once = _one_run(twice)
        twice = [file for file in twice if file not in once]
    for rank in sorted({_rank(file) for file in twice} - {file.rank for file in once}):
        same = [file for file in twice if file.rank == rank]
        once.append(max(same, key=lambda file: sum(_overlap(file, other) for other in once)))
    strangers += [(file.path, "rank") for file in twice if file not in once]
    if len(once) < 2:
        raise TraceError(
            "only one file of a job is here" if once else "no file says which rank of a job it is of"
        )
    return sorted(once, key=_rank), strangers


def _one_run(files: Sequence[RankSummary]) -> list[RankSummary]:
    """The files of one run, where there are several: those that were recorded at one time."""
    runs: list[list[RankSummary]] = []
    for file in sorted(files, key=lambda file: file.start):
        if runs and file.start < max(other.end for other in runs[-1]):
            runs[-1].append(file)
        else:
            runs.append([file])
    several = [run for run in runs if len({file.rank for file in run}) > 1]
    if len(several) > 1:
        raise TraceError(
            f"the files are of {len(several)} jobs, recorded one after another: name those of one of them"
        )
    chosen: dict[int, RankSummary] = {}
    for file in several[0] if several else []:
        chosen.setdefault(_rank(file), file)
    return list(chosen.values())


def _overlap(one: RankSummary, other: RankSummary) -> int:
    return max(0, min(one.end, other.end) - max(one.start, other.start))


def _apart(files: Sequence[RankSummary], clocks: dict[int, Clock], matched: Matched) -> list[RankSummary]:
    """Files that were recorded at another time and share no collective with the others."""
    there = set(matched.rank.tolist())
    found = []
    for file in files:
        rank = _rank(file)
        if rank in there and clocks[rank].known:
            continue
        if not any(_overlap(file, other) for other in files if other is not file):
            found.append(file)
    # Where no two belong together, the first is as much a stranger as the others.
    return found if len(found) < len(files) else list(files)


def _rows(
    files: Sequence[RankSummary],
    ranks: Sequence[int],
    matched: Matched,
    clocks: dict[int, Clock],
    found: Blame,
) -> list[Rank]:
    last, wait, of = matched.rank[matched.last], matched.wait, matched.of
    transfer = matched.transfer[of] if len(matched) else wait
    residual = _residuals(matched, ranks)
    rows = []
    for file, rank in zip(files, ranks, strict=True):
        mine = matched.rank == rank
        others = [other for other in files[:: max(1, len(files) // COMPARED)] if other is not file]
        late = found.late[rank]
        because = None
        if found.caused[rank] >= LEAST_SHARE * file.step_time and any(one.by for one in late):
            ahead = clocks[rank].on(file.low[:1])[0] - file.low[0]
            because = why(file, others, late, int(ahead))
        rows.append(
            Rank(
                rank,
                file,
                clocks[rank],
                residual.get(rank),
                int((last == rank).sum()),
                int(wait[mine].sum()),
                int(transfer[mine].sum()),
                int(found.exposed[mine].sum()),
                round(found.caused[rank]),
                kernel_ratio(file, others),
                because,
            )
        )
    return rows


def _residuals(matched: Matched, ranks: Sequence[int]) -> dict[int, int]:
    """By rank: how far the ends of its collectives lie from the middle of all ranks' ends, median, ns."""
    found: dict[int, int] = {}
    if not len(matched):
        return found
    pair = np.array([key.kind == "pair" for key in matched.keys], np.bool_)[matched.key]
    many = np.diff(matched.first)
    middle = np.add.reduceat(matched.end - matched.end.min(), matched.first[:-1]) / many + matched.end.min()
    away: I64 = np.abs(matched.end - np.rint(middle).astype(np.int64)[matched.of])
    # A send need not wait for its receive, so that only a receive that waited ends with it.
    sender = np.array([key.ranks[0] if key.kind == "pair" else -1 for key in matched.keys])[matched.key]
    waited = (matched.rank[matched.last] == sender)[matched.of]
    together = ~pair[matched.of] | waited
    for rank in ranks:
        mine = (matched.rank == rank) & together
        if mine.any():
            found[rank] = round(float(np.median(away[mine])))
    return found


def _verdict(files: Sequence[RankSummary]) -> Verdict:
    """The verdict on the time of all ranks together."""
    judged = [file.judged for file in files if file.judged is not None]
    if not judged:
        return Verdict("CPU-only", None, None, "")
    total = np.array(judged, np.int64).reshape(-1, len(COLUMNS)).sum(0)
    delays = [file.delay for file in files if file.delay is not None]
    delay = round(float(np.median(delays))) if delays else None
    return judge(total, delay, files[0].base, devices=sum(file.devices for file in files))


def _straggler(rows: Sequence[Rank]) -> Straggler | None:
    total = sum(row.caused for row in rows)
    first, second = sorted(rows, key=lambda row: -row.caused)[:2]
    length = float(np.mean([row.file.step_time for row in rows]))
    share = min(1.0, first.caused / (len(rows) - 1) / length) if length else 0.0
    if share < LEAST_SHARE or first.caused < MOSTLY * total or first.caused < 2 * second.caused:
        return None
    return Straggler(first.rank, share, first.why) if first.why is not None else None
