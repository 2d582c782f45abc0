"""How many frames are drawn: with a clock of the test's own, and with keys that come fast."""

from typing import Any

import pytest
from textual.app import App

from tracetui.tui.timeline.pace import SSH_FRAMES, Pace, frame_limit

from .conftest import DATA, screen_of, until, visit


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_first_frame_at_once_and_then_so_many_a_second():
    clock, app = Clock(), App[Any]()
    pace = Pace(20, clock)
    drawn = 0
    for _ in range(2000):  # asked every millisecond for two seconds
        drawn += pace.wait(app) == 0.0
        clock.now += 0.001
    assert 38 <= drawn <= 41
    assert pace.wait(app) <= 0.05
    clock.now += 1
    assert pace.wait(app) == 0.0, "after a pause at once"
    assert pace.wait(app) == pytest.approx(0.05)


def test_no_limit_draws_whenever_asked():
    pace = Pace(0, Clock())
    assert [pace.wait(App[Any]()) for _ in range(5)] == [0.0] * 5


def test_fewer_frames_over_ssh_unless_told_otherwise():
    over = {"SSH_CONNECTION": "10.0.0.1 50000 10.0.0.2 22"}
    assert frame_limit(None, {}) == 0
    assert frame_limit(None, over) == frame_limit(None, {"SSH_TTY": "/dev/pts/1"}) == SSH_FRAMES
    assert frame_limit(60, over) == 60
    assert frame_limit(0, over) == 0


async def test_keys_that_come_fast_share_a_frame(monkeypatch):
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.1 50000 10.0.0.2 22")
    async with visit(DATA / "mlp_eager.json.gz") as (app, pilot, _):
        timeline = screen_of(app).timeline
        await until(pilot, lambda: len(timeline.navigator.scene.source.series) > 0 and not timeline._waiting)
        frames = []
        render = timeline._render_frame
        monkeypatch.setattr(timeline, "_render_frame", lambda: frames.append(1) or render())
        before = timeline.navigator.view.span_ns
        assert timeline.pace.period == 1 / SSH_FRAMES
        clock = Clock()
        timeline.pace = Pace(SSH_FRAMES, clock)
        timeline.navigator.zoom(1.1)
        await until(pilot, lambda: len(frames) == 1)
        for _ in range(5):
            timeline.navigator.zoom(1.1)
            await pilot.pause(0.02)
        assert len(frames) == 1, "the others come with the next frame, and its time has not come"
        clock.now += 1
        await until(pilot, lambda: len(frames) == 2)
        assert timeline.navigator.view.span_ns == pytest.approx(before / 1.1**6, rel=0.01)
