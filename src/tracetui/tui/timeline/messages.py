"""What the timeline tells the screen."""

from __future__ import annotations

from textual.message import Message


class SelectionChanged(Message):
    """Another event was selected, or the selection was cleared."""


class ViewportChanged(Message):
    """The visible time range changed. Sent at most once per frame."""


class RangeChanged(Message):
    """The selected range changed, or was cleared."""


class GapClicked(Message):
    """Gap `index` of a device of recording `of` was clicked."""

    def __init__(self, device: int, index: int, of: int) -> None:
        self.device, self.index, self.of = device, index, of
        super().__init__()
