"""The counters of a device: how long values hold, and what they say of the time in which it worked."""

import gzip
import json
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from tests.kineto import Event, run, trace_of
from tests.recorded import ROOT, load

from tracetui.analysis.part import Part
from tracetui.analysis.rates.counters import device_counters
from tracetui.analysis.rates.efficiency import efficiency_of
from tracetui.analysis.steps.scope import range_scope
from tracetui.timeline.counters import values_at
from tracetui.timeline.scene import Source
from tracetui.timeline.series import counters
from tracetui.trace import Kind
from tracetui.trace.counters import counter_of, counters_of, kernel_clocks, mean_within
from tracetui.views.device_counters import counters_json, counters_text
from tracetui.views.document_text import report_markdown
from tracetui.views.efficiency_text import efficiency_blocks, efficiency_json
from tracetui.views.event import event_facts
from tracetui.views.overview import overviews
from tracetui.views.summary import summary_answer

SAMPLES = ROOT / "tests" / "data" / "cuspy" / "samples.json.gz"
"""Three products beside copies, sampled every 100 us: the events of a .pftrace of PyTorch 2.15, as JSON."""
GRAPH = ROOT / "tests" / "data" / "cuspy" / "graph.json.gz"
ACTIVE, DRAM, POWER = "SM Active (%)", "DRAM BW (%)", "Power (W)"


def sample(name: str, at: float, value: float, gpu: int = 0) -> Event:
    """A value of a counter as Cuspy writes it."""
    return {"ph": "C", "name": name, "pid": f"GPU {gpu} Counters", "ts": at, "args": {"": value}}


def cycles(at: float, value: float) -> Event:
    return sample("Cycles (Current Kernel)", at, value)


def test_a_counter_has_its_device_and_its_unit(tmp_path):
    trace = trace_of(tmp_path, *run(10, 5, 1), sample(POWER, 12, 300), sample(POWER, 11, 200, gpu=3))
    assert [(c.name, c.unit, c.device, c.value.tolist()) for c in counters_of(trace)] == [
        ("Power", "W", 0, [300]), ("Power", "W", 3, [200])
    ]  # fmt: skip
    # Other counters stay as they are.
    other = {"ph": "C", "name": "Load (%)", "pid": 9, "ts": 12, "args": {"value": 3}}
    (found,) = counters_of(trace_of(tmp_path, *run(10, 5, 1), other))
    assert (found.name, found.unit, found.device) == ("Load (%)", "", -1)


def test_how_long_a_value_holds(tmp_path):
    events = [sample(ACTIVE, at, 50) for at in (0, 10, 20, 70, 80)]
    trace = trace_of(tmp_path, *run(5, 95, 1), *events, sample(POWER, 30, 200), cycles(5, 100))
    zero = trace.info.zero_ns

    def until(name: str) -> list[float]:
        found = counter_of(trace, 0, name)
        return [(end + zero) / 1000 for end in found.end.tolist()]

    assert until("SM Active") == [10, 20, 30, 80, 90]  # a mean over 10 us each
    assert until("Power") == [100]  # until the next one, or the end
    assert until("Cycles") == [100]  # of that kernel


def test_counters_in_the_timeline(tmp_path):
    events = [sample(ACTIVE, at, value) for at, value in ((0, 20), (10, 80), (20, 40))]
    trace = trace_of(tmp_path, *run(5, 95, 1), *events, sample(POWER, 0, 150.5), sample(POWER, 50, 300))
    found = {one.name: one for one in counters(trace)}
    assert [*found] == ["SM Active", "Power"]
    assert {one.device for one in found.values()} == {0}
    assert found["SM Active"].top == 100
    source = cast(Source, SimpleNamespace(series=tuple(found.values()), offset=0))
    zero = trace.info.zero_ns
    assert values_at(source, 0, 12_000 - zero) == ("80%, most 80%", "80/80%", "80%")
    assert values_at(source, 0, 60_000 - zero) == ("most 80%", "most 80%", "")
    assert values_at(source, 1, 12_000 - zero) == ("150.5 of 300 W", "150/300W", "150W")


def test_real_samples_against_a_plain_sum():
    events = json.loads(gzip.decompress(SAMPLES.read_bytes()))["traceEvents"]
    kernels = [(e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "kernel"]
    taken = sorted((e["ts"], e["args"][""]) for e in events if e["name"] == ACTIVE)
    total = ran = 0.0
    for at, value in taken:
        inside = sum(max(0.0, min(end, at + 100) - max(start, at)) for start, end in kernels)
        if inside:
            total, ran = total + value, ran + inside
    (found,) = device_counters(Part(load(SAMPLES)))
    assert found.sm_active == pytest.approx(total / ran, abs=1e-4)
    assert found.sampled == pytest.approx(1000 * ran, abs=1000)
    assert found.interval == 100_000
    assert found.dram == pytest.approx(0.083, abs=0.001)
    assert counters_text(found) == (
        "while kernels ran: SM active 94%; while busy: DRAM 8.3% of peak (a sample every 100 µs)"
    )
    assert counters_json(found)["sm_active_share"] == pytest.approx(total / ran, abs=1e-4)


def test_idle_time_within_a_sample_does_not_count(tmp_path):
    """Kernels run half of the time and fill 80 % of the SMs: a sample is 40 %."""
    events = [e for i in range(20) for e in run(10 + 10 * i, 5, i)]
    samples = [sample(ACTIVE, 10 + 50 * i, 40) for i in range(4)]
    trace = trace_of(tmp_path, *events, *samples)
    assert not device_counters(Part(trace))  # too few samples
    samples = [sample(ACTIVE, 10 + 20 * i, 40) for i in range(10)]
    (found,) = device_counters(Part(trace_of(tmp_path, *events, *samples)))
    assert found.sm_active == pytest.approx(0.8)


def test_a_part_of_the_trace(tmp_path):
    events = [*run(10, 100, 1), *run(210, 100, 2)]
    samples = [sample(ACTIVE, 10 + 10 * i, 20 if i < 10 else 60) for i in range(30)]
    results = Part(trace_of(tmp_path, *events, *samples))
    zero = results.trace.info.zero_ns
    part = results.in_scope(range_scope(200_000 - zero, 310_000 - zero))
    assert device_counters(part)[0].sm_active == pytest.approx(0.6)
    assert device_counters(results)[0].sm_active == pytest.approx(0.4)


def test_a_kernel_needs_several_samples_of_its_own(tmp_path):
    def of(every: float) -> float | None:
        samples = [sample(ACTIVE, every * i, 30 if i * every < 150 else 70) for i in range(int(300 / every))]
        trace = trace_of(tmp_path, *run(10, 100, 1), *run(160, 100, 2), *samples)
        return mean_within(trace, np.flatnonzero(trace.correlation == 2)[-1:], "SM Active")

    assert of(10) == pytest.approx(0.7)
    assert of(50) is None


def test_the_clock_is_cycles_by_time():
    trace = load(GRAPH)
    kernels, clock = kernel_clocks(trace, 0)
    events = json.loads(gzip.decompress(GRAPH.read_bytes()))["traceEvents"]
    taken = {e["ts"]: e["args"][""] for e in events if e["name"].startswith("Cycles")}
    expected = sorted(
        (e["ts"], taken[e["ts"]] / e["dur"]) for e in events if e.get("cat") == "kernel" and e["ts"] in taken
    )
    assert len(kernels) == len(expected) == 33
    assert clock.tolist() == pytest.approx([mhz for _, mhz in expected], rel=1e-3)
    (found,) = device_counters(Part(trace))
    assert counters_text(found) == (
        "while kernels ran: SM clock 1,980 MHz; power up to 130 W, temperature up to 47 C"
    )


def test_nothing_is_said_without_counters(tmp_path):
    trace = trace_of(tmp_path, *run(10, 5, 1))
    assert device_counters(Part(trace)) == ()
    assert not counters_of(trace)


def test_where_it_is_told():
    results = Part(load(SAMPLES))
    *_, overview = overviews(results)
    block = next(one for one in (*overview.right, *overview.more) if one.key == "counters")
    assert [(entry.name, entry.numbers) for entry in block.entries] == [
        ("SM active", ("94%",)), ("DRAM", ("8.3%",))
    ]  # fmt: skip
    said = "while kernels ran: SM active 94%; while busy: DRAM 8.3% of peak (a sample every 100 µs)"
    summary = summary_answer(results)
    assert "| SM active | 94% |" in summary.markdown()
    (device,) = summary.data()["device_list"]
    assert device["counters"]["sm_active_share"] == pytest.approx(0.937, abs=1e-3)
    counters = device_counters(results)
    assert said in report_markdown(efficiency_blocks(efficiency_of(results), counters=counters))
    assert efficiency_json(efficiency_of(results), counters)["counters"] == [device["counters"]]


def test_the_details_of_a_kernel(tmp_path):
    samples = [sample(ACTIVE, 10 + 10 * i, 40) for i in range(9)]
    trace = trace_of(tmp_path, *run(10, 50, 1), cycles(10, 99_000), *run(70, 5, 2), *samples)
    kernels = np.flatnonzero(trace.kind == Kind.KERNEL).tolist()
    told = [{fact.label: fact.value for fact in event_facts(trace, i, {})} for i in kernels]
    assert told[0]["SM clock"] == "1,980 MHz (99,000 cycles)"
    assert told[0]["SM active"] == "40%"
    assert "SM clock" not in told[1]  # no cycles
    assert "SM active" not in told[1]  # shorter than a sample
