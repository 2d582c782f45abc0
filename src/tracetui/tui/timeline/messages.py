"""What the timeline tells the screen around it, and the small things that are handed to it."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from tracetui.timeline.scene import Event
from tracetui.timeline.viewport import Viewport


@dataclass(frozen=True, slots=True)
class GapId:
    """Gap `index` of a device's gaps."""

    device: int
    index: int


class SelectionChanged(Message):
    """Another event is selected (None: none is)."""

    def __init__(self, event: Event | None) -> None:
        self.event = event
        super().__init__()


class ViewportChanged(Message):
    """The stretch of time on the screen changed. Sent at most once per frame."""

    def __init__(self, viewport: Viewport) -> None:
        self.viewport = viewport
        super().__init__()


class RangeChanged(Message):
    """The selected range (nanoseconds) changed; None: there is none any more."""

    def __init__(self, range_ns: tuple[int, int] | None) -> None:
        self.range_ns = range_ns
        super().__init__()


class GapClicked(Message):
    """A gap on a lane of a device of recording `of` was clicked."""

    def __init__(self, gap: GapId, of: int = 0) -> None:
        self.gap, self.of = gap, of
        super().__init__()
