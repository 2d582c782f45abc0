"""What the first screen and `tracetui summary` say about a whole trace, kept beside the trace if that is
large (`trace.saved`): the screen then has it at once, and the command without reading the file.

Imports nothing that analyzes: `overview` and `summary` make it. Nothing here raises: what cannot be used is
computed again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import PurePath

from msgspec import Struct

from tracetui.core.safe_text import plain
from tracetui.formats.source import Source, open_source
from tracetui.trace.answers import answer, keep_answer
from tracetui.views.document import Document

METRICS = ("busy", "step-busy", "device-busy", "overlap")
"""What `--fail-under` can test: the busy share within steps, that of the worst step, that of the worst
device, and the share of communication that other kernels hide."""


class KeptSummary(Struct, frozen=True):
    """All that is kept of a whole trace."""

    slices: int
    """How many the file has."""
    document: Document
    metrics: dict[str, float | None]
    """By `METRICS`."""
    json: str = ""
    """What `tracetui summary --json` prints; "" until it is asked for, and where it is very long."""


def kept_summary(path: str) -> KeptSummary | None:
    """What is kept of a file, without reading it; None if nothing is."""
    with suppress(Exception):
        if os.path.isfile(path):
            source = open_source(path)
            with source.file:
                return summary_of(source)
    return None


def summary_of(source: Source) -> KeptSummary | None:
    """What is kept of an opened file; None if nothing is."""
    return answer(source, "summary", KeptSummary)


def keep_summary(source: Source, summary: KeptSummary) -> None:
    """Keep what a summary says."""
    keep_answer(source, "summary", summary, KeptSummary)


def file_name(path: str) -> str:
    """What a summary calls a file, safe to show."""
    return "standard input" if path == "-" else plain(PurePath(path).name, 60)
