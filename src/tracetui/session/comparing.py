"""Compares two recordings: the partner of the selection, stepping through the differences, and aligning both
on the axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tracetui.core.copying import replace
from tracetui.core.units import duration
from tracetui.session.compared import Compared, Place, compared
from tracetui.session.layout import PAIR_LETTERS
from tracetui.session.mark_navigator import MarkNavigator
from tracetui.session.navigator import Navigator
from tracetui.session.search import Search
from tracetui.timeline import moves, viewport
from tracetui.timeline.links import ALONE
from tracetui.timeline.scene import Event

if TYPE_CHECKING:
    from tracetui.compare.model import Comparison, Explanation

NEAR = 4096
"""How many slices of a lane are looked at together."""


class Comparing:
    """The comparison of a pair, and the current place in it. Until there is one, nothing has a partner."""

    def __init__(self, navigator: Navigator, search: Search, marks: MarkNavigator) -> None:
        self._navigator, self._search, self._marks = navigator, search, marks
        self._found: Compared | None = None
        self.at: int | None = None
        """The difference that was visited last."""
        self._nth = 0
        """Which of its places."""
        self._there: Event | None = None
        """The event that was selected then."""

    @property
    def comparison(self) -> Comparison | None:
        """None until it is known."""
        return self._found.comparison if self._found is not None else None

    def compute(self) -> Compared:
        """Compare the two. Slow: call it in a thread."""
        from tracetui.compare.compare import compare, compare_in_turn

        a, b = self._navigator.recordings
        one = a.trace is b.trace  # in which they took turns
        return compared(compare_in_turn(a.whole) if one else compare(a.whole, b.whole))

    def use(self, found: Compared) -> None:
        """Link the events of both and align them at the first matched steps. Show those, unless the user has
        moved."""
        navigator, moved = self._navigator, self._navigator.moved
        self._found, navigator.after_select = found, self._follow
        sources = zip(navigator.scene.sources, found.links, strict=True)
        navigator.scene = replace(
            navigator.scene, sources=tuple(replace(s, links=links) for s, links in sources)
        )
        self._align(found.first)
        if not moved:
            start = found.first[0]
            end = max(high - low for low, high in zip(found.first, found.ends, strict=True)) + start
            view = viewport.fit(start, max(end, start + 1), navigator.view.width, margin=0.02)
            navigator.moved = True
            navigator.scene = moves.look(navigator.scene, view)
        # The selection has a partner now.
        navigator.show_scene(moves.chosen(navigator.scene, navigator.scene.selected))

    # Aligning

    def _align(self, times: Place) -> None:
        """Shift B so that two moments, one in ns of each trace, coincide on the axis. The selection keeps its
        place on the screen."""
        scene, a = self._navigator.scene, self._navigator.scene.sources[0]
        before = scene.sources[1].offset
        offset = times[0] + a.offset - times[1]
        self._shift(offset)
        if scene.selected >= 0 and scene.active == 1:
            view = self._navigator.view
            moved = replace(view, start=view.start + offset - before)
            self._navigator.scene = moves.look(self._navigator.scene, moved)

    def _shift(self, offset: int) -> None:
        navigator = self._navigator
        scene = navigator.scene.having(1, offset=offset)
        lows, highs = zip(*(source.span for source in scene.sources), strict=True)
        navigator.scene = replace(scene, span=(min(lows), max(highs)))
        self._marks.draw()

    def align(self) -> str:
        """Align both at the selection and its partner. If the selection has no partner, use the nearest
        earlier event that has one; without a selection, the first matched steps. Returns a message."""
        if self._found is None:
            return NOT_YET
        event, scene = self._navigator.scene.event, self._navigator.scene
        if event is None:
            self._align(self._found.first)
            self._search.moved()
            self._navigator.go(moves.look(self._navigator.scene, self._navigator.view))
            return "aligned at the first step that both have"
        pair = self._pair(event) or self._anchor(event)
        if pair is None:
            return "nothing here matches in A and B: select another event"
        self._align_at(pair)
        self._navigator.show_scene(self._navigator.scene)
        source = scene.sources[0]
        same = event.slice == pair[event.source]
        from tracetui.analysis.names.short_names import short_of

        what = f"aligned at {short_of(source.trace, pair[0])}"
        return what if same else f"only {PAIR_LETTERS[event.source]} has this: {what}, before it"

    def _align_at(self, pair: Place, walking: bool = False) -> None:
        """Align two slices. `walking`: going from event to event, so the search's matches keep their
        order."""
        a, b = (int(s.trace.start[at]) for s, at in zip(self._navigator.scene.sources, pair, strict=True))
        self._align((a, b))
        if not walking:
            self._search.moved()

    def _pair(self, event: Event) -> Place | None:
        partner = self.partner_of(event)
        if partner is None:
            return None
        return (event.slice, partner) if event.source == 0 else (partner, event.slice)

    def _anchor(self, event: Event) -> Place | None:
        """The nearest matched events before an event on its lane or, if there are none, after it."""
        assert self._found is not None
        trace, partner = (
            self._navigator.scene.sources[event.source].trace,
            self._found.links[event.source].partner,
        )
        lane = trace.lanes[int(trace.lane[event.slice])]
        high = event.slice
        while high > lane.first:
            low = max(lane.first, high - NEAR)
            found = np.flatnonzero(partner[low:high] >= 0)
            if len(found):
                return self._pair(Event(event.source, low + int(found[-1])))
            high = low
        after = np.flatnonzero(partner[event.slice : lane.last] >= 0)
        return self._pair(Event(event.source, event.slice + int(after[0]))) if len(after) else None

    # The partner

    def partner_of(self, event: Event) -> int | None:
        """The slice of the other recording that is the same work; None if there is none."""
        if self._found is None:
            return None
        partner = int(self._found.links[event.source].partner[event.slice])
        return partner if partner >= 0 else None

    def partner(self) -> tuple[Event | None, str]:
        """The selection's partner in the other recording. Returns (it or None, a message)."""
        event = self._navigator.scene.event
        if self._found is None:
            return None, NOT_YET
        if event is None:
            return None, "select an event first"
        other, partner = 1 - event.source, self.partner_of(event)
        if partner is not None:
            return Event(other, partner), f"the same in {PAIR_LETTERS[other]}"
        if self._found.links[event.source].partner[event.slice] == ALONE:
            return None, f"only {PAIR_LETTERS[event.source]} has this; & aligns both at what comes before it"
        return None, "this is not compared: only ops, runtime calls, kernels and copies of matched steps are"

    def go_to(self, event: Event) -> None:
        """Select an event of either recording."""
        self._navigator.select(event.slice, of=event.source)

    def _follow(self) -> None:
        """Bring the selection's partner into view. If it is off the screen, shift B until the two are
        aligned."""
        navigator, event = self._navigator, self._navigator.scene.event
        partner = self.partner_of(event) if event is not None else None
        if event is None or partner is None:
            return
        source, view = navigator.scene.sources[1 - event.source], navigator.view
        start = source.start(partner)
        if start >= view.end_ns or start + int(source.trace.duration[partner]) < view.start_ns:
            self._align_at((event.slice, partner) if event.source == 0 else (partner, event.slice), True)
        self._rows_shown([Event(1 - event.source, partner), event])

    def _rows_shown(self, events: Sequence[Event]) -> None:
        navigator, scene = self._navigator, self._navigator.scene
        for of, at in events:
            source = scene.sources[of]
            lane, depth = int(source.trace.lane[at]), source.rows.depth(at)
            scene = moves.brought_up(scene, of, lane, depth, navigator.height)
        navigator.go(scene)

    def beside(self) -> tuple[tuple[str, bool], ...]:
        """The selection's partner in numbers, as texts, each with whether it is bright; () if nothing is
        compared."""
        event = self._navigator.scene.event
        if event is None or self._found is None:
            return ()
        from tracetui.core.units import ratio_text, signed

        letter, other = PAIR_LETTERS[event.source], PAIR_LETTERS[1 - event.source]
        partner = self.partner_of(event)
        if partner is None:
            alone = self._found.links[event.source].partner[event.slice] == ALONE
            return (("  only in ", False), (letter, True)) if alone else ()
        sources = self._navigator.scene.sources
        mine = int(sources[event.source].trace.duration[event.slice])
        its = int(sources[1 - event.source].trace.duration[partner])
        a, b = (mine, its) if event.source == 0 else (its, mine)
        told = f"{signed(b - a, duration)}, {ratio_text(b / a)} ×" if a and a != b else "0"
        return (f"  in {other} ", False), (duration(its, 4), True), (f"  B - A = {told}", False)

    # The differences

    @property
    def differences(self) -> Sequence[Explanation]:
        """The explanations of the difference, most important first."""
        return self._found.comparison.explanations if self._found is not None else ()

    def next(self, step: int) -> str:
        """Go to the next (1) or previous (-1) difference; of the only one with a place, to the next place.
        Returns a message."""
        if self._found is None:
            return NOT_YET
        count = len(self.differences)
        if not count:
            return "no difference to go to: both do the same"
        at = self.at if self.at is not None else -1 if step > 0 else count
        # Skip those without a place, such as the machine's, while there are others.
        ways = [(at + step * k) % count for k in range(1, count + 1)]
        which = next((which for which in ways if len(self.differences[which].places)), ways[0])
        return self.show(which, self._nth + step if which == self.at else 0)

    def show(self, which: int, again: int = 0) -> str:
        """Go to a difference: align both there, and select it. `again`: which of its places to go to. Returns
        a message."""
        one = self.differences[which]
        where = one.places
        self.at = which
        number = f"difference {which + 1} of {len(self.differences)}"
        if not len(where):
            self._there = self._navigator.scene.event
            self._navigator.change()
            return f"{number}: not in a single place"
        nth = self._nth = again % len(where)
        a, b = where[nth].tolist()
        events = [Event(of, at) for of, at in enumerate((a, b)) if at >= 0]
        pair = (a, b) if len(events) == 2 else self._pair(events[0]) or self._anchor(events[0])
        if pair is not None:
            self._align_at(pair)
        last = events[-1]
        self._navigator.select(last.slice, of=last.source)
        if len(events) == 2 and self.partner_of(last) is None:
            # They are not partners, but one became the other: highlight both.
            self._navigator.scene = self._navigator.scene.having(1 - last.source, partner=events[0].slice)
        self._rows_shown(events)
        self._there = self._navigator.scene.event
        only = "" if len(events) == 2 else f"; only {PAIR_LETTERS[last.source]} has it"
        more = f"; place {nth + 1} of {len(where):,}" if len(where) > 1 else ""
        return f"{number}{more}{only}" if one.kind != "machine" else number

    def told(self) -> tuple[str, ...]:
        """The difference that was visited last, as long as its event is still selected; otherwise ()."""
        if self.at is None or self._there != self._navigator.scene.event:
            return ()
        return (f"difference {self.at + 1}", self.differences[self.at].text)

    def leave(self) -> None:
        """Forget the difference that was visited last."""
        self.at = self._there = None
        self._navigator.change()


NOT_YET = "still comparing the two"
