"""The arrangement of a trace's lanes, saved in the user's state directory for the next time.

Damaged or foreign files count as missing: `tracetui.timeline.arrangement` uses only what fits the trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracetui.session.state import forget_state, read_state, resolved, state_file, write_state


def load_lanes(path: str, folder: Path | None = None) -> list[Mapping[str, Any]]:
    """The saved arrangement of a trace's lanes; [] if there is none."""
    entries = read_state(state_file("lanes", path, folder)).get("lanes")
    if not isinstance(entries, list):
        return []
    return [e for e in entries if isinstance(e, dict) and isinstance(e.get("track"), str)]


def save_lanes(path: str, lanes: Sequence[Mapping[str, Any]] | None, folder: Path | None = None) -> bool:
    """Save an arrangement; None deletes it. False if it could not be written."""
    file = state_file("lanes", path, folder)
    if lanes is None or file is None:
        forget_state(file)
        return True
    return write_state(file, {"path": resolved(path), "lanes": list(lanes)})
