"""Layouts without a terminal: what the recordings of a session are called, and where they lie on the axis."""

import json
from pathlib import Path

import pytest
from tests.kineto import cpu, run, step

from tracetui.session.layout import JOB, PAIR, SINGLE
from tracetui.session.recording import Recording
from tracetui.session.session import Session
from tracetui.timeline.frame import paint


def ranks(folder: Path, *numbers: object, apart: float = 100.0) -> list[Recording]:
    """A recording for each rank; each one's clock begins `apart` us after that of the one before."""
    found = []
    for n, number in enumerate(numbers):
        start = 1e6 + n * apart
        events = [step(1, start, 900), cpu("aten::mm", start + 10, 50), *run(start + 100, 300, 1)]
        path = folder / f"rank_{n}.json"
        path.write_text(json.dumps({"distributedInfo": {"rank": number}, "traceEvents": events}))
        found.append(Recording.open(path))
    return found


@pytest.mark.parametrize(("count", "layout"), [(1, SINGLE), (2, PAIR), (3, JOB), (8, JOB)])
def test_so_many_recordings_have_a_usual_layout(tmp_path, count, layout):
    assert Session(ranks(tmp_path, *range(count))).layout is layout


def test_two_recordings_may_be_a_job(tmp_path):
    session = Session(ranks(tmp_path, 3, 1), layout=JOB)
    scene = session.navigator.scene
    assert [scene.title(of) for of in range(2)] == ["3 rank_0", "1 rank_1"]
    # On the files' clock, while a pair would begin at the same time.
    assert [source.offset for source in scene.sources] == [0, 100_000]
    assert scene.span == (0, 1_000_000)
    session.lanes.resize(120, 30)
    canvas = paint(session.navigator.scene, 30)
    shown = "\n".join(canvas.text(y) for y in range(canvas.height))
    assert "3 rank_0" in shown
    assert "1 · GPU 0" in shown


@pytest.mark.parametrize("numbers", [(0, 0, 1), (0, None, 1), (0, "1", 2), (True, 0, 2), (0, 1, 10**7)])
def test_without_known_ranks_they_are_counted(tmp_path, numbers):
    sources = Session(ranks(tmp_path, *numbers)).navigator.scene.sources
    assert [source.letter for source in sources] == ["0", "1", "2"]


def test_a_job_goes_from_rank_to_rank(tmp_path):
    session = Session(ranks(tmp_path, 0, 1, 2))
    session.lanes.resize(120, 40)
    assert session.draw_gaps() == 0
    session.navigator.select(0)
    while session.navigator.active < 2:
        assert session.navigator.move("down")
    assert session.active is session.navigator.recordings[2]
    assert session.comparing.told() == session.comparing.beside() == ()
