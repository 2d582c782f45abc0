"""The verdict on traces of the CPU alone, against times counted by hand."""

import random
import time
from typing import Any

import numpy as np
import pytest
from tests.kineto import Event, cpu, launch, note, run, step, trace_of
from tests.recorded import load

from tracetui.analysis.idle.cpu_verdict import CpuTime, cpu_work, is_collective
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import range_scope
from tracetui.analysis.steps.steps import summarize_steps
from tracetui.analysis.verdicts import verdict_of
from tracetui.views.document_text import report_lines
from tracetui.views.lines import plain_text
from tracetui.views.steps import all_steps_json, step_blocks


def other(event: Event, tid: int = 5) -> Event:
    """The event on another thread."""
    return event | {"tid": tid}


def parts(time: CpuTime | None) -> tuple[float, ...]:
    """(ops, data loading, exposed communication, outside) in us; they add up to the span."""
    found = (time.ops, time.data_loading, time.exposed_communication, time.outside)
    assert sum(found) == time.span
    return tuple(part / 1000 for part in found)


LOOP = [
    # Step 0: 10 us loading data, of which 4 in an op, 30 in ops, 40 in a collective, 5 of it beside an op.
    step(0, 0, 100),
    note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 10),
    cpu("aten::stack", 2, 4),
    cpu("aten::linear", 10, 20),
    cpu("aten::addmm", 12, 16),
    cpu("aten::relu", 40, 10),
    other(note("gloo:all_reduce", 45, 40)),
    cpu("c10d::allreduce_", 51, 2),
    # Step 1: nothing but an op on another thread.
    step(1, 100, 100),
    other(cpu("aten::mm", 120, 50)),
]


def test_every_moment_counts_once(tmp_path):
    steps = summarize_steps(trace_of(tmp_path, *LOOP))
    first, second = (row.verdict.cpu for row in steps.rows)
    assert parts(first) == (30, 10, 35, 25)
    assert (first.communication, first.threads, first.thread_ops) == (40_000, 1, 30_000)
    assert (first.top, first.top_self, first.top_calls) == ("aten::addmm", 16_000, 1)
    assert parts(second) == (50, 0, 0, 50)
    assert parts(steps.whole.verdict.cpu) == (80, 10, 35, 75)
    assert steps.whole.verdict.cpu is not None
    assert steps.whole.verdict.cpu.threads == 2
    assert {row.verdict.verdict for row in (*steps.rows, steps.whole)} == {"CPU-only"}
    assert steps.whole.verdict.reason == (
        "Only the CPU was recorded. 40% of the 200 µs of the steps is in ops (on 2 threads), 18% is "
        "communication while no op runs, 5.0% is data loading while no other op runs, 38% is none of these "
        "(Python, waiting, work that was not recorded). The op with the most self time is aten::mm: 50.0 µs "
        "in 1 call."
    )


def test_the_whole_is_not_the_steps(tmp_path):
    """The verdict is about the steps; the row of the whole is about all of the recording."""
    steps = summarize_steps(trace_of(tmp_path, *LOOP, cpu("cudaDeviceSynchronize", 230, 170, "cuda_runtime")))
    assert parts(steps.whole.verdict.cpu) == (80, 10, 35, 75)
    assert steps.whole.verdict.reason.startswith("Nothing was launched on a GPU. 40% of")
    assert parts(steps.outside.cpu) == (0, 0, 0, 200)
    assert parts(steps.whole.cpu) == (80, 10, 35, 275)
    *_, outside, whole = plain_text(report_lines(step_blocks(steps), 80)).splitlines()
    assert outside.split() == ["outside", "-", "-", "-", "-", "100%"]
    assert whole.split() == ["whole", "400", "µs", "20%", "2.5%", "8.8%", "69%"]


@pytest.mark.parametrize(("length", "named"), [(10, True), (9.9, False)])
def test_an_op_is_named_from_a_tenth_of_the_time_on(tmp_path, length, named):
    trace = trace_of(tmp_path, step(0, 0, 100), cpu("aten::mm", 20, length))
    assert ("most self time is aten::mm" in verdict_of(Part(trace)).reason) == named


def test_without_steps_the_recording(tmp_path):
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 30), cpu("aten::add", 90, 10))
    verdict = verdict_of(Part(trace))
    assert (verdict.verdict, parts(verdict.cpu)) == ("CPU-only", (40, 0, 0, 60))
    assert "40% of the 100 µs of the recording is in ops, 60% is outside ops" in verdict.reason
    part = verdict_of(Part(trace).in_scope(range_scope(20_000, 60_000)))
    assert (part.verdict, parts(part.cpu)) == ("CPU-only", (10, 0, 0, 30))


def test_shown_in_the_table_and_in_json(tmp_path):
    steps = summarize_steps(trace_of(tmp_path, *LOOP))
    lines = ["".join(text for text, _ in line) for line in report_lines(step_blocks(steps), 80)]
    assert lines[0].split() == ["window", "in", "ops", "data", "comm", "rest"]
    assert lines[1].split() == ["step", "0", "100", "µs", "30%", "10%", "35%", "25%"]
    record: dict[str, Any] = all_steps_json(steps)["steps"][0]["cpu"]
    assert record == {
        "span_ns": 100_000, "ops_ns": 30_000, "data_loading_ns": 10_000, "exposed_communication_ns": 35_000,
        "outside_ns": 25_000, "ops_share": 0.3, "communication_ns": 40_000, "threads": 1,
        "thread_ops_ns": 30_000, "top_op": {"name": "aten::addmm", "calls": 1, "self_ns": 16_000}
    }  # fmt: skip


@pytest.mark.parametrize("events", [
    [cpu("aten::mm", 0, 30), *run(50, 10, 1)], [cpu("aten::mm", 0, 30), launch(10, 1)],
    [
        cpu("aten::mm", 0, 30), cpu("x", 0, 5, "mtia_ccp_events") | {"pid": 0, "tid": 3},
        cpu("k", 0, 5, "kernel")
    ],
    [note("no op", 0, 30)]
], ids=["a device", "launches without their kernels", "another device", "no ops"])  # fmt: skip
def test_other_traces_are_not_the_cpus(tmp_path, events):
    assert cpu_work(trace_of(tmp_path, *events)) is None
    assert all_steps_json(summarize_steps(trace_of(tmp_path, *events)))["whole"]["cpu"] is None


@pytest.mark.parametrize(("name", "is_one"), [
    ("gloo:all_reduce", True), ("mpi:broadcast", True), ("c10d::allreduce_", True),
    ("_c10d_functional::wait_tensor", True), ("oneccl_bindings_for_pytorch::allreduce", True),
    ("record_param_comms", True), ("aten::mm", False), ("mpi_like", False),
    ("DistributedDataParallel.forward", False), ("cclassify", False)
])  # fmt: skip
def test_collectives_by_name(name, is_one):
    assert is_collective(name) is is_one


def test_a_recorded_job(wild):
    """Five steps of a rank whose main thread waits for gloo: counted from the raw events."""
    time = summarize_steps(load(wild / "gloo_cpu_only_rank34.pt.trace.json.gz")).whole.verdict.cpu
    assert round(time.ops / time.span, 2) == 0.14
    assert round(time.exposed_communication / time.span, 2) == 0.83
    assert (time.top, time.top_calls) == ("aten::mm", 80)


def test_ops_of_a_hundred_thousand_levels(tmp_path):
    """Level by level it would take minutes."""
    deep = 100_000
    trace = trace_of(tmp_path, *(cpu(f"aten::f{i % 2}", i, 4 * deep - 2 * i) for i in range(deep)))
    begun = time.process_time()
    found = verdict_of(Part(trace)).cpu
    assert found.ops == found.span == 4 * deep * 1000
    assert time.process_time() - begun < 5


def test_threads_in_any_window_are_those_that_a_search_of_each_finds(tmp_path):
    rng = random.Random(5)
    ops = [
        other(cpu("aten::mm", rng.randrange(60), rng.choice((0, 1, 3, 30))), rng.randrange(8))
        for _ in range(40)
    ]
    trace = trace_of(tmp_path, *ops)
    work = cpu_work(trace)
    assert work is not None
    ends = trace.start + trace.duration
    spans = list(zip(trace.lane.tolist(), trace.start.tolist(), ends.tolist(), strict=True))
    for _ in range(300):
        borders = sorted(rng.randrange(0, 80_000, 500) for _ in range(rng.choice((2, 2, 2, 4, 6))))
        windows = list(zip(borders[::2], borders[1::2], strict=True))
        busy = {
            (lane, at) for lane, start, end in spans for low,
            high in windows for at in range(max(start, low), min(end, high), 500)
        }  # fmt: skip
        time = work.times(*(np.array(side, dtype=np.int64) for side in zip(*windows, strict=True)))
        assert (time.threads, time.thread_ops) == (len({lane for lane, _ in busy}), 500 * len(busy))


def test_steps_on_many_threads_take_no_longer_for_their_number(tmp_path):
    """Each step was compared with every thread: a minute for these."""
    events = [
        other(event, thread) for thread in range(1500)
        for event in (step(thread, 100 * thread, 90), cpu("aten::mm", 100 * thread + 1, 5))
    ]  # fmt: skip
    trace = trace_of(tmp_path, *events)
    begun = time.process_time()
    verdicts = [row.verdict.cpu for row in summarize_steps(trace).rows]
    assert [one.threads if one else 0 for one in verdicts] == [1] * 1500
    assert time.process_time() - begun < 10
