"""How a person arranged the lanes of a trace, kept in the user's state directory for the next opening.

A file that tracetui did not write, or only in part, is as good as none: `tracetui.timeline.arrangement` takes
from it what fits the trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracetui.session.state import forget_state, read_state, resolved, state_file, write_state


def load_lanes(path: str, folder: Path | None = None) -> list[Mapping[str, Any]]:
    """The arrangement of a trace's lanes; [] where none is kept."""
    entries = read_state(state_file("lanes", path, folder)).get("lanes")
    if not isinstance(entries, list):
        return []
    return [e for e in entries if isinstance(e, dict) and isinstance(e.get("track"), str)]


def save_lanes(path: str, lanes: Sequence[Mapping[str, Any]] | None, folder: Path | None = None) -> bool:
    """Keep an arrangement, or with None forget it. False where it could not be written."""
    file = state_file("lanes", path, folder)
    if lanes is None or file is None:
        forget_state(file)
        return True
    return write_state(file, {"path": resolved(path), "lanes": list(lanes)})
