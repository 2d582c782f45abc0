"""Sums by row, calls merged and busy time, with the library in C and without."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.test_ancestors import by_stack, interval

from tracetui.analysis.calls import calls, sums
from tracetui.analysis.calls.sums import sum_by, sum_into, tally
from tracetui.analysis.idle import gaps
from tracetui.session.samples import samples
from tracetui.trace import load


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-(2**61), 2**61)), max_size=20))
def test_sums_are_exact(pairs):
    index = np.array([i for i, _ in pairs], dtype=np.int64)
    values = np.array([v % (2**56) for _, v in pairs], dtype=np.int64)
    expected = [sum(v % (2**56) for i, v in pairs if i == k) for k in range(6)]
    assert sum_into(index, values, 6).tolist() == expected


call = st.tuples(interval, st.sampled_from("aab"), st.booleans(), st.integers(0, 2))


def merged_slowly(
    parent: list[int], name: list[str], duration: list[int], apart: list[bool], own: list[int]
) -> list[tuple[object, ...]]:
    """(parent, removed, innermost, merged into, self time, device time, that of all below) of each call: the
    words of calls.py, call by call."""
    calls = range(len(parent))
    children = [[c for c in calls if parent[c] == i] for i in calls]
    removed = [p >= 0 and len(children[p]) == 1 and name[p] == name[i] for i, p in enumerate(parent)]
    innermost = [removed[i] and not any(removed[c] for c in children[i]) for i in calls]

    def top(i: int) -> int:
        return top(parent[i]) if removed[i] else i

    into = [top(i) for i in calls]
    around = [into[p] if p >= 0 else -1 for p in parent]
    device = [0 if removed[i] else own[i] for i in calls]
    for i in calls:
        if innermost[i]:
            device[into[i]] = own[i]
    below = [[c for c in calls if not removed[c] and around[c] == i] for i in calls]

    def total(i: int) -> int:
        return device[i] + sum(total(c) for c in calls if around[c] == i)

    own_time = [0 if apart[i] else duration[i] - sum(duration[c] for c in below[i]) for i in calls]
    return [(around[i], removed[i], innermost[i], into[i], own_time[i], device[i], total(i)) for i in calls]


@pytest.mark.skipif(sums.LIBRARY is None, reason="the library is not installed")
@given(st.lists(call, max_size=25))
def test_calls_are_merged_in_few_passes_as_call_by_call(made):
    made.sort(key=lambda one: (one[0][0], one[0][1], -one[0][2]))
    group = [one[0][0] for one in made]
    start = [one[0][1] for one in made]
    end = [one[0][1] + one[0][2] for one in made]
    names, apart, own = ([one[k] for one in made] for k in (1, 2, 3))
    some = [i for i, alone in enumerate(apart) if not alone]
    inner = by_stack(*([column[i] for i in some] for column in (group, start, end)))
    parent = [-1] * len(made)
    for i, p in zip(some, inner, strict=True):
        parent[i] = some[p] if p >= 0 else -1
    device = np.array(own, dtype=np.int64)
    length = [e - s for s, e in zip(start, end, strict=True)]
    # Other slices lie between those of the calls.
    name, begin, duration = (
        np.repeat(np.array(column, dtype=kind), 2)
        for column, kind in (([ord(n) for n in names], np.int32), (start, np.int64), (length, np.int64))
    )
    name[::2], begin[::2], duration[::2] = 0, -1, 99
    tree = calls._Tree(
        np.arange(1, 2 * len(made), 2), np.array(group, dtype=np.int32), name, begin, duration,
        np.array(apart, dtype=np.bool_), device
    )  # fmt: skip
    found = calls._in_few_passes(tree)
    top = np.where(found.removed, found.parent, np.arange(len(made)))
    columns = (found.parent, found.removed, found.innermost, top, found.self_cpu, device, found.total)
    expected = merged_slowly(parent, names, length, apart, own)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected


@pytest.mark.parametrize("name", ["train", "mlp_compile", "attention"])
def test_both_ways_to_merge_calls_agree(name, monkeypatch):
    path = next(path for key, path in samples().items() if name in key)
    trace = load(path, cache=False)
    for python in (False, True):
        one = calls.build_calls(trace, python)
        monkeypatch.setattr(sums, "LIBRARY", None)
        other = calls.build_calls(trace, python)
        monkeypatch.undo()
        for column in dataclasses.fields(one):
            mine, its = getattr(one, column.name), getattr(other, column.name)
            assert mine.dtype == its.dtype
            assert np.array_equal(mine, its)


@given(st.lists(st.tuples(st.integers(-1, 30), st.integers(0, 2**62)), max_size=30))
def test_durations_without_children(made):
    parent = [min(p, i - 1) for i, (p, _) in enumerate(made)]
    duration = [d for _, d in made]
    below = [sum(d for p, d in zip(parent, duration, strict=True) if p == i) for i in range(len(made))]
    expected = [(d - inside + 2**63) % 2**64 - 2**63 for d, inside in zip(duration, below, strict=True)]
    columns = np.array(parent, dtype=np.int32), np.array(duration, dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        for library in (sums.LIBRARY, None):
            patch.setattr(sums, "LIBRARY", library)
            assert sums.without_children(*columns).tolist() == expected


def test_sums_refuse_what_is_no_index():
    for index in ([0, 3], [0, -1]):
        with pytest.raises((IndexError, ValueError)):
            sum_into(np.array(index), np.array([1, 2]), 2)


event = st.tuples(st.integers(-1, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 9))


@given(st.lists(event, max_size=30), st.booleans(), st.randoms())
def test_each_row_has_its_number_first_event_and_sum(made, of_slices, random):
    at = random.sample(range(len(made)), k=len(made) // 2 + 1 if made else 0)
    row_of, start, duration, source = np.array(made, dtype=np.int64).reshape(-1, 4).T.copy()
    row_of, some = row_of.astype(np.int32), np.array(at, dtype=np.int64)
    times = (start, duration) if of_slices else (start[some], duration[some])
    mine = [[i for i in range(len(at)) if made[at[i]][0] == row] for row in range(5)]
    expected = (
        [len(row) for row in mine],
        [
            min(row, key=lambda i: (made[at[i]][1], -made[at[i]][2], made[at[i]][3], i), default=-1)
            for row in mine
        ],
        [sum(made[at[i]][2] for i in row) for row in mine],
    )
    with pytest.MonkeyPatch.context() as patch:
        for library in (sums.LIBRARY, None):
            patch.setattr(sums, "LIBRARY", library)
            found = tally(row_of, some, times, source, 5, of_slices)
            assert tuple(column.tolist() for column in found) == expected
            assert sum_by(row_of, some, duration[some], 5).tolist() == expected[2]


@pytest.mark.skipif(sums.LIBRARY is None, reason="the library is not installed")
@pytest.mark.parametrize(
    ("rows", "slices"), [([0, 2], [0, 1]), ([0, -2], [0, 1]), ([0, 1], [0, 2]), ([0, 1], [0, -1])]
)
def test_a_row_or_slice_that_there_is_not_is_refused(rows, slices):
    row_of, at, values = np.array(rows, dtype=np.int32), np.array(slices), np.array([1, 2])
    with pytest.raises(IndexError):
        sum_by(row_of, at, values, 2)
    with pytest.raises(IndexError):
        tally(row_of, at, (values, values), np.array([1, 2]), 2)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=40))
def test_busy_blocks(made):
    times = np.array(made, dtype=np.int64).reshape(-1, 2)
    start, duration = times[:, 0].copy(), times[:, 1].copy()
    at = np.argsort(start, kind="stable")
    blocks: list[list[int]] = []  # start, end, the slice that ends it, the one that begins it
    for i in at.tolist():
        begin, end = made[i][0], sum(made[i])
        if not blocks or begin > blocks[-1][1]:
            blocks.append([begin, end, i, i])
        elif end > blocks[-1][1]:
            blocks[-1][1:3] = end, i
    with pytest.MonkeyPatch.context() as patch:
        for library in (gaps.LIBRARY, None):
            patch.setattr(gaps, "LIBRARY", library)
            union, closes, opens = gaps.busy_blocks(start, duration, at)
            columns = (union.start, union.end, closes, opens)
            assert [list(block) for block in zip(*(c.tolist() for c in columns), strict=True)] == blocks
            assert np.diff(union.before).tolist() == [end - begin for begin, end, *_ in blocks]
            assert int(union.before[0]) == 0
