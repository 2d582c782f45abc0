"""The efficiency report around its tables: the device, its peak, what was not recorded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tracetui.analysis.part import Part
from tracetui.analysis.rates.counters import DeviceCounters, device_counters
from tracetui.analysis.rates.efficiency import EfficiencyTable, efficiency_of
from tracetui.core.safe_text import plain
from tracetui.core.units import plural
from tracetui.views.answer import Answer, Shown
from tracetui.views.device_counters import counters_json, counters_said
from tracetui.views.document import Block, sentences
from tracetui.views.document import table as table_of
from tracetui.views.document_text import forms
from tracetui.views.efficiency import efficiency_table, rates_json, rates_markdown, rates_text
from tracetui.views.target import Target

NO_SHAPES = "No shapes were recorded (record_shapes=True), so the work is not known."
CACHED = "A bandwidth share above 100% means that some of the data was still in a cache."
SAMPLED = "There are very many operators, so an even sample was read: calls and times are part of the total."


def efficiency_json(table: EfficiencyTable, counters: Sequence[DeviceCounters] = ()) -> dict[str, Any]:
    """The device with its peak, and the rates of operators and kernels."""
    peak = table.peak
    return {
        "device": plain(table.device),
        "recorded": table.recorded,
        "sampled": table.sampled,
        "peak": None
        if peak is None
        else {
            "label": peak.label,
            "bandwidth_gbps": peak.bandwidth,
            "tflops": dict(peak.tflops),
            "source": peak.source,
        },
        "ops": rates_json(table.ops),
        "kernels": rates_json(table.kernels),
        "counters": [counters_json(one) for one in counters],
    }


def _about(table: EfficiencyTable) -> str:
    if table.peak is None:
        name = plain(table.device)
        return f"The peak of {name} is not known, so there are no shares." if name else ""
    return f"Shares are of the {table.peak.label}'s peak: {table.peak.source}."


def efficiency_blocks(
    table: EfficiencyTable, limit: int = 20, counters: Sequence[DeviceCounters] = ()
) -> list[Block]:
    """What the `counters` of the devices say; then operators by shape, then kernels, longest first. `limit`:
    rows of each, 0 for all."""
    none = "No operator whose work can be counted." if not table.ops else ""
    none = none if table.recorded else NO_SHAPES
    blocks = [sentences(*counters_said(counters), none)]
    if none:
        return blocks
    for title, rows in (("Operators", table.ops), ("Kernels", table.kernels)):
        shown, left = rows[:limit] if limit else rows, len(rows) - limit if limit else 0
        more = f"and {left:,} more: --limit 0" if left > 0 else ""
        lines, text = partial(rates_text, shown), partial(rates_markdown, shown, title[:-1])
        if rows:
            blocks.append(table_of(title, lines, text, more, style="title"))
    cached = any((row.memory_share or 0) > 1 for row in (*table.ops, *table.kernels))
    notes = (_about(table), CACHED if cached else "", SAMPLED if table.sampled else "")
    return blocks + [sentences(note) for note in notes if note]


def efficiency_answer(part: Part, limit: int = 20) -> Answer:
    """Achieved rates of operators by shape and of kernels. `limit`: rows of each in a text; 0 for all."""
    table, counters = efficiency_of(part), device_counters(part)
    return Answer(
        "efficiency",
        lambda: efficiency_json(table, counters),
        *forms(lambda: efficiency_blocks(table, limit, counters)),
        choose=lambda data: [{"of": kind[:-1], **row} for kind in ("ops", "kernels") for row in data[kind]],
        shown=lambda width: [_shown(part, table, counters)],
    )


def _shown(part: Part, table: EfficiencyTable, counters: Sequence[DeviceCounters]) -> Shown:
    """Kernels, then ops by shape. Enter goes to the longest call, Enter again to the next longest."""
    rows, duration = (*table.kernels, *table.ops), part.trace.duration

    def target_of(row: int, again: int) -> Target:
        calls = rows[row].slices
        order = calls[(-duration[calls]).argsort(kind="stable")]
        at = again % len(order)
        said = f"{at + 1} of {plural(len(order), 'call')}, longest first"
        return Target(event=int(order[at]), said=said)

    peak = f"of the peak of {table.peak.label}" if table.peak is not None else "the GPU's peak is not known"
    peak += "; from a sample of the calls" if table.sampled else ""
    note = "; ".join([*counters_said(counters), *([peak] if rows else [])])
    return Shown(efficiency_table(table), target_of, note, sort="duration")
