"""Launches and flows, each looked for by itself."""

import random
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from tracetui.core.columns import blocks
from tracetui.trace import flows, links
from tracetui.trace.flows import FlowEnds, link_flows, pair_flows
from tracetui.trace.links import count_before_launch


def test_places_are_counted_from_the_first_block_on():
    mask = np.zeros(500_000, np.bool_)
    mask[[3, 499_999]] = True
    assert links._indices(mask).tolist() == [3, 499_999]


@pytest.mark.parametrize("apart", [1, 1 << 62])
def test_flows_are_in_order_of_category_id_time_and_phase(apart):
    """Both where the ids lie close together and where they are far apart."""
    rows = [(0, 0, 0, 5, 0), (0, 0, 0, 5, 2), (0, 0, 0, 6, 1), (0, 0, apart, 1, 0), (0, 1, 0, 0, 0)]
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2, 4, 0, 3, 1]):
        _, category, flow, time, phase = np.array([rows[n] for n in order], np.int64).T
        ends = FlowEnds(
            phase.astype(np.int8), category.astype(np.int32), flow, np.zeros(5, np.int32), time, flow == 0
        )
        assert [order[at] for at in flows._by_flow(ends)] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("block", [1, 3, 1 << 17])
def test_the_target_of_an_id(block, monkeypatch):
    """Of several the last that does not start after the seeker; if all do, the first."""
    monkeypatch.setattr(links, "blocks", partial(blocks, size=block))
    rng = random.Random(block)
    for _ in range(150):
        count, most = rng.randrange(1, 30), rng.choice((2, 6, 40, 100))
        ids = np.array([rng.randrange(most) for _ in range(count)], np.int64)
        start = np.array([rng.randrange(40) for _ in range(count)], np.int64)
        split = rng.randrange(count + 1)
        targets, seekers = np.arange(split, dtype=np.int32), np.arange(split, count, dtype=np.int32)
        found = links._match(ids, start, targets, seekers).tolist()
        for seeker, target in zip(seekers.tolist(), found, strict=True):
            same = sorted((int(start[t]), t) for t in range(split) if ids[t] == ids[seeker])
            before = [one for one in same if one[0] <= start[seeker]]
            assert target == (before[-1] if before else same[0] if same else (0, -1))[1]


@pytest.mark.parametrize("wide", [False, True])
def test_flows_bind_to_slices(wide):
    """Two lanes of slices that nest; ids so far apart that they take the other way to sort."""
    rng = random.Random(wide)
    for _ in range(200):
        slices, lane_first, lane_last, parent = [], [], [], []
        for _ in range(2):
            lane_first.append(len(slices))
            at = 0
            for _ in range(rng.randrange(1, 5)):
                at += rng.randrange(5)
                length = rng.randrange(2, 12)
                slices.append((at, at + length))
                parent.append(-1)
                if length > 5:
                    slices.append((at + 1, at + rng.randrange(2, length)))
                    parent.append(len(slices) - 2)
                at += length
            lane_last.append(len(slices))
        ends = []
        for flow in range(rng.randrange(1, 5)):
            number = flow * ((1 << 62) // 4) if wide else flow
            phases = rng.choice(((0, 2), (0, 2), (0, 1, 2), (2, 0), (0,), (2,), (0, 2, 0, 2)))
            ends += [
                (
                    phase, rng.randrange(2), number, rng.choice((0, 1, -1, 1)), rng.randrange(45),
                    rng.random() < 0.5
                ) for phase in phases
            ]  # fmt: skip
        columns = list(zip(*ends, strict=True))
        category = np.array([0 if wide else c for c in columns[1]], np.int32)
        made = FlowEnds(
            np.array(columns[0], np.int8), category, np.array(columns[2], np.int64),
            np.array(columns[3], np.int32), np.array(columns[4], np.int64), np.array(columns[5], bool),
        )  # fmt: skip
        begin, finish = (np.array(column, np.int64) for column in zip(*slices, strict=True))
        found = link_flows(
            *pair_flows(made), begin, finish - begin, np.array(parent, np.int32), [*lane_first, len(slices)]
        )

        lanes = [range(a, b) for a, b in zip(lane_first, lane_last, strict=True)]

        def bound(
            n: int,
            made: FlowEnds = made,
            lanes: list[range] = lanes,
            begin: np.ndarray = begin,
            finish: np.ndarray = finish,
        ) -> int:
            lane, time = int(made.lane[n]), int(made.time[n])
            if lane < 0:
                return -1
            mine = lanes[lane]
            if made.encloses[n]:
                return max((i for i in mine if begin[i] <= time <= finish[i]), default=-1)
            return min((i for i in mine if begin[i] >= time), default=-1)

        groups: dict[tuple[int, int], list[int]] = {}
        for n in range(len(ends)):
            groups.setdefault((int(made.category[n]), int(made.flow[n])), []).append(n)
        expected = []
        for (kind, _), members in groups.items():
            members.sort(key=lambda n: (int(made.time[n]), int(made.phase[n])))
            phases = [int(made.phase[n]) for n in members]
            pairs = [(a, b) for a, b in pairwise(members) if made.phase[a] < 2 and made.phase[b] > 0]
            if phases == [2, 0]:
                pairs = [(members[1], members[0])]
            expected += [(bound(a), bound(b), kind) for a, b in pairs if bound(a) >= 0 and bound(b) >= 0]
        assert sorted(zip(*(column.tolist() for column in found), strict=True)) == sorted(expected)
        assert found[0].tolist() == sorted(found[0].tolist())


def test_what_starts_before_its_launch():
    start = np.array([10, 20, 5, 8, 30, 20], np.int64)
    assert count_before_launch(np.array([-1, -1, 0, 0, 1, 1], np.int32), start) == (2, 5)
    assert count_before_launch(np.full(6, -1, np.int32), start) == (0, 0)
