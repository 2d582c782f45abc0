"""Events that cannot be, and the first view without them."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.recorded import load

from tracetui.analysis.idle.cpu_time import cpu_time_of
from tracetui.analysis.idle.gaps import find_gaps
from tracetui.analysis.part import Part
from tracetui.trace import DEVICE_WORK, Trace
from tracetui.views.event import event_facts

Event = dict[str, Any]
DATA = Path(__file__).resolve().parent.parent / "data"


@pytest.fixture
def events() -> list[Event]:
    found: list[Event] = json.loads(gzip.decompress((DATA / "mlp_eager.json.gz").read_bytes()))["traceEvents"]
    return found


def kernels(events: list[Event]) -> list[Event]:
    return [e for e in events if e.get("cat") == "kernel"]


def check(trace: Trace, before: Trace, kind: str, count: int) -> None:
    assert {n.kind: n.count for n in trace.notices} == {kind: count}
    assert all(n.level == "odd" for n in trace.notices)
    assert int(trace.implausible.sum()) == count
    assert len(trace) == len(before)
    assert trace.first_view == before.first_view
    assert trace.info.zero_ns == before.info.zero_ns
    assert trace.span == before.span


@pytest.mark.parametrize("how", [1, 4])
@pytest.mark.parametrize("length", [1_000, 60_000_000_000])
def test_a_kernel_that_outlasts_the_trace(how, length, events, trace_of):
    """A thousandfold, or by hours; one kernel, or several alike: each is cut where the next begins."""
    before = trace_of(events)
    scale = before.span[1] / 1000 * 1000 if length == 1000 else length / 1000
    for kernel in kernels(events)[:how]:
        kernel["dur"] = scale
    trace = trace_of(events)
    assert [(n.kind, n.level, n.count) for n in trace.notices] == [("clipped_duration", "odd", how)]
    assert not trace.implausible.any()
    assert (trace.first_view, trace.span) == (before.first_view, before.span)
    assert len(trace.clipped) == how
    for i in trace.clipped:
        others = trace.is_kind(*DEVICE_WORK) & (trace.lane == trace.lane[i]) & (trace.start > trace.start[i])
        assert int(trace.start[i] + trace.duration[i]) == int(trace.start[others].min())
        facts = [fact.value for fact in event_facts(trace, i, {}) if fact.label == "odd"]
        assert facts == ["far longer in the file: cut where the next one on its stream begins"]


def test_the_last_kernel_of_a_stream_has_no_next_one(events, trace_of):
    before = trace_of(events)
    last = max(kernels(events), key=lambda e: float(e["ts"]))
    last["dur"] = 1e12
    trace = trace_of(events)
    assert [(n.kind, n.count) for n in trace.notices] == [("impossible_duration", 1)]
    assert int(trace.implausible.sum()) == 1
    assert trace.clipped == frozenset()
    assert trace.info.zero_ns == before.info.zero_ns


def test_a_cut_kernel_is_busy_time(trace_of, event):
    """Kernels of 40 us, one after another; the second lasts 1.6 s in the file."""
    launches = [event(ts=10 * i, dur=5, cat="hip_runtime", name="hipLaunchKernel") for i in range(5)]
    rocm = [event(ts=20 + 40 * i, dur=40, cat="kernel", pid=0, tid=7, name=f"k{i}") for i in range(5)]
    rocm[1]["dur"] = 1.6e6
    (device,) = find_gaps(trace_of([*launches, *rocm]))
    assert (device.busy, device.idle) == (200_000, 0)


def test_negative_durations(events, trace_of):
    before = trace_of(events)
    for kernel in kernels(events)[2:5]:
        kernel["dur"] = -kernel["dur"] * 1e6
    trace = trace_of(events)
    check(trace, before, "negative_duration", 3)
    assert (trace.duration[trace.implausible] == 0).all()


@pytest.mark.parametrize("ts", [0, 5e12, 4e15])
def test_events_far_away(ts, events, trace_of):
    before = trace_of(events)
    for event in [e for e in events if e.get("cat") == "cpu_op"][3:5]:
        event["ts"] = ts
    check(trace_of(events), before, "stray", 2)


@pytest.mark.parametrize("dur", [10**30, 1e300])
def test_times_beyond_64_bits(dur, events, trace_of):
    before = trace_of(events)
    kernels(events)[0]["dur"] = dur
    trace = trace_of(events)
    assert [(n.kind, n.count) for n in trace.notices] == [("clipped_duration", 1)]
    assert trace.span == before.span
    kernels(events)[0]["ts"] = 10**30
    check(trace_of(events), before, "impossible_time", 1)


@pytest.mark.parametrize("days", [105, 40_000])
def test_sums_of_absurd_durations_fit_into_64_bits(days, trace_of, event):
    """Where all durations are absurd, none is far beyond the rest."""
    dur = days * 86_400e6
    calls = [event(ts=n * dur, dur=dur, cat="cuda_runtime", name="cudaLaunchKernel") for n in range(9)]
    trace = trace_of([event(ts=5, dur=5), *calls])
    assert [(n.kind, n.count) for n in trace.notices] == [("impossible_time", 9)]
    assert trace.implausible.sum() == 9
    assert not len(cpu_time_of(Part(trace)).first)


def test_long_waits_are_believed(trace_of, event):
    """A script that sleeps, or waits for one long kernel, is no reason to distrust its trace."""
    burst = [event(ts=i, dur=0.5) for i in range(100)]
    cases = [
        [*burst, event(ts=200, dur=30e6, name="sleep")],
        [*burst, *[event(ts=60e6 + i, dur=0.5) for i in range(100)]],
        [*burst[:5], *[event(ts=600e6 + i, dur=0.5) for i in range(100)]],
        [
            *burst,
            event(ts=99, cat="cuda_runtime", dur=5e6),
            event(ts=100, cat="kernel", pid=0, tid=7, dur=5e6),
        ],
        [event(ts=0, dur=7200e6, name="main"), event(ts=1, dur=7199e6, name="train"), *burst],
    ]
    for events in cases:
        trace = trace_of(events)
        assert not trace.implausible.any()
        assert trace.notices == ()


def test_no_recorded_trace_is_implausible():
    for path in DATA.glob("*.json.gz"):
        trace = load(path)
        assert not trace.implausible.any()
        assert trace.notices == ()


def test_first_view_is_what_matters(trace_of, event):
    spans = [
        event(ts=0, dur=1000, cat="Trace", pid="Spans", tid="PyTorch Profiler"),
        event(ts=900, dur=50, cat="overhead", pid=-1, tid=0),
    ]
    assert trace_of([*spans, event(ts=100, dur=200)]).first_view == (100_000, 300_000)
    assert trace_of(spans).first_view == (0, 1_000_000)


Make = Callable[..., Event]


Load = Callable[..., Trace]


MS, SECOND = 1000.0, 1_000_000.0


@pytest.mark.parametrize(("events", "odd"), [
    # The other slices span 10 ms at least: 100,000 times that is 1,000 s.
    ([("far", 999 * SECOND, 1, 1)], set()),
    ([("far", 1001.1 * SECOND, 1, 1)], {"far"}),
    ([("far", -999 * SECOND, 1, 1)], set()),
    ([("far", -1001.1 * SECOND, 1, 1)], {"far"}),
    # A host slice that outlasts the rest (a second at least) a thousandfold, alone.
    ([("long", 5, 999 * SECOND, 1)], set()),
    ([("long", 5, 1001 * SECOND, 1)], {"long"}),
    ([("long", 5, 1001 * SECOND, 1), ("as long", 6, 1100 * SECOND, 2)], set()),
    ([("long", 5, 1001 * SECOND, 1), ("longer", 6, 1300 * SECOND, 2)], {"long", "longer"}),
    # A kernel a hundred times as long as all that the host recorded (a millisecond at least).
    ([("k", 5, 99 * MS, 0)], set()),
    ([("k", 5, 101 * MS, 0)], {"k"}),
    ([("wait", 5, 10 * MS, 1), ("k", 5, 999 * MS, 0)], set()),
    ([("wait", 0, 10 * MS, 1), ("k", 5, 1001 * MS, 0)], {"k"}),
    ([("wait", 0, 7 * SECOND, 1), ("k", 5, 69 * SECOND, 0)], set()),
    ([("wait", 0, 7 * SECOND, 1), ("k", 5, 71 * SECOND, 0)], {"k"}),
    ([("wait", 0, 5 * SECOND, 1), ("k", 5, 59 * SECOND, 0)], set()),
    ([("wait", 0, 5 * SECOND, 1), ("k", 5, 61 * SECOND, 0)], {"k"}),
    ([("minus", 5, -1, 1)], {"minus"}),
])  # fmt: skip
def test_what_cannot_be(trace_of, event, events, odd):
    some = [event(name=f"op{i}", ts=i, dur=0.5) for i in range(60)]
    for name, ts, dur, tid in events:
        kind = {"cat": "kernel", "pid": 0} if name == "k" else {}
        some.append(event(name=name, ts=ts, dur=dur, tid=tid + 3, **kind))
    trace = trace_of(some)
    assert {trace.name_of(i) for i in range(len(trace)) if trace.implausible[i]} == odd
    assert bool(trace.notices) == bool(odd)
