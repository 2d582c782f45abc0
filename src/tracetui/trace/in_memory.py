"""A file in memory: mapped at once where that is safe, and copied soon after; otherwise read.

Reading a large file is slow mostly because it needs so much new memory. Mapping it needs none. But anyone
who truncates a mapped file kills the process, and anyone who writes to it changes numbers under the analyses.
Under a lease, Linux makes them wait, for up to 45 s. So the file is mapped with a lease, which ends as soon
as all of it has been copied. If no lease is granted, as for files on other machines, the file is read.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import IO, NamedTuple

import numpy as np

from tracetui.core import threads
from tracetui.core.columns import Array

WORTH = 1 << 24
"""Files of at least this many bytes are mapped."""
AFTER = 5.0
"""Seconds until it is copied: by then the first picture is on the screen, even if other programs are busy."""
_PIECE = 1 << 24
"""Bytes that are copied at a time."""
_HUGE = 1 << 21
"""Bytes of a large page."""
_PROCESSORS = ("x86_64", "aarch64")
"""Processors for which the numbers below are right."""
_FIXED = 0x10  # of mmap
_WANT_HUGE, _POPULATE_READ = 14, 22  # of madvise
_MAY_MOVE_TO = 3  # of mremap


class InMemory(NamedTuple):
    """The beginning of a file; it may not be in memory yet."""

    bytes: Array
    """To be read only. Shape (size,), uint8."""
    bring: Callable[[slice], bool]
    """Brings a range of the bytes into memory; False if they cannot be read. Call it before using them;
    several threads may call it."""
    keep: Callable[[], None]
    """Call this if the bytes will be used for long."""


def in_memory(file: IO[bytes], size: int) -> InMemory:
    """The first `size` bytes of an opened file."""
    if size >= WORTH and sys.platform == "linux" and sys.maxsize >> 32 and os.uname().machine in _PROCESSORS:
        with suppress(OSError, AttributeError):
            return _mapped(file.fileno(), size)
    return _read(file, size)


# -- reading


def _read(file: IO[bytes], size: int) -> InMemory:
    found = np.empty(size, dtype=np.uint8)
    view, fill = memoryview(found), _filler(file)  # type: ignore[arg-type]

    def bring(part: slice) -> bool:
        at = part.start
        while at < part.stop and (count := fill(view[at : part.stop], at)):
            at += count
        return bool(at == part.stop)

    return InMemory(found, bring, lambda: None)


def _filler(file: IO[bytes]) -> Callable[[memoryview, int], int]:
    """A function that reads from an offset into memory; several threads may call it."""
    if hasattr(os, "preadv"):
        return lambda part, offset: os.preadv(file.fileno(), [part], offset)
    lock = threading.Lock()

    def fill(part: memoryview, offset: int) -> int:
        with lock:
            file.seek(offset)
            count: int = file.readinto(part)  # type: ignore[attr-defined]
            return count

    return fill


# -- mapping


def _mapped(descriptor: int, size: int) -> InMemory:
    """Raises OSError if there is no lease, or Linux is too old."""
    system = _system()
    # Python's own mapping; the file is mapped inside it, at the start of a large page.
    whole = mmap.mmap(-1, size + 2 * _HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    first = ctypes.addressof(ctypes.c_char.from_buffer(whole))
    offset = -first % _HUGE
    address = first + offset
    leased = _leased(descriptor)
    end_lease = weakref.finalize(whole, os.close, leased)
    end_lease.atexit = False
    if os.fstat(leased).st_size < size:
        raise OSError
    rights = mmap.PROT_READ | mmap.PROT_WRITE
    if system.mmap(address, size, rights, mmap.MAP_PRIVATE | _FIXED, leased, 0) != address:
        raise OSError

    def bring(part: slice) -> bool:
        """Fails if the disk does; touching bytes that are not in memory would then kill the process."""
        begin = part.start - part.start % mmap.PAGESIZE
        return bool(system.madvise(address + begin, part.stop - begin, _POPULATE_READ) == 0)

    if not bring(slice(0, 1)):
        raise OSError
    alive = weakref.ref(whole)

    def copy() -> None:
        time.sleep(AFTER)
        there = alive()
        for at in range(0, size if there is not None else 0, _PIECE):
            threads.yield_to_ui()
            if not _copy(system, leased, at, min(_PIECE, size - at), address + at):
                return  # no memory left: the rest stays mapped
        end_lease()

    keep = threading.Thread(target=copy, name="copy kept trace", daemon=True).start
    return InMemory(np.frombuffer(whole, dtype=np.uint8, count=size, offset=offset), bring, keep)


def _system() -> ctypes.CDLL:
    system = ctypes.CDLL(None)
    address, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    system.mmap.argtypes = [address, size, number, number, number, ctypes.c_int64]
    system.mremap.argtypes = [address, size, size, number, address]
    system.mmap.restype = system.mremap.restype = address
    system.munmap.argtypes = [address, size]
    system.madvise.argtypes = [address, size, number]
    return system


def _leased(descriptor: int) -> int:
    """A descriptor of the same file, with a lease until it is closed. Raises OSError."""
    import fcntl

    leased = os.dup(descriptor)
    try:
        # The kernel signals that somebody is waiting; this signal does nothing.
        fcntl.fcntl(leased, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except BaseException:
        os.close(leased)
        raise
    return leased


def _copy(system: ctypes.CDLL, descriptor: int, offset: int, size: int, address: int) -> bool:
    """Replace the pages of a part of the file by a copy, in one step for all threads; False if that is not
    possible."""
    size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    room = size + _HUGE
    rights, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    first = system.mmap(None, room, rights, flags, -1, 0)
    if first in (None, ctypes.c_void_p(-1).value):
        return False
    made = first + -first % _HUGE
    system.madvise(made, size, _WANT_HUGE)
    with memoryview((ctypes.c_char * size).from_address(made)).cast("B") as view:
        done = 0
        while done < size and (count := os.preadv(descriptor, [view[done:]], offset + done)):
            done += count
    moved = bool(system.mremap(made, size, size, _MAY_MOVE_TO, address) == address)
    left = [(first, made - first), (made + size, first + room - made - size)]
    for begin, length in left if moved else [(first, room)]:
        if length:
            system.munmap(begin, length)
    return moved
