"""What the timeline tells the screen around it, and the small things that are handed to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from textual.message import Message

from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import I64


class Gaps(NamedTuple):
    """The gaps of one device, sorted by start. Arrays of one length, nanoseconds."""

    device: int
    start: I64
    end: I64


@dataclass(frozen=True, slots=True)
class GapId:
    """Gap `index` of a device's `Gaps`."""

    device: int
    index: int


class Flag(NamedTuple):
    """A labelled instant."""

    time_ns: int
    label: str


class SelectionChanged(Message):
    """Another slice of recording `of` is selected (None: none is). Not sent for `select(..., quiet=True)`."""

    def __init__(self, slice_index: int | None, of: int = 0) -> None:
        self.slice_index = slice_index
        self.of = of
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
        self.gap = gap
        self.of = of
        super().__init__()


class LanesArranged(Message):
    """The user folded, hid, pinned or moved lanes. `own`: False where all were put back instead."""

    def __init__(self, own: bool = True) -> None:
        self.own = own
        super().__init__()
