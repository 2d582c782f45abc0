"""Very many devices, steps and threads: all at once gives what one at a time does, and takes no longer for
each the more there are. Calls are counted, not time."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of

from tracetui.analysis import devices
from tracetui.analysis.idle import split as split_module
from tracetui.analysis.idle.causes import CAUSES, gap_causes
from tracetui.analysis.idle.exposed_time import alone_within, exposed_communication
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import DeviceGaps, busy_union, clip
from tracetui.analysis.idle.split import Split, causes_of, split_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import step_windows_of
from tracetui.analysis.steps.steps import StepRow, steps_of
from tracetui.analysis.verdicts import earlier_share_of, verdict_times_of
from tracetui.rules import Finding, find_findings, idle_time, model, start
from tracetui.trace import Kind, Trace
from tracetui.trace.lanes import _device_indices
from tracetui.trace.model import I64
from tracetui.views.summary import summary_answer

TALK = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def at_random(seed: int, gpus: int = 6, steps: int = 7) -> Iterator[Event]:
    """Work of several GPUs, launched by several threads or by none, in steps."""
    random = np.random.default_rng(seed)
    for n in range(steps):
        yield step(n, 1000 * n, 900)
    number = 0
    for gpu in range(gpus):
        for _ in range(int(random.integers(1, 40))):
            number += 1
            begin, thread = int(random.integers(0, 1000 * steps)), {"tid": int(random.integers(1, 4))}
            length, stream = int(random.integers(0, 150)), int(random.integers(1, 3))
            name = ["gemm", TALK][int(random.integers(0, 2))]
            made = [kernel, memcpy][int(random.random() < 0.2)](begin, length, number, stream=stream)
            made |= {"pid": gpu} | ({"name": name} if made["cat"] == "kernel" else {})
            yield made
            if random.random() < 0.7:
                early = begin - int(random.integers(1, 200))
                yield launch(early, number) | thread
                yield cpu("aten::mm", early - 3, int(random.integers(8, 60))) | thread
            if random.random() < 0.3:
                yield cpu("cudaStreamSynchronize", begin - 40, 30, "cuda_runtime") | thread
            if random.random() < 0.1:
                yield cpu("Activity Buffer Request", begin - 20, 50, "overhead") | {"pid": -1, "tid": 0}


def everything(trace: Trace) -> list[object]:
    """What is found of a trace, device by device and of all together."""
    results = Part(trace)
    split, (low, high) = split_of(results), step_windows_of(results)
    copies = np.flatnonzero(trace.is_kind(Kind.MEMCPY))
    end = trace.start[copies] + trace.duration[copies]
    alone = (
        exposed_communication(trace).overlap(low, high), alone_within(trace, copies, trace.start[copies], end)
    )  # fmt: skip
    causes = causes_of(results)
    arrays = [
        split.overlap(low, high), *split.of_all(low, high), split.idle_within(low, high),
        split.gaps_within(low, high), split.lead_ins(low, high), verdict_times_of(results), *alone,
        *(getattr(causes, name) for name in ("pieces", "cause", "launch", "op", "step", "others")),
        causes.waited_for,
        *(getattr(gaps_of(results), name) for name in ("device", "start", "duration", "before", "after"))
    ]  # fmt: skip
    rows = (*steps_of(results).rows, steps_of(results).outside, steps_of(results).whole)
    said = [(f.title, f.text, f.evidence) for f in find_findings(results)]
    return [*(array.tolist() for array in arrays), earlier_share_of(results), *map(figures, rows), said]


def figures(row: StepRow) -> object:
    own = structs.replace(row, idle_parts=None, gap_causes=None, judged_by=None, judged=None)
    return structs.astuple(own), row.verdict, row.idle_by_cause, row.window_causes, row.judged.tolist()


@pytest.mark.parametrize("seed", range(6))
def test_one_axis_or_one_for_each_device(tmp_path, seed, monkeypatch):
    events = list(at_random(seed))
    together = everything(trace_of(tmp_path, *events))
    monkeypatch.setattr(devices, "_ROOM", 1)
    trace = trace_of(tmp_path, *events)
    assert len(devices.side_by_side(trace)) == 6
    assert everything(trace) == together


@pytest.mark.parametrize("pair", [0, 1 << 40])
@pytest.mark.parametrize("seed", range(6))
def test_all_together_are_the_sum_of_each(tmp_path, seed, pair, monkeypatch):
    """Whether each pair of a device and a time is looked at, or all idle stretches are sorted."""
    monkeypatch.setattr(split_module, "_PAIR", pair)
    trace = trace_of(tmp_path, *at_random(seed))
    split, random = Split(trace), np.random.default_rng(seed)
    low, high = np.sort(random.integers(-9, trace.span[1] + 9, (2, 200)), axis=0)
    low, high = np.clip(low, *trace.span), np.clip(high, *trace.span)
    each = split.overlap(low, high)
    every, judged = split.of_all(low, high)
    assert (every == each.sum(0)).all()
    assert (judged == split.judged(each).sum(0)).all()
    idle, gaps = split.idle_within(low, high), split.gaps_within(low, high)
    assert (idle == sum(split.idle_of(i, low, high) for i in range(len(split.gaps)))).all()
    few = slice(0, 5)
    assert (gaps[few] == sum(gap_causes_in(trace, one, low[few], high[few]) for one in split.gaps)).all()


def gap_causes_in(trace: Trace, device: DeviceGaps, low: I64, high: I64) -> I64:
    """The causes of a device's gaps in each range, clipped to it."""
    cut = (clip(device, *times) for times in zip(low.tolist(), high.tolist(), strict=True))
    return np.array([gap_causes(trace, gaps).pieces.sum(0) for gaps in cut])


def test_times_too_far_apart_for_one_axis(tmp_path):
    """Two recordings in one file, half of them from 1970: 50 years apart, 16 GPUs each."""
    starts = (0, 9, 1.6e15, 1.6e15 + 9)
    trace = trace_of(tmp_path, *[kernel(at, 5, 100 * gpu, pid=gpu) for at in starts for gpu in range(16)])
    assert len(devices.side_by_side(trace)) > 1
    gaps = gaps_of(Part(trace))
    assert [len(device) for device in gaps.devices] == [3] * 16
    assert (gaps.duration > 0).all()


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called, of Python and of C."""
    count = 0

    def see(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def gpus(count: int) -> list[Event]:
    return [kernel(3 * gpu + at, 5, 0, pid=gpu) for gpu in range(count) for at in (0, 50)]


def gpus_and_steps(count: int) -> list[Event]:
    return [*gpus(count), *(step(n, 3 * n, 3) for n in range(count))]


def threads(count: int) -> list[Event]:
    """Each GPU's work is launched by a thread of its own."""
    events = []
    for n in range(count):
        events += [launch(9 * n, n + 1) | {"tid": n + 1}, kernel(9 * n + 8, 5, n + 1, pid=n)]
    return events


def first_uses(count: int) -> list[Event]:
    """Slow calls, each of a name of its own, before the only kernel."""
    return [*(cpu(f"call{n}", 3000 * n, 2000, "cuda_runtime") for n in range(count)), *run(3e6, 5, 1)]


def flushes(count: int) -> list[Event]:
    """The profiler's work, of which each piece lasts as long as all that a thread does."""
    ops = [cpu("aten::mm", 10 * n, 9) for n in range(count)]
    ours = [cpu("Buffer Flush", n, 10 * count + 100_000, "overhead") | {"tid": 0} for n in range(count)]
    return [*ops, *ours, *run(2e5, 5, 1)]


@pytest.mark.parametrize(
    ("made", "most"), [(gpus, 650), (gpus_and_steps, 800), (threads, 4000), (first_uses, 250), (flushes, 100)]
)
def test_each_of_many_takes_the_same(tmp_path, made, most):
    """Twice as many take twice the calls, and not very many for each: no pass of its own over arrays."""

    def calls(count: int) -> int:
        trace = trace_of(tmp_path, *made(count))
        return calls_of(lambda: summary_answer(Part(trace)).lines(110))

    calls(400)  # what is imported, and what is cached of names, at the first time
    few, more, many = (calls(count) for count in (100, 200, 400))
    assert many - more < 2.1 * (more - few) + 999  # a line more that is said of them
    assert (many - more) / 200 < most


@pytest.mark.parametrize("seed", range(6))
def test_first_uses_of_many_names_are_those_of_one_after_the_other(tmp_path, seed):
    random: np.random.Generator = np.random.default_rng(seed)
    events = [
        cpu(f"call{random.integers(8)}", at, int(random.integers(1, 60)), "cuda_runtime") | {"tid": at % 3}
        for at in random.integers(0, 400, 40).tolist()
    ]
    loads = [cpu("Lazy Function Loading", 37 * n, 30, "overhead") | {"tid": n % 3} for n in range(10)]
    results = Part(trace_of(tmp_path, *events, *loads, *run(420, 5, 1)))
    trace, calls = results.trace, np.flatnonzero(results.trace.kind == int(Kind.RUNTIME))

    def lost(names: list[str]) -> int:
        times = busy_union(trace, calls[[trace.name_of(i) in names for i in calls.tolist()]])
        return int(
            split_of(results).idle_within(times.start, times.end)[:, CAUSES.index("initialisation")].sum()
        )

    told: list[str] = []
    expected = []
    for _ in range(3):
        each = {trace.names[i]: 0 for i in np.unique(trace.name[calls]).tolist()}
        each = {name: lost([*told, name]) - lost(told) for name in each}
        told.append(max(each, key=lambda name: each[name]))
        expected.append((told[-1], each[told[-1]]))
    assert expected[2][1] > 0
    assert start._first_uses(results, calls) == expected


def test_what_is_not_told_is_not_put_into_words(tmp_path, monkeypatch):
    told, words = [], idle_time.tell_idle

    def tell(rule: str, severity: str, idle: idle_time.IdleDevice, *claims: Any) -> Finding:
        told.append(idle.gaps.device)
        return words(rule, severity, idle, *claims)

    monkeypatch.setattr(idle_time, "tell_idle", tell)
    results = Part(trace_of(tmp_path, *gpus(50)))
    (found,) = (finding for finding in find_findings(results) if finding.rule == "little_use")
    assert found.claims["others"].n == 49
    assert len(told) == 1


def test_evidence_is_not_looked_for_further_than_it_is_told():
    asked = iter(range(1000))
    assert model.first_of(asked) == tuple(range(model.EVIDENCE))
    assert next(asked) == model.EVIDENCE


def test_places_of_devices_without_numbers():
    def calls(count: int) -> int:
        pids = {f"gpu {chr(97 + n % 26) * (n + 1)}": ("", f"x{n}") for n in range(count)}
        return calls_of(lambda: _device_indices(pids))

    assert calls(400) < 3 * calls(200)
    some = {"a": ("", "a"), "1": ("", "1"), "b": ("", "b"), "0": ("", "0"), "c": ("", "c")}
    assert _device_indices(some) == {"0": 0, "1": 1, "a": 2, "b": 3, "c": 4}
