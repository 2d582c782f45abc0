"""The timeline as Textual widgets: `TimelineView` (overview, ruler, lanes) and `SelectionBar`.

The screen makes the session, sets `view.bar = bar` and handles the messages `SelectionChanged`,
`ViewportChanged`, `RangeChanged` and `GapClicked`. `tracetui.timeline` does all the drawing.
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
