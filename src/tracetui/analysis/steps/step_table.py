"""The steps of a trace, by time."""

from __future__ import annotations

from msgspec import Struct

from tracetui.analysis.part import Scope
from tracetui.core.copying import replace
from tracetui.trace.model import I64, Bool


class StepTable(Struct, frozen=True):
    """The steps of a trace, by time. Arrays of one length."""

    event: I64
    """A slice of each step: its annotation, the optimizer's that ends it, or its first launch or op."""
    number: I64
    """N of `ProfilerStep#N`, or of another annotation that counts up; else the position."""
    start: I64
    end: I64
    name: str
    """`ProfilerStep`, or the annotation that was chosen or found."""
    source: str = ""
    """Where the steps come from: "annotations A and B" (see `interleaved`), "ProfilerStep" (in a file of
    several ranks "ProfilerStep of RANK"), "Optimizer.step", "annotation NAME" (chosen or found), or "repeats"
    (see `step_sources`); "" if there are none. Safe to show."""
    unrecorded: int = 0
    """How many steps before or after these have no recorded device work."""
    others: tuple[tuple[int, int, int], ...] = ()
    """(number, start, end) of those."""

    @property
    def annotated(self) -> bool:
        """Whether each step is exactly as long as its slice `event`."""
        return self.source.startswith(("ProfilerStep", "annotation "))

    @property
    def base(self) -> str:
        """What shares of all the steps are shares of, for sentences."""
        return "of the step" if len(self) == 1 else "of the steps"

    def __len__(self) -> int:
        return len(self.event)

    def only(self, keep: Bool) -> StepTable:
        """The steps in a mask."""
        if keep.all():
            return self
        return replace(
            self, **{name: getattr(self, name)[keep] for name in ("event", "number", "start", "end")}
        )

    def scope(self, i: int) -> Scope:
        """The scope of the i-th step."""
        return Scope("step", int(self.start[i]), int(self.end[i]), f"step {self.number[i]}", True, i)
