"""Findings as text, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracetui.analysis.findings import Finding, analysable
from tracetui.analysis.kernel_names import short_name
from tracetui.report import markdown
from tracetui.report.lines import Line, fit, wrap
from tracetui.trace import Trace
from tracetui.units import duration, instant

__all__ = [
    "SEVERITY_STYLE",
    "UNKNOWN_EVENTS",
    "finding_titles",
    "findings_json",
    "findings_lines",
    "findings_markdown",
]

SEVERITY_STYLE = {"high": "bad", "medium": "warn", "low": "accent", "info": "dim"}
UNKNOWN_EVENTS = (
    "Nothing could be analysed: no event is of a kind that PyTorch records (ops, annotations, launches, "
    "GPU work)."
)
SHOWN = 3
"""Pieces of evidence in text; JSON has all that the finding lists."""


def findings_json(trace: Trace, findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """One object per finding, the most severe first. `slice` is the row of the trace's columns."""
    return [
        {
            "rule": f.rule,
            "severity": f.severity,
            "title": f.title,
            "text": f.text,
            "advice": f.advice,
            "numbers": {name: float(value) for name, value in f.numbers.items()},
            "evidence": [
                {
                    "slice": int(i),
                    "name": trace.name_of(int(i)),
                    "lane": trace.lanes[int(trace.lane[i])].name,
                    "start_ns": int(trace.start[i]),
                    "duration_ns": int(trace.duration[i]),
                }
                for i in f.evidence
            ],
        }
        for f in findings
    ]


def _nothing(trace: Trace) -> str:
    return "No rule has anything to say about this trace." if analysable(trace) else UNKNOWN_EVENTS


def _evidence(trace: Trace, finding: Finding) -> list[str]:
    shown = []
    for i in finding.evidence[:SHOWN]:
        name = short_name(trace.name_of(i), trace.categories[int(trace.category[i])])
        shown.append(f"{name} at {instant(int(trace.start[i]))}, {duration(int(trace.duration[i]))}")
    more = len(finding.evidence) - SHOWN
    return [*shown, f"and {more} more"] if more > 0 else shown


def finding_titles(findings: Sequence[Finding], width: int, limit: int) -> list[Line]:
    """One line per finding."""
    lines: list[Line] = []
    for f in findings[:limit]:
        title = wrap(f.title, width - 11) or [""]
        lines.append([(f"  {f.severity:<8} ", SEVERITY_STYLE[f.severity]), (title[0], "")])
        lines += [[(f"{'':11}{part}", "")] for part in title[1:]]
    if len(findings) > limit:
        lines.append([(f"  and {len(findings) - limit} more: tracetui findings", "dim")])
    return lines


def findings_lines(trace: Trace, findings: Sequence[Finding], width: int) -> list[Line]:
    """Each finding with its explanation, what to try, and the first of its evidence."""
    width = min(width, 100)
    if not findings:
        return [[(part, "")] for part in wrap(_nothing(trace), width)]
    lines: list[Line] = []
    for f in findings:
        lines += [[]] if lines else []
        title = wrap(f.title, width - 9) or [""]
        lines.append([(f"{f.severity:<8} ", SEVERITY_STYLE[f.severity]), (title[0], "title")])
        lines += [[(f"{'':9}{part}", "title")] for part in title[1:]]
        lines += [[(f"  {part}", "")] for part in wrap(f.text, width - 2)]
        advice = wrap(f.advice, width - 7)
        lines += [
            [("  Try: " if i == 0 else "       ", "accent"), (part, "")] for i, part in enumerate(advice)
        ]
        lines += [[(fit(f"  > {text}", width), "dim")] for text in _evidence(trace, f)]
    return lines


def findings_markdown(trace: Trace, findings: Sequence[Finding]) -> str:
    if not findings:
        return f"{_nothing(trace)}\n"
    text = ""
    for f in findings:
        text += f"- **{f.severity}: {markdown.cell(f.title)}**. {markdown.cell(f.text)}\n"
        text += f"  *Try:* {markdown.cell(f.advice)}\n" if f.advice else ""
        text += "".join(f"  - {markdown.cell(e)}\n" for e in _evidence(trace, f))
    return text
