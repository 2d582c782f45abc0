"""What `tracetui summary` says about a whole trace, kept beside the trace if that is large (`trace.saved`):
asking again takes no time.

Imports nothing that analyzes: `report.summary` makes it. Nothing here raises: what cannot be used is computed
again.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import PurePath

from msgspec import Struct

from tracetui.core.safe_text import plain
from tracetui.formats.source import Source, open_source
from tracetui.trace.answers import answer, keep_answer
from tracetui.views.lines import Line

METRICS = ("busy", "step-busy", "device-busy", "overlap")
"""What `--fail-under` can test: the busy share within steps, that of the worst step, that of the worst
device, and the share of communication that other kernels hide."""
WIDEST = 110
"""Its lines have this many cells at most, however wide the screen is."""


class Forms(Struct, frozen=True):
    """All that `tracetui summary` can print of a whole trace."""

    file: str
    json: str
    """"" where there are so many steps that it is very long: it is made anew where it is asked for."""
    markdown: str
    lines: dict[int, list[Line]]
    """By width: those that have been asked for."""
    metrics: dict[str, float | None]
    """By `METRICS`."""


def kept_forms(path: str) -> Forms | None:
    """What the summary of a file says, without reading the file; None if it is not known."""
    with suppress(Exception):
        if not os.path.isfile(path):
            return None
        source = open_source(path)
        with source.file:
            found = answer(source, "summary", Forms)
        return found if found is not None and found.file == file_name(path) else None
    return None


def keep_forms(source: Source, forms: Forms) -> None:
    """Keep what a summary says."""
    keep_answer(source, "summary", forms, Forms)


def file_name(path: str) -> str:
    """What a summary calls a file, safe to show."""
    return "standard input" if path == "-" else plain(PurePath(path).name, 60)
