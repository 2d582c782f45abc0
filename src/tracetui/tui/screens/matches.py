"""A sheet with the matches of a search, as a table."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tracetui.analysis.names.short_names import short_of
from tracetui.core.units import fixed, instant, plural
from tracetui.session.navigator import Navigator
from tracetui.trace.model import I64, Trace
from tracetui.tui.bindings import bind
from tracetui.tui.screens.sheet import TableSheet, WalkingSheet
from tracetui.tui.tables.view import TableView
from tracetui.views.model import Column, Table

HINTS = (
    ("Esc", "back", "leave"),
    ("Enter", "stay there", "choose"),
    ("↑↓", "look", ""),
    ("< >", "sort", "sort(1)"),
    ("R", "reverse", "reverse"),
)


def matches_table(trace: Trace, found: I64, called: Callable[[int], str]) -> Table:
    """The matching events as columns. `called`: what a lane is called."""

    def words(key: str, title: str, text: Callable[[int], str], width: int, drop: int) -> Column:
        return Column(key, title, text, lambda: ranked(text), width, False, drop, False)

    def ranked(text: Callable[[int], str]) -> I64:
        """For each row, the rank of its text; texts are made once per name, category and lane, not once per
        row."""
        same = (trace.name[found].astype(np.int64) << 32) + (trace.category[found].astype(np.int64) << 20)
        _, first, number = np.unique(same + trace.lane[found], return_index=True, return_inverse=True)
        _, rank = np.unique([text(int(r)).casefold() for r in first], return_inverse=True)
        return np.asarray(rank[number], dtype=np.int64)

    start, length = trace.start[found], trace.duration[found]
    columns = (
        Column("start", "Start", lambda r: instant(int(start[r])), lambda: start, 18, True, 1, False),
        Column("duration", "Duration", lambda r: fixed(int(length[r])), lambda: length, 12),
        words("category", "Category", lambda r: trace.categories[int(trace.category[found[r]])], 16, 2),
        words("lane", "Lane", lambda r: called(int(trace.lane[found[r]])), 26, 3),
        words("name", "Name", lambda r: short_of(trace, int(found[r])), 0, 0),
    )
    return Table(columns, len(found), empty="nothing matches")


class MatchesScreen(TableSheet[int], WalkingSheet[int]):
    """All matches. The one under the cursor is shown in the timeline; the result is an event to jump to."""

    BINDINGS = bind("escape,q,L leave  greater_than_sign sort(1)  less_than_sign sort(-1)  R reverse")

    def __init__(self, trace: Trace, found: I64, query: str, navigator: Navigator) -> None:
        super().__init__(f"{plural(len(found), 'match')} for “{query}”", HINTS, navigator)
        self.found = found
        self.table = matches_table(trace, found, navigator.scene.source.lane_name)
        self.list = TableView()

    def on_mount(self) -> None:
        self.list.set_table(self.table, "start", False)
        self.list.focus()
        here = np.flatnonzero(self.found == self.navigator.selected)
        if len(here):
            self.list.show_row(int(here[0]))

    def on_resize(self) -> None:
        self.fit(len(self.found) + 1)

    def on_table_view_highlighted(self, message: TableView.Highlighted) -> None:
        self.visit(lambda: self.navigator.select(int(self.found[message.row])))

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        self.dismiss(int(self.found[message.row]))

    def action_sort(self, step: int) -> None:
        self.list.sort_next(step)

    def action_reverse(self) -> None:
        self.list.reverse()
