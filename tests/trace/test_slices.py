"""`Slices`, each answer made again by going through the slices one by one."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.kineto import cpu, memcpy, run, trace_of

from tracetui.trace import Kind, Trace
from tracetui.trace.slices import Slices, joined


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    work = [
        event for i,
        (start, duration, name) in enumerate([
            (100, 5, "gemm_a"), (110, 20, "gemm_b"), (140, 7, "gemm_a"), (150, 20, "add"), (180, 8, "gemm_a")
        ]) for event in run(start, duration, i + 1, name)
    ]  # fmt: skip
    return trace_of(tmp_path, cpu("aten::mm", 0, 50), memcpy(200, 3, 9), *work)


def device_work(trace: Trace) -> Slices:
    return Slices(trace, np.flatnonzero(trace.is_kind(Kind.KERNEL, Kind.MEMCPY)))


def test_columns(trace):
    work = device_work(trace)
    assert len(work) == 6
    assert work.names == [trace.name_of(i) for i in work]
    assert work.start.tolist() == [int(trace.start[i]) for i in work]
    assert work.end.tolist() == [int(trace.start[i] + trace.duration[i]) for i in work]
    assert work.time == sum(int(trace.duration[i]) for i in work) == 63_000
    assert [*work.kind, *work.lane] == [*(trace.kind[i] for i in work), *(trace.lane[i] for i in work)]
    assert (work.first, work.first_name) == (int(work.at[0]), "gemm_a")


def test_numpy_takes_them_for_their_indices(trace):
    work = device_work(trace)
    assert trace.duration[work].sum() == work.time
    assert np.asarray(work) is work.at
    copied = np.array(work)
    assert copied is not work.at
    assert copied.tolist() == list(work)
    assert np.asarray(work, dtype=np.int32).dtype == np.int32


def test_some_of_them(trace):
    work = device_work(trace)
    assert work[1:3].names == ["gemm_b", "gemm_a"]
    assert work[work.duration == 20_000].names == ["gemm_b", "add"]
    assert work[np.array([3, 0])].names == ["add", "gemm_a"]
    assert work.of_kind(Kind.MEMCPY).names == ["Memcpy HtoD (Pinned -> Device)"]
    assert len(work.of_kind(Kind.MEMCPY, Kind.KERNEL)) == len(work)
    gemms = work.named("gemm")
    assert work.among(gemms).tolist() == [name.startswith("gemm") for name in work.names]
    assert work.without(gemms).names == ["add", "Memcpy HtoD (Pinned -> Device)"]
    assert list(joined(work[3:], gemms)) == list(work)


def test_names(trace):
    work = device_work(trace)
    assert work.named("^gemm_[b-z]").names == ["gemm_b"]
    assert work.named(re.compile("GEMM_B", re.IGNORECASE)).names == ["gemm_b"]
    assert work.named("add".__eq__).names == ["add"]
    assert not len(work.named("aten"))  # the op is not one of them
    asked = list[str]()
    work.named(asked.append)
    assert sorted(asked) == sorted(set(work.names))  # each once


def test_by_name(trace):
    work = device_work(trace)
    names = work.by_name()
    # Of equal time, in the order of the trace's names.
    equal = sorted(["gemm_b", "add", "gemm_a"], key=trace.names.index)
    assert [one.name for one in names] == [*equal, "Memcpy HtoD (Pinned -> Device)"]
    for one in names:
        mine = [i for i in work if trace.name_of(i) == one.name]
        assert (list(one.slices), one.calls, one.time) == (mine, len(mine), one.slices.time)
        assert one.longest == max(mine, key=lambda i: trace.duration[i])
    assert [one.name for one in work.by_calls()] == [
        "gemm_a", *sorted(["gemm_b", "add", "Memcpy HtoD (Pinned -> Device)"], key=trace.names.index)
    ]  # fmt: skip
    other = work.by_name(np.arange(len(work)))
    assert (other[0].name, other[0].time) == ("gemm_a", 0 + 2 + 4)


def test_longest_first(trace):
    assert device_work(trace).longest_first().names[:3] == ["gemm_b", "add", "gemm_a"]


def test_none(trace):
    none = device_work(trace)[:0]
    assert (len(none), none.time, none.names, none.by_name(), list(none.longest_first())) == (
        0, 0, [], [], []
    )  # fmt: skip
    assert list(none.named("gemm")) == list(none.without(none)) == list(joined(none, none)) == []
    with pytest.raises(IndexError):
        _ = none.first
