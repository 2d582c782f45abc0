"""`load` reads a file into a Trace."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from tracetui.core.columns import NO_ID, Columns
from tracetui.core.copying import replace
from tracetui.core.errors import Cancelled, Progress, Report, TraceError
from tracetui.core.threads import no_collections, release_memory, share_free_memory
from tracetui.formats.parsed_file import ParsedFile
from tracetui.formats.registry import read, read_beginning
from tracetui.formats.source import Source, open_source, shown
from tracetui.formats.store import COUNTER_COLUMNS, POINT_COLUMNS
from tracetui.trace.build import build
from tracetui.trace.model import Trace
from tracetui.trace.saved import find

LARGE = 200_000_000
"""Files with at least this many bytes of text have their beginning read first, for `load`'s `show`."""
BEGINNING = 1 << 25
"""Bytes of text in the beginning: it is read in a twentieth of a second, and is less than a sixth of any
large file."""
LONGER = 3
"""Each longer beginning has at least this many times as much text as the one before."""
MOST = 0.2
"""The largest share of the file in a beginning, which takes memory until the whole trace is drawn."""


def load(
    path: str | Path,
    progress: Progress | None = None,
    *,
    workers: int | None = None,
    cache: bool = True,
    show: Callable[[Trace], object] | None = None,
) -> Trace:
    """Read a trace, plain or compressed with gzip or zstd; "-" is standard input.

    `progress` is called with (bytes of the file done, bytes of the file) now and then. `workers`: how many
    threads read a plain file, including this one; by default chosen by its size and the number of cores.
    `cache`: a file that `saved` keeps is not read again. `show`: for a large file, called with the trace of
    its beginning (see `load_beginning`) before the file is read, and then, from another thread while it is
    read, with those of longer and longer beginnings.
    Raises TraceError (one line) if it cannot be opened as a trace, Cancelled if `progress` returned False;
    never OSError.
    """
    share_free_memory()
    report = _reporter(progress)
    source = open_source(path, report)
    try:
        with no_collections():
            if cache and (kept := find(source, partial(report, source.size, source.size))):
                return kept
            longer: _Longer | None = None
            if show is not None and source.size * source.encoding.RATIO >= LARGE:
                with suppress(TraceError):  # any error is reported for the whole file
                    show(load_beginning(source, report, BEGINNING))
                longer = _Longer(source, show)
            trace = build(read(source, report, workers, longer), source.path, source.size)
            release_memory(source.size)
            return trace
    except OSError as error:
        source.file.close()
        raise TraceError(f"{shown(source.path)}: {(error.strerror or 'cannot be read').lower()}") from None
    except BaseException:
        source.file.close()
        raise


def load_beginning(source: Source, report: Report, length: int) -> Trace:
    """Read the slices in about the first `length` bytes of a file's text, to be drawn while the rest is read.

    Their times, lanes and names are as in the file. Anything that depends on the rest, such as parents and
    further lanes, is not known, and there are no links and no notices. Whatever needs a second event to be
    drawn is left out: slices of `B` and `E`, async ones, flows, counters. Raises TraceError if the file
    cannot be opened again, if its format is not certain, if there are no slices, or if one of them cannot be
    as the file says.
    """
    again = _opened_again(source)
    try:
        contents = read_beginning(again, report, length)
        if contents is None:
            raise TraceError("may have another format")
        return _part(contents, source)
    except BaseException:
        again.file.close()
        raise


def _opened_again(source: Source) -> Source:
    """The same source with a file descriptor of its own: events are read again through it while the file is
    being read."""
    try:
        if not os.path.samestat(os.stat(source.path), os.fstat(source.file.fileno())):
            raise TraceError("cannot be opened again")  # it is a stream, or by now another file
        return replace(source, file=open(source.path, "rb", buffering=0))
    except OSError:
        raise TraceError("cannot be opened again") from None


def _part(parsed: ParsedFile, source: Source) -> Trace:
    """The result of `load_beginning` for the contents of a beginning."""
    store = parsed.store
    if not len(store.slices):
        raise TraceError("does not begin with slices")
    store.points, store.counters = Columns(POINT_COLUMNS), Columns(COUNTER_COLUMNS)
    store.series, store.asyncs = {}, []
    for name in ("correlation", "external"):  # the right partner may be further on in the file
        store.slices.arrays[name][: len(store.slices)] = NO_ID
    part = build(parsed, source.path, 0)
    part = replace(part, info=replace(part.info, size=source.size))
    if part.implausible.any() or part.clipped:
        raise TraceError("has slices that only the whole can judge")
    none = np.broadcast_to(np.int32(-1), len(part))  # takes no memory
    no_id = np.broadcast_to(np.int64(NO_ID), len(part))
    return replace(part, launch=none, op=none, correlation=no_id, external_id=no_id, notices=())


class _Longer:
    """A `SoFar` that shows longer and longer beginnings of a file while it is read: it copies the slices that
    have been read by then, and does the rest in a thread."""

    def __init__(self, source: Source, show: Callable[[Trace], object]) -> None:
        self._source, self._show = source, show
        self._next = LONGER * BEGINNING
        self._making: threading.Thread | None = None

    def __call__(self, length: int, done: int, copy: Callable[[Source, int], ParsedFile]) -> None:
        if length < self._next or done > MOST * self._source.size:
            return
        if self._making is not None and self._making.is_alive():
            return  # the machine has few cores
        self._next = LONGER * length
        with suppress(TraceError):
            contents = copy(_opened_again(self._source), length)
            self._making = threading.Thread(target=self._make, args=(contents,), name="part", daemon=True)
            self._making.start()

    def _make(self, parsed: ParsedFile) -> None:
        with suppress(TraceError, OSError, MemoryError):  # any error is reported for the whole file
            self._show(_part(parsed, self._source))


def _reporter(progress: Progress | None) -> Report:
    def report(done: int, total: int) -> None:
        if progress is not None and progress(done, total) is False:
            raise Cancelled

    return report
