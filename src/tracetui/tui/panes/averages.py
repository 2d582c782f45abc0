"""The averages pane: PyTorch's table, linked to the timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tracetui.analysis.calls.averages import Averages, averages_of, memory_of, memory_use_of
from tracetui.analysis.calls.calls import calls_of
from tracetui.analysis.calls.groups import ON_SCREEN
from tracetui.analysis.calls.memory import MemoryUse
from tracetui.core.units import duration, plural
from tracetui.session.session import Session
from tracetui.tui.panes.scoped import ScopedPane, scope_texts
from tracetui.views.averages import averages_table, instances
from tracetui.views.target import Target


class AveragesPane(ScopedPane):
    """A part of the averages. Enter jumps to the instance with the largest value of the sorted column, Enter
    again to the next one."""

    groups: tuple[str, ...] = ON_SCREEN
    sort_first = "self_device self_cpu"
    """The columns to sort by at first: the first one that exists."""

    def __init__(self, session: Session, key: str) -> None:
        super().__init__(session, key)
        self.group = "name"
        self.averages: Averages | None = None
        self._event: int | None = None
        self.waiting = "adding up …"

    def _color(self, name: int) -> str | None:
        """The color of a name in the timeline."""
        color = self.session.navigator.scene.sources[self.of].palette.color_of(name)
        return f"color({color})" if 0 <= color < 256 else None

    def compute(self) -> Iterator[Callable[[], None]]:
        group, part = self.group, self.whole.in_scope(self.scope)
        averages = averages_of(part, group)
        by = "" if group == "name" else f"by {group}"
        by += ": none was recorded" if by and not any(averages.groups) else ""
        where, busy = scope_texts(part)
        note = ", ".join(filter(None, (by, busy))), where, by
        if not self.whole.knows(memory_of):  # it has to be read from the file, which may take a while
            yield partial(self.show_averages, averages, note)
        calls_of(part)  # `instances` needs them, when a key is pressed
        memory = memory_use_of(part, group)
        if memory is not None or self.averages is not averages:
            yield partial(self.show_averages, averages, note, memory)

    def show_averages(
        self, averages: Averages, note: tuple[str, str, str], memory: MemoryUse | None = None
    ) -> None:
        """`note`: what the note says about the averages, the part of the trace that they cover, and how they
        are grouped."""
        before = self._row_under_cursor()
        self.averages = averages
        table = averages_table(self.whole.trace, averages, self.key, self._color, memory)
        by = next((key for key in self.sort_first.split() if table.column(key) is not None), None)
        self.set_table(table, by)
        if before is not None:
            same = (r for r, name in enumerate(averages.names) if name == before[0])
            row = next((r for r in same if self._identity(averages, r) == before), None)
            if row is not None:
                self.show_row(row)
        self.set_note(*note)
        self.follow(self._event)

    def _row_under_cursor(self) -> tuple[str, bool, str] | None:
        """The row under the cursor, to find it in a new table; None at the top, where the cursor then
        stays."""
        row = self.row if self.cursor else None
        return self._identity(self.averages, row) if self.averages is not None and row is not None else None

    @staticmethod
    def _identity(averages: Averages, row: int) -> tuple[str, bool, str]:
        return averages.names[row], bool(averages.device[row]), averages.groups[row]

    def next_group(self) -> str:
        self.group = self.groups[(self.groups.index(self.group) + 1) % len(self.groups)]
        self.load()
        return f"{self.key} by {self.group}"

    def follow(self, event: int | None) -> None:
        self._event = event
        if event is not None and self.averages is not None:
            row = int(self.averages.row_of[event])
            if row >= 0:
                self.show_row(row)

    def about(self) -> Target | None:
        """The first instance of the row under the cursor, or the selection if that is one of its
        instances."""
        if self.averages is None or self.row is None:
            return None
        found, *_ = instances(self.whole, self.averages, self.row, self.sort)
        selected = self.session.navigator.selected
        return Target(event=selected) if selected is not None and selected in found else super().about()

    def target_of(self, row: int, again: int = 0) -> Target | None:
        if self.averages is None:
            return None
        found, times, what = instances(self.whole, self.averages, row, self.sort)
        if not len(found):
            return Target(said="no lane shows an event of this row")
        at = again % len(found)
        count = plural(len(found), "instance")
        if what:
            which = f"the most {what}" if at == 0 else f"number {at + 1} by {what}"
            said = f"{which} of {count}: {duration(int(times[at]))}; Enter again: the next"
        else:
            which = "the longest" if at == 0 else f"number {at + 1}"
            said = f"{which} of {count}; Enter again: the next longest"
        return Target(event=int(found[at]), said=said if len(found) > 1 else "the only instance")


class OpsPane(AveragesPane):
    """Ops and runtime calls."""

    groups = tuple(group for group in ON_SCREEN if group not in ("kernel", "op"))


class KernelsPane(AveragesPane):
    """Kernels, copies and memsets."""

    groups = tuple(group for group in ON_SCREEN if group not in ("shape", "kernel"))


class AnnotationsPane(AveragesPane):
    """Annotations on the CPU, and their span on the device."""

    groups = ("name", "annotation", "module")
    sort_first = "cpu_total device_total"
