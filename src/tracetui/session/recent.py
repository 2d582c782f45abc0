"""Recently opened traces, saved in the user's state directory. Failure to save them is ignored."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from tracetui.core.units import age
from tracetui.session.state import read_state, resolved, saved_time, state_folder, write_state

KEPT = 30


class Recent(NamedTuple):
    """A trace and when it was opened."""

    path: Path
    opened: float
    """Seconds since the epoch."""


def recent_file(folder: Path | None = None) -> Path:
    """Where the list is saved."""
    return (folder or state_folder()) / "recent.json"


def recent_traces(folder: Path | None = None) -> list[Recent]:
    """The recently opened traces that still exist, latest first."""
    entries = read_state(recent_file(folder)).get("traces")
    found = [_recent(e) for e in entries[:KEPT]] if isinstance(entries, list) else []
    # Unlike Path.is_file, this is False for a path that is too long or not accessible.
    return [r for r in found if r is not None and os.path.isfile(r.path)]


def _recent(entry: Any) -> Recent | None:
    """One entry of the file, which anyone may have written; None if it makes no sense."""
    if not isinstance(entry, dict):
        return None
    path, opened = entry.get("path"), saved_time(entry.get("opened"))
    return Recent(Path(path), opened) if isinstance(path, str) and opened is not None else None


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
    return f"{age(seconds)} ago" if seconds >= 60 else "just now"
