"""The timeline as Textual widgets: `TimelineView` (overview, ruler, lanes) and `SelectionBar`.

The screen makes the session, sets `view.bar = bar` and handles the messages `SelectionChanged`,
`ViewportChanged`, `RangeChanged` and `GapClicked`. `tracetui.timeline` does all the drawing.
"""
