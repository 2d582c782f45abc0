"""The cost of a frame does not grow with the trace: 2 million events against 20 thousand, in one run.

    python benchmarks/frame.py [--events 20000 2000000] [--size 200x50] [--moves 60]

Both traces have the same lanes, rows and density of events per second, so that what is on the screen is
alike; the larger one is a hundred times longer. Also measured: both fitted whole, where a cell of the larger
one holds a hundred times more events. The moves of the two are timed in turns: noise meets both.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from tracetui.timeline.busy import busy_of
from tracetui.timeline.frame import paint
from tracetui.timeline.labels import label_width
from tracetui.timeline.palette import Palette
from tracetui.timeline.rows import Rows
from tracetui.timeline.scene import TOP, Idle, Scene, Source
from tracetui.timeline.themes import DARK
from tracetui.timeline.track_layout import lay_out
from tracetui.timeline.viewport import fit, pan, zoom
from tracetui.trace.model import NO_ID, Counters, Instants, Kind, Lane, Process, Trace, TraceInfo

THREADS, DEPTH, STREAMS = 3, 9, 4
SHRINK = 0.9
"""Share of its parent that a slice covers with its children."""
PERIOD = 400_000
"""Nanoseconds of one repetition of the pattern."""


class _NoFile:
    def read(self, sources: Sequence[int]) -> list[dict[str, Any]]:
        return [{} for _ in sources]


def made(events: int) -> Trace:
    """A trace with about so many slices: threads with nested ops, streams with kernels."""
    rng = np.random.default_rng(1)
    thread, stream = _thread_pattern(), _stream_pattern(rng)
    per = THREADS * len(thread[0]) + STREAMS * len(stream[0])
    times = max(1, events // per)
    columns: list[tuple[np.ndarray, ...]] = []
    lanes: list[Lane] = []
    first = 0
    for i in range(THREADS + STREAMS):
        on_device = i >= THREADS
        start, *others = (np.tile(column, times) for column in (stream if on_device else thread))
        n = len(start)
        start += np.repeat(np.arange(times, dtype=np.int64) * PERIOD, n // times)
        kinds = np.full(n, int(Kind.KERNEL if on_device else Kind.CPU_OP))
        columns.append((start, *others, np.full(n, i), kinds))
        rows = 1 if on_device else DEPTH
        kind = "stream" if on_device else "thread"
        lanes.append(
            Lane(int(on_device), str(i), f"{kind} {i}", kind, 0 if on_device else -1, first, first + n, rows)
        )
        first += n
    start, duration, depth, name, lane, kind = (np.concatenate(c) for c in zip(*columns, strict=True))
    n = len(start)
    none32, none64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
    names = [f"aten::op_{i}" if i < 64 else f"void kernel_{i}<float, 4>(float*)" for i in range(128)]
    return Trace(
        info=TraceInfo("made", 0, 0, 0, None),
        names=names,
        categories=("cpu_op", "kernel"),
        processes=(Process("1", "python", "", 0, -1), Process("0", "", "", 0, 0)),
        lanes=tuple(lanes),
        start=start,
        duration=duration,
        name=name.astype(np.int32),
        category=(kind == Kind.KERNEL).astype(np.int16),
        kind=kind.astype(np.int8),
        lane=lane.astype(np.int32),
        depth=depth.astype(np.int32),
        parent=np.full(n, -1, np.int32),
        correlation=np.full(n, NO_ID, np.int64),
        external_id=np.full(n, NO_ID, np.int64),
        launch=np.full(n, -1, np.int32),
        op=np.full(n, -1, np.int32),
        source=np.arange(n, dtype=np.int64),
        flow_from=none32,
        flow_to=none32,
        flow_kind=(),
        flow_category=np.zeros(0, np.int8),
        instants=Instants(none64, none32, np.zeros(0, np.int16), none32, none64),
        counters=Counters(none64, none32, np.zeros(0, np.float64)),
        notices=(),
        implausible=np.zeros(n, np.bool_),
        phases={"X": n},
        first_view=(0, times * PERIOD),
        reader=_NoFile(),
    )


def _thread_pattern() -> tuple[np.ndarray, ...]:
    found: list[tuple[int, int, int, int]] = []

    def nest(start: int, length: int, depth: int, name: int) -> None:
        found.append((start, length, depth, name % 64))
        if depth + 1 < DEPTH:
            parts = 2 if depth % 3 else 1
            each = int(length * SHRINK) // parts
            for part in range(parts):
                at = start + (length - parts * each) // 2 + part * each
                nest(at, each - each // 12, depth + 1, 7 * name + part)

    nest(0, PERIOD - PERIOD // 10, 0, 1)
    return tuple(np.array(sorted(found, key=lambda s: (s[0], -s[1])), dtype=np.int64).T)


def _stream_pattern(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    n = 60
    gaps = rng.integers(200, 3000, n)
    lengths = rng.integers(500, 6000, n)
    ends = np.cumsum(gaps + lengths)
    scale = PERIOD / (ends[-1] + 1000)
    lengths = (lengths * scale).astype(np.int64)
    start = (ends * scale).astype(np.int64) - lengths
    return start, lengths, np.zeros(n, np.int64), 64 + rng.integers(0, 64, n)


def scene_of(trace: Trace, width: int, height: int) -> Scene:
    devices = busy_of(trace)
    gaps = {0: Idle(devices[0].end[:-1], devices[0].start[1:])}
    palette = Palette(trace, DARK)
    source = Source(trace, Rows(trace), palette, lambda n: trace.names[n], devices, gaps=gaps)
    labels = label_width(width)
    low, high = trace.first_view
    layout = lay_out([trace], height - TOP)
    return Scene((source,), fit(low, high, width - labels), layout, labels=labels, span=(low, high))


def frames(scene: Scene, height: int, step: int) -> float:
    """Seconds of this thread for one frame: a pan and a zoom, painted and encoded."""
    begun = time.thread_time()
    for view in (pan(scene.view, step), zoom(scene.view, 1.1)):
        canvas = paint(replace(scene, view=view), height)
        for y in range(height):
            canvas.runs(y)
    return (time.thread_time() - begun) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, nargs=2, default=[20_000, 2_000_000])
    parser.add_argument("--size", default="200x50")
    parser.add_argument("--moves", type=int, default=60)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    scenes = [scene_of(made(n), width, height) for n in options.events]
    counts = [len(s.source.trace) for s in scenes]
    worst = 0.0
    for what, share in (("whole trace", None), ("5 ms", 5_000_000), ("200 µs", 200_000)):
        views = []
        for scene in scenes:
            middle = sum(scene.span) // 2
            view = fit(middle, middle + share, scene.view.width) if share else scene.view
            views.append(replace(scene, view=view))
        for scene in views:
            frames(scene, height, 0)  # rows are made when they are first seen
        taken: list[list[float]] = [[], []]
        for move in range(options.moves):
            for times, scene in zip(taken, views, strict=True):
                times.append(frames(scene, height, move % 7))
        small, large = (1e3 * statistics.median(t) for t in taken)
        # Each pair was timed within milliseconds: what else the machine does meets both.
        ratio = statistics.median(b / a for a, b in zip(*taken, strict=True))
        worst = max(worst, ratio)
        print(
            f"{what:>12}: {counts[0]:,} events {small:.2f} ms, {counts[1]:,} events {large:.2f} ms a frame,"
            f" {ratio:.2f} times"
        )
    print(f"worst ratio {worst:.2f} (at most 1.5 wanted)")


if __name__ == "__main__":
    main()
