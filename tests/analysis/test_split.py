"""How the time of devices splits: what each moment counts as, on traces of a few events."""

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, trace_of

from tracetui.analysis.idle.exposed_time import alone_within, exposed_communication
from tracetui.analysis.idle.split import COLUMNS, Split
from tracetui.trace import Trace
from tracetui.trace.model import I64


def test_what_nothing_hides(tmp_path):
    talk = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    trace = trace_of(
        tmp_path,
        kernel(0, 30, 1), kernel(20, 40, 2, 13, talk), kernel(50, 20, 3),
        memcpy(60, 30, 4, stream=20), memcpy(100, 5, 5, "DtoD (Device -> Device)"),
    )  # fmt: skip
    low, high = np.array([0, 25, 40, 80]) * 1000, np.array([200, 45, 55, 85]) * 1000
    assert (exposed_communication(trace).overlap(low, high) // 1000).tolist() == [20, 15, 10, 0]
    (at,) = np.flatnonzero([trace.name_of(i).startswith("Memcpy HtoD") for i in range(len(trace))])
    low, high = np.array([60, 80, 60]) * 1000, np.array([90, 85, 75]) * 1000
    assert (alone_within(trace, np.full(3, at), low, high) // 1000).tolist() == [20, 5, 5]


def times(*us: float) -> I64:
    return np.array([round(1000 * t) for t in us], dtype=np.int64)


def parts_of_time(time: I64) -> dict[str, float]:
    """By column, in us."""
    return {column: ns / 1000 for column, ns in zip(COLUMNS, time.tolist(), strict=True) if ns}


def of_all(trace: Trace, low: float, high: float) -> dict[str, float]:
    return parts_of_time(Split(trace).overlap(times(low), times(high))[:, 0].sum(0))


def on(event: Event, tid: int) -> Event:
    return event | {"tid": tid}


def of_device(event: Event, device: int = 1) -> Event:
    return event | {"pid": device, "args": event["args"] | {"device": device}}


def test_what_each_moment_counts_as(tmp_path):
    talk = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    trace = trace_of(
        tmp_path,
        cpu("x", 0, 100, "user_annotation"),
        kernel(0, 20, 1), kernel(10, 20, 2, 13, talk),  # 10 us beside each other
        memcpy(25, 15, 3, stream=20), memcpy(40, 5, 4, "DtoD (Device -> Device)", 21),
        memcpy(42, 8, 5, "DtoH (Device -> Pinned)", 22),
        kernel(60, 5, 6, 13, talk), memcpy(61, 2, 7, "DtoD (Device -> Device)", 21),
    )  # fmt: skip
    assert of_all(trace, 0, 100) == {"compute": 25, "communication": 15, "copies": 15, "unlinked": 45}
    assert of_all(trace, 28, 44) == {"communication": 2, "copies": 10, "compute": 4}
    assert of_all(trace, 64, 64) == {}


def test_after_the_last_work_the_ops_of_every_thread_count(tmp_path):
    """But of waiting and allocating, those of the thread that launched last."""
    events = [
        *run(10, 10, 1), cpu("aten::mm", 50, 30), on(cpu("aten::mul", 70, 20), 5),
        cpu("idle", 0, 100, "user_annotation")
    ]  # fmt: skip
    events.append(on(cpu("cudaMalloc", 91, 5, "cuda_runtime"), 5))
    trace = trace_of(tmp_path, *events)
    assert of_all(trace, 20, 100) == {"dispatch": 40, "host": 40}
    assert of_all(trace, 60, 85) == {"dispatch": 25}
    later = [on(launch(25, 2), 5), kernel(30, 10, 2)]
    held = {"dispatch": 40, "allocation": 5, "host": 15}
    assert of_all(trace_of(tmp_path, *events, *later), 40, 100) == held
    lost = kernel(32, 8, 3)  # nobody launched it
    assert of_all(trace_of(tmp_path, *events, *later, lost), 40, 100) == held
    trace = trace_of(tmp_path, kernel(10, 10, 1), cpu("aten::mm", 0, 100))
    assert of_all(trace, 20, 100) == {"unlinked": 80}


def test_before_the_first_work(tmp_path):
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 60), launch(80, 1), kernel(100, 10, 1))
    # 4 us are the launch, and 16 what is usual in this trace; it is the only one.
    assert of_all(trace, 0, 100) == {"dispatch": 60, "host": 20, "launch": 9, "in flight": 11}
    second = [launch(200, 2), kernel(220, 10, 2)]
    first = [cpu("aten::mm", 0, 60), launch(80, 1), kernel(100, 10, 1)]
    assert of_all(trace_of(tmp_path, *first, *second), 110, 220) == {"host": 90, "launch": 20}


def test_the_lead_of_a_range(tmp_path):
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 100), kernel(10, 10, 1), kernel(50, 10, 2))
    (devices,) = Split(trace).times
    low, high = times(0, 0, 0, 15, 20, 60, 5), times(5, 10, 10.001, 30, 60, 99, 60)
    assert (devices.lead(low, high)[0] / 1000).tolist() == [0, 0, 10, 0, 30, 0, 5]


@pytest.mark.parametrize(("leads", "found"), [
    ((21, 10, 10), 21), ((20, 10, 10), 0), ((21, 4, 10, 80), 21), ((50,), 0), ((50, 0), 50), ((6, 3), 0),
    ((7, 3), 7)
])  # fmt: skip
def test_a_lead_in_is_longer_than_twice_the_usual(tmp_path, leads, found):
    """That of the first range, if it is more than twice the middle of the others."""
    events = [e for i, lead in enumerate(leads) for e in run(100 * i + lead, 99 - lead, i + 1)]
    of = Split(trace_of(tmp_path, cpu("aten::mm", 0, 1000), *events))
    low = times(*(100 * i for i in range(len(leads))))
    (time,) = of.lead_ins(low, low + 100_000)
    assert time.sum() == 1000 * found
    assert (time == of.overlap(low[:1], low[:1] + 1000 * found)[0, 0]).all()


@pytest.mark.parametrize(("length", "judged"), [(10, True), (9.999, False)])
def test_a_device_takes_part_from_a_hundredth_on(tmp_path, length, judged):
    other = of_device(kernel(500, length, 90))
    of = Split(trace_of(tmp_path, launch(0, 1), kernel(0, 1000, 1), other))
    time = of.judged(of.overlap(times(0), times(1000))[:, 0])
    assert time.sum(1).tolist() == [1_000_000, 1_000_000 if judged else 0]


def test_without_devices(tmp_path):
    of = Split(trace_of(tmp_path, cpu("aten::mm", 0, 5)))
    assert of.overlap(times(0, 1), times(5, 2)).shape == (0, 2, len(COLUMNS))
    assert of.gaps_within(times(0), times(5)).sum() == 0
    assert of.lead_ins(times(0, 1), times(5, 2)).shape == (0, len(COLUMNS))
