"""A comparison as blocks of lines: the answer, what explains it, the numbers of both, idle time by cause."""

from __future__ import annotations

from tracetui.compare.model import Comparison, Explanation
from tracetui.core.units import duration, ratio_text, signed
from tracetui.views.compare import Number, change_text, main_change, numbers, spread_text, value_text
from tracetui.views.document import Block, Document, Entry
from tracetui.views.target import Target

HEADS = ("A", "B", "B - A", "B/A", "")
NOISE = {"within noise": "noise", "the machine": "machine", "same": "same"}
"""A word for a difference that is not an effect."""
SIDE_BY_SIDE = "averages"


def compare_overview(comparison: Comparison) -> Document:
    """The overview of a comparison."""
    rows = numbers(comparison)
    each = "Median step" if comparison.per_step else "In all"
    why = Block(
        "why",
        "What explains it",
        "Enter goes there",
        tuple(_explanation(comparison, one) for one in comparison.explanations),
    )
    metrics = Block("numbers", each, "", tuple(_number(r) for r in rows if not r.idle), HEADS)
    idle = Block("idle", "GPU idle for", "", tuple(_number(r) for r in rows if r.idle), HEADS)
    notes = tuple(Entry("", (), None, "", note, Target()) for note in comparison.notes)
    more = Entry(SIDE_BY_SIDE, (), None, "accent", "every name of A and B side by side", Target("averages"))
    return Document(comparison.answer, "", (why, Block("notes", "Also", "", (*notes, more))), (metrics, idle))


def _explanation(comparison: Comparison, one: Explanation) -> Entry:
    change, where = main_change(comparison, one)
    style = "bad" if change > 0 else "good" if change < 0 else ""
    name = f"{signed(change, duration)} {where}" if change else one.kind
    return Entry(name, (), None, style, one.text, Target())


def _number(row: Number) -> Entry:
    metric = row.metric
    noise = NOISE.get(row.noise, "")
    told = (
        value_text(row.name, metric.a),
        value_text(row.name, metric.b),
        change_text(row.name, metric.change).replace(" points", " pt"),
        ratio_text(metric.ratio),
        noise,
    )
    return Entry(row.title.removeprefix("idle: "), told, None, "dim" if noise else "", "", Target())


def spreads_text(row: Number) -> str:
    """A message about how far apart the steps of either side are; "" if they are not."""
    spreads = zip("AB", (row.metric.spread_a, row.metric.spread_b), strict=True)
    told = [f"{letter} {text}" for letter, spread in spreads if (text := spread_text(row.name, spread))]
    return f"{row.title}, lowest and highest of a step: {'; '.join(told)}" if told else ""
