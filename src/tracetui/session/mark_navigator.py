"""Setting marks on a recording, and stepping from one to the next."""

from __future__ import annotations

from tracetui.core.units import instant, plural
from tracetui.session.marks import Mark, Marks, event_of, mark_on, next_mark, one_line
from tracetui.session.navigator import Navigator


class MarkNavigator:
    """Draws and visits the marks; new ones go to the active recording."""

    def __init__(self, navigator: Navigator) -> None:
        self._navigator = navigator
        self._visited: Mark | None = None

    @property
    def marks(self) -> Marks:
        """The marks of the active recording."""
        return self._navigator.recording.marks

    def draw(self) -> None:
        """Draw the current marks of all recordings."""
        offsets = (source.offset for source in self._navigator.scene.sources)
        both = zip(self._navigator.recordings, offsets, strict=True)
        drawn = [(m.time + offset, m.label) for recording, offset in both for m in recording.marks.here]
        self._navigator.change(marks=tuple(sorted(drawn, key=lambda mark: mark[0])))

    def restore(self) -> str:
        """Draw the saved marks. Returns a message, "" for none."""
        marks = self.marks
        if any(recording.marks.here for recording in self._navigator.recordings):
            self.draw()
        if not marks.whole:
            return "some marks of this trace cannot be read; their file will be set aside"
        earlier = len(marks.all) - len(marks.here)
        return f"{plural(earlier, 'mark')} of an earlier trace at this path: l lists them" if earlier else ""

    def here(self) -> Mark:
        """The mark at the start of the selected event (else at the middle of the screen), or a new one."""
        new = mark_on(
            self._navigator.recording.trace,
            self._navigator.selected,
            self._navigator.middle - self._navigator.offset,
        )
        there = self.marks.at(new.time)
        if there is None:
            return new
        return there if there.name else new._replace(label=there.label, note=there.note)

    def put(self, mark: Mark) -> str:
        """Add or change a mark; one without label and note removes it. Returns a message."""
        self.marks.put(mark)
        self.draw()
        there = self.marks.at(mark.time)
        done = "marked" if there is not None else "no mark"
        if there is not None and not mark.label:
            done = "l, then d removes the mark with a note"
        trouble = f"; {self.marks.trouble}" if self.marks.trouble else ""
        return f"{done} at {instant(mark.time)}{trouble}"

    def next(self) -> Mark | None:
        """The next mark after the middle of the screen, wrapping around; None if there is none."""
        view, offset = self._navigator.view, self._navigator.offset
        low, high = (time - offset for time in self._navigator.scene.span)
        seen = [m for m in self.marks.here if low <= m.time <= high]
        time = (view.start_ns + view.end_ns) / 2 - offset
        if self._visited is not None and abs(time - self._visited.time) <= view.cell:
            time = self._visited.time  # the last one is still in the middle, and the next may share its cell
        return next_mark(seen, time)

    def go_to(self, mark: Mark) -> str:
        """Center a mark and select its event. Returns its text."""
        self._visited = mark
        self._navigator.center_on(mark.time + self._navigator.offset)
        event = event_of(self._navigator.recording.trace, mark)
        if event is not None:
            self._navigator.select(event, reveal=False)
            self._navigator.reveal(event, closer=False)
        return one_line(mark)
