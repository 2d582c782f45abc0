"""What the first screen says about a whole trace: what was kept of it, else what is found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tracetui.analysis.idle.verdict import Verdict
from tracetui.analysis.part import Part
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.copying import replace
from tracetui.trace.result_cache import load_result, store_result
from tracetui.trace.saved import keeps
from tracetui.views.document import Document
from tracetui.views.gap_words import words_of_all
from tracetui.views.overview import overviews, recorded_slices
from tracetui.views.parts import evidence, time_parts
from tracetui.views.summary import metrics_of
from tracetui.views.summary_cache import KeptSummary, keep_summary, summary_of
from tracetui.views.target import Target


class FirstScreen(Struct, frozen=True):
    """The verdict, and what the first screen says beside it."""

    slices: int
    """How many the trace has."""
    verdict: Verdict
    steps: tuple[int, ...]
    """The lengths of the steps' windows, ns."""
    evidence: dict[str, Target] = {}
    """By `TimePart.what`; {} while it is not known."""
    words: dict[str, str] = {}
    """Of the causes of idle time; {} while they are not known."""


def first_screen(part: Part) -> Iterator[FirstScreen]:
    """The verdict on a trace, then also its evidence."""
    slices = len(part.trace)
    found = load_result(part.trace.reader.source, "judged", FirstScreen)
    if found is not None and found.slices == slices and _lead_there(found.evidence.values(), slices):
        yield found
        return
    found = FirstScreen(slices, verdict_of(part), tuple(row.window_length for row in steps_of(part).rows))
    yield found
    parts = [piece.what for piece in time_parts(found.verdict)]
    found_there = {what: evidence(part, what) for what in parts}
    found = replace(found, evidence=found_there, words=words_of_all(part))
    yield found
    store_result(part.trace.reader.source, "judged", found, FirstScreen)


def cached_overviews(part: Part) -> Iterator[Document]:
    """Like `overviews`; of a whole trace the last one alone, if it was kept."""
    if not part.is_whole:
        yield from overviews(part)
        return
    source = part.trace.reader.source
    kept, slices = summary_of(source), recorded_slices(part.trace)
    if kept is not None and kept.slices == slices:
        entries = [entry for block in kept.document.blocks for entry in block.entries]
        if _lead_there([entry.target for entry in entries], len(part.trace)):
            yield kept.document
            return
    last = None
    for last in overviews(part):
        yield last
    if last is not None and keeps(source):
        keep_summary(source, KeptSummary(slices, last, metrics_of(part)))


def _lead_there(targets: Any, slices: int) -> bool:
    """Whether the slices and gaps that targets name can be there."""
    return all(0 <= (number or 0) < slices for one in targets for number in (one.event, one.gap))
