"""Steps of traces without `ProfilerStep`: where they come from, begin and end, and when there are none."""

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import COLLECTION, needed
from tests.kineto import Event, cpu, kernel, launch, memcpy, note, trace_of

from tracetui.analysis.steps.scope import find_steps, step_scope
from tracetui.analysis.steps.step_sources import _outermost_ops, main_process
from tracetui.analysis.steps.step_table import StepTable
from tracetui.analysis.steps.steps import summarize_steps


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


def test_a_step_ends_with_the_optimizer(tmp_path):
    trace = trace_of(tmp_path, *training(3))
    steps = find_steps(trace)
    assert (steps.source, steps.name, steps.number.tolist()) == (
        "Optimizer.step", "Optimizer.step", [0, 1, 2]
    )  # fmt: skip
    assert spans(steps) == [(0, 97), (97, 197), (197, 297)]
    assert [trace.name_of(int(i)) for i in steps.event] == ["Optimizer.step#SGD.step"] * 3
    assert step_scope(trace, 1).label == "step 1"
    assert [row.label for row in summarize_steps(trace).rows] == ["step 0", "step 1", "step 2"]


def test_without_work_there_are_no_steps(tmp_path):
    assert found(tmp_path, *(note("Optimizer.step#SGD.step", 100 * i, 15) for i in range(3))).source == ""


def test_a_first_step_that_the_recording_cut_is_none(tmp_path):
    assert spans(found(tmp_path, cpu("a", 0, 1), *training(3, first=40))) == [(97, 197), (197, 297)]


def test_what_comes_after_the_last_optimizer_is_no_step(tmp_path):
    rest = [cpu(f"aten::op{j}", 300 + 10 * j, 9) for j in range(6)]
    assert spans(found(tmp_path, *training(3), *rest))[-1] == (197, 297)


def test_one_optimizer_step_is_no_sequence(tmp_path):
    assert not len(found(tmp_path, *training(1)))


def test_optimizers_that_follow_each_other_end_one_step(tmp_path):
    second = [note("Optimizer.step#SGD.step", 100 * i + 97.5, 2) for i in range(3)]
    assert spans(found(tmp_path, *training(3), *second)) == [(0, 99.5), (99.5, 199.5), (199.5, 299.5)]


def test_an_optimizer_within_another_or_within_the_backward_pass(tmp_path):
    inner = [note("Optimizer.step#SGD.step", 100 * i + 84, 2) for i in range(3)]
    hooks = [
        event for i in range(15) for event in (
            cpu("autograd::engine::evaluate_function: AccumulateGrad", 20 * i + 1, 5) | {"tid": 5},
            note("Optimizer.step#SGD.step", 20 * i + 2, 3, tid=5)
        )
    ]  # fmt: skip
    assert spans(found(tmp_path, *training(3), *inner, *hooks)) == [(0, 97), (97, 197), (197, 297)]


def test_a_last_step_whose_work_did_not_run_is_left_out(tmp_path):
    lost = {21, 22, 31, 32}
    events = [e for e in training(4) if e["cat"] != "kernel" or e["args"]["correlation"] not in lost]
    assert spans(found(tmp_path, *events)) == [(0, 97), (97, 197)]


def test_a_recording_that_began_and_ended_within_a_step():
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


@pytest.mark.parametrize(("name", "number"), [
    ("decode", [0, 1]), ("[Executor] _forward_step *: 0 ctx reqs, 3 gen reqs", [5, 6]),
    ("step[DECODE bs=8]", [0, 1])
])  # fmt: skip
def test_an_annotation_that_repeats(tmp_path, name, number):
    steps = found(tmp_path, *loop(name, 2))
    shown = name if "*" not in name else "[Executor] _forward_step *: * ctx reqs, * gen reqs"
    assert (steps.source, steps.number.tolist()) == (f"annotation {shown}", number)
    assert spans(steps) == [(0, 80), (100, 180)]


def test_names_with_other_numbers_in_each_round(tmp_path):
    names = ["execute_context_1(64)_generation_0(0)", *[
        f"execute_context_0(0)_generation_{n}({n})" for n in (8, 8, 7)
    ]]  # fmt: skip
    events = [e | {"name": names[i // 5]} if i % 5 == 0 else e for i, e in enumerate(loop("x", 4))]
    steps = found(tmp_path, *events)
    assert (steps.source, len(steps)) == ("annotation execute_context_*(*)_generation_*(*)", 4)
    assert steps.number.tolist() == [0, 1, 2, 3]


def test_prefill_and_decode_are_rounds_of_one_loop(tmp_path):
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


def test_the_parts_of_a_loop_are_one_step(tmp_path):
    steps = found(tmp_path, *rounds("encode", "rerank", "respond"))
    assert (steps.source, steps.number.tolist()) == ("annotation encode to respond", [0, 1, 2])
    assert spans(steps) == [(0, 280), (1000, 1280), (2000, 2280)]


def test_parts_none_of_which_launches_most_are_a_step_too(tmp_path):
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
def test_the_parts_of_a_loop_hold_most_of_all_launches(tmp_path, outside, steps):
    """They make 12 in a round; with less than four fifths of all they are no steps."""
    events: list[Event] = []
    for n in range(3):
        at = 1_000 * n
        for k, kernels in enumerate(("a", "bcdef", "ghijk", "l")):
            events.append(note(f"part {'ABCD'[k]}", at + 100 * k, 80))
            events += launched(kernels, at + 100 * k, at + 10 * k + 1)
        events += launched("mnop"[:outside], at + 450, at + 90)
    assert (found(tmp_path, *events).source == "annotation part A to part D") is steps


def test_parts_that_do_not_come_in_turn_are_none(tmp_path):
    events = rounds("encode", "rerank", "respond")
    swapped = [
        e | {"name": {"encode": "respond", "respond": "encode"}[e["name"]]}
        if e["name"] in ("encode", "respond") and e["ts"] >= 2000 else e for e in events
    ]  # fmt: skip
    once = [e for e in events if e["name"] != "encode" or e["ts"]]
    for some, source in ((swapped, "rerank"), (once, "rerank to respond")):
        assert found(tmp_path, *some).source == f"annotation {source}"
    # Of a loop that is named as one, the rest is no part.
    assert found(tmp_path, *rounds("encode", "decode", "respond")).source == "annotation decode"


def test_a_loop_by_name_that_holds_too_few_of_the_launches(tmp_path):
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


def test_the_loop_before_what_is_around_and_within_it(tmp_path):
    parts = [note(f"layer_{j}", 100 * i + 4 + 20 * j, 18) for i in range(4) for j in range(2)]
    around = [note("generate", 0, 190), note("generate", 195, 205)]
    assert found(tmp_path, *loop("iteration", 4), *parts, *around).source == "annotation iteration"
    outer = [note("outer", 0, 190), note("outer", 195, 205)]
    assert found(tmp_path, *loop("inner", 4), *outer).source == "annotation outer"


@pytest.mark.parametrize(
    "name", ["layer_*", "transformer block", "nccl:all_reduce", "Optimizer.zero_grad#SGD.zero_grad"]
)
def test_parts_of_a_step_are_no_steps(tmp_path, name):
    assert found(tmp_path, *loop(name, 6)).source == ""


def test_an_annotation_has_to_hold_most_launches_and_not_itself(tmp_path):
    rest = [e for i in range(4) for e in launched("cd", 100 * i + 81, 500 + 10 * i, each=8)]
    assert found(tmp_path, *loop("decode", 4), *rest).source == ""
    nested = [note("decode", 100 * i + 1, 70) for i in range(4)]
    assert found(tmp_path, *loop("decode", 4), *nested).source == ""
    assert found(tmp_path, *loop("decode", 1)).source == ""


def test_of_two_loops_the_one_of_the_thread_that_launches_most(tmp_path):
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


def test_a_sequence_that_repeats(tmp_path):
    steps = found(tmp_path, *sequence("abcbcd" * 5), *waits(5, 6))
    assert (steps.source, steps.name, steps.number.tolist()) == ("repeats", "repeats", [0, 1, 2, 3, 4])
    assert spans(steps) == [(0, 60), (60, 120), (120, 180), (180, 240), (240, 294)]


def test_layers_of_a_model_are_no_steps(tmp_path):
    layers = "abcbcd" * 12
    assert found(tmp_path, *sequence(layers)).source == "", "nothing says that these are steps"
    assert found(tmp_path, *sequence("e" + layers + "h"), *waits(13, 6)).source == "", (
        "an embedding and a head"
    )
    assert len(found(tmp_path, *sequence(("e" + layers + "h") * 3), *waits(3, 74))) == 3


def test_an_attached_recording_begins_and_ends_anywhere(tmp_path):
    steps = found(tmp_path, *sequence(("abcbcd" * 6)[4:-3]), *waits(6, 6))
    assert steps.source == "repeats"
    assert len(steps) in (4, 5)
    assert set(np.diff(steps.start)) == {60_000}


def test_prefill_then_decoding(tmp_path):
    """Another phase may come first, if each repetition hands its result to the host."""
    tokens = "pqrpqrpqrpq" + "abcbcd" * 8
    at = [110 + 60 * i + 55 for i in range(8)]
    copies = [
        e for i,
        t in enumerate(at) for e in (
            launch(t, 900 + i, 2, "cudaMemcpyAsync"), memcpy(t + 3, 1, 900 + i, "DtoH (Device -> Pinned)")
        )
    ]  # fmt: skip
    assert len(found(tmp_path, *sequence(tokens), *copies)) == 8
    copies[7] = memcpy(at[3] + 3, 1, 903, "HtoD (Pinned -> Device)")  # one does not
    assert found(tmp_path, *sequence(tokens), *copies).source == ""
    assert found(tmp_path, *sequence(tokens), *waits(10, 6)).source == ""


def test_a_pause_sets_repetitions_apart(tmp_path):
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


@pytest.mark.parametrize(("events", "steps"), [
    (replays(4), 4),
    (replays(3), 3),
    (replays(2), 0),  # two rounds are no loop
    (replays(4, copied=2), 0),  # the layers of a model may be graphs of one kind
    (replays(4, copied=0), 0),
    (replays(4, call="cudaLaunchKernel"), 0),
    ([*replays(4), launch(380, 900), kernel(385, 5, 900, name="other")], 0),
])  # fmt: skip
def test_replays_of_one_graph(tmp_path, events, steps):
    table = found(tmp_path, *events)
    assert len(table) == steps
    if steps:
        assert table.source == "repeats"
        assert spans(table) == [
            *((100 * i, 100 * i + 100) for i in range(steps - 1)),
            (100 * steps - 100, 100 * steps - 46),  # to the end of its copy to the host
        ]


def test_ops_repeat_on_the_cpu(tmp_path):
    names = ("embedding", "mm", "add", "relu", "mm") * 4
    ops = [cpu(f"aten::{name}", 10 * i, 8) for i, name in enumerate(names)]
    steps = found(tmp_path, *ops)
    assert (steps.source, len(steps)) == ("repeats", 4)
    assert not len(found(tmp_path, *[op | {"name": op["name"].replace("embedding", "mul")} for op in ops]))


def test_too_little_to_say(tmp_path):
    assert found(tmp_path, *sequence("abcbcd" * 2), *waits(2, 6)).source == "", "twice is no loop"
    assert found(tmp_path, *sequence("ab" * 4), *waits(4, 2)).source == "", (
        "so short a sequence comes by chance"
    )
    assert found(tmp_path, *sequence("a" * 40), *waits(40, 1)).source == "", "one name over and over"


def test_the_evidence_counts_what_is_alike(tmp_path):
    assert found(tmp_path, *sequence("abcbcd" * 3 + "xyzxxyzzzzyx" + "abcbcd" * 3), *waits(8, 6)).source == ""


@pytest.mark.parametrize("seed", range(40))
def test_a_shuffled_sequence_has_no_steps(tmp_path, seed):
    random = np.random.default_rng(seed)
    names = list(("abcbcd" if seed % 2 else "eabababababab") * int(random.integers(3, 30)))
    random.shuffle(names)
    assert found(tmp_path, *sequence("".join(names)), *waits(len(names), 1)).source == ""


@pytest.mark.parametrize("seed", range(10))
def test_a_random_sequence_has_no_steps(tmp_path, seed):
    names = "".join(np.random.default_rng(seed).choice(list("abcdefghijkl"[: 2 + seed]), 300))
    assert found(tmp_path, *sequence(names), *waits(300, 1)).source == ""


def test_profiler_steps_stand_above_all(tmp_path):
    steps = found(tmp_path, note("ProfilerStep#7", 0, 150), *training(3), *loop("decode", 2, tid=3))
    assert (steps.source, steps.number.tolist()) == ("ProfilerStep", [7])


def test_a_chosen_annotation_stands_above_all(tmp_path):
    trace = trace_of(tmp_path, *training(3), *loop("decode", 2, tid=3))
    assert find_steps(trace, "decode").source == "annotation decode"
    assert (find_steps(trace, "nothing").source, find_steps(trace).source) == ("", "Optimizer.step")


def test_the_outermost_op_of_a_lane_of_twenty_thousand_levels(tmp_path):
    """In one step: level by level it would take minutes."""
    deep = 20_000
    ops = [cpu("aten::a", i, 4 * deep - 2 * i) for i in range(deep)]
    trace = trace_of(tmp_path, *ops, note("alone", 5 * deep, 1, ops[0]["tid"]))
    assert _outermost_ops(trace, np.array([0, 1, deep // 2, deep - 1, deep])).tolist() == [0, 0, 0, 0, deep]


def rounds_of(*counts: int, optimizers: int = 1, between: int = 0) -> list[Event]:
    """A round of 1 ms for each count: so many ops, then optimizers with ops between them."""
    events = []
    for i, count in enumerate(counts):
        events += [cpu("aten::mm", 1000 * i + 10 * j, 8) for j in range(count)]
        for k in range(optimizers):
            events.append(note("Optimizer.step#SGD.step", 1000 * i + 800 + 100 * k, 50))
            if k:
                events += [cpu("aten::mul", 1000 * i + 760 + 100 * k + 5 * j, 4) for j in range(between)]
    return events


@pytest.mark.parametrize(
    ("first", "whole"), [(20, True), (22, True), (23, False), (18, True), (17, False), (1, False)]
)
def test_a_first_step_has_about_as_many_ops_as_the_others(tmp_path, first, whole):
    steps = spans(found(tmp_path, *rounds_of(first, 20, 20)))
    assert steps == [*([(0, 850)] if whole else []), (850, 1850), (1850, 2850)]


def test_the_recording_begins_with_the_optimizer(tmp_path):
    events = [e for e in rounds_of(20, 20, 20) if e["ts"] >= 800]
    assert spans(found(tmp_path, *events)) == [(50, 1050), (1050, 2050)]


@pytest.mark.parametrize(("between", "count"), [(0, 3), (1, 3), (2, 5)])
def test_optimizers_with_a_tenth_of_a_steps_ops_between_them(tmp_path, between, count):
    """With 2 of 20 each of the six ends a step of its own, and what came before the first one is none."""
    steps = found(tmp_path, *rounds_of(20, 20, 20, optimizers=2, between=between))
    assert len(steps) == count
    assert spans(steps)[0] == ((0, 950) if count == 3 else (850, 950))
    assert spans(steps)[-1] == ((1950, 2950) if count == 3 else (2850, 2950))


def test_the_optimizer_of_another_process(tmp_path):
    other = [e | {"pid": 5, "tid": 5, "dur": e["dur"] / 10} for e in rounds_of(20, 20, 20, 20, 20)]
    assert found(tmp_path, *other, *loop("decode", 3)).source == "annotation decode"
    assert len(found(tmp_path, *other, *rounds_of(20, 20))) == 2
    trace = trace_of(tmp_path, *other, *rounds_of(20, 20))
    assert {
        trace.lanes[i].process for i in trace.lane[found(tmp_path, *other, *rounds_of(20, 20)).event]
    } == {main_process(trace)}
    assert main_process(trace_of(tmp_path, note("x", 0, 1))) == -1


def without_kernels(events: list[Event], of_round: dict[int, int], each: int) -> list[Event]:
    """Without the last kernels of some rounds: {round: how many}."""
    seen: dict[int, int] = {}
    kept = []
    for event in events:
        if event["cat"] == "kernel":
            at = int(event["ts"] // 100)
            seen[at] = seen.get(at, 0) + 1
            if seen[at] > each - of_round.get(at, 0):
                continue
        kept.append(event)
    return kept


@pytest.mark.parametrize(("lost", "count"), [
    ({}, 4),
    ({3: 1}, 4),  # nine of ten ran
    ({3: 2}, 3),
    ({2: 3, 3: 2}, 2),
    ({1: 9, 3: 1}, 4),  # lost in the middle: the last one is whole
    ({1: 5, 3: 10}, 3),
    ({0: 2, 1: 2, 2: 2, 3: 2}, 4),  # none is
])  # fmt: skip
def test_a_last_step_that_ran_in_part(tmp_path, lost, count):
    events = []
    for i in range(4):
        events += [note("decode", 100 * i, 90), *launched("abcdefghij", 100 * i + 5, 100 * i + 1, each=7)]
    assert len(found(tmp_path, *without_kernels(events, lost, 10))) == count


def test_annotations_hold_four_fifths_of_the_launches(tmp_path):
    inside = loop("decode", 4, kernels="abcd")  # 16

    def beside(count: int) -> list[Event]:
        return [e for i in range(count) for e in launched("x", 100 * i + 85, 50_000 + i)]

    assert found(tmp_path, *inside, *beside(4)).source == "annotation decode"
    assert found(tmp_path, *inside, *beside(5)).source == ""


def test_the_number_that_counts_up(tmp_path):
    def numbers(*names: str) -> list[int]:
        events = loop("decode", len(names), kernels="a")
        events = [e | {"name": names[i // 3]} if i % 3 == 0 else e for i, e in enumerate(events)]
        return [int(number) for number in found(tmp_path, *events).number]

    assert numbers("step 7 of 9", "step 8 of 9", "step 9 of 9") == [7, 8, 9]
    assert numbers("batch 4 iter 2", "batch 5 iter 4", "batch 6 iter 9") == [4, 5, 6]
    assert numbers("batch 4 iter 2", "batch 4 iter 3") == [2, 3]
    assert numbers("step 1", "step 2", "step 4") == [0, 1, 2]
    assert numbers("step 3", "step 2", "step 1") == [0, 1, 2]
    huge = "1" + "0" * 30
    assert numbers(f"step 5 {huge}", f"step 6 {huge}") == [5, 6]
    assert numbers("step 999999999", "step 1000000000") == [0, 1]


@pytest.mark.parametrize(("names", "shown"), [
    (("prefill", "decode", "extend"), "prefill, decode, extend"),
    (("prefill", "decode", "extend", "verify"), "prefill, decode, extend, ..."),
    (("prefill", "decode 1", "decode 2"), "prefill, decode *")
])  # fmt: skip
def test_rounds_of_several_names(tmp_path, names, shown):
    events = loop("x", len(names), kernels="a")
    events = [e | {"name": names[i // 3]} if i % 3 == 0 else e for i, e in enumerate(events)]
    steps = found(tmp_path, *events)
    assert (steps.source, steps.number.tolist()) == (f"annotation {shown}", list(range(len(names))))


def test_rounds_of_another_name_that_lie_within_are_none(tmp_path):
    within = [note("decode draft", 100 * i + 10, 30) for i in range(3)]
    steps = found(tmp_path, *loop("decode", 3), *within)
    assert (steps.source, len(steps)) == ("annotation decode", 3)
    apart = [note("prefill", 100 * i + 85, 10) for i in range(2)]
    steps = found(tmp_path, *loop("decode", 3), *apart)
    assert (steps.source, len(steps)) == ("annotation decode, prefill", 5)


@pytest.mark.parametrize(("engine", "chosen"), [(6, "forward"), (4, "backward"), (5, "forward")])
def test_the_thread_that_calls_for_the_backward_pass(tmp_path, engine, chosen):
    """A thread launches most and makes two launches in each round; where most of these lie in the autograd
    engine, the rounds are those of the thread that calls for it."""
    events = []
    for i in range(4):
        at = 100 * i
        events += [note("step forward", at, 90), *launched("ab", at + 2, 1 + 10 * i)]
        events += [note("step backward", at + 30, 55, tid=5)]
        for k in range(2):
            if 2 * i + k < engine:
                name = "autograd::engine::evaluate_function: MmBackward0"
                events.append(cpu(name, at + 35 + 20 * k, 15) | {"tid": 5})
            events += [launch(at + 40 + 20 * k, 500 + 10 * i + k) | {"tid": 5}]
            events += [kernel(at + 45 + 20 * k, 12, 500 + 10 * i + k, 12, "c")]
    assert found(tmp_path, *events).source == f"annotation step {chosen}"


@pytest.mark.parametrize(("count", "steps"), [(10, 0), (11, 11)])
def test_how_rare_a_sequence_is_by_chance(tmp_path, count, steps):
    """Each of two names has one bit, so a repetition has two; ten beside the first have 20."""
    assert len(found(tmp_path, *sequence("ab" * count), *waits(count, 2))) == steps


@pytest.mark.parametrize(("count", "steps"), [(124, 0), (125, 125)])
def test_one_launch_in_five_hundred_may_be_no_part(tmp_path, count, steps):
    assert len(found(tmp_path, *sequence("e" + "abcd" * count), *waits(count, 4))) == steps


@pytest.mark.parametrize(
    ("other", "count"), [("abxde", 7), ("axyde", 0), ("abcxde", 7), ("abde", 7), ("abcde", 7), ("ae", 0)]
)
def test_a_repetition_is_like_the_others_for_four_fifths(tmp_path, other, count):
    tokens = "abcde" * 3 + other + "abcde" * 3
    assert len(found(tmp_path, *sequence(tokens), *waits(2 * len(tokens), 1))) == count


@pytest.mark.parametrize(
    ("other", "count"), [("abxdefyhij", 7), ("abxdeyzhij", 0), ("abxdefhij", 7), ("abxdeyzfhij", 0)]
)
def test_single_names_of_a_repetition_may_be_others(tmp_path, other, count):
    """As kernels are where an input is not aligned; one name less, and from there on they agree again."""
    tokens = "abcdefghij" * 3 + other + "abcdefghij" * 3
    assert len(found(tmp_path, *sequence(tokens), *waits(2 * len(tokens), 1))) == count


@pytest.mark.parametrize(("every", "count"), [(1, 8), (2, 4)])
def test_rounds_that_differ_in_turn(tmp_path, every, count):
    """Eight rounds, of which each second has a kernel of its own: each that hands something over is one."""
    tokens = "abcdefghijabcdzfghij"
    events, at = [], 0.0
    for n in range(8):
        events += launched(tokens[:10] if n % 2 else tokens[10:], at, 20 * n + 1)
        if n % every == every - 1:
            events += [launch(at + 95, 20 * n + 15, 2, "cudaMemcpyAsync")]
            events += [memcpy(at + 97, 1, 20 * n + 15, "DtoH (Device -> Pinned)")]
        at += 100
    assert len(found(tmp_path, *events, *waits(800, 1))) == count


def test_a_repetition_begins_with_the_rarest_name(tmp_path):
    """Of "d" to "h" there are four, and "d" is the first of them: what comes before it is the end of one."""
    steps = found(tmp_path, *sequence("abcdefgh" * 4 + "abc"), *waits(5, 8))
    assert spans(steps) == [(30, 110), (110, 190), (190, 270), (270, 344)]


@pytest.mark.parametrize(("end", "count"), [("abcdef", 4), ("abcdex", 0), ("abcdefg", 5)])
def test_an_end_of_a_repetition_that_was_cut(tmp_path, end, count):
    """As often as "a", after a pause, come other names; at the end seven of eight are a repetition."""
    pieces = ["fgh", *["abcdefgh"] * 4, end]
    events = [e for i, piece in enumerate(pieces) for e in launched(piece, 90 * i, 10 * i + 1)]
    steps = found(tmp_path, *events, *[cpu("aten::embedding", 90 * i + 6, 1) for i in range(1, 6)])
    assert spans(steps)[:4] == [(90, 180), (180, 270), (270, 360), (360, 434 if count == 4 else 450)][:count]
    assert len(steps) == count


@pytest.mark.parametrize(("period", "steps"), [(72, 0), (72.01, 5)])
def test_a_pause_of_three_times_those_within(tmp_path, period, steps):
    """6 us lie between two launches of a repetition; its last one is over after 54 us."""
    events = [e for i in range(5) for e in launched("abcbcd", period * i, 10 * i + 1)]
    assert len(found(tmp_path, *events)) == steps


def test_graphs_are_told_apart_by_how_many_kernels_they_launch(tmp_path):
    events = []
    for i, count in enumerate((1, 2, 1, 3) * 6):
        events.append(launch(20 * i, i + 1, name="cudaGraphLaunch"))
        events += [kernel(20 * i + 5 + 3 * k, 2, i + 1, name="k") for k in range(count)]
    steps = found(tmp_path, *events, *waits(12, 4))
    assert (steps.source, len(steps)) == ("repeats", 5)  # from the first of two on; the last one is cut


@pytest.mark.parametrize(("more", "steps"), [(4, 5), (4.1, 0)])
def test_a_thread_that_launches_less_than_half_has_no_steps(tmp_path, more, steps):
    """30 kernels of 4 us, and 15 on each of two other threads."""
    others = [
        e for tid in (3, 4) for i in range(15) for e in (
            launch(20 * i, 1000 * tid + i) | {"tid": tid}, kernel(20 * i + 5, more, 1000 * tid + i, tid, "x")
        )
    ]  # fmt: skip
    assert len(found(tmp_path, *sequence("abcbcd" * 5), *others, *waits(5, 6))) == steps


def test_a_repetition_begins_with_the_op_of_its_first_launch(tmp_path):
    ops = [cpu("aten::mm", 60 * i - 3, 12) for i in range(5)]
    steps = found(tmp_path, *sequence("abcbcd" * 5), *waits(5, 6), *ops)
    assert spans(steps) == [(0, 60), (60, 120), (120, 180), (180, 240), (240, 297)]
    # One around everything is a part of none but the first and the last.
    around = cpu("aten::forward", -10, 400)
    steps = found(tmp_path, *sequence("abcbcd" * 5), *waits(5, 6), around)
    assert spans(steps) == [(0, 70), (70, 130), (130, 190), (190, 250), (250, 400)]


def test_both_ops_of_a_pair_lie_in_an_outer_one(tmp_path):
    """The outermost counts, however deep the launch lies."""
    ops = [cpu(n, 60 * i - d, 12 + 2 * d) for i in range(5) for n, d in (("a", 5), ("b", 3), ("c", 1))]
    assert spans(found(tmp_path, *sequence("abcbcd" * 5), *waits(5, 6), *ops))[:2] == [(0, 60), (60, 120)]


@pytest.mark.parametrize("missing", [None, 0, 2, 4])
def test_every_repetition_but_the_last_shows_that_it_is_a_step(tmp_path, missing):
    evidence = [wait for i, wait in enumerate(waits(5, 6)) if i != missing]
    assert len(found(tmp_path, *sequence("abcbcd" * 5), *evidence)) == (5 if missing in (None, 4) else 0)
    elsewhere = [wait | {"tid": 4} for wait in waits(5, 6)]
    assert not len(found(tmp_path, *sequence("abcbcd" * 5), *elsewhere))


@pytest.mark.parametrize(("name", "category", "evidence"), [
    ("aten::embedding", "cpu_op", True), ("aten::embedding_dense_backward", "cpu_op", False),
    ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation", True),
    ("cudaEventSynchronize", "cuda_runtime", True), ("cudaEventRecord", "cuda_runtime", False),
    ("autograd::engine::evaluate_function: MmBackward0", "cpu_op", True)
])  # fmt: skip
def test_what_shows_a_step(tmp_path, name, category, evidence):
    events = [cpu(name, 60 * i + 45, 0.5, category) for i in range(5)]
    assert len(found(tmp_path, *sequence("abcbcd" * 5), *events)) == (5 if evidence else 0)


def test_a_backward_pass_without_a_forward_pass_is_no_step(tmp_path):
    engine = [cpu("autograd::engine::evaluate_function: MmBackward0", 10 * i, 5) for i in range(30)]
    assert not len(found(tmp_path, *sequence("abcbcd" * 5), *engine))


def test_training_without_ops(tmp_path):
    """What a first step lacks is counted in launches where no op was recorded."""
    events = [e for e in training(3) if e["cat"] != "cpu_op"]
    assert spans(found(tmp_path, *events)) == [(0, 97), (97, 197), (197, 297)]


def test_two_repetitions_and_a_part_are_none(tmp_path):
    evidence = [cpu("aten::embedding", 80 * i + 4, 0.5) for i in range(4)]
    assert not len(found(tmp_path, *sequence("abcdefgh" * 2 + "abcd"), *evidence))
    assert len(found(tmp_path, *sequence("abcdefgh" * 3 + "abcd"), *evidence)) == 3


def test_a_phase_before_has_to_be_handed_over_in_each_repetition(tmp_path):
    """Copies of the first phase say nothing of the second."""
    tokens = "pqrpqrpqrpq" + "abcbcd" * 8

    def copies(*at: float) -> list[Event]:
        return [
            e for i,
            t in enumerate(at) for e in (
                launch(t, 900 + i, 2, "cudaMemcpyAsync"), memcpy(t + 3, 1, 900 + i, "DtoH (Device -> Pinned)")
            )
        ]  # fmt: skip

    evidence = [cpu("aten::embedding", 110 + 60 * i + 4, 0.5) for i in range(8)]
    assert not len(found(tmp_path, *sequence(tokens), *evidence, *copies(5, 15, 25)))
    each = [110 + 60 * i + 55 for i in range(8)]
    assert len(found(tmp_path, *sequence(tokens), *evidence, *copies(*each))) == 8
    assert not len(found(tmp_path, *sequence(tokens), *evidence, *copies(*each[:4], *each[5:])))


@pytest.mark.parametrize(("forward", "skip", "starts"), [
    ("abcd", 0, [0, 200, 400, 600]),  # the forward pass of each, on a thread of its own
    ("abcd", 2, [60, 200, 400, 600]),  # the recording begins in the first one
    ("a", 0, [60, 260, 460, 660]),  # too little
    ("", 0, [60, 260, 460, 660]),
])  # fmt: skip
def test_what_another_thread_launches_before_each(tmp_path, forward, skip, starts):
    """As where no ops are recorded, so that the thread of the backward pass does not say what it is."""
    events: list[Event] = []
    for i in range(4):
        events += launched(forward[skip if not i else 0 :], 200 * i, 20 * i + 1, tid=5)
        events += launched("efghij", 200 * i + 60, 20 * i + 9, tid=9)
    steps = found(tmp_path, cpu("x", 0, 1) | {"tid": 77, "pid": 77}, *events)
    assert [start for start, _ in spans(steps)] == starts
    assert [end for _, end in spans(steps)][:-1] == starts[1:]


def test_the_last_step_has_its_backward_pass(tmp_path):
    """The thread of the backward pass goes on after the main thread's last launch."""
    events: list[Event] = []
    for n in range(8):
        start, first = 100 * n, 20 * n
        for i, name in enumerate("abcbcd"):
            events += [
                launch(start + 5 * i, first + i, 2),
                kernel(start + 5 * i + 3, 1, first + i, name=name),
            ]
        for i, name in enumerate("defg"):
            at = start + 40 + 10 * i
            engine = cpu("autograd::engine::evaluate_function: X", at - 1, 8)
            call = launch(at, first + 10 + i)
            events += [one | {"tid": 10} for one in (engine, call)]
            events.append(kernel(at + 6, 3, first + 10 + i, name=name))
        events.append(cpu("cudaStreamSynchronize", start + 90, 0.2, "cuda_runtime"))
    steps = found(tmp_path, *events)
    assert (steps.source, len(steps)) == ("repeats", 8)
    assert spans(steps)[-1] == (700, 777)
