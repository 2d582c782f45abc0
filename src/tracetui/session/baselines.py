"""Baselines: captures saved under a name, or in a folder, so that later ones can be compared with them.

The folder of a baseline holds a copy of the trace and of its .meta.json, and `baseline.json`, which has the
names of both. That file is replaced in one step, so a reader finds either the previous baseline or the new
one.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracetui import __version__
from tracetui.core.safe_text import plain
from tracetui.core.writing import written
from tracetui.session.paths import TRACE_ENDINGS, may_be_trace, meta_file, trace_stem
from tracetui.session.state import make_folder, readable_state, saved_time, state_folder, write_state

INDEX = "baseline.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
KEPT = re.compile(r"[A-Za-z0-9._-]{1,60}-[0-9a-f]{8}\.((json|pftrace)(\.gz|\.zst)?|meta\.json)", re.ASCII)
"""The names of the saved files."""
MOST = 100
"""Baselines by name."""
LARGEST = 4 << 30
"""The largest trace that is saved, in bytes."""
LARGEST_META = 1 << 20


class BaselineError(Exception):
    """A baseline cannot be read or saved; the message says why in one line."""


class BadName(BaselineError):
    """The name is not valid."""


class NoBaseline(BaselineError):
    """There is no baseline there."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A saved trace."""

    name: str
    """Its name or, if a folder was typed, that folder. Safe to show."""
    trace: Path
    source: str
    """The file name of the trace that was saved. Safe to show."""
    saved: float | None
    """Seconds since the epoch; None if not known."""


def baselines_folder() -> Path:
    """The folder of all named baselines."""
    return state_folder() / "baselines"


def folder_of(text: str) -> Path:
    """The folder of a baseline: found by name, or the text itself if there is a slash in it
    (`./baseline`)."""
    if "/" in text or text in (".", "..", "~"):
        return Path(os.path.expanduser(text))
    if not NAME.fullmatch(text):
        raise BadName(
            f"a baseline's name has letters, digits, '.', '_' and '-', at most 64; got {text[:80]!r} "
            "(a folder has a slash in it: ./baseline)"
        )
    return baselines_folder() / text


def find_baseline(text: str) -> Baseline:
    """The baseline with a name, or in a folder."""
    folder = folder_of(text)
    index = readable_state(folder / INDEX)
    if index is None:
        raise BaselineError(f"{folder / INDEX}: cannot be read: save the baseline again (--save)")
    if index:
        trace = _kept_file(folder, index.get("trace"))
        if trace is None:
            raise BaselineError(f"{folder}: its trace is gone: save the baseline again (--save)")
        source, saved = _text(index.get("source")), saved_time(index.get("saved"))
        return Baseline(plain(text, 100), trace, source or trace.name, saved)
    try:
        found = sorted(name for name in os.listdir(folder) if may_be_trace(name) and name != INDEX)
    except (FileNotFoundError, NotADirectoryError):
        found = []
    except OSError as error:
        raise BaselineError(f"{folder}: {(error.strerror or 'cannot be read').lower()}") from None
    if len(found) > 1:
        raise BaselineError(f"{folder}: has {len(found)} traces and does not say which is the baseline")
    if not found:
        raise NoBaseline(f"no baseline {text[:80]!r}")
    return Baseline(plain(text, 100), folder / found[0], plain(found[0], 100), None)


def baselines() -> list[Baseline]:
    """All named baselines, by name. One that cannot be read is left out."""
    return list(_found())


def _found() -> Iterator[Baseline]:
    for name in _names():
        with suppress(BaselineError):
            yield find_baseline(name)


def _names() -> list[str]:
    try:
        return sorted(name for name in os.listdir(baselines_folder()) if NAME.fullmatch(name))
    except OSError:
        return []


def keep(text: str, trace: str) -> Baseline:
    """Copy a trace, which must have been read before, and its .meta.json. They replace the previous
    baseline."""
    folder = folder_of(text)
    if folder.parent == baselines_folder() and folder.name not in (names := _names()) and len(names) >= MOST:
        raise BaselineError(f"{MOST} baselines are saved: delete one of the folders in {baselines_folder()}")
    try:
        status = os.stat(trace)
        if not stat.S_ISREG(status.st_mode):
            raise BaselineError("only a file can be saved as a baseline, not standard input or a pipe")
        if status.st_size > LARGEST:
            raise BaselineError(f"{trace}: is too large for a baseline ({LARGEST >> 30} GiB at most)")
        return _keep(folder, text, Path(trace))
    except OSError as error:
        where = error.filename if isinstance(error.filename, str) else folder
        raise BaselineError(f"{where}: {(error.strerror or 'cannot be written').lower()}") from None


def _keep(folder: Path, text: str, trace: Path) -> Baseline:
    private = make_folder(folder)
    before = readable_state(folder / INDEX) or {}
    stem = f"{re.sub(r'[^A-Za-z0-9._-]', '_', trace_stem(trace))[:50] or 'trace'}-{secrets.token_hex(4)}"
    ending = next((e for e in reversed(TRACE_ENDINGS) if trace.name.endswith(e)), ".json")
    files = {"trace": (trace, folder / (stem + ending))}
    meta = meta_file(trace)
    if meta.is_file() and meta.stat().st_size <= LARGEST_META:
        files["meta"] = (meta, folder / f"{stem}.meta.json")
    kept: list[Path] = []
    now = time.time()
    try:
        for source, target in files.values():
            with written(target, private=private) as out, open(source, "rb") as whole:
                shutil.copyfileobj(whole, out, 1 << 20)
            kept.append(target)
        index: dict[str, Any] = {key: target.name for key, (_, target) in files.items()}
        index |= {
            "source": plain(trace.name, 100),
            "path": plain(str(trace)),
            "saved": now,
            "tracetui": __version__,
        }
        if not write_state(folder / INDEX, index):
            raise BaselineError(f"{folder / INDEX}: cannot be written")
    except BaseException:
        for target in kept:
            with suppress(OSError):
                target.unlink(missing_ok=True)
        raise
    for key in ("trace", "meta"):
        old = _kept_file(folder, before.get(key))
        if old is not None and old not in kept:
            with suppress(OSError):
                old.unlink()
    return Baseline(plain(text, 100), kept[0], plain(trace.name, 100), now)


def _kept_file(folder: Path, name: Any) -> Path | None:
    """A file that `baseline.json` names. Anyone may have written that, so only files such as `keep` makes are
    accepted."""
    if not isinstance(name, str) or not KEPT.fullmatch(name):
        return None
    path = folder / name
    return path if path.is_file() and not path.is_symlink() else None


def _text(value: Any) -> str:
    return plain(value, 100) if isinstance(value, str) else ""
