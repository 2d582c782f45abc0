"""`load` reads a file into a Trace."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracetui.formats.errors import Cancelled, Progress, Report, TraceError
from tracetui.formats.registry import read
from tracetui.formats.source import open_source, shown
from tracetui.trace.build import build
from tracetui.trace.model import Trace
from tracetui.trace.saved import find


def load(
    path: str | Path, progress: Progress | None = None, *, workers: int | None = None, cache: bool = True
) -> Trace:
    """Read a trace, plain or compressed with gzip or zstd; "-" is standard input.

    `progress` is called with (bytes of the file done, bytes of the file) now and then. `workers`: how many
    processes decode, including this one; by default chosen by the size of the file and the number of cores.
    `cache`: a file that `saved` keeps is not read again.
    Raises TraceError (one line) if it cannot be opened as a trace, Cancelled if `progress` returned False;
    never OSError.
    """
    report = _reporter(progress)
    source = open_source(path, report)
    try:
        with _no_collections():
            if cache and (kept := find(source)):
                report(source.size, source.size)
                return kept
            return build(read(source, report, workers), source.path, source.size)
    except OSError as error:
        source.file.close()
        raise TraceError(f"{shown(source.path)}: {(error.strerror or 'cannot be read').lower()}") from None
    except BaseException:
        source.file.close()
        raise


def _reporter(progress: Progress | None) -> Report:
    def report(done: int, total: int) -> None:
        if progress is not None and progress(done, total) is False:
            raise Cancelled

    return report


@contextmanager
def _no_collections() -> Iterator[None]:
    """Pause garbage collection: loading makes millions of small objects and no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
