"""The panes about two recordings: what differs and why, and the averages of both side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar

from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.part import Scope
from tracetui.compare.model import Comparison
from tracetui.session.session import Session
from tracetui.timeline.scene import Event
from tracetui.trace.model import DEVICE_WORK, Kind
from tracetui.tui.panes.base import Follow
from tracetui.tui.panes.overview import DocumentPane
from tracetui.tui.panes.scoped import ScopedPane
from tracetui.views.compare import Number, numbers
from tracetui.views.compare_averages import JoinedAverages, averages_table, joined_averages
from tracetui.views.compare_overview import compare_overview, spreads_text
from tracetui.views.parts import evidence
from tracetui.views.target import Target

COMPARING = "comparing A and B …"


class OfBoth(ScopedPane):
    """A pane about both recordings, whatever the scope."""

    def __init__(self, session: Session, key: str) -> None:
        super().__init__(session, key)
        self.of = 0
        self.waiting = COMPARING

    def whose(self) -> str:
        return ""

    def set_scope(self, scope: Scope | None) -> None:
        """Ignore the scope: the compared steps stay the same."""


class ComparePane(DocumentPane, OfBoth):  # in this order: Textual takes styles from the first
    """The answer, what explains it, and the numbers. Enter goes to an explanation's events, Enter again to
    the next of them."""

    def compute(self) -> Iterator[Callable[[], None]]:
        comparison = self.session.comparing.comparison
        if comparison is not None:
            yield partial(self.show_overview, compare_overview(comparison), "")

    def show_difference(self, which: int) -> None:
        """Put the cursor on a difference."""
        if self.overview is not None and which < len(self.session.comparing.differences):
            self._go(which)

    def target_of(self, row: int, again: int = 0) -> Target | None:
        comparison = self.session.comparing.comparison
        if comparison is None:
            return None
        if row < len(comparison.explanations):
            return Target(difference=(row, again))
        if self.entries[row].target.pane:
            return super().target_of(row)
        number = self._number(comparison, row)
        if number is not None and number.idle:
            return self._to_gap(self.entries[row].name, again)
        said = spreads_text(number) if number is not None else ""
        return Target(said=said or "this line leads to no event")

    def _number(self, comparison: Comparison, at: int) -> Number | None:
        name = self.entries[at].name
        return next((r for r in numbers(comparison) if r.title.removeprefix("idle: ") == name), None)

    def explain(self) -> bool:
        """Open a sheet about the line under the cursor. False if there is nothing to say about it."""
        from tracetui.tui.screens.explain import DifferenceScreen
        from tracetui.views.difference import explanation_facts, number_facts

        comparison, at, navigator = self.session.comparing.comparison, self.row, self.session.navigator
        if comparison is None or at is None:
            return False
        if at < len(comparison.explanations):
            one = comparison.explanations[at]
            sheet = DifferenceScreen(
                f"Explain: difference {at + 1}", explanation_facts(comparison, one), navigator
            )
        elif (number := self._number(comparison, at)) is not None:
            sheet = DifferenceScreen(f"Explain: {number.title}", number_facts(number), navigator)
        else:
            return False

        def show(place: int | None) -> None:
            if place is not None:
                self.post_message(Follow(Target(difference=(at, place))))

        self.app.push_screen(sheet, show)
        return True

    def _to_gap(self, cause: str, again: int) -> Target:
        """The request to go to the longest gap of a cause: in A, and with the next Enter in B."""
        recordings = self.session.navigator.recordings
        if not all(recording.whole.knows(causes_of) for recording in recordings):
            return Target(said="still looking for the causes of gaps")
        gaps = [evidence(recording.whole, cause).gap for recording in recordings]
        known = [(of, gap) for of, gap in enumerate(gaps) if gap is not None]
        if not known:
            return Target(said="no gap has this as a cause")
        of, gap = known[again % len(known)]
        more = f"; Enter again: in {'BA'[of]}" if len(known) > 1 else ""
        return Target(gap=gap, of=of, said=f"the longest such gap in {'AB'[of]}{more}")


class BothPane(OfBoth):
    """Every name of A and B side by side. Enter goes to its first event in A, Enter again to the one in B."""

    parts: ClassVar[tuple[str, ...]] = ("all", "ops", "kernels", "annotations")

    def __init__(self, session: Session, key: str) -> None:
        super().__init__(session, key)
        self.part = "all"
        self.joined: JoinedAverages | None = None
        self._rows: dict[tuple[str, bool, bool], int] = {}
        self._event: int | None = None

    def compute(self) -> Iterator[Callable[[], None]]:
        comparison = self.session.comparing.comparison
        if comparison is not None:
            joined = self.joined or joined_averages(comparison)
            yield partial(self.show_averages, joined)

    def _color(self, name: str) -> str | None:
        """The color of a name in the timeline."""
        for source in self.session.navigator.scene.sources:
            at = source.index_of(name)
            if at >= 0:
                color = source.palette.color_of(at)
                return f"color({color})" if 0 <= color < 256 else None
        return None

    def show_averages(self, joined: JoinedAverages) -> None:
        comparison = self.session.comparing.comparison
        assert comparison is not None
        self.joined = joined
        keys = zip(joined.names, joined.device.tolist(), joined.annotation.tolist(), strict=True)
        self._rows = {key: row for row, key in enumerate(keys)}
        self.set_table(averages_table(comparison, joined, self.part, self._color))
        per = "mean per step" if comparison.per_step else "whole recordings"
        said = f"{self.part}, {per}"
        self.set_note(f"{said}; b: another part", first=said)
        self.follow(self._event)

    def next_group(self) -> str:
        self.part = self.parts[(self.parts.index(self.part) + 1) % len(self.parts)]
        if self.joined is not None:
            self.show_averages(self.joined)
        return f"averages of {self.part}"

    def follow(self, event: int | None) -> None:
        self._event = event
        if event is None or self.joined is None:
            return
        trace, kind = self.session.navigator.trace, Kind(int(self.session.navigator.trace.kind[event]))
        device = kind in DEVICE_WORK or kind in (Kind.GPU_ANNOTATION, Kind.SYNC)
        annotation = kind in (Kind.ANNOTATION, Kind.GPU_ANNOTATION)
        row = self._rows.get((trace.name_of(event), device, annotation))
        if row is not None:
            self.show_row(row)

    def target_of(self, row: int, again: int = 0) -> Target | None:
        if self.joined is None:
            return None
        firsts = [int(side[row]) for side in (self.joined.first_a, self.joined.first_b)]
        events = [Event(of, at) for of, at in enumerate(firsts) if at >= 0]
        at = events[again % len(events)]
        letter = "AB"[at.source]
        more = f"; Enter again: in {'AB'[1 - at.source]}" if len(events) > 1 else f"; only {letter} has it"
        return Target(event=at.slice, of=at.source, said=f"the first in {letter}{more}")
