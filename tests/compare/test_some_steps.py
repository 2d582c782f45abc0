"""Sentences about steps made by hand: what is said, where it is, and how long it took."""

import json
from typing import Any

import pytest
from tests.compare.conftest import compared, comparison
from tests.kineto import Event, cpu, kernel, launch, run, step, trace_of

from tracetui.analysis.part import Part
from tracetui.compare.model import Comparison
from tracetui.compare.sides import side_of

Op = tuple[Any, ...]
"""Its name (or that and more fields), how long it takes, and its kernels: (name, how long) each."""
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def recording(*steps: list[Op], first: int = 1) -> list[Event]:
    """Steps of ops one after the other, 1 us apart, on a device that does their kernels 5 us after the call.
    Each call of a launch takes 2 us. 6 us are between the steps, which are numbered from `first`."""
    events: list[Event] = []
    now = done = 0.0
    number = 0
    for n, ops in enumerate(steps, first):
        begin = now
        for name, length, *kernels in ops:
            more = name if isinstance(name, dict) else {"name": name}
            events.append(cpu(start=now, duration=length, **more))
            at = now + 1
            for called, long in kernels:
                number += 1
                done = max(done, at + 5)
                events += [launch(at, number, 2), kernel(done, long, number, name=called)]
                done, at = done + long, at + 3
            now += length + 1
        events.append(step(n, begin, now - begin + 3))
        now += 6
    return events


Said = tuple[str, str, int, int, str]


def said(found: Comparison) -> list[Said]:
    return [(e.kind, e.on, e.change_ns, e.cpu_change_ns, e.text) for e in found.explanations]


def starts(found: Comparison, number: int = 0) -> list[tuple[float, ...]]:
    """The places of an explanation: where in the steps of either side (us); -1 for nowhere."""
    traces = found.a.trace, found.b.trace
    places = found.explanations[number].places.tolist()
    return [
        tuple(float(t.start[i]) / 1000 if i >= 0 else -1.0 for t, i in zip(traces, one, strict=True))
        for one in places
    ]


MM, ADD, VIEW, RELU = (
    ("aten::mm", 20, ("gemm", 10)), ("aten::add", 20, ("plus", 10)), ("aten::view", 8),
    ("aten::relu", 20, ("clamp", 10)),
)  # fmt: skip
SORT, ITEM = ("aten::sort", 30, ("sort", 12)), ("aten::item", 30)
PLAIN = [MM, ADD, VIEW, RELU]


def with_one(op: Op, *steps: int) -> list[list[Op]]:
    """Four steps, with an op more after the second one in some."""
    return [[MM, ADD, op, VIEW, RELU] if n in steps else PLAIN for n in range(4)]


@pytest.mark.parametrize(("steps", "where", "each", "mean"), [
    ((2,), "new in step 13", "", 0.25), ((1, 3), "new in 2 of 4 steps", " each", 0.5),
    ((0, 1, 2, 3), "new in every step", " per step", 1)
])  # fmt: skip
def test_work_of_some_steps(tmp_path, steps, where, each, mean):
    """12 us on the GPU by an op of 30 us; A's steps are numbered from 1, B's from 11."""
    some, without = with_one(SORT, *steps), [PLAIN] * 4
    new = comparison(tmp_path, recording(*without), recording(*some, first=11))
    text = f"12.0 µs on the GPU, 30.0 µs on the CPU{each}."
    assert said(new) == [
        ("new", "device", round(12_000 * mean), round(30_000 * mean), f"aten::sort is {where}: {text}")
    ]
    gone = comparison(tmp_path, recording(*some, first=11), recording(*without))
    assert said(gone) == [
        (
            "gone", "device", -round(12_000 * mean), -round(30_000 * mean),
            f"aten::sort is {where.replace('new', 'gone')}: {text}",
        )
    ]  # fmt: skip
    assert [b for _, b in starts(new)] == [a for a, _ in starts(gone)]
    assert [a for a, _ in starts(new)] == [b for _, b in starts(gone)] == [-1] * len(steps)
    assert (new.explanations[0].names_a, new.explanations[0].names_b) == ((), ("sort",))


@pytest.mark.parametrize(("steps", "where", "each", "mean"), [
    ((2,), " is new in step 13: 30.0 µs", "", 0.25),
    ((0, 2), " is new in 2 of 4 steps: 30.0 µs each", "", 0.5),
    ((0, 1, 2, 3), " is new: 30.0 µs per step", " per step", 1)
])  # fmt: skip
def test_calls_of_some_steps(tmp_path, steps, where, each, mean):
    some, without = with_one(ITEM, *steps), [PLAIN] * 4
    new = comparison(tmp_path, recording(*without), recording(*some, first=11))
    text = f"On the CPU, 1 call{each} (aten::item){where}."
    assert said(new) == [("calls", "cpu", round(30_000 * mean), 0, text)]
    gone = comparison(tmp_path, recording(*some, first=11), recording(*without))
    text = text.replace("is new", "is gone")
    assert said(gone) == [("calls", "cpu", -round(30_000 * mean), 0, text)]
    assert [b for _, b in starts(new)] == [a for a, _ in starts(gone)]
    assert len(starts(new)) == len(steps)


def test_other_kernels_of_the_same_ops_in_some_steps(tmp_path):
    plain, other = ([(f"f{k}", 20, (f"{kernel}{k}", 10)) for k in range(5)] for kernel in "ab")
    found = comparison(tmp_path, recording(*[plain] * 4), recording(plain, other, plain, other))
    (told,) = found.explanations
    start = "The same ops run on other kernels or other sizes, 5 times in 2 of 4 steps: 50.0 µs → "
    assert told.text.startswith(start)


def test_calls_more_calls_fewer_and_other_calls(tmp_path):
    plain, more = recording(*[PLAIN] * 4), recording(*with_one(VIEW, 0, 1, 2, 3))
    text = "On the CPU, 1 {} call per step (aten::view): 8.00 µs per step."
    assert said(comparison(tmp_path, plain, more)) == [("calls", "cpu", 8000, 0, text.format("more"))]
    assert said(comparison(tmp_path, more, plain)) == [("calls", "cpu", -8000, 0, text.format("fewer"))]
    other = [[MM, ADD, ("aten::numpy", 9), ("aten::empty", 4), VIEW, RELU]] * 4
    found = comparison(tmp_path, recording(*with_one(ITEM, 0, 1, 2, 3)), recording(*other))
    text = "1 call per step (aten::item) is gone and 2 (aten::numpy and aten::empty) are new"
    assert said(found) == [("calls", "cpu", -17_000, 0, f"On the CPU, {text}: 30.0 µs → 13.0 µs per step.")]
    assert len(starts(found)) == 4
    assert starts(found)[0] == (42, 42)


def test_what_runs_elsewhere_in_a_step(tmp_path):
    """It takes no longer there."""
    calls = comparison(tmp_path, recording(*[PLAIN] * 4), recording(*[[MM, VIEW, ADD, RELU]] * 4))
    text = "On the CPU, 1 call per step (aten::view) runs in another place."
    assert said(calls) == [("order", "cpu", 0, 0, text)]
    assert calls.answer == "A step takes 78.0 µs, as before."
    found = comparison(tmp_path, recording(*[PLAIN] * 4), recording(*[[ADD, MM, VIEW, RELU]] * 4))
    assert said(found) == [("order", "device", 0, 0, "plus runs in another place.")]
    assert starts(found)[0] == (27, 6)
    a, b = [("aten::f", 9), ("aten::g", 9)], [("aten::x", 5), ("aten::y", 5), ("aten::z", 5)]
    calls = comparison(tmp_path, recording(*[a + b] * 3), recording(*[b + a] * 3))
    text = "On the CPU, 2 calls per step (aten::f and aten::g) run in another place."
    assert said(calls) == [("order", "cpu", 0, 0, text)]


OPS = [(f"aten::op{k}", 20, (f"k{k}", 10)) for k in range(8)]


def some_other(steps: tuple[int, ...] = (0, 1, 2, 3), **others: Op) -> list[Event]:
    """Four steps of eight ops, of which those with these names are other ones in some."""
    return recording(*[[others.get(op[0][6:], op) if n in steps else op for op in OPS] for n in range(4)])


LONG = {"op3": ("aten::op3", 90, ("k3", 10)), "op5": ("aten::op5", 60, ("k5", 10))}


def test_single_calls_that_took_longer_once(tmp_path):
    """The call of a launch takes 2 us of each."""
    plain, one, two = some_other(), some_other((1,), op3=LONG["op3"]), some_other((1,), **LONG)
    text = "aten::op3 takes 88.0 µs instead of 18.0 µs on the CPU in step 2, 1 of 4 times."
    assert said(comparison(tmp_path, plain, one)) == [("slower", "cpu", 17_500, 0, text)]
    many = "aten::op3 {} µs instead of {} µs and aten::op5 {} µs instead of {} µs"
    text = f"2 single calls took longer ({many.format('88.0', '18.0', '58.0', '18.0')})"
    found = comparison(tmp_path, plain, two)
    assert said(found) == [("once", "cpu", 27_500, 0, f"{text}: on average 27.5 µs per step on the CPU.")]
    assert starts(found) == [(174 + 63, 174 + 63), (174 + 105, 174 + 105 + 70)]
    text = f"2 single calls took less time ({many.format('18.0', '88.0', '18.0', '58.0')})"
    found = comparison(tmp_path, two, plain)
    assert said(found) == [("once", "cpu", -27_500, 0, f"{text}: on average 27.5 µs per step on the CPU.")]
    text = "aten::op3 takes 88.0 µs instead of 18.0 µs on the CPU."
    found = comparison(tmp_path, plain, some_other(op3=LONG["op3"]))
    assert said(found) == [("slower", "cpu", 70_000, 0, text)]
    assert found.answer == "The same program. A step takes 244 µs instead of 174 µs (+40%)."


def test_calls_behind_other_kernels_are_told_with_them(tmp_path):
    """What they take is told in the same sentence, and not once more."""
    plain, changed = some_other(), some_other(op3=("aten::op3", 90, ("other", 10)))
    (told,) = said(comparison(tmp_path, plain, changed))
    assert told[:4] == ("replaced", "device", 0, 70_000)
    assert told[4].endswith("10.0 µs → 10.0 µs on the GPU, 20.0 µs → 90.0 µs on the CPU per step.")


def test_kernels_that_took_longer(tmp_path):
    plain, long = some_other(), ("aten::op3", 20, ("k3", 30))
    text = "k3 takes 30.0 µs instead of 10.0 µs on the GPU in step 2, 1 of 4 times."
    assert said(comparison(tmp_path, plain, some_other((1,), op3=long))) == [
        ("slower", "device", 5000, 0, text)
    ]
    found = comparison(tmp_path, some_other(op3=long), plain)
    text = "k3 takes 10.0 µs instead of 30.0 µs on the GPU."
    assert said(found) == [("faster", "device", -20_000, 0, text)]
    work = "The GPU's work took 80.0 µs instead of 100 µs (-20%)."
    assert found.answer == f"The same program. A step takes 174 µs, as before. {work}"
    twice, slow = ({f"op{k}": (f"aten::op{k}", 20, ("k", long)) for k in (3, 5)} for long in (10, 30))
    text = "k takes 30.0 µs instead of 10.0 µs on the GPU, 2 times per step."
    assert said(comparison(tmp_path, some_other(**twice), some_other(**slow))) == [
        ("slower", "device", 40_000, 0, text)
    ]


def test_a_collective_takes_longer_as_it_waits(tmp_path):
    a, b = (some_other(op3=("aten::op3", 20, (NCCL, long))) for long in (10, 40))
    text = "takes 40.0 µs instead of 10.0 µs on the GPU, including its wait for other ranks."
    assert said(comparison(tmp_path, a, b)) == [
        ("slower", "device", 30_000, 0, f"nccl AllReduce fp32 ring ll {text}")
    ]
    # Of an op that is called like one nothing waits.
    a, b = (some_other(op3=("nccl:all_reduce", long, ("k3", 10))) for long in (20, 90))
    (one,) = said(comparison(tmp_path, a, b))
    assert "waiting for other ranks" not in one[-1]


def guarded(name: str, length: float) -> list[Event]:
    return recording(*[[(name, length), *OPS]] * 4)


def test_guards_of_compiled_code(tmp_path):
    plain, guards, other = (
        recording(*[OPS] * 4), guarded("TorchDynamo Cache Lookup", 7), guarded("Pregraph bytecode", 3)
    )  # fmt: skip
    start = "Guards and the prologue of compiled code"
    spent = "7.00 µs on the CPU per step (TorchDynamo Cache Lookup)."
    found = comparison(tmp_path, plain, guards)
    assert said(found) == [("guards", "cpu", 7000, 0, f"{start} cost {spent}")]
    assert [a for a, _ in starts(found)] == [-1] * 4
    assert said(comparison(tmp_path, guards, plain)) == [
        ("guards", "cpu", -7000, 0, f"{start} are gone: {spent}")
    ]
    text = f"{start} cost 7.00 µs → 3.00 µs on the CPU per step (Pregraph bytecode)."
    assert said(comparison(tmp_path, guards, other)) == [("guards", "cpu", -4000, 0, text)]


@pytest.mark.parametrize(("a", "b", "sizes"), [
    ([[64, 32], [32, 16], [1]], [[64, 64], [64, 16], [1]], "64x32 32x16 → 64x64 64x16"),
    ([[64, 32], [], [32]], [[64, 16], [], [32]], "64x32 32 → 64x16 32"), ([[4]], [[5]], "4 → 5"),
    ([[[4, 2], [4, 3]], [1]], [[[8, 2], [8, 3]], [1]], "4x2 4x3 1 → 8x2 8x3 1"),
    ([[[n] for n in (1, 2, 3, 4)]], [[[n] for n in (5, 6, 7, 8)]], "1 2 3 … (4) → 5 6 7 … (4)")
])  # fmt: skip
def test_ops_of_other_sizes(tmp_path, a, b, sizes):
    """A list of tensors is told by the first few."""
    sides = [
        some_other(op3=({"name": "aten::op3", "Input Dims": dims}, long)) for dims, long in ((a, 20), (b, 30))
    ]
    text = (
        f"1 of the ops per step works on other sizes (aten::op3: {sizes}): 20.0 µs → 30.0 µs on the CPU per "
        "step."
    )
    assert said(comparison(tmp_path, *sides)) == [("sizes", "cpu", 10_000, 0, text)]


def test_what_holds_a_side_back(tmp_path):
    """Of all its steps, and of one alone: here the second has a busy device. Of some nothing is said."""
    events: list[Event] = []
    for n, busy in enumerate((10, 90, 10, 10)):
        events += [step(n, 100 * n, 100), *run(100 * n + 6, busy, n + 1)]
    results = Part(trace_of(tmp_path, *events))
    assert side_of(results).verdict == "overhead-bound"
    assert side_of(results, [1]).verdict == "compute-bound"
    assert side_of(results, [0]).verdict == "overhead-bound"
    assert side_of(results, [0, 1]).verdict is None


def test_forward_ops_in_the_backward_pass_of_one_side(tmp_path):
    """As activation checkpointing runs them; it is said of the side that does it, and not where both do."""

    def events(node: str) -> list[Event]:
        found: list[Event] = []
        for n in range(4):
            found += [step(n, 200 * n, 190), cpu(node, 200 * n + 10, 90)]
            for k, op in enumerate(("aten::linear", "aten::layer_norm")):
                found += [cpu(op, 200 * n + 20 + 30 * k, 25), launch(200 * n + 25 + 30 * k, 9 * n + k + 1)]
                found.append(kernel(200 * n + 32 + 30 * k, 12, 9 * n + k + 1, name=op))
        return found

    plain, again = events("my forward"), events("autograd::engine::evaluate_function: AddmmBackward0")
    for a, b, letter in ((plain, again, "B"), (again, plain, "A")):
        (note,) = [note for note in comparison(tmp_path, a, b).notes if "forward ops" in note]
        assert note.startswith(f"the backward pass of {letter} runs forward ops again, for 220 µs on the CPU")
    assert not [note for note in comparison(tmp_path, again, again).notes if "forward ops" in note]


def test_memory_that_is_known_of_some_steps_alone_is_not_compared(tmp_path):
    def peak(first: float) -> float | None:
        args = {"Total Allocated": 4_000, "Total Reserved": 9_000, "Device Type": 1, "Device Id": 0}
        events: list[Event] = [step(n, 100 * n, 90) for n in range(2)]
        events += [cpu("aten::mm", 100 * n + 5, 50) for n in range(2)]
        for at in (first, 150):
            record = {"ph": "i", "s": "t", "name": "[memory]", "pid": 9, "tid": 9, "ts": at}
            events.append(record | {"args": {"Addr": 1, "Bytes": 1_000} | args})
        (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
        return compared(tmp_path / "a.json", tmp_path / "a.json").metrics["peak_allocated_bytes"].a

    assert peak(50) == 4_000
    assert peak(120) is None
