"""The dock at the foot of the screen: the lanes and counters of the devices, however many threads there are.

The tracks of a device stand together, below a rule with its name. A dock that would take more than half of
the screen scrolls by itself. Arrays over the tracks have the shape (tracks,).
"""

from __future__ import annotations

import numpy as np

from tracetui.trace.model import I32, I64, Bool

TALL = 3
"""Lines that the first row of a stream takes where there is room."""
COUNTERS = 2
"""Lines kept free for a device's counters, which come later."""
MEMORY_COUNTERS = 2
"""As many more where memory was recorded: what is allocated, and what is reserved."""


class Stack:
    """Tracks on top of each other."""

    def __init__(self, tracks: I64, shown: I32, ruled: Bool | None = None) -> None:
        """`tracks`: from top to bottom. `shown`: lines of all tracks. `ruled`: which have a rule above."""
        self.tracks, self.ruled = tracks, ruled
        heights = shown[tracks].astype(np.int64)
        self.bottoms = np.cumsum(heights if ruled is None else heights + ruled)
        """The line after each track's last one."""
        self.starts = self.bottoms - heights
        """The first line of each track, below its rule."""

    @property
    def height(self) -> int:
        return int(self.bottoms[-1]) if len(self.bottoms) else 0

    @property
    def rules(self) -> int:
        """How many rules there are."""
        return 0 if self.ruled is None else int(self.ruled.sum())

    def start(self, track: int) -> int:
        """A track's first line, -1 if it is not here."""
        at = np.flatnonzero(self.tracks == track)
        return int(self.starts[at[0]]) if len(at) else -1

    def pieces(self, top: int, stop: int) -> list[tuple[int, int, int]]:
        """What is on lines `top` to `stop`, as (track, from its line, to its line); line -1 is its rule."""
        found = []
        stop = min(stop, self.height)
        while top < stop:
            at = int(np.searchsorted(self.bottoms, top, side="right"))
            start, end = int(self.starts[at]), min(stop, int(self.bottoms[at]))
            found.append((int(self.tracks[at]), top - start, end - start))
            top = end
        return found


def by_device(tracks: I64, source: I32, device: I32, shown: I32, later: Bool) -> Stack:
    """Tracks of devices on top of each other, by recording and device, with a rule above each device.
    `later`: which of `tracks` come after the others of their device."""
    group = np.stack([source[tracks], device[tracks]])
    order = np.lexsort((tracks, later, group[1], group[0]))
    ruled = np.asarray(np.diff(group[:, order], axis=1, prepend=-1).any(axis=0))
    return Stack(tracks[order], shown, ruled)


def most_lines(room: int, others: int) -> int:
    """The most lines that the dock may take: half of `room`, or what the `others` leave."""
    return max(room // 2, room - others)


def fit_dock(
    shown: I32,
    rows: I32,
    stream: Bool,
    other: Bool,
    docked: Bool,
    room: int,
    rules: int,
    counters: int = COUNTERS,
) -> int:
    """Set the visible lines of the docked tracks that may change, so that they fit into `room` lines below
    `rules` rules. Streams come first. Returns how many lines to leave to the dock.

    `shown`: of all tracks, changed in place; `rows`: the rows that each has; `stream`, `other`: which streams
    and which other lanes of devices may change; `docked`: what is in the dock; `counters`: lines
    that are kept free for those of each device.
    """
    shown[other] = np.minimum(shown[other], 1)
    shown[stream] = np.minimum(shown[stream], deepest(shown, stream, docked, room))
    room -= counters * rules
    whole = stream & (shown == rows)
    for _ in range(TALL - 1):
        if int(shown[docked].sum()) + int(whole.sum()) <= room:
            shown[whole] += 1
    shown[other] = np.minimum(rows[other], deepest(np.where(other, rows, shown), other, docked, room))
    # Counters that come do not push threads off the screen.
    return min(int(shown[docked].sum()), room) + (1 + counters) * rules


def deepest(shown: I32, part: Bool, among: Bool, room: int) -> int:
    """The most rows per track of `part` with which the lines of `among` fit; at least one."""
    rest = int(shown[among & ~part].sum())
    mine = shown[among & part]
    low, high = 1, int(mine.max(initial=1))
    while low < high:
        middle = (low + high + 1) // 2
        if rest + int(np.minimum(mine, middle).sum()) <= room:
            low = middle
        else:
            high = middle - 1
    return low
