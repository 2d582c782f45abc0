"""Lines from a cause to its effect, the ruler's ticks, how many launches wait: drawn or counted by hand."""

import dataclasses
import random
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from msgspec.structs import replace

from tracetui.core.units import parse_time
from tracetui.timeline.canvas import BOLD, Canvas
from tracetui.timeline.flows import paint_flows
from tracetui.timeline.ruler import ticks
from tracetui.timeline.scene import Scene
from tracetui.timeline.series import launches
from tracetui.timeline.themes import DARK
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Trace

Make = Callable[..., Trace]
MakeScene = Callable[..., Scene]
LINES = {
    # (lane, time) of the cause and of the effect: what is drawn on the four lanes
    ((0, 10), (3, 60)): ("", " │", " └────▼", ""),
    ((0, 60), (3, 10)): ("", "      │", " ▼────┘", ""),
    ((3, 10), (0, 60)): ("", " ┌────▲", " │", ""),
    ((3, 60), (0, 10)): ("", " ▲────┐", "      │", ""),
    ((0, 30), (2, 30)): ("", "   ▼", "", ""),
    ((2, 30), (0, 30)): ("", "   ▲", "", ""),
    ((0, 30), (3, 30)): ("", "   │", "   ▼", ""),
    ((0, 10), (1, 40)): ("", "    ▼", "", ""),
    ((1, 40), (0, 10)): (" ▲", "", "", ""),
    ((0, 10), (2, 20)): ("", " └▼", "", ""),
    ((0, 10), (0, 40)): ("", "", "", ""),
    ((0, 10), (3, 80)): ("", "", "", ""),  # off the screen
}
ASCII = str.maketrans("│─└┘┌┐▼▲", "|-++++v^")


@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("ends", LINES)
def test_a_line_from_cause_to_effect(ends, ascii, make, make_scene):
    lanes = [(lane, 0, 0, "x") for lane in range(4)]
    trace = make([*lanes, *((lane, at, 1, name) for (lane, at), name in zip(ends, "ab", strict=True))])
    number = {trace.name_of(i): i for i in range(len(trace))}
    scene = make_scene(trace, Viewport(0.0, 10.0, 8), theme=replace(DARK, ascii=ascii))
    scene = replace(scene, flows=((number["a"], number["b"]),))
    canvas = Canvas.blank(8, 4, DARK.text, DARK.paper)
    canvas.paper[2] = 20
    paint_flows(scene, scene.lines(4), canvas)
    expected = [line.translate(ASCII) if ascii else line for line in LINES[ends]]
    assert [canvas.text(y).rstrip() for y in range(4)] == expected
    drawn = canvas.glyph != ord(" ")
    assert (canvas.attributes[drawn] == BOLD).all()
    assert set(canvas.ink[[0, 1, 3]][drawn[[0, 1, 3]]].tolist()) <= {DARK.flow}
    over_a_bar = int(scene.source.palette.text_on(np.array([20], np.int16))[0])
    assert set(canvas.ink[2][drawn[2]].tolist()) <= {over_a_bar}


def test_ticks_say_their_time():
    rng = random.Random(2)
    for _ in range(300):
        scale = 10 ** rng.uniform(0, 9)
        view = Viewport(
            rng.choice((-1, 0, 1, 1, 1)) * 10 ** rng.uniform(0, 12), scale, rng.randrange(30, 200)
        )
        base, found = ticks(view)
        steps = {b.time_ns - a.time_ns for a, b in pairwise(found)}
        assert len(steps) <= 1
        step = steps.pop() if steps else 1
        assert str(step).rstrip("0") in ("1", "2", "5")
        for one in found:
            assert view.start_ns <= one.time_ns < view.end_ns
            assert one.column == view.column(one.time_ns)
            assert one.time_ns % step == 0
            assert one.label.startswith("+") == (base is not None)
            label = one.label.removeprefix("+")
            assert label == "0" or abs(parse_time(label) - (one.time_ns - (base or 0))) < 1
        if len(found) > 1:  # no two labels touch, and there are as many as fit
            assert all(len(one.label) + 1 <= found[1].column - found[0].column for one in found)
            assert found[0].time_ns < view.start_ns + step
            assert view.end_ns <= found[-1].time_ns + step
        if base is not None:
            assert 0 < base <= view.start_ns
            assert base % step == 0
            assert view.end_ns - base <= 110 * view.span_ns
        elif view.start_ns <= 0:
            assert base is None


@pytest.mark.parametrize("seed", range(8))
def test_delay_and_queue_at_any_moment(seed, make):
    """Launches on one thread, kernels one after the other on a stream, each after its launch or (by clocks
    that differ) a little before."""
    rng = random.Random(seed)
    slices, at = [], 0
    for n in range(rng.randrange(1, 9)):
        slices.append((0, 20 * n, 5, "launch"))
        at = max(at, 20 * n + rng.choice((-3, 0, 7, 40)))
        slices.append((1, at, rng.choice((0, 1, 15)), "k"))
        at += max(1, slices[-1][2]) + rng.choice((0, 0, 30))
    trace = make(slices, streams=[1])
    count = len(slices) // 2
    of_host, of_device = (np.flatnonzero(trace.lane == lane).tolist() for lane in (0, 1))
    pairs = dict(zip(of_device, of_host, strict=True))
    if seed % 2 and count > 2:
        pairs[of_device[2]] = of_host[1]  # two kernels of one launch
    launch = trace.launch.copy()
    launch[list(pairs)] = list(pairs.values())
    delay, queued = launches(dataclasses.replace(trace, launch=launch))
    first: dict[int, int] = {}
    for k, source in pairs.items():
        first[source] = min(first.get(source, 1 << 60), int(trace.start[k]))
    spans = [
        (int(trace.start[source]), int(trace.start[k]), int(trace.duration[k]), source)
        for k, source in pairs.items()
    ]
    moments = np.arange(-5, int(max(start + length for _, start, length, _ in spans)) + 50)
    waiting = queued.at(moments)
    delays = delay.at(moments)
    for n, moment in enumerate(moments.tolist()):
        begun = [s for s in spans if min(s[0], s[1]) <= moment]
        number = sum(start > moment for _, start, _, _ in begun)
        assert np.nan_to_num(waiting[n]) == number, moment
        live = any(min(a, b) <= moment < b + max(1, length) for a, b, length, _ in spans)
        last = max((s for s in spans if s[1] <= moment), key=lambda s: s[1], default=None)
        if not live or last is None or not any(s[1] <= moment for s in spans):
            assert live or np.isnan(delays[n]), moment
        else:
            since = [s for s in spans if s[1] <= moment]
            told = max(0, first[last[3]] - last[0])
            assert np.isnan(delays[n]) or delays[n] == told, (moment, since)
            inside = last[1] <= moment < last[1] + max(1, last[2])
            assert not inside or delays[n] == told, moment
