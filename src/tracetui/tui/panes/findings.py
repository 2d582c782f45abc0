"""The findings pane: what a reader of the trace should notice, why, and what to try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual import work
from textual.worker import get_current_worker

from tracetui.analysis.findings import Finding
from tracetui.tui.panes.base import Jump, Pane
from tracetui.tui.results import Results
from tracetui.tui.tables.model import Column, Table
from tracetui.tui.text import wrap
from tracetui.tui.units import micro, plural


class Line(NamedTuple):
    """One line of a finding."""

    finding: int
    label: str
    text: str
    title: bool


def finding_lines(findings: Sequence[Finding], width: int) -> list[Line]:
    """The findings as lines of `width` cells: title, text, advice."""
    lines = []
    for n, finding in enumerate(findings):
        count = plural(len(finding.evidence), "event")
        titles = wrap(micro(f"{finding.title}  [{count}]"), width)
        lines += [Line(n, finding.severity if i == 0 else "", t, True) for i, t in enumerate(titles)]
        for label, text in (("why", finding.text), ("try", finding.advice)):
            told = wrap(micro(text), width) if text else []
            lines += [Line(n, label if i == 0 else "", t, False) for i, t in enumerate(told)]
    return lines


class FindingsPane(Pane):
    """Findings, the most severe first. Enter goes to the evidence, again to the next piece of it."""

    def __init__(self, results: Results, id: str) -> None:
        super().__init__(results, id)
        self.findings: tuple[Finding, ...] | None = None
        self.lines: list[Line] = []
        self.waiting = "looking …"

    def on_mount(self) -> None:
        self.load()

    @work(thread=True, exclusive=True, exit_on_error=False, group="findings")
    def load(self) -> None:
        worker = get_current_worker()
        findings = self.results.findings()
        verdict = self.results.steps().whole.verdict
        if not worker.is_cancelled:
            self.app.call_from_thread(self.show_findings, findings, verdict.verdict)

    def show_findings(self, findings: tuple[Finding, ...], verdict: str) -> None:
        self.findings = findings
        self.set_note(f"{plural(len(findings), 'finding')}; verdict: {verdict}")
        self._wrap()

    def on_resize(self) -> None:
        if self.findings is not None:
            self._wrap()

    def _wrap(self) -> None:
        width = self.size.width - 13
        if self.findings is None or width < 20:
            return
        lines = self.lines = finding_lines(self.findings, width)
        at = self.cursor
        self.set_table(
            Table(
                (
                    Column("label", "Finding", lambda r: lines[r].label, None, 8, False),
                    Column("text", "Enter shows the evidence", lambda r: lines[r].text, None, 0, False),
                ),
                len(lines),
                lambda r: lines[r].text,
                dim=lambda r: not lines[r].title,
                empty="nothing stands out in this trace",
            )
        )
        self.cursor = min(at, max(0, len(lines) - 1))

    def on_table_view_chosen(self, message: Pane.Chosen) -> None:
        message.stop()
        if self.findings is None:
            return
        finding = self.findings[self.lines[message.row].finding]
        at = message.again % len(finding.evidence)
        said = f"evidence {at + 1} of {len(finding.evidence)}: {micro(finding.title)}"
        self.post_message(Jump(finding.evidence[at], said))
