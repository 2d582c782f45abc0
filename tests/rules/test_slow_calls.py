"""Calls that keep the CPU for long: again and again, in one step, before the device has anything to do."""

import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, run, step, trace_of
from tests.rules.test_rules import found
from tests.rules.test_said import found as found_whole

from tracetui.analysis.idle.initialization import first_calls, first_ops
from tracetui.analysis.part import Part
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules import slow_calls
from tracetui.rules.claims import Count, Time
from tracetui.trace import Trace

ATTENTION = "aten::_cudnn_attention_forward"


def call(at: float, length: float, n: int, name: str = ATTENTION, **args: object) -> list[Event]:
    """An op that works until it launches, at its end."""
    op = cpu(name, at, length, **args)
    return [op, launch(at + length - 10, n), kernel(at + length - 5, 20, n, name="attention")]


def decode(name: str = ATTENTION, rounds: int = 4, slow: float = 5_000, **args: object) -> list[Event]:
    """Steps of 6 ms: in each a slow call and three quick ones."""
    events: list[Event] = []
    for r in range(rounds):
        at = 6_000.0 * r
        events.append(step(r, at, 5_800))
        dims = {"Input Dims": [[8, 16, 1, 64], [8, 16, 1024 + r, 64]], **args} if args else {}
        events += call(at + 10, slow, 4 * r + 1, name, **dims)
        for k in range(3):
            events += call(at + slow + 100 + 100 * k, 40, 4 * r + 2 + k, name, **dims)
    return events


def told(trace: Trace, rule: str) -> str:
    # A step is no share of the time of all steps.
    finding = (found_whole if rule == "slow_steps" else found)(trace, rule)
    return f"{finding.title}. {finding.text} {finding.advice}"


def test_a_plan_for_each_new_shape(tmp_path):
    """As cuDNN's attention does when sequences grow: one step like the others is none that initializes."""
    trace = trace_of(tmp_path, *decode(shapes=True))
    assert not len(first_ops(trace, first_calls(trace)))
    finding = found(trace, "slow_calls")
    assert finding.severity == "high"
    assert (finding.claims["name"], finding.numbers["calls"]) == (ATTENTION, 4)
    assert (finding.claims["of"], finding.claims["longest_ns"]) == (Count(16), Time(5_000_000))
    assert (finding.claims["quick"], finding.claims["quick_ns"]) == (Count(12), Time(40_000))
    assert finding.claims["new_shapes"] is True
    assert "other attention" in f"{finding.claims['advice']}"
    assert finding.numbers["calls"] == 4
    assert finding.numbers["idle_ns"] == pytest.approx(4 * 4_990_000, abs=40_000)
    bound = told(trace, "overhead_bound")
    assert f"the CPU was in 4 long calls of {ATTENTION}." in bound
    assert bound.endswith(finding.advice)


@pytest.mark.parametrize(("name", "advice"), [
    ("aten::cudnn_convolution", "leave torch.backends.cudnn.benchmark off"),
    ("aten::miopen_convolution", "leave torch.backends.cudnn.benchmark off"),
    ("my_library::plan", "py-spy record --native")
])  # fmt: skip
def test_what_to_try_depends_on_the_op(tmp_path, name, advice):
    text = told(trace_of(tmp_path, *decode(name)), "slow_calls")
    assert advice in text
    assert "shapes." not in text.split(" Try")[0].removesuffix("change.").split("(median)")[0]


def test_shapes_that_came_before_are_no_reason(tmp_path):
    events = [
        event | {"args": {"Input Dims": [[8, 16, 1, 64]]}} if event["name"] == ATTENTION else event
        for event in decode()
    ]
    assert "first with its shapes" not in told(trace_of(tmp_path, *events), "slow_calls")


def test_of_very_many_calls_the_shapes_are_not_read(tmp_path, monkeypatch):
    trace = trace_of(tmp_path, *decode(shapes=True))  # 16 calls
    monkeypatch.setattr(slow_calls, "MOST_CALLS", 16)
    assert "first with its shapes" in told(trace, "slow_calls")
    monkeypatch.setattr(slow_calls, "MOST_CALLS", 15)
    assert "first with its shapes" not in told(trace_of(tmp_path, *decode(shapes=True)), "slow_calls")


@pytest.mark.parametrize(
    "events",
    [
        decode(slow=900),  # not long
        decode(rounds=1),  # a first use, perhaps
        [e for e in decode() if e["name"] != "cudaLaunchKernel" or (e["args"]["correlation"] - 1) % 4],
        [*decode(), *(kernel(6_000.0 * r, 5_000, 90 + r, stream=9, name="busy") for r in range(4))],
        [*decode(), *(cpu("child", 6_000.0 * r + 20, 4_900) for r in range(4))],
        [
            *decode(),
            *(launch(6_000.0 * r + 500 * k, 100 + 10 * r + k) for r in range(4) for k in range(1, 10)),
        ],
    ],
    ids=["quick", "once", "launches nothing", "the GPU is busy", "an op in it", "launches all the time"],
)
def test_what_is_no_slow_call(tmp_path, events):
    finding = found(trace_of(tmp_path, *events), "slow_calls")
    assert finding is None or finding.claims["name"] != ATTENTION


@pytest.mark.parametrize(("profiler", "fires"), [(2_500, True), (2_510, False)])
def test_calls_that_the_profiler_makes_slow(tmp_path, profiler, fires):
    """Two threads launch at the same time, and both wait while it asks for memory."""
    events = [e for n in range(10) for e in call(20_000 + 100 * n, 40, n + 1)]
    for thread, at in ((9, 10_000), (11, 10_005)):
        events += [e | {"tid": thread} if e["pid"] == 9 else e for e in call(at, 5_000, thread + 90)]
    events.append(cpu("Activity Buffer Request", 10_100, profiler, "overhead") | {"pid": -1, "tid": 0})
    events += call(100, 40, 900)
    assert (found(trace_of(tmp_path, *events), "slow_calls") is not None) is fires


def test_an_op_whose_calls_are_most_of_the_idle_time_is_told_alone(tmp_path):
    """Another one is slow, too, for less than half of it."""
    events = [event | {"ts": event["ts"] + 3_000 * (event["ts"] // 6_000)} for event in decode()]
    rare = [e for r in range(4) for e in call(9_000.0 * r + 6_000, 2_000, 100 + r, "aten::rare")]
    text = told(trace_of(tmp_path, *events, *rare), "overhead_bound")
    assert "calls of" in text
    assert "aten::rare" not in text


def test_a_single_slow_call_counts_if_it_is_not_the_first(tmp_path):
    events = [e for e in decode(rounds=2) if not (e["name"] == ATTENTION and e["ts"] == 10)]
    finding = found(trace_of(tmp_path, *events), "slow_calls")
    assert (finding.claims["calls"], finding.claims["of"]) == (Count(1), Count(7))


def test_a_first_call_that_comes_again_half_as_long_is_not_slow_once(tmp_path):
    def ops(second: float) -> Trace:
        rest = [event for n in range(5) for event in call(200_000 + 100 * n, 40, 3 + n)]
        return trace_of(tmp_path, *run(5, 5, 90), *call(10, 10_000, 1), *call(90_000, second, 2), *rest)

    for second, initializes in ((4_900, True), (5_000, False)):
        trace = ops(second)
        loads = trace_of(
            tmp_path, cpu("Lazy Function Loading", 9_000, 30, "overhead"), *run(5, 5, 90),
            *call(10, 10_000, 1), *call(90_000, second, 2),
            *[event for n in range(5) for event in call(200_000 + 100 * n, 40, 3 + n)]
        )  # fmt: skip
        assert not len(first_ops(trace, first_calls(trace)))  # nothing in it initializes
        assert bool(len(first_ops(loads, first_calls(loads)))) is initializes


def steps_of(extra: str, cat: str = "cuda_runtime", length: float = 9_000) -> list[Event]:
    """Four steps, the last of which has a call of its own for `length`."""
    events: list[Event] = []
    for n in range(4):
        at = 2_000.0 * n
        events += [step(n, at, 1_900 + (length if n == 3 else 0)), cpu("aten::mm", at + 100, 100)]
        events += [launch(at + 110, n + 1), kernel(at + 130, 100, n + 1, name="mm")]
    return [*events, cpu("aten::pin_memory", 6_300, length), cpu(extra, 6_310, length - 20, cat)]


@pytest.mark.parametrize(("name", "advice"), [
    ("cudaHostAlloc", "Pin a few buffers of host memory once"),
    ("cudaMemPrefetchAsync", "Look at what calls it there")
])  # fmt: skip
def test_a_slow_step_names_what_it_has_more_of(tmp_path, name, advice):
    text = told(trace_of(tmp_path, *steps_of(name)), "slow_steps")
    assert f"Most of it is {name} (+8.98 ms)." in text
    assert advice in text


def test_a_slow_step_without_one_such_call(tmp_path):
    events = [e for e in steps_of("x") if e["name"] not in ("x", "aten::pin_memory")]
    text = told(trace_of(tmp_path, *events), "slow_steps")
    assert "Most of it" not in text
    assert "in no op" in text


@pytest.mark.parametrize(("sleeps", "says"), [(4_000, True), (900, False)])
def test_time_before_the_device_has_anything_to_do(tmp_path, sleeps, says):
    begin = cpu("aten::empty", 0, 10)
    work = [event for n in range(4) for event in run(sleeps + 400 * n, 50, n + 1)]
    text = told(trace_of(tmp_path, begin, *work), "overhead_bound")
    assert (" pass before the GPU has anything to do." in text) is says


@pytest.mark.parametrize(("sleeps", "says"), [(400, False), (600, True)])
def test_time_after_the_device_had_the_last_to_do(tmp_path, sleeps, says):
    """Between the kernels 500 us of host time, and after them a pause."""
    events = [*run(10, 20, 1), *run(530, 20, 2), cpu("aten::mm", 550 + sleeps - 1, 1)]
    text = told(trace_of(tmp_path, *events), "overhead_bound")
    assert (f" {sleeps} µs come after the last work of the GPU." in text) is says
    assert ("or stop recording before that." in text) is says
    assert ("the CPU sets the pace" in text) is not says


def offloading(node: str, copies: int = 8) -> list[Event]:
    """A forward pass that copies to the host, and a backward pass that fetches it again."""
    events: list[Event] = []
    for n in range(copies):
        at, back = 300.0 * n, 300.0 * (copies + n)
        events += [cpu("aten::linear", at, 290), cpu("aten::copy_", at + 5, 280)]
        events += [launch(at + 10, 4 * n + 1), kernel(at + 15, 30, 4 * n + 1, name="mm")]
        events += [launch(at + 40, 4 * n + 2, name="cudaMemcpyAsync")]
        events += [memcpy(at + 50, 200, 4 * n + 2, "DtoH (Device -> Pinned)")]
        events += [cpu("cudaStreamSynchronize", at + 60, 200, "cuda_runtime")]
        events += [cpu(node, back, 290), cpu("aten::copy_", back + 5, 280)]
        events += [launch(back + 10, 4 * n + 3, name="cudaMemcpyAsync"), memcpy(back + 20, 200, 4 * n + 3)]
        events += [launch(back + 230, 4 * n + 4), kernel(back + 240, 40, 4 * n + 4, name="mm")]
    return events


@pytest.mark.parametrize(("node", "copies", "saved"), [
    ("autograd::engine::evaluate_function: AddmmBackward0", 8, True),
    ("autograd::engine::evaluate_function: AddmmBackward0", 7, False),
    ("autograd::engine::evaluate_function: ToCopyBackward0", 8, False), ("aten::to", 8, False)
])  # fmt: skip
def test_tensors_saved_on_the_host(tmp_path, node, copies, saved):
    trace = trace_of(tmp_path, *offloading(node, copies))
    assert ("the forward pass saves on the host" in told(trace, "exposed_copies")) is saved
    for rule in ("exposed_copies", "blocking_calls"):
        assert ("torch.utils.checkpoint" in told(trace, rule)) is saved


def test_advice_on_waits_of_linear_algebra(tmp_path):
    def waits(op: str) -> str:
        events = [*run(50, 400, 1), cpu(op, 100, 400), cpu("cudaStreamSynchronize", 110, 345, "cuda_runtime")]
        return told(trace_of(tmp_path, *events, *run(600, 400, 2)), "blocking_calls")

    assert "The _ex variants" in waits("aten::linalg_solve")
    assert "Read values back later" in waits("aten::index")


def test_waits_on_a_device_that_is_idle_for_other_reasons(tmp_path):
    events = [
        e for n in range(20) for e in (*run(2_000 * n + 50, 80, n + 1), cpu("aten::add", 2_000 * n, 1_900))
    ]
    wait = [cpu("aten::item", 1_910, 60), cpu("cudaStreamSynchronize", 1_912, 55, "cuda_runtime")]
    trace = trace_of(tmp_path, *events, *[e | {"ts": e["ts"] + 2_000 * n} for n in range(20) for e in wait])
    assert verdict_of(Part(trace)).verdict == "overhead-bound"
    assert "The GPU has work" not in told(trace, "blocking_calls")


def test_a_slow_call_that_is_one_step_alone(tmp_path):
    """A plan for a size that comes once: the step's advice is that of the call."""
    events = [e for e in decode(slow=40, shapes=True) if e["name"] != "ProfilerStep#3"]
    events = [e | {"dur": 700} if e["name"].startswith("ProfilerStep") else e for e in events]
    last = call(18_010, 9_000, 90, ATTENTION, **{"Input Dims": [[8, 16, 1, 64], [1, 1]]})
    trace = trace_of(tmp_path, *(e for e in events if e["ts"] < 18_000), step(3, 18_000, 9_400), *last)
    assert "It is the first with its shapes in this recording." in told(trace, "slow_calls")
    assert "enable_cudnn_sdp(False)" in told(trace, "slow_steps")


def test_code_that_is_loaded_in_every_step(tmp_path):
    """Products of new shapes, each with a kernel of its own; in one step alone it is a first use."""

    def told_of(every: bool) -> str:
        events: list[Event] = []
        for n in range(4):
            at, new = 8_000.0 * n, every or n == 1
            events += [step(n, at, 7_000), cpu("aten::mm", at + 100, 5_000 if new else 30)]
            events += [cpu("Lazy Function Loading", at + 5_020, 40, "overhead")] if new else []
            events += [launch(at + (5_080 if new else 110), 9 * n + 1)]
            events += [kernel(at + 5_090, 20, 9 * n + 1, name=f"gemm{n if new else 0}")]
            for k in range(8):
                events += [
                    cpu("aten::mm", at + 5_200 + 100 * k, 40), launch(at + 5_210 + 100 * k, 9 * n + k + 2)
                ]  # fmt: skip
                events += [kernel(at + 5_220 + 100 * k, 20, 9 * n + k + 2, name="gemm")]
        return told(trace_of(tmp_path, *events), "initialisation")

    again = told_of(every=True)
    assert "4 of 4 steps load code for kernels that had not run" in again
    assert "Pad to a few sizes" in again
    once = told_of(every=False)
    assert "load code for kernels" not in once
    assert "Do not count it: it happens only once." in once


@pytest.mark.parametrize(("op", "advice"), [
    ("aten::to", "copy from pinned memory"), ("aten::ctc_loss", "The op itself copies and waits"),
    ("aten::linalg_eigvalsh", "These ops read back their status")
])  # fmt: skip
def test_copies_that_an_op_makes_for_itself(tmp_path, op, advice):
    """Nobody can pin what they copy."""
    events: list[Event] = []
    for n in range(6):
        at = 1_000.0 * n
        events += [cpu(op, at, 500), cpu("aten::copy_", at + 100, 380)]
        events += [launch(at + 110, 2 * n + 1, name="cudaMemcpyAsync")]
        events += [memcpy(at + 120, 300, 2 * n + 1, "HtoD (Pageable -> Device)")]
        events += [cpu("cudaStreamSynchronize", at + 130, 320, "cuda_runtime")]
        events += run(at + 600, 300, 2 * n + 2)
    trace = trace_of(tmp_path, *events)
    assert advice in told(trace, "blocking_calls")
    assert (found(trace, "pageable_memory") is not None) is (op == "aten::to")
