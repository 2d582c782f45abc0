"""The traces in a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tracetui.core.errors import TraceError
from tracetui.formats import pftrace
from tracetui.formats.source import open_source
from tracetui.session.paths import may_be_trace

LEVELS = 3
"""The folder itself, and two levels below it."""
MOST = 500
"""At most this many files are looked into, newest first."""
MARKS = (b'"traceEvents"', b'"deviceProperties"', b'"ph"')
"""Every trace in JSON has one of these near its beginning; hardly any other JSON file has."""
SCANNED = 20_000
"""The most entries of a folder that are looked at."""
MOST_BESIDE = 20
"""At most this many of the traces beside one are listed."""
HEAD = 1 << 16
"""How many bytes of text are looked at."""


class Found(NamedTuple):
    """A trace in a folder."""

    path: Path
    bytes: int
    changed: float
    """Seconds since the epoch."""


def found_at(path: Path) -> Found:
    """A file that is known to be a trace. Raises OSError."""
    status = path.stat()
    return Found(path, status.st_size, status.st_mtime)


def traces_in(folder: str | Path, most: int = MOST, scanned: int | None = None) -> list[Found]:
    """The traces in a folder and two levels below it, newest first. Raises OSError if it cannot be read.

    Of more than `most` files only the newest are looked into. `scanned`: after so many names it stops.
    """
    os.scandir(folder).close()
    newest = nlargest(most, _files(folder, scanned), key=lambda found: found.changed)
    return [found for found in newest if _is_trace(found.path)]


def traces_beside(path: str) -> list[Found]:
    """Other files in a trace's folder that may be traces, going by their names, newest first; none if the
    folder cannot be read."""
    found = []
    with suppress(OSError, ValueError), os.scandir(os.path.dirname(path)) as entries:
        for entry in islice(entries, SCANNED):
            with suppress(OSError):
                if may_be_trace(entry.name) and entry.path != path and entry.is_file():
                    found.append(found_at(Path(entry.path)))
    return nlargest(MOST_BESIDE, found, key=lambda one: one.changed)


def _files(folder: str | Path, scanned: int | None = None) -> Iterator[Found]:
    top, seen = len(Path(folder).parts), 0
    for here, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if f[0] != "."] if len(Path(here).parts) - top < LEVELS - 1 else []
        seen += len(names) + len(folders)
        if scanned is not None and seen > scanned:
            return
        for name in names:
            if may_be_trace(name):
                with suppress(OSError):
                    status = os.stat(path := Path(here, name))
                    if stat.S_ISREG(status.st_mode):
                        yield Found(path, status.st_size, status.st_mtime)


def _is_trace(path: Path) -> bool:
    try:
        source = open_source(path)
        with source.file:
            head = source.parts().read(0, HEAD)
    except (TraceError, OSError):
        return False
    return any(mark in head for mark in MARKS) or pftrace.sniff(head, path.name)
