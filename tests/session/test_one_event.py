"""Which event a part's event is in the whole recording, and steps that lead nowhere."""

import json

from tests.kineto import cpu, run, trace_of

from tracetui.session.recording import Recording
from tracetui.session.session import Session, same_event
from tracetui.trace import Trace


def at(trace: Trace, name: str, start: int) -> list[int]:
    return [i for i in range(len(trace)) if trace.name_of(i) == name and trace.start[i] == start * 1000]


def test_the_same_event_is_on_the_same_thread(tmp_path):
    other = cpu("op", 100, 20) | {"tid": 10}
    elsewhere = cpu("op", 100, 20) | {"pid": 8}
    whole = trace_of(tmp_path, cpu("first", 0, 5), cpu("op", 100, 20), other, elsewhere)
    part = trace_of(tmp_path, cpu("op", 100, 20), other)
    for event in range(2):
        found = same_event(part, event, whole, 100_000)
        assert found is not None
        assert whole.start[found] == 100_000
        lanes = whole.lanes[whole.lane[found]], part.lanes[part.lane[event]]
        assert lanes[0].tid == lanes[1].tid
        assert [whole.processes[lanes[0].process].pid, part.processes[lanes[1].process].pid] == ["9", "9"]


def test_what_is_not_the_same_event(tmp_path):
    """Another name, length, time or thread; or two that are alike."""
    part = trace_of(tmp_path, cpu("op", 7, 20))
    for others in (
        [cpu("other", 7, 20)],
        [cpu("op", 7, 21)],
        [cpu("op", 7.001, 20)],
        [cpu("op", 6.999, 20)],
        [cpu("op", 7, 20) | {"tid": 10}],
        [cpu("op", 7, 20), cpu("op", 7, 20)],
    ):
        whole = trace_of(tmp_path, cpu("first", 0, 1), *others)
        assert same_event(part, 0, whole, 7_000) is None, others
    whole = trace_of(tmp_path, cpu("first", 0, 1), cpu("op", 7, 30), cpu("op", 7, 20), cpu("x", 7, 20))
    found = same_event(part, 0, whole, 7_000)
    assert found is not None
    assert (whole.name_of(found), whole.duration[found]) == ("op", 20_000)


def test_a_move_says_whether_it_led_anywhere(tmp_path):
    path = tmp_path / "t.json"
    events = [cpu("a", 0, 100), cpu("b", 10, 20), cpu("c", 200, 50), *run(300, 40, 1)]
    path.write_text(json.dumps({"traceEvents": events}))
    session = Session.open(path)
    walk, trace = session.walk, session.active.trace
    session.lanes.resize(100, 30)
    a, b, c = (next(i for i in range(len(trace)) if trace.name_of(i) == name) for name in "abc")
    walk.select(a)
    for direction, led, event in (
        ("previous", False, a),
        ("up", False, a),
        ("down", True, b),
        ("next", False, b),
        ("up", True, a),
        ("next", True, c),
        ("previous", True, a),
    ):
        assert walk.move(direction) is led, direction
        assert walk.selected == event, direction


def test_the_time_of_the_selection_becomes_the_range(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [cpu("a", 0, 100), cpu("b", 40, 0), cpu("c", 50, 20)]}))
    session = Session.open(path)
    walk, trace = session.walk, session.active.trace
    session.lanes.resize(100, 30)
    walk.select(None)
    assert session.select_range() is False
    assert walk.scene.band is None
    for name, band in (("a", (0, 100_000)), ("b", (40_000, 40_001)), ("c", (50_000, 70_000))):
        walk.select(next(i for i in range(len(trace)) if trace.name_of(i) == name))
        assert session.select_range() is True
        assert walk.scene.band == band


def test_what_is_selected_in_a_beginning_stays_selected_and_in_view(tmp_path):
    """Nobody has moved: only the selection makes the view stay."""
    trace = trace_of(tmp_path, *[cpu(f"op {n}", 100 * n, 50) for n in range(40)])
    whole, part = (Session([Recording(trace)]) for _ in range(2))
    for session in (whole, part):
        session.lanes.resize(100, 30)
    part.walk.show(1_000_000, 1_200_000)
    part.walk.select(11, reveal=False)
    part.walk.moved = False
    assert part.walk.view != whole.walk.view
    whole.go_on_from(part)
    assert whole.walk.selected == 11
    assert whole.walk.view == part.walk.view


def test_a_beginning_does_not_know_the_base_of_its_times(tmp_path):
    """It may be at the end of the file: what was selected stays so all the same."""
    events = [cpu(f"op {n}", 100 * n, 50) for n in range(40)]
    part = Session([Recording(trace_of(tmp_path, *events))])
    whole = Session([Recording(trace_of(tmp_path, *events, baseTimeNanoseconds=10**18))])
    assert whole.active.trace.info.base_ns == 10**18
    for session in (whole, part):
        session.lanes.resize(100, 30)
    part.walk.select(11)
    whole.go_on_from(part)
    assert whole.walk.selected == 11
