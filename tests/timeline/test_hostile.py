"""Numbers and names that no profiler means: nothing of them may stop the drawing."""

import dataclasses
from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len

from tracetui.core.safe_text import plain
from tracetui.timeline import moves
from tracetui.timeline.frame import paint
from tracetui.timeline.scene import Idle, Scene
from tracetui.timeline.track_layout import lay_out
from tracetui.timeline.viewport import fit
from tracetui.trace.model import Lane, Trace

Make = Callable[..., Trace]
MakeScene = Callable[..., Scene]
times = st.one_of(st.integers(-(2**62), 2**62), st.integers(0, 1000), st.sampled_from([0, 2**53, -1, 2**62]))
lengths = st.one_of(st.integers(0, 2**62), st.integers(0, 100), st.sampled_from([0, 1, 2**62]))


@settings(deadline=None)
@given(
    st.lists(st.tuples(times, lengths), min_size=1, max_size=30), st.integers(1, 120),
    st.lists(
        st.sampled_from(["in", "out", "left", "right", "next", "previous", "up", "down", "f"]), max_size=12
    ),
    st.text(max_size=20)
)  # fmt: skip
def test_any_times(make, make_scene, slices, width, steps, name):
    # Slices overlap as they please: also what the loader promises is not relied upon.
    name = plain(name)
    trace = make([(i % 2, 0, 0, name) for i in range(len(slices))], streams=[1])
    start = np.sort(np.array([s for s, _ in slices], np.int64))
    trace = dataclasses.replace(trace, start=start, duration=np.array([d for _, d in slices], np.int64))
    low, high = int(start[0]), int(start[-1])
    gaps = {0: Idle(start[:-1], start[1:])}
    scene = make_scene(trace, fit(low, high, width)).having(gaps=gaps)
    scene = replace(scene, span=(low, max(high, low + 1)))
    scene = moves.look(scene, scene.view)
    for step in steps:
        if step in ("in", "out"):
            scene = moves.zoomed(scene, 7.0 if step == "in" else 1 / 7, None)
        elif step == "f":
            scene = moves.centered(scene)
        elif step in ("left", "right"):
            cells = 50 if step == "right" else -50
            scene = moves.look(scene, replace(scene.view, start=scene.view.start + cells * scene.view.cell))
        elif (found := moves.stepped(scene, step)) is not None:
            scene = moves.revealed(moves.chosen(scene, found[1]), found[1], 20, closer=True)
        canvas = paint(scene, 12)
        assert all(cell_len(canvas.text(y)) == canvas.width for y in range(12))


def test_a_million_lanes_do_not_hang(make, make_scene):
    n = 100_000
    base = make([(0, 0, 10, "a")])
    trace = dataclasses.replace(
        base, lanes=tuple(Lane(0, str(i), f"t{i}", "thread", -1, i, i + 1, 1) for i in range(n)),
        **{
            name: np.repeat(getattr(base, name), n) for name in (
                "duration", "name", "kind", "depth", "parent", "launch", "implausible", "category"
            )
        },
        start=np.arange(n, dtype=np.int64), lane=np.arange(n, dtype=np.int32), first_view=(0, n)
    )  # fmt: skip
    scene = replace(make_scene(trace), layout=lay_out([trace], 20))
    scene = moves.revealed(moves.chosen(scene, n - 1), n - 1, 20, closer=True)
    assert scene.top > n - 40
    assert f"t{n - 1}" in "".join(paint(scene, 20).text(y) for y in range(20))
