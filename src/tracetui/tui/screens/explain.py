"""A sheet about one event, or about a gap and the event that ended it: what it is, why it may be slow, and
the chain of events that led to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import starmap
from typing import Any

from rich.cells import cell_len
from textual import work
from textual.worker import Worker, WorkerState, get_current_worker

from tracetui.analysis.part import Part
from tracetui.core.cells import middle, same_place, wrap
from tracetui.core.units import duration, exact
from tracetui.session.walk import Walk
from tracetui.tui.bindings import bind
from tracetui.tui.panes.base import failure
from tracetui.tui.screens.sheet import Rows, TableSheet, WalkingSheet
from tracetui.tui.tables.view import TableView
from tracetui.views.event import Fact, facts_table, wrapped
from tracetui.views.explain import Explanation, explain, explain_alone
from tracetui.views.gap_words import gap_facts
from tracetui.views.glossary import terms_in, terms_of
from tracetui.views.glossary_terms import Term

HINTS = (
    ("Esc", "close", "leave"),
    ("Enter", "go to the event", "choose"),
    ("I", "glossary", "glossary"),
    ("↑↓", "read", ""),
)
AT_PLACES = (("Esc", "close", "leave"), ("Enter", "go to the place", "choose"), ("↑↓", "read", ""))


def explanation_lines(explanation: Explanation, width: int) -> list[Fact]:
    """The explanation as lines of `width` cells."""
    facts = [
        Fact("" if n else label, sentence)
        for label, sentences in (("what it is", explanation.what), ("why", explanation.why))
        for n, sentence in enumerate(sentences)
    ]
    lines = wrapped([*facts, *starmap(Fact, explanation.facts)], width)
    links = explanation.chain.links
    for n, link in enumerate(links):
        branch = "  " * min(link.level, 16) + ("└ " if link.level else "")
        here = "  ◀ this event" if link.slice == explanation.slice else ""
        took = exact(link.duration)
        since = "the first of its launch" if link.after_first else "its launch"
        after = f", {exact(link.delay)} after {since}" if link.delay is not None else ""
        name = link.name if link.name == link.role else f"{link.role} {link.name}"
        label, told = "chain" if n == 0 else "", f"{took}{after}{here}"
        if cell_len(f"{branch}{name}  {told}") <= width:
            lines.append(Fact(label, f"{branch}{name}  {told}", link.slice))
        else:  # put the times on their own line rather than cut them off
            lines.append(Fact(label, middle(f"{branch}{name}", width), link.slice))
            indent = " " * max(0, min(len(branch), width - 24))
            lines += [Fact("", indent + text, link.slice) for text in wrap(told, width - len(indent))]
    if explanation.chain.more:
        lines.append(Fact("", f"and {explanation.chain.more:,} more on the GPU"))
    return lines


def same_line(before: Sequence[Fact], row: int, after: Sequence[Fact]) -> int:
    """The line that has the same content as line `row` of `before`, at another width of the sheet."""
    event = before[row].event
    if event >= 0:  # names in the chain are cut to fit: find the line by its event
        return next((n for n, line in enumerate(after) if line.event == event), 0)
    texts = [["" if line.event >= 0 else line.value for line in lines] for lines in (before, after)]
    return same_place(texts[0], row, texts[1])


class LinesSheet(TableSheet[int]):
    """A sheet of lines, some of which lead somewhere; the result is the place that was chosen."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.lines: Sequence[Fact] = ()
        """The lines, each with the place that Enter goes to, -1 for none."""
        self.list = Rows()

    def on_mount(self) -> None:
        self.list.focus()

    def on_resize(self) -> None:
        self.wrap()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        event.stop()
        if event.state is WorkerState.ERROR:
            self.list.fail(failure(event.worker.error))

    def wrap(self) -> None:
        """Show the lines, wrapped to this width."""
        raise NotImplementedError

    def room(self, labels: int) -> int:
        """Number of cells for the text beside labels of this width."""
        return max(20, min(110, self.size.width - labels - 6))

    def show_lines(
        self, lines: Sequence[Fact], labels: int, row: int | None, leads: Callable[[Fact], bool] | None = None
    ) -> None:
        """`row`: where the cursor goes; the other arguments as in `facts_table`."""
        self.lines = lines
        self.list.set_table(facts_table(lines, labels, leads=leads), row=row)
        self.fit(len(lines))

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        if (event := self.lines[message.row].event) >= 0:
            self.dismiss(event)


class DifferenceScreen(LinesSheet):
    """Says what a line of a comparison means and what it is based on; the result says which of its places to
    go to."""

    BINDINGS = bind("escape,q,e leave")

    def __init__(self, title: str, facts: Sequence[Fact]) -> None:
        """`facts`: `event` is the number of the place that a line is about, -1 for none."""
        super().__init__(title, AT_PLACES)
        self.facts = facts

    def on_mount(self) -> None:
        self.wrap()

    def wrap(self) -> None:
        labels = max(len(fact.label) for fact in self.facts)
        self.show_lines(wrapped(self.facts, self.room(labels)), labels, self.list.row)


class ExplainScreen(LinesSheet, WalkingSheet[int]):
    """Explains an event, or a gap and the event that ended it; the result is an event to jump to."""

    BINDINGS = bind("escape,q,e leave  I glossary")

    def __init__(
        self,
        part: Part,
        event: int,
        walk: Walk,
        glossary: Callable[[Sequence[Term]], object],
        gap: int | None = None,
    ) -> None:
        """`gap`: index of a gap in `gaps_of` that ends with the event; `glossary` is called to open the
        glossary on some terms."""
        hints = tuple(hint for hint in HINTS if hint[2] == "leave") if walk.recording.part else HINTS
        super().__init__("Explain", hints, walk)
        self._glossary = glossary
        self.terms: Sequence[Term] = ()
        """The terms that the sheet uses."""
        self.whole, self.event, self.gap = part, event, gap
        self.explanation: Explanation | None = None
        self.gap_facts: Sequence[Fact] = ()
        self._at: int | None = None
        """The event that the timeline shows."""

    def on_mount(self) -> None:
        self.read()

    def on_unmount(self) -> None:
        """A closed screen may be there for long, and must not keep the part of a file that it was about."""
        self._place = None
        del self.whole

    @work(thread=True, exclusive=True, exit_on_error=False, group="explain")
    def read(self) -> None:
        """Explain the event, in a thread: its arguments are read from the file."""
        from tracetui.analysis.calls.calls import self_time_of

        part = self.whole
        facts = gap_facts(part, self.gap) if self.gap is not None else []
        if self.walk.recording.part:
            explanation = explain_alone(part.trace, self.event)
        else:
            explanation = explain(part.trace, self.event, self_time_of(part))
        if not get_current_worker().is_cancelled:
            self.app.call_from_thread(self.show_explanation, explanation, facts)

    def show_explanation(self, explanation: Explanation, facts: Sequence[Fact] = ()) -> None:
        from tracetui.analysis.idle.gap_list import gaps_of

        self.explanation, self.gap_facts = explanation, facts
        told = (f"{fact.label} {fact.value}" for fact in facts)
        if not self.walk.recording.part:  # the examples of the glossary are not known yet
            self.terms = tuple(dict.fromkeys((*terms_in(*told), *terms_of(explanation))))
        title = explanation.title
        if self.gap is not None:
            title = f"idle {duration(int(gaps_of(self.whole).duration[self.gap]))}, then {title}"
        self.head.title = f"Explain: {title}"
        self.wrap()

    def wrap(self) -> None:
        explanation = self.explanation
        if explanation is None:
            return
        told = [label for label, _ in explanation.facts] + [fact.label for fact in self.gap_facts]
        labels = max([12, *(min(24, len(label)) for label in told)])
        row, width = self.list.row, self.room(labels)
        lines = wrapped(self.gap_facts, width)
        if lines:
            ended = Fact("then", f"{explanation.title}, which ended it", self.event)
            lines += [Fact("", ""), *wrapped([ended], width)]
        lines += explanation_lines(explanation, width)
        if self.terms:
            names = ", ".join(term.name for term in self.terms)
            lines += wrapped([Fact("", ""), Fact("words", f"{names} (I: what they mean)")], width)
        self.show_lines(lines, labels, None if row is None else same_line(self.lines, row, lines))

    def on_table_view_highlighted(self, message: TableView.Highlighted) -> None:
        event = self.lines[message.row].event
        at = event if event >= 0 else None
        if at != self._at:
            self._at = at
            self.visit(None if at is None else lambda: self.walk.select(at))

    def action_glossary(self) -> None:
        self._glossary(self.terms)
