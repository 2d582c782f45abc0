"""The traces opened lately, kept in the user's state directory. Failing to keep them is no failure."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from tracetui.session.state import read_state, resolved, state_folder, write_state

KEPT = 30
LATEST = 1e12
"""Seconds since the epoch; nothing was opened after, or so long before."""


class Recent(NamedTuple):
    """A trace that was opened."""

    path: Path
    opened: float
    """Seconds since the epoch."""


def recent_file(folder: Path | None = None) -> Path:
    """Where they are kept."""
    return (folder or state_folder()) / "recent.json"


def recent_traces(folder: Path | None = None) -> list[Recent]:
    """The traces opened lately that are still there, the last one first."""
    entries = read_state(recent_file(folder)).get("traces")
    found = [_recent(e) for e in entries[:KEPT]] if isinstance(entries, list) else []
    # Unlike Path's own, this is False where a path is too long or may not be looked at.
    return [r for r in found if r is not None and os.path.isfile(r.path)]


def _recent(entry: Any) -> Recent | None:
    """What a file that anyone may have written says of one trace; None where that makes no sense."""
    if not isinstance(entry, dict):
        return None
    path, opened = entry.get("path"), entry.get("opened")
    if isinstance(path, str) and isinstance(opened, int | float) and abs(opened) < LATEST:
        return Recent(Path(path), float(opened))
    return None


def remember(path: str | Path, folder: Path | None = None) -> None:
    """Put a trace at the head of the list."""
    here = Path(resolved(str(path)))
    if str(path) == "-" or not here.is_absolute():
        return
    kept = [r for r in recent_traces(folder) if r.path != here][: KEPT - 1]
    entries = [{"path": str(r.path), "opened": r.opened} for r in (Recent(here, time.time()), *kept)]
    write_state(recent_file(folder), {"traces": entries})


def ago(seconds: float) -> str:
    """How long ago, in one unit: `just now`, `5 min ago`, `3 h ago`, `2 d ago`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"
