"""The timeline as Textual widgets: `TimelineView` (overview, ruler, lanes) and `SelectionBar`.

The screen around it composes both, hands `view.bar = bar` over, calls the view's methods and listens to its
messages: `SelectionChanged`, `ViewportChanged`, `RangeChanged`, `GapClicked`, `LanesArranged`. All
drawing is done by `tracetui.timeline`.
"""

from tracetui.tui.timeline.bar import SelectionBar
from tracetui.tui.timeline.messages import (
    Flag,
    GapClicked,
    GapId,
    Gaps,
    LanesArranged,
    RangeChanged,
    SelectionChanged,
    ViewportChanged,
)
from tracetui.tui.timeline.view import TimelineView

__all__ = [
    "Flag",
    "GapClicked",
    "GapId",
    "Gaps",
    "LanesArranged",
    "RangeChanged",
    "SelectionBar",
    "SelectionChanged",
    "TimelineView",
    "ViewportChanged",
]
