"""What is said of small traces whose program is known: each sentence here was once false, or missing."""

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of

from tracetui.analysis.calls.averages import averages_of
from tracetui.analysis.calls.launches import short_kernels_of
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.split import split_of
from tracetui.analysis.names.kernel_names import decode
from tracetui.analysis.part import Part
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules import Finding, find_findings
from tracetui.trace import Trace

FP32 = "volta_sgemm_128x64_nn"
FLEX = "triton_tem_fused__to_copy_flex_attention_ones_slice_sort_sum_transpose_zeros_2"
GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"
GATHER = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long)"
FOREACH = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::A>(A)"


def found(trace: Trace, rule: str) -> Finding | None:
    return next((finding for finding in find_findings(Part(trace)) if finding.rule == rule), None)


def saving(steps: int, every: int) -> list[Event]:
    """Steps of 100 us; each `every`th from the first on then copies for 400 us and writes for 500."""
    events: list[Event] = []
    start = 0
    for n in range(steps):
        length = 100
        events += [cpu("aten::mm", start + 5, 30), *run(start + 20, 40, 2 * n + 1)]
        if n % every == 0:
            copy = start + 105
            events += [cpu("aten::copy_", copy - 2, 406), launch(copy, 2 * n + 2, 402, "cudaMemcpyAsync")]
            events.append(memcpy(copy + 1, 400, 2 * n + 2, "DtoH (Device -> Pageable)"))
            length += 905
        events.append(step(n, start, length))
        start += length + 5
    return events


def test_what_comes_back_every_third_step_is_no_cold_start(tmp_path):
    """A first step of 1,005 us is cold among five of 100; not where a later one takes as long."""
    assert found(trace_of(tmp_path, *saving(6, 6)), "cold_start") is not None
    trace = trace_of(tmp_path, *saving(6, 3))
    assert found(trace, "cold_start") is None
    assert found(trace, "wide_first_step") is None


def test_a_copy_that_its_call_waits_for_is_no_short_kernel(tmp_path):
    """A copy of 400 us in a call of 402: the call does not take longer than what it launches."""
    short = short_kernels_of(Part(trace_of(tmp_path, *saving(2, 2))))
    assert (short.events, short.of) == (0, 3)


def test_a_call_may_return_before_the_last_piece_of_its_copy_is_over(tmp_path):
    """A call of 510 us; a copy of 500 from 20 us after its start on."""
    copy = [launch(100, 1, 510, "cudaMemcpyAsync"), memcpy(120, 500, 1, "HtoD (Pageable -> Device)")]
    short = short_kernels_of(Part(trace_of(tmp_path, *copy, *run(1000, 2, 2))))
    assert (short.events, short.of) == (1, 2)


def test_where_no_two_steps_are_alike_none_is_slow(tmp_path):
    """1.39, 1.73, 0.28 and 0.16 ms: twice the median of 0.84 is not "longer than usual"."""
    events: list[Event] = []
    for n, length in enumerate((1390, 1730, 280, 160)):
        events += [step(n, 2000 * n, length), cpu("aten::mm", 2000 * n, length)]
    assert found(trace_of(tmp_path, *events), "slow_steps") is None


def test_the_time_after_a_copy_is_not_the_copys(tmp_path):
    """The CPU writes for 500 us after its copy. It did not wait for earlier work: that was done."""
    times = dict(zip(CAUSES, verdict_of(Part(trace_of(tmp_path, *saving(6, 3)))).causes, strict=True))
    assert times["host"] > 990_000
    assert times["sync"] < 10_000


@pytest.mark.parametrize(("steps", "every"), [(6, 3), (6, 6), (6, 1)])
def test_slow_steps(tmp_path, steps, every):
    """Those of 1,005 us among steps of 100; not the first alone, nor where all are alike."""
    finding = found(trace_of(tmp_path, *saving(steps, every)), "slow_steps")
    assert (finding is not None) is (every == 3)
    if finding:
        assert f"{finding.claims['slow']} of {finding.claims['steps']}" == "2 of 6"
        assert finding.claims["numbers"] == "0, 3"
        assert f"{finding.claims['mean_ns']}, {finding.claims['usual_ns']}" == "1.00 ms, 100 µs"
        assert finding.numbers["more_ns"] == 2 * 905_000
        assert f"{finding.claims['outside_ns']}" == "998 µs"


@pytest.mark.parametrize(
    ("kernels", "name", "told"), [(120, "", True), (90, "", False), (120, FOREACH, False)]
)
def test_an_optimizer_that_goes_tensor_by_tensor(tmp_path, kernels, name, told):
    """One call of `kernels` launches, 20 us from one to the next."""
    events = [cpu("Optimizer.step#Adam.step", 0, 20 * kernels, "user_annotation")]
    for n in range(kernels):
        events += [launch(20 * n + 2, n + 1), kernel(20 * n + 8, 2, n + 1, name=name)]
    events += run(20 * kernels + 100, 90, 999)  # of something else
    finding = found(trace_of(tmp_path, *events), "optimizer_loop")
    assert (finding is not None) is told
    if finding:
        assert f"{finding.claims['each']}, {finding.claims['mean_ns']}" == "120, 2.00 µs"


@pytest.mark.parametrize("again", [False, True])
def test_whether_compiling_comes_back(tmp_path, again):
    events: list[Event] = []
    for n in range(3):
        events += [step(n, 1000 * n, 990), *run(1000 * n + 900, 10, n + 1)]
        if again or not n:
            events.append(cpu("_compile.compile_inner (dynamo_timed)", 1000 * n + 10, 800))
    trace = trace_of(tmp_path, *events)
    finding, bound = found(trace, "compiling"), found(trace, "overhead_bound")
    assert bound is not None
    assert ("compiling again" in f"{finding.claims['advice']}") is again
    if again:
        assert bound.claims["advice"] == finding.claims["advice"]


def test_what_the_compiler_tries_out_is_not_the_programs(tmp_path):
    """120 kernels of 1 us, launched by calls of 4: within torch.compile they say nothing."""
    events = [step(0, 0, 4000)]
    events += [
        e for n in range(120) for e in (launch(30 * n, n + 1), kernel(30 * n + 8, 1, n + 1, name="at::k"))
    ]
    assert not found(trace_of(tmp_path, *events), "short_calls").claims["ops"].each, "no op does"
    compiling = cpu("_compile.compile_inner (dynamo_timed)", 0, 3700)
    assert found(trace_of(tmp_path, compiling, *events), "short_calls") is None


def test_flex_attention_is_one_operator():
    """What made its inputs ran in other kernels."""
    name = decode(FLEX)
    assert (name.short, name.kind) == ("triton tem: flex_attention", "attention")
    assert {"ones", "sort", "zeros"} <= set(name.ops)


def test_flex_attention_computes_attention(tmp_path):
    finding = found(trace_of(tmp_path, *run(10, 50, 1, name=FLEX)), "fused_kernels")
    assert f"{finding.claims['computed']}" == "flex_attention"


def test_ops_of_other_threads_are_not_recorded(tmp_path):
    """Annotations say that the CPU was recorded: without ops, the launching thread's were not."""
    events = [*run(10, 5, 1), *run(500, 5, 2), *run(1000, 5, 3)]
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert "no ops" in f"{finding.claims['advice']}"
    steps = [step(n, 500 * n, 500) | {"tid": 8} for n in range(3)]
    finding = found(trace_of(tmp_path, *steps, *events), "overhead_bound")
    assert "ops of other threads" in f"{finding.claims['advice']}"


def test_without_gpu_events_perhaps_none_were_asked_for(tmp_path):
    verdict = verdict_of(Part(trace_of(tmp_path, cpu("aten::mm", 0, 20), launch(5, 1))))
    assert "Either only CPU activity was asked for, or the GPU could not be profiled" in verdict.reason


@pytest.mark.parametrize(("pause", "told"), [(20, True), (400, False)])
def test_waits_outside_of_ops(tmp_path, pause, told):
    """Ten products of 50 us, after each of which the CPU waits and then is busy for `pause`. The wait costs
    that much at most, and is told where that is a twentieth of the time."""
    events: list[Event] = []
    for n in range(10):
        start = (60 + pause) * n
        events += [launch(start, n + 1), kernel(start + 6, 10, n + 1)]
        events.append(cpu("cudaDeviceSynchronize", start + 5, 12, "cuda_runtime"))
    finding = found(trace_of(tmp_path, *events), "explicit_waits")
    assert (finding is not None) is told
    if finding:
        assert f"{finding.claims['calls']} {finding.claims['name']}" == "9 cudaDeviceSynchronize"
        assert finding.numbers["wait_ns"] == 9 * 12_000  # nothing is launched after the last
        assert finding.claims["for_events"] is False


def test_a_device_that_is_nearly_always_idle_needs_no_faster_products(tmp_path):
    def fp32(length: float) -> Finding | None:
        return found(
            trace_of(tmp_path, *run(10, 8, 1, name=FP32), *run(length, 8, 2, name=FP32)), "fp32_products"
        )

    assert fp32(600) is not None
    assert fp32(700) is None


@pytest.mark.parametrize(("name", "told"), [(GEMM, True), (GATHER, False)])
def test_shapes_are_asked_for_where_they_tell(tmp_path, name, told):
    finding = found(trace_of(tmp_path, *run(10, 500, 1, name=name), *run(520, 50, 2)), "hotspot")
    assert finding.claims["shapes"] is not told


@pytest.mark.parametrize(
    ("op", "call", "told"),
    [("aten::mm", "cudaLaunchKernel", True), ("triton_tem_fused_mm_0", "cuLaunchKernel", False),
     ("aten::mm", "cudaGraphLaunch", False)],
)  # fmt: skip
def test_shapes_tell_nothing_of_graphs_and_of_the_compilers_kernels(tmp_path, op, call, told):
    events = [cpu(op, 0, 20), launch(5, 1, 4, call), kernel(10, 500, 1, name=GEMM), *run(520, 50, 2)]
    assert found(trace_of(tmp_path, *events), "hotspot").claims["shapes"] is not told


@pytest.mark.parametrize("alike", [True, False])
def test_instances_of_one_template_are_one_hotspot(tmp_path, alike):
    """Products of 300 and 250 us that read the same, or not, beside 300 us of something else."""
    second = GEMM.replace("_h_bz", "_v_bz") if alike else FP32
    events = [*run(10, 300, 1, name=GEMM), *run(310, 250, 2, name=second), *run(560, 300, 3, name="x")]
    finding = found(trace_of(tmp_path, *events), "hotspot")
    assert (finding is not None) is alike
    if finding:
        assert f"{finding.claims['instances']} {finding.claims['mean_ns']}" == "2 275 µs"
        assert finding.numbers["share"] == pytest.approx(550 / 850)


@pytest.mark.parametrize("op", ["aten::group_norm", "", "my_op"])
def test_ops_that_copy_their_inputs(tmp_path, op):
    """Of 1 ms a copy takes 100 us: in an op of PyTorch, or where the program itself asks for it."""
    around = [cpu(op, 0, 40)] if op else []
    copy = [cpu("aten::contiguous", 2, 30), cpu("aten::clone", 3, 28), cpu("aten::copy_", 4, 20)]
    copy += [launch(8, 1), kernel(20, 100, 1, name="copy")]
    events = [*around, *copy, launch(50, 2), kernel(120, 900, 2, name=GEMM)]
    finding = found(trace_of(tmp_path, *events), "contiguous_copies")
    assert (finding is not None) is (op == "aten::group_norm")
    if finding:
        assert f"{finding.claims['share']}" == "10% of kernel and copy time"
        assert f"{finding.claims['names']}" == "aten::group_norm (1, 100 µs)"


@pytest.mark.parametrize(("length", "said"), [(300, True), (100, False)])
def test_gathers_read_and_write_memory(tmp_path, length, said):
    """Beside a product of 250 us, 160 us of elementwise work, and so much of a gather."""
    add = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, A>(int)"
    events = [*run(10, 250, 1, name=GEMM), *run(260, 160, 2, name=add), *run(420, length, 3, name=GATHER)]
    finding = found(trace_of(tmp_path, *events), "memory_bound")
    assert finding.claims["gathered_ns"].ns == 1000 * length
    assert (2 * 1000 * length > finding.numbers["device_ns"]) is said


def test_turns_of_one_length_name_another_process(tmp_path):
    """All is queued at once in one stream, after earlier work; every 3 ms nothing runs for 2."""
    events = [step(0, 0, 400), kernel(0, 900, 100)]
    events += [launch(10 + 20 * n, n + 1) for n in range(8)]
    events += [kernel(1000 + 3000 * n, 1000 - 10 * (n % 2), n + 1) for n in range(8)]
    finding = found(trace_of(tmp_path, *events), "little_use")
    assert finding.claims["causes"].each[0].name == "queued alone"
    turns = [f"{finding.claims[name]}" for name in ("turns", "shortest_turn_ns", "longest_turn_ns")]
    assert turns == ["7", "2.00 ms", "2.01 ms"]
    assert "other processes" in f"{finding.claims['advice']}"
    events.append(kernel(50, 20, 99, stream=9))
    finding = found(trace_of(tmp_path, *events), "little_use")
    assert "turns" not in finding.claims


@pytest.mark.parametrize("early", [False, True])
def test_copies_beside_kernels_that_were_not_recorded(tmp_path, early):
    """The first kernel of stream 7 comes at 1,000 us. If it was launched before the recording, the one before
    it, which is not in the trace, may have run beside the copy."""
    copy = [launch(5, 1, name="cudaMemcpyAsync"), memcpy(20, 500, 1, stream=8)]
    events = [*copy, launch(30, 2), kernel(1000, 3000, 2), launch(40, 3), kernel(4001, 3000, 3)]
    if early:
        events.remove(events[2])
    assert (found(trace_of(tmp_path, step(0, 0, 100), *events), "exposed_copies") is None) is early


def test_launches_and_work_with_an_external_id_in_common(tmp_path):
    """Older PyTorch for ROCm writes no `correlation`, and ids of ops that are others' launches."""
    events = [cpu("aten::mm", 0, 30, **{"External id": 12})]
    for n in (11, 12):
        call = cpu("hipExtModuleLaunchKernel", 5 * n - 50, 2, "cuda_runtime")
        work = kernel(100 * n - 1000, 50, 0, name=GEMM)
        events += [event | {"args": {"External id": n}} for event in (call, work)]
    trace = trace_of(tmp_path, *events)
    launched = trace.launch >= 0
    assert [trace.start[i] for i in trace.launch[launched].tolist()] == [5_000, 10_000]
    assert {trace.name_of(int(i)) for i in trace.op[launched].tolist()} == {"aten::mm"}
    assert {row.name: row for row in averages_of(Part(trace)).rows()}["aten::mm"].device_total == 100_000


def test_the_profiler_at_work_in_a_first_op(tmp_path):
    """3,000 us of an op that holds a first launch: the profiler takes 2,500 of them."""
    request = cpu("Activity Buffer Request", 10, 2500, "overhead") | {"pid": -1, "tid": 0}
    events = [cpu("aten::normal_", 0, 3000), request, launch(2550, 1, 400), kernel(2990, 5, 1, name="k")]
    for n in range(2, 9):
        events += [cpu("aten::normal_", 3000 * n, 20), launch(3000 * n + 5, n), kernel(3000 * n + 12, 5, n)]
    trace = trace_of(tmp_path, *events)
    low, high = np.array([[0], [2_990_000]])
    times = dict(zip(CAUSES, split_of(Part(trace)).idle_within(low, high)[0].tolist(), strict=True))
    assert (times["initialisation"], times["profiler"]) == (450_000, 2_500_000)


@pytest.mark.parametrize("closure", [True, False])
def test_an_optimizer_that_runs_the_model_itself(tmp_path, closure):
    """Within L-BFGS's step are those of the forward and backward pass."""
    events = [cpu("Optimizer.step#LBFGS.step", 0, 3000, "user_annotation")]
    events += [e for n in range(120) for e in (launch(20 * n + 50, n + 1), kernel(20 * n + 56, 2, n + 1))]
    if closure:
        events.append(cpu("Optimizer.zero_grad#LBFGS.zero_grad", 10, 20, "user_annotation"))
    assert (found(trace_of(tmp_path, *events), "optimizer_loop") is None) is closure


def test_memory_that_every_step_asks_for(tmp_path):
    """What comes back in each of four steps are no first requests; what comes in the first two may be."""
    for several in (2, 4):
        events: list[Event] = []
        for n in range(4):
            events += [step(n, 1000 * n, 990), *run(1000 * n + 900, 10, n + 1)]
            if n < several:
                events.append(cpu("cudaMalloc", 1000 * n + 10, 890, "cuda_runtime"))
            else:
                events.append(cpu("aten::mm", 1000 * n + 10, 440))
        finding = found(trace_of(tmp_path, *events), "overhead_bound")
        assert ("every step" in f"{finding.claims['advice']}") is (several == 4)
        assert "allocation" not in f"{finding.claims['advice']}"  # nothing is given back
        assert ("first requests" in f"{finding.claims['advice']}") is (several == 2)


def test_what_makes_a_first_step_slow(tmp_path):
    """Of 2,000 us more, the ops take 600: that is not most of it."""
    for more, most in ((600, False), (1500, True)):
        events = [step(0, 0, 2100), cpu("aten::mm", 10, 20 + more)]
        for n in range(1, 6):
            events += [step(n, 2100 + 100 * n, 100), cpu("aten::mm", 2110 + 100 * n, 20)]
        finding = found(trace_of(tmp_path, *events), "cold_start")
        ((name, spent),) = ((one.name, one.ns) for one in finding.claims["dearer"].each)
        assert (name, 2 * spent > finding.claims["more_ns"].ns) == ("aten::mm", most)


@pytest.mark.parametrize(("extra", "inside", "advice"), [
    (900, False, "only there"), (900, True, "same ops"), (100, False, "system's")
])  # fmt: skip
def test_what_makes_steps_slow(tmp_path, extra, inside, advice):
    events: list[Event] = []
    start = 0
    for n in range(6):
        more = extra if n in (2, 4) else 0
        events += [step(n, start, 100 + more), cpu("aten::mm", start + 5, 50 + more * inside)]
        start += 100 + more
    finding = found(trace_of(tmp_path, *events), "slow_steps")
    assert f"{finding.claims['advice']}" == advice
    assert finding.severity == ("info" if extra == 100 else "medium")


@pytest.mark.parametrize(("ops", "same"), [(50, True), (51, True), (52, False)])
def test_slow_steps_that_run_the_same_ops(tmp_path, ops, same):
    """One op in fifty more is nothing else; each takes eleven times as long."""
    events: list[Event] = []
    for n in range(6):
        many, each = (ops, 110) if n == 3 else (50, 10)
        events.append(step(n, 10_000 * n, many * each))
        events += [cpu("aten::mm", 10_000 * n + each * i, each) for i in range(many)]
    assert ("same_ops" in found(trace_of(tmp_path, *events), "slow_steps").claims) is same


@pytest.mark.parametrize("name", ["cudaEventSynchronize", "cudaDeviceSynchronize"])
def test_waits_for_events(tmp_path, name):
    """Who times with events already is not told to."""
    events: list[Event] = []
    for n in range(10):
        events += [*run(1000 * n + 10, 400, n + 1), cpu(name, 1000 * n + 20, 400, "cuda_runtime")]
    finding = found(trace_of(tmp_path, *events), "explicit_waits")
    assert finding.claims["for_events"] is (name == "cudaEventSynchronize")


@pytest.mark.parametrize(("busy", "told"), [(400, False), (600, True)])
def test_a_closing_wait_is_explained_where_the_gpu_works_for_most_of_it(tmp_path, busy, told):
    events = [*run(10, busy + 10, 1), cpu("cudaDeviceSynchronize", 20, 1000, "cuda_runtime")]
    assert (found(trace_of(tmp_path, *events), "waiting_at_the_end") is not None) is told


@pytest.mark.parametrize("way", ["HtoD (Pageable -> Device)", "DtoH (Device -> Pageable)"])
def test_which_way_the_cpu_waits(tmp_path, way):
    """Nothing is read back by a copy to the GPU."""
    events: list[Event] = []
    for n in range(10):
        at = 1000 * n
        events += [cpu("aten::copy_", at, 300), launch(at + 5, n + 1, name="cudaMemcpyAsync")]
        events += [memcpy(at + 12, 250, n + 1, way)]
        events.append(cpu("cudaStreamSynchronize", at + 20, 250, "cuda_runtime"))
    finding = found(trace_of(tmp_path, *events), "blocking_calls")
    assert (finding.claims["why"] == "send") is way.startswith("HtoD")


@pytest.mark.parametrize("thread", [9, 10])
def test_annotations_but_no_ops(tmp_path, thread):
    """Of the thread that launches: then the profiler saw that one, and somebody left its ops out."""
    events = [step(n, 500 * n, 490) | {"tid": thread} for n in range(4)]
    events += [event for n in range(4) for event in run(500 * n + 450, 5, n + 1)]
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert ("ops left out" in f"{finding.claims['advice']}") is (thread == 9)


def test_how_often_an_op_is_called(tmp_path):
    """As in the table: an op that only calls another of its name is one call."""
    events = [cpu("aten::sum", 100 * n, 90) for n in range(3)] + [cpu("aten::sum", 5, 80)]
    assert verdict_of(Part(trace_of(tmp_path, *events))).reason.endswith("aten::sum: 270 µs in 3 calls.")


def test_what_all_steps_left_to_the_device_is_not_the_last_ones(tmp_path):
    """Four steps of 500 us on the CPU, whose collectives the GPU does one after the other: it ends late."""
    events: list[Event] = []
    for n in range(4):
        talk = kernel(500 * n + 400 * n + 40, 890, n + 1, name="ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)")
        events += [
            step(n, 500 * n, 500), cpu("aten::mm", 500 * n + 10, 480), launch(500 * n + 20, n + 1), talk
        ]  # fmt: skip
    assert "late_step" not in found(trace_of(tmp_path, *events), "communication").claims


@pytest.mark.parametrize(("length", "said"), [(300, True), (50, True), (49, False), (40, False)])
def test_an_op_that_works_on_the_cpu(tmp_path, length, said):
    """What takes as long and launches nothing is no overhead of launches."""
    events: list[Event] = []
    for n in range(5):
        events += [cpu("aten::einsum", 400 * n, length), cpu("aten::mm", 400 * n + 320, 70)]
        events += run(400 * n + 340, 20, n + 1)
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert (
        finding.claims["on_cpu"].each[0].name if "on_cpu" in finding.claims else ""
    ) == "aten::einsum" * said
    assert (f"{finding.claims['advice']}" == "on the GPU") is (length == 300)


@pytest.mark.parametrize(
    ("name", "said"), [("aten::add_", True), ("aten::to", False), ("aten::slice", False)]
)
def test_many_small_ops_that_compute_on_the_cpu(tmp_path, name, said):
    """What always computes and launches nothing works on tensors of the CPU, however short it is."""
    events: list[Event] = []
    for n in range(5):
        events += [cpu(name, 400 * n + 10 * k, 9) for k in range(30)]
        events += [cpu("aten::mm", 400 * n + 320, 70), *run(400 * n + 340, 20, n + 1)]
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert (finding.claims["on_cpu"].each[0].name if "on_cpu" in finding.claims else "") == name * said
    few = [f"{finding.claims.get(claim)}" for claim in ("advice", "ops_calls", "ops")]
    assert (few == ["few on the GPU", "150", name]) is said


def test_work_on_the_cpu_is_told_before_what_takes_less(tmp_path):
    """Each step draws numbers on the CPU for 600 us, and is outside of ops for 300."""
    events: list[Event] = []
    for n in range(4):
        at = 1000 * n
        events += [step(n, at, 995), cpu("aten::randn", at + 320, 600)]
        events += [launch(at + 930, n + 1, name="cudaGraphLaunch"), kernel(at + 940, 30, n + 1)]
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert finding.claims["on_cpu"].each[0].name == "aten::randn"
    assert (f"{finding.claims['advice']}", finding.claims["ops"]) == ("on the GPU", "aten::randn")


def test_what_comes_after_a_product_is_no_product():
    """AMD's kernels that add up the parts of a product of which several blocks had one tile."""
    assert decode("Cijk_B_PostGSU2").short == "split-K reduce bf16"
    assert decode("Cijk_S_PostGSU16_VW4").kind == "reduction"
    assert decode("RowwiseMomentsCUDAKernel<float>").short.startswith("norm moments")


def test_several_ops_that_work_on_the_cpu(tmp_path):
    """As an optimizer of tensors on the CPU does; what only makes room, and calls in it, do not count."""

    def told(*names: str) -> str:
        events: list[Event] = []
        for n in range(5):
            events += [cpu(name, 400 * n + 90 * k, 80 + k) for k, name in enumerate(names)]
            events += [cpu("aten::inner", 400 * n + 5, 70), cpu("aten::mm", 400 * n + 320, 70)]
            events += run(400 * n + 340, 20, n + 1)
        finding = found(trace_of(tmp_path, *events), "overhead_bound")
        return finding.claims["on_cpu"].each[0].name if "on_cpu" in finding.claims else ""

    assert told("aten::sqrt", "aten::mul_") == "ops such as aten::mul_ and aten::sqrt"
    assert told("aten::sqrt", "aten::sqrt", "aten::sqrt") == "aten::sqrt"
    assert told("aten::empty", "aten::empty") == "aten::inner"


@pytest.mark.parametrize("other_process", [False, True])
def test_two_devices_that_take_turns(tmp_path, other_process):
    """Each time the second one waits for the first one, the first time, too: it was recorded. But not
    for what another process does."""
    events: list[Event] = []
    for n in range(4):
        at = 4000 * n
        for device, lead in ((0, 10), (1, 2000)):
            i = 10 * n + device
            args = {"correlation": i + 1, "device": device, "stream": 7}
            events += [step(n, at, 3990)] * (device == 0)
            pid = {"pid": 10} if other_process and device else {}
            events += [
                launch(at + 2 + 4 * device, i + 1) | pid,
                kernel(at + lead, 1990, i + 1, pid=device, args=args),
            ]
    results = Part(trace_of(tmp_path, *events))
    verdict = verdict_of(results)
    if other_process:
        causes = (f"{one.claims.get('causes')}" for one in find_findings(results))
        assert not any("another device" in one for one in causes)
        return
    assert not verdict.left_out
    assert verdict.busy_share == pytest.approx(0.5, abs=0.01)
    (of_second,) = [
        one for one in find_findings(results) if one.rule == "little_use" and one.device == "GPU 1"
    ]
    assert "queued until another device" in f"{of_second.claims['causes']}"


def test_the_function_of_python_that_keeps_the_gpu_idle_is_named(tmp_path):
    events: list[Event] = [cpu("train.py(3): main", 0, 40_000, "python_function")]
    for n in range(4):
        at = 10_000 * n
        events += [step(n, at, 9990), cpu("text.py(33): slow_tokenize", at + 10, 8000, "python_function")]
        for i in range(10):
            events += [
                cpu("aten::mm", at + 8100 + 100 * i, 60), *run(at + 8140 + 100 * i, 50, 100 * n + i + 1)
            ]  # fmt: skip
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert f"{finding.claims['within']}" == "slow_tokenize (32.0 ms)"


def test_a_long_step_that_waits_for_the_gpu_is_told_so(tmp_path):
    """Another rank is late: the ops of the step do not take longer."""
    events: list[Event] = []
    for n in range(6):
        at, long = 2000 * n + 20_000 * (n > 3), 20_000 * (n == 3)
        events += [step(n, at, 1990 + long), cpu("aten::mm", at + 10, 60), *run(at + 30, 900, 2 * n + 1)]
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        events += run(at + 940, 900 + long, 2 * n + 2, name, stream=9)
        events.append(cpu("cudaStreamSynchronize", at + 1000, 850 + long, "cuda_runtime"))
    finding = found(trace_of(tmp_path, *events), "slow_steps")
    assert f"{finding.claims['most']} {finding.claims['most_ns']}" == "cudaStreamSynchronize 20.0 ms"
    assert "same_ops" not in finding.claims
    assert f"{finding.claims['advice']}" == "GPU's"


@pytest.mark.parametrize(("call", "short"), [("cudaGraphLaunch", False), ("cudaLaunchKernel", True)])
def test_the_kernels_of_a_graph_have_no_launch_of_their_own(tmp_path, call, short):
    """Forty kernels of 2 us each in a launch of 200 us: CUDA graphs would make nothing cheaper."""
    events: list[Event] = []
    for n in range(10):
        at = 4000.0 * n
        if call == "cudaGraphLaunch":
            events.append(launch(at, n + 1, 200, call))
        for k in range(40):
            number = n + 1 if call == "cudaGraphLaunch" else 100 * n + k + 1
            if call != "cudaGraphLaunch":
                events.append(launch(at + 20 * k, number))
            events += [kernel(at + 10 + 20 * k, 2, number)]
    trace = trace_of(tmp_path, *events)
    assert short_kernels_of(Part(trace)).events == (400 if short else 0)
    assert (found(trace, "short_calls") is not None) is short


def test_the_ops_of_short_kernels_are_those_of_their_ids(tmp_path):
    """A thread that ends leaves its number to the next one, and the calls of that one bear it."""
    events: list[Event] = []
    for n in range(120):
        lane = {"tid": 9 if n < 60 else 11}
        events += [cpu("aten::mm", 50 * n, 30, **{"External id": n + 1}) | lane]
        events += [launch(50 * n + 5, n + 1, 20), kernel(50 * n + 30, 2, n + 1)]
        events[-2]["args"]["External id"] = events[-1]["args"]["External id"] = n + 1
    finding = found(trace_of(tmp_path, *events), "short_calls")
    assert f"{finding.claims['ops']}" == "aten::mm (120)"


def test_a_gap_that_begins_before_the_steps_is_not_the_one_that_takes_most(tmp_path):
    """It is not part of what is judged."""
    events = run(0, 10, 900)
    for n in range(3):
        at = 60_000 + 1000 * n
        events.append(step(n, at, 990))
        for k in range(5):
            events += [cpu("aten::mm", at + 30 + 150 * k, 60), *run(at + 50 + 150 * k, 20, 10 * n + k + 1)]
    assert "one_gap_ns" not in found(trace_of(tmp_path, *events), "overhead_bound").claims
