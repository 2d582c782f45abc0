"""Names and keys of tracks in a recording of several processes, and which part scrolls."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.kineto import Event, cpu, run

from tracetui.session.session import Session
from tracetui.timeline.arrangement import keys
from tracetui.timeline.labels import label_text
from tracetui.timeline.moves import scrolled_by
from tracetui.timeline.scene import TOP, Scene
from tracetui.timeline.track_layout import Of


@pytest.fixture
def opened(tmp_path: Path, state: Path) -> Callable[..., Session]:
    def make(*events: Event, height: int = 40) -> Session:
        path = tmp_path / "t.json"
        path.write_text(json.dumps({"traceEvents": events}))
        session = Session.open(path)
        session.lanes.resize(100, height)
        return session

    return make


def process(pid: str) -> list[Event]:
    return [cpu("op", 0, 100) | {"pid": pid, "tid": tid} for tid in (1, 2)]


def keys_of(session: Session) -> list[str]:
    scene = session.navigator.scene
    return [key for key in keys(session.active.trace, scene.layout, scene.source.series) if key]


def test_the_keys_of_tracks_stay_where_another_process_comes_before(opened: Callable[..., Session]) -> None:
    """What a person has arranged is found again by them."""
    two = keys_of(opened(*process("20"), *process("30"), *run(10, 5, 1)))
    three = keys_of(opened(*process("10"), *process("20"), *process("30"), *run(10, 5, 1)))
    assert len(set(two)) == len(two)
    assert len(set(three)) == len(three)
    assert set(two) < set(three)
    assert {"process 20", "process 30", "lane 20 1 thread", "lane 30 2 thread"} <= set(two)
    assert set(three) - set(two) == {"process 10", "lane 10 1 thread", "lane 10 2 thread"}


def labels(scene: Scene, *of: Of) -> set[str]:
    lines = scene.layout.lines(scene.top, 200)
    return {label_text(scene, line) for line in lines if line.of in of}


def test_the_rules_and_headings_of_ranks_are_called_by_them(opened: Callable[..., Session]) -> None:
    def of_rank(label: str) -> list[Event]:
        events = [*process("20"), *run(10, 5, 1), *run(30, 5, 2)]
        return [event | {"pid": f"{label}{event['pid']}"} for event in events]

    scene = opened(*of_rank("[TP00] "), *of_rank("[TP01] ")).navigator.scene
    assert labels(scene, Of.RULE) == {"[TP00] GPU 0", "[TP01] GPU 1"}
    assert {text[:6] for text in labels(scene, Of.PROCESS)} == {"[TP00]", "[TP01]"}
    alone = opened(*process("20"), *process("30"), *run(10, 5, 1), *run(30, 5, 2)).navigator.scene
    assert labels(alone, Of.RULE) == {"GPU 0"}
    assert not [text for text in labels(alone, Of.PROCESS) if "[" in text]


def test_the_part_that_can_be_scrolled_scrolls(opened: Callable[..., Session]) -> None:
    """The dock, if it can be, where the pointer is on it or nothing else can be; else the rest."""

    def moved(scene: Scene, height: int, docked: bool) -> tuple[int, int]:
        after = scrolled_by(scene, 1, height, docked=docked)
        return after.top - scene.top, after.foot - scene.foot

    threads = [cpu("op", 0, 100) | {"tid": tid} for tid in range(20)]
    streams = [
        event
        for n in range(30)
        for event in run(10, 50, n, tid=n, args={"correlation": n, "device": 0, "stream": n})
    ]
    for events, above, below in (
        ([*threads, *streams], True, True),
        ([*threads, *run(10, 5, 1)], True, False),
        ([*threads[:1], *streams], False, True),
        ([*threads[:1], *run(10, 5, 1)], False, False),
    ):
        scene, height = opened(*events, height=20).navigator.scene, 20
        _, room, shown = scene.layout.parts(height - TOP)
        assert (scene.layout.height > room, scene.layout.dock.height > shown) == (above, below)
        assert moved(scene, height, False) == ((1, 0) if above else (0, 1) if below else (0, 0))
        assert moved(scene, height, True) == ((0, 1) if below else (1, 0) if above else (0, 0))
