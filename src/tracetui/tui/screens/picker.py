"""A sheet to pick from a list by typing: a line to type into, the choices, and the keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.binding import BindingType
from textual.widget import Widget

from tracetui.tui.bindings import bind
from tracetui.tui.footer import Hints
from tracetui.tui.prompt import Prompt
from tracetui.tui.screens.sheet import ListSheet, Rows
from tracetui.tui.tables.view import TableView
from tracetui.views.model import Column, Table

HINTS = (("Esc", "close", "leave"), ("Enter", "run", "choose"), ("↑↓", "choose", ""))


class Choice(NamedTuple):
    """A line of the list, in plain, safe text."""

    text: str
    keys: str = ""
    """The keys that do the same."""
    about: str = ""


def fitting(choices: Sequence[Choice], typed: str) -> list[int]:
    """The choices that match what was typed, the best first; equally good ones keep their order.

    First come the choices that contain every typed word: texts that begin with what was typed, then texts
    with a word that begins with the first typed word, then texts that contain it, then the others. After
    these come choices whose words begin with pieces of what was typed (`zoin`: zoom in).
    """
    wanted = typed.casefold().split()
    if not wanted:
        return list(range(len(choices)))
    found = []
    for n, choice in enumerate(choices):
        text = choice.text.casefold()
        every = f"{text} {choice.about.casefold()} {choice.keys.casefold()}"
        if all(word in every for word in wanted):
            first = wanted[0]
            begins = any(part.startswith(first) for part in text.split())
            rank = 0 if text.startswith(" ".join(wanted)) else 1 if begins else 2 if first in text else 3
        elif _begin("".join(wanted), text.split()):
            rank = 4
        else:
            continue
        found.append((rank, n))
    return [n for _, n in sorted(found)]


def _begin(letters: str, words: Sequence[str]) -> bool:
    """Whether the letters can be split into beginnings of some of the words, in order."""
    covered = {0}  # the numbers of letters that the words so far can cover
    for word in words:
        sizes = range(1, len(word) + 1)
        covered |= {i + n for i in covered for n in sizes if letters.startswith(word[:n], i)}
    return len(letters) in covered


class PickList(Rows, can_focus=False):
    """The choices. The line above keeps the focus, and one click chooses."""

    DEFAULT_CSS = """
    PickList:blur > .drawn--cursor {
        background: $block-cursor-background; color: $block-cursor-foreground;
    }
    """

    def on_click(self, event: events.Click) -> None:
        event.prevent_default()  # otherwise Textual also calls the table's method
        super().on_click(event)
        if self.top + event.y < len(self.order) and event.chain == 1:
            self.action_choose()


class Picker(ListSheet[int]):
    """Lets the user pick a choice; the result is its number."""

    SHARE = 0.4
    NOTHING: ClassVar[str] = "no matching command"
    """Shown if no choice fits what was typed."""
    BINDINGS: ClassVar[list[BindingType]] = bind("shift+tab move(-1)  tab move(1)", priority=True)

    def __init__(
        self, title: str, placeholder: str, choices: Sequence[Choice], chosen: int = 0, hints: Hints = HINTS
    ) -> None:
        super().__init__(title, hints)
        self.choices = choices
        self.shown = list(range(len(choices)))
        self.prompt = Prompt(">", placeholder=placeholder)
        self.list = PickList()
        self._first = chosen

    def body(self) -> Iterator[Widget]:
        yield self.prompt
        yield self.list

    def on_mount(self) -> None:
        self._fill()
        self.list.show_row(self._first)

    def _fill(self) -> None:
        choices, shown = self.choices, self.shown

        def column(part: int, width: int) -> Column:
            texts = [c[part] for c in choices]
            return Column(str(part), "", lambda r: texts[shown[r]], None, width, False)

        text, keys, about = (max((len(c[part]) for c in choices), default=0) for part in range(3))
        room = self.size.width - 4  # without the cursor's mark and the scroll bar
        columns = [column(0, max(1, min(text + 1, room - (keys + 2 if keys else 0))))]
        if keys:
            columns.append(column(1, keys + 1))
        if room >= text + keys + min(about, 16) + 4:  # otherwise it would be cut off
            columns.append(column(2, 0))
        self.list.set_table(Table(tuple(columns), len(shown), empty=self.NOTHING))

    @property
    def choice(self) -> int:
        """The number of the choice under the cursor; -1 if nothing matches."""
        row = self.list.row
        return -1 if row is None else self.shown[row]

    def on_resize(self) -> None:
        self.fit(len(self.choices) + 1)
        at = self.list.row
        self._fill()
        if at is not None:
            self.list.show_row(at)

    def on_prompt_typed(self, message: Prompt.Typed) -> None:
        self.shown = fitting(self.choices, message.value)
        self._fill()
        self.prompt.set_note(f"{len(self.shown)} of {len(self.choices)}" if message.value.strip() else "")
        self.moved()

    def moved(self) -> None:
        """The cursor moved to another choice."""

    def on_table_view_highlighted(self, message: TableView.Highlighted) -> None:
        self.moved()

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        self.dismiss(self.choice)
