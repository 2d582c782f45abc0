"""Moving, folding, hiding and pinning lanes."""

import json

from tracetui.session.arranging import load_lanes
from tracetui.session.state import state_file


def test_a_lane_at_the_end_does_not_move_on(session):
    lanes = session.lanes
    order = sorted(range(3), key=lanes.track)
    assert lanes.move(-1, order[0]) is False
    assert lanes.move(1, order[2]) is False
    assert sorted(range(3), key=lanes.track) == order
    assert lanes.move(1, order[0]) is True
    assert sorted(range(3), key=lanes.track) == [order[1], order[0], order[2]]
    assert lanes.move(-1, order[0]) is True
    assert sorted(range(3), key=lanes.track) == order
    assert lanes.move(1, 17) is False


def test_only_a_lane_of_several_rows_folds(session):
    lanes, trace = session.lanes, session.active.trace
    lane = {trace.name_of(i): int(trace.lane[i]) for i in range(len(trace))}
    deep, flat = lane["a"], lane["c"]
    assert lanes.toggle_fold(flat) is False
    assert lanes.toggle_fold(17) is False
    assert lanes.toggle_fold(deep) is True
    assert lanes.layout.shown[lanes.track(deep)] == 1
    assert lanes.toggle_fold(deep) is True
    assert lanes.layout.shown[lanes.track(deep)] == 2
    while lanes.move(1, deep):
        pass
    assert lanes.toggle_fold(17) is False, "nor does the last one, in place of one that is not there"


def test_all_lanes_fold_and_unfold(session):
    """Also where some are folded already: first to where all are."""
    lanes, deep = session.lanes, int(session.active.trace.lane[0])
    found = []
    for _ in range(4):
        found.append(int(lanes.layout.shown[lanes.track(deep)]))
        lanes.toggle_all()
    assert found == [2, 1, 2, 1]


def test_it_is_told_whether_lanes_were_arranged_or_all_put_back(session):
    told: list[bool] = []
    session.lanes.on_arrange = told.append
    session.lanes.hide(0)
    session.lanes.reset()
    assert told == [True, False]


def test_entries_without_a_track_are_left_out(tmp_path):
    file = state_file("lanes", "t.json", tmp_path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"lanes": [{"track": "a"}, {"rows": 1}, {"track": 3}, "track"]}))
    assert load_lanes("t.json", tmp_path) == [{"track": "a"}]


def test_hidden_lanes_come_back(session):
    lanes = session.lanes
    assert lanes.show_hidden() == 0
    lanes.hide(0)
    lanes.hide(2)
    assert [lanes.is_hidden(lane) for lane in (0, 1, 2, 17)] == [True, False, True, False]
    assert lanes.show_hidden() == 2
    assert not any(lanes.is_hidden(lane) for lane in range(3))


def test_pins(session):
    lanes = session.lanes
    assert lanes.pin(1) is True
    assert lanes.pin(1) is False
    assert lanes.pin(17) is False
