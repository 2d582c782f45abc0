"""The cores and memory that this process may use, and running tasks on several cores at once."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_MALLOC = (-8, 1), (-3, 1 << 25), (-1, 1 << 26)
"""Of mallopt(3): the number of arenas; the size from which a piece is given back as soon as it is free; how
much free memory is kept at the end of the arena."""
ARENAS = "MALLOC_ARENA_MAX"
BLAS_THREADS = "OPENBLAS_NUM_THREADS"
NEEDED = 350
"""Bytes per slice of a trace in the viewer, with all results, at the most."""
MARGIN = 400 << 20
"""Bytes that a viewer in a browser may take besides: for screens of any size, threads, exports."""
PART = 1 << 18
"""Rows of a column per thread: threads are not worth it for fewer."""
THREADS = 8
"""With more, threads wait for memory."""


def usable_cores() -> int:
    """Cores that this process may use: its affinity, and the quota of its control group."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    quota = _quota(Path("/sys/fs/cgroup"))
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


@cache
def _quota(folder: Path) -> float | None:
    """The control group's limit in cores when first asked, None for none."""
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


def import_numpy() -> None:
    """Import numpy without the threads that its BLAS library starts, one per core: they spin for a tenth of a
    second, and nothing here multiplies matrices. Programs started later get the default again."""
    share_free_memory()
    if BLAS_THREADS in os.environ:
        return
    os.environ[BLAS_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[BLAS_THREADS]


@cache
def memory() -> int:
    """Bytes of memory that this process may use: the machine's, or the limit of a control group it is in."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        total = 1 << 40  # not known
    for limit in _memory_limits():
        try:
            total = min(total, int(limit.read_text()))
        except (OSError, ValueError):
            continue
    return total


def _memory_limits() -> Iterator[Path]:
    """The files that may hold a limit: of the process's control group and those around it, such as a job's of
    a cluster, in both versions of control groups."""
    root, names = Path("/sys/fs/cgroup"), {"": "memory.max", "memory": "memory/memory.limit_in_bytes"}
    yield from (root / name for name in names.values())  # all that a container sees
    try:
        lines = Path("/proc/self/cgroup").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for _, kinds, group in (line.split(":", 2) for line in lines if line.count(":") > 1):
        for kind in names.keys() & set(kinds.split(",")):
            own = root / kind / group.strip("/")
            for folder in (own, *own.parents)[: len(own.parts) - len((root / kind).parts)]:
                yield folder / Path(names[kind]).name


def memory_for_events() -> int:
    """Bytes that the events of one trace may take: two thirds of the memory."""
    return memory() * 2 // 3


def is_short_of_memory(slices: int) -> bool:
    """Whether a trace of so many slices and all that is found out about it may not fit in the memory."""
    return slices * NEEDED > memory()


def limit_memory(slices: int) -> None:
    """Let this process take no more memory, from now on, than a trace of so many slices and all that is found
    out about it need, and a margin. Only Linux can; beyond, there is a MemoryError."""
    if sys.platform != "linux":
        return
    import resource

    with suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        pages = int(Path("/proc/self/statm").read_text().split()[5])
        limit = pages * resource.getpagesize() + slices * NEEDED + MARGIN
        if most == resource.RLIM_INFINITY or limit < most:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def release_memory(size: int) -> None:
    """Give free memory back to the system: glibc keeps much of what each thread allocated. Does nothing after
    reading a small file (of `size` bytes)."""
    if sys.platform == "linux" and size > 1 << 20:
        with suppress(OSError, AttributeError):  # another library of C
            ctypes.CDLL(None).malloc_trim(0)


@cache
def share_free_memory() -> None:
    """Let all threads allocate from one arena, and give only large free pieces back to the system: glibc
    would keep free memory for each thread, and memory that is new to a process costs more time than numpy's
    work on it. For the main thread, before others start. The user's own MALLOC_ARENA_MAX is respected."""
    if sys.platform == "linux" and ARENAS not in os.environ:
        with suppress(OSError, AttributeError):  # another library of C
            library = ctypes.CDLL(None)
            for what, value in _MALLOC:
                library.mallopt(what, value)


@contextmanager
def no_collections(stay: bool = False) -> Iterator[None]:
    """Pause garbage collection while very many small objects are made that form no cycles. `stay`: they stay,
    so collections pass over them, and over all that is there by then, until `gc.unfreeze`."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if stay:
            gc.freeze()
        if enabled:
            gc.enable()


def no_op() -> None:
    """Wait for nothing."""


yield_to_ui: Callable[[], object] = no_op
"""Called before each task of `run_parallel` and each analysis. In the viewer it waits while keys are
pressed."""

_BLOCK = 1 << 16
_MOST = 8
"""Threads for everything that runs in parallel: with more, they wait for each other."""
_SHORT = 1 << 17
_pool: ThreadPoolExecutor | None = None


def _forget() -> None:
    """A forked process has none of the threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def run_parallel(
    tasks: Sequence[Callable[[], T]], most: int | None = None, gives_way: bool = True
) -> list[T]:
    """The results of all tasks, run in at most this many threads; by default, one per core. Worth it for
    tasks that release the interpreter's lock for long, as numpy does in loops over long arrays. `gives_way`:
    to keys, before each task.

    A task may call this itself: a caller runs tasks that nobody else has begun, and waits for nothing else.
    """
    global _pool
    # For the thread that answers keys, none of the others gives way to them.
    run = _in_turn if gives_way and threading.current_thread() is not threading.main_thread() else _now
    count = min(len(tasks), most or _MOST)
    if count < 2 or (count := min(count, usable_cores())) < 2:
        return [run(task) for task in tasks]
    if _pool is None:
        _pool = ThreadPoolExecutor(_MOST, "together")
    left = deque(enumerate(tasks))
    found: dict[int, T] = {}

    def work() -> None:
        while True:
            try:
                place, task = left.popleft()
            except IndexError:
                return
            found[place] = run(task)

    others = [_pool.submit(work) for _ in range(count - 1)]
    try:
        work()
    finally:
        left.clear()
        started = [other for other in others if not other.cancel()]
        wait(started)
    for other in started:
        other.result()
    return [found[place] for place in range(len(tasks))]


def threads_for(count: int) -> int:
    """The most threads that are worth it for columns of this length: work on short ones is done before a
    thread has started."""
    return _MOST if count > _SHORT else 1


def _now(task: Callable[[], T]) -> T:
    return task()


def _in_turn(task: Callable[[], T]) -> T:
    yield_to_ui()
    return task()


def map_blocks(count: int, work: Callable[[slice], T], size: int = _BLOCK) -> list[T]:
    """The results of `work` for the parts of [0, count), in order, computed in several threads. Intermediate
    results of a part fit in the processor's cache, which alone often makes it worth it."""
    parts = [partial(work, slice(at, min(at + size, count))) for at in range(0, count, size)]
    return run_parallel(parts, threads_for(count))
