"""Rules on what the counters of a device say."""

import pytest
from tests.analysis.test_device_counters import ACTIVE, cycles, sample
from tests.kineto import Event, run, step, trace_of
from tests.rules.test_rules import found

from tracetui.trace.counters import kernel_clocks


def small_kernels(active: float, count: int = 50) -> list[Event]:
    """Steps of 100 us in which a kernel runs for 90 us, each sampled twice."""
    events: list[Event] = []
    for i in range(count):
        events += [step(i, 100 * i, 95), *run(100 * i + 10, 90, i)]
        events += [sample(ACTIVE, 100 * i + 50 * half, active) for half in (0, 1)]
    return events


def test_busy_but_not_full(tmp_path):
    one = found(trace_of(tmp_path, *small_kernels(20)), "idle_sms")
    # 20 % of each sample's time, of which kernels ran for nine tenths
    assert one.numbers["sm_active"] == pytest.approx(0.2 / 0.9, abs=1e-3)
    assert one.numbers["device_ns"] == pytest.approx(50 * 90_000 * (1 - 0.2 / 0.9), abs=2000)
    assert one.severity == "high"
    assert "22% of the SMs" in one.title
    assert one.evidence
    assert not found(trace_of(tmp_path, *small_kernels(60)), "idle_sms")
    few = [e for e in small_kernels(20) if e["ph"] != "C" or e["ts"] < 2000]
    assert not found(trace_of(tmp_path, *few), "idle_sms")
    name = {"name": "ncclDevKernel_AllReduce_Sum"}
    talk = [e | (name if e.get("cat") == "kernel" else {}) for e in small_kernels(20)]
    assert not found(trace_of(tmp_path, *talk), "idle_sms")
    rare = [e for e in small_kernels(20) if e.get("cat") != "kernel" or e["args"]["correlation"] % 4 == 0]
    assert not found(trace_of(tmp_path, *rare), "idle_sms")


def clocked(*clocks: float) -> list[Event]:
    """A kernel of 50 us at each of these clocks, in MHz."""
    events: list[Event] = []
    for i, clock in enumerate(clocks):
        events += [*run(100 * i + 10, 50, i), cycles(100 * i + 10, 50 * clock)]
    return events


def test_a_clock_that_falls(tmp_path):
    events = clocked(*[1980] * 10, *[1320] * 10)
    heat = [sample("Power (W)", 100, 350), sample("Power (W)", 1500, 690), sample("Temperature (C)", 5, 80)]
    trace = trace_of(tmp_path, *events, *heat)
    kernels, clock = kernel_clocks(trace, 0)
    assert trace.kind[kernels].tolist() == [6] * 20
    assert clock.tolist() == pytest.approx([1980] * 10 + [1320] * 10)
    one = found(trace, "falling_clock")
    assert "falls from 1,980 to 1,320 MHz" in one.title
    assert one.numbers["device_ns"] == pytest.approx(10 * 50_000 / 3, abs=2)
    assert "power is 350 to 690 W and the temperature is 80 C" in one.text
    assert all(trace.start[i] >= 1_000_000 for i in one.evidence)
    rising = found(trace_of(tmp_path, *clocked(*[1320] * 10, *[1980] * 10)), "falling_clock")
    assert "varies between 1,320 and 1,980 MHz" in rising.title
    assert not found(trace_of(tmp_path, *clocked(*[1980] * 10, *[1950] * 10)), "falling_clock")
