#!/usr/bin/env python3
"""How the app answers over a slow link: a held key on 1 Mbit/s with 80 ms of delay.

    python benchmarks/link.py [TRACE] [--size 200x50] [--rate 1.0] [--delay 80] [--keys dad] [--hold 2.0]

Runs `tracetui open TRACE` in a pseudo-terminal and is the link itself: what the app writes is taken from
the terminal no faster than --rate (Mbit/s), so its writes block as they would behind a full TCP window, and
what is typed reaches it after --delay (ms, there and back). The key is held at 30 presses a second; printed
is how long after the last press the picture has settled, which is when the last byte has come down the
link, with the delay counted in.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import time
from pathlib import Path

from terminal import viewer

RAW = argparse.RawDescriptionHelpFormatter
SAMPLE = Path(__file__).resolve().parent.parent / "sample_traces" / "train.json.gz"
QUIET = 0.35
"""Seconds of silence after which the picture counts as settled."""


class Link:
    """A terminal at the far end of a link: reads `rate` bytes a second at most, delivers keys late."""

    def __init__(self, fd: int, rate: float, delay: float) -> None:
        self.fd, self.rate, self.delay = fd, rate, delay
        self.keys: list[tuple[float, bytes]] = []
        self.free_at = time.perf_counter()
        self.last = self.free_at
        self.bytes = 0

    def press(self, key: bytes) -> None:
        self.keys.append((time.perf_counter() + self.delay, key))

    def turn(self, until: float) -> None:
        """Carry bytes both ways until the clock shows `until`."""
        while (now := time.perf_counter()) < until:
            while self.keys and self.keys[0][0] <= now:
                os.write(self.fd, self.keys.pop(0)[1])
            wake = min([until, *(at for at, _ in self.keys[:1])])
            if now < self.free_at:  # the link is still carrying the last piece
                time.sleep(max(0.0, min(wake, self.free_at) - now))
                continue
            if select.select([self.fd], [], [], max(0.0, min(0.002, wake - now)))[0]:
                piece = os.read(self.fd, max(1, int(self.rate * 0.004)))
                now = time.perf_counter()
                self.free_at = max(self.free_at, now) + len(piece) / self.rate
                self.last = self.free_at
                self.bytes += len(piece)

    def settle(self, limit: float) -> None:
        start = time.perf_counter()
        while time.perf_counter() - start < limit:
            self.turn(time.perf_counter() + 0.02)
            if not self.keys and time.perf_counter() - self.last > QUIET:
                return


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=RAW)
    parser.add_argument("trace", nargs="?", default=str(SAMPLE))
    parser.add_argument("--size", default="200x50")
    parser.add_argument("--rate", type=float, default=1.0, help="Mbit/s")
    parser.add_argument("--delay", type=float, default=80.0, help="ms, there and back")
    parser.add_argument("--keys", default="dad", help="keys to hold, one after the other")
    parser.add_argument("--before", default="w" * 14, help="keys pressed first, one at a time")
    parser.add_argument("--hold", type=float, default=2.0, help="seconds")
    parser.add_argument("--ssh", action="store_true", help="let the app know that it runs over SSH")
    a = parser.parse_args()
    columns, rows = map(int, a.size.split("x"))
    with viewer(a.trace, size=(columns, rows), ssh=a.ssh) as fd:
        drive(Link(fd, a.rate * 1e6 / 8, a.delay / 1e3), a)
    return 0


def drive(link: Link, a: argparse.Namespace) -> None:
    """Open, zoom in, hold the keys; print what came of it."""
    link.turn(time.perf_counter() + 2)
    link.settle(120)
    print(f"opened: {link.bytes / 1e3:.1f} kB over the link")
    for key in a.before:
        link.press(key.encode())
        link.settle(10)
    for held in a.keys:
        before, presses = link.bytes, int(a.hold * 30)
        start = time.perf_counter()
        for i in range(presses):
            link.turn(start + i / 30)
            link.press(held.encode())
        released = time.perf_counter()
        link.settle(60)
        sent = link.bytes - before
        print(
            f"held {held!r} for {a.hold:g} s at {a.size}, {a.rate:g} Mbit/s, {a.delay:g} ms: settles "
            f"{1e3 * (link.last - released):.0f} ms after the release, {sent / 1e3:.1f} kB, "
            f"{sent / presses / 1e3:.2f} kB per press"
        )


if __name__ == "__main__":
    sys.exit(main())
