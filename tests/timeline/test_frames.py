"""A chain of Python frames that span the view takes one row, and nothing else is hidden."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracetui.session.recording import Recording
from tracetui.session.session import Session
from tracetui.timeline.frame import paint
from tracetui.timeline.rows import Rows
from tracetui.timeline.scene import TOP
from tracetui.timeline.themes import DARK
from tracetui.timeline.track_layout import Of
from tracetui.trace import load
from tracetui.trace.model import Trace


def event(name: str, start: float, duration: float, cat: str = "python_function") -> dict[str, Any]:
    return {"ph": "X", "name": name, "cat": cat, "ts": start, "dur": duration, "pid": 1, "tid": 1}


CHAIN = [event(f"frame{n}", n, 1000 - 2 * n) for n in range(5)]
BELOW = [
    event("setup", 4.1, 0.5),  # beside nothing of the chain: below its innermost
    event("aten::mm", 100, 300, "cpu_op"),
    event("cudaLaunchKernel", 150, 10, "cuda_runtime"),
    event("step", 500, 300),
    event("aten::mm", 510, 200, "cpu_op"),
    event("early", 1.2, 0.6),  # below frame1, before frame2
    event("late", 997, 0.9),
]


def trace_of(tmp_path: Path, events: list[dict[str, Any]]) -> Trace:
    path = tmp_path / "frames.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return load(path)


def check_rows(trace: Trace, lane: int = 0) -> Rows:
    """Every slice but the hidden ones is in its row once, alone at its time, and below its parent."""
    rows, first, last = Rows(trace), trace.lanes[lane].first, trace.lanes[lane].last
    hidden = set(rows.frames(lane)[:-1].tolist())
    seen: list[int] = []
    for depth in range(rows.count(lane)):
        row = rows.row(lane, depth)
        assert len(row), "no row is empty"
        lengths = np.diff(row.total)
        assert (row.start[1:] >= (row.start + lengths)[:-1]).all()
        assert [rows.depth(i) for i in row.index.tolist()] == [depth] * len(row)
        seen += row.index.tolist()
    assert not len(rows.row(lane, rows.count(lane))), "what is not drawn is in no row"
    assert sorted(seen) == [i for i in range(first, last) if i not in hidden]
    for i in range(first, last):
        parent = int(trace.parent[i])
        if i not in rows.frames(lane) and parent >= 0 and trace.depth[i] == trace.depth[parent] + 1:
            assert rows.depth(i) == rows.depth(parent) + 1
    return rows


def test_a_chain_takes_one_row_and_the_rest_moves_up(tmp_path):
    trace = trace_of(tmp_path, CHAIN + BELOW)
    rows = check_rows(trace)
    names = [[trace.names[n] for n in rows.row(0, depth).name] for depth in range(rows.count(0))]
    assert names == [
        ["frame4"], ["early", "setup", "aten::mm", "step", "late"], ["cudaLaunchKernel", "aten::mm"]
    ]  # fmt: skip
    stack = rows.row(0, 0)
    assert int(stack.start[0]) == int(trace.start[0])
    assert int(stack.total[1]) == int(trace.duration[0]), "as long as the outermost"
    assert [rows.drawn(int(i)) for i in rows.frames(0)] == [int(rows.frames(0)[-1])] * 5


@pytest.mark.parametrize(("events", "frames"), [
    (CHAIN[:2] + BELOW, 0), (CHAIN[:3] + BELOW, 3), ([*CHAIN[:2], event("half", 2, 500), *BELOW], 0),
    ([event("forward", 0, 1000, "user_annotation"), *CHAIN[1:]], 4),
    ([{**one, "cat": "cpu_op"} for one in CHAIN], 0)
])  # fmt: skip
def test_only_python_frames_that_span_it_and_only_several(tmp_path, events, frames):
    assert len(check_rows(trace_of(tmp_path, events)).frames(0)) == frames


def test_what_crosses_a_frame_keeps_rows_of_its_own(tmp_path):
    crossing = [
        event("ProfilerStep#1", 1.5, 990, "user_annotation"), event("data", 1.6, 2, "user_annotation")
    ]  # fmt: skip
    trace = trace_of(tmp_path, CHAIN + BELOW + crossing)
    rows = check_rows(trace)
    assert trace.depth.max() >= 5 + 2
    assert rows.count(0) == trace.lanes[0].rows - 4


def test_any_stack(tmp_path):
    dice, folded = random.Random(3), 0

    def children(start: float, end: float, level: int) -> list[dict[str, Any]]:
        found, at = [], start
        for _ in range(dice.randrange(4) if level else 0):
            at += dice.random() * (end - at) / 3
            length = dice.random() * (end - at)
            cat = dice.choice(("python_function", "cpu_op"))
            found += [event(f"{level}", at, length, cat), *children(at, at + length, level - 1)]
            at += length
        return found

    for n in range(60):
        count = dice.randrange(3, 9)
        edges = sorted(dice.random() * 8 for _ in range(count))
        events = [event(f"frame{i}", at, 1000 - 2 * at) for i, at in enumerate(edges)]
        for at, after in zip(edges, [*edges[1:], 12], strict=True):
            events += children(at, after, 4) + children(1000 - after, 1000 - at, 4)
        events += children(12, 988, 6)
        for _ in range(n % 4):
            begin, end = sorted(dice.random() * 1000 for _ in range(2))
            events.append(event("crossing", begin, end - begin, "user_annotation"))
        folded += len(check_rows(trace_of(tmp_path, events)).frames(0)) > 0
    assert folded > 30


def test_the_rows_stay_where_they_are_at_every_zoom_and_say_what_they_stand_for(tmp_path):
    navigator = Session([Recording(trace_of(tmp_path, CHAIN + BELOW))], DARK).navigator
    lines = navigator.scene.lines(12)
    for factor in (1, 3, 3, 3, 3, 3, 3):
        navigator.zoom(factor)
        assert navigator.scene.lines(12) == lines
        assert "5 Python frames: frame0 … frame4" in paint(navigator.scene, 14).text(TOP)


def test_the_arrows_walk_the_chain_within_its_row(tmp_path):
    trace = trace_of(tmp_path, CHAIN + BELOW)
    navigator = Session([Recording(trace)], DARK).navigator
    assert navigator.move("next")
    before = navigator.scene.lines(12)
    assert trace.name_of(navigator.selected or 0) == "frame4", (
        "the first key selects what stands for the chain"
    )
    for n in (3, 2, 1, 0):
        assert navigator.move("up")
        assert trace.name_of(navigator.selected or 0) == f"frame{n}"
        assert navigator.scene.lines(12) == before, "nothing unfolds"
        canvas = paint(navigator.scene, 14)
        assert f"frame{n} ({n + 1} of 5 Python frames)" in canvas.text(TOP)
        assert DARK.selected in canvas.paper[TOP]
    for n in (1, 2, 3, 4):
        assert navigator.move("down")
        assert trace.name_of(navigator.selected or 0) == f"frame{n}"
    assert navigator.move("down")
    assert trace.name_of(int(trace.parent[navigator.selected or 0])) == "frame4"
    assert not any(line.more for line in before if line.of is Of.LANE)


def test_a_match_within_the_chain_lights_its_bar(tmp_path):
    trace = trace_of(tmp_path, CHAIN + BELOW)
    navigator = Session([Recording(trace)], DARK).navigator
    navigator.set_matches([np.array([trace.name_of(i) == "frame2" for i in range(len(trace))])])
    assert DARK.match in paint(navigator.scene, 14).paper[TOP]
    navigator.set_matches([np.array([trace.name_of(i) == "early" for i in range(len(trace))])])
    assert DARK.match not in paint(navigator.scene, 14).paper[TOP]
    navigator.set_matches(None)
    assert navigator.scene.source.matches is None
