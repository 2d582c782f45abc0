"""Where a line of a pane leads to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """What a line leads to. At most one of `event`, `gap`, `span` and `difference` is set, or an event and
    the span to show with it."""

    pane: str = ""
    """The pane that has more of it."""
    event: int | None = None
    """A slice; -1 for a step that has none."""
    gap: int | None = None
    """A gap of the whole trace, by its index in `all_gaps_of`."""
    span: tuple[int, int] | None = None
    """A stretch of the trace's time, ns."""
    said: str = ""
    """A message about it."""
    of: int | None = None
    """The recording of the event or gap; None: the active one."""
    example: bool = False
    """Whether the gap is only an example of something: the next one is then the longest."""
    difference: tuple[int, int] | None = None
    """An explanation of a comparison, and which of its places."""

    @property
    def is_single(self) -> bool:
        """Whether it is about a single event or gap."""
        return self.gap is not None or (self.event is not None and self.event >= 0)
