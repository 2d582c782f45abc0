"""The ranks of a job: who came last, whom the others wait for and why, as text, Markdown and JSON."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import numpy as np

from tracetui.core.errors import Progress, TraceError
from tracetui.core.safe_text import plain
from tracetui.core.units import capital, duration, plural, share, verb
from tracetui.ranks.dumps import Call, Dump, Stuck, read_dump, stuck
from tracetui.ranks.job import Job, Rank, Straggler
from tracetui.ranks.match import bus_factor
from tracetui.ranks.why import Why
from tracetui.views import markdown
from tracetui.views.answer import Answer
from tracetui.views.lines import INDENT, Line, Span, columns, paragraph
from tracetui.views.writers import Record

METRICS = ("busy", "exposed", "balance")
"""What `--fail-under` can test: the busy share of all ranks' steps, the share of the steps without exposed
communication on the rank that has most of it, and the fastest rank's own time over the slowest's."""
SLOWER = 1.05
"""A ratio below this is "as long as"."""
MUCH = 1.2
"""A GPU that computes this many times as long as the others is worth a sentence, even if nobody waits."""
SHOWS = 0.05
"""If that is at least this share of the steps."""
MOST = 8
"""Files or ranks that a note names."""
_NOT_IN_DUMPS = (
    "host", "offset_ns", "residual_ns", "last", "wait_ns", "transfer_ns", "compute_ns",
    "exposed_communication_ns",
)  # fmt: skip
HEADS = ("Rank", "Last", "Waits", "Transfers", "Compute", "Exposed", "Own time", "Waited for")


def ranks_answer(job: Job) -> Answer:
    """What there is to say about a job."""
    return Answer(
        "ranks", lambda: job_json(job), lambda: _markdown(job), lambda width: _lines(job, width),
        choose=lambda data: data["ranks"],
    )  # fmt: skip


def metric(job: Job, name: str) -> float | None:
    """A share from 0 to 1; None if the files do not show it."""
    return {"busy": job.verdict.busy_share, "exposed": job.exposed, "balance": job.balance}[name]


def job_json(job: Job) -> Record:
    """A job as JSON-ready values."""
    matched, straggler = job.matched, job.straggler
    return {
        "ranks": [_rank_json(rank) for rank in job.ranks],
        "collectives": {
            "matched": len(matched),
            "unmatched": matched.unmatched,
            "wait_ns": int(matched.wait.sum()),
            "transfer_ns": int(matched.transfer.sum()),
        },
        "verdict": job.verdict.verdict,
        "straggler": None
        if straggler is None
        else {
            "rank": straggler.rank,
            "share": straggler.share,
            "cause": straggler.why.cause,
            "reason": " ".join(_reasons(job, straggler)),
        },
        "busy_share": job.verdict.busy_share,
        "exposed": job.exposed,
        "balance": job.balance,
        "step_time_ns": round(job.step_time),
        "operations": _operations(job),
        "missing": list(job.missing),
        "strangers": [{"file": plain(path), "reason": _stranger(why)} for path, why in job.strangers],
        "unreadable": [{"file": plain(path), "reason": line} for path, line in job.unreadable],
        "notes": _notes(job),
    }


def _rank_json(rank: Rank) -> Record:
    file = rank.file
    return {
        "rank": rank.rank,
        "file": plain(file.path),
        "host": file.host,
        "offset_ns": rank.clock.offset if rank.clock.known else None,
        "residual_ns": rank.residual,
        "last": rank.last,
        "wait_ns": rank.wait,
        "transfer_ns": rank.transfer,
        "compute_ns": file.compute,
        "exposed_communication_ns": file.exposed,
        "exposed_wait_ns": rank.exposed_wait,
        "own_ns": rank.own,
        "step_time_ns": file.step_time,
        "waited_for_ns": rank.caused,
        "kernel_ratio": rank.kernels,
        "drift": rank.clock.drift,
        "cause": rank.why.cause if rank.why else None,
    }


def _operations(job: Job) -> list[Record]:
    """The matched collectives by what they are, those with the most waiting first. Bandwidths are those of
    the transfers whose bytes are known, in GB/s."""
    matched = job.matched
    if not len(matched):
        return []
    waits = np.add.reduceat(matched.wait, matched.first[:-1]).tolist()
    moved = np.maximum.reduceat(matched.bytes, matched.first[:-1]).tolist()
    many, transfers = np.diff(matched.first).tolist(), matched.transfer.tolist()
    records: dict[str, Record] = {}
    known: dict[str, list[float]] = {}
    for i, op in enumerate(matched.ops):
        row = records.setdefault(op, {"operation": op, "count": 0, "wait_ns": 0, "transfer_ns": 0})
        row["count"] += 1
        row["wait_ns"] += waits[i]
        row["transfer_ns"] += transfers[i]
        if moved[i] > 0:
            of = known.setdefault(op, [0.0, 0.0, 0.0])
            of[0] += moved[i]
            of[1] += moved[i] * bus_factor(op, many[i])
            of[2] += transfers[i]
    for op, row in records.items():
        sent, over, time_ = known.get(op, (0.0, 0.0, 0.0))
        row["bytes"] = round(sent) if sent else None
        row["algorithm_gb_per_s"] = sent / time_ if time_ else None
        row["bus_gb_per_s"] = over / time_ if time_ else None
    return sorted(records.values(), key=lambda row: -int(row["wait_ns"]))


def _headline(job: Job) -> str:
    straggler = job.straggler
    if straggler is not None:
        others = "the other rank waits" if len(job.ranks) == 2 else "the other ranks wait"
        return (
            f"Rank {straggler.rank} holds the job back: {others} for it for {share(straggler.share)} of the "
            f"steps."
        )
    waited = sum(rank.caused for rank in job.ranks)
    if not len(job.matched):
        return "No collective was recorded on all ranks of its group, so nobody can be said to be late."
    if waited < 0.02 * job.step_time:
        return "No rank holds the job back: hardly any time passes in waiting for the last one."
    first, second = sorted(job.ranks, key=lambda rank: -rank.caused)[:2]
    if second.caused < 0.5 * first.caused:
        return (
            f"No rank holds the job back for long: the others wait for rank {first.rank} most, for "
            f"{duration(first.caused)} in all."
        )
    parts = f"{share(first.caused / waited)} of the waiting is for rank {first.rank}, "
    return (
        f"It is not always the same rank that comes last: {parts}"
        f"{share(second.caused / waited)} for rank {second.rank}."
    )


def _reasons(job: Job, straggler: Straggler) -> list[str]:
    """Sentences on why the others wait for a rank."""
    said = [_why(straggler.why, len(job.ranks) > 2)]
    if straggler.why.cause != "gpu" and not (straggler.why.cause == "compute" and straggler.why.place):
        said += _slow_gpu(job, straggler)
    return said


def _why(why: Why, several: bool) -> str:
    theirs = "the others" if several else "the other"
    spend = "spend" if several else "spends"
    steps = f"in {why.steps} of {plural(why.of, 'step')}" if why.of > 1 else "in the recording"
    if why.cause in ("loader", "host") and not why.outside:
        usual, place = duration(why.usual) if why.usual else "no time", plain(why.place, 80)
        return f'It spends {duration(why.spent)} in "{place}", where {theirs} {spend} {usual}, {steps}.'
    if why.outside:
        return (
            f"Its CPU is outside of all ops and annotations for {duration(why.spent)}, where {theirs} "
            f"{spend} {duration(why.usual)}, {steps}: code that was not recorded, the garbage collector, or "
            "another process. Record with_stack=True to see which code it is."
        )
    if why.cause == "gpu":
        return f"Its GPU takes {_times(why.ratio)} as long for the same kernels, {steps}."
    if why.cause == "compute" and why.place:
        return (
            f"Its GPU has more to do: it computes for {duration(why.spent)}, {theirs} for "
            f"{duration(why.usual)}. The most of it is {plain(why.place, 60)}."
        )
    if why.cause == "compute":
        return f"It has more to do: {_times(why.more)} as many ops, {steps}."
    if why.ratio is not None and why.ratio >= SLOWER:
        return (
            f"Its CPU takes {_times(why.ratio)} as long for what {'all ranks' if several else 'both'} do: "
            f"{duration(why.spent)}, where {theirs} {spend} {duration(why.usual)}, {steps}."
        )
    if why.already:
        return (
            f"It is {duration(max(why.behind, 0))} behind already at the first collective that was recorded: "
            "what made it late came before."
        )
    return (
        f"Its CPU is as fast as {'those of the others' if several else 'that of the other'}, but runs "
        f"{duration(max(why.behind, 0))} behind: the GPUs are done with their work before the CPUs send more."
    )


def _times(ratio: float | None) -> str:
    return "some times" if ratio is None else f"{ratio:.3g} times"


def _slow_gpu(job: Job, straggler: Straggler) -> list[str]:
    """A rank whose GPU computes longer, though that is not what the others wait for."""
    longest = max(job.ranks, key=lambda rank: rank.file.compute)
    others = [rank.file.compute for rank in job.ranks if rank is not longest]
    usual = float(np.median(others))
    more = longest.file.compute - usual
    if longest.file.compute < MUCH * usual or more < SHOWS * job.step_time:
        return []
    of = f"computes for {duration(longest.file.compute)}, {_others(job)} for {duration(usual)}"
    if longest.kernels is not None and longest.kernels >= MUCH:
        of += f" (kernels of the same name and grid take {_times(longest.kernels)} as long)"
    if longest.rank == straggler.rank:
        return [
            f"Its GPU {of}, but its collectives start as soon as its CPU launches them: that is not what "
            f"{_others(job)} wait{'s' if len(job.ranks) == 2 else ''} for."
        ]
    behind = f": the GPUs wait for their CPUs, and that of rank {straggler.rank} is behind"
    told = behind if straggler.why.cause == "cpu" else ""
    return [f"The GPU of rank {longest.rank} {of}, and yet rank {straggler.rank} comes last{told}."]


def _others(job: Job) -> str:
    return "the other" if len(job.ranks) == 2 else "the others"


def _notes(job: Job) -> list[str]:
    """What else should be known."""
    said = []
    for rank in job.ranks:
        for other, many in sorted(job.blame.passed_on[rank.rank].items()):
            said.append(
                f"Rank {rank.rank} comes last at {plural(many, 'collective')} because it had waited for rank "
                f"{other} itself."
            )
    moved = [rank for rank in job.ranks if rank.clock.offset or rank.clock.drift]
    for rank in moved[:MOST]:
        drift = f", and runs apart by {rank.clock.drift * 1e6:.3g} µs a second" if rank.clock.drift else ""
        left = f" within {duration(rank.residual)}" if rank.residual is not None else ""
        early = "ahead" if rank.clock.offset < 0 else "behind"
        said.append(
            f"The clock of rank {rank.rank} is {duration(abs(rank.clock.offset))} {early}{drift}: its times "
            f"were moved, and its collectives end with the others'{left}."
        )
    if len(moved) > MOST:
        said.append(f"The clocks of {len(moved) - MOST} more ranks were moved, too.")
    if lost := [rank.rank for rank in job.ranks if not rank.clock.known]:
        said.append(
            f"Nothing tells how the clock of {_ranks(lost)} lies to that of rank {job.ranks[0].rank}: it "
            "shares no collective with the others."
        )
    if job.missing:
        said.append(
            f"{capital(_ranks(job.missing))} of the job {'is' if len(job.missing) == 1 else 'are'} not here."
        )
    said += [f"{plain(os.path.basename(path), 80)} {_stranger(why)}." for path, why in job.strangers[:MOST]]
    said += [f"{line} (left out)" for _, line in job.unreadable[:MOST]]
    return said


def _ranks(ranks: Sequence[int]) -> str:
    few = ", ".join(map(str, ranks[:MOST]))
    more = f" and {len(ranks) - MOST} more" if len(ranks) > MOST else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {few}{more}"


def _stranger(why: str) -> str:
    return {
        "world": "is of a job of another size",
        "rank": "is of a rank that another file is of",
        "apart": "was recorded at another time, and shares no collective with the others",
        "unnumbered": "does not say which rank it is of",
    }[why]


def _collectives(job: Job) -> str:
    matched = job.matched
    many = matched.unmatched
    left = f"; {plural(many, 'call')} {verb(many, 'have')} no counterpart" if many else ""
    return (
        f"{plural(len(matched), 'collective')} matched over {plural(len(job.ranks), 'rank')}{left}. Waiting "
        f"for the last rank: {duration(int(matched.wait.sum()))} over all ranks. Transfers: "
        f"{duration(int(matched.transfer.sum()))}."
    )


def _verdict(job: Job) -> str:
    reason = f": {job.verdict.reason}" if job.verdict.reason else ""
    return f"{capital(job.verdict.verdict)}, over all ranks{reason}"


def _cells(rank: Rank) -> list[str]:
    file = rank.file
    return [
        str(rank.rank), f"{rank.last:,}", duration(rank.wait), duration(rank.transfer),
        duration(file.compute), duration(file.exposed), duration(rank.own), duration(rank.caused),
    ]  # fmt: skip


def _lines(job: Job, width: int) -> list[Line]:
    straggler = job.straggler
    lines = paragraph(_headline(job), width, "title")
    for sentence in _reasons(job, straggler) if straggler else []:
        lines += paragraph(sentence, width, head=INDENT)
    lines += [[], *paragraph(_verdict(job), width), *paragraph(_collectives(job), width), []]
    rows: list[Sequence[str | Span]] = [[(head, "head") for head in HEADS]]
    for rank in job.ranks:
        style = "warn" if straggler is not None and rank.rank == straggler.rank else ""
        rows.append([(cell, style) for cell in _cells(rank)])
    lines += columns(rows, ">" * len(HEADS))
    lines += [[]] if (notes := _notes(job)) else []
    for note in notes:
        lines += paragraph(note, width, "dim")
    return lines


def _markdown(job: Job) -> str:
    said = [_headline(job), *(_reasons(job, job.straggler) if job.straggler else [])]
    parts = [
        markdown.heading(f"{plural(len(job.ranks), 'rank')} of a job"),
        f"{markdown.cell(' '.join(said))}\n",
        f"{markdown.cell(_verdict(job))}\n",
        f"{markdown.cell(_collectives(job))}\n",
        markdown.table(HEADS, [_cells(rank) for rank in job.ranks], ">" * len(HEADS)),
        *(f"{markdown.cell(note)}\n" for note in _notes(job)),
    ]
    return "\n".join(parts)


def failures(job: Job, limits: Sequence[tuple[str, float]]) -> list[str]:
    """A line for each limit that a metric is under."""
    found = []
    for name, least in limits:
        value = metric(job, name)
        if value is None or value < least:
            found.append(f"{name} {'is not known' if value is None else f'is {value:.3f}'}, below {least:g}")
    return found


def unknown_metric(limits: Sequence[tuple[str, float]]) -> str | None:
    """The first name that is no metric."""
    return next((name for name, _ in limits if name not in METRICS), None)


def read_job(paths: Sequence[str], progress: Progress | None = None) -> Job:
    """The job that these files are of. Raises TraceError."""
    from tracetui.ranks.job import job_of
    from tracetui.ranks.pool import summaries

    found = summaries(paths, progress)
    bad = [(path, one) for path, one in found.items() if isinstance(one, str)]
    return job_of([one for one in found.values() if not isinstance(one, str)], bad)


def dumps_answer(dumps: Sequence[Dump], unreadable: Sequence[tuple[str, str]] = ()) -> Answer:
    """What there is to say about dumps of the flight recorder."""
    found = stuck(dumps)
    said = _stuck_sentences(dumps, found)
    notes = [f"{line} (left out)" for _, line in unreadable[:MOST]]

    def lines(width: int) -> list[Line]:
        made = paragraph(said[0], width, "title")
        for sentence in said[1:]:
            made += paragraph(sentence, width, head=INDENT)
        for note in notes:
            made += paragraph(note, width, "dim")
        return made

    def text() -> str:
        body = "\n".join(f"{markdown.cell(line)}\n" for line in (*said, *notes))
        return f"{markdown.heading('Flight recorder')}\n{body}"

    return Answer("ranks", lambda: _dumps_json(dumps, found, said, notes), text, lines,
                  choose=lambda data: data["ranks"])  # fmt: skip


def read_dumps(paths: Sequence[str]) -> tuple[list[Dump], list[tuple[str, str]]]:
    """(the dumps, (path, why) of those that cannot be read). Raises TraceError where they are not of one
    moment of one job, or none can be read."""
    dumps: list[Dump] = []
    bad = []
    for path in paths:
        try:
            dumps.append(read_dump(path))
        except TraceError as error:
            bad.append((path, str(error)))
    if not dumps:
        raise TraceError(bad[0][1])
    if len({dump.rank for dump in dumps}) < len(dumps):
        raise TraceError("several dumps are of one rank: name those of one moment")
    return sorted(dumps, key=lambda dump: dump.rank), bad


def _dumps_json(
    dumps: Sequence[Dump], found: Sequence[Stuck], said: Sequence[str], notes: Sequence[str]
) -> Record:
    first = next((one for one in found if one.absent), None)
    nothing = dict.fromkeys(_NOT_IN_DUMPS)
    return {
        "ranks": [{"rank": dump.rank, "file": plain(dump.path), **nothing} for dump in dumps],
        "collectives": {"matched": None, "unmatched": None, "wait_ns": None, "transfer_ns": None},
        "verdict": "stuck" if first else "not known",
        "straggler": None
        if first is None
        else {
            "rank": min(first.absent),
            "share": None,
            "cause": "not come",
            "reason": " ".join(said),
        },
        "stuck": [
            {
                "group": one.group[0],
                "description": one.group[1],
                "number": one.number,
                "operation": one.operation,
                "came": {str(rank): call.state for rank, call in sorted(one.came.items())},
                "missing": sorted(one.absent),
                "unknown": list(one.unknown),
                "since_ns": one.since,
                "waits_at": {str(rank): call.place for rank, call in sorted(one.came.items())},
                "last_seen_at": {
                    str(rank): call.place if call else "" for rank, call in sorted(one.absent.items())
                },
                "differs": one.differs,
            }
            for one in found
        ],
        "notes": list(notes),
    }


def _stuck_sentences(dumps: Sequence[Dump], found: Sequence[Stuck]) -> list[str]:
    of = f"the {plural(len(dumps), 'dump')} of {_ranks([dump.rank for dump in dumps])}"
    if not found:
        return [f"Nothing is stuck: every collective in {of} is complete."]
    waiting = [one for one in found if one.absent]
    if not waiting:
        said = ["No rank is missing: all that have a dump have come to every collective."]
        said += [_under_way(one) for one in found[:MOST]]
        return said
    first, *rest = waiting
    absent, last = sorted(first.absent), first.absent[min(first.absent)]
    have = "has" if len(absent) == 1 else "have"
    said = [
        f"{capital(_ranks(absent))} {have} not come to {_called(first)}.",
        f"{capital(_ranks(sorted(first.came)))} {'waits' if len(first.came) == 1 else 'wait'} there since "
        f"{_clock(first.since)}{_at(first.came[min(first.came)])}.",
    ]
    if last is not None:
        said.append(
            f"The last that rank {min(absent)} asked for is {last.operation} {last.number} of "
            f'"{last.group[1] or last.group[0]}", at {_clock(last.created)}{_at(last)}.'
        )
    for one in rest[:MOST]:
        said.append(f"Also waiting for {_ranks(sorted(one.absent))}: {_called(one)}.")
    said += [_under_way(one) for one in found if not one.absent][:MOST]
    for one in found:
        if one.unknown:
            said.append(f"There is no dump of {_ranks(one.unknown)}, which {_called(one)} needs, too.")
            break
    return said


def _under_way(one: Stuck) -> str:
    if one.differs:
        return f"The ranks ask for different things as {_called(one)}: other operations, or other sizes."
    if one.unknown:
        return f"{capital(_called(one))} is not complete: there is no dump of {_ranks(one.unknown)}."
    return f"{capital(_called(one))} is under way on all of its ranks."


def _called(one: Stuck) -> str:
    return f'{one.operation} {one.number} of the group "{one.group[1] or one.group[0]}"'


def _at(call: Call) -> str:
    return f", at {call.place}" if call.place else ""


def _clock(ns: int) -> str:
    """A time of day, in UTC."""
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"{time.strftime('%H:%M:%S', time.gmtime(seconds))}.{rest // 1_000_000:03} UTC"
