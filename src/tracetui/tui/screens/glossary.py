"""A sheet with the words of profiling: what each means, and an example of it in the trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static
from textual.worker import Worker

from tracetui.analysis.names.short_names import short_of
from tracetui.analysis.part import Part
from tracetui.core.cells import wrap
from tracetui.core.units import duration, plural
from tracetui.session.navigator import Navigator
from tracetui.tui.prompt import Prompt
from tracetui.tui.screens.picker import Choice, PickList, fitting
from tracetui.tui.screens.sheet import ListSheet, WalkingSheet
from tracetui.tui.tables.view import TableView
from tracetui.views.examples import Example
from tracetui.views.glossary import example
from tracetui.views.glossary_terms import TERMS, Term
from tracetui.views.model import Column, Table

HINTS = (("Esc", "back", "leave"), ("Enter", "to the example", "choose"), ("↑↓", "choose", ""))
SETTLED = 0.15
"""Seconds from the cursor's last move until an example is looked for: finding it may take longer than a
move."""
TEXT = 7
"""Lines below the list: a term's sentences, where it shows, related terms, and its example."""


class GlossaryScreen(ListSheet[Example], WalkingSheet[Example]):
    """The terms, each with an example that the timeline shows; the result is the example to go to."""

    DEFAULT_CSS = f"GlossaryScreen .text {{ height: {TEXT}; padding: 0 1; color: $foreground; }}"

    def __init__(
        self,
        part: Part,
        navigator: Navigator,
        show: Callable[[Example], object],
        some: Sequence[Term] = (),
        at: str = "",
    ) -> None:
        """`show` is called with the example to show in the timeline; `some`: the terms to list while nothing
        is typed, () for all; `at`: the name of the term under the cursor at first."""
        title = f"Glossary: {plural(len(some), 'term')} in this text" if some else "Glossary"
        super().__init__(title, HINTS, navigator)
        self.whole, self._show, self.some = part, show, tuple(some)
        self.terms = TERMS
        self.at = at
        self.shown: Sequence[Term] = self.some or self.terms
        self.prompt = Prompt(">", placeholder="search all terms")
        self.list = PickList()
        self.text = Static(markup=False, classes="text")
        self.found: dict[str, Example | None] = {}
        """The examples that were looked for, by term."""
        self._timer: Timer | None = None
        self._walked = False
        """Whether the user has chosen a term: until then, the timeline stays as it is."""

    def body(self) -> Iterator[Widget]:
        yield self.prompt
        yield self.list
        yield self.text

    def on_mount(self) -> None:
        self._list()
        first = next((n for n, term in enumerate(self.shown) if term.name == self.at), 0)
        if first:
            self.call_after_refresh(self._begin, first)

    def _begin(self, row: int) -> None:
        self.list.show_row(row)
        self._moved()

    def on_resize(self) -> None:
        self.fit(1 + len(self.shown) + TEXT)
        self._write()

    @property
    def here(self) -> Term | None:
        """The term under the cursor."""
        row = self.list.row
        return self.shown[row] if row is not None and row < len(self.shown) else None

    def _list(self) -> None:
        shown = self.shown
        wide = max((len(t.name) for t in self.terms), default=1)
        columns = (
            Column("name", "", lambda r: shown[r].name, None, wide, False),
            Column("group", "", lambda r: shown[r].group, None, 15, False, 1),
            Column("text", "", lambda r: shown[r].text, None, 0, False),
        )
        self.list.set_table(Table(columns, len(shown), empty="no matching term"))
        self._moved()

    def _moved(self) -> None:
        """The cursor moved to another term."""
        self._write()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(SETTLED, self._look)

    def _look(self) -> None:
        """Find the term's example, in a thread, and show it."""
        term = self.here
        if term is None:
            return
        if term.name in self.found:
            self._visit()
        else:
            self.run_worker(
                partial(self._find, term), thread=True, exclusive=True, exit_on_error=False, group="example"
            )

    def _find(self, term: Term) -> None:
        found = example(self.whole, term)
        self.app.call_from_thread(self._arrived, term, found)

    def _arrived(self, term: Term, found: Example | None) -> None:
        self.found[term.name] = found
        if term is self.here and self.is_attached:
            self._visit()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        event.stop()  # a term is shown without an example if that cannot be found

    def _visit(self) -> None:
        found = self.found[self.here.name] if self.here is not None else None
        if self._walked:
            self.visit(None if found is None else partial(self._show, found))
        self._write()

    def _write(self) -> None:
        """Write the term under the cursor in full."""
        term = self.here
        if term is None:
            self.text.update(Content(""))
            return
        width = max(20, min(110, self.size.width - 2))
        lines = wrap(f"{term.name}: {term.text}", width)
        about = [("Where", term.where), ("See also", ", ".join(term.see)), ("Example", self._example(term))]
        lines += [line for title, text in about if text for line in wrap(f"{title}: {text}", width)[:1]]
        self.text.update(Content("\n").join([Content.styled(lines[0], "bold"), *map(Content, lines[1:TEXT])]))

    def _example(self, term: Term) -> str:
        from tracetui.analysis.idle.gap_list import gaps_of

        if term.name not in self.found:
            return "" if term.find is None else "…"
        found, part = self.found[term.name], self.whole
        if found is None:
            return "none in this trace"
        if found.gap is not None:
            return f"idle for {duration(int(gaps_of(part.whole).duration[found.gap]))}"
        return f"{short_of(part.trace, found.slice)}, {duration(int(part.trace.duration[found.slice]))}"

    # Keys

    def on_prompt_typed(self, message: Prompt.Typed) -> None:
        typed = message.value.strip()
        self._walked = self._walked or bool(typed)
        if typed:
            words = [Choice(t.name, about=f"{t.group} {t.text} {t.where}") for t in self.terms]
            self.shown = [self.terms[n] for n in fitting(words, typed)]
        else:
            self.shown = self.some or self.terms
        self._list()

    def on_table_view_highlighted(self, message: TableView.Highlighted) -> None:
        self._walked = True
        self._moved()

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        self.action_choose()

    def action_choose(self) -> None:
        term = self.here
        if term is None:
            return
        found = self.found.get(term.name)
        if found is not None:
            self.dismiss(found)
        elif term.name in self.found or term.find is None:
            self.say(f"this trace has no example of “{term.name}”")
        else:
            self.say("looking for an example …")
            self._look()
