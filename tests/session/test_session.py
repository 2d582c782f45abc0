"""A session without a terminal: one recording, and two on one clock."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.kineto import cpu, run, trace_of

from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.session.recording import Recording
from tracetui.session.session import Session, same_event
from tracetui.timeline.frame import paint
from tracetui.trace import Kind, load

ROOT = Path(__file__).resolve().parent.parent.parent
EAGER = ROOT / "sample_traces" / "matmul_add_64_warm.json.gz"
TRAIN = ROOT / "sample_traces" / "train.json.gz"


def picture(session: Session) -> str:
    canvas = paint(session.navigator.scene, session.navigator.height)
    return "\n".join(canvas.text(y) for y in range(canvas.height))


def test_it_needs_neither_textual_nor_a_terminal():
    code = (
        "import sys; from tracetui.session.session import Session; "
        f"s = Session.open({str(EAGER)!r}); s.search.find('mm'); s.navigator.zoom(2); s.draw_gaps(); "
        "print('textual' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_links_lead_from_an_op_to_its_kernel_and_back():
    session = Session.open(EAGER)
    trace = session.active.trace
    assert session.follow(1) == (None, "select an event first")
    op = int(np.flatnonzero([trace.name_of(i) == "aten::add" for i in range(len(trace))])[0])
    session.navigator.select(op)
    seen = [op]
    for _ in range(2):
        event, _said = session.follow(1)
        assert event is not None
        session.navigator.select(event)
        seen.append(event)
    assert trace.kind[seen[1]] == Kind.RUNTIME
    assert trace.kind[seen[2]] == Kind.KERNEL
    assert session.follow(-1)[0] == seen[1]


def test_at_first_all_is_in_view_with_a_hundredth_more_at_each_end():
    scene = Session.open(EAGER).navigator.scene
    low, high = scene.first_view
    assert scene.view.span_ns / (high - low) == pytest.approx(1.02, abs=0.001)


def test_gaps_go_from_the_longest_down_and_around():
    session = Session.open(EAGER)
    count = session.draw_gaps()
    gaps = gaps_of(session.active.whole)
    assert count == len(gaps) > 3
    seen = []
    for _ in range(count):
        assert session.gaps.next(1) is not None
        assert session.gaps.at is not None
        seen.append(int(gaps.duration[session.gaps.at]))
        assert session.navigator.selected == int(gaps.after[session.gaps.at])
    assert seen == sorted(gaps.duration.tolist(), reverse=True)
    session.gaps.next(1)
    assert int(gaps.duration[session.gaps.at or 0]) == seen[0]
    session.gaps.leave()
    assert session.navigator.scene.gap is None


def test_scopes_follow_range_view_and_step():
    session = Session.open(TRAIN)
    scopes, navigator = session.scopes, session.navigator
    assert scopes.scope is None
    event = int(np.flatnonzero(navigator.trace.kind == Kind.KERNEL)[0])
    assert not session.select_range()
    navigator.select(event)
    assert session.select_range()
    assert "tables show the range (" in scopes.to_range()
    assert scopes.scope is not None
    assert scopes.scope.start == int(navigator.trace.start[event])
    scopes.to_view()
    assert (scopes.scope.start, scopes.scope.end) == (navigator.view.start_ns, navigator.view.end_ns)
    navigator.zoom(4)
    scopes.jumped()
    scopes.follow_view()
    assert scopes.frozen
    navigator.pan(0.5)
    scopes.follow_view()
    assert not scopes.frozen
    assert (scopes.scope.start, scopes.scope.end) == (navigator.view.start_ns, navigator.view.end_ns)
    scopes.by = "step"
    assert scopes.to_step(scopes.find_step()).startswith("tables show step ")
    assert (scopes.scope.kind, scopes.frozen) == ("step", False)


def test_a_scope_follows_the_view_only_when_it_was_told_to():
    session = Session.open(EAGER)
    session.navigator.zoom(4)
    session.scopes.follow_view()
    assert session.scopes.scope is None


def test_only_a_quiet_change_of_the_range_is_not_told():
    navigator = Session.open(EAGER).navigator
    told: list[object] = []
    navigator.on_range = lambda: told.append(navigator.range_ns)
    navigator.set_range(2000, 1000)
    navigator.set_range(1000, 2000)  # the same
    navigator.set_range(1000, 3000, quiet=True)
    navigator.set_range(None)
    assert told == [(1000, 2000), None]


def test_times_are_gone_to_as_they_are_typed():
    session = Session.open(EAGER)
    low, high = session.navigator.scene.span
    assert session.wrong_time("nonsense")
    assert "the trace runs from" in session.wrong_time(f"{high // 1000 + 10}us")
    assert session.wrong_time("150us") == ""
    assert "150 µs" in session.go_to_time("150us")
    assert session.navigator.scene.instant == 150_000
    assert low <= session.navigator.view.start_ns


def two(offset: int) -> Session:
    session = Session.open(EAGER)
    session.add(Recording.open(TRAIN), offset)
    session.lanes.resize(140, 60)
    return session


@pytest.mark.parametrize("offset", [0, -3_000_000, 12_345_678])
def test_two_recordings_stand_on_one_clock(offset):
    session = two(offset)
    first, second = session.navigator.recordings
    low, high = second.trace.span
    span = session.navigator.scene.span
    assert span == (min(first.trace.span[0], low + offset), max(first.trace.span[1], high + offset))
    session.search.find("cat:kernel")
    counts = [int((r.trace.kind == Kind.KERNEL).sum()) for r in session.navigator.recordings]
    assert len(session.search) == sum(counts)
    assert np.bincount(session.search.recording).tolist() == counts
    times = [
        int(session.navigator.recordings[e.source].trace.start[e.slice]) + (offset if e.source else 0)
        for e in map(session.search.event, range(len(session.search)))
    ]
    assert times == sorted(times)


def test_a_walk_goes_from_one_recording_to_the_other():
    session = two(1_000_000)
    session.draw_gaps()
    text = picture(session)
    assert "matmul_add_64_warm.json.gz" in text
    assert "train.json.gz" in text
    session.search.find("cat:kernel")
    seen = set()
    for _ in range(len(session.search)):
        place = session.search.next(1)
        assert place is not None
        event = session.search.event(place)
        session.navigator.select(event.slice, of=event.source)
        assert session.navigator.view.contains(session.navigator.scene.source.start(event.slice))
        seen.add(event)
    assert len(seen) == len(session.search)
    assert session.active is session.navigator.recordings[session.navigator.active]
    # Gaps and marks are those of the recording that the selection is in.
    session.navigator.select(0, of=1)
    session.gaps.next(1)
    assert session.gaps.at is not None
    assert session.navigator.selected == int(
        gaps_of(session.navigator.recordings[1].whole).after[session.gaps.at]
    )
    mark = session.marks.here()._replace(label="here")
    session.marks.put(mark)
    assert session.navigator.recordings[1].marks.here[0].label == "here"
    assert not session.navigator.recordings[0].marks.here
    assert session.navigator.scene.marks[0][0] == mark.time + 1_000_000


def test_lanes_scroll_apart_from_those_of_the_devices():
    session = Session.open(TRAIN)
    session.lanes.resize(100, 12)
    session.lanes.toggle_all()
    session.lanes.toggle_all()
    navigator = session.navigator
    top, foot = navigator.scene.top, navigator.scene.foot
    navigator.scroll_lanes(1)
    assert (navigator.scene.top, navigator.scene.foot) == (top + 1, foot)


@pytest.mark.parametrize("when", ["while it is read", "later", "by an older one"])
def test_a_recording_of_a_changed_file_is_not_current(tmp_path, when):
    """It would be compared in place of what is in the file now."""
    path, other = tmp_path / "t.json.gz", tmp_path / "other.json.gz"
    shutil.copy(EAGER, path)
    shutil.copy(TRAIN, other)
    os.utime(other, (1, 1))
    trace = load(path)
    if when == "while it is read":
        path.write_bytes(TRAIN.read_bytes())
    recording = Recording(trace)
    if when != "while it is read":
        assert recording.is_current()
        _ = other.replace(path) if when == "by an older one" else path.write_bytes(TRAIN.read_bytes())
    assert not recording.is_current()
    path.unlink()
    assert not recording.is_current()


def test_there_is_no_way_back_from_the_first_view(session):
    navigator = session.navigator
    before = navigator.view
    assert (navigator.back(), navigator.forward()) == (False, False)
    assert navigator.view == before


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
    navigator, trace = session.navigator, session.active.trace
    session.lanes.resize(100, 30)
    a, b, c = (next(i for i in range(len(trace)) if trace.name_of(i) == name) for name in "abc")
    navigator.select(a)
    for direction, led, event in (
        ("previous", False, a),
        ("up", False, a),
        ("down", True, b),
        ("next", False, b),
        ("up", True, a),
        ("next", True, c),
        ("previous", True, a),
    ):
        assert navigator.move(direction) is led, direction
        assert navigator.selected == event, direction


def test_the_time_of_the_selection_becomes_the_range(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [cpu("a", 0, 100), cpu("b", 40, 0), cpu("c", 50, 20)]}))
    session = Session.open(path)
    navigator, trace = session.navigator, session.active.trace
    session.lanes.resize(100, 30)
    navigator.select(None)
    assert session.select_range() is False
    assert navigator.scene.band is None
    for name, band in (("a", (0, 100_000)), ("b", (40_000, 40_001)), ("c", (50_000, 70_000))):
        navigator.select(next(i for i in range(len(trace)) if trace.name_of(i) == name))
        assert session.select_range() is True
        assert navigator.scene.band == band


def test_what_is_selected_in_a_beginning_stays_selected_and_in_view(tmp_path):
    """Nobody has moved: only the selection makes the view stay."""
    trace = trace_of(tmp_path, *[cpu(f"op {n}", 100 * n, 50) for n in range(40)])
    whole, part = (Session([Recording(trace)]) for _ in range(2))
    for session in (whole, part):
        session.lanes.resize(100, 30)
    part.navigator.show(1_000_000, 1_200_000)
    part.navigator.select(11, reveal=False)
    part.navigator.moved = False
    assert part.navigator.view != whole.navigator.view
    whole.go_on_from(part)
    assert whole.navigator.selected == 11
    assert whole.navigator.view == part.navigator.view


def test_a_beginning_does_not_know_the_base_of_its_times(tmp_path):
    """It may be at the end of the file: what was selected stays so all the same."""
    events = [cpu(f"op {n}", 100 * n, 50) for n in range(40)]
    part = Session([Recording(trace_of(tmp_path, *events))])
    whole = Session([Recording(trace_of(tmp_path, *events, baseTimeNanoseconds=10**18))])
    assert whole.active.trace.info.base_ns == 10**18
    for session in (whole, part):
        session.lanes.resize(100, 30)
    part.navigator.select(11)
    whole.go_on_from(part)
    assert whole.navigator.selected == 11
