"""The averages pane: PyTorch's table, tied to the timeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np

from tracetui.analysis.averages import GROUPS, Averages
from tracetui.analysis.kernel_names import short_name
from tracetui.analysis.memory import MemoryUse
from tracetui.analysis.results import Results
from tracetui.analysis.scope import Scope
from tracetui.tables.model import Column, Table
from tracetui.tables.names import told_apart
from tracetui.tables.records import averages_records
from tracetui.tables.times import time_column
from tracetui.trace.model import I64, Trace
from tracetui.tui.panes.base import Jump
from tracetui.tui.panes.scoped import ScopedPane, scope_texts
from tracetui.units import memory_size, plural, share_of


def averages_table(
    trace: Trace,
    averages: Averages,
    colour: Callable[[int], str | None] | None = None,
    memory: MemoryUse | None = None,
) -> Table:
    """The averages as columns. `colour` maps a name's index to its colour in the timeline."""
    a = averages
    device = bool(a.device.any())
    calls = np.maximum(a.calls, 1)

    def category(row: int) -> str:
        first = int(a.first[row])
        return trace.categories[int(trace.category[first])] if first >= 0 else ""

    @cache
    def names() -> list[str]:
        shorts = [short_name(a.names[row], category(row)) for row in range(len(a))]
        apart = told_apart(shorts, a.names, list(zip(a.device.tolist(), a.groups, strict=True)))
        return [f"{name}  {group}" if group else name for name, group in zip(apart, a.groups, strict=True)]

    def name(row: int) -> str:
        return names()[row]

    def times(key: str, title: str, values: I64, drop: int) -> Column:
        return time_column(key, title, lambda r: int(values[r]), lambda: values, drop)

    def average(key: str, title: str, values: I64, drop: int) -> Column:
        return time_column(key, title, lambda r: int(values[r]) / int(calls[r]), lambda: values / calls, drop)

    def shares(key: str, title: str, values: I64, total: int, drop: int) -> Column:
        def text(row: int) -> str:
            return share_of(int(values[row]), total) if values[row] else "-"

        return Column(key, title, text, lambda: values, 8, True, drop)

    columns = [
        Column("name", "Name", name, names, 0, False, 0, False, ends=True),
        Column("device", "On", lambda r: "GPU" if a.device[r] else "CPU", lambda: a.device, 3, False, 3),
    ]
    if device:
        columns += [
            times("self_device", "Self GPU", a.self_device, 0),
            shares("self_device_share", "GPU %", a.self_device, a.total_self_device, 4),
            times("device_total", "GPU total", a.device_total, 2),
            average("device_average", "GPU avg", a.device_total, 9),
        ]
    columns += [
        times("self_cpu", "Self CPU", a.self_cpu, 1),
        shares("self_cpu_share", "CPU %", a.self_cpu, a.total_self_cpu, 6),
        times("cpu_total", "CPU total", a.cpu_total, 5),
        average("cpu_average", "CPU avg", a.cpu_total, 8),
        Column("calls", "Calls", lambda r: f"{int(a.calls[r]):,}", lambda: a.calls, 7),
    ]
    if memory is not None:
        at = len(columns) - 1
        columns[at:at] = [
            _memory_column(key, title, values, drop)
            for key, title, values, drop in (
                ("self_device_memory", "Self GPU mem", memory.self_device, 3),
                ("device_memory", "GPU mem", memory.device, 10),
                ("self_cpu_memory", "Self CPU mem", memory.self_host, 7),
                ("cpu_memory", "CPU mem", memory.host, 11),
            )
            if values.any()
        ]
    return Table(
        tuple(columns),
        len(a),
        lambda r: f"{name(r)} {a.names[r]} {category(r)}",
        (lambda r: colour(int(trace.name[a.first[r]])) if a.first[r] >= 0 else None) if colour else None,
        empty="none of PyTorch's kinds of events here, and averages count only those",
        records=lambda order: averages_records(a, order, memory),
    )


def _memory_column(key: str, title: str, values: I64, drop: int) -> Column:
    """Bytes allocated less freed."""

    def text(row: int) -> str:
        count = int(values[row])
        return f"{'-' if count < 0 else ''}{memory_size(abs(count))}" if count else "-"

    return Column(key, title, text, lambda: values, 12, True, drop)


def instances(trace: Trace, averages: Averages, row: int) -> I64:
    """The slices that a row counts, longest first."""
    found = np.flatnonzero(averages.row_of == row)
    return found[np.argsort(-trace.duration[found], kind="stable")]


class AveragesPane(ScopedPane):
    """Averages by name. Enter jumps to the longest instance, again to the next longest."""

    def __init__(
        self,
        results: Results,
        id: str,
        colour: Callable[[int], str | None] | None = None,
        scope: Scope | None = None,
    ) -> None:
        super().__init__(results, id, scope)
        self.group = "name"
        self.averages: Averages | None = None
        self._colour = colour
        self._event: int | None = None
        self.waiting = "adding up …"

    def work_out(self) -> Iterator[Callable[[], None]]:
        group = self.group
        averages = self.results.averages(self.scope, group)
        by = "" if group == "name" else f"by {group}"
        where, busy = scope_texts(self.results, averages.scope)
        note = ", ".join(filter(None, (by, busy))), where
        if not self.results.ready("memory"):  # its records are read from the file, which may take a while
            yield partial(self.show_averages, averages, note)
        memory = self.results.memory_use(averages)
        if memory is not None or self.averages is not averages:
            yield partial(self.show_averages, averages, note, memory)

    def show_averages(
        self, averages: Averages, note: tuple[str, str], memory: MemoryUse | None = None
    ) -> None:
        """`note`: what to say of the averages, and the part of the trace that they speak of."""
        before = self._told()
        self.averages = averages
        table = averages_table(self.results.trace, averages, self._colour, memory)
        device = table.column("self_device") is not None
        self.set_table(table, "self_device" if device else "self_cpu")
        if before is not None:
            same = (r for r, name in enumerate(averages.names) if name == before[0])
            row = next((r for r in same if self._row_told(averages, r) == before), None)
            if row is not None:
                self.show_row(row)
        self.set_note(*note)
        self.follow(self._event)

    def _told(self) -> tuple[str, bool, str] | None:
        """What the row under the cursor speaks of; the cursor at the top stays there."""
        row = self.row if self.cursor else None
        return self._row_told(self.averages, row) if self.averages is not None and row is not None else None

    @staticmethod
    def _row_told(averages: Averages, row: int) -> tuple[str, bool, str]:
        return averages.names[row], bool(averages.device[row]), averages.groups[row]

    def next_group(self) -> str:
        """Group by the next thing; returns what it is."""
        self.group = GROUPS[(GROUPS.index(self.group) + 1) % len(GROUPS)]
        self.load()
        return self.group

    def follow(self, event: int | None) -> None:
        self._event = event
        if event is not None and self.averages is not None:
            row = int(self.averages.row_of[event])
            if row >= 0:
                self.show_row(row)

    def on_table_view_chosen(self, message: ScopedPane.Chosen) -> None:
        message.stop()
        if self.averages is None:
            return
        found = instances(self.results.trace, self.averages, message.row)
        if not len(found):
            self.post_message(Jump(-1, "this row has no event on a lane"))
            return
        at = message.again % len(found)
        event = int(found[at])
        which = "the longest" if at == 0 else f"number {at + 1}"
        said = f"{which} of {plural(len(found), 'instance')}; Enter again: the next longest"
        self.post_message(Jump(event, said if len(found) > 1 else "the only instance"))
