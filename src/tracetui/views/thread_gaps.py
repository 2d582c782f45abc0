"""The gaps of the main thread in a trace of the CPU alone: their table, report and words."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tracetui.analysis.idle.thread_gaps import REASONS, UNRECORDED, activity_of, thread_gaps_of
from tracetui.analysis.names.short_names import short_of
from tracetui.analysis.part import Part
from tracetui.analysis.select import has_kind
from tracetui.analysis.steps.scope import step_table_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.cells import fit
from tracetui.core.units import capital, duration, exact, instant, plural, share, share_of
from tracetui.rules.advice import ADVICE
from tracetui.rules.model import MEDIUM
from tracetui.trace import Kind
from tracetui.trace.model import I64
from tracetui.views import markdown
from tracetui.views.document import Block, table
from tracetui.views.event import Fact
from tracetui.views.jsonable import share as json_share
from tracetui.views.lines import Line, bar, columns
from tracetui.views.model import Column, Columns, Table, by_key, each, select_columns
from tracetui.views.times import time_column
from tracetui.views.writers import aligned, cells, markdown_table, records

SCREEN = "thread duration share start reason activity until"
TEXT = "start duration reason step activity until"
JSON = "start duration reason step activity since until"
FILE = "thread start duration share reason step activity since until"
NAME, REASON = 34, max(map(len, REASONS))
WORDS = {
    "data loading": "in a DataLoader",
    "communication": "in a collective",
    "profiler": "the profiler's own work",
    "other threads": "while other threads were in ops",
    "annotation": "inside an annotation",
    "Python": "in a Python function",
    "nothing recorded": "nothing was recorded: Python, waiting, other programs",
}


def has_stacks(part: Part) -> bool:
    """Whether the trace has Python functions."""
    return has_kind(part.trace, Kind.PYTHON)


def wants_stacks(part: Part) -> bool:
    """Whether stacks would say what a trace of the CPU alone did in much of its time; False while that is not
    known."""
    cpu = verdict_of(part).cpu if part.knows(verdict_of) else None
    return cpu is not None and not has_stacks(part) and cpu.outside >= MEDIUM * cpu.span


def gap_columns(part: Part) -> Columns:
    """The columns of the table."""
    found, trace = thread_gaps_of(part), part.trace
    gaps, number = found.gaps, step_table_of(part).number.tolist()
    idle = {one.device: one.idle for one in gaps.devices}

    def thread(row: int) -> str:
        return trace.lanes[~int(gaps.device[row])].name

    def reason(row: int) -> str:
        return REASONS[found.reason[row]]

    def activity(row: int) -> str:
        return activity_of(part, row) or "-"

    def piece(row: int) -> float | None:
        return json_share(int(gaps.duration[row]) / idle[int(gaps.device[row])])

    def step(row: int, none: str) -> str:
        return str(number[found.step[row]]) if found.step[row] >= 0 else none

    def name(events: I64, row: int) -> str:
        return short_of(trace, int(events[row])) if events[row] >= 0 else "-"

    def full(events: I64, row: int) -> str | None:
        return trace.name_of(int(events[row])) if events[row] >= 0 else None

    def of_idle(row: int) -> str:
        return share_of(int(gaps.duration[row]), idle[int(gaps.device[row])])

    return by_key(
        Column("thread", "Thread", thread, lambda: ~gaps.device, 16, False).with_fields(thread=each(thread)),
        time_column("duration", "Gap", gaps.duration)
        .with_text("length", lambda r: duration(int(gaps.duration[r])))
        .with_fields(duration_ns=lambda at: gaps.duration[at].tolist()),
        Column("share", "of gaps", of_idle, lambda: gaps.duration, 8, drop=3).with_fields(
            share_of_idle=each(piece)
        ),
        time_column("start", "Start", gaps.start, 2, zero="0", descending=False)
        .with_text("at", lambda r: instant(int(gaps.start[r])))
        .with_fields(start_ns=lambda at: gaps.start[at].tolist()),
        Column("reason", "Why", reason, lambda: found.reason, REASON, right=False, descending=False)
        .with_text("why", lambda r: (reason(r), "accent"))
        .with_fields(reason=each(reason)),
        Column("step")
        .with_text("step", lambda r: step(r, "-"), lambda r: step(r, ""))
        .with_fields(step=each(lambda r: number[found.step[r]] if found.step[r] >= 0 else None)),
        Column("activity", "The thread was in", activity, None, 0, right=False, ends=True)
        .with_text(
            "the thread was in", lambda r: fit(activity(r), NAME), lambda r: markdown.code(activity(r))
        )
        .with_fields(
            cpu=each(lambda r: full(found.within, r)), caller=each(lambda r: full(found.caller, r))
        ),
        Column("since").with_fields(after=each(lambda r: full(gaps.before, r))),
        Column("until", "Ended by", partial(name, gaps.after), None, 20, right=False, drop=4, ends=True)
        .with_text(
            "until", lambda r: fit(name(gaps.after, r), 20), lambda r: markdown.code(name(gaps.after, r))
        )
        .with_fields(before=each(lambda r: full(gaps.after, r))),
    )  # fmt: skip


def gaps_table(part: Part) -> Table:
    """The gaps on the screen."""
    gaps, shown = thread_gaps_of(part).gaps, gap_columns(part)
    return Table(
        select_columns(shown, SCREEN, () if len(gaps.devices) > 1 else ("thread",)),
        len(gaps),
        lambda row: f"{shown['reason'].text(row)} {shown['activity'].text(row)} {shown['until'].text(row)}",
        empty="no gaps: the main thread was always in an op",
        records=lambda order: records(select_columns(shown, FILE), order),
    )


def reason_totals(part: Part, device: int) -> list[tuple[str, int, int]]:
    """(reason, how long, how many gaps) of a thread's gaps, the longest first."""
    found = thread_gaps_of(part)
    mine = found.gaps.device == device
    reason, length = found.reason[mine], found.gaps.duration[mine]
    each = [(name, reason == n) for n, name in enumerate(REASONS)]
    totals = [(name, int(length[this].sum()), int(this.sum())) for name, this in each]
    return sorted((one for one in totals if one[2]), key=lambda one: -one[1])


def gaps_json(part: Part, minimum: int = 0) -> list[dict[str, Any]]:
    """The main thread of each process, with its gaps of at least `minimum` ns by time."""
    gaps, shown = thread_gaps_of(part).gaps, select_columns(gap_columns(part), JSON)
    return [
        {
            "thread": part.trace.lanes[~one.device].name,
            "first_ns": one.first,
            "last_ns": one.last,
            "span_ns": one.span,
            "ops_ns": one.busy,
            "idle_ns": one.idle,
            "gap_count": len(one),
            "reasons": [
                {"reason": name, "gaps": count, "duration_ns": time}
                for name, time, count in reason_totals(part, one.device)
            ],
            "gaps": records(
                shown, np.flatnonzero((gaps.device == one.device) & (gaps.duration >= max(minimum, 0)))
            ),
        }
        for one in gaps.devices
    ]


def gap_blocks(part: Part, minimum: int = 0, limit: int = 20) -> list[Block]:
    """For each main thread a headline, its gaps by reason, and its `limit` longest (0: all)."""
    blocks, shown = [], select_columns(gap_columns(part), TEXT)
    gaps = thread_gaps_of(part).gaps
    for one in gaps.devices:
        called, count = part.trace.lanes[~one.device].name, plural(len(one), "gap")
        said = f"{called}: span {duration(one.span)}, in no op {duration(one.idle)} in {count}"
        totals = reason_totals(part, one.device)
        alone = not has_stacks(part) and any(name == REASONS[UNRECORDED] for name, *_ in totals)
        foot = (ADVICE["record stacks"],) if alone else ()
        blocks.append(Block("", said, "", (), foot=foot, style="title"))
        rows = np.flatnonzero((gaps.device == one.device) & (gaps.duration >= minimum))
        order = rows[np.argsort(-gaps.duration[rows], kind="stable")]
        some = (order[:limit] if limit else order).tolist()
        more = len(order) - len(some)
        if totals:
            blocks.append(
                table(
                    "In no op, by reason",
                    partial(_reason_lines, totals, one.idle),
                    partial(_reason_markdown, totals, one.idle),
                )
            )
        if some:
            title = "Longest gaps" if minimum <= 0 else f"Gaps of {duration(minimum)} and more"
            lines = partial(_gap_lines, shown, some)
            rest = f"and {plural(more, 'more gap')} (--limit 0 lists all)" if more else ""
            blocks.append(table(title, lines, partial(markdown_table, shown, some), rest))
    return blocks


def _gap_lines(shown: tuple[Column, ...], rows: list[int], width: int) -> list[Line]:
    return aligned(shown, cells(shown, rows))


def _reason_lines(totals: list[tuple[str, int, int]], idle: int, width: int) -> list[Line]:
    return columns(
        [
            [
                (name, "accent"), duration(time), share(time / idle), (bar(time / idle, 12), "accent"),
                f"{count:,} x", (WORDS[name], "dim"),
            ]
            for name, time, count in totals
        ],
        "<>><><",
    )  # fmt: skip


def _reason_markdown(totals: list[tuple[str, int, int]], idle: int) -> str:
    rows = [[name, duration(time), share(time / idle), f"{n:,}", WORDS[name]] for name, time, n in totals]
    return markdown.table(["Reason", "In no op", "Share", "Gaps", ""], rows, "<>>><")


def note_of(part: Part) -> str:
    """Beside the tabs: how long the thread was in no op, and why."""
    gaps = thread_gaps_of(part).gaps
    idle = sum(one.idle for one in gaps.devices)
    if not idle:
        return "no gap"
    totals: dict[str, int] = {}
    for one in gaps.devices:
        for name, time, _ in reason_totals(part, one.device):
            totals[name] = totals.get(name, 0) + time
    longest = sorted(totals.items(), key=lambda pair: -pair[1])[:3]
    return f"in no op {exact(idle)}: {', '.join(f'{name} {share(time / idle)}' for name, time in longest)}"


def gap_line(part: Part, gap: int) -> tuple[str, ...]:
    """A gap's length, what the thread was in, and what ended it."""
    found = thread_gaps_of(part)
    reason, within = REASONS[found.reason[gap]], activity_of(part, gap)
    after = int(found.gaps.after[gap])
    return (
        f"in no op {duration(int(found.gaps.duration[gap]))}",
        *(() if within and reason in ("Python", "annotation") else (WORDS[reason],)),
        *((f"within {within}",) if within else ()),
        f"then {short_of(part.trace, after)}" if after >= 0 else "then the end",
    )


def gap_facts(part: Part, gap: int) -> list[Fact]:
    """Why a gap is there, in full."""
    found, trace = thread_gaps_of(part), part.trace
    gaps, steps = found.gaps, step_table_of(part)
    start, length, reason = int(gaps.start[gap]), int(gaps.duration[gap]), REASONS[found.reason[gap]]
    thread, work = trace.lanes[~int(gaps.device[gap])].name, "no op outside of data loading and collectives"
    facts = [
        Fact("no op", f"{thread} was in {work} for {exact(length)}, starting at {instant(start)}"),
        Fact("why", capital(WORDS[reason])),
    ]
    if within := activity_of(part, gap):
        facts.append(Fact("it was in", within, int(found.within[gap])))
    elif not has_stacks(part):
        facts.append(Fact("to see it", ADVICE["record stacks"]))
    for label, event in (("before it", int(gaps.before[gap])), ("ended by", int(gaps.after[gap]))):
        if event >= 0:
            facts.append(Fact(label, short_of(trace, event), event))
    if (step := int(found.step[gap])) >= 0 and steps.event[step] >= 0:
        facts.append(Fact("in step", short_of(trace, int(steps.event[step])), int(steps.event[step])))
    return facts
