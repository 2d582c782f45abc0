"""What the findings say of what the CPU did, on the smallest traces in which it was once not so."""

import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of
from tests.rules.test_rules import found
from tests.rules.test_said import found as found_whole

from tracetui.analysis.idle.initialization import profilers_work
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import step_table_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of


def test_nothing_waits_for_a_copy_within_the_device(tmp_path):
    """The call is slow: it ends after its copy, and did not wait for it."""

    def told(way: str) -> bool:
        events = []
        for n in range(10):
            events += [cpu("aten::copy_", 200 * n, 120), launch(200 * n + 5, n + 1, 100, "cudaMemcpyAsync")]
            events += [memcpy(200 * n + 50, 2, n + 1, way)]
        return found(trace_of(tmp_path, *events), "blocking_calls") is not None

    assert told("DtoH (Device -> Pinned)")
    assert not told("DtoD (Device -> Device)")


def test_what_is_launched_outside_of_ops_ends_a_loop(tmp_path):
    """As an autotuner does: it clears the cache with an op, and launches a kernel of Triton."""

    def told(between: int) -> bool:
        events = []
        for n in range(40):
            events += [
                cpu("aten::zero_", 100 * n, 20), launch(100 * n + 5, n + 1), kernel(100 * n + 30, 3, n + 1)
            ]  # fmt: skip
            if n < between:
                events += [
                    launch(100 * n + 40, 100 + n, name="cuLaunchKernelEx"), kernel(100 * n + 60, 3, 100 + n)
                ]  # fmt: skip
        return found(trace_of(tmp_path, *events), "tensor_loops") is not None

    assert told(0)
    assert not told(40)


@pytest.mark.parametrize("second", ["aten::add_", "aten::relu_"])
def test_two_ops_in_turn_are_a_loop(tmp_path, second):
    """As an average of the weights by hand; `torch._foreach_` has no relu."""
    events = []
    for n in range(80):
        at = 100 * n
        events += [cpu(second if n % 2 else "aten::mul_", at, 20), launch(at + 5, n + 1)]
        events += [kernel(at + 30, 3, n + 1)]
    finding = found(trace_of(tmp_path, *events), "tensor_loops")
    assert (finding is not None) is (second == "aten::add_")
    if finding:
        assert (finding.claims["in_turn"], f"{finding.claims['many']}") == (True, "40")
        assert f"{finding.claims['loops']}" == "aten::mul_ and aten::add_ (80, 7.92 ms)"
        assert f"{finding.claims['ops']}" == "aten::mul_, aten::add_"


def overhead(start: float, length: float) -> Event:
    return cpu("Activity Buffer Request", start, length, "overhead") | {"pid": -1, "tid": 0}


@pytest.mark.parametrize(("ops", "waited"), [(0, True), (4, True), (20, False)])
def test_the_profiler_holds_up_no_thread_that_goes_on(tmp_path, ops, waited):
    """Its work of 3 ms is on a thread of its own; the program's thread runs so many ops in the meantime."""
    events = [overhead(1000, 3000), *run(500, 20, 1), *run(5000, 20, 2)]
    events += [cpu("aten::mm", 1005 + 100 * n, 60) for n in range(ops)]
    assert len(profilers_work(trace_of(tmp_path, *events))) == waited
    # An op that takes a quarter of that time may have been held up.
    assert len(profilers_work(trace_of(tmp_path, *events, cpu("aten::add", 3210, 760)))) == 1


def test_one_gap_of_the_profiler_is_told_as_one(tmp_path):
    events = [
        *run(50, 20, 1), cpu("aten::mm", 80, 3000), overhead(100, 2900), launch(3060, 2), kernel(3070, 20, 2)
    ]  # fmt: skip
    finding = found_whole(trace_of(tmp_path, *events), "profiler_overhead")
    assert finding is not None
    told = [f"{finding.claims[name]}" for name in ("gaps", "inside", "longest_ns")]
    assert told == ["1", "aten::mm", "3.00 ms"]


def test_an_op_that_calls_another_form_of_itself_is_called_once(tmp_path):
    events = [cpu("aten::mean", 1000, 15_000), cpu("aten::mean", 1010, 14_900)]
    events += [launch(15_800, 1), kernel(15_810, 100, 1), *run(500, 20, 2)]
    trace = trace_of(tmp_path, *events)
    assert found(trace, "slow_calls") is None
    finding = found(trace, "overhead_bound")
    assert f"{finding.claims['first_calls']}" == "aten::mean"
    assert "first call" in f"{finding.claims['advice']}"


def test_a_compiled_region_that_is_called_once_is_not_told_as_a_first_call(tmp_path):
    """Guards, and what runs in Python inside it, take that time."""
    events = [cpu("Torch-Compiled Region: 0/0", 1000, 15_000), launch(15_800, 1), kernel(15_810, 100, 1)]
    assert "first_calls" not in found(trace_of(tmp_path, *events, *run(500, 20, 2)), "overhead_bound").claims


@pytest.mark.parametrize("stacks", [False, True])
def test_python_that_is_recorded_is_not_asked_for(tmp_path, stacks):
    events = [*run(10, 5, 1), cpu("phase", 100, 1000, "user_annotation"), cpu("aten::mm", 900, 50)]
    events += [launch(910, 2), kernel(920, 20, 2)]
    events += [cpu("train.py(3): step", 90, 1020, "python_function")] if stacks else []
    assert found(trace_of(tmp_path, *events), "before_the_first_op").claims["python"] is stacks


def saving(*slow: int) -> list[Event]:
    """Steps of 1 ms; one that saves takes 9, and so do other `slow` ones."""
    events: list[Event] = []
    for n in range(6):
        events += [
            step(n, 10_000 * n, 9_000 if n in (3, *slow) else 1_000), *run(10_000 * n + 100, 50, n + 1)
        ]  # fmt: skip
    return [*events, cpu("save", 31_000, 7_500, "user_annotation")]


def test_what_one_slow_step_has_is_not_said_of_all(tmp_path):
    alone, both = (found_whole(trace_of(tmp_path, *saving(*slow)), "slow_steps") for slow in ((), (5,)))
    assert both is not None
    assert f"{alone.claims['only']} {alone.claims['only_ns']}" == "save 7.50 ms"
    assert "only" not in both.claims


def test_a_step_that_the_profiler_makes_long_is_not_slow(tmp_path):
    events = saving(1)
    assert found_whole(trace_of(tmp_path, *events), "slow_steps").claims["numbers"] == "1, 3"  # type: ignore[union-attr]
    claims = found_whole(trace_of(tmp_path, *events, overhead(10_500, 8_000)), "slow_steps").claims  # type: ignore[union-attr]
    assert f"{claims['numbers']}: {claims['mean_ns']}" == "3: 9.00 ms"


@pytest.mark.parametrize(("steps", "told"), [((0, 1, 2, 3), True), ((2,), False)])
def test_calls_in_a_step_are_those_of_most_steps(tmp_path, steps, told):
    events: list[Event] = []
    for n in range(4):
        events += [step(n, 1000 * n, 990), *run(1000 * n + 900, 20, n + 1)]
        for k in range(8 if n in steps else 0):
            events += [cpu("aten::item", 1000 * n + 100 * k, 60)]
            events += [cpu("cudaStreamSynchronize", 1000 * n + 100 * k + 5, 50, "cuda_runtime")]
    finding = found(trace_of(tmp_path, *events), "blocking_calls")
    each = finding.claims["in_a_step"].n
    assert (1 < each < finding.claims["ops"].n) is told
    assert each == 8 or not told


def test_the_annotation_before_the_first_kernel_counts(tmp_path):
    """Three steps, each with 5 ms in which the CPU reads, also before the device has run anything."""
    events: list[Event] = []
    for n in range(3):
        events += [step(n, 6000 * n, 6000), cpu("read", 6000 * n, 5000, "user_annotation")]
        events += [cpu("aten::mm", 6000 * n + 5500, 100), *run(6000 * n + 5550, 300, n + 1)]
    finding = found_whole(trace_of(tmp_path, *events), "overhead_bound")
    assert f"{finding.claims['within']}" == "read (15.0 ms)"


def test_without_the_gpu_nothing_is_said_of_it(tmp_path):
    events = []
    for n in range(3):
        events += [cpu("aten::item", 1000 * n, 800), launch(1000 * n + 10, n + 1)]
        events += [cpu("cudaStreamSynchronize", 1000 * n + 50, 700, "cuda_runtime")]
    finding = found_whole(trace_of(tmp_path, *events), "blocking_calls")
    assert (finding.claims["meanwhile"], finding.claims["why"]) == ("not recorded", "not recorded")


def test_what_first_calls_cost_adds_up(tmp_path):
    """Calls in one another, and calls that the device worked through, are no time that it lost."""
    events = [cpu("aten::relu", 1000 + 20 * n, 12) for n in range(20)]
    events += [
        e for n in range(20) for e in (launch(1003 + 20 * n, n + 1, 3), kernel(1008 + 20 * n, 3, n + 1))
    ]
    events += [cpu("aten::relu", 0, 900), launch(10, 50, 880, "cudaLaunchKernel"), kernel(890, 5, 50)]
    events += [cpu("Lazy Function Loading", 100, 700, "overhead") | {"pid": -1, "tid": 0}]
    finding = found_whole(trace_of(tmp_path, *events), "initialisation")
    assert f"{finding.claims['names']}" == "cudaLaunchKernel (880 µs)"


def test_the_last_repetition_ends_with_what_it_reads_back(tmp_path):
    events: list[Event] = []
    for n in range(5):
        for k, name in enumerate("abcdef"):
            at = 1000 * n + 20 * k
            events += [
                cpu("aten::mm", at, 15), launch(at + 2, 10 * n + k + 1),
                kernel(at + 10, 5, 10 * n + k + 1, name=name)
            ]  # fmt: skip
        events += [
            cpu("aten::to", 1000 * n + 600, 80), launch(1000 * n + 605, 500 + n, 70, "cudaMemcpyAsync")
        ]  # fmt: skip
        events += [memcpy(1000 * n + 610, 60, 500 + n, "DtoH (Device -> Pageable)")]
    steps = step_table_of(Part(trace_of(tmp_path, *events)))
    assert len(steps) == 5
    assert int(steps.end[-1] - steps.start[-1]) == 680_000


def test_each_step_that_waits_before_its_work_has_no_lead_in(tmp_path):
    """The next step begins while the device still works for the one before, and then waits as long."""
    events: list[Event] = []
    for n in range(4):
        events += [step(n, 1000 * n, 1000), cpu("aten::randn", 1000 * n + 5, 700)]
        events += [launch(1000 * n + 720, n + 1), kernel(1000 * n + 730, 320, n + 1)]
    assert "lead-in" not in dict(verdict_of(Part(trace_of(tmp_path, *events))).left_out)


def test_what_the_profiler_adds_to_the_first_wait_is_no_lead_in(tmp_path):
    """Each step waits for 700 us; the first one for 900 us more, for the profiler."""
    events = [step(0, 0, 1900), overhead(10, 900), *run(1600, 200, 1)]
    for n in range(1, 4):
        events += [step(n, 900 + 1000 * n, 1000), *run(1600 + 1000 * n, 200, n + 1)]
    verdict = verdict_of(Part(trace_of(tmp_path, *events)))
    assert verdict.left_out == (("profiler", 900_000),)
    assert verdict.busy_share == pytest.approx(800 / 4000)


@pytest.mark.parametrize(("op", "said"), [(True, False), (False, True)])
def test_a_recording_of_nothing_says_what_to_do(tmp_path, op, said):
    span = cpu("PyTorch Profiler (0)", 0, 2000, "Trace") | {"pid": "Spans", "tid": "PyTorch Profiler"}
    sync = cpu("cudaDeviceSynchronize", 1900, 30, "cuda_runtime")
    trace = trace_of(tmp_path, span, sync, *([cpu("aten::mm", 10, 20)] if op else []))
    assert ("export the trace in on_trace_ready" in verdict_of(Part(trace)).reason) is said


@pytest.mark.parametrize(("failed", "advice"), [(False, "allocation"), (True, "less memory")])
def test_what_the_allocator_frees_after_a_request_that_failed(tmp_path, failed, advice):
    """It gives back what it keeps, and tries again: no `empty_cache()` of the program's."""
    events = [cpu("aten::empty", 100, 900), *run(90, 5, 1), *run(1010, 50, 2)]
    events += [cpu("cudaMalloc", 110, 300, "cuda_runtime"), cpu("cudaFree", 420, 300, "cuda_runtime")]
    if failed:
        one = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[OutOfMemory]", "pid": 9, "tid": 9}
        events.append(one | {"ts": 400, "args": {"Bytes": 1 << 30, "Device Type": 1}})
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert f"{finding.claims['advice']}" == advice


@pytest.mark.parametrize(
    "requests",
    [0, 1, 3],
)
def test_requests_for_memory_that_failed(tmp_path, requests):
    events = [cpu("aten::cudnn_convolution", 100, 500), *run(700, 50, 1)]
    for n in range(requests):
        one = {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[OutOfMemory]", "pid": 9, "tid": 9}
        events.append(one | {"ts": 200 + 50 * n, "args": {"Bytes": 1 << 30, "Device Type": 1}})
    finding = found(trace_of(tmp_path, *events), "out_of_memory")
    assert (finding.numbers["requests"] if finding else 0) == requests
    if finding:
        assert f"{finding.claims['names']}" == f"aten::cudnn_convolution ({requests})"


@pytest.mark.parametrize("op", [True, False])
def test_an_op_around_the_profilers_work_is_named_only_where_there_is_one(tmp_path, op):
    events = [overhead(10, 2900), launch(2960, 1), kernel(2970, 20, 1), cpu("aten::relu", 0, 5)]
    events += [cpu("aten::mm", 6, 2960)] if op else []
    finding = found_whole(trace_of(tmp_path, *events), "profiler_overhead")
    assert finding.claims["inside"] == ("aten::mm" if op else "")


@pytest.mark.parametrize("devices", [1, 2])
def test_the_verdict_on_several_devices_says_so(tmp_path, devices):
    """In each step, one is busy for 400 of 500 us and the other for 100."""
    events: list[Event] = []
    for n in range(3):
        events += [step(n, 500 * n, 500), *run(500 * n + 50, 400, 2 * n + 1)]
        other = kernel(500 * n + 200, 100, 2 * n + 2)
        other |= {"pid": 1, "args": other["args"] | {"device": 1}}
        events += [launch(500 * n + 190, 2 * n + 2), other] if devices == 2 else []
    results = Part(trace_of(tmp_path, *events))
    for verdict in (verdict_of(results), steps_of(results).rows[1].verdict):
        assert verdict.reason.startswith("Taken together, the 2 GPUs are busy") is (devices == 2)
        assert verdict.reason.startswith("The GPU is busy") is (devices == 1)
