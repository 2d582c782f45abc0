"""What is saved about a trace between sessions: one small JSON file per trace and kind of data.

A trace is identified by its path alone. Size and mtime could distinguish a rewritten trace from the previous
one, but then a copy, a `touch` or a recompression would lose everything the user has written about it. Data
that depends on the contents records that itself: a mark stores the clock time of the trace's zero, and an
arrangement names its lanes.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from tracetui.core.writing import make_private, written

SIZE_LIMIT = 64 << 20
"""The largest state file in bytes. Half a million lanes take half of it."""
KINDS = ("marks", "lanes", "baselines")
"""The folders in the state folder."""
LATEST = 1e12
"""The latest time that makes sense, in seconds since the epoch."""


def state_folder() -> Path:
    """Where tracetui saves its state; `TRACETUI_STATE` overrides it."""
    named = os.environ.get("TRACETUI_STATE")
    if named:
        return Path(named)
    from platformdirs import user_state_path

    return user_state_path("tracetui", appauthor=False)


def served() -> bool:
    """Whether this process draws for a browser (`tracetui serve`), and so perhaps for somebody else. If so,
    no other trace is opened, nothing is captured, and nothing is written."""
    return bool(os.environ.get("TRACETUI_SERVED"))


def why_not_kept() -> str:
    """The reason why `write_state` wrote nothing."""
    return "a viewer in a browser saves nothing" if served() else "there is no folder to write to"


def state_file(kind: str, path: str, folder: Path | None = None) -> Path | None:
    """The state file of a trace; None for standard input and pipes, which cannot be opened again, and for
    a path that cannot be made absolute."""
    if path == "-" or _is_stream(path):
        return None
    whole = resolved(path)
    if not os.path.isabs(whole):
        return None
    key = hashlib.sha256(os.fsencode(whole)).hexdigest()[:24]
    return (folder or state_folder()) / kind / f"{key}.json"


def resolved(path: str) -> str:
    """A trace's absolute path. Resolve it on opening: the working directory may be gone later. "-" and paths
    that cannot be resolved stay as they are."""
    if path == "-":
        return path
    try:
        return str(Path(path).resolve())
    except (OSError, RuntimeError, ValueError):  # RuntimeError: circular links
        return path


def _is_stream(path: str) -> bool:
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def read_state(file: Path | None) -> dict[str, Any]:
    """The contents of a state file; {} if it is missing or cannot be read."""
    return readable_state(file) or {}


def readable_state(file: Path | None) -> dict[str, Any] | None:
    """The contents of a state file; {} if it is missing, None if it cannot be read."""
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


def saved_time(value: Any) -> float | None:
    """Seconds since the epoch, as found in a state file; None if the value makes no sense."""
    return float(value) if isinstance(value, int | float) and abs(value) < LATEST else None


def set_aside(file: Path) -> Path | None:
    """Rename a file to a free name ending in .bad: someone may still want it. None if that failed."""
    if served():
        return None
    for number in range(1, 100):
        aside = file.with_suffix(".bad" if number == 1 else f".{number}.bad")
        try:
            if not aside.exists():
                return file.rename(aside)
        except OSError:
            return None
    return None


def write_state(file: Path | None, data: object) -> bool:
    """Write a state file, completely or not at all; in the state folder, only this user can read it. False if
    that failed."""
    if file is None or served():
        return False
    try:
        private = make_folder(file.parent)
        with written(file, private=private, wait=False) as out:
            out.write(json.dumps(data).encode())
    except OSError:
        return False
    return True


def make_folder(folder: Path) -> bool:
    """Make a folder, and if it is in the state folder, close all that is there to others. Returns whether it
    is. Raises OSError."""
    root = state_folder()
    if not folder.is_relative_to(root):
        folder.mkdir(parents=True, exist_ok=True)
        return False
    # One that the user named may hold other things, too.
    make_private(root, ours=not os.environ.get("TRACETUI_STATE"))
    for one in {folder, *(root / kind for kind in KINDS if (root / kind).is_dir())} - {root}:
        make_private(one)
    return True


def forget_state(file: Path | None) -> None:
    """Delete a state file."""
    if file is not None and not served():
        with suppress(OSError):
            file.unlink(missing_ok=True)
