"""Cutting a text into stretches for several processes, and how many of those it is worth."""

from __future__ import annotations

import math
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from tracetui.formats.chrome_json.scan import Separator
from tracetui.formats.window import Window

BLOCK = 1 << 24
"""Bytes of a stretch of a plain file."""
SENT_BLOCK = 1 << 22
"""Bytes of a stretch of text that is sent to a worker."""
_WORTH = 3 << 25
"""From so many bytes on (100 MB) a second process saves more than it costs."""
_MOST = 16


def usable_cores() -> int:
    """Cores that this process may use: its affinity, and the quota of its control group."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count() or 1
    quota = _quota(Path("/sys/fs/cgroup"))
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def _quota(folder: Path) -> float | None:
    """The control group's limit in cores, None for none."""
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


def possible() -> bool:
    """Whether several processes can read here."""
    return os.name == "posix" and hasattr(os, "preadv") and bool(sys.executable)


def worth(size: int) -> int:
    """How many processes, this one included, should read a text of `size` bytes."""
    if size < _WORTH:
        return 1
    return max(1, min(usable_cores(), 1 + size // (_WORTH // 2), _MOST))


@dataclass(frozen=True, slots=True)
class Stretch:
    """Part of the text from where an event begins to where the next stretch does."""

    number: int
    begin: int
    end: int
    final: bool
    text: bytes | None = None
    """The text itself, where it cannot be read from the file."""


class Supply:
    """Stretches one after the other, cut at the separator.

    Plain files are cut by looking at the places where stretches should end; `window`, from which text is
    taken, is for what can only be read from front to back.
    """

    def __init__(
        self,
        separator: Separator,
        begin: int,
        end: int,
        block: int,
        descriptor: int,
        window: Window | None = None,
    ) -> None:
        self.descriptor = -1 if window is not None else descriptor
        self._file = descriptor
        self._separator = separator
        self._at = begin
        self._end = end
        self._block = block
        self._window = window
        self._number = 0
        self._over = False
        self._lock = threading.Lock()

    def next(self) -> Stretch | None:
        """The next stretch, None after the last. Raises OSError as reading the file does."""
        with self._lock:
            if self._over:
                return None
            stretch = self._cut() if self._window is None else self._send(self._window)
            self._number += 1
            self._at = stretch.end
            self._over = stretch.final
            return stretch

    def _cut(self) -> Stretch:
        target = self._at + self._block
        while target + self._block // 2 < self._end:
            text = os.pread(self._file, 1 << 20, target)
            at = text.find(self._separator.text)
            if at >= 0:
                return Stretch(self._number, self._at, target + at + self._separator.brace, False)
            target += self._block
        return Stretch(self._number, self._at, self._end, True)

    def _send(self, window: Window) -> Stretch:
        want = self._block
        while True:
            window.fill(want)
            at = window.buffer.rfind(self._separator.text, 1, window.size + 1) - 1
            if window.ended or at < 0:
                # The last one; or text without a border, which is read in one piece as it comes.
                if not window.ended and window.size < 1 << 26:
                    want = window.size * 2
                    continue
                final = window.ended
                size = window.size
            else:
                final, size = False, at + self._separator.brace
            begin = window.offset
            text = window.text(size)
            window.skip(size)
            return Stretch(self._number, begin, begin + size, final, text)
