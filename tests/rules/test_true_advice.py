"""What the findings say and advise, on the smallest traces in which it was once not so."""

import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of
from tests.rules.test_rules import found
from tests.rules.test_said import found as found_whole

from tracetui.analysis.part import Part
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules import Finding, find_findings
from tracetui.rules.claims import Count


def optimizer(name: str, start: int, kernels: int, first: int) -> list[Event]:
    """One call, with a launch every 20 us."""
    events = [cpu(f"Optimizer.step#{name}.step", start, 20 * kernels, "user_annotation")]
    for n in range(kernels):
        events += [launch(start + 20 * n + 2, first + n), kernel(start + 20 * n + 8, 2, first + n)]
    return events


def test_kernels_a_call_are_those_of_one_optimizer(tmp_path):
    """SparseAdam for the embeddings, tensor by tensor, and Adam for the rest, in a few kernels."""
    events = [*optimizer("SparseAdam", 0, 240, 1), *optimizer("Adam", 5000, 10, 500), *run(6000, 90, 999)]
    finding = found(trace_of(tmp_path, *events), "optimizer_loop")
    assert f"{finding.claims['name']}: {finding.claims['each']}" == "Optimizer.step#SparseAdam.step: 240"
    assert f"{finding.claims['spent_ns']}" == "4.80 ms"
    assert finding.claims["can"] == "nothing"


def test_all_phases_that_compile_are_named(tmp_path):
    """The backward pass is compiled when it first runs, not within what compiles the forward pass."""
    events = [step(0, 0, 6000), step(1, 7000, 100), *run(10, 5, 1), *run(7010, 5, 2)]
    for name, start, length in (
        ("_compile.compile_inner", 100, 2000),
        ("backward._backward_impl", 3000, 2500),
    ):
        events += [cpu(f"{name} (dynamo_timed)", start, length), cpu("inner (dynamo_timed)", start + 1, 1900)]
    finding = found(trace_of(tmp_path, *events), "compiling")
    phases = f"{finding.claims['phases']}"
    assert phases == "backward._backward_impl (2.50 ms), _compile.compile_inner (2.00 ms)"


def test_kernels_of_other_shapes_are_not_the_same_work(tmp_path):
    """A random fill has as many blocks for any size; the next kernel shows that the sizes differ."""

    def steps(grids: tuple[int, ...]) -> list[Event]:
        events: list[Event] = []
        for n, grid in enumerate(grids):
            events.append(step(n, 1000 * n, 900))
            for k, blocks, length in ((1, 1056, 50 + 50 * n), (2, grid, 40)):
                event = run(1000 * n + 200 * k, length, 10 * n + k, "random" if k == 1 else "scaled_silu")
                event[1]["args"]["grid"] = [blocks, 1, 1]
                events += event
        return events

    assert found(trace_of(tmp_path, *steps((500, 500, 500))), "spread") is not None
    assert found(trace_of(tmp_path, *steps((500, 1000, 1500))), "spread") is None


CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#12}::operator()() const"
    "::{lambda(c10::BFloat16)#1}, std::array<char*, 2ul>, 4, TrivialOffsetCalculator<1, unsigned int>, "
    "TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, "
    "at::native::memory::StoreWithCast<1> >(int, ...)"
)


def test_what_to_do_about_casts(tmp_path):
    """Weights in 8 bits are not to be converted once and for all; without ops nothing is known."""

    def casts(*types: str, ops: bool = True) -> str:
        events: list[Event] = []
        for n in range(10):
            more = {"Input Dims": [[64], [64]], "Input type": list(types)} if types else {}
            events += [cpu("aten::copy_", 1000 * n, 40, **more)] if ops else []
            events += [launch(1000 * n + 10, n + 1), kernel(1000 * n + 20, 900, n + 1, name=CAST)]
        why: str = found(trace_of(tmp_path, *events), "type_conversions").claims["why"]
        return why

    assert casts("c10::BFloat16", "signed char") == "eight bits"
    assert casts("c10::BFloat16", "float") == "once"
    assert casts() == "once"
    assert casts(ops=False) == "unknown"


def test_casts_to_what_the_matmuls_take(tmp_path):
    """A product in int8 needs its inputs in int8, and gives int32."""

    def advice(product: str) -> str:
        events: list[Event] = []
        for n in range(10):
            events += [cpu("aten::copy_", 1000 * n, 40), *run(1000 * n + 20, 900, 2 * n + 1, CAST)]
            events += run(1000 * n + 930, 60, 2 * n + 2, product)
        finding = found(trace_of(tmp_path, *events), "type_conversions")
        return f"{finding.claims['why']} {finding.claims['narrow']}".rstrip()

    narrow = "void cutlass::Kernel2<cutlass_80_tensorop_i16832gemm_s8_128x256_128x3_tn_align16>(int)"
    assert advice(narrow) == "quantized int8"
    assert advice(GEMM) == "once"


def test_an_annotation_that_only_a_slow_step_has(tmp_path):
    events: list[Event] = []
    for n in range(5):
        events += [step(n, 10_000 * n, 9_000 if n == 3 else 1_000), *run(10_000 * n + 100, 50, n + 1)]
        events.append(cpu("forward", 10_000 * n + 50, 400, "user_annotation"))
    events.append(cpu("save_checkpoint", 31_000, 7_500, "user_annotation"))
    finding = found_whole(trace_of(tmp_path, *events), "slow_steps")
    assert f"{finding.claims['only']} {finding.claims['only_ns']}" == "save_checkpoint 7.50 ms"
    assert f"{finding.claims['advice']}" == "only there"


@pytest.mark.parametrize(("length", "told"), [(4_000, False), (4_001, True)])
def test_an_annotation_explains_a_slow_step_if_it_is_most_of_what_that_takes_more(tmp_path, length, told):
    """A step of 9 ms among steps of 1 ms."""
    events: list[Event] = []
    for n in range(5):
        events += [step(n, 10_000 * n, 9_000 if n == 3 else 1_000), *run(10_000 * n + 100, 50, n + 1)]
    events.append(cpu("save_checkpoint", 31_000, length, "user_annotation"))
    finding = found_whole(trace_of(tmp_path, *events), "slow_steps")
    assert (finding.claims.get("only") == "save_checkpoint") is told


def test_a_slow_step_that_waits_for_its_batch(tmp_path):
    """Of 8 ms more, 7.5 pass in the DataLoader, where no op runs."""
    events: list[Event] = []
    for n in range(5):
        wait = 8_000 if n == 3 else 500
        events += [step(n, 10_000 * n, 9_000 if n == 3 else 1_000), *run(10_000 * n + wait + 100, 50, n + 1)]
        events.append(cpu("enumerate(DataLoader)#Iter.__next__", 10_000 * n + 10, wait, "user_annotation"))
    finding = found_whole(trace_of(tmp_path, *events), "slow_steps")
    assert f"{finding.claims['loading_ns']}" == "7.50 ms"
    assert "more workers" in f"{finding.claims['advice']}"


def test_a_slow_step_that_waits_for_its_backward_pass(tmp_path):
    """An op of autograd's thread takes 8 ms more; it ends 500 us before the step does."""
    events: list[Event] = []
    for n in range(5):
        length = 9_000 if n == 3 else 1_000
        events += [step(n, 10_000 * n, length), cpu("aten::mm", 10_000 * n + 10, 90)]
        node = cpu("MulBackward0", 10_000 * n + 100, length - 600)
        events += [node | {"tid": 8}, launch(10_000 * n + 110, n + 1) | {"tid": 8}]
        events.append(kernel(10_000 * n + 120, 50, n + 1))
    finding = found_whole(trace_of(tmp_path, *events), "slow_steps")
    assert "outside_ns" not in finding.claims
    assert f"{finding.claims['most']} {finding.claims['most_ns']}" == "MulBackward0 8.00 ms"


@pytest.mark.parametrize("evaluates", [True, False])
def test_a_step_of_more_work_where_the_gpu_sets_the_pace(tmp_path, evaluates):
    """A step launches 1 ms of work, the third 5 ms: the GPU is never idle, and steps are of one length."""
    events: list[Event] = []
    at = 100
    for n in range(5):
        events.append(step(n, 1800 * n, 1800))
        if n == 2 and evaluates:
            events.append(cpu("evaluate", 1800 * n + 100, 900, "user_annotation"))
        for k in range(5 if n == 2 else 1):
            events += [launch(1800 * n + 50 + 100 * k, 10 * n + k), kernel(at, 1000, 10 * n + k)]
            at += 1000
    finding = found_whole(trace_of(tmp_path, *events), "slow_steps")
    assert (finding.claims["what"], finding.numbers["slow"]) == ("work", 1)
    assert finding.numbers["more_ns"] == 4_000_000
    assert finding.claims.get("only") == ("evaluate" if evaluates else None)
    assert f"{finding.claims['advice']}" == ("only there" if evaluates else "larger")


def allocating(frees: int) -> list[Event]:
    """60 ops, each of which makes a tensor with a cudaMalloc of 60 us; so many of them are freed."""
    events: list[Event] = []
    for n in range(60):
        events += [cpu("aten::empty", 200 * n, 70), cpu("cudaMalloc", 200 * n + 2, 60, "cuda_runtime")]
        events += [cpu("cudaFree", 200 * n + 80, 60, "cuda_runtime")] if n < frees else []
        events += [launch(200 * n + 150, n + 1), kernel(200 * n + 160, 5, n + 1)]
    return events


def test_no_caching_allocator(tmp_path):
    finding = found(trace_of(tmp_path, *allocating(60)), "overhead_bound")
    assert "no caching" in f"{finding.claims['advice']}"
    finding = found(trace_of(tmp_path, *allocating(20)), "overhead_bound")
    assert "no caching" not in f"{finding.claims['advice']}"


def copies(length: float, *ways: str) -> list[Event]:
    """200 times: an op copies in each of these ways, and a kernel of 1 us follows."""
    events: list[Event] = []
    for n in range(200):
        at = n * (3 * length + 180)
        for k, way in enumerate(ways):
            begin, number = at + k * (length + 62), 10 * n + k + 1
            events += [cpu("aten::to", begin, length + 60), cpu("aten::copy_", begin + 1, length + 58)]
            events.append(launch(begin + 35, number, length + 22, "cudaMemcpyAsync"))
            events.append(memcpy(begin + 40, length, number, way))
        events += run(at + 2 * length + 140, length, 10 * n + 9)
    return events


IN, OUT = "HtoD (Pageable -> Device)", "DtoH (Device -> Pageable)"


def test_small_copies_are_told_once(tmp_path):
    """Pinning does nothing for copies of a few bytes: one copy of all is what helps."""
    trace = trace_of(tmp_path, *copies(1, IN, IN))
    assert found(trace, "pageable_memory") is None
    for rule in ("overhead_bound", "short_calls"):
        finding = found(trace, rule)
        told = (finding.claims.get("why"), f"{finding.claims.get('advice')}")
        assert told in (("copies", "None"), (None, "small copies"), (None, "send"))
    assert found(trace_of(tmp_path, *copies(20, IN, IN)), "pageable_memory") is not None


@pytest.mark.parametrize(("kernels", "length", "said"), [
    (1, 1, "20 of 40 launches"), (2, 1, "20 of 60 launches"), (3, 1, ""), (1, 20, "")
])  # fmt: skip
def test_values_that_are_sent_one_by_one(tmp_path, kernels, length, said):
    """`torch.tensor(value, device="cuda")` before every kernel or two; a copy of 20 us is no small one."""
    events: list[Event] = []
    for n in range(20):
        at = 200.0 * n
        events += [cpu("aten::to", at, 90), launch(at + 20, 10 * n, name="cudaMemcpyAsync")]
        events.append(memcpy(at + 30, length, 10 * n, IN))
        for k in range(1, kernels + 1):
            events += [cpu("aten::add_", at + 90 + 30 * k, 29), *run(at + 110 + 30 * k, 1, 10 * n + k)]
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert f"{finding.claims['advice']}".startswith("small copies" if said else "more per launch")
    if said:
        assert f"{finding.claims['small_copies']} of {finding.claims['launches']} launches" == said


def test_copies_of_both_ways_are_no_batches(tmp_path):
    """Gradients to the host, parameters back: what an optimizer on the host needs."""
    for ways, out in (((IN, OUT), None), ((IN, IN), False), ((OUT, OUT), True)):
        trace = trace_of(tmp_path, *copies(100, *ways))
        first, second = found(trace, "pageable_memory"), found(trace, "exposed_copies")
        assert first.claims["out"] is second.claims["out"] is out
    assert found(trace, "blocking_calls").claims["why"] == "fetch"


GEMM = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"


def test_what_a_recurrent_network_copies(tmp_path):
    """cuDNN copies within its own call: nobody can lay its inputs out otherwise."""

    def told(name: str) -> bool:
        events: list[Event] = []
        for n in range(20):
            at = 100.0 * n
            events += [cpu(name, at, 30), launch(at + 5, 2 * n + 1), launch(at + 15, 2 * n + 2)]
            events.append(memcpy(at + 20, 10, 2 * n + 1, "DtoD (Device -> Device)"))
            events.append(kernel(at + 31, 50, 2 * n + 2, name=GEMM))
        return found(trace_of(tmp_path, *events), "copy_before_product") is not None

    assert told("aten::bmm")
    assert not told("aten::_cudnn_rnn_backward")
    assert not told("aten::miopen_rnn")


@pytest.mark.parametrize(
    "name",
    ["aten::addmm", "aten::baddbmm", "aten::bmm"],
)
def test_the_op_that_copies_before_it_multiplies(tmp_path, name):
    events = [cpu(name, 0, 30), launch(5, 1), memcpy(20, 10, 1, "DtoD (Device -> Device)")]
    events += [launch(15, 2), kernel(31, 50, 2, name=GEMM)]
    assert found(trace_of(tmp_path, *events), "copy_before_product").claims["name"] == name


def test_two_ops_that_plan_for_each_shape(tmp_path):
    """cuDNN's attention plans forward and backward: both are told, and together they are the reason."""
    names = ("aten::_cudnn_attention_forward", "aten::_cudnn_attention_backward")
    events: list[Event] = []
    at = 0.0
    for n in range(8):
        long = 8_000 if n % 2 else 100
        events.append(step(n, at, 2 * long + 180))
        for k, name in enumerate(names):
            begin = at + (long + 60) * k + 20
            events += [cpu(name, begin, long), launch(begin + long - 20, 2 * n + k + 1)]
            events.append(kernel(begin + long - 10, 50, 2 * n + k + 1))
        at += 2 * long + 200
    trace = trace_of(tmp_path, *events)
    told = [finding for finding in find_findings(Part(trace)) if finding.rule == "slow_calls"]
    assert {finding.claims["name"] for finding in told} == set(names)
    bound = found(trace, "overhead_bound")
    assert "long_calls" in bound.claims
    assert f"{bound.claims['advice']}" == "other attention"


def test_what_many_devices_share_is_told_once(tmp_path):
    """Three of four GPUs are idle for most of the time, one computes all the time."""

    def told(busy: tuple[int, ...]) -> list[Finding]:
        events: list[Event] = []
        for n in range(20):
            for device, length in enumerate(busy):
                number = 100 * n + device + 1
                event = kernel(1000 * n + 20 + device, length, number, pid=device)
                event["args"]["device"] = device
                events += [
                    cpu("aten::mm", 1000 * n + 5 * device, 20), launch(1000 * n + 6 * device, number), event
                ]  # fmt: skip
        every = find_findings(Part(trace_of(tmp_path, *events)))
        return [f for f in every if f.rule in ("overhead_bound", "little_use")]

    (one,) = told((100, 50, 200, 980))
    assert one.claims["others"] == Count(2)
    assert one.device == "GPU 1"
    assert [each.name[:7] for each in one.claims["alike"].each] == ["GPU 0 (", "GPU 2 ("]
    assert [f.device for f in told((100, 50, 980))] == ["GPU 1", "GPU 0"]


def test_what_an_environment_computes_on_the_cpu(tmp_path):
    """A fifth of the time in ops is no launching, though most is."""

    def told(length: int, name: str = "aten::einsum", more: tuple[Event, ...] = ()) -> str:
        events: list[Event] = [*more]
        for n in range(50):
            at = 1000 * n
            events += [cpu("aten::addmm", at, 400), launch(at + 380, n + 1), kernel(at + 390, 5, n + 1)]
            events.append(cpu(name, at + 420, length))
        finding = found(trace_of(tmp_path, *events), "overhead_bound")
        assert "ops" not in finding.claims
        return f"{finding.claims.get('on_cpu', '')}"

    assert "aten::einsum" in told(200)
    assert "aten::einsum" not in told(60)
    # Next to one that is nearly all, another one adds nothing to its time.
    once = tuple(cpu("aten::sin", 1000 * n + 700, 100) for n in range(5))
    assert told(200, more=once) == "aten::einsum (10.0 ms)"
    for name in ("aten::t", "UnsqueezeBackward0", "autograd::engine::evaluate_function: UnsqueezeBackward0"):
        assert name not in told(200, name)


@pytest.mark.parametrize(("name", "said"), [
    ("env_step", "in annotation, more per launch"), ("Optimizer.step#Adam.step", "more per launch")
])  # fmt: skip
def test_the_annotation_in_which_the_cpu_keeps_the_gpu_waiting(tmp_path, name, said):
    """Of each ms 400 us pass in an annotation without ops, and 500 in ops that launch tiny kernels."""
    events: list[Event] = []
    for n in range(20):
        events.append(cpu(name, 1000 * n, 410, "user_annotation"))
        for k in range(5):
            at = 1000 * n + 420 + 110 * k
            events += [cpu("aten::mul", at, 70), launch(at + 60, 10 * n + k + 1)]
            events.append(kernel(at + 66, 2, 10 * n + k + 1))
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert finding.claims["within"].each[0].name == name
    assert said in f"{finding.claims['advice']}"


@pytest.mark.parametrize("waits", [2, 3])
def test_a_step_that_waits_several_times_is_no_graph_yet(tmp_path, waits):
    """Each wait is a copy and a call that waits for it, in one op."""
    events: list[Event] = []
    for n in range(3):
        events.append(step(n, 10_000 * n, 9_900))
        for k in range(40):
            at, i = 10_000 * n + 200 * k, 100 * n + 2 * k + 1
            events += [cpu("aten::mul", at, 90), launch(at + 80, i), kernel(at + 85, 3, i)]
            if k < waits:
                events += [cpu("aten::nonzero", at + 100, 60), launch(at + 105, i + 1, 30, "cudaMemcpyAsync")]
                events.append(memcpy(at + 110, 2, i + 1, "DtoH (Device -> Pageable)"))
                events.append(cpu("cudaStreamSynchronize", at + 140, 15, "cuda_runtime"))
    trace = trace_of(tmp_path, *events)
    finding = found_whole(trace, "overhead_bound")
    assert finding is not None
    known = [f"{finding.claims.get(name)}" for name in ("graphs", "waits", "waiting_op")]
    assert known == (["possible", "3", "aten::nonzero"] if waits == 3 else ["advised", "None", "None"])
    if waits == 3:
        waiting = found_whole(trace, "blocking_calls")
        assert waiting is not None
        assert [f"{waiting.claims[name]}" for name in ("calls", "ops", "in_a_step")] == ["18", "9", "3"]
    short = found_whole(trace, "short_calls")
    assert short is not None
    assert [f"{short.claims.get(name)}" for name in ("graphs", "waits", "waiting_op")] == known


def launches(count: int, call: str = "cudaLaunchKernel", category: str = "cuda_runtime") -> list[Event]:
    """Ops of 90 us in a single step, each with a kernel of 3 us."""
    events = [step(0, 0, 200 * count)]
    for n in range(count):
        made = cpu(call, 200 * n + 80, 4, category, correlation=n + 1)
        events += [cpu("aten::mul", 200 * n, 90), made, kernel(200 * n + 85, 3, n + 1)]
    return events


def test_the_waits_of_a_single_step_count(tmp_path):
    events = launches(120)
    for n in range(6):
        at = 200 * n + 100
        events += [cpu("aten::item", at, 60), cpu("cudaStreamSynchronize", at + 5, 50, "cuda_runtime")]
    trace = trace_of(tmp_path, *events)
    for rule in ("overhead_bound", "short_calls"):
        finding = found_whole(trace, rule)
        assert finding is not None
        known = [f"{finding.claims[name]}" for name in ("graphs", "waits", "waiting_op")]
        assert known == ["possible", "6", "aten::item"]
    waiting = found_whole(trace, "blocking_calls")
    assert f"{waiting.claims['calls']} {waiting.claims['name']}" == "6 cudaStreamSynchronize"


@pytest.mark.parametrize(("call", "category", "graphs"), [
    ("cudaLaunchKernel", "cuda_runtime", True), ("urEnqueueKernelLaunch", "xpu_runtime", False)
])  # fmt: skip
def test_cuda_graphs_are_for_gpus_that_have_them(tmp_path, call, category, graphs):
    trace = trace_of(tmp_path, *launches(120, call, category))
    for rule in ("overhead_bound", "short_calls"):
        assert (found_whole(trace, rule).claims["graphs"] == "advised") is graphs


@pytest.mark.parametrize(("ahead", "length", "paced"), [(40, 300, True), (60, 300, False), (60, 60, True)])
def test_where_work_is_queued_the_cpu_alone_does_not_set_the_pace(tmp_path, ahead, length, paced):
    """A kernel in each ms, and 12 gaps: where the GPU is hardly ever busy, it cannot gain much either."""
    events: list[Event] = []
    for n in range(12):
        at = 1000 * n
        events += [cpu("aten::mm", at, 500), launch(at + 510, n + 1), kernel(at + 510 + ahead, length, n + 1)]
    assert (found_whole(trace_of(tmp_path, *events), "overhead_bound").claims["pace"] == "the CPU's") is paced


@pytest.mark.parametrize(("between", "severity"), [(10, ""), (11, "low"), (25, "low"), (26, "medium")])
def test_short_calls_weigh_as_much_as_the_gpu_waits_for_them(tmp_path, between, severity):
    """Of each 100 us, the GPU waits so many for a launch."""
    events: list[Event] = []
    for n in range(120):
        events += [launch(100 * n + 98 - between, n + 1, between - 2), kernel(100 * n + 98, 2, n + 1)]
    finding = found_whole(trace_of(tmp_path, *events), "short_calls")
    assert (finding.severity if finding else "") == severity


def test_anomaly_detection_comes_before_all_other_advice(tmp_path):
    """It launches most of the short kernels itself."""
    events = launches(120)
    for n in range(120):
        at = 200 * n + 100
        events.append(cpu("autograd::engine::evaluate_function: MulBackward0", at, 90))
        events += [cpu("aten::_is_any_true", at + 2, 20), cpu("aten::item", at + 30, 50)]
    trace = trace_of(tmp_path, *events)
    for rule in ("overhead_bound", "short_calls"):
        finding = found_whole(trace, rule)
        assert "anomaly" in (finding.claims.get("why"), f"{finding.claims.get('advice')}")


@pytest.mark.parametrize("more", ["dispatch", "launch"])
def test_where_next_to_nothing_is_launched_the_gaps_outside_of_ops_are_no_surprise(tmp_path, more):
    """Kernels of 2 us, 100 us apart: half of that outside of ops, the rest in an op or on the way."""
    events: list[Event] = []
    for n in range(20):
        at = 100 * n
        events += [cpu("aten::mul", at + 50, 44), launch(at + (82 if more == "dispatch" else 58), n + 1, 10)]
        events.append(kernel(at + 94, 2, n + 1))
    trace = trace_of(tmp_path, *events)
    assert f"({more} " in verdict_of(Part(trace)).reason
    finding = found_whole(trace, "overhead_bound")
    assert "more per launch" in f"{finding.claims['advice']}"


@pytest.mark.parametrize("compiled", [True, False])
def test_what_is_partly_compiled_is_not_told_to_be(tmp_path, compiled):
    """One of five launches is a compiled region's."""
    events: list[Event] = []
    for n in range(50):
        name = "Torch-Compiled Region: 0/0" if compiled and not n % 5 else "aten::mul"
        events += [cpu(name, 200 * n, 150), launch(200 * n + 140, n + 1), kernel(200 * n + 146, 3, n + 1)]
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert (finding.claims["compiled"], finding.claims["graphs"]) == (compiled, "advised")


@pytest.mark.parametrize("name", ["Optimizer.step#AdamW.step", "update"])
def test_an_optimizer_on_the_cpu(tmp_path, name):
    """Most of each step are ops that launch nothing; only of PyTorch's optimizers it is known what helps."""
    events: list[Event] = []
    for n in range(3):
        at = 10_000 * n
        events += [
            step(n, at, 9_900), *run(at + 100, 500, n + 1), cpu(name, at + 500, 9_000, "user_annotation")
        ]  # fmt: skip
        events += [cpu("aten::addcmul_", at + 600 + 400 * k, 390) for k in range(20)]
        events += run(at + 9_700, 2, n + 10)
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert f"{finding.claims['advice']}" == ("on the GPU" if name == "update" else "optimizer on the CPU")
    assert finding.claims["short_of"] is None


@pytest.mark.parametrize("op", ["aten::_cudnn_rnn", "aten::lstm_by_hand"])
def test_what_a_library_launches_for_each_time_step(tmp_path, op):
    """One op launches 200 kernels, on two streams in turn."""
    events = [step(0, 0, 4_200), cpu(op, 50, 4_100)]
    for n in range(200):
        events += [launch(60 + 20 * n, n + 1, 8), kernel(69 + 20 * n, 3, n + 1, stream=7 + n % 2)]
    trace = trace_of(tmp_path, *events)
    told = {finding.rule: finding.claims for finding in find_findings(Part(trace))}
    rnn = op == "aten::_cudnn_rnn"
    for rule in ("overhead_bound", "short_calls"):
        why = told[rule].get("why") if rule == "short_calls" else f"{told[rule]['advice']}"
        assert (why == "rnn") is rnn
    assert "streams_in_turn" not in told  # one op uses both


def test_where_launches_block_faster_kernels_would_help(tmp_path):
    """Every kernel holds the CPU up, so the CPU alone does not set the pace."""

    def told(blocks: bool) -> Finding:
        events: list[Event] = []
        for n in range(20):
            at = 200.0 * n
            events += [cpu("aten::mm", at, 150), kernel(at + 20, 40, n + 1)]
            events.append(launch(at + 10, n + 1, 55 if blocks else 5))
        finding = found(trace_of(tmp_path, *events), "overhead_bound")
        assert finding is not None
        return finding

    assert told(False).claims["pace"] == "the CPU's"
    assert told(True).claims["pace"] == "blocking"
    assert f"{told(True).claims['advice']}" == "unblock"


def test_many_values_that_are_read_one_by_one(tmp_path):
    def told(values: int) -> str:
        events: list[Event] = []
        for n in range(3 * values):
            at = 300.0 * n
            events += [cpu("aten::item", at, 120), launch(at + 5, n + 1, 8, "cudaMemcpyAsync")]
            events.append(memcpy(at + 20, 2, n + 1, "DtoH (Device -> Pinned)"))
            events.append(cpu("cudaStreamSynchronize", at + 15, 100, "cuda_runtime"))
        events += [step(n, 300.0 * values * n - 2, 300.0 * values - 5) for n in range(3)]
        finding = found(trace_of(tmp_path, *events), "blocking_calls")
        return f"{finding.claims['why']}"

    assert told(20) == "read once"
    assert told(4) == "read later"


@pytest.mark.parametrize(("way", "told"), [(IN, False), ("HtoD (Pinned -> Device)", True)])
def test_waits_that_are_pageable_copies_are_told_once(tmp_path, way, told):
    """The device is busy with the copies meanwhile: "leave them" would be wrong where pinning helps."""
    events: list[Event] = []
    for n in range(50):
        at = 102.0 * n
        events += [cpu("aten::to", at, 101), launch(at + 1, n + 1, 100, "cudaMemcpyAsync")]
        events.append(memcpy(at + 2, 98, n + 1, way))
    events += run(5200, 600, 999)
    trace = trace_of(tmp_path, *events)
    assert (found(trace, "blocking_calls") is not None) is told
    assert (found(trace, "pageable_memory") is None) is told


@pytest.mark.parametrize(("length", "fires"), [(20_000, True), (40, False)])
def test_one_launch_that_takes_long_is_not_many(tmp_path, length, fires):
    """One in the middle, of a kernel that ran before: no first use."""
    events: list[Event] = []
    for n in range(20):
        at = 60.0 * n + (length if n > 10 else 0)
        took = length if n == 10 else 40
        events += [
            cpu("aten::mul", at, took + 8), launch(at + 2, n, took), kernel(at + took + 5, 10, n, name="mul")
        ]  # fmt: skip
    finding = found(trace_of(tmp_path, *events), "overhead_bound")
    assert f"{finding.claims['advice']}".startswith("one launch" if fires else "more per launch")


@pytest.mark.parametrize("lost", ["ids", "one thread", "every call"])
def test_work_without_launches(tmp_path, lost):
    """Calls that lost their ids are there to be looked at; calls that are not there are not."""
    events = []
    for n in range(20):
        events += [cpu("aten::mm", 100 * n + 100, 90), *run(100 * n + 120, 10, n + 1)]
    for event in events:
        if lost == "ids":
            event["args"] = {}
    here = [e for e in events if e["cat"] != "cuda_runtime" or lost == "ids"]
    if lost == "one thread":  # and of another the launches are there
        here += [cpu("aten::add", 0, 90), *run(20, 10, 99)]
    finding = found(trace_of(tmp_path, *here), "little_use")
    assert f"{finding.claims['advice']}" == ("no ids" if lost == "ids" else "launches left out")


@pytest.mark.parametrize(
    ("stacks", "memory", "advice"), [(False, 0, ""), (True, 0, "stacks"), (True, 1, "stacks, memory")]
)  # fmt: skip
def test_only_what_was_recorded_can_be_left_out(tmp_path, stacks, memory, advice):
    """The profiler holds the GPU up between two kernels."""
    events = [*run(10, 100, 1), cpu("aten::mm", 100, 2100), *run(2200, 300, 2)]
    events.append(cpu("Buffer Flush", 150, 2000, "overhead"))
    events += [cpu("train", 0, 3000, "python_function")] if stacks else []
    finding = found_whole(trace_of(tmp_path, *events, profile_memory=memory), "profiler_overhead")
    assert "gaps" in finding.claims
    assert f"{finding.claims['recorded']}" == advice
