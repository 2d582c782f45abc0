"""How the screen looks for each `session.layout`: top line, panes, hints and keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tracetui.timeline.scene import Scene
from tracetui.tui.bindings import HINTS
from tracetui.tui.controllers.compare import PairKeys
from tracetui.tui.controllers.single import JobKeys, SingleKeys
from tracetui.tui.footer import Hints
from tracetui.tui.panes import PaneSpec
from tracetui.tui.timeline.view import TimelineView
from tracetui.tui.topline import TopLine, top_of_job, top_of_pair, top_of_single

Keys = SingleKeys | PairKeys | JobKeys


class ScreenLayout(NamedTuple):
    """What differs between the screens of one trace, of a pair and of a job."""

    top: Callable[[Scene], TopLine]
    """The first line, before anything is analyzed."""
    keys: type[Keys]
    """The controller of the keys that differ between layouts. Its `begin` starts the first analysis."""
    hints: Hints
    absent: str
    """What keys say that only other layouts have."""
    only: str
    """What the key for the next trace says if there is none."""
    nothing: str = TimelineView.nothing
    """What to do while nothing is selected."""
    panes: tuple[PaneSpec, ...] = ()
    """The panes about all recordings: they come first, and the first of them is open."""

    def lacks(self, screen: object) -> set[str]:
        """The `action_` methods of other layouts that a screen of this one has not got."""
        names = {name for layout in LAYOUTS.values() for name in dir(layout.keys)}
        return {name for name in names if name.startswith("action_") and not hasattr(screen, name)}


def _hints(*actions: str) -> Hints:
    return [hint for action in actions for hint in HINTS if hint[2] == action]


SINGLE = ScreenLayout(
    top=top_of_single,
    keys=SingleKeys,
    hints=HINTS,
    absent="only one trace is open: C compares it with another",
    only="this is the only open trace: Ctrl+O opens another",
)
PAIR = ScreenLayout(
    top=top_of_pair,
    keys=PairKeys,
    hints=(
        *HINTS[:4],
        (")", "next difference", "difference_next"),
        ("=", "partner", "partner"),
        ("&", "align", "align"),
        ("C", "what differs", "compare"),
        ("P", "averages", "compare_averages"),
        ("Q", "only B", "compare_end"),
        *_hints("search", "gap_next", "center", "fit", "flow_next", "explain", "focus"),
    ),
    nothing="- only A has it, + only B has it; ) next difference",
    absent="two traces are compared",
    only="both open traces are on the screen",
    panes=(
        PaneSpec("compare", "compare:ComparePane", "what differs between A and B, and why", "C"),
        PaneSpec("averages", "compare:BothPane", "averages of A and B side by side", "P"),
    ),
)
JOB = ScreenLayout(
    top=top_of_job,
    keys=JobKeys,
    hints=tuple(hint for hint in HINTS if hint[2] != "compare"),
    absent="these are the ranks of a job: that key is for two traces that are compared",
    only="all open traces are on the screen",
)
LAYOUTS = {"single": SINGLE, "pair": PAIR, "job": JOB}
"""By the name of the session's layout."""
