"""Reads one plain file with several threads, each taking its own segments.

The text is cut at separators between events. A separator might be inside a string or a nested list; but a
segment that starts correctly and decodes up to its end proves that the next one starts correctly, and the
first one does. If a segment does not meet the next, the rest is read serially.

The scanner reads without the interpreter's lock. Threads get one segment at a time, so that none waits for a
slow one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tracetui.formats.chrome_json.chunks import Ending, Reader
from tracetui.formats.chrome_json.event_builder import Chunk, EventBuilder
from tracetui.formats.chrome_json.segments import Segment
from tracetui.formats.encodings.plain import Range
from tracetui.formats.store import Store
from tracetui.formats.window import Window


@dataclass(slots=True)
class Part:
    """What was read from one segment."""

    segment: Segment
    ending: Ending
    chunks: list[Chunk]
    store: Store


class _Closing(Exception):
    """The rest is not wanted."""


def _read_segment(descriptor: int, segment: Segment, reader: Reader, advance: Callable[[int], None]) -> Part:
    """Read the events of one segment into a new builder of `reader`. `advance`: see `Reader.read`."""
    begin, end = segment.begin, segment.end
    reader.builder = builder = EventBuilder(begin, end - begin)
    window = Window(Range(descriptor, begin, end).readinto, begin)
    return Part(segment, reader.read(window, segment.final, advance), builder.chunks, builder.store)


class _WorkerPool:
    """The threads, and what they have read so far."""

    def __init__(self, segments: Iterator[Segment], descriptor: int, reader: Reader, count: int) -> None:
        self.parts: dict[int, Part] = {}
        self.news = threading.Condition()
        self._segments, self._descriptor = segments, descriptor
        self._supplying = threading.Lock()
        self._taken = 0
        self._stopped = self._closing = False
        self._error: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._work, args=(reader.clone(),), name="trace worker", daemon=True)
            for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def read_next(self, reader: Reader, advance: Callable[[int], None]) -> bool:
        """Read the next segment; False if there is none."""
        with self._supplying:
            segment = None if self._stopped else next(self._segments, None)
            if segment is None:
                self._stopped = True
                return False
            self._taken += 1
        part = _read_segment(self._descriptor, segment, reader, advance)
        with self.news:
            self.parts[segment.number] = part
            self.news.notify_all()
        return True

    @property
    def taken(self) -> int | None:
        """The total number of segments; None until it is known."""
        return self._taken if self._stopped else None

    def _work(self, reader: Reader) -> None:
        def check_in(offset: int) -> None:
            if self._closing:
                raise _Closing

        try:
            while self.read_next(reader, check_in):
                pass
        except _Closing:
            pass
        except BaseException as error:
            with self.news:
                self._error = error
                self._stopped = True
                self.news.notify_all()

    def check(self) -> None:
        """Re-raise an error from a thread."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Stop all threads, and wait for them."""
        self._stopped = self._closing = True
        for thread in self._threads:
            thread.join()


def read_parallel(
    segments: Iterator[Segment], descriptor: int, reader: Reader, count: int, advance: Callable[[int], None]
) -> Ending:
    """Read the segments of the file with `count` threads, including this one.

    The builder of `reader` receives them in order, so the result is that of reading serially. If the ending
    is "lost", the rest must be read serially from its offset; everything before it has been received.
    """
    pool = _WorkerPool(segments, descriptor, reader, count - 1)
    mine = reader.clone()
    done = 0
    end = 0
    ending = Ending("lost", reader.builder.begin)

    def check_in(offset: int) -> None:
        # Progress is what has been received in order; `advance` may raise to stop.
        advance(end)

    try:
        while True:
            if not pool.read_next(mine, check_in):
                with pool.news:
                    if done not in pool.parts:
                        pool.news.wait(0.1)
                advance(end)
            pool.check()
            while (part := pool.parts.pop(done, None)) is not None:
                done += 1
                ending, end = part.ending, part.segment.end
                reader.builder.absorb(part.chunks, part.store, end)
                advance(end)
                if ending.kind != "met":
                    return ending
            if done == pool.taken:
                return ending
    finally:
        pool.close()
