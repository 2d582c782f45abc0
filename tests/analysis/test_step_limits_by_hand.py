"""Steps of traces without `ProfilerStep`, at the limits of the rules that find them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.analysis.test_step_sources import found, launched, loop, note, sequence, spans, training, waits
from tests.kineto import Event, cpu, kernel, launch, memcpy, trace_of

from tracetui.analysis.steps.step_sources import main_process

# Optimizer.step


def rounds(*counts: int, optimizers: int = 1, between: int = 0) -> list[Event]:
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
def test_a_first_step_has_about_as_many_ops_as_the_others(tmp_path: Path, first: int, whole: bool) -> None:
    steps = spans(found(tmp_path, *rounds(first, 20, 20)))
    assert steps == [*([(0, 850)] if whole else []), (850, 1850), (1850, 2850)]


def test_the_recording_begins_with_the_optimizer(tmp_path: Path) -> None:
    events = [e for e in rounds(20, 20, 20) if e["ts"] >= 800]
    assert spans(found(tmp_path, *events)) == [(50, 1050), (1050, 2050)]


@pytest.mark.parametrize(("between", "count"), [(0, 3), (1, 3), (2, 5)])
def test_optimizers_with_a_tenth_of_a_steps_ops_between_them(
    tmp_path: Path, between: int, count: int
) -> None:
    """With 2 of 20 each of the six ends a step of its own, and what came before the first one is none."""
    steps = found(tmp_path, *rounds(20, 20, 20, optimizers=2, between=between))
    assert len(steps) == count
    assert spans(steps)[0] == ((0, 950) if count == 3 else (850, 950))
    assert spans(steps)[-1] == ((1950, 2950) if count == 3 else (2850, 2950))


def test_the_optimizer_of_another_process(tmp_path: Path) -> None:
    other = [e | {"pid": 5, "tid": 5, "dur": e["dur"] / 10} for e in rounds(20, 20, 20, 20, 20)]
    assert found(tmp_path, *other, *loop("decode", 3)).source == "annotation decode"
    assert len(found(tmp_path, *other, *rounds(20, 20))) == 2
    trace = trace_of(tmp_path, *other, *rounds(20, 20))
    assert {trace.lanes[i].process for i in trace.lane[found(tmp_path, *other, *rounds(20, 20)).event]} == {
        main_process(trace)
    }
    assert main_process(trace_of(tmp_path, note("x", 0, 1))) == -1


# The end of the recording


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


@pytest.mark.parametrize(
    ("lost", "count"),
    [
        ({}, 4),
        ({3: 1}, 4),  # nine of ten ran
        ({3: 2}, 3),
        ({2: 3, 3: 2}, 2),
        ({1: 9, 3: 1}, 4),  # lost in the middle: the last one is whole
        ({1: 5, 3: 10}, 3),
        ({0: 2, 1: 2, 2: 2, 3: 2}, 4),  # none is
    ],
)
def test_a_last_step_that_ran_in_part(tmp_path: Path, lost: dict[int, int], count: int) -> None:
    events = []
    for i in range(4):
        events += [note("decode", 100 * i, 90), *launched("abcdefghij", 100 * i + 5, 100 * i + 1, each=7)]
    assert len(found(tmp_path, *without_kernels(events, lost, 10))) == count


# Annotations


def test_annotations_hold_four_fifths_of_the_launches(tmp_path: Path) -> None:
    inside = loop("decode", 4, kernels="abcd")  # 16

    def beside(count: int) -> list[Event]:
        return [e for i in range(count) for e in launched("x", 100 * i + 85, 50_000 + i)]

    assert found(tmp_path, *inside, *beside(4)).source == "annotation decode"
    assert found(tmp_path, *inside, *beside(5)).source == ""


def test_the_number_that_counts_up(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("prefill", "decode", "extend"), "prefill, decode, extend"),
        (("prefill", "decode", "extend", "verify"), "prefill, decode, extend, ..."),
        (("prefill", "decode 1", "decode 2"), "prefill, decode *"),
    ],
)
def test_rounds_of_several_names(tmp_path: Path, names: tuple[str, ...], shown: str) -> None:
    events = loop("x", len(names), kernels="a")
    events = [e | {"name": names[i // 3]} if i % 3 == 0 else e for i, e in enumerate(events)]
    steps = found(tmp_path, *events)
    assert (steps.source, steps.number.tolist()) == (f"annotation {shown}", list(range(len(names))))


def test_rounds_of_another_name_that_lie_within_are_none(tmp_path: Path) -> None:
    within = [note("decode draft", 100 * i + 10, 30) for i in range(3)]
    steps = found(tmp_path, *loop("decode", 3), *within)
    assert (steps.source, len(steps)) == ("annotation decode", 3)
    apart = [note("prefill", 100 * i + 85, 10) for i in range(2)]
    steps = found(tmp_path, *loop("decode", 3), *apart)
    assert (steps.source, len(steps)) == ("annotation decode, prefill", 5)


@pytest.mark.parametrize(("engine", "chosen"), [(6, "forward"), (4, "backward"), (5, "forward")])
def test_the_thread_that_calls_for_the_backward_pass(tmp_path: Path, engine: int, chosen: str) -> None:
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


# What repeats


@pytest.mark.parametrize(("count", "steps"), [(10, 0), (11, 11)])
def test_how_rare_a_sequence_is_by_chance(tmp_path: Path, count: int, steps: int) -> None:
    """Each of two names has one bit, so a repetition has two; ten beside the first have 20."""
    assert len(found(tmp_path, *sequence("ab" * count), *waits(count, 2))) == steps


@pytest.mark.parametrize(("count", "steps"), [(124, 0), (125, 125)])
def test_one_launch_in_five_hundred_may_be_no_part(tmp_path: Path, count: int, steps: int) -> None:
    assert len(found(tmp_path, *sequence("e" + "abcd" * count), *waits(count, 4))) == steps


@pytest.mark.parametrize(
    ("other", "count"), [("abxde", 7), ("axyde", 0), ("abcxde", 7), ("abde", 7), ("abcde", 7), ("ae", 0)]
)
def test_a_repetition_is_like_the_others_for_four_fifths(tmp_path: Path, other: str, count: int) -> None:
    tokens = "abcde" * 3 + other + "abcde" * 3
    assert len(found(tmp_path, *sequence(tokens), *waits(2 * len(tokens), 1))) == count


@pytest.mark.parametrize(
    ("other", "count"), [("abxdefyhij", 7), ("abxdeyzhij", 0), ("abxdefhij", 7), ("abxdeyzfhij", 0)]
)
def test_single_names_of_a_repetition_may_be_others(tmp_path: Path, other: str, count: int) -> None:
    """As kernels are where an input is not aligned; one name less, and from there on they agree again."""
    tokens = "abcdefghij" * 3 + other + "abcdefghij" * 3
    assert len(found(tmp_path, *sequence(tokens), *waits(2 * len(tokens), 1))) == count


@pytest.mark.parametrize(("every", "count"), [(1, 8), (2, 4)])
def test_rounds_that_differ_in_turn(tmp_path: Path, every: int, count: int) -> None:
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


def test_a_repetition_begins_with_the_rarest_name(tmp_path: Path) -> None:
    """Of "d" to "h" there are four, and "d" is the first of them: what comes before it is the end of one."""
    steps = found(tmp_path, *sequence("abcdefgh" * 4 + "abc"), *waits(5, 8))
    assert spans(steps) == [(30, 110), (110, 190), (190, 270), (270, 344)]


@pytest.mark.parametrize(("end", "count"), [("abcdef", 4), ("abcdex", 0), ("abcdefg", 5)])
def test_an_end_of_a_repetition_that_was_cut(tmp_path: Path, end: str, count: int) -> None:
    """As often as "a", after a pause, come other names; at the end seven of eight are a repetition."""
    pieces = ["fgh", *["abcdefgh"] * 4, end]
    events = [e for i, piece in enumerate(pieces) for e in launched(piece, 90 * i, 10 * i + 1)]
    evidence = [cpu("aten::embedding", 90 * i + 6, 1) for i in range(1, 6)]
    steps = found(tmp_path, *events, *evidence)
    assert spans(steps)[:4] == [(90, 180), (180, 270), (270, 360), (360, 434 if count == 4 else 450)][:count]
    assert len(steps) == count


@pytest.mark.parametrize(("period", "steps"), [(72, 0), (72.01, 5)])
def test_a_pause_of_three_times_those_within(tmp_path: Path, period: float, steps: int) -> None:
    """6 us lie between two launches of a repetition; its last one is over after 54 us."""
    events = [e for i in range(5) for e in launched("abcbcd", period * i, 10 * i + 1)]
    assert len(found(tmp_path, *events)) == steps


def test_graphs_are_told_apart_by_how_many_kernels_they_launch(tmp_path: Path) -> None:
    events = []
    for i, count in enumerate((1, 2, 1, 3) * 6):
        events.append(launch(20 * i, i + 1, name="cudaGraphLaunch"))
        events += [kernel(20 * i + 5 + 3 * k, 2, i + 1, name="k") for k in range(count)]
    steps = found(tmp_path, *events, *waits(12, 4))
    assert (steps.source, len(steps)) == ("repeats", 5)  # from the first of two on; the last one is cut


@pytest.mark.parametrize(("more", "steps"), [(4, 5), (4.1, 0)])
def test_a_thread_that_launches_less_than_half_has_no_steps(tmp_path: Path, more: float, steps: int) -> None:
    """30 kernels of 4 us, and 15 on each of two other threads."""
    others = [
        e
        for tid in (3, 4)
        for i in range(15)
        for e in (
            launch(20 * i, 1000 * tid + i) | {"tid": tid},
            kernel(20 * i + 5, more, 1000 * tid + i, tid, "x"),
        )
    ]
    assert len(found(tmp_path, *sequence("abcbcd" * 5), *others, *waits(5, 6))) == steps


def test_a_repetition_begins_with_the_op_of_its_first_launch(tmp_path: Path) -> None:
    ops = [cpu("aten::mm", 60 * i - 3, 12) for i in range(5)]
    steps = found(tmp_path, *sequence("abcbcd" * 5), *waits(5, 6), *ops)
    assert spans(steps) == [(0, 60), (60, 120), (120, 180), (180, 240), (240, 297)]
    # One around everything is a part of none but the first and the last.
    around = cpu("aten::forward", -10, 400)
    steps = found(tmp_path, *sequence("abcbcd" * 5), *waits(5, 6), around)
    assert spans(steps) == [(0, 70), (70, 130), (130, 190), (190, 250), (250, 400)]


def test_both_ops_of_a_pair_lie_in_an_outer_one(tmp_path: Path) -> None:
    """The outermost counts, however deep the launch lies."""
    ops = [cpu(n, 60 * i - d, 12 + 2 * d) for i in range(5) for n, d in (("a", 5), ("b", 3), ("c", 1))]
    steps = found(tmp_path, *sequence("abcbcd" * 5), *waits(5, 6), *ops)
    assert spans(steps)[:2] == [(0, 60), (60, 120)]


@pytest.mark.parametrize("missing", [None, 0, 2, 4])
def test_every_repetition_but_the_last_shows_that_it_is_a_step(tmp_path: Path, missing: int | None) -> None:
    evidence = [wait for i, wait in enumerate(waits(5, 6)) if i != missing]
    assert len(found(tmp_path, *sequence("abcbcd" * 5), *evidence)) == (5 if missing in (None, 4) else 0)
    elsewhere = [wait | {"tid": 4} for wait in waits(5, 6)]
    assert not len(found(tmp_path, *sequence("abcbcd" * 5), *elsewhere))


@pytest.mark.parametrize(
    ("name", "category", "evidence"),
    [
        ("aten::embedding", "cpu_op", True),
        ("aten::embedding_dense_backward", "cpu_op", False),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation", True),
        ("cudaEventSynchronize", "cuda_runtime", True),
        ("cudaEventRecord", "cuda_runtime", False),
        ("autograd::engine::evaluate_function: MmBackward0", "cpu_op", True),
    ],
)
def test_what_shows_a_step(tmp_path: Path, name: str, category: str, evidence: bool) -> None:
    events = [cpu(name, 60 * i + 45, 0.5, category) for i in range(5)]
    assert len(found(tmp_path, *sequence("abcbcd" * 5), *events)) == (5 if evidence else 0)


def test_a_backward_pass_without_a_forward_pass_is_no_step(tmp_path: Path) -> None:
    engine = [cpu("autograd::engine::evaluate_function: MmBackward0", 10 * i, 5) for i in range(30)]
    assert not len(found(tmp_path, *sequence("abcbcd" * 5), *engine))


def test_training_without_ops(tmp_path: Path) -> None:
    """What a first step lacks is counted in launches where no op was recorded."""
    events = [e for e in training(3) if e["cat"] != "cpu_op"]
    assert spans(found(tmp_path, *events)) == [(0, 97), (97, 197), (197, 297)]


def test_two_repetitions_and_a_part_are_none(tmp_path: Path) -> None:
    evidence = [cpu("aten::embedding", 80 * i + 4, 0.5) for i in range(4)]
    assert not len(found(tmp_path, *sequence("abcdefgh" * 2 + "abcd"), *evidence))
    assert len(found(tmp_path, *sequence("abcdefgh" * 3 + "abcd"), *evidence)) == 3


def test_a_phase_before_has_to_be_handed_over_in_each_repetition(tmp_path: Path) -> None:
    """Copies of the first phase say nothing of the second."""
    tokens = "pqrpqrpqrpq" + "abcbcd" * 8

    def copies(*at: float) -> list[Event]:
        return [
            e
            for i, t in enumerate(at)
            for e in (
                launch(t, 900 + i, 2, "cudaMemcpyAsync"),
                memcpy(t + 3, 1, 900 + i, "DtoH (Device -> Pinned)"),
            )
        ]

    evidence = [cpu("aten::embedding", 110 + 60 * i + 4, 0.5) for i in range(8)]
    assert not len(found(tmp_path, *sequence(tokens), *evidence, *copies(5, 15, 25)))
    each = [110 + 60 * i + 55 for i in range(8)]
    assert len(found(tmp_path, *sequence(tokens), *evidence, *copies(*each))) == 8
    assert not len(found(tmp_path, *sequence(tokens), *evidence, *copies(*each[:4], *each[5:])))


@pytest.mark.parametrize(
    ("forward", "skip", "starts"),
    [
        ("abcd", 0, [0, 200, 400, 600]),  # the forward pass of each, on a thread of its own
        ("abcd", 2, [60, 200, 400, 600]),  # the recording begins in the first one
        ("a", 0, [60, 260, 460, 660]),  # too little
        ("", 0, [60, 260, 460, 660]),
    ],
)
def test_what_another_thread_launches_before_each(
    tmp_path: Path, forward: str, skip: int, starts: list[float]
) -> None:
    """As where no ops are recorded, so that the thread of the backward pass does not say what it is."""
    events: list[Event] = []
    for i in range(4):
        events += launched(forward[skip if not i else 0 :], 200 * i, 20 * i + 1, tid=5)
        events += launched("efghij", 200 * i + 60, 20 * i + 9, tid=9)
    steps = found(tmp_path, cpu("x", 0, 1) | {"tid": 77, "pid": 77}, *events)
    assert [start for start, _ in spans(steps)] == starts
    assert [end for _, end in spans(steps)][:-1] == starts[1:]
