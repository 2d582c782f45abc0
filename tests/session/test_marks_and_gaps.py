"""Marks and gaps of a session, recent traces, samples: small cases with the exact answer."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from tests.kineto import Event, cpu, run, trace_of
from tests.recorded import load

from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.core.cells import clauses
from tracetui.session import baselines, gap_navigator, recent, samples
from tracetui.session.gap_navigator import gap_order, next_gap
from tracetui.session.history import LONGEST, History
from tracetui.session.mark_navigator import MarkNavigator
from tracetui.session.marks import event_of, mark_on
from tracetui.session.query import matches
from tracetui.session.recording import Recording
from tracetui.session.session import Session
from tracetui.session.state import read_state, readable_state, resolved, set_aside, state_file, write_state
from tracetui.session.trace_list import choices
from tracetui.timeline.viewport import Viewport
from tracetui.views.gap_words import find_told, gap_line


def write(path: Path, *events: Event) -> Path:
    path.write_text(json.dumps({"traceEvents": list(events)}))
    return path


def session_of(tmp_path: Path, *events: Event) -> Session:
    session = Session.open(write(tmp_path / "t.json", *events))
    session.lanes.resize(100, 30)
    return session


EVENTS = [cpu("whole", 0, 1000), cpu("long", 100, 400), cpu("tiny", 600, 0.001), cpu("other", 700, 100)]


def test_a_mark_is_on_the_selected_event_or_in_the_middle(tmp_path):
    session = session_of(tmp_path, *EVENTS)
    session.navigator.show(0, 1_000_000)
    middle = session.marks.here()
    assert (middle.time, middle.name) == (session.navigator.middle, "")
    session.navigator.select(1)
    on = session.marks.here()
    assert (on.time, on.name, on.duration) == (100_000, "long", 400_000)
    assert session.marks.put(on._replace(label="look")).startswith("marked at ")
    assert session.marks.here().label == "look"
    assert [(time, label) for time, label in session.navigator.scene.marks] == [(100_000, "look")]
    noted = on._replace(label="", note="a note")
    assert session.marks.put(noted).startswith("l, then d removes the mark with a note")
    assert session.marks.put(on._replace(label="", note="")).startswith("no mark at ")
    assert session.navigator.scene.marks == ()


def test_a_mark_without_an_event_gets_one_and_keeps_its_words(tmp_path):
    session = session_of(tmp_path, *EVENTS)
    trace = session.active.trace
    session.marks.put(session.marks.here()._replace(time=100_000, label="words", note="more", name=""))
    session.navigator.select(int(np.flatnonzero(trace.start == 100_000)[0]))
    here = session.marks.here()
    assert (here.label, here.note, here.name) == ("words", "more", "long")
    session.marks.put(here._replace(label="again"))
    assert session.marks.here() == session.marks.marks.at(100_000)


def test_going_to_a_mark_selects_its_event_but_does_not_come_closer(tmp_path):
    session = session_of(tmp_path, *EVENTS)
    navigator = session.navigator
    at = {navigator.trace.name_of(i): i for i in range(4)}
    navigator.select(at["tiny"])
    session.marks.put(session.marks.here()._replace(label="there"))
    navigator.select(None)
    navigator.show(0, 1_000_000)
    cell = navigator.view.cell
    (mark,) = session.marks.marks.here
    assert session.marks.go_to(mark) == "there, at 600.000 µs"
    assert navigator.selected == at["tiny"]
    assert navigator.view.cell == cell
    assert abs(navigator.middle - 600_000) <= cell
    navigator.select(None)
    session.marks.go_to(mark._replace(name=""))  # it has no event
    assert navigator.selected is None


def test_marks_one_after_the_other(tmp_path):
    session = session_of(tmp_path, *EVENTS)
    assert session.marks.next() is None
    session.navigator.show(0, 1_000_000)
    for time in (200_000, 200_001, 200_002, 900_000):
        session.marks.put(session.marks.here()._replace(time=time, label=str(time)))
    session.navigator.center_on(100_000)
    seen = []
    for _ in range(5):
        mark = session.marks.next()
        seen.append(mark.time)
        session.marks.go_to(mark)
    assert seen == [200_000, 200_001, 200_002, 900_000, 200_000]
    session.navigator.center_on(500_000)  # away from the last one
    assert session.marks.next().time == 900_000


def test_marks_of_two_recordings_stand_on_one_clock(tmp_path):
    session = session_of(tmp_path, *EVENTS)
    session.navigator.show(0, 1_000_000)
    session.marks.put(session.marks.here()._replace(time=300_000, label="first"))
    session.add(Recording(load(write(tmp_path / "u.json", *EVENTS))), -50_000)
    session.navigator.select(1, of=1)
    session.marks.put(session.marks.here()._replace(label="second"))
    assert session.navigator.scene.marks == ((50_000, "second"), (300_000, "first"))
    session.navigator.select(None, of=1)
    session.navigator.center_on(400_000)
    assert session.marks.here().time == session.navigator.middle + 50_000
    (mark,) = session.navigator.recordings[1].marks.here
    session.marks.go_to(mark)
    assert abs(session.navigator.middle - 50_000) <= session.navigator.view.cell
    assert (session.navigator.active, session.navigator.selected) == (1, 1)


def test_saved_marks_are_drawn_and_those_of_an_earlier_trace_named(tmp_path):
    session = session_of(tmp_path, *EVENTS)
    session.marks.put(session.marks.here()._replace(time=300_000, label="kept"))
    again = session_of(tmp_path, *EVENTS)
    assert again.marks.restore() == ""
    assert again.navigator.scene.marks == ((300_000, "kept"),)
    later = session_of(tmp_path, *({**e, "ts": e["ts"] + 5e6} for e in EVENTS))
    assert later.marks.restore() == "1 mark of an earlier trace at this path: l lists them"
    assert later.navigator.scene.marks == ()
    state_file("marks", str(tmp_path / "t.json")).write_text("{")
    assert "cannot be read; their file" in MarkNavigator(session_of(tmp_path, *EVENTS).navigator).restore()


def test_gaps_in_their_two_orders(tmp_path):
    lengths = (30, 10, 50, 20)
    ends = np.cumsum([10 + length for length in lengths])
    events = [e for n, at in enumerate([0, *ends.tolist()]) for e in run(100 + at, 10, n + 1)]
    gaps = gaps_of(session_of(tmp_path, *events).active.whole)
    assert gaps.duration.tolist() == [1000 * length for length in lengths]
    assert gap_order(gaps, True).tolist() == [2, 0, 3, 1]
    assert gap_order(gaps, False).tolist() == [0, 1, 2, 3]
    assert gap_order(gaps, True, 20_000).tolist() == [2, 0, 3]
    by_size, by_time = gap_order(gaps, True), gap_order(gaps, False)
    assert next_gap(gaps, by_size, None, 0, 1, True) == (2, 1)
    assert next_gap(gaps, by_size, None, 0, -1, True) == (1, 4)
    assert next_gap(gaps, by_size, 1, 0, 1, True) == (2, 1)
    assert next_gap(gaps, by_size, 2, 0, -1, True) == (1, 4)
    assert next_gap(gaps, by_size, 0, 0, 1, True) == (3, 3)
    start = gaps.start.tolist()
    assert next_gap(gaps, by_time, None, start[1], 1, False) == (1, 2)
    assert next_gap(gaps, by_time, None, start[1], -1, False) == (0, 1)
    assert next_gap(gaps, by_time, None, start[1] + 1, 1, False) == (2, 3)
    assert next_gap(gaps, by_time, None, start[3] + 1, 1, False) == (0, 1)
    assert next_gap(gaps, by_time[:0], None, 0, 1, False) is None
    assert next_gap(gaps, by_size[:2], 1, 0, 1, True) == (2, 1)  # the one shown is not among them


def told(session: Session) -> tuple[str, ...]:
    """What the line below the timeline says of the gap."""
    gaps = session.gaps
    return () if gaps.current is None else gap_line(session.active.whole, gaps.current, gaps.small)


def test_a_gap_is_told_with_its_place_length_and_cause(tmp_path):
    session = session_of(tmp_path, *run(100, 10, 1), *run(150, 10, 2), *run(180, 10, 3))
    assert session.gaps.soon  # of a small trace they are sorted at once
    assert session.gaps.next(1) is not None
    assert session.gaps.at == 0
    session.gaps.leave()
    session.gaps.toggle_order()
    assert session.gaps.order_text == "by time"
    session.navigator.show(20_000, 60_000)
    said = session.gaps.next(-1)
    assert said.startswith("gap 1 of 2, by time: idle for 40.000 µs; e explains it; ")
    assert clauses(said, 70).endswith("; e explains it…"), "a narrow screen keeps the key"
    length, cause, *_, ended = told(session)
    assert (length, cause.split(":")[0]) == ("idle 40.0 µs", "host")
    assert ended.startswith("then ")
    session.navigator.select(0)
    assert told(session) == (), "another event is selected"
    session.gaps.minimum = 30_000
    session.gaps.toggle_order()
    said = session.gaps.next(1)
    assert said.startswith("gap 1 of 1, longest first: idle for 40.000 µs; e explains it; ")
    assert session_of(tmp_path, *EVENTS).gaps.next(1) is None


def test_in_a_large_trace_a_key_press_finds_nothing_about_a_gap(tmp_path, monkeypatch):
    session = session_of(tmp_path, *run(100, 10, 1), *run(150, 10, 2), *run(180, 10, 3))
    results = session.active.whole
    session.gaps.next(1)
    small = told(session)
    monkeypatch.setattr(gap_navigator, "SOON", 0)
    large = session_of(tmp_path, *run(100, 10, 1), *run(150, 10, 2), *run(180, 10, 3))
    large.gaps.order(0)
    large.gaps.next(1)
    assert told(large) == ("idle 40.0 µs", small[-1])
    assert not large.active.whole.knows(causes_of)
    find_told(large.active.whole)
    monkeypatch.setattr(type(results), "cached", lambda self, key, make: self._cached[key])  # nothing is made
    assert told(large) == small
    assert len(small) > 2


def test_a_name_that_looks_like_a_field_is_a_name(tmp_path):
    trace = load(write(tmp_path / "q.json", cpu("cat::mm", 0, 5), cpu("mm", 10, 5), cpu("cat", 20, 5)))
    assert matches(trace, "cat::mm").tolist() == [True, False, False]
    assert matches(trace, "name:mm").tolist() == [True, True, False]
    assert matches(trace, "cat").tolist() == [True, False, True]


def test_the_history_forgets_the_oldest():
    history, views = History(), [Viewport(float(n), 1.0, 10) for n in range(LONGEST + 10)]
    for view in views:
        history.leave(view)
        history.leave(view)
    now = Viewport(-1.0, 1.0, 10)
    assert list(iter(lambda: history.back(now), None)) == views[: -LONGEST - 2 : -1]
    assert history.forward(now) == now


def test_recent_traces(tmp_path, monkeypatch, state):
    paths = [tmp_path / f"{n}.json" for n in range(recent.KEPT + 3)]
    for n, path in enumerate(paths):
        path.write_text("x")
        monkeypatch.setattr("time.time", lambda n=n: float(n))
        recent.remember(path)
    recent.remember("-")
    assert [r.path.name for r in recent.recent_traces()] == [p.name for p in paths[: -recent.KEPT - 1 : -1]]
    recent.remember(paths[5])
    first, second = recent.recent_traces()[:2]
    assert (first.path, second.path) == (paths[5], paths[-1])
    paths[-1].unlink()
    assert recent.recent_traces()[1].path == paths[-2]
    odd = [{"path": 1, "opened": 1}, {"path": str(paths[7])}, {"path": str(paths[8]), "opened": 1e13}, 5]
    write_state(recent.recent_file(), {"traces": [*odd, {"path": str(paths[9]), "opened": 3}]})
    assert [(r.path, r.opened) for r in recent.recent_traces()] == [(paths[9], 3.0)]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "just now"), (59.9, "just now"), (60, "1 min ago"), (3599, "59 min ago"), (3600, "1 h ago"),
     (86399, "23 h ago"), (86400, "1 d ago"), (864000, "10 d ago")],
)  # fmt: skip
def test_how_long_ago(seconds, text):
    assert recent.ago(seconds) == text


def test_the_samples_in_the_order_of_reading(tmp_path, monkeypatch):
    assert list(samples.samples())[: len(samples.ABOUT)] == [
        n for n in samples.ABOUT if n in samples.samples()
    ]
    folder = tmp_path / "samples"
    (folder / "deep").mkdir(parents=True)
    for name in ("linear.json.gz", "deep/x.json", "a.json", "a.meta.json", "b.averages.json", "c.json.bad"):
        (folder / name).write_text("")
    monkeypatch.setattr(samples, "sample_folder", lambda: folder)
    assert samples.samples() == {
        "linear": folder / "linear.json.gz", "a": folder / "a.json", "deep/x": folder / "deep/x.json"
    }  # fmt: skip
    monkeypatch.setattr(samples, "sample_folder", lambda: None)
    assert samples.samples() == {}


def test_state_files(tmp_path):
    file = tmp_path / "kind" / "x.json"
    assert readable_state(None) == {}
    assert readable_state(file) == {}
    assert write_state(file, {"a": 1})
    assert readable_state(file) == {"a": 1}
    file.write_text("[1]")
    assert readable_state(file) is None
    assert read_state(file) == {}
    assert not write_state(None, {})
    assert not write_state(file / "below a file.json", {})
    assert set_aside(file).name == "x.bad"
    for name in ("x.2.bad", "x.3.bad"):
        write_state(file, {})
        assert set_aside(file).name == name
    assert set_aside(file) is None
    assert resolved("-") == "-"
    assert os.path.isabs(resolved("x"))


def test_a_baseline_takes_along_what_was_recorded_with_it_if_that_is_small(tmp_path, monkeypatch):
    trace = write(tmp_path / "t.json", *EVENTS)
    meta, folder = tmp_path / "t.meta.json", tmp_path / "kept"
    counts = []
    for size in (None, 20, 21):
        if size is not None:
            meta.write_text("{}".ljust(size))
        monkeypatch.setattr(baselines, "LARGEST_META", 20)
        baselines.keep(str(folder), str(trace))
        counts.append(len([name for name in os.listdir(folder) if name.endswith(".meta.json")]))
    assert counts == [0, 1, 0]


def test_so_many_baselines_are_kept_and_any_of_them_can_be_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(baselines, "MOST", 2)
    trace = str(write(tmp_path / "t.json", *EVENTS))
    for name in ("one", "two", "one", "two"):
        baselines.keep(name, trace)
    with pytest.raises(baselines.BaselineError, match="2 baselines are saved: delete one"):
        baselines.keep("three", trace)


def test_with_a_path_typed_what_is_there_can_be_chosen(tmp_path):
    write(tmp_path / "one.json", *EVENTS)
    (tmp_path / "inner").mkdir()
    typed = choices(f"{tmp_path}/", [], {"sample": tmp_path / "two.json"})
    assert [(one.kind, one.name.rstrip("/")) for one in typed] == [("folder", "inner"), ("file", "one.json")]


def test_a_range_is_shown_with_a_fiftieth_more_at_each_end(tmp_path):
    session = session_of(tmp_path, *EVENTS)
    session.navigator.show(100_000, 600_000)
    view = session.navigator.view
    assert abs(view.start_ns - 90_000) <= view.cell / 2
    assert abs(view.end_ns - 610_000) <= view.cell / 2


def test_a_mark_on_one_of_two_that_are_alike(tmp_path):
    """On the lane that it was made on, else on any."""
    trace = trace_of(tmp_path, *[cpu("aten::mm", 5, 10) | {"tid": tid} for tid in (1, 2, 3)])
    for i in range(3):
        assert event_of(trace, mark_on(trace, i, 0)) == i
    assert event_of(trace, mark_on(trace, 1, 0)._replace(lane="gone")) == 0


def test_what_comes_by_a_pipe_has_no_state(tmp_path):
    assert state_file("marks", "-", tmp_path) is None
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert state_file("marks", str(pipe), tmp_path) is None
    one, other = (state_file("marks", str(tmp_path / name), tmp_path) for name in ("a.json", "b.json"))
    assert one is not None
    assert one != other
    assert one.parent == tmp_path / "marks"
    assert one == state_file("marks", str(tmp_path / "x" / ".." / "a.json"), tmp_path)
