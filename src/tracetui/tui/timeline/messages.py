"""The messages from the timeline to its screen."""

from __future__ import annotations

from msgspec import Struct
from textual.message import Message

from tracetui.timeline.scene import Event
from tracetui.timeline.viewport import Viewport


class GapId(Struct, frozen=True):
    """Gap `index` of a device's gaps."""

    device: int
    index: int


class SelectionChanged(Message):
    """Another event was selected; None: the selection was cleared."""

    def __init__(self, event: Event | None) -> None:
        self.event = event
        super().__init__()


class ViewportChanged(Message):
    """The visible time range changed. Sent at most once per frame."""

    def __init__(self, viewport: Viewport) -> None:
        self.viewport = viewport
        super().__init__()


class RangeChanged(Message):
    """The selected range (ns) changed; None: it was cleared."""

    def __init__(self, range_ns: tuple[int, int] | None) -> None:
        self.range_ns = range_ns
        super().__init__()


class GapClicked(Message):
    """A gap on a device lane of recording `of` was clicked."""

    def __init__(self, gap: GapId, of: int = 0) -> None:
        self.gap, self.of = gap, of
        super().__init__()
