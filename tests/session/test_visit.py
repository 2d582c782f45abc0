"""A whole visit without a terminal: open, search, select, follow, range, table, export; and back again."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from tests.recorded import load

from tracetui.analysis.calls.averages import averages, averages_of
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.session.arranging import load_lanes, save_lanes
from tracetui.session.session import Session
from tracetui.trace import Kind
from tracetui.views.averages import averages_table
from tracetui.views.gaps import gaps_table
from tracetui.views.model import arrange
from tracetui.views.writers import table_text

TRAIN = Path(__file__).resolve().parent.parent.parent / "sample_traces" / "train.json.gz"


def test_a_visit(tmp_path):
    session = Session.open(TRAIN)
    navigator, trace = session.navigator, session.active.trace
    session.lanes.resize(120, 36)

    # Search: the first launch of a GEMM, from the beginning on.
    navigator.fit()
    session.search.find("cat:cpu_op aten::mm")
    place = session.search.next(1)
    assert place == 0
    op = session.search.event(place)
    expected = [
        i for i in range(len(trace)) if trace.kind[i] == Kind.CPU_OP and "aten::mm" in trace.name_of(i)
    ]
    assert op.slice == min(expected, key=lambda i: int(trace.start[i]))

    # Select it, and follow it to its kernel.
    opened = navigator.view
    navigator.select(op.slice)
    assert navigator.view.contains(int(trace.start[op.slice]))
    for _ in range(2):
        event, _ = session.follow(1)
        assert event is not None
        navigator.select(event)
    kernel = navigator.selected
    assert kernel is not None
    assert trace.kind[kernel] == Kind.KERNEL
    assert int(trace.op[kernel]) == op.slice

    # The step around it becomes the range; the tables show what starts in it.
    step = session.scopes.find_step()
    navigator.set_range(step.start, step.end)
    session.scopes.to_range()
    scope = session.scopes.scope
    assert scope is not None
    table = averages_table(trace, averages_of(session.active.whole.in_scope(scope)))
    mine = averages(load(TRAIN), scope)
    assert table.rows == len(mine)

    # Sort, filter, export: what a file gets are the numbers of the averages.
    order = arrange(table, "self_device", True, "gemm")
    assert 0 < len(order) < table.rows
    rows = list(csv.DictReader(io.StringIO(table_text(table, order, ".csv"))))
    own = {mine.names[i]: int(mine.self_device[i]) for i in range(len(mine)) if mine.device[i]}
    times = [round(float(row["self_device_us"]) * 1000) for row in rows]
    assert times == sorted(times, reverse=True)
    assert [own[row["name"]] for row in rows] == times

    gaps = gaps_table(session.active.whole)
    told = json.loads(table_text(gaps, arrange(gaps, "duration", True), ".json"))
    session.gaps.next(1)
    assert session.gaps.at is not None
    longest = gaps_of(session.active.whole)
    assert told[0]["duration_ns"] == int(longest.duration[session.gaps.at]) == int(longest.duration.max())
    assert told[0]["before"] == trace.name_of(int(longest.after[session.gaps.at]))

    # A mark is there at the next opening, and so is the arrangement of the lanes.
    session.marks.put(session.marks.here()._replace(label="the longest"))
    lane = int(trace.lane[int(longest.after[session.gaps.at])])
    session.lanes.pin(lane)
    assert save_lanes(session.active.path, session.lanes.arrangement())
    again = Session.open(TRAIN)
    again.lanes.resize(120, 36)
    again.lanes.restore(load_lanes(again.active.path))
    again.marks.restore()
    assert again.navigator.scene.marks[0][1] == "the longest"
    assert again.lanes.track(lane) in again.lanes.layout.pinned

    # Back to where the visit began.
    while navigator.back():
        pass
    assert navigator.view.span_ns == pytest.approx(opened.span_ns, rel=0.05)
    assert np.isclose(navigator.view.start_ns, opened.start_ns, atol=0.05 * opened.span_ns)
