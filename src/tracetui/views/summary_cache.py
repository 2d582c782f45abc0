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
from tracetui.trace.result_cache import load_result, store_result
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


def kept_summary(path: str, json: bool = False) -> tuple[KeptSummary, str] | None:
    """What is kept of a file, without reading it, and the JSON if that is asked for; None if it is not
    known."""
    with suppress(Exception):
        if os.path.isfile(path):
            source = open_source(path)
            with source.file:
                found, text = summary_of(source), load_result(source, "json", str) if json else ""
                return (found, text) if found is not None and text is not None else None
    return None


def summary_of(source: Source) -> KeptSummary | None:
    """What is kept of an opened file; None if nothing is."""
    return load_result(source, "summary", KeptSummary)


def keep_summary(source: Source, summary: KeptSummary, json: str = "") -> None:
    """Keep what a summary says; its JSON apart from it, because the screen needs none."""
    store_result(source, "summary", summary, KeptSummary)
    if json:
        store_result(source, "json", json, str)


def file_name(path: str) -> str:
    """What a summary calls a file, safe to show."""
    return "standard input" if path == "-" else plain(PurePath(path).name, 60)
