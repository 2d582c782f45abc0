"""Small functions over arrays that several analyses share, against plain Python."""

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kineto import cpu, trace_of
from tests.recorded import load

from tracetui.analysis.idle.causes import CAUSES, _largest
from tracetui.analysis.idle.cpu_time import CpuTime
from tracetui.analysis.idle.kinds import medians
from tracetui.analysis.select import largest, name_mask, plausible, slices_named
from tracetui.rules.model import first_to_end
from tracetui.session.samples import samples
from tracetui.trace.model import Kind
from tracetui.trace.slices import by_name


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(-20, 20)), max_size=40), st.sampled_from([1, 1 << 56])
)
def test_medians_of_groups(made, scale):
    """Also where the numbers are so large that group and value do not fit into one."""
    group, values = np.array(made, dtype=np.int64).reshape(-1, 2).T
    groups, middle = medians(group, values * scale)
    assert groups.tolist() == sorted(set(group.tolist()))
    for one, found in zip(groups.tolist(), middle.tolist(), strict=True):
        assert found == statistics.median(v * scale for g, v in made if g == one)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 6))
def test_the_largest_of_values(values, count):
    expected = sorted(range(len(values)), key=lambda i: -values[i])[:count]
    assert largest(np.array(values, dtype=np.int64), count)[:count].tolist() == expected


@given(st.lists(st.lists(st.integers(0, 3), min_size=len(CAUSES), max_size=len(CAUSES)), max_size=9))
def test_the_largest_piece_is_the_first_of_equal_ones(rows):
    pieces = np.array(rows, dtype=np.int64).reshape(-1, len(CAUSES))
    assert _largest(pieces).tolist() == [row.index(max(row)) for row in rows]


def test_the_first_to_end_at_a_time(tmp_path):
    trace = trace_of(tmp_path, *[cpu("a", 0, 10), cpu("b", 2, 8), cpu("c", 12, 3), cpu("d", 20, 5)])
    every = plausible(trace, Kind.CPU_OP)
    found = first_to_end(trace, (every[1:3], every[[0, 3]]), np.array([15_000, 10_000, 10_000]))
    assert [trace.name_of(i) for i in found.tolist()] == ["a", "c"]


@pytest.mark.parametrize("few", ["aten::mm", "aten::"])
def test_slices_called_so(few):
    """By the index of names where they are few, by looking at all where they are many."""
    trace = load(next(path for key, path in samples().items() if "train" in key))
    at = plausible(trace, Kind.CPU_OP)
    wanted = name_mask(trace, lambda name: name.startswith(few))
    assert slices_named(trace, lambda name: name.startswith(few), Kind.CPU_OP).tolist() == (
        at[wanted[trace.name[at]]].tolist()
    )
    for some in (at, at[:3], at[:0]):
        names, which = by_name(trace, some)
        expected = np.unique(trace.name[some], return_inverse=True)
        assert [names.tolist(), which.tolist()] == [one.tolist() for one in expected]


@pytest.mark.parametrize("name", ["train", "attention", "mlp_compile"])
def test_what_other_threads_do_beside_one(name):
    """Range by range, as the union of both less the thread's own."""
    trace = load(next(path for key, path in samples().items() if name in key))
    cpu_time, random = CpuTime(trace), np.random.default_rng(1)
    low, high = trace.span
    borders = np.sort(random.integers(low, high, 400))
    begin, end = np.append(borders[:-1], high), np.append(borders[1:], low)  # the last is empty
    threads = [i for i, lane in enumerate(trace.lanes) if lane.kind == "thread"]
    found = [cpu_time.of_others(i, begin, end) for i in threads]
    for i, mine in zip(threads, found, strict=True):
        own, both = cpu_time.states(i)[-1], cpu_time.with_others(i)
        assert mine.tolist() == (both.overlap(begin, end) - own.overlap(begin, end)).tolist()
    assert any(mine.any() for mine in found) == (name == "train")
