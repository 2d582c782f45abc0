"""What a store keeps beside columns: counts by head, ids of flows, notices."""

import random
from typing import Any

import numpy as np

from tracetui.formats.diagnostics import Diagnostics
from tracetui.formats.store import Store

Event = dict[str, Any]


def test_counts_of_phases_over_many_heads(trace_of, event):
    """More heads than room was made for at first, new ones in every chunk."""
    trace = trace_of([event(ts=i, tid=i % 400, cat=f"c{i % 7}", ph="XBEi"[i % 4]) for i in range(3000)])
    assert trace.phases == {"X": 750, "B": 750, "E": 750, "i": 750}
    store = Store()
    rng, expected = random.Random(1), dict[int, int]()
    for _ in range(50):
        low = rng.randrange(500)
        heads = [low + rng.randrange(90) for _ in range(rng.randrange(40))]
        store.count(np.array(heads, np.int32))
        for head in heads:
            expected[head] = expected.get(head, 0) + 1
    assert store.total == sum(expected.values())
    assert {i: n for i, n in enumerate(store._counts.tolist()) if n} == expected
    assert Store().is_empty
    assert not store.is_empty


def test_notices_keep_the_first_place_and_the_first_detail():
    diagnostics = Diagnostics()
    diagnostics.note("comma", 50)
    diagnostics.note("comma", 20, 2, detail="one")
    diagnostics.note("comma", 90, detail="two")
    diagnostics.note("comma", -1)
    diagnostics.note("comma", 0, 0)
    diagnostics.note("stray")
    diagnostics.note("stray", 7)
    diagnostics.note("truncated", 5)
    other = Diagnostics()
    other.note("comma", 10, 4, detail="three")
    diagnostics.absorb(other)
    found = [(n.kind, n.count, n.offset) for n in diagnostics.notices()]
    assert found == [("truncated", 1, 5), ("stray", 2, 7), ("comma", 9, 10)]
    assert diagnostics.notices()[2].text == "an extra comma (one)"
    assert diagnostics.lost == 1


def test_notices_come_in_one_order():
    """Readers that find the same in another order say the same."""
    kinds = ["stray", "no_time", "no_duration", "comma", "truncated", "broken_event"]
    said = []
    for order in (kinds, kinds[::-1]):
        diagnostics = Diagnostics()
        for kind in order:
            diagnostics.note(kind, 1)
        said.append([notice.kind for notice in diagnostics.notices()])
    assert said[0] == said[1]
    assert said[0][:3] == ["broken_event", "truncated", "no_time"]


def test_ids_of_flows():
    tables = Store().tables
    assert tables.flow_ids([1, -5, (1 << 62) - 1]).tolist() == [1, -5, (1 << 62) - 1]
    other = 1 << 62
    for edge in (other, -other):
        assert Store().tables.flow_ids(["a", edge]).tolist() == [other, other + 1]
        tables = Store().tables
        tables.flow_ids(["a"])
        assert tables.flow_ids([edge]).tolist() == [other + 1]
    tables = Store().tables
    found = tables.flow_ids([1, "a", 1 << 62, None, "a", [1], -(1 << 62)])
    assert found.tolist() == [1, other, other + 1, -(1 << 63), other, other + 2, other + 3]
    assert tables.flow_ids([7, 1 << 62]).tolist() == [7, other + 1]
    assert tables.flow_ids([7, -(1 << 62)]).tolist() == [7, other + 3]
