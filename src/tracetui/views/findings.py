"""The table of findings: a row for each in JSON and CSV; on the screen, the lines of their texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tracetui.core.cells import wrap
from tracetui.core.units import plural
from tracetui.rules import Finding
from tracetui.rules.claims import Remedy, claims_json
from tracetui.trace.model import I64, Trace
from tracetui.views.model import Column, Columns, Table, by_key, each, select_columns
from tracetui.views.writers import Record, records

JSON = "rule severity title text advice numbers evidence claims affected remedy"
FILE = "rule severity title text advice count evidence_name evidence_start_ns evidence_duration_ns"


def finding_columns(trace: Trace, findings: Sequence[Finding]) -> Columns:
    """The columns of these findings."""

    def field(name: str, value: Callable[[Finding], Any]) -> Column:
        return Column(name, fields={name: each(lambda r: value(findings[r]))})

    def first(name: str) -> Column:
        return field(f"evidence_{name}", lambda f: evidence_json(trace, f.evidence[0])[name])

    return by_key(
        field("rule", lambda f: f.rule),
        field("severity", lambda f: f.severity),
        field("title", lambda f: f.title),
        field("text", lambda f: f.text),
        field("advice", lambda f: f.advice),
        field("numbers", lambda f: {name: float(value) for name, value in f.numbers.items()}),
        field("evidence", lambda f: [evidence_json(trace, i) for i in f.evidence]),
        field("claims", lambda f: claims_json(f.claims)),
        field("affected", lambda f: len(f.affected)),
        field("remedy", lambda f: f.remedy and remedy_json(f.remedy)),
        Column("count", fields={"evidence": each(lambda r: len(findings[r].evidence))}),
        first("name"),
        first("start_ns"),
        first("duration_ns"),
    )


def evidence_json(trace: Trace, event: int) -> Record:
    """A slice that shows something. `slice` is the row of the trace's columns."""
    return {
        "slice": int(event),
        "name": trace.name_of(event),
        "lane": trace.lanes[int(trace.lane[event])].name,
        "start_ns": int(trace.start[event]),
        "duration_ns": int(trace.duration[event]),
    }


def remedy_json(remedy: Remedy) -> Record:
    """What would be done about it: to how many slices, which take how long. `factor`: how many times as fast;
    null where that is not known."""
    slices = remedy.slices
    return {"what": remedy.what, "slices": len(slices), "time_ns": slices.time, "factor": remedy.factor}


def findings_json(trace: Trace, findings: Sequence[Finding]) -> list[Record]:
    """One object per finding, the most severe first."""
    return records(select_columns(finding_columns(trace, findings), JSON), np.arange(len(findings)))


class FindingLine(NamedTuple):
    """One line of a finding."""

    finding: int
    label: str
    text: str
    title: bool


def finding_lines(findings: Sequence[Finding], width: int) -> list[FindingLine]:
    """The findings as lines of `width` cells: title, text, advice."""
    lines = []
    for n, finding in enumerate(findings):
        count = plural(len(finding.evidence), "event")
        titles = wrap(f"{finding.title}  [{count}]", width)
        lines += [FindingLine(n, finding.severity if i == 0 else "", t, True) for i, t in enumerate(titles)]
        for label, text in (("why", finding.text), ("try", finding.advice)):
            parts = wrap(text, width) if text else []
            lines += [FindingLine(n, label if i == 0 else "", t, False) for i, t in enumerate(parts)]
    return lines


def findings_table(
    trace: Trace,
    findings: Sequence[Finding],
    lines: Sequence[FindingLine],
    empty: str,
) -> Table:
    """The `finding_lines` on the screen. A file gets every finding with at least one line left."""

    def of_lines(order: I64) -> list[Record]:
        shown = dict.fromkeys(lines[row].finding for row in order.tolist())
        return records(
            select_columns(finding_columns(trace, findings), FILE), np.array([*shown], dtype=np.int64)
        )

    return Table(
        (
            Column("label", "Finding", lambda r: lines[r].label, width=8, right=False),
            Column("text", "Enter shows the evidence", lambda r: lines[r].text, right=False),
        ),
        len(lines),
        lambda r: lines[r].text,
        lambda r: findings[lines[r].finding].severity,
        dim=lambda r: not lines[r].title,
        empty=empty,
        records=of_lines,
        lines=True,
    )
