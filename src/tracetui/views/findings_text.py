"""Findings as text and Markdown. (As JSON: `tracetui.views.findings`.)"""

from __future__ import annotations

import numpy as np
from rich.cells import cell_len

from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.verdict import communication_text
from tracetui.analysis.names.short_names import short_of
from tracetui.analysis.part import Part
from tracetui.analysis.select import has_kind
from tracetui.analysis.steps.scope import is_analyzable
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.cells import fit
from tracetui.core.units import duration, instant, plural
from tracetui.rules import Finding, find_findings
from tracetui.rules.model import EVIDENCE
from tracetui.trace import Kind, Trace
from tracetui.trace.unknown import idle_known
from tracetui.views import markdown
from tracetui.views.answer import Answer, Shown, within
from tracetui.views.findings import finding_lines, findings_json, findings_table
from tracetui.views.lines import INDENT, Line, paragraph
from tracetui.views.target import Target

OF_IDLE_TIME = ("overhead_bound", "little_use", "idle_time")
"""Rules whose evidence ends gaps."""

SEVERITY_STYLE = {"high": "bad", "medium": "warn", "low": "accent", "info": "dim"}
LEVEL_STYLE = {"lost": "bad", "missing": "warn", "odd": "warn", "repaired": "dim"}
"""Of what is said of the file."""
SHOWN = 3
"""Pieces of evidence shown in text; JSON has all of them."""


def unknown_events(part: Part) -> str | None:
    """What to say of a trace in which nothing can be analyzed; None of others."""
    if is_analyzable(part.whole):
        return None
    if "dynamo_timed" in part.trace.categories:
        return "These are the phases of torch.compile, from its own log: they are drawn, but not judged."
    names = part.trace.names
    if any(name.startswith("PyTorch Profiler") for name in names) and has_kind(part.trace, Kind.PYTHON):
        return (
            "No op, launch or GPU work was recorded, only functions of Python. With a schedule, export the "
            "trace in on_trace_ready: after the last active step the next cycle begins."
        )
    if len(part.trace) == 1 and any(name.startswith("PyTorch Profiler") for name in names):
        return (
            "PyTorch's profiler recorded nothing. It sees the thread that starts it and those of autograd; "
            "other threads are recorded with profile_all_threads=True in its experimental_config. With a "
            "schedule, export the trace in on_trace_ready: after the last active step nothing may be left."
        )
    return (
        "No events of PyTorch's profiler (ops, annotations, launches, GPU work): there is nothing to analyze."
    )


def _nothing(part: Part) -> str:
    if unknown := unknown_events(part):
        return unknown
    none, verdict = "No findings in this trace.", verdict_of(part.whole)
    known = verdict.verdict != "not known" and idle_known(part.trace)
    return none if known else f"{none} {verdict.reason}"


def _evidence(trace: Trace, finding: Finding, width: int = 200) -> list[str]:
    """Times stay whole: a name gives way."""
    shown = []
    for i in finding.evidence[:SHOWN]:
        at, length = instant(int(trace.start[i])), duration(int(trace.duration[i]))
        when = f" at {at}, {length}"
        shown.append(f"{fit(short_of(trace, i), width - cell_len(when))}{when}")
    more = len(finding.evidence) - SHOWN
    if more > 0:  # a full list may stand for many more
        shown.append(f"and {more} more" if len(finding.evidence) < EVIDENCE else "and more")
    return shown


def findings_lines(part: Part, width: int) -> list[Line]:
    """Each finding with its explanation, advice, and the first pieces of evidence."""
    width = min(width, 100)
    if not find_findings(part):
        return paragraph(_nothing(part), width)
    lines: list[Line] = []
    for f in find_findings(part):
        lines += [[]] if lines else []
        lines += paragraph(f.title, width, "title", [(f"{f.severity:<8} ", SEVERITY_STYLE[f.severity])])
        lines += paragraph(f.text, width, head=INDENT)
        lines += paragraph(f.advice, width, head=[("  Try: ", "accent")])
        lines += [[(f"  > {text}", "dim")] for text in _evidence(part.trace, f, width - 4)]
    return lines


def findings_markdown(part: Part) -> str:
    if not find_findings(part):
        return f"{_nothing(part)}\n"
    text = ""
    for f in find_findings(part):
        text += f"- **{f.severity}: {markdown.cell(f.title)}**. {markdown.cell(f.text)}\n"
        text += f"  *Try:* {markdown.cell(f.advice)}\n" if f.advice else ""
        text += "".join(f"  - {markdown.cell(e)}\n" for e in _evidence(part.trace, f))
    return text


def _gap_before(part: Part, event: int) -> int | None:
    """The gap of the whole trace that an event ends."""
    found = np.flatnonzero(gaps_of(part.whole).after == event)
    return int(found[0]) if len(found) else None


def findings_answer(part: Part) -> Answer:
    """What to notice, the most severe first."""
    return Answer(
        "findings",
        lambda: {"findings": findings_json(part.trace, find_findings(part))},
        lambda: findings_markdown(part),
        lambda width: findings_lines(part, width),
        lambda data: list(data["findings"]),
        shown=lambda width: [_shown(part, max(20, width - 14))],
    )


def _shown(part: Part, width: int) -> Shown:
    """The findings in lines of `width` cells, the most severe first. Enter goes to an event that shows one,
    Enter again to the next."""
    findings, where = find_findings(part), within(part.scope)
    lines = finding_lines(findings, width)
    note = "; ".join(filter(None, (plural(len(findings), "finding"), communication_text(verdict_of(part)))))
    nothing = "no PyTorch events" if not is_analyzable(part) else "nothing stands out"

    def target_of(row: int, again: int) -> Target:
        finding = findings[lines[row].finding]
        at = again % len(finding.evidence)
        said = f"evidence {at + 1} of {len(finding.evidence)}: {finding.title}"
        event = finding.evidence[at]
        # Of idle time the gap is the example, not what ended it.
        gap = _gap_before(part, event) if finding.rule in OF_IDLE_TIME else None
        return Target(event=event, said=said) if gap is None else Target(gap=gap, said=said, example=True)

    rules = [findings[line.finding].rule for line in lines]
    return Shown(
        findings_table(part.trace, findings, lines, f"{nothing} {where or 'in this trace'}"),
        target_of,
        note,
        item=rules.__getitem__,
        row_of=lambda rule: rules.index(rule) if rule in rules else None,
    )
