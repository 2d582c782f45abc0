"""The timeline as Textual widgets: `TimelineView` (overview, ruler, lanes) and `SelectionBar`.

The screen around them makes the walk that is shown, hands `view.bar = bar` over and listens to the messages
`SelectionChanged`, `ViewportChanged`, `RangeChanged` and `GapClicked`. All drawing is done by
`tracetui.timeline`.
"""

from tracetui.tui.timeline.bar import SelectionBar
from tracetui.tui.timeline.messages import GapClicked, GapId, RangeChanged, SelectionChanged, ViewportChanged
from tracetui.tui.timeline.view import TimelineView

__all__ = [
    "GapClicked",
    "GapId",
    "RangeChanged",
    "SelectionBar",
    "SelectionChanged",
    "TimelineView",
    "ViewportChanged",
]
