"""Events that cannot be, and the first view without them."""

import gzip
import json
import random
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.recorded import load

from tracetui.analysis.idle.cpu_time import cpu_time_of
from tracetui.analysis.idle.gaps import find_gaps
from tracetui.analysis.part import Part
from tracetui.core.columns import TIME_LIMIT
from tracetui.formats.diagnostics import Diagnostics
from tracetui.trace import DEVICE_WORK, Trace
from tracetui.trace.implausible import LONGEST, first_view, mark_implausible
from tracetui.trace.model import Kind
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
            *burst, event(ts=99, cat="cuda_runtime", dur=5e6),
            event(ts=100, cat="kernel", pid=0, tid=7, dur=5e6)
        ],
        [event(ts=0, dur=7200e6, name="main"), event(ts=1, dur=7199e6, name="train"), *burst]
    ]  # fmt: skip
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


A_SECOND = 1_000_000_000
Slice = tuple[Kind, int, int, int]
"""Kind, lane, start, duration. Lanes 0 and 1 are threads, 2 and 3 streams of a device."""


HOST, DEVICE = (0, 1), (2, 3)
WORK = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)


def astray(times: list[int]) -> tuple[int, int]:
    """(the least, the greatest) time that still belongs to the others."""
    ordered = sorted(times)
    shares = (0.1, 0.9) if len(times) > 50 else (0.25, 0.75)
    low, high = (int(np.quantile(ordered, share)) for share in shares)
    far = 100_000 * max(high - low, A_SECOND // 100)
    if ordered[0] >= low - far and ordered[-1] <= high + far:
        return ordered[0], ordered[-1]
    holes = [(a, b) for a, b in pairwise(ordered) if b - a > far // 2]
    least = max((b for _, b in holes if b <= low), default=ordered[0])
    return least, min((a for a, _ in holes if a >= high), default=ordered[-1])


def slowly(slices: list[Slice]) -> tuple[list[bool], list[bool], list[int], Counter[str]]:
    """(implausible, cut, durations, notices)"""
    every = range(len(slices))
    start, duration = [s[2] for s in slices], [s[3] for s in slices]
    notes: Counter[str] = Counter()
    negative = {i for i in every if duration[i] < 0}
    notes["negative_duration"] = len(negative)
    endless = {i for i in every if abs(start[i]) >= TIME_LIMIT or duration[i] >= LONGEST}
    bad, overlong = negative | endless, set[int]()
    if len(slices) - len(bad) >= 3:
        least, greatest = astray([start[i] for i in every if i not in bad])
        stray = {i for i in every if i not in bad and not least <= start[i] <= greatest}
        notes["stray"] = len(stray)
        bad |= stray
        good = [i for i in every if i not in bad]
        first, last = min(start[i] for i in good), max(start[i] for i in good)
        recorded = max([start[i] + duration[i] for i in good if slices[i][0] == Kind.SPAN], default=first)
        past = [i for i in good if start[i] + duration[i] > recorded]
        host = [i for i in good if slices[i][1] in HOST and slices[i][0] != Kind.SPAN]
        long = [i for i in past if i in host and duration[i] > 1000 * max(last - first, A_SECOND)]
        if len(long) > 1:
            reaches = sorted(start[i] + duration[i] - first for i in long)
            if reaches[-1] <= 1.1 * reaches[-2]:
                long = []
        host = [i for i in host if i not in long]
        if host:
            reach = max(max(start[i] + duration[i] for i in host), recorded) - first
            limit = min(100 * max(reach, A_SECOND // 1000), max(10 * reach, 60 * A_SECOND))
            long += [i for i in past if slices[i][1] in DEVICE and duration[i] > limit]
        overlong = {*long, *(i for i in endless if first <= start[i] <= last)}
        bad |= overlong
    cut: set[int] = set()
    made = list(duration)
    for i in overlong:
        if slices[i][0] in WORK:
            same = [k for k in every if slices[k][0] in WORK and slices[k][1] == slices[i][1]]
            after = [start[k] for k in same if start[k] > start[i] and (k in overlong or k not in bad)]
            if after:
                cut.add(i)
                made[i] = min(after) - start[i]
    notes["clipped_duration"] = len(cut)
    notes["impossible_time"] = len(endless - cut)
    notes["impossible_duration"] = len(overlong - endless - cut)
    bad -= cut
    return [i in bad for i in every], [i in cut for i in every], made, +notes


def some(rng: random.Random) -> list[Slice]:
    """A burst of events, and some at the borders of what is believed."""
    base = rng.choice((0, 0, 5, TIME_LIMIT - 500 * A_SECOND))
    width = rng.choice((1000, A_SECOND // 100, A_SECOND))
    slices: list[Slice] = []
    for _ in range(rng.choice((2, 4, 8, 60))):
        lane = rng.randrange(4)
        kind = Kind.CPU_OP if lane in HOST else rng.choice((*WORK, Kind.SYNC))
        slices.append((kind, lane, base + rng.randrange(width), rng.randrange(width // 10)))
    if rng.random() < 0.3:
        slices.append((Kind.SPAN, 1, base, rng.choice((width, 60 * A_SECOND, 2000 * A_SECOND))))
    starts = [s[2] for s in slices]
    first, last = min(starts), max(starts)
    reach = max([s[2] + s[3] for s in slices if s[1] in HOST], default=first) - first
    exact = (
        -1, 0, 1000 * max(last - first, A_SECOND), 100 * max(reach, A_SECOND // 1000),
        max(10 * reach, 60 * A_SECOND), 10 * reach, 60 * A_SECOND, 100 * reach, 1100 * A_SECOND,
        1250 * A_SECOND, LONGEST - 1, LONGEST, TIME_LIMIT, TIME_LIMIT + 5,
    )  # fmt: skip
    low, high = (int(q) for q in np.quantile(starts, (0.25, 0.75)))
    far = 100_000 * max(high - low, A_SECOND // 100)
    away = (
        first, last, first + width // 2, low - far, high + far, low - far // 2, high + far // 2,
        last + far // 2, first - far // 2, TIME_LIMIT, -TIME_LIMIT,
    )  # fmt: skip
    for _ in range(rng.randrange(1, 5)):
        lane = rng.randrange(4)
        kind = Kind.CPU_OP if lane in HOST else rng.choice((*WORK, Kind.SYNC))
        at = rng.choice(away) + rng.choice((-1, 0, 0, 1)) if rng.random() < 0.4 else rng.choice(starts)
        length = rng.choice(exact) + rng.choice((-1, 0, 1)) if rng.random() < 0.7 else rng.randrange(width)
        slices.append((kind, lane, at, min(length, 2 * TIME_LIMIT - max(at, 0))))
    rng.shuffle(slices)
    return slices


@pytest.mark.parametrize("part", range(4))
def test_the_masks_agree_with_rules_taken_one_by_one(part):
    for seed in range(150 * part, 150 * (part + 1)):
        slices = some(random.Random(seed))
        columns = zip(*slices, strict=True)
        kind, lane, start, duration = (np.array(list(column), dtype=np.int64) for column in columns)
        diagnostics = Diagnostics()
        on_device = np.array([False, False, True, True])
        implausible, cut = mark_implausible(
            kind.astype(np.int8), lane.astype(np.int32), start, duration, on_device, diagnostics
        )
        expected = slowly(slices)
        found = implausible.tolist(), cut.tolist(), duration.tolist()
        notes = Counter({kind: count for kind, (count, _) in diagnostics.found.items()})
        assert (*found, notes) == expected, (seed, slices)


def test_what_is_shown_first_leaves_out_spans_and_overhead_where_there_is_more():
    rng = random.Random(1)
    for _ in range(100):
        count = rng.randrange(5)
        kind = np.array([rng.choice((Kind.CPU_OP, Kind.SPAN, Kind.OVERHEAD)) for _ in range(count)], np.int8)
        start, duration = (np.array([rng.randrange(9) for _ in range(count)], np.int64) for _ in range(2))
        bad = np.array([rng.random() < 0.4 for _ in range(count)], bool)
        sound = [i for i in range(count) if not bad[i]]
        matters = [i for i in sound if kind[i] == Kind.CPU_OP] or sound or list(range(count))
        low = min((int(start[i]) for i in matters), default=0)
        high = max((int(start[i] + duration[i]) for i in matters), default=0)
        assert first_view(kind, start, duration, bad) == (low, max(low + 1, high))
