"""Reads one text with several threads or processes, each taking its own segments.

The text is cut at separators between events. A separator might be inside a string or a nested list; but a
segment that starts correctly and decodes up to its end proves that the next one starts correctly, and the
first one does. If a segment does not meet the next, the rest is read serially.

Threads serve where the scanner reads the text, since it runs without the interpreter's lock. Otherwise each
worker is a fresh Python process (forking a process with threads can hang) and does not import the parent's
main module. Workers get one segment at a time, so that none waits for a slow one; the parent reads
segments too, while the workers are still starting. Workers read plain files themselves; compressed text is
decoded here and sent to them.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracetui.core.columns import Array
from tracetui.core.threads import BLAS_THREADS
from tracetui.formats.chrome_json.chunks import Ending, Reader
from tracetui.formats.chrome_json.event_builder import Packed
from tracetui.formats.chrome_json.segments import Segment, SegmentQueue
from tracetui.formats.chrome_json.worker import LENGTHS, read_segment, write_all

_PIPE = 1 << 20
"""Bytes of the pipe from a worker, which else waits every 64 kB: this process decodes, too, and seldom lets
the thread run that empties it."""
_CODE = (
    "import sys; sys.path[:] = {path!r}; "
    "from tracetui.formats.chrome_json.worker import main; main(*{arguments!r})"
)


@dataclass(slots=True)
class Part:
    """What was read from one segment."""

    segment: Segment
    ending: Ending
    packed: Packed
    arrays: list[Array]


_NOTHING: Packed = ([], ())


class _Closing(Exception):
    """The rest is not wanted."""


class _WorkerPool:
    """The workers, and what they have read so far."""

    def __init__(self, queue: SegmentQueue, reader: Reader, count: int, threads: bool) -> None:
        self.parts: dict[int, Part] = {}
        self.news = threading.Condition()
        self._queue = queue
        self._supplying = threading.Lock()
        self._taken = 0
        self._stopped = self._closing = False
        self._error: BaseException | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads = (
            [self._thread(self._read, reader) for _ in range(count)]
            if threads
            else [self._thread(self._serve, process) for process in self._start(reader, count)]
        )
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _thread(serve: Callable[[Any], None], argument: object) -> threading.Thread:
        return threading.Thread(target=serve, args=(argument,), name="trace worker", daemon=True)

    def _start(self, reader: Reader, count: int) -> list[subprocess.Popen[bytes]]:
        """As many processes as can be had, at most `count`."""
        queue = self._queue
        assert reader.separator is not None
        descriptors = (queue.descriptor,) if queue.descriptor >= 0 else ()
        arguments = (queue.descriptor, reader.arrays, reader.size, tuple(reader.separator))
        code = _CODE.format(path=sys.path, arguments=arguments)
        for _ in range(count):
            try:
                process = subprocess.Popen(
                    [sys.executable, "-c", code],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    pass_fds=descriptors,
                    bufsize=0,
                    env={**os.environ, BLAS_THREADS: "1"},
                )
            except OSError:
                break  # no more processes allowed: make do with fewer
            self._processes.append(process)
            assert process.stdout is not None
            with suppress(ImportError, OSError, AttributeError):  # another system, or not this large
                import fcntl

                fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE)
        return self._processes

    def take(self) -> Segment | None:
        """The next unread segment, None if there is none."""
        with self._supplying:
            segment = None if self._stopped else self._queue.next()
            if segment is None:
                self._stopped = True
            else:
                self._taken += 1
            return segment

    @property
    def taken(self) -> int | None:
        """The total number of segments; None until it is known."""
        return self._taken if self._stopped else None

    def put(self, part: Part) -> None:
        """Store what was read from a segment."""
        with self.news:
            self.parts[part.segment.number] = part
            self.news.notify_all()

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        def ask(segment: Segment) -> Part | None:
            try:
                return _ask(process, segment)
            except (OSError, ValueError, EOFError, pickle.UnpicklingError):
                return None  # it died

        self._work(ask)

    def _read(self, parent: Reader) -> None:
        reader = parent.clone()

        def check_in(offset: int) -> None:
            if self._closing:
                raise _Closing

        def read(segment: Segment) -> Part | None:
            ending = read_segment(self._queue.descriptor, segment, reader, check_in)
            return Part(segment, ending, *reader.builder.pack())

        self._work(read)

    def _work(self, read: Callable[[Segment], Part | None]) -> None:
        try:
            while (segment := self.take()) is not None:
                part = read(segment)
                # Without one, the parent continues from here.
                self.put(part or Part(segment, Ending("lost", segment.begin), _NOTHING, []))
                if part is None:
                    return
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
        """Stop all workers, and wait for them."""
        self._stopped = self._closing = True
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        for thread in self._threads:
            thread.join()
        for process in self._processes:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _ask(process: subprocess.Popen[bytes], segment: Segment) -> Part:
    assert process.stdin is not None
    assert process.stdout is not None
    sent = segment.text is not None
    line = b"%d %d %d %d\n" % (segment.begin, segment.end, segment.final, sent)
    for part in (line, segment.text or b""):
        write_all(process.stdin, part)
    lengths = LENGTHS.unpack(_receive(process.stdout, LENGTHS.size))
    ending, shapes, packed = pickle.loads(_receive(process.stdout, lengths[0]))
    body = _receive(process.stdout, lengths[1])
    arrays: list[Array] = []
    at = 0
    for kind, count in shapes:
        arrays.append(np.frombuffer(body, dtype=np.dtype(kind), count=count, offset=at))
        at += arrays[-1].nbytes
    return Part(segment, ending, packed, arrays)


def _receive(pipe: Any, length: int) -> bytearray:
    made = bytearray(length)
    with memoryview(made) as view:
        at = 0
        while at < length:
            count = pipe.readinto(view[at:])
            if not count:
                raise EOFError
            at += count
    return made


def read_parallel(
    queue: SegmentQueue, reader: Reader, count: int, threads: bool, advance: Callable[[int], None]
) -> Ending:
    """Read the segments of `queue` with `count` threads or processes, including this one.

    The builder of `reader` receives them in order, so the result is that of reading serially. If the ending
    is
    "lost", the rest must be read serially from its offset; everything before it has been received.
    """
    pool = _WorkerPool(queue, reader, count - 1, threads)
    mine = reader.clone()
    done = 0
    end = 0
    ending = Ending("lost", reader.builder.begin)

    def check_in(offset: int) -> None:
        # Progress is what has been received in order; `advance` may raise to stop.
        advance(end)

    try:
        while True:
            segment = pool.take()
            if segment is not None:
                outcome = read_segment(queue.descriptor, segment, mine, check_in)
                pool.put(Part(segment, outcome, *mine.builder.pack()))
            else:
                with pool.news:
                    if done not in pool.parts:
                        pool.news.wait(0.1)
                advance(end)
            pool.check()
            while (part := pool.parts.pop(done, None)) is not None:
                done += 1
                ending, end = part.ending, part.segment.end
                if part.packed is not _NOTHING:
                    reader.builder.absorb(part.packed, part.arrays, end)
                advance(end)
                if ending.kind != "met":
                    return ending
            if done == pool.taken:
                return ending
    finally:
        pool.close()
