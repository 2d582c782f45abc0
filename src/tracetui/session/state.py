"""What is kept about a trace from one opening to the next: a small JSON file of each kind, per trace.

A trace is known by its path alone. Size and time of the file would tell a trace that was written anew at the
same path from the one before, but a copy, a `touch` or another compression would lose all that a person has
written about it. What goes with the contents says so itself: a mark remembers the trace's zero on the clock,
and an arrangement names its lanes.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

SIZE_LIMIT = 64 << 20
"""Bytes. Half a million lanes come to half of it."""


def state_folder() -> Path:
    """Where tracetui keeps what it remembers; `TRACETUI_STATE` names another place."""
    named = os.environ.get("TRACETUI_STATE")
    if named:
        return Path(named)
    from platformdirs import user_state_path

    return user_state_path("tracetui", appauthor=False)


def state_file(kind: str, path: str, folder: Path | None = None) -> Path | None:
    """Where something about a trace is kept; None for standard input and pipes: they have no next opening.

    None, too, for a path whose folder cannot be told."""
    if path == "-" or _is_stream(path):
        return None
    whole = resolved(path)
    if not os.path.isabs(whole):
        return None
    key = hashlib.sha256(os.fsencode(whole)).hexdigest()[:24]
    return (folder or state_folder()) / kind / f"{key}.json"


def resolved(path: str) -> str:
    """A trace's path from the root on: asked for at the opening, it holds where the working directory is gone
    later. "-" and what cannot be resolved stay as they are."""
    if path == "-":
        return path
    try:
        return str(Path(path).resolve())
    except (OSError, RuntimeError, ValueError):  # RuntimeError: links that lead around in a circle
        return path


def _is_stream(path: str) -> bool:
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def read_state(file: Path | None) -> dict[str, Any]:
    """What is kept in a file; {} where there is none, or none that tracetui wrote."""
    return readable_state(file) or {}


def readable_state(file: Path | None) -> dict[str, Any] | None:
    """What is kept in a file; {} where there is none, None where there is one that cannot be read."""
    if file is None:
        return {}
    try:
        if file.stat().st_size > SIZE_LIMIT:
            return None
        found = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def set_aside(file: Path) -> Path | None:
    """Give a file a free name that ends in .bad: someone may still want it. None where that failed."""
    for number in range(1, 100):
        aside = file.with_suffix(".bad" if number == 1 else f".{number}.bad")
        try:
            if not aside.exists():
                return file.rename(aside)
        except OSError:
            return None
    return None


def write_state(file: Path | None, data: object) -> bool:
    """Keep something, whole or not at all. False where it could not be written."""
    if file is None:
        return False
    part = file.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(data), encoding="utf-8")
        part.replace(file)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        return False
    return True


def forget_state(file: Path | None) -> None:
    """Keep it no longer."""
    if file is not None:
        with suppress(OSError):
            file.unlink(missing_ok=True)
