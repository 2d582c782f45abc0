"""The command palette: every action in the table of bindings, the findings, the words of the glossary, the
themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from textual.app import App
from textual.screen import Screen

from tracetui.core.cells import fit
from tracetui.core.units import capital
from tracetui.tui.bindings import ACTIONS, Action, groups, key_text
from tracetui.tui.screens.help import HelpScreen
from tracetui.tui.screens.picker import Choice, Picker
from tracetui.tui.themes import ABOUT

if TYPE_CHECKING:
    from tracetui.tui.screens.trace import TraceScreen

WIDEST = 48
"""Cells of a finding's title: longer ones would push the keys aside."""


class Command(NamedTuple):
    """A line of the palette, and the function to call."""

    choice: Choice
    run: Callable[[], Any]


def commands(app: App[Any], screen: Screen[Any], actions: Sequence[Action] = ACTIONS) -> list[Command]:
    """The commands that make sense on a screen, in the order of the help."""
    from tracetui.tui.screens.start import StartScreen
    from tracetui.tui.screens.trace import TraceScreen

    found = []
    if isinstance(screen, TraceScreen):
        for action in chain.from_iterable(groups(actions).values()):
            if action.id not in ("palette", "quit"):  # this list itself; quit comes after the themes
                keys = " ".join(key_text(k) for k in action.keys)
                run = partial(screen.run_action, action.action)
                found.append(Command(Choice(capital(action.text), keys, action.group), run))
    elif isinstance(screen, StartScreen):
        found.append(Command(Choice("Open a trace", "o", "Files"), screen.action_open_file))
        found.append(Command(Choice("Capture", "c", "Files"), partial(app.run_action, "capture")))
        record = Choice("Attach: record a running job", "A", "Files")
        found.append(Command(record, partial(app.run_action, "attach")))
    found.append(Command(Choice("Theme: change colors", "", "The app"), app.action_change_theme))
    found.append(Command(Choice("Quit", "q", "The app"), app.action_quit))
    if isinstance(screen, TraceScreen):
        found += _in_trace(screen)
    return found


def _in_trace(screen: TraceScreen) -> Iterator[Command]:
    """To the findings, as far as they are known, and to what the words mean."""
    from tracetui.rules import find_findings
    from tracetui.views.glossary_terms import TERMS
    from tracetui.views.target import Target

    part = screen.session.active.whole
    for finding in find_findings(part) if part.knows(find_findings) else ():
        target = Target("findings", event=finding.evidence[0], said=finding.title)
        yield Command(Choice(fit(finding.title, WIDEST), "", "Finding"), partial(screen.panes.follow, target))
    for term in TERMS:
        run = partial(screen.navigation.action_glossary, (term,))
        yield Command(Choice(term.name, "", "What it means"), run)


class Palette(Picker):
    """The commands of the screen below."""

    def __init__(self, found: Sequence[Command]) -> None:
        super().__init__(
            "Commands",
            "a word of a command, a finding or a term: gap, data, export",
            [c.choice for c in found],
        )


def open_palette(app: App[Any], actions: Sequence[Action]) -> None:
    """Show the commands of the current screen. The help closes first, since its keys are those of the
    trace."""
    if any(isinstance(screen, Palette) for screen in app.screen_stack):
        return
    if isinstance(app.screen, HelpScreen):
        app.screen.dismiss()
    found = commands(app, app.screen, actions)
    app.push_screen(Palette(found), lambda n: None if n is None else found[n].run())


THEME_HINTS = (("Esc", "cancel", "leave"), ("Enter", "keep", "choose"), ("↑↓", "look", ""))


class ThemePalette(Picker):
    """The themes. The screen below previews the one under the cursor; Esc restores the old one."""

    NOTHING = "no matching theme"

    def __init__(self, names: Sequence[str], now: str) -> None:
        choices = [Choice(name, "", ABOUT.get(name, "")) for name in names]
        at = names.index(now) if now in names else 0
        super().__init__("Theme", "", choices, at, THEME_HINTS)
        self.before = now

    def moved(self) -> None:
        if self.choice >= 0:
            self.app.theme = self.choices[self.choice].text

    def action_leave(self) -> None:
        self.app.theme = self.before
        super().action_leave()
