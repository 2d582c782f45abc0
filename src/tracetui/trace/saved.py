"""Keeps what was read from a large file, so that opening the same file again takes milliseconds.

There is one file per trace in the user's cache folder. It is only used if the trace's file is the one it was
made from: the same device, inode, size and times, the same bytes in 16 places, read by the same version of
this program. Nothing here ever raises: without the cache, a trace is read as always.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO

from msgspec import Struct

import tracetui
from tracetui.core.errors import Cancelled
from tracetui.core.safe_text import plain
from tracetui.core.writing import make_private, written
from tracetui.formats.source import Source
from tracetui.trace.model import Trace
from tracetui.trace.saved_file import FORMAT, About, Key, about, read, size_of, write

WORTH = 20_000_000
"""Traces with at least this many bytes of text are kept; smaller ones take less than a fifth of a second to
read."""
SUFFIX = ".trace"
ANSWERS = ".answers"
"""The ending of the file beside a kept trace that holds what was found out about it."""
_GIGABYTES = "TRACETUI_CACHE_GB"
_MOST = 4.0
_SAMPLES, _SAMPLE = 16, 1 << 12
_PATIENCE = 0.8
"""How long the program waits at its end for traces to be written, in seconds."""
_FORGOTTEN = 3600
"""Seconds after which an unfinished file must be from a program that was killed."""


# -- where


def cache_folder() -> Path:
    """Where traces are kept; `TRACETUI_CACHE` overrides it."""
    named = os.environ.get("TRACETUI_CACHE")
    if named:
        return Path(named)
    from platformdirs import user_cache_path

    return user_cache_path("tracetui", appauthor=False) / "traces"


def make_folder() -> None:
    """Make the folder, which only this user can enter; one that the user named stays as it is. Raises
    OSError."""
    make_private(cache_folder(), ours=not os.environ.get("TRACETUI_CACHE"))


def is_on() -> bool:
    """Whether traces are kept and looked for: not if `TRACETUI_NO_CACHE` is set."""
    return not os.environ.get("TRACETUI_NO_CACHE")


def limit() -> int:
    """The most bytes that all kept traces may take: 4 GB, or what `TRACETUI_CACHE_GB` says; at most a tenth
    of the disk space that is free or that they use."""
    import shutil

    wanted = os.environ.get(_GIGABYTES, "")
    gigabytes = float(wanted) if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", wanted) else _MOST
    folder, most = cache_folder(), int(gigabytes * 1e9)
    with suppress(OSError):
        room = shutil.disk_usage(folder).free + sum(kept.bytes for kept in _files(folder))
        return min(most, room // 10)
    return most


def file_of(path: str, suffix: str = SUFFIX) -> Path:
    """Where a trace is kept, by its path: when the file is rewritten, the new trace replaces the old one."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(path))).hexdigest()[:24]
    return cache_folder() / f"{name}{suffix}"


def opened(file: Path) -> IO[bytes]:
    """Open a kept file, if it is a regular file and ours. Raises OSError."""
    flags = getattr(os, "O_NONBLOCK", 0)  # do not wait at a named pipe
    found = open(file, "rb", buffering=0, opener=lambda name, mode: os.open(name, mode | flags))  # noqa: SIM115
    status = os.fstat(found.fileno())
    if not stat.S_ISREG(status.st_mode) or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
        found.close()
        raise PermissionError
    return found


# -- which


MAKES_TRACES = ("core", "trace", "formats")


@lru_cache(maxsize=2)
def program_of(folders: tuple[str, ...] = MAKES_TRACES) -> str:
    """The version, and a hash of the sizes and times of the modules in these folders and below, because the
    version does not change while somebody works on the modules."""
    found = hashlib.sha256()
    root = Path(tracetui.__file__).parent
    with suppress(OSError):
        for folder in folders:
            files = (root / folder).rglob("*.[pcsd]*") if folder else root.glob("*.py")
            for file in sorted(files):
                if file.suffix != ".pyc":
                    status = file.stat()
                    found.update(f"{file.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"{tracetui.__version__} {sys.byteorder} {found.hexdigest()[:16]}"


def key_of(source: Source) -> Key | None:
    """The key of an opened file; None if it has no identity, or is no longer at its path."""
    digest = hashlib.sha256()
    last = max(0, source.size - _SAMPLE)
    with open(source.path, "rb", buffering=0) as file:  # `source.file` may be in use
        if source.identity is None or Source.identity_of(os.fstat(file.fileno())) != source.identity:
            return None
        for place in range(_SAMPLES):
            file.seek(last * place // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE))
    return Key(FORMAT, program_of(), source.identity, digest.hexdigest())


def is_worth(source: Source) -> bool:
    """Whether reading this file takes long enough for it to be kept."""
    return source.identity is not None and source.size * source.encoding.RATIO >= WORTH


def keeps(source: Source) -> bool:
    """Whether `save` and `answers.store_result` would keep anything for this file."""
    return not os.environ.get("TRACETUI_SERVED") and is_on() and is_worth(source)


# -- finding and keeping


def find(source: Source, there: Callable[[], object] = lambda: None) -> Trace | None:
    """The kept trace of an opened file; None if there is none, or if it cannot be used. `there` is called
    once it is certain that there is one; if it raises `Cancelled`, that passes through."""
    if not is_on() or not is_worth(source):
        return None
    try:
        kept = file_of(source.path)
        with opened(kept) as file:
            found = read(file, key_of(source), source, there)
        with suppress(OSError):
            os.utime(kept)  # used just now
        return found
    except Cancelled:
        raise
    except Exception:  # whatever a damaged file leads to
        return None


def save(trace: Trace, going_on: Callable[[], bool] = lambda: True) -> bool:
    """Keep a trace that `load` returned, completely or not at all; whether it is kept.

    `going_on` is called now and then, and stops the writing by returning False.
    """
    source = trace.reader.source
    if not keeps(source):
        return False
    try:
        key, file = key_of(source), file_of(source.path)
        if key is None:
            return False
        known = _about(file)
        if known is not None and known.key == key:
            return True  # it was loaded from there
        make_folder()
        if not _make_room(file, size_of(trace)):
            return False
        with written(file, private=True) as out:
            write(out, trace, key, going_on)
        return True
    except Exception:  # a full disk, a home that is read-only
        return False


# -- room


def _make_room(file: Path, wanted: int) -> bool:
    """Delete the least recently used traces until `wanted` bytes for `file` fit; False if they never do."""
    most = limit()
    others = [kept for kept in _files(file.parent) if kept.file != file]
    total = wanted + sum(kept.bytes for kept in others)
    for kept in others if wanted <= most else ():
        if total <= most:
            break
        with suppress(OSError):
            kept.file.unlink()
            total -= kept.bytes
            kept.file.with_suffix(ANSWERS).unlink(missing_ok=True)
    for part in file.parent.glob("*.part"):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > _FORGOTTEN:
                part.unlink()
    return total <= most


_threads: list[threading.Thread] = []
_leaving, _stop = threading.Event(), threading.Event()


def keep(trace: Trace, delay: float = 0.0, also: Callable[[], object] | None = None) -> None:
    """Run `save` in a thread after `delay` seconds, then `also`. At its end the program waits for it, but at
    most a second."""
    if not is_on() or not is_worth(trace.reader.source):
        return

    def run() -> None:
        _leaving.wait(delay)
        save(trace, lambda: not _stop.is_set())
        if also is not None:
            also()

    thread = threading.Thread(target=run, name="keep trace", daemon=True)
    with suppress(RuntimeError):  # the program is ending
        if not _threads:
            atexit.register(_leave)
        thread.start()
        _threads.append(thread)


def _leave() -> None:
    _leaving.set()
    end = time.monotonic() + _PATIENCE
    for thread in _threads:
        thread.join(max(0.0, end - time.monotonic()))
    _stop.set()
    for thread in _threads:
        thread.join(0.2)  # it deletes its unfinished file


# -- what is kept


class Kept(Struct, frozen=True):
    """A file in the cache folder."""

    file: Path
    bytes: int
    used: float
    """When it was last used, in seconds since 1970."""


def _files(folder: Path) -> list[Kept]:
    """The kept traces, the least recently used first; [] if the folder cannot be read."""
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX):
                with suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    found.append(Kept(Path(entry.path), status.st_size, status.st_mtime))
    return sorted(found, key=lambda kept: kept.used)


def kept_traces() -> list[tuple[Kept, str, str]]:
    """(file, path of the trace, state) of all kept traces, the last used first. The path is safe to show; it
    is "" if the file cannot be read. State: "current", "changed" (the trace or the program), "gone" or
    "damaged"."""
    found = []
    for kept in reversed(_files(cache_folder())):
        known = _about(kept.file)
        found.append((kept, plain(known.path) if known else "", _state(known)))
    return found


def _about(file: Path) -> About | None:
    """Which trace a file keeps; None if it cannot be read."""
    try:
        with opened(file) as open_file:
            return about(open_file)
    except Exception:  # as in `find`
        return None


def _state(known: About | None) -> str:
    if known is None:
        return "damaged"
    try:
        same = Source.identity_of(os.stat(known.path)) == known.key.identity
    except (OSError, ValueError):
        return "gone"
    return (
        "current" if same and (known.key.format, known.key.program) == (FORMAT, program_of()) else "changed"
    )


def clear() -> int:
    """Delete all kept traces. Returns the number of bytes freed."""
    freed = 0
    for kept in _files(cache_folder()):
        with suppress(OSError):
            kept.file.unlink()
            freed += kept.bytes
    for answers_file in cache_folder().glob(f"*{ANSWERS}"):
        with suppress(OSError):
            answers_file.unlink()
    return freed
