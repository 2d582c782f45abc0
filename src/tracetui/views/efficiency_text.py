"""The efficiency report around its tables: the device, its peak, what was not recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracetui.analysis.part import Part
from tracetui.analysis.rates.counters import DeviceCounters, device_counters
from tracetui.analysis.rates.efficiency import EfficiencyTable, efficiency_of
from tracetui.core.safe_text import plain
from tracetui.core.units import plural
from tracetui.views import markdown
from tracetui.views.answer import Answer, Shown
from tracetui.views.device_counters import counters_json, counters_said
from tracetui.views.efficiency import efficiency_table, rates_json, rates_markdown, rates_text
from tracetui.views.lines import Line, paragraph
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


def efficiency_lines(
    table: EfficiencyTable, width: int, limit: int = 20, counters: Sequence[DeviceCounters] = ()
) -> list[Line]:
    """What the `counters` of the devices say; then operators by shape, then kernels, longest first. `limit`:
    rows of each, 0 for all."""
    lines: list[Line] = []
    for text in counters_said(counters):
        lines += paragraph(text, min(width, 100))
    if not table.recorded:
        return [*lines, [(NO_SHAPES, "")]]
    if not table.ops:
        return [*lines, [("No operator whose work can be counted.", "")]]
    for title, rows in (("Operators", table.ops), ("Kernels", table.kernels)):
        if not rows:
            continue
        lines += [[]] if lines else []
        lines.append([(title, "title")])
        lines += rates_text(rows[:limit] if limit else rows, width)
        if limit and len(rows) > limit:
            lines.append([(f"  and {len(rows) - limit:,} more: --limit 0", "dim")])
    cached = any((row.memory_share or 0) > 1 for row in (*table.ops, *table.kernels))
    for note in (_about(table), CACHED if cached else "", SAMPLED if table.sampled else ""):
        lines += [[], *paragraph(note, min(width, 100), "dim")] if note else []
    return lines


def efficiency_markdown(
    table: EfficiencyTable, limit: int = 20, counters: Sequence[DeviceCounters] = ()
) -> str:
    text = "".join(f"{markdown.cell(said)}\n\n" for said in counters_said(counters))
    if not table.recorded:
        return text + NO_SHAPES + "\n"
    for title, rows in (("Operators", table.ops), ("Kernels", table.kernels)):
        if rows:
            text += markdown.heading(title) + "\n"
            text += rates_markdown(rows[:limit] if limit else rows, title[:-1]) + "\n"
    return text + markdown.cell(_about(table)) + "\n"


def efficiency_answer(part: Part, limit: int = 20) -> Answer:
    """Achieved rates of operators by shape and of kernels. `limit`: rows of each in a text; 0 for all."""
    table, counters = efficiency_of(part), device_counters(part)
    return Answer(
        "efficiency",
        lambda: efficiency_json(table, counters),
        lambda: efficiency_markdown(table, limit, counters),
        lambda width: efficiency_lines(table, width, limit, counters),
        lambda data: [{"of": kind[:-1], **row} for kind in ("ops", "kernels") for row in data[kind]],
        shown=lambda width: [_shown(part, table, counters)],
    )


def _shown(part: Part, table: EfficiencyTable, counters: Sequence[DeviceCounters]) -> Shown:
    """Kernels, then ops by shape. Enter goes to the longest call, Enter again to the next longest."""
    rows, duration = (*table.kernels, *table.ops), part.trace.duration

    def leads_to(row: int, again: int) -> Target:
        calls = rows[row].slices
        order = calls[(-duration[calls]).argsort(kind="stable")]
        at = again % len(order)
        said = f"{at + 1} of {plural(len(order), 'call')}, longest first"
        return Target(event=int(order[at]), said=said)

    peak = f"of the peak of {table.peak.label}" if table.peak is not None else "the GPU's peak is not known"
    peak += "; from a sample of the calls" if table.sampled else ""
    note = "; ".join([*counters_said(counters), *([peak] if rows else [])])
    return Shown(efficiency_table(table), leads_to, note, sort="duration")
