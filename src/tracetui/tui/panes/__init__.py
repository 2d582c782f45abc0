"""The panes: tables beside the timeline, each with a key. A new one is a module and a line here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


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


PANES = (
    PaneSpec("overview", "overview:OverviewPane", "overview: verdict, time, findings"),
    PaneSpec("details", "details:DetailsPane", "details of the selected event"),
    PaneSpec("ops", "averages:OpsPane", "averages of ops and runtime calls"),
    PaneSpec("kernels", "averages:KernelsPane", "averages of kernels and copies"),
    PaneSpec("annotations", "averages:AnnotationsPane", "averages of annotations"),
    PaneSpec("gaps", "gaps:GapsPane", "gaps, longest first"),
    PaneSpec("steps", "steps:StepsPane", "steps"),
    PaneSpec("findings", "findings:FindingsPane", "findings"),
    PaneSpec("efficiency", "efficiency:EfficiencyPane", "share of peak, by kernel and op"),
)
"""The panes about one recording; `tui/layouts.py` has those about several."""

NUMBERS = sum(not pane.letter for pane in PANES)
"""The number keys go from 1 to this."""


def keyed(panes: Sequence[PaneSpec]) -> tuple[tuple[str, PaneSpec], ...]:
    """The panes with their keys."""
    return tuple((pane.letter or str(n), pane) for n, pane in enumerate(panes, 1))
