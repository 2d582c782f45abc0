"""Several processes read one file, each its own stretches of it.

The file is cut where the separator between two events stands. Such a place may lie inside a string or an inner list; but
a stretch that begins well and decodes up to its end has thereby shown that the next one begins well, and the first
one does. Where a stretch does not meet the next, reading goes on from there in one piece.

Each worker is a Python of its own, started afresh (a fork of a process with threads may hang), that knows nothing of the
parent's main module. It is given stretches one at a time, so that none waits for a slow one, and the parent reads
stretches as well, from the moment on at which the workers are starting.
"""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracetui.trace.chunks import Ending, Reader
from tracetui.trace.scan import Separator
from tracetui.trace.store import Array, Store
from tracetui.trace.worker import LENGTHS, read_range, read_stretch
from tracetui.trace.window import Window

BLOCK = 1 << 24
"""Bytes of a stretch."""
_WORTH = 3 << 25
"""From so many bytes on (100 MB) a second process saves more than it costs."""
_MOST = 16
_CODE = "import sys; sys.path[:] = {path!r}; from tracetui.trace.worker import main; main(*{arguments!r})"


def usable_cores() -> int:
    """Cores that this process may use: its affinity, and the quota of its control group."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    quota = _quota()
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def _quota() -> float | None:
    """The control group's limit in cores, None for none."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit, period = (folder / "cpu.max").read_text().split()[:2]
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        limit = (folder / "cpu/cpu.cfs_quota_us").read_text()
        period = (folder / "cpu/cpu.cfs_period_us").read_text()
        return int(limit) / int(period) if int(limit) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def worth(size: int) -> int:
    """How many processes, this one included, should read a plain file of `size` bytes."""
    if size < _WORTH or os.name != "posix" or not hasattr(os, "preadv") or not sys.executable:
        return 1
    return max(1, min(usable_cores(), 1 + size // (_WORTH // 2), _MOST))


def cut(descriptor: int, begin: int, end: int, separator: Separator, block: int = BLOCK) -> list[tuple[int, int]]:
    """Stretches of the file from `begin` (where an event begins) to `end`, some `block` bytes each."""
    borders = [begin]
    target = begin + block
    while target + block // 2 < end:
        text = os.pread(descriptor, 1 << 20, target)
        at = text.find(separator.text)
        if at >= 0:
            borders.append(target + at + separator.brace)
        target += block
    return list(zip(borders, [*borders[1:], end], strict=True))


@dataclass(slots=True)
class Part:
    """What was read of one stretch."""

    ending: Ending
    header: bytes
    arrays: list[Array]


class _Crew:
    """Worker processes, and the stretches that are still to be read."""

    def __init__(self, descriptor: int, stretches: list[tuple[int, int]], reader: Reader, count: int) -> None:
        self.parts: dict[int, Part] = {}
        self.news = threading.Condition()
        self.stopped = False
        self._stretches = stretches
        self._next = 0
        assert reader.separator is not None
        code = _CODE.format(
            path=sys.path, arguments=(descriptor, reader.bare, reader.size, tuple(reader.separator))
        )
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads = []
        for _ in range(count):
            try:
                process = subprocess.Popen(
                    [sys.executable, "-c", code],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(descriptor,),
                    bufsize=0,
                )
            except OSError:
                break  # no more processes for us: fewer will do
            self._processes.append(process)
            thread = threading.Thread(target=self._serve, args=(process,), name="trace worker", daemon=True)
            thread.start()
            self._threads.append(thread)

    def take(self) -> int:
        """The number of the next stretch that nobody reads yet, -1 for none."""
        with self.news:
            if self.stopped or self._next >= len(self._stretches):
                return -1
            self._next += 1
            return self._next - 1

    def put(self, number: int, part: Part | None) -> None:
        """A stretch was read; None where the worker died over it."""
        with self.news:
            self.parts[number] = part if part is not None else Part(Ending("lost", -1), b"", [])
            self.news.notify_all()

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        while (number := self.take()) >= 0:
            begin, end = self._stretches[number]
            part = None
            try:
                part = _ask(process, begin, end, number == len(self._stretches) - 1)
            except (OSError, ValueError, EOFError, pickle.UnpicklingError):
                pass
            self.put(number, part)
            if part is None:
                return

    def close(self) -> None:
        """End all processes, whatever they are doing, and wait until they are gone."""
        with self.news:
            self.stopped = True
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


def _ask(process: subprocess.Popen[bytes], begin: int, end: int, final: bool) -> Part:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"%d %d %d\n" % (begin, end, final))
    lengths = LENGTHS.unpack(_receive(process.stdout, LENGTHS.size))
    ending, shapes, header = pickle.loads(_receive(process.stdout, lengths[0]))
    return Part(ending, header, Store.unpack(shapes, _receive(process.stdout, lengths[1])))


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
    descriptor: int,
    begin: int,
    size: int,
    reader: Reader,
    count: int,
    advance: Callable[[int], None],
    block: int = BLOCK,
) -> Ending:
    """Read the events from `begin` to the end of the file with `count` processes, this one included.

    The store of `reader` receives the stretches in order, so that the outcome is that of reading in one piece.
    """
    assert reader.separator is not None
    store = reader.store
    stretches = cut(descriptor, begin, size, reader.separator, block)
    crew = _Crew(descriptor, stretches, reader, min(count - 1, len(stretches) - 1))
    mine = Reader(Store(), reader.bare, reader.size)
    mine.separator = reader.separator
    done = 0
    try:
        while done < len(stretches):
            number = crew.take()
            if number >= 0:
                first, last = stretches[number]
                final = number == len(stretches) - 1
                ending = read_stretch(descriptor, first, last, final, mine)
                crew.put(number, Part(ending, *mine.store.pack()))
            with crew.news:
                while done not in crew.parts and number < 0:
                    crew.news.wait(0.2)
                    if done not in crew.parts:
                        advance(stretches[done][0])
            while done in crew.parts:
                part = crew.parts.pop(done)
                ending, last = part.ending, stretches[done][1]
                if part.header:
                    store.absorb(part.header, part.arrays, (last - store.begin) / max(1, store.extent))
                advance(last)
                done += 1
                if ending.kind == "met" and done < len(stretches):
                    continue
                if ending.kind != "lost" and done == len(stretches):
                    return ending
                # Not where the next one begins: on in one piece.
                crew.close()
                at = ending.offset if ending.offset >= 0 else stretches[done - 1][0]
                return reader.read(Window(read_range(descriptor, at, size), at), True, advance)
    finally:
        crew.close()
    raise AssertionError("the last stretch has an ending of its own")
