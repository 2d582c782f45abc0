"""The text of a file becomes columns: its beginning, its events in one or several processes, its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tracetui.trace.chunks import CHUNK, Ending, Reader
from tracetui.trace.diagnostics import Diagnostics
from tracetui.trace.files import Source, shown
from tracetui.trace.inflate import Inflater
from tracetui.trace.layout import Beginning, ending_keys, find_events, salvage
from tracetui.trace.model import TraceError
from tracetui.trace.recover_text import fits_end
from tracetui.trace.store import Store
from tracetui.trace.stretches import BLOCK, Supply, possible, worth
from tracetui.trace.window import Window
from tracetui.trace.worker import read_range

_RATIO = 10
"""A compressed trace is taken to be so many times as large inflated."""
_KNOWN_PHASES = frozenset("XBEiIRCMstfbneSTFNODPpVvc(),")


@dataclass(slots=True)
class Decoded:
    """The columns of a whole file, and what it says outside its events."""

    store: Store
    top: Mapping[str, Any]
    """The top-level keys other than the events."""
    text_size: int
    bare: bool
    """The file is an array of events, not an object."""


def decode(
    source: Source,
    report: Callable[[int, int], None],
    size: int = CHUNK,
    workers: int | None = None,
    block: int = BLOCK,
) -> Decoded:
    """Read all events of a source in chunks of `size` bytes.

    `report` is told (bytes done, bytes in all) and may raise to stop. `workers`: processes, None for as many
    as are worth it; each is given stretches of `block` bytes. Raises TraceError where there are no events of
    a trace, and OSError as reading the file does.
    """
    count = worth(source.size * (_RATIO if source.compressed else 1)) if workers is None else workers
    count = count if possible() else 1
    store = Store(extent=0 if source.compressed else source.size)
    text = _Text(source)
    try:
        window = text.window()
        beginning = find_events(window, shown(source.path), store.diagnostics)
        reader = Reader(store, beginning.bare, size)

        def advance(offset: int) -> None:
            done = text.progress(offset)
            if source.compressed:
                # How long the text will be, for the room that its columns take.
                store.extent = offset * source.size // max(1, done)
            report(done, source.size)

        if count > 1 and reader.learn(window) and reader.separator is not None:
            begin, descriptor = window.offset, source.file.fileno()
            sent = window if source.compressed else None
            supply = Supply(
                reader.separator, begin, source.size, block // 4 if sent else block, descriptor, sent
            )
            from tracetui.trace.workers import read_parallel  # only large files need it

            ending = read_parallel(supply, reader, count, advance)
            if ending.kind == "lost":
                ending = reader.read(text.window(ending.offset), True, advance)
        else:
            ending = reader.read(window, True, advance)
    finally:
        text.close()
    store.diagnostics.absorb(text.diagnostics)
    top = _judge_ending(ending, beginning, store)
    if not any(phase in _KNOWN_PHASES for phase in store.phases()) and (
        beginning.bare or store.chunks_hold()
    ):
        raise TraceError(f"{shown(source.path)}: is JSON, but holds no events of a trace")
    report(source.size, source.size)
    return Decoded(store, top, text.size, beginning.bare)


class _Text:
    """The text of a source, read from front to back; another time where that must be."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._inflater: Inflater | None = None
        self.diagnostics = Diagnostics()
        """What is wrong with the compression, as far as the last window has come."""

    def window(self, offset: int = 0) -> Window:
        """A window that begins at `offset`."""
        self.close()
        if not self._source.compressed:
            return Window(read_range(self._source.file.fileno(), offset, self._source.size), offset)
        self.diagnostics = Diagnostics()
        self._inflater = Inflater(self._source.file, self.diagnostics)
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
            store.diagnostics.note("bad_header" if whole or beginning.bare else "truncated", ending.offset)
            for key, value in salvage(ending.tail).items():
                top.setdefault(key, value)
    elif ending.tail or not beginning.bare:
        if "truncated" not in store.diagnostics.found and "bad_gzip" not in store.diagnostics.found:
            store.diagnostics.note("truncated", ending.offset)
        for key, value in salvage(ending.tail).items():
            top.setdefault(key, value)
    else:
        store.diagnostics.note("open_array", ending.offset)
    return top
