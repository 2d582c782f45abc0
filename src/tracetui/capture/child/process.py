"""This process, as Linux has it: its memory, its threads, and the processes that it forks."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import warnings

FORKS = ("ignore", re.compile("This process .* is multi-threaded, use of fork"), DeprecationWarning, None, 0)
"""Python 3.12 warns where a process with threads forks, after the hooks of the fork have run, or before."""


def memory() -> tuple[int, float]:
    """(bytes that this process has for itself, bytes that are free); (0, inf) where Linux does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            _, resident, shared, *_ = map(int, file.read().split())
        with open("/proc/meminfo", encoding="ascii") as file:
            free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        return 0, float("inf")
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE"), free


def threads() -> int:
    """How many it has; 0 where Linux does not tell."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


def warn_of_forks(yes: bool) -> None:
    """Whether Python may warn of a fork with threads: not where there are none but ours."""
    with contextlib.suppress(ValueError):
        warnings.filters.remove(FORKS)  # type: ignore[attr-defined]
    if not yes:
        warnings.filters.insert(0, FORKS)  # type: ignore[attr-defined]


def end_without_destructors() -> None:
    """Have this forked process end as by `_exit` when Python itself has ended.

    Kineto waits at exit for threads of its own, which are not in a forked process. (glibc)
    """
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        on_exit, flush_all = libc.on_exit, libc.__cxa_atexit
        on_exit(libc._exit, None)
        flush_all(libc.fflush, None, None)  # before that
