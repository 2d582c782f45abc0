"""The efficiency pane: how much of the GPU's peak ops and kernels reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tracetui.analysis.rates.counters import device_counters
from tracetui.analysis.rates.efficiency import EfficiencyRow, EfficiencyTable, efficiency_of
from tracetui.core.units import plural
from tracetui.session.session import Session
from tracetui.tui.panes.scoped import ScopedPane, within
from tracetui.views.device_counters import counters_said
from tracetui.views.efficiency import efficiency_table
from tracetui.views.target import Target


class EfficiencyPane(ScopedPane):
    """Kernels, then ops by shape. Enter jumps to the longest call, Enter again to the next longest."""

    def __init__(self, session: Session, key: str) -> None:
        super().__init__(session, key)
        self.rows: tuple[EfficiencyRow, ...] = ()
        self.waiting = "reading shapes …"

    def work_out(self) -> Iterator[Callable[[], None]]:
        part = self.whole.within(self.scope)
        found, said = efficiency_of(part), counters_said(device_counters(part))
        yield partial(self.show_rates, found, said, within(self.scope))

    def show_rates(self, found: EfficiencyTable, said: list[str], where: str) -> None:
        self.rows = (*found.kernels, *found.ops)
        self.set_table(efficiency_table(found), "duration")
        peak = (
            f"of the peak of {found.peak.label}" if found.peak is not None else "the GPU's peak is not known"
        )
        note = f"{peak}; from a sample of the calls" if found.sampled else peak
        self.set_note("; ".join([*said, *([note] if self.rows else [])]), where)

    def leads_to(self, row: int, again: int = 0) -> Target | None:
        calls = self.rows[row].slices
        order = calls[(-self.whole.trace.duration[calls]).argsort(kind="stable")]
        at = again % len(order)
        return Target(event=int(order[at]), said=f"{at + 1} of {plural(len(order), 'call')}, longest first")
