"""What the first screen and `tracetui summary` say of a whole trace, kept beside the trace if that is large
(`trace.saved`): opening it again says it at once. What was kept equals what would be found now.

Nothing here raises: what cannot be used is found anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import PurePath
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.json import decode
from msgspec.structs import replace

from tracetui.analysis.results import Results
from tracetui.analysis.verdict import Verdict
from tracetui.formats.source import Source, open_source
from tracetui.report.overview import Overview, overviews
from tracetui.report.parts import Target, evidence, time_parts
from tracetui.safe_text import plain
from tracetui.tables.lines import Line
from tracetui.trace.saved import answers, keep_answer

T = TypeVar("T")


class Judged(Struct, frozen=True):
    """The verdict, and what the first screen says beside it."""

    slices: int
    """How many the trace has."""
    verdict: Verdict
    steps: tuple[int, ...]
    """The lengths of the steps' windows, ns."""
    evidence: dict[str, Target] = {}
    """By `TimePart.what`; {} while it is not known."""


class KeptOverview(Struct, frozen=True):
    """The overview in its last form."""

    slices: int
    overview: Overview


class Forms(Struct, frozen=True):
    """All that `tracetui summary` can print of a whole trace."""

    file: str
    json: str
    markdown: str
    lines: dict[int, list[Line]]
    """By width: these have been asked for."""
    metrics: dict[str, float | None]
    """What `--fail-under` tests."""


def judged(results: Results) -> Iterator[Judged]:
    """The verdict on a trace, then also its evidence."""
    slices = len(results.trace)
    found = _found(results.trace.reader.source, "judged", Judged)
    if found is not None and found.slices == slices and _lead_there(found.evidence.values(), slices):
        yield found
        return
    found = Judged(slices, results.verdict(), tuple(row.window_length for row in results.steps().rows))
    yield found
    parts = [part.what for part in time_parts(found.verdict)]
    found = replace(found, evidence={what: evidence(results, what) for what in parts})
    yield found
    keep_answer(results.trace.reader.source, "judged", found, Judged)


def kept_overviews(results: Results) -> Iterator[Overview]:
    """Like `overviews`; of a whole trace the last one alone, if it was kept."""
    if not results.is_whole:
        yield from overviews(results)
        return
    slices, source = len(results.trace), results.trace.reader.source
    kept = _found(source, "overview", KeptOverview)
    if kept is not None and kept.slices == slices:
        entries = [entry for block in kept.overview.blocks for entry in block.entries]
        if _lead_there([entry.target for entry in entries], slices):
            yield kept.overview
            return
    last = None
    for last in overviews(results):
        yield last
    if last is not None:
        keep_answer(source, "overview", KeptOverview(slices, last), KeptOverview)


def kept_forms(path: str) -> Forms | None:
    """What the summary of a file says, without reading the file; None if it is not known."""
    with suppress(Exception):
        if not os.path.isfile(path):
            return None
        source = open_source(path)
        with source.file:
            found = _found(source, "summary", Forms)
        return found if found is not None and found.file == file_name(path) else None
    return None


def keep_forms(source: Source, forms: Forms) -> None:
    """Keep what a summary says."""
    keep_answer(source, "summary", forms, Forms)


def file_name(path: str) -> str:
    """What a summary calls a file, safe to show."""
    return "standard input" if path == "-" else plain(PurePath(path).name, 60)


def _found(source: Source, name: str, kind: type[T]) -> T | None:
    with suppress(Exception):
        answer: Mapping[str, Any] = answers(source)
        return decode(answer[name], type=kind) if name in answer else None
    return None


def _lead_there(targets: Any, slices: int) -> bool:
    """Whether the slices and gaps that targets name can be there."""
    return all(0 <= (number or 0) < slices for one in targets for number in (one.event, one.gap))
