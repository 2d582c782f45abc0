"""The findings pane: what to notice in the trace, why it matters, and what to try."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar

from tracetui.analysis.idle.verdict import communication_text
from tracetui.analysis.steps.scope import is_analyzable
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.cells import same_place
from tracetui.core.units import plural
from tracetui.rules import SEVERITIES, Finding, find_findings
from tracetui.session.session import Session
from tracetui.tui.panes.scoped import ScopedPane, within
from tracetui.views.findings import FindingLine, finding_lines, findings_table
from tracetui.views.target import Target


class FindingsPane(ScopedPane):
    """Findings, the most severe first. Enter goes to an event that shows it, Enter again to the next one."""

    DEFAULT_CSS = """
    FindingsPane > .finding--high { color: $error; }
    FindingsPane > .finding--medium { color: $warning; }
    FindingsPane > .finding--low { color: $primary; }
    FindingsPane > .finding--info { color: $text-muted; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"finding--{severity}" for severity in SEVERITIES}

    def __init__(self, session: Session, key: str) -> None:
        super().__init__(session, key)
        self.findings: tuple[Finding, ...] | None = None
        self.lines: list[FindingLine] = []
        self._nothing = ""
        self.waiting = "looking …"

    def work_out(self) -> Iterator[Callable[[], None]]:
        part = self.whole.within(self.scope)
        findings, verdict, where = find_findings(part), verdict_of(part), within(self.scope)
        note = plural(len(findings), "finding")
        if communication := communication_text(verdict):
            note += f"; {communication}"
        nothing = "nothing stands out {}"
        if not findings and not is_analyzable(part):
            nothing = "no PyTorch events {}"
        nothing = nothing.format(where or "in this trace")
        yield partial(self.show_findings, findings, note, where, nothing)

    def show_findings(self, findings: tuple[Finding, ...], note: str, where: str, nothing: str) -> None:
        """`where`: the part of the trace that they are about; `nothing`: the text to show if there are
        none."""
        if findings == self.findings and findings:
            self.set_note(note, where)
            return  # Enter still goes to the next event
        row = self.row if self.cursor else None
        before = self._finding(row).rule if row is not None else None
        self.findings, self._nothing = findings, nothing
        self.set_note(note, where)
        self.cursor = 0
        self._wrap()
        found = (r for r, line in enumerate(self.lines) if findings[line.finding].rule == before)
        if (line := next(found, None)) is not None:
            self.show_row(line)

    def _finding(self, row: int) -> Finding:
        assert self.findings is not None
        return self.findings[self.lines[row].finding]

    def on_resize(self) -> None:
        if self.findings is not None:
            self._wrap(again=True)

    def _wrap(self, again: bool = False) -> None:
        """`again`: only the width has changed, so the cursor stays on its text."""
        if self.findings is None:
            return
        width = max(20, self.size.width - 14)
        before, row = self.lines, self.row if again else None
        lines = self.lines = finding_lines(self.findings, width)
        if row is not None:
            row = same_place([line.text for line in before], row, [line.text for line in lines])
        table = findings_table(self.whole.trace, self.findings, lines, self._nothing, self._color)
        self.set_table(table, row=row)

    def _color(self, severity: str) -> str | None:
        style = self.get_component_styles(f"finding--{severity}")
        return style.color.hex6 if severity != "info" else None

    def leads_to(self, row: int, again: int = 0) -> Target | None:
        if self.findings is None:
            return None
        finding = self._finding(row)
        at = again % len(finding.evidence)
        return Target(
            event=finding.evidence[at], said=f"evidence {at + 1} of {len(finding.evidence)}: {finding.title}"
        )
