"""Traces made by hand."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from tracetui.timeline.arrangement import opened
from tracetui.timeline.busy import busy_of
from tracetui.timeline.palette import Palette
from tracetui.timeline.rows import Rows
from tracetui.timeline.scene import Scene, Source
from tracetui.timeline.series import counters
from tracetui.timeline.themes import DARK, Theme
from tracetui.timeline.track_layout import lay_out
from tracetui.timeline.viewport import Viewport, fit
from tracetui.trace.model import NO_ID, Counters, Instants, Kind, Lane, Process, Trace, TraceInfo

Slice = tuple[int, int, int, str]
"""Lane, start, duration (nanoseconds), name. Slices of one lane must nest."""


class NoFile:
    def read(self, sources: Sequence[int]) -> list[dict[str, object]]:
        return [{} for _ in sources]


def trace_of(
    slices: Sequence[Slice],
    *,
    streams: Sequence[int] = (),
    launches: dict[int, int] | None = None,
    counters: Sequence[tuple[str, int, float]] = (),
    lane_name: str = "thread {}",
) -> Trace:
    """A trace whose lanes in `streams` are those of device 0 and hold kernels; the others hold ops."""
    lanes = max([s[0] for s in slices], default=-1) + 1
    ordered = sorted(slices, key=lambda s: (s[0], s[1], -s[2]))
    n = len(ordered)
    names = list(dict.fromkeys(s[3] for s in ordered))
    depth, parent = np.zeros(n, np.int32), np.full(n, -1, np.int32)
    stack: list[int] = []
    for i, (lane, start, length, _) in enumerate(ordered):
        while stack and (
            ordered[stack[-1]][0] != lane
            or ordered[stack[-1]][1] + ordered[stack[-1]][2] < start + max(1, length)
        ):
            stack.pop()
        parent[i] = stack[-1] if stack else -1
        depth[i] = len(stack)
        stack.append(i)
    lane_of = np.array([s[0] for s in ordered], np.int32)
    made = []
    for lane in range(lanes):
        mine = np.flatnonzero(lane_of == lane)
        first = int(mine[0]) if len(mine) else 0
        device = lane in streams
        made.append(
            Lane(
                1 if device else 0, str(lane), f"stream {lane}" if device else lane_name.format(lane),
                "stream" if device else "thread", 0 if device else -1, first, first + len(mine),
                int(depth[mine].max()) + 1 if len(mine) else 0
            )
        )  # fmt: skip
    launch = np.full(n, -1, np.int32)
    for device_event, runtime in (launches or {}).items():
        launch[device_event] = runtime
    kind = np.where(np.isin(lane_of, streams), int(Kind.KERNEL), int(Kind.CPU_OP)).astype(np.int8)
    start = np.array([s[1] for s in ordered], np.int64)
    duration = np.array([s[2] for s in ordered], np.int64)
    series = list(dict.fromkeys(c[0] for c in counters))
    samples = sorted(counters, key=lambda c: (series.index(c[0]), c[1]))
    none32, none64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
    return Trace(
        info=TraceInfo("made", 0, 0, 0, None), names=names, categories=("cpu_op", "kernel"),
        processes=(Process("1", "python", "", 0, -1), Process("0", "GPU 0", "", 0, 0)), lanes=tuple(made),
        start=start, duration=duration, name=np.array([names.index(s[3]) for s in ordered], np.int32),
        category=(kind == Kind.KERNEL).astype(np.int16), kind=kind, lane=lane_of, depth=depth, parent=parent,
        correlation=np.full(n, NO_ID, np.int64), external_id=np.full(n, NO_ID, np.int64), launch=launch,
        op=np.full(n, -1, np.int32), source=np.arange(n, dtype=np.int64), flow_from=none32, flow_to=none32,
        flow_kind=(), flow_category=np.zeros(0, np.int8),
        instants=Instants(none64, none32, np.zeros(0, np.int16), none32, none64),
        counters=Counters(
            np.array([c[1] for c in samples], np.int64),
            np.array([series.index(c[0]) for c in samples], np.int32),
            np.array([c[2] for c in samples], np.float64), tuple(series), tuple(0 for _ in series)
        ),
        notices=(), implausible=np.zeros(n, np.bool_), phases={"X": n},
        first_view=(int(start.min()), int((start + duration).max())) if n else (0, 1), reader=NoFile()
    )  # fmt: skip


def scene_of(
    trace: Trace,
    view: Viewport | None = None,
    *,
    width: int = 80,
    height: int = 20,
    theme: Theme = DARK,
    short: Callable[[int], str] | None = None,
) -> Scene:
    low, high = trace.first_view
    source = Source(
        trace, Rows(trace), Palette(trace, theme), short or (lambda n: trace.names[n]), busy_of(trace),
        series=tuple(counters(trace))
    )  # fmt: skip
    layout = lay_out([trace], height).with_counters(len(source.series))
    return Scene((source,), view or fit(low, high, width), layout, span=(low, max(high, low + 1)))


def together(*parts: tuple[Scene, int], view: Viewport | None = None, height: int = 40) -> Scene:
    """Scenes of one recording each as one of several, each with its offset, called "run 1", "run 2", ..."""
    sources = tuple(
        replace(scene.source, offset=offset, title=f"run {n}") for n, (scene, offset) in enumerate(parts, 1)
    )
    lows, highs = zip(*(source.span for source in sources), strict=True)
    span = min(lows), max(highs)
    return Scene(sources, view or fit(*span, 80), opened(sources, height), span=span)


@pytest.fixture(scope="session")
def make() -> Callable[..., Trace]:
    return trace_of


@pytest.fixture(scope="session")
def make_scene() -> Callable[..., Scene]:
    return scene_of
