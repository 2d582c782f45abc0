"""How the screen looks for each `session.layout`: top line, panes, hints and keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tracetui.timeline.scene import Scene
from tracetui.tui.bindings import HINTS
from tracetui.tui.controllers.compare import PairKeys
from tracetui.tui.controllers.single import JobKeys, SingleKeys
from tracetui.tui.footer import Hints
from tracetui.tui.panes import PAIR_PANES, PaneSpec
from tracetui.tui.topline import TopLine, top_of_job, top_of_pair, top_of_single

Keys = SingleKeys | PairKeys | JobKeys


class ScreenLayout(NamedTuple):
    """One layout on the screen. What another layout shows or does, and this one does not, is not here."""

    top: Callable[[Scene], TopLine]
    """The first line, before anything is analyzed."""
    keys: type[Keys]
    """The controller of the keys that differ between layouts. Its `begin` starts the first analysis."""
    hints: Hints
    nothing: str
    """What to do while nothing is selected."""
    absent: str
    """What keys say that only other layouts have."""
    only: str
    """What the key for the next trace says if there is none."""
    panes: tuple[PaneSpec, ...] = ()
    """The panes about all recordings: they come first, and the first of them is open."""

    def lacks(self, screen: object) -> set[str]:
        """The `action_` methods of other layouts that a screen of this one has not got."""
        names = {name for layout in LAYOUTS.values() for name in dir(layout.keys)}
        return {name for name in names if name.startswith("action_") and not hasattr(screen, name)}


PAIR_HINTS = (
    ("wasd", "move", ""),
    ("←→↑↓", "select", ""),
    ("?", "help", "help"),
    ("q", "quit", "quit"),
    (")", "next difference", "difference_next"),
    ("=", "partner", "partner"),
    ("&", "align", "align"),
    ("C", "what differs", "compare"),
    ("P", "averages", "compare_averages"),
    ("Q", "only B", "compare_end"),
    ("/", "search", "search"),
    ("g", "gap", "gap_next"),
    ("f", "fit", "centre"),
    ("0", "all", "fit"),
    ("[ ]", "flow", "flow_next"),
    ("e", "explain", "explain"),
    ("Tab", "table", "focus"),
)
CLICK = "click an event, or press an arrow key"
LAYOUTS = {
    "single": ScreenLayout(
        top_of_single,
        SingleKeys,
        HINTS,
        CLICK,
        "only one trace is open: C compares it with another",
        "this is the only open trace: Ctrl+O opens another",
    ),
    "pair": ScreenLayout(
        top_of_pair,
        PairKeys,
        PAIR_HINTS,
        "- only A has it, + only B has it; ) next difference",
        "two traces are compared",
        "both open traces are on the screen",
        PAIR_PANES,
    ),
    "job": ScreenLayout(
        top_of_job,
        JobKeys,
        tuple(hint for hint in HINTS if hint[2] != "compare"),
        CLICK,
        "these are the ranks of a job: that key is for two traces that are compared",
        "all open traces are on the screen",
    ),
}
"""By the name of the session's layout."""
