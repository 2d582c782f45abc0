"""`load`: a file becomes a Trace."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracetui.trace.args import FileReader
from tracetui.trace.build import build
from tracetui.trace.chunks import CHUNK, Ending, Reader
from tracetui.trace.files import Source, open_source, shown
from tracetui.trace.inflate import Inflater
from tracetui.trace.layout import Beginning, ending_keys, find_events, salvage
from tracetui.trace.model import Cancelled, Progress, Trace, TraceError
from tracetui.trace.repair import fits_end
from tracetui.trace.store import Store
from tracetui.trace.stretches import BLOCK, Supply, worth
from tracetui.trace.trouble import Trouble
from tracetui.trace.window import Window
from tracetui.trace.worker import read_range
from tracetui.trace.workers import read_parallel

_RATIO = 10
"""A compressed trace is taken to be so many times as large inflated."""
_KNOWN_PHASES = frozenset("XBEiIRCMstfbneSTFNODPpVvc(),")


def load(path: str | Path, progress: Progress | None = None, *, workers: int | None = None) -> Trace:
    """Read a trace: `.json`, `.json.gz`, or "-" for standard input.

    `progress` is called with (bytes of the file done, bytes of the file) now and then. `workers`: how many processes
    decode, this one included; by default as many as the file is worth and the machine has cores.
    Raises TraceError (one line) for what cannot be opened as a trace, and Cancelled where `progress` asked to stop;
    OSError never.
    """
    report = _reporter(progress)
    source = open_source(path, report)
    try:
        with _no_collections():
            return _load(source, report, CHUNK, workers, BLOCK)
    except OSError as error:
        source.file.close()
        raise TraceError(f"{shown(source.path)}: {(error.strerror or 'cannot be read').lower()}") from None
    except BaseException:
        source.file.close()
        raise


def _reporter(progress: Progress | None) -> Callable[[int, int], None]:
    def report(done: int, total: int) -> None:
        if progress is not None and progress(done, total) is False:
            raise Cancelled

    return report


@contextmanager
def _no_collections() -> Iterator[None]:
    """No garbage collection while millions of small objects that need none come and go."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _load(
    source: Source, report: Callable[[int, int], None], size: int, workers: int | None, block: int
) -> Trace:
    count = worth(source.size * (_RATIO if source.compressed else 1)) if workers is None else workers
    store = Store(extent=0 if source.compressed else source.size)
    text = _Text(source, store.trouble)
    try:
        window = text.window()
        beginning = find_events(window, shown(source.path), store.trouble)
        reader = Reader(store, beginning.bare, size)

        def advance(offset: int) -> None:
            report(text.progress(offset), source.size)

        if count > 1 and reader.learn(window) and reader.separator is not None:
            begin, descriptor = window.offset, source.file.fileno()
            sent = window if source.compressed else None
            supply = Supply(
                reader.separator, begin, source.size, block // 4 if sent else block, descriptor, sent
            )
            ending = read_parallel(supply, reader, count, advance)
            if ending.kind == "lost":
                ending = reader.read(text.window(ending.offset), True, advance)
        else:
            ending = reader.read(window, True, advance)
        text_size = text.size
    finally:
        text.close()
    top = _judge_ending(ending, beginning, store)
    if not any(phase in _KNOWN_PHASES for phase in store.phases()) and (
        beginning.bare or store.chunks_hold()
    ):
        raise TraceError(f"{shown(source.path)}: is JSON, but holds no events of a trace")
    report(source.size, source.size)
    reader_of_args = FileReader(source, store.chunks, beginning.bare)
    return build(store, source.path, source.size, text_size, top, reader_of_args)


class _Text:
    """The text of a source, read from front to back; another time where that must be."""

    def __init__(self, source: Source, trouble: Trouble) -> None:
        self._source = source
        self._trouble = trouble
        self._inflater: Inflater | None = None

    def window(self, offset: int = 0) -> Window:
        """A window that begins at `offset`."""
        self.close()
        if not self._source.compressed:
            return Window(read_range(self._source.file.fileno(), offset, self._source.size), offset)
        # Whatever is wrong with the compression was noted the first time.
        again = self._inflater is not None
        self._inflater = Inflater(self._source.file, Trouble() if again else self._trouble)
        window = Window(self._inflater.readinto, 0)
        while window.offset < offset:
            window.fill(min(BLOCK, offset - window.offset))
            window.skip(min(window.size, offset - window.offset))
        return window

    def progress(self, offset: int) -> int:
        """Bytes of the file that have been read when the text was read up to `offset`."""
        return min(self._source.size, offset if self._inflater is None else self._inflater.consumed)

    @property
    def size(self) -> int:
        return self._source.size if self._inflater is None else self._inflater.produced

    def close(self) -> None:
        if self._inflater is not None:
            self._inflater.close()


def _judge_ending(ending: Ending, beginning: Beginning, store: Store) -> Mapping[str, Any]:
    """Note what is wrong with the end of the file; the file's top-level keys."""
    top = dict(beginning.header)
    if ending.kind == "closed":
        if fits_end(ending.tail, beginning.bare):
            top.update(ending_keys(ending.tail))
        else:
            whole = ending.tail.rstrip().endswith(b"}")
            store.trouble.note("bad_header" if whole or beginning.bare else "truncated", ending.offset)
            for key, value in salvage(ending.tail).items():
                top.setdefault(key, value)
    elif ending.tail or not beginning.bare:
        if "truncated" not in store.trouble.found and "bad_gzip" not in store.trouble.found:
            store.trouble.note("truncated", ending.offset)
        for key, value in salvage(ending.tail).items():
            top.setdefault(key, value)
    else:
        store.trouble.note("open_array", ending.offset)
    return top
