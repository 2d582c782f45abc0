"""The panes: tables beside the timeline, each with a key. A view that declares a pane has one: see
`views.registry`. Others have a line here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tracetui.views.registry import OURS, VIEWS


class PaneSpec(NamedTuple):
    """What tabs, keys, help and settings need to know about a pane, without importing it."""

    key: str
    """Its name in settings and tabs."""
    widget: str
    """Where its class is: "module:Class", below this package."""
    text: str
    """What it shows, for the help and the palette."""
    letter: str = ""
    """The key that shows it; "" for a number, by its place in `PANES`. There are nine numbers, because `0`
    fits the trace."""


FREE = "kU"
"""Letters that no other key has."""


def _of_views() -> Iterator[PaneSpec]:
    """The panes of views. Those of other packages get the letters that are free, as far as these go."""
    free = iter(FREE)
    for view in VIEWS.values():
        if view.pane:
            letter = view.letter if view.name in OURS else next(free, None)
            widget = "overview:DocumentPane" if view.is_document else "view:ViewPane"
            if letter is not None:
                yield PaneSpec(view.name, widget, view.pane, letter)


PANES = (
    PaneSpec("overview", "overview:OverviewPane", "overview: verdict, time, findings"),
    PaneSpec("details", "details:DetailsPane", "details of the selected event"),
    PaneSpec("ops", "averages:OpsPane", "averages of ops and runtime calls"),
    PaneSpec("kernels", "averages:KernelsPane", "averages of kernels and copies"),
    PaneSpec("annotations", "averages:AnnotationsPane", "averages of annotations"),
    *_of_views(),
)
"""The panes about one recording; `tui/layouts.py` has those about several."""

NUMBERS = sum(not pane.letter for pane in PANES)
"""The number keys go from 1 to this."""


def keyed(panes: Sequence[PaneSpec]) -> tuple[tuple[str, PaneSpec], ...]:
    """The panes with their keys."""
    return tuple((pane.letter or str(n), pane) for n, pane in enumerate(panes, 1))
