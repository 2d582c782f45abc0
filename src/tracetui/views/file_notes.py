"""What is wrong with a file, and what is missing in it."""

from __future__ import annotations

from tracetui.analysis.unrecorded import notes
from tracetui.trace import Trace


def file_notes(trace: Trace) -> list[tuple[str, int, str]]:
    """(level, count, text) of each, the worst first."""
    found = [(notice.level, notice.count, notice.text) for notice in trace.notices]
    return found + [note for note in notes(trace) if note[0] != "note"]
