"""Steps of traces without `ProfilerStep`: where they come from, begin and end, and when there are none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import COLLECTION, needed
from tests.kineto import Event, cpu, kernel, launch, memcpy, trace_of

from tracetui.analysis.steps.scope import find_steps, step_scope
from tracetui.analysis.steps.step_sources import _outermost_ops
from tracetui.analysis.steps.step_table import StepTable
from tracetui.analysis.steps.steps import summarize_steps


def note(name: str, start: float, duration: float, tid: int = 9) -> Event:
    return cpu(name, start, duration, "user_annotation") | {"tid": tid}


def launched(names: str, start: float, first: int, tid: int = 9, each: float = 10) -> list[Event]:
    """A kernel of each letter's name, launched one after another, every `each` us."""
    events = []
    for i, name in enumerate(names):
        at = start + each * i
        events += [launch(at, first + i) | {"tid": tid}, kernel(at + 5, 4, first + i, 7 + tid, name=name)]
    return events


def sequence(names: str, *more: Event, tid: int = 9) -> list[Event]:
    return launched(names, 0, 1, tid) + list(more)


def found(tmp_path: Path, *events: Event) -> StepTable:
    return find_steps(trace_of(tmp_path, *events))


def spans(steps: StepTable) -> list[tuple[float, float]]:
    """(start, end) in us, on the clock of the events (the first one here is at 0)."""
    return [(a / 1000, b / 1000) for a, b in zip(steps.start.tolist(), steps.end.tolist(), strict=True)]


# Optimizer.step


def training(count: int, first: float = 0) -> list[Event]:
    """Steps of 100 us: eight ops of 10 us each, then the optimizer for 15 us."""
    events = []
    for i in range(count):
        at = 100 * i
        events += [cpu(f"aten::op{j}", at + 10 * j, 9) for j in range(8) if at + 10 * j >= first]
        events += launched("fb", at + max(0, first if not i else 0), 10 * i + 1, each=1)
        events += [note("Optimizer.step#SGD.step", at + 82, 15), cpu("aten::add_", at + 83, 2)]
    return events


def test_a_step_ends_with_the_optimizer(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *training(3))
    steps = find_steps(trace)
    assert (steps.source, steps.name, steps.number.tolist()) == (
        "Optimizer.step",
        "Optimizer.step",
        [0, 1, 2],
    )
    assert spans(steps) == [(0, 97), (97, 197), (197, 297)]
    assert [trace.name_of(int(i)) for i in steps.event] == ["Optimizer.step#SGD.step"] * 3
    assert step_scope(trace, 1).label == "step 1"
    assert [row.label for row in summarize_steps(trace).rows] == ["step 0", "step 1", "step 2"]


def test_without_work_there_are_no_steps(tmp_path: Path) -> None:
    assert found(tmp_path, *(note("Optimizer.step#SGD.step", 100 * i, 15) for i in range(3))).source == ""


def test_a_first_step_that_the_recording_cut_is_none(tmp_path: Path) -> None:
    assert spans(found(tmp_path, cpu("a", 0, 1), *training(3, first=40))) == [(97, 197), (197, 297)]


def test_what_comes_after_the_last_optimizer_is_no_step(tmp_path: Path) -> None:
    rest = [cpu(f"aten::op{j}", 300 + 10 * j, 9) for j in range(6)]
    assert spans(found(tmp_path, *training(3), *rest))[-1] == (197, 297)


def test_one_optimizer_step_is_no_sequence(tmp_path: Path) -> None:
    assert not len(found(tmp_path, *training(1)))


def test_optimizers_that_follow_each_other_end_one_step(tmp_path: Path) -> None:
    second = [note("Optimizer.step#SGD.step", 100 * i + 97.5, 2) for i in range(3)]
    assert spans(found(tmp_path, *training(3), *second)) == [(0, 99.5), (99.5, 199.5), (199.5, 299.5)]


def test_an_optimizer_within_another_or_within_the_backward_pass(tmp_path: Path) -> None:
    inner = [note("Optimizer.step#SGD.step", 100 * i + 84, 2) for i in range(3)]
    hooks = [
        event
        for i in range(15)
        for event in (
            cpu("autograd::engine::evaluate_function: AccumulateGrad", 20 * i + 1, 5) | {"tid": 5},
            note("Optimizer.step#SGD.step", 20 * i + 2, 3, tid=5),
        )
    ]
    assert spans(found(tmp_path, *training(3), *inner, *hooks)) == [(0, 97), (97, 197), (197, 297)]


def test_a_last_step_whose_work_did_not_run_is_left_out(tmp_path: Path) -> None:
    lost = {21, 22, 31, 32}
    events = [e for e in training(4) if e["cat"] != "kernel" or e["args"]["correlation"] not in lost]
    assert spans(found(tmp_path, *events)) == [(0, 97), (97, 197)]


def test_a_recording_that_began_and_ended_within_a_step() -> None:
    """Of 35 optimizer steps 34 end a step that began in the recording; the kernels of the last two were not
    recorded."""
    from tracetui.trace import load

    steps = find_steps(load(needed(COLLECTION / "attached" / "h200_500ms.json.gz")))
    assert (steps.source, len(steps)) == ("Optimizer.step", 32)


# Annotations


def loop(name: str, count: int, tid: int = 9, kernels: str = "ab", offset: float = 0) -> list[Event]:
    """Rounds of 100 us, of which the annotation takes 80; `*` in its name becomes the number of the round."""
    events = []
    for i in range(count):
        at = 100 * i + offset
        events.append(note(name.replace("*", str(i + 5)), at, 80, tid))
        events += launched(kernels, at + 5, 1000 * tid + 10 * i, tid)
    return events


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("decode", [0, 1]),
        ("[Executor] _forward_step *: 0 ctx reqs, 3 gen reqs", [5, 6]),
        ("step[DECODE bs=8]", [0, 1]),
    ],
)
def test_an_annotation_that_repeats(tmp_path: Path, name: str, number: list[int]) -> None:
    steps = found(tmp_path, *loop(name, 2))
    shown = name if "*" not in name else "[Executor] _forward_step *: * ctx reqs, * gen reqs"
    assert (steps.source, steps.number.tolist()) == (f"annotation {shown}", number)
    assert spans(steps) == [(0, 80), (100, 180)]


def test_names_with_other_numbers_in_each_round(tmp_path: Path) -> None:
    names = [
        "execute_context_1(64)_generation_0(0)",
        *[f"execute_context_0(0)_generation_{n}({n})" for n in (8, 8, 7)],
    ]
    events = [e | {"name": names[i // 5]} if i % 5 == 0 else e for i, e in enumerate(loop("x", 4))]
    steps = found(tmp_path, *events)
    assert (steps.source, len(steps)) == ("annotation execute_context_*(*)_generation_*(*)", 4)
    assert steps.number.tolist() == [0, 1, 2, 3]


def test_prefill_and_decode_are_rounds_of_one_loop(tmp_path: Path) -> None:
    events = [
        e | {"name": "prefill"} if e["name"] == "decode" and e["ts"] < 150 else e for e in loop("decode", 4)
    ]
    assert found(tmp_path, *events).source == "annotation prefill, decode"
    assert len(found(tmp_path, *events)) == 4


def rounds(*names: str, times: int = 3, heavy: int = 1) -> list[Event]:
    """A loop whose parts are annotated; the second launches nearly all."""
    events: list[Event] = []
    for n in range(times):
        for k, name in enumerate(names):
            at = 1_000 * n + 100 * k
            events.append(cpu(name, at, 80, "user_annotation"))
            for i in range(10 if k == heavy else 1):
                correlation = 100 * n + 10 * k + i + 1
                events += [launch(at + 5 * i, correlation, 2), kernel(at + 5 * i + 3, 1, correlation)]
    return events


def test_the_parts_of_a_loop_are_one_step(tmp_path: Path) -> None:
    steps = found(tmp_path, *rounds("encode", "rerank", "respond"))
    assert (steps.source, steps.number.tolist()) == ("annotation encode to respond", [0, 1, 2])
    assert spans(steps) == [(0, 280), (1000, 1280), (2000, 2280)]


def test_parts_none_of_which_launches_most_are_a_step_too(tmp_path: Path) -> None:
    """If the rounds show what steps have: a pause, or a copy from the host."""
    names = ("load", "forward", "backward", "log")
    events = [e for k in (1, 2) for e in rounds(*names, heavy=k)]
    # The second of them launches under other correlations.
    seen: set[int] = set()
    for e in events:
        if e["cat"] in ("cuda_runtime", "kernel"):
            key = hash((e["cat"], e["args"]["correlation"]))
            e["args"]["correlation"] += 1_000 * (key in seen)
            seen.add(key)
    parts = list({(e["name"], e["ts"], e["cat"]): e for e in events}.values())
    copies = [launch(1_000 * n + 2, 5_000 + n, 1, name="cudaMemcpyAsync") for n in range(3)]
    copies += [memcpy(1_000 * n + 4, 1, 5_000 + n) for n in range(3)]
    assert found(tmp_path, *parts).source == "annotation load to log"  # a pause sets them apart

    def close(some: list[Event]) -> list[Event]:
        return [e | {"ts": e["ts"] - 610 * (e["ts"] // 1_000)} for e in some]

    assert found(tmp_path, *close(parts)).source != "annotation load to log"
    assert found(tmp_path, *close([*parts, *copies])).source == "annotation load to log"


@pytest.mark.parametrize(("outside", "steps"), [(0, True), (3, True), (4, False)])
def test_the_parts_of_a_loop_hold_most_of_all_launches(tmp_path: Path, outside: int, steps: bool) -> None:
    """They make 12 in a round; with less than four fifths of all they are no steps."""
    events: list[Event] = []
    for n in range(3):
        at = 1_000 * n
        for k, kernels in enumerate(("a", "bcdef", "ghijk", "l")):
            events.append(note(f"part {'ABCD'[k]}", at + 100 * k, 80))
            events += launched(kernels, at + 100 * k, at + 10 * k + 1)
        events += launched("mnop"[:outside], at + 450, at + 90)
    assert (found(tmp_path, *events).source == "annotation part A to part D") is steps


def test_parts_that_do_not_come_in_turn_are_none(tmp_path: Path) -> None:
    events = rounds("encode", "rerank", "respond")
    swapped = [
        e | {"name": {"encode": "respond", "respond": "encode"}[e["name"]]}
        if e["name"] in ("encode", "respond") and e["ts"] >= 2000
        else e
        for e in events
    ]
    once = [e for e in events if e["name"] != "encode" or e["ts"]]
    for some, source in ((swapped, "rerank"), (once, "rerank to respond")):
        assert found(tmp_path, *some).source == f"annotation {source}"
    # Of a loop that is named as one, the rest is no part.
    assert found(tmp_path, *rounds("encode", "decode", "respond")).source == "annotation decode"


def test_a_loop_by_name_that_holds_too_few_of_the_launches(tmp_path: Path) -> None:
    """A server replays one graph in `execute_model`, and copies before and after it in parts of their own."""
    events: list[Event] = []
    for n in range(4):
        at = 1_000 * n
        for k, (name, launches) in enumerate((("schedule", ""), ("execute_model", "ab"), ("sample", "c"))):
            events.append(note(name, at + 200 * k, 180))
            events += launched(launches, at + 200 * k, 10 * n + k + 1)
    steps = found(tmp_path, *events)
    assert (steps.source, len(steps)) == ("annotation schedule to sample", 4)
    assert spans(steps)[1] == (1000, 1580)


def test_the_loop_before_what_is_around_and_within_it(tmp_path: Path) -> None:
    parts = [note(f"layer_{j}", 100 * i + 4 + 20 * j, 18) for i in range(4) for j in range(2)]
    around = [note("generate", 0, 190), note("generate", 195, 205)]
    assert found(tmp_path, *loop("iteration", 4), *parts, *around).source == "annotation iteration"
    outer = [note("outer", 0, 190), note("outer", 195, 205)]
    assert found(tmp_path, *loop("inner", 4), *outer).source == "annotation outer"


@pytest.mark.parametrize(
    "name", ["layer_*", "transformer block", "nccl:all_reduce", "Optimizer.zero_grad#SGD.zero_grad"]
)
def test_parts_of_a_step_are_no_steps(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, *loop(name, 6)).source == ""


def test_an_annotation_has_to_hold_most_launches_and_not_itself(tmp_path: Path) -> None:
    rest = [e for i in range(4) for e in launched("cd", 100 * i + 81, 500 + 10 * i, each=8)]
    assert found(tmp_path, *loop("decode", 4), *rest).source == ""
    nested = [note("decode", 100 * i + 1, 70) for i in range(4)]
    assert found(tmp_path, *loop("decode", 4), *nested).source == ""
    assert found(tmp_path, *loop("decode", 1)).source == ""


def test_of_two_loops_the_one_of_the_thread_that_launches_most(tmp_path: Path) -> None:
    small = loop("iteration a", 6, tid=3, kernels="x", offset=37)
    steps = found(tmp_path, *loop("iteration b", 4, tid=4, kernels="xyz"), *small)
    assert (steps.source, len(steps)) == ("annotation iteration b", 4)


# What repeats


def waits(count: int, period: int) -> list[Event]:
    """A wait for the device in each repetition."""
    return [
        cpu("cudaStreamSynchronize", 10 * period * i + 9.5 + 10 * (period - 2), 0.2, "cuda_runtime")
        for i in range(count)
    ]


def test_a_sequence_that_repeats(tmp_path: Path) -> None:
    steps = found(tmp_path, *sequence("abcbcd" * 5), *waits(5, 6))
    assert (steps.source, steps.name, steps.number.tolist()) == ("repeats", "repeats", [0, 1, 2, 3, 4])
    assert spans(steps) == [(0, 60), (60, 120), (120, 180), (180, 240), (240, 294)]


def test_layers_of_a_model_are_no_steps(tmp_path: Path) -> None:
    layers = "abcbcd" * 12
    assert found(tmp_path, *sequence(layers)).source == "", "nothing says that these are steps"
    assert found(tmp_path, *sequence("e" + layers + "h"), *waits(13, 6)).source == "", (
        "an embedding and a head"
    )
    two = found(tmp_path, *sequence(("e" + layers + "h") * 3), *waits(3, 74))
    assert len(two) == 3


def test_an_attached_recording_begins_and_ends_anywhere(tmp_path: Path) -> None:
    steps = found(tmp_path, *sequence(("abcbcd" * 6)[4:-3]), *waits(6, 6))
    assert steps.source == "repeats"
    assert len(steps) in (4, 5)
    assert set(np.diff(steps.start)) == {60_000}


def test_prefill_then_decoding(tmp_path: Path) -> None:
    """Another phase may come first, if each repetition hands its result to the host."""
    tokens = "pqrpqrpqrpq" + "abcbcd" * 8
    at = [110 + 60 * i + 55 for i in range(8)]
    copies = [
        e
        for i, t in enumerate(at)
        for e in (
            launch(t, 900 + i, 2, "cudaMemcpyAsync"),
            memcpy(t + 3, 1, 900 + i, "DtoH (Device -> Pinned)"),
        )
    ]
    assert len(found(tmp_path, *sequence(tokens), *copies)) == 8
    copies[7] = memcpy(at[3] + 3, 1, 903, "HtoD (Pinned -> Device)")  # one does not
    assert found(tmp_path, *sequence(tokens), *copies).source == ""
    assert found(tmp_path, *sequence(tokens), *waits(10, 6)).source == ""


def test_a_pause_sets_repetitions_apart(tmp_path: Path) -> None:
    events = [e for i in range(5) for e in launched("abcbcd", 200 * i, 10 * i + 1)]
    assert spans(found(tmp_path, *events))[:2] == [(0, 200), (200, 400)]


def replays(count: int, *, copied: int = 99, call: str = "cudaGraphLaunch") -> list[Event]:
    """Rounds of 100 us: a graph of three kernels, and, in the first `copied`, a copy to the host."""
    events = []
    for i in range(count):
        events += [launch(100 * i, i + 1, name=call)]
        events += [kernel(100 * i + 5 + 10 * j, 9, i + 1, name="abc"[j]) for j in range(3)]
        if i < copied:
            events += [launch(100 * i + 50, 500 + i, name="cudaMemcpyAsync")]
            events += [memcpy(100 * i + 60, 2, 500 + i, "DtoH (Device -> Pageable)")]
    return events


@pytest.mark.parametrize(
    ("events", "steps"),
    [
        (replays(4), 4),
        (replays(3), 3),
        (replays(2), 0),  # two rounds are no loop
        (replays(4, copied=2), 0),  # the layers of a model may be graphs of one kind
        (replays(4, copied=0), 0),
        (replays(4, call="cudaLaunchKernel"), 0),
        ([*replays(4), launch(380, 900), kernel(385, 5, 900, name="other")], 0),
    ],
)
def test_replays_of_one_graph(tmp_path: Path, events: list[Event], steps: int) -> None:
    table = found(tmp_path, *events)
    assert len(table) == steps
    if steps:
        assert table.source == "repeats"
        assert spans(table) == [
            *((100 * i, 100 * i + 100) for i in range(steps - 1)),
            (100 * steps - 100, 100 * steps - 46),  # to the end of its copy to the host
        ]


def test_ops_repeat_on_the_cpu(tmp_path: Path) -> None:
    names = ("embedding", "mm", "add", "relu", "mm") * 4
    ops = [cpu(f"aten::{name}", 10 * i, 8) for i, name in enumerate(names)]
    steps = found(tmp_path, *ops)
    assert (steps.source, len(steps)) == ("repeats", 4)
    assert not len(found(tmp_path, *[op | {"name": op["name"].replace("embedding", "mul")} for op in ops]))


def test_too_little_to_say(tmp_path: Path) -> None:
    assert found(tmp_path, *sequence("abcbcd" * 2), *waits(2, 6)).source == "", "twice is no loop"
    assert found(tmp_path, *sequence("ab" * 4), *waits(4, 2)).source == "", (
        "so short a sequence comes by chance"
    )
    assert found(tmp_path, *sequence("a" * 40), *waits(40, 1)).source == "", "one name over and over"


def test_the_evidence_counts_what_is_alike(tmp_path: Path) -> None:
    noisy = "abcbcd" * 3 + "xyzxxyzzzzyx" + "abcbcd" * 3
    assert found(tmp_path, *sequence(noisy), *waits(8, 6)).source == ""


@pytest.mark.parametrize("seed", range(40))
def test_a_shuffled_sequence_has_no_steps(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    model = "abcbcd" if seed % 2 else "eabababababab"
    names = list(model * int(random.integers(3, 30)))
    random.shuffle(names)
    assert found(tmp_path, *sequence("".join(names)), *waits(len(names), 1)).source == ""


@pytest.mark.parametrize("seed", range(10))
def test_a_random_sequence_has_no_steps(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    names = "".join(random.choice(list("abcdefghijkl"[: 2 + seed]), 300))
    assert found(tmp_path, *sequence(names), *waits(300, 1)).source == ""


def test_profiler_steps_stand_above_all(tmp_path: Path) -> None:
    steps = found(tmp_path, note("ProfilerStep#7", 0, 150), *training(3), *loop("decode", 2, tid=3))
    assert (steps.source, steps.number.tolist()) == ("ProfilerStep", [7])


def test_a_chosen_annotation_stands_above_all(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, *training(3), *loop("decode", 2, tid=3))
    assert find_steps(trace, "decode").source == "annotation decode"
    assert (find_steps(trace, "nothing").source, find_steps(trace).source) == ("", "Optimizer.step")


def test_the_outermost_op_of_a_lane_of_twenty_thousand_levels(tmp_path: Path) -> None:
    """In one step: level by level it would take minutes."""
    deep = 20_000
    ops = [cpu("aten::a", i, 4 * deep - 2 * i) for i in range(deep)]
    trace = trace_of(tmp_path, *ops, note("alone", 5 * deep, 1, ops[0]["tid"]))
    at = np.array([0, 1, deep // 2, deep - 1, deep])
    assert _outermost_ops(trace, at).tolist() == [0, 0, 0, 0, deep]
