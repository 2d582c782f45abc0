"""The report on all gaps, around its tables: busy and idle time of each device, and causes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tracetui.analysis.idle.activity import small_ops_of
from tracetui.analysis.idle.causes import (
    CAUSES,
    MAYBE_BUSY,
    Causes,
    CauseTotal,
    cause_totals,
    lead_in_causes,
)
from tracetui.analysis.idle.cpu_time import cpu_time_of
from tracetui.analysis.idle.cpu_verdict import cpu_work_of
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import DeviceGaps, without_work_text
from tracetui.analysis.idle.split import causes_of, device_causes_of
from tracetui.analysis.idle.thread_gaps import all_gaps_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import NEVER, launch_times
from tracetui.core.copying import replace
from tracetui.core.safe_text import plain
from tracetui.core.units import duration, exact, plural, share
from tracetui.trace import Trace
from tracetui.trace.model import I64
from tracetui.trace.unrecorded import launched_unrecorded
from tracetui.views import markdown, thread_gaps
from tracetui.views.answer import Answer, Shown
from tracetui.views.document import Block, sentences, table
from tracetui.views.document_text import forms
from tracetui.views.gap_words import words_of
from tracetui.views.gaps import JSON, TEXT, gap_columns, gaps_table, gaps_text
from tracetui.views.jsonable import share as json_share
from tracetui.views.lines import Line, Span, bar, columns, paragraph
from tracetui.views.model import select_columns
from tracetui.views.target import Target
from tracetui.views.verdicts import causes_json
from tracetui.views.writers import markdown_table, records

NUMBERS_WIDE = 29
"""Cells of a line about a cause, less its words and its bar."""
NARROWEST = 20
"""With less room than this, causes are not explained in words."""


@dataclass(frozen=True, slots=True)
class GapReport:
    """The gaps of one device in a scope."""

    gaps: DeviceGaps
    totals: list[CauseTotal]
    words: Mapping[str, str]
    """`CAUSE_TEXT` of its gaps."""
    lead_in: Causes | None
    lead_in_words: Mapping[str, str]
    in_flight: bool
    """Whether its first event was launched before the recording."""
    unrecorded: int
    """How many launches before that led to nothing in the trace."""
    called: str
    """What the trace calls the device, with its index."""
    name: str
    """The device's name, safe to show; "" if the trace does not have it."""
    first: int
    """Index of its first gap in `gaps_of`."""
    rank: str = ""
    """Whose device it is, in a file merged from those of several ranks."""

    @property
    def unknown(self) -> int:
        """How much of the gaps' time the device may have been busy, ns."""
        return sum(total.duration for total in self.totals if total.cause in MAYBE_BUSY)

    @property
    def busy_share(self) -> float:
        """The share of the device's span, as far as known."""
        known = self.gaps.span - self.unknown
        return self.gaps.busy / known if known > 0 else 0.0

    def longest(self, minimum: int, limit: int) -> tuple[list[int], int]:
        """Table rows of the longest gaps of at least `minimum` ns, at most `limit` (0: all), and how many
        more there are."""
        order = self.first + self.gaps.longest(minimum)
        shown = order[:limit] if limit else order
        return shown.tolist(), len(order) - len(shown)

    def rows(self, minimum: int) -> I64:
        """Table rows, by time, of the gaps of at least `minimum` ns."""
        return self.first + np.flatnonzero(self.gaps.duration >= minimum)


def gap_report(part: Part) -> list[GapReport]:
    """The gaps of every device; for a step, those within its window (see `summarize_steps`)."""
    reports, first, devices = [], 0, gaps_of(part).devices
    lead_ins = lead_in_causes(part.trace, devices, cpu_time_of(part)) if part.is_whole else {}
    names = device_names(part.trace)
    events = np.array([found.event[0] for found in lead_ins.values()], dtype=np.int64)
    unrecorded = launched_unrecorded(part.trace) if lead_ins else 0
    early = dict(zip(lead_ins, launch_times(part.trace, events) == NEVER, strict=True))
    for gaps, causes in zip(devices, device_causes_of(part), strict=True):
        lead_in = lead_ins.get(gaps.device)
        in_flight = bool(early.get(gaps.device))
        begun = np.array([gaps.first - gaps.lead_in]), np.array([gaps.first])
        words = words_of(part, causes, gaps.start, gaps.end)
        lead_in_words = words_of(part, lead_in, *begun) if lead_in is not None else {}
        totals, trace = cause_totals(causes), part.trace
        called, rank = trace.device_called(gaps.device), trace.rank_of(gaps.device)
        name = names.get(gaps.device, "")
        reports.append(
            GapReport(
                gaps, totals, words, lead_in, lead_in_words, in_flight, unrecorded, called, name, first, rank
            )
        )
        first += len(gaps)
    return reports


def device_names(trace: Trace) -> dict[int, str]:
    """The names of the devices from `deviceProperties`, safe to show."""
    names: dict[object, str] = {}
    for entry in trace.info.devices:
        if isinstance(entry.get("name"), str) and isinstance(entry.get("id"), int | float):
            names.setdefault(entry["id"], plain(entry["name"], 60))
    found: dict[int, str] = {}
    for process in reversed(trace.processes):
        digits = re.search(r"\d{1,9}$", process.pid) if process.rank else None
        own = int(digits[0]) if digits else process.device  # a rank counts its own devices
        if process.device >= 0 and own in names:
            found[process.device] = names[own]
    return found


def gaps_json(part: Part, minimum: int = 0) -> dict[str, Any]:
    """All gaps of at least `minimum` ns by time; sums are over all gaps."""
    if cpu_work_of(part) is not None:
        return {"devices": [], "threads": thread_gaps.gaps_json(part, minimum)}
    shown = select_columns(gap_columns(part), JSON)
    return {
        "devices": [
            _device_json(report) | {"gaps": records(shown, report.rows(minimum))}
            for report in gap_report(part)
        ]
    }


def _device_json(report: GapReport) -> dict[str, Any]:
    gaps = report.gaps
    return {
        "device": gaps.device,
        "name": report.name,
        "rank": report.rank or None,
        "first_ns": gaps.first,
        "last_ns": gaps.last,
        "busy_ns": gaps.busy,
        "span_ns": gaps.span,
        "idle_ns": gaps.idle - report.unknown,
        "unknown_ns": report.unknown,
        "busy_share": json_share(report.busy_share),
        "lead_in_ns": gaps.lead_in,
        "lead_in_cause": CAUSES[report.lead_in.cause[0]] if report.lead_in else None,
        "gap_count": len(gaps),
        "causes": causes_json(report.totals),
    }


def headline(report: GapReport) -> str:
    """One line about a device; its span is from its first to its last event."""
    gaps = report.gaps
    name = f" ({report.name})" if report.name else ""
    count = len(gaps) - sum(total.gaps for total in report.totals if total.cause in MAYBE_BUSY)
    idle = f"idle {duration(gaps.idle - report.unknown)} in {plural(count, 'gap')}"
    idle += f", not known {duration(report.unknown)}" if report.unknown else ""
    rank = f"[{report.rank}] " if report.rank else ""
    return f"{rank}{report.called}{name}: span {duration(gaps.span)}, {idle}"


def lead_in_line(report: GapReport) -> str | None:
    """The time before the device's first event, and its cause."""
    if report.lead_in is None:
        return None
    (cause, _), *others = report.lead_in.parts(0)
    text = "launched before the recording" if report.in_flight else report.lead_in_words[cause]
    why = text if cause in text.split(", ") else f"{cause}: {text}"
    if others:
        why = ", ".join(f"{name} {duration(time)}" for name, time in report.lead_in.parts(0)[:2])
    if report.unrecorded:
        why = f"{plural(report.unrecorded, 'launch', 'launches')}, of which nothing else is in the trace"
    return f"before its first event {duration(report.gaps.lead_in)} ({why})"


def gap_blocks(part: Part, minimum: int = 0, limit: int = 20) -> list[Block]:
    """For each device a headline, its idle time by cause, and its `limit` longest gaps (0: all)."""
    if cpu_work_of(part) is not None:
        return [sentences(without_work_text(part.trace)), *thread_gaps.gap_blocks(part, minimum, limit)]
    blocks, columns = [], gap_columns(part)
    for report in gap_report(part):
        lead_in, (rows, more) = lead_in_line(report), report.longest(minimum, limit)
        rest = f"and {plural(more, 'more gap')} (--limit 0 lists all)" if more else ""
        title = "Longest gaps" if minimum <= 0 else f"Gaps of {duration(minimum)} and more"
        blocks.append(Block("", headline(report), "", (), foot=(lead_in,) if lead_in else (), style="title"))
        if report.totals:
            lines, text = partial(cause_lines, report), partial(causes_markdown, report)
            blocks.append(table("Idle by cause", lines, text))
        if rows:
            shown = partial(markdown_table, select_columns(columns, TEXT), rows)
            blocks.append(table(title, partial(gaps_text, columns, rows), shown, rest))
        elif minimum > 0:
            blocks.append(table(f"{title}: none", lambda width: [], str))
    return blocks or [sentences(without_work_text(part.trace))]


# Idle time by cause


def cause_lines(report: GapReport, width: int) -> list[Line]:
    """Idle time by cause, with bars. The last column takes the remaining width, and as many lines as it
    needs."""
    totals, idle = report.totals, report.gaps.idle
    longest = max((len(t.cause) for t in totals), default=0)
    longest += max((len(report.words[t.cause]) for t in totals), default=0)
    wide = max(4, min(20, max(8, width - 72), width - longest - NUMBERS_WIDE))
    rows: list[list[str | Span]] = [
        [
            (t.cause, "accent"),
            duration(t.duration),
            share(t.duration / idle) if idle else "",
            (bar(t.duration / idle if idle else 0.0, wide), "accent"),
            f"{t.gaps:,} x" if t.gaps else "",
        ]
        for t in totals
    ]
    lines = columns(rows, "<>><>")
    told: list[Line] = []
    for line, total in zip(lines, totals, strict=True):
        room = width - sum(len(text) for text, _ in line) - 2
        words = report.words[total.cause] if room >= NARROWEST else ""
        told += paragraph(words, width, "dim", [*line, ("  ", "")])
    return told


def causes_markdown(report: GapReport) -> str:
    """Idle time by cause as a Markdown table."""
    totals, idle = report.totals, report.gaps.idle
    parts = [share(t.duration / idle) if idle else "" for t in totals]
    rows = [
        [t.cause, duration(t.duration), part, f"{t.gaps:,}", report.words[t.cause]]
        for t, part in zip(totals, parts, strict=True)
    ]
    return markdown.table(["Cause", "Idle", "Share", "Gaps", ""], rows, "<>>><")


def gaps_answer(part: Part, minimum: int = 0, limit: int = 20) -> Answer:
    """When a GPU was idle, and why; in a trace of the CPU alone, when its main thread was in no op.

    `minimum`: only gaps of so many ns; `limit`: gaps of each device in a text, 0 for all.
    """
    return Answer(
        "gaps",
        lambda: gaps_json(part, minimum),
        *forms(lambda: gap_blocks(part, minimum, limit)),
        choose=_rows,
        shown=lambda width: _shown(part),
    )


def _rows(data: Any) -> list[dict[str, Any]]:
    rows = [{"device": one["device"], **gap} for one in data["devices"] for gap in one["gaps"]]
    return rows + [{"thread": one["thread"], **gap} for one in data.get("threads", ()) for gap in one["gaps"]]


def _shown(part: Part) -> Iterator[Shown]:
    """Gaps, longest first. Enter shows the gap in the timeline."""
    gaps, whole = all_gaps_of(part), part.whole

    def item(row: int) -> tuple[int, int]:
        return int(gaps.device[row]), int(gaps.index[row])

    def target_of(row: int, again: int) -> Target | None:
        found = all_gaps_of(whole).find(*item(row))
        return Target(gap=found) if found is not None else None

    on_cpu = cpu_work_of(part) is not None
    shown = Shown(
        thread_gaps.gaps_table(part) if on_cpu else gaps_table(part, False),
        target_of,
        sort="duration",
        item=item,
        row_of=lambda gap: gaps.find(*gap),
    )
    if on_cpu:
        yield replace(shown, note=thread_gaps.note_of(part))
        return
    if part.is_whole:  # finding all causes takes a while
        yield shown
    causes, idle = causes_of(part), int(gaps.duration.sum())
    small_ops_of(part)
    parts = [f"{t.cause} {share(t.duration / idle)}" for t in cause_totals(causes)] if idle else []
    note = f"idle {exact(idle)}: {', '.join(parts[:3])}" if idle else "" if part.is_whole else "no gap"
    yield replace(shown, table=gaps_table(part), note=note)
