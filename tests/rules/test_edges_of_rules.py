"""Numbers of findings, findings of a range that begins late, and what just is no part of something."""

import numpy as np
import pytest
from tests.analysis.test_step_sources import found as steps_of
from tests.analysis.test_step_sources import launched, spans
from tests.kineto import Event, cpu, kernel, launch, memcpy, note, run, step, trace_of
from tests.rules.test_rules import A10, UNALIGNED, collectives, ddp, found, products

from tracetui.analysis.calls.chain import launch_chain
from tracetui.analysis.calls.compositions import rms_norm
from tracetui.analysis.idle.stream_waits import waits_of
from tracetui.analysis.names.kernel_names import decode
from tracetui.analysis.part import Part, Scope
from tracetui.analysis.steps.scope import range_scope
from tracetui.rules import RULES, Finding, find_findings
from tracetui.rules.recording import _what_it_interrupts
from tracetui.trace import Kind, Trace
from tracetui.views.explain import explain


def test_an_rms_norm_ends_where_other_ops_begin(tmp_path):
    """What stands around it, in the same place but of another name, is no part of it."""
    core = ["aten::pow", "aten::mean", "aten::add", "aten::rsqrt"]

    def part_of(*names: str) -> list[str]:
        trace = trace_of(tmp_path, *(cpu(name, 10 * n, 9) for n, name in enumerate(names)))
        return [trace.name_of(int(i)) for i in rms_norm(trace, names.index("aten::mean"))]

    assert part_of("aten::to", *core, "aten::mul", "aten::to", "aten::mul", "aten::mul") == [
        "aten::to", *core, "aten::mul", "aten::to", "aten::mul"
    ]  # fmt: skip
    assert part_of("aten::cat", *core, "aten::sub", "aten::view") == core
    assert part_of(*core, "aten::mul", "aten::sub") == [*core, "aten::mul"]
    assert part_of(*core, "aten::mul", "aten::_to_copy", "aten::sub") == [
        *core, "aten::mul", "aten::_to_copy"
    ]  # fmt: skip
    assert part_of(*core) == core
    assert part_of("aten::square", *core[1:]) == ["aten::square", *core[1:]]
    assert part_of("aten::sub", *core[1:]) == part_of(*core[:3]) == []


@pytest.mark.parametrize(("dtype", "size"), [
    ("Float", 4), ("Half", 2), ("BFloat16", 2), ("Double", 8), ("Int", 4), ("Long", 8), ("Byte", 1),
    ("Char", 1), ("Bool", 1), ("Float8_e4m3fn", 1), ("Float8_e5m2", 1),
])  # fmt: skip
def test_what_a_collective_sends(tmp_path, dtype, size):
    events = collectives(60, 10, 100)
    for event in events:
        event["args"] |= {"dtype": dtype} if "dtype" in event["args"] else {}
    finding = found(trace_of(tmp_path, *events), "small_collectives")
    assert f"{finding.claims['usual_ns']} {finding.claims['sent'].bytes}" == f"10.0 µs {100 * size}"


def test_collectives_whose_calls_take_no_time(tmp_path):
    """Then it is their time alone that counts; and the other way round."""
    events = [event for event in collectives(60, 10, 64) if not event["name"].startswith("c10d::")]
    finding = found(trace_of(tmp_path, *events), "small_collectives")
    assert finding.numbers["cpu_ns"] == 0
    assert finding.numbers["exposed_ns"] == 600_000
    assert finding.numbers["share"] == pytest.approx(600 / 1192, rel=0.02)


@pytest.mark.parametrize(("buffers", "gradients", "told"), [
    (200, 200, (True, True)), (200, 10, (True, False)), (10, 200, (False, True))
])  # fmt: skip
def test_ddp_copies_that_matter_are_told(tmp_path, buffers, gradients, told):
    finding = found(trace_of(tmp_path, *ddp(buffers, gradients)), "ddp_copies")
    assert finding is not None
    assert [finding.claims[name].ns for name in ("buffers_ns", "gradients_ns")] == [
        1000 * buffers, 1000 * gradients
    ]  # fmt: skip
    # `sentences.txt` has both; here, that what is little is not told.
    assert ("buffers" in finding.text, "gradients" in finding.text) == told


def test_numbers_of_unaligned_products(tmp_path):
    finding = found(trace_of(tmp_path, *products(UNALIGNED, 300)), "unaligned_products")
    assert finding is not None
    whole = sum(float(e["dur"]) for e in products(UNALIGNED, 300) if e["cat"] == "kernel")
    assert finding.numbers == {"share": 300 / whole, "device_ns": 300_000, "kernels": 1}


def test_guards_of_a_range(tmp_path):
    """40 of 1,000 us, far from the start of the recording."""
    inside = [
        cpu("TorchDynamo Cache Lookup", 90_100, 40), cpu("Torch-Compiled Region: 0/0", 90_150, 300),
        *run(90_010, 10, 2), cpu("aten::mm", 90_200, 100), *run(90_300, 100, 1),
    ]  # fmt: skip
    trace = trace_of(tmp_path, cpu("aten::relu", 0, 10), *inside, cpu("aten::relu", 90_990, 10))
    results = Part(trace).in_scope(range_scope(90_000_000, 91_000_000))
    (finding,) = RULES["compiled_overhead"](results)
    assert finding.numbers["each_ns"] == 40_000
    assert finding.numbers["share"] == 40 / 340
    assert f"{finding.claims['calls']}: {finding.claims['guards_ns']}" == "1: 40.0 µs"
    # In a range of which they are little they are no finding.
    assert not list(RULES["compiled_overhead"](Part(trace)))


def optimizer(kernels: int, name: str = "k") -> list[Event]:
    """A call of 800 us that launches so many kernels."""
    events = [note("Optimizer.step#SGD.step", 90_100, 800)]
    for n in range(kernels):
        at = 90_105 + 790 * n / kernels
        events += [launch(at, n + 1, 1), kernel(at + 2, 1, n + 1, name=name)]
    return [*events, cpu("aten::relu", 0, 10), cpu("aten::relu", 90_990, 10)]


def test_an_optimizer_loop_of_a_range(tmp_path):
    trace = trace_of(tmp_path, *optimizer(300))
    (finding,) = RULES["optimizer_loop"](Part(trace).in_scope(range_scope(90_000_000, 91_000_000)))
    assert finding.numbers == {"kernels": 300, "calls": 1, "share": 0.8}
    assert f"{finding.claims['name']}: {finding.claims['each']}" == "Optimizer.step#SGD.step: 300"
    assert f"{finding.claims['spent_ns']}" == "800 µs"
    for events in (optimizer(20), optimizer(300, "multi_tensor_apply_kernel")):
        part = Part(trace_of(tmp_path, *events)).in_scope(range_scope(90_000_000, 91_000_000))
        assert not list(RULES["optimizer_loop"](part))


def test_where_an_optimizer_loop_is_seen(tmp_path):
    """The three longest of its calls first, then kernels."""
    events = [note("Optimizer.step#SGD.step", 1000 * n, 900 + n) for n in range(4)]
    for n in range(4 * 300):
        at = 1000 * (n // 300) + 5 + 2.5 * (n % 300)
        events += [launch(at, n + 1, 1), kernel(at + 2, 1, n + 1, name="k")]
    trace = trace_of(tmp_path, *events)
    (finding,) = RULES["optimizer_loop"](Part(trace))
    assert [int(trace.duration[i]) for i in finding.evidence[:3]] == [903_000, 902_000, 901_000]
    assert [trace.name_of(i) for i in finding.evidence[3:]] == ["k"] * 3


def test_an_annotation_around_all_is_no_step(tmp_path):
    """The rounds within it are."""
    rounds = [event for n in range(4) for event in launched("ab", 100.0 * n + 10, 10 * n + 1)]
    inner = [note(f"round {n}", 100 * n + 2, 90) for n in range(4)]
    steps = steps_of(tmp_path, note("train", 0, 400), *rounds, *inner)
    assert (steps.source, len(steps)) == ("annotation round *", 4)
    assert [low for low, _ in spans(steps)] == [2, 102, 202, 302]


def test_a_stream_waits_since_the_work_before_it(tmp_path):
    """Only for what it was told between the two launches: the second kernel of its stream waits for the work
    of stream 13 that was launched before the event was recorded, the others for nothing."""

    def mark(correlation: int, record: int) -> Event:
        args = {
            "correlation": correlation, "stream": 7, "wait_on_stream": 13, "device": 0,
            "wait_on_cuda_event_record_corr_id": record,
        }  # fmt: skip
        return cpu("Stream Wait Event", 40, 1, "cuda_sync") | {"pid": 0, "tid": 1000007, "args": args}

    events = [
        launch(0, 1), kernel(10, 20, 1, name="first"),
        launch(5, 2), kernel(12, 60, 2, 13, "awaited"),
        cpu("cudaEventRecord", 10, 2, "cuda_runtime", correlation=3),
        launch(13, 4), kernel(80, 10, 4, 13, "later"),
        cpu("cudaStreamWaitEvent", 20, 2, "cuda_runtime", correlation=5), mark(5, 3),
        launch(30, 6), kernel(75, 20, 6, name="second"),
        launch(40, 7), kernel(100, 20, 7, name="third"),
    ]  # fmt: skip
    trace = trace_of(tmp_path, *events)
    at = {trace.name_of(i): i for i in range(len(trace))}
    wanted = np.array([at[name] for name in ("first", "second", "third", "awaited", "later")])
    names = [[trace.name_of(int(i)) for i in one] for one in waits_of(trace, wanted)]
    assert names == [[], ["awaited"], [], [], []]
    assert waits_of(trace, wanted[:0]) == []


def test_a_gemm_of_deep_gemm_runs_on_tensor_cores():
    name = "void deep_gemm::{}<4096u, 7168u, 128u, 160u, 128u, (deep_gemm::GemmType){}>(float*)"
    for kernel_, kind in (("fp8_gemm_kernel", "gemm"), ("transpose_kernel", "other")):
        one = decode(name.format(kernel_, 0))
        assert (one.kind, one.tensor_cores) == (kind, True if kind == "gemm" else None)
    assert decode(name.format("fp8_gemm_kernel", 0)).tile == "128x160x128"


def test_a_call_that_launches_nothing(tmp_path):
    """That is said, unless what is known of the op says it; and not of a trace without a GPU."""
    told = "This call launches nothing: its time is CPU time only."
    work = [cpu("aten::mm", 100, 20), *run(115, 10, 1)]

    def what(name: str, *more: Event) -> list[str]:
        trace = trace_of(tmp_path, cpu(name, 0, 20), *more)
        return list(explain(trace, next(i for i in range(len(trace)) if trace.name_of(i) == name)).what)

    assert told in what("aten::item", *work)
    assert not any("CPU time only" in text for text in what("aten::empty", *work))
    assert "It launches nothing." in what("aten::empty", *work)[0]
    assert told not in what("aten::item")


@pytest.mark.parametrize(("others", "waits"), [(7, True), (8, False)])
def test_of_many_waits_the_last_are_looked_at(others, waits, tmp_path):
    """The first is for work of stream 13, the others for events recorded before there was any."""
    events = [
        launch(0, 1), kernel(8, 5, 1, name="first"),
        cpu("cudaEventRecord", 1, 1, "cuda_runtime", correlation=2)
    ]  # fmt: skip
    events += [
        launch(4, 3), kernel(20, 60, 3, 13, "awaited"),
        cpu("cudaEventRecord", 9, 1, "cuda_runtime", correlation=4)
    ]  # fmt: skip
    for n in range(others + 1):
        args = {
            "correlation": 10 + n, "stream": 7, "wait_on_stream": 13, "device": 0,
            "wait_on_cuda_event_record_corr_id": 2 if n else 4,
        }  # fmt: skip
        events.append(cpu("cudaStreamWaitEvent", 20 + n, 0.5, "cuda_runtime", correlation=10 + n))
        events.append(
            cpu("Stream Wait Event", 60 + n, 1, "cuda_sync") | {"pid": 0, "tid": 1000007, "args": args}
        )
    trace = trace_of(tmp_path, *events, launch(50, 99), kernel(90, 20, 99, name="second"))
    (found,) = waits_of(trace, np.array([next(i for i in range(len(trace)) if trace.name_of(i) == "second")]))
    assert [trace.name_of(int(i)) for i in found] == ["awaited"] * waits


@pytest.mark.parametrize("name", ["cudaMalloc", "cudaFree", "cudaDeviceSynchronize"])
def test_a_call_that_launches_nothing_is_no_launch(tmp_path, name):
    call = launch(10, 7, 200, name)
    trace = trace_of(tmp_path, cpu("aten::empty", 0, 500), call, *run(700, 5, 8))
    chain = launch_chain(trace, next(i for i in range(len(trace)) if trace.name_of(i) == name))
    assert [(link.role, link.name) for link in chain.links] == [("op", "aten::empty"), ("call", name)]
    chain = launch_chain(trace, int(np.flatnonzero(trace.is_kind(Kind.KERNEL))[0]))
    assert [link.role for link in chain.links] == ["launch", "kernel"]


GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"
TALK = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def finding_of(trace: Trace, rule: str, scope: Scope | None = None) -> Finding | None:
    every = find_findings(Part(trace).in_scope(scope))
    return next((finding for finding in every if finding.rule == rule), None)


@pytest.mark.parametrize(("alone", "fires"), [(99, False), (100, True)])
def test_a_tenth_of_communication_is_enough(tmp_path, alone, fires):
    events = [
        launch(100, 1), kernel(100, 900 - alone, 1), *run(950 - alone, 50 + alone, 2, TALK, stream=13),
        *run(1000, 100, 3)
    ]  # fmt: skip
    assert (finding_of(trace_of(tmp_path, *events), "communication") is not None) == fires


@pytest.mark.parametrize(("first", "other", "end", "fires"), [
    (100, 99, 400, True),
    (100, 101, 400, False),  # less than half of the work
    (100, 80, 600, True),  # the device is busy for 0.3 of its time
    (100, 80, 601, False),
])  # fmt: skip
def test_a_hotspot(tmp_path, first, other, end, fires):
    half = (other - 1) / 2
    events = [*run(100, first, 1, GEMM), *run(100 + first, half, 2, "k"), *run(99 + end, 1, 3, "last")]
    events += run(100 + first + half, half, 4, "l")
    assert (finding_of(trace_of(tmp_path, *events), "hotspot") is not None) == fires


def test_stretches_before_the_first_op(tmp_path):
    parts = [
        event for i,
        wait in enumerate((60, 90, 70)) for event in (
            cpu(f"part {i}", 1000 * i, 500 - 100 * i, "user_annotation"),
            cpu("aten::mm", 1000 * i + wait, 10), *run(1000 * i + wait + 20, 5, i + 1)
        )
    ]  # fmt: skip
    finding = finding_of(trace_of(tmp_path, *parts), "before_the_first_op")
    assert finding.numbers == {"stretch_ns": 90_000, "total_ns": 220_000, "count": 3}
    assert finding.claims["name"] == "part 1"
    assert f"{finding.claims['share']:bare}" == "22%"
    waits = [p | {"name": "gloo:all_reduce"} if p["name"].startswith("part") else p for p in parts]
    assert finding_of(trace_of(tmp_path, *waits), "before_the_first_op") is None


def test_data_loading_of_a_range(tmp_path):
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    trace = trace_of(tmp_path, step(1, 0, 1000), cpu(name, 500, 40, "user_annotation"), *run(800, 100, 1))
    assert finding_of(trace, "data_loading") is None  # 4 % of the step
    finding = finding_of(trace, "data_loading", scope=range_scope(450_000, 1_250_000))
    assert finding.numbers == {"loading_ns": 40_000, "share": 0.05}
    assert finding_of(trace, "data_loading", scope=range_scope(450_000, 1_251_000)) is None


def test_spread_needs_three_steps_that_run_the_same(tmp_path):
    def steps(*names: str) -> Trace:
        events = [
            event
            for i, name in enumerate(names)
            for event in (step(i, 1000 * i, 900), *run(1000 * i + 100, 100 + 100 * i, i + 1, name))
            if name or event["name"].startswith("ProfilerStep#")
        ]
        return trace_of(tmp_path, *events)

    assert finding_of(steps("a", "a", "a"), "spread") is not None
    assert finding_of(steps("a", "a", "a"), "spread", scope=range_scope(0, 5_000_000)) is None
    assert finding_of(steps("b", "a", "a"), "spread") is None
    assert finding_of(steps("b", "a", "a", "a"), "spread") is not None
    assert finding_of(steps("", "a", "a", "a"), "spread") is not None  # the first runs none


def test_pageable_copies(tmp_path):
    def copied(length: float) -> Finding | None:
        events = [launch(10, 1, name="cudaMemcpyAsync"), memcpy(20, length, 1, "HtoD (Pageable -> Device)")]
        return finding_of(trace_of(tmp_path, *events, *run(4000, 20, 2)), "pageable_memory")

    assert copied(49.999) is None  # 50 us at least
    finding = copied(50)
    assert finding.numbers["copy_ns"] == 50_000
    assert "1.00 GB/s" in finding.text


@pytest.mark.parametrize(
    ("lengths", "advice"), [((2, 2, 20), "Give the GPU more work"), ((2, 40, 40), "Look at what Python does")]
)
def test_the_advice_where_the_cpu_sets_the_pace(tmp_path, lengths, advice):
    """Where most kernels are shorter than their launches, there is too little to launch."""
    events = [cpu("aten::mm", 500 * i + 80, 215) for i in range(2)]
    for i, length in enumerate(lengths):
        events += [launch(500 * i, i + 1, 30), kernel(500 * i + 35, length, i + 1)]
    finding = finding_of(trace_of(tmp_path, *events), "overhead_bound")
    assert finding.advice.startswith(advice)
    assert finding.numbers["short_launches"] == sum(length < 30 for length in lengths)


@pytest.mark.parametrize(("end", "fires"), [(1000, True), (1001, False)])
def test_a_stretch_before_the_first_op_is_a_twentieth_of_all(tmp_path, end, fires):
    events = [cpu("part", 0, 400, "user_annotation"), cpu("aten::mm", 50, 10), *run(300, 5, 1)]
    trace = trace_of(tmp_path, *events, cpu("aten::add", end - 10, 10))
    assert (finding_of(trace, "before_the_first_op") is not None) == fires


def test_the_op_that_the_profiler_interrupts_may_be_the_first_of_all(tmp_path):
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 100), cpu("Buffer Flush", 20, 10, "overhead") | {"tid": 99})
    op, flush = (next(i for i in range(len(trace)) if trace.name_of(i) == name) for name in
                 ("aten::mm", "Buffer Flush"))  # fmt: skip
    assert op == 0
    assert _what_it_interrupts(Part(trace), np.array([flush]), 0, 100_000)[:2] == (flush, "aten::mm")


@pytest.mark.parametrize(("wait", "fires"), [(50, True), (49.999, False)])
def test_the_shortest_stretch_before_the_first_op(tmp_path, wait, fires):
    events = [
        cpu("part", 0, 400, "user_annotation"), cpu("aten::mm", wait, 10), *run(300, 5, 1), *run(390, 5, 2)
    ]  # fmt: skip
    assert (finding_of(trace_of(tmp_path, *events), "before_the_first_op") is not None) == fires


def test_calls_that_wait_without_a_device_cost_it_nothing(tmp_path):
    wait = launch(10, 1, 5000, "cudaStreamSynchronize")
    finding = finding_of(trace_of(tmp_path, cpu("aten::item", 0, 6000), wait), "blocking_calls")
    assert (finding.numbers["wait_ns"], finding.numbers["idle_ns"]) == (5_000_000, 0)


@pytest.mark.parametrize(("alone", "severity"), [(30, "medium"), (31, "high"), (9, "")])
def test_communication_of_a_cpu(tmp_path, alone, severity):
    """While no thread is in an op, of 100 us."""
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 100 - alone), note("gloo:all_reduce", 100 - alone, alone))
    finding = found(trace, "communication")
    assert (finding.severity if finding is not None else "") == severity


def test_what_is_called_pinned_and_is_no_copy(tmp_path):
    copy = memcpy(100, 1000, 1)
    copy["args"]["bytes"] = 10_000_000
    events = [launch(95, 1, name="cudaMemcpyAsync"), *run(1200, 500, 2)]
    assert found(trace_of(tmp_path, copy, *events, **A10), "slow_copies") is not None
    other = copy | {"name": "Move (Pinned -> Device)"}
    assert found(trace_of(tmp_path, other, *events, **A10), "slow_copies") is None


@pytest.mark.parametrize(("more", "cold"), [(4, True), (5, False), (1, True)])
def test_steps_that_do_twice_as_much_as_the_first_are_compared_with_it(tmp_path, more, cold):
    events: list[Event] = []
    for n in range(4):
        events.append(step(n, 3000 * n, 2600 if n == 0 else 200))
        for k in range(2 if n == 0 else more):
            events += run(3000 * n + 10 + 20 * k, 5, 9 * n + k + 1)
    assert (found(trace_of(tmp_path, *events), "cold_start") is not None) is cold


@pytest.mark.parametrize(
    "odd", [{"id": [0]}, {"id": {}}, {"numSms": 10**400}, {"numSms": -1}, {"numSms": "132"}]
)
def test_odd_properties_of_a_device(tmp_path, odd):
    launched, done = run(10, 900, 1, "few")
    done["args"]["grid"] = [4, 1, 1]
    properties = {"deviceProperties": [{"id": 0, "name": "NVIDIA H200", "numSms": 132} | odd]}
    events = [launched, done, *run(920, 50, 2, "many")]
    assert found(trace_of(tmp_path, *events, **properties), "small_grids") is None
    properties["deviceProperties"] = [{"id": 0, "name": "NVIDIA H200", "numSms": 132}]
    assert found(trace_of(tmp_path, *events, **properties), "small_grids") is not None
