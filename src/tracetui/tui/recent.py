"""The traces opened lately, kept in the user's state directory. Failing to keep them is no failure."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

KEPT = 30


class Recent(NamedTuple):
    """A trace that was opened."""

    path: Path
    opened: float
    """Seconds since the epoch."""


def state_folder() -> Path:
    """Where tracetui keeps what it remembers; `TRACETUI_STATE` names another place."""
    named = os.environ.get("TRACETUI_STATE")
    if named:
        return Path(named)
    from platformdirs import user_state_path

    return user_state_path("tracetui", appauthor=False)


def recent_traces(folder: Path | None = None) -> list[Recent]:
    """The traces opened lately that are still there, the last one first."""
    file = (folder or state_folder()) / "recent.json"
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        found = [Recent(Path(e["path"]), float(e["opened"])) for e in entries]
    except (OSError, ValueError, TypeError, KeyError):
        return []
    return [r for r in found if r.path.is_file()]


def remember(path: str | Path, folder: Path | None = None) -> None:
    """Put a trace at the head of the list."""
    if str(path) == "-":
        return
    folder = folder or state_folder()
    with suppress(OSError):
        here = Path(path).resolve()
        kept = [r for r in recent_traces(folder) if r.path != here][: KEPT - 1]
        entries = [{"path": str(r.path), "opened": r.opened} for r in (Recent(here, time.time()), *kept)]
        folder.mkdir(parents=True, exist_ok=True)
        whole = folder / f"recent.{os.getpid()}.tmp"
        whole.write_text(json.dumps(entries), encoding="utf-8")
        whole.replace(folder / "recent.json")


def ago(seconds: float) -> str:
    """How long ago, in one unit: `just now`, `5 min ago`, `3 h ago`, `2 d ago`."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"
