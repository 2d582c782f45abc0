"""Setting marks on a recording, and walking from one to the next."""

from __future__ import annotations

from tracetui.session.marks import Mark, Marks, event_of, mark_on, next_mark, told
from tracetui.session.walk import Walk
from tracetui.units import instant, plural


class MarkWalk:
    """The marks of one recording, drawn in its walk."""

    def __init__(self, walk: Walk) -> None:
        self._walk = walk
        self._visited: Mark | None = None

    @property
    def marks(self) -> Marks:
        """The marks as they are kept."""
        return self._walk.recording.marks

    def draw(self) -> None:
        """Draw the marks of all recordings as they are now."""
        offsets = (source.offset for source in self._walk.scene.sources)
        both = zip(self._walk.recordings, offsets, strict=True)
        drawn = [(m.time + offset, m.label) for recording, offset in both for m in recording.marks.here]
        self._walk.change(marks=tuple(sorted(drawn, key=lambda mark: mark[0])))

    def restore(self) -> str:
        """Draw the marks that were kept. Returns what to say of them, "" for nothing."""
        marks = self.marks
        if marks.here:
            self.draw()
        if not marks.whole:
            return "not all marks of this trace can be read; their file will be put aside"
        earlier = len(marks.all) - len(marks.here)
        return f"{plural(earlier, 'mark')} of an earlier trace at this path: l lists them" if earlier else ""

    def here(self) -> Mark:
        """The mark at the selected event's start (without one: in the middle of the screen), or a new one."""
        made = mark_on(self._walk.recording.trace, self._walk.selected, self._walk.middle - self._walk.offset)
        there = self.marks.at(made.time)
        if there is None:
            return made
        return there if there.name else made._replace(label=there.label, note=there.note)

    def put(self, mark: Mark) -> str:
        """Set or change a mark; one without label and note takes it away. Returns what came of it."""
        self.marks.put(mark)
        self.draw()
        there = self.marks.at(mark.time)
        done = "marked" if there is not None else "no mark"
        if there is not None and not mark.label:
            done = "its note keeps the mark; l, then d removes it:"
        trouble = f"; {self.marks.trouble}" if self.marks.trouble else ""
        return f"{done} at {instant(mark.time)}{trouble}"

    def next(self) -> Mark | None:
        """The next mark after the middle of the screen, around the end; None where there is none."""
        view, offset = self._walk.view, self._walk.offset
        low, high = (time - offset for time in self._walk.scene.span)
        seen = [m for m in self.marks.here if low <= m.time <= high]
        time = (view.start_ns + view.end_ns) / 2 - offset
        if self._visited is not None and abs(time - self._visited.time) <= view.cell:
            time = self._visited.time  # the last one is still in the middle: the next may share its cell
        return next_mark(seen, time)

    def go_to(self, mark: Mark) -> str:
        """Put a mark into the middle and select the event that it is on. Returns what it says."""
        self._visited = mark
        self._walk.centre_on(mark.time + self._walk.offset)
        event = event_of(self._walk.recording.trace, mark)
        if event is not None:
            self._walk.select(event, reveal=False)
            self._walk.reveal(event, closer=False)
        return told(mark)
