"""How fast the machine was: what all calls say, not a few of them."""

import json

import numpy as np
import pytest
from tests.compare.conftest import compared, comparison
from tests.compare.test_pace import ahead
from tests.kineto import Event, cpu, kernel, launch, memcpy, step

from tracetui.compare.machine_speed import _agree
from tracetui.compare.metrics import _metric


def steps(speed: float = 1, odd: float = 1) -> list[Event]:
    """Four steps of 60 ops of 20 us, 2 us apart; all take `speed` times as long, ten of them `odd` times."""
    events: list[Event] = []
    now = 0.0
    for number in range(4):
        begin = now
        for k in range(60):
            length = 20 * (odd if k < 10 else speed)
            events.append(cpu(f"aten::op{k}", now, length, **{"Input Dims": [[8]]}))
            now += length + 2 * speed
        events.append(step(number, begin, now - begin))
    return events


def test_calls_that_changed_by_themselves_are_not_the_machine(tmp_path):
    found = comparison(tmp_path, steps(), steps(1.25, 3))
    assert found.machine.cpu_ratio == pytest.approx(1.25)
    assert len([one for one in found.explanations if one.kind == "slower"]) == 10
    (machine,) = [one for one in found.explanations if one.kind == "machine"]
    assert "took 1.25 times as long on the CPU (+275 µs with the time between them)" in machine.text
    assert sum(one.change_ns for one in found.explanations) == pytest.approx(
        found.metrics["step_ns"].change, rel=0.1
    )


def without(events: list[Event], **args: object) -> list[Event]:
    """The steps with other arguments of the ops."""
    return [event | {"args": args} if event["cat"] == "cpu_op" else event for event in events]


def test_without_shapes_it_may_be_larger_inputs_on_a_cpu(tmp_path):
    a, b = steps(), steps(1.5, 1.5)
    said = "The same program: its 60 calls per step took 1.50 times as long on the CPU (+659 µs with the "
    said += "time between "
    assert comparison(tmp_path, a, b).answer.startswith(f"{said}them): the machine, not the program. ")
    unknown = f"{said}them): the machine or inputs of other sizes, which were not recorded. "
    assert comparison(tmp_path, without(a), without(b)).answer.startswith(unknown)
    assert comparison(tmp_path, a, without(b)).answer.startswith(unknown)
    device = [launch(1, 1), kernel(5, 1, 1)]
    found = comparison(tmp_path, without(a) + device, without(b) + device)
    assert "inputs of other sizes" not in found.answer, "with a device, ops only launch"


def test_gradients_of_one_side_are_no_machine(tmp_path):
    """The same ops take longer where they also record what a backward pass would need."""
    shapes = {"Input Dims": [[8]]}
    off, on = without(steps(), **shapes), without(steps(1.2, 1.2), **shapes, **{"Sequence number": 7})
    found = comparison(tmp_path, off, on)
    assert not found.same_program
    assert "gradients are on only in B: its ops record what a backward pass would need" in found.notes
    (machine,) = [one.text for one in found.explanations if one.kind == "machine"]
    assert machine.endswith(": the machine or gradients, which are on only in B.")
    assert "gradients are on only in A" in " ".join(comparison(tmp_path, on, off).notes)
    assert not [note for note in comparison(tmp_path, on, on).notes if "gradients" in note]


def test_other_sizes_in_another_order_are_no_other_sizes(tmp_path):
    """Calls of one name for many parameters come in another order: none is larger."""

    def steps_of(sizes: list[int]) -> list[Event]:
        events: list[Event] = []
        for n, size in enumerate(sizes * 4):
            events.append(cpu("AccumulateGrad", 25 * n, 20, **{"Input Dims": [[size, 8]]}))
        return events + [step(k, 25 * len(sizes) * k, 25 * len(sizes) - 1) for k in range(4)]

    found = comparison(tmp_path, steps_of([8, 8, 64, 8, 64]), steps_of([64, 8, 8, 64, 8]))
    assert not found.explanations
    found = comparison(tmp_path, steps_of([8, 8, 64, 8, 64]), steps_of([8, 8, 64, 8, 128]))
    assert [one.kind for one in found.explanations] == ["sizes"]


@pytest.mark.parametrize(("same", "told"), [(35, True), (25, False)])
def test_programs_that_are_mostly_different_say_nothing_of_the_machine(tmp_path, same, told):
    """So many of 60 calls per step are the same, and take half as long again."""

    def mine(events: list[Event], side: str) -> list[Event]:
        others = [f"aten::op{k}" for k in range(same, 60)]
        return [e | {"name": f"{e['name']}_{side}"} if e["name"] in others else e for e in events]

    found = comparison(tmp_path, mine(steps(), "a"), mine(steps(1.5, 1.5), "b"))
    assert ("machine" in [one.kind for one in found.explanations]) is told


@pytest.mark.parametrize("stacks", [0, 1])
def test_what_was_recorded_may_slow_single_calls(tmp_path, stacks):
    """A sixth of the calls takes half as long again, the rest as long as before."""
    for name, factor, more in (("a", 1.0, {}), ("b", 1.5, {"with_stack": stacks})):
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": steps(odd=factor), **more}))
    found = compared(tmp_path / "a.json", tmp_path / "b.json")
    machine = [one.text for one in found.explanations if one.kind == "machine"]
    assert [": the machine or what was recorded, not the program." in text for text in machine] == [
        True
    ] * stacks


def test_kernels_of_a_graph_are_no_slower_machine(tmp_path):
    """They take 10 us in the graph, 9 us one by one."""
    of_graph: list[Event] = []
    alone: list[Event] = []
    for n in range(4):
        now = 1000.0 * n
        of_graph += [step(n, now, 990), launch(now + 5, n + 1, name="cudaGraphLaunch")]
        of_graph += [kernel(now + 20 + 12 * k, 10, n + 1, name=f"k{k}") for k in range(20)]
        alone.append(step(n, now, 990))
        for k in range(20):
            at, number = now + 20 + 30 * k, 100 + 20 * n + k
            alone += [
                cpu(f"aten::op{k}", at, 20), launch(at + 2, number), kernel(at + 12, 9, number, name=f"k{k}")
            ]  # fmt: skip
    found = comparison(tmp_path, of_graph, alone)
    assert "machine" not in {one.kind for one in found.explanations}
    (graph,) = [one for one in found.explanations if one.kind == "graph"]
    assert graph.text.endswith(
        "no longer come from a CUDA graph: 1 → 20 launches, 200 µs → 180 µs on the GPU."
    )
    assert graph.change_ns == -20_000
    kinds = [one.kind for one in found.explanations]
    assert kinds.index("graph") < kinds.index("calls")  # which it explains
    assert found.metrics["device_ns"].machine == 0


def test_copies_of_several_sizes_are_told_together(tmp_path):
    """A large and a small one a step: the large one takes twice as long."""
    for name, large, more in (("a", 50, 0.0), ("b", 100, 0.1)):
        events: list[Event] = []
        for n in range(5):
            now = 2000.0 * n
            events.append(step(n, now, 1990))
            for k in range(10):
                at, number = now + 150 * k, 10 * n + k + 1
                events += [cpu(f"aten::op{k}", at, 20), launch(at + 2, number)]
                length = {3: large + n, 6: 1.5 + n / 10}.get(k, 20 + n / 10) + more
                if k in (3, 6):
                    copy = memcpy(at + 12, length, number)
                    events.append(copy | {"args": copy["args"] | {"bytes": 100}})
                else:
                    events.append(kernel(at + 12, length, number, name=f"k{k}"))
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    found = compared(tmp_path / "a.json", tmp_path / "b.json")
    (slow,) = [one for one in found.explanations if one.on == "device"]
    told = "memcpy HtoD pinned takes 104 µs instead of 53.7 µs per step on the GPU, 2 times together."
    assert slow.text == told
    assert slow.change_ns == pytest.approx(50_000, rel=0.05)
    assert found.machine.device_ratio == pytest.approx(1, abs=0.01)


def test_what_every_step_has_much_more_of_is_no_noise():
    few, more = np.array([0.6, 0.6, 0.62, 0.65, 0.61]), np.array([4.7, 13.9, 9.4, 1.5, 6.1])
    for a, b in ((few, more), (more, few)):
        assert not _metric(a, b, lambda *_: 0.0, 0.0).within_noise
    assert _metric(few[:2], more[:2], lambda *_: 0.0, 0.0).within_noise
    assert _metric(few, more - 1, lambda *_: 0.0, 0.0).within_noise


def few(ops: list[tuple[float, float]], compiled: bool = False) -> list[Event]:
    """Steps of two ops that take so many us; perhaps in a compiled region."""
    events: list[Event] = []
    now = 0.0
    for number, (mm, add) in enumerate(ops):
        begin, at = now, now + 30 * compiled
        if compiled:
            events.append(cpu("Torch-Compiled Region: 0/0", begin, mm + add + 50))
        events += [cpu("aten::mm", at, mm), cpu("aten::add", at + mm, add)]
        now += mm + add + 50
        events += [step(number, begin, now - begin)]
        now += 1
    return events


USUAL, LONGER = [(900, 730), (1320, 1130), (1310, 1120)], [(910, 600), (2390, 1150), (2010, 1470)]
"""Times of one program on a busy machine, us."""


def test_a_few_calls_that_took_longer_are_told_but_are_not_the_machine(tmp_path):
    first = comparison(tmp_path, few(USUAL), few(LONGER, compiled=True)).explanations[0]
    assert first.kind == "slower"
    assert first.text == (
        "The same 2 calls per step took 3.48 ms instead of 2.43 ms on the CPU, most of it in aten::mm. "
        "The recordings do not say why."
    )
    assert first.change_ns == 1_050_000
    assert len(first.events_a) == len(first.events_b) == 6


def test_what_is_told_already_is_not_told_twice(tmp_path):
    (one,) = comparison(tmp_path, few(USUAL), few([(9 * mm, add) for mm, add in USUAL])).explanations
    assert one.text.startswith("aten::mm takes 10.6 ms instead of 1.18 ms per step on the CPU")


def test_larger_inputs_on_a_slower_machine_are_told_apart(tmp_path):
    def steps_with(speed: float, length: float, rows: int) -> list[Event]:
        events: list[Event] = []
        now = 0.0
        for number in range(4):
            begin = now
            for k in range(120):
                events.append(cpu(f"aten::op{k}", now, 20 * speed, **{"Input Dims": [[4]]}))
                now += 20 * speed
            events.append(cpu("aten::mm", now, length, **{"Input Dims": [[rows, 8]]}))
            now += length
            events.append(step(number, begin, now - begin))
        return events

    found = comparison(tmp_path, steps_with(1, 200, 16), steps_with(1.25, 1250, 64))
    told = {one.kind: one for one in found.explanations}
    assert told["machine"].change_ns == pytest.approx(600_000, rel=0.01)
    assert told["sizes"].change_ns == 1_050_000
    assert told["sizes"].text.startswith("1 of the ops per step works on other sizes (aten::mm: 16x8 → 64x8)")


def test_ops_that_launch_work_take_as_long_for_any_size(tmp_path):
    """So a slower machine is seen in those on larger inputs, too: here in most."""

    def steps_with(speed: float, rows: int) -> list[Event]:
        events: list[Event] = []
        for n in range(120):
            number, at = n // 40, n * 100 * speed
            shapes = [[rows if n % 4 else 8, 32]]
            events.append(cpu(f"aten::op{n % 40}", at, 80 * speed, **{"Input Dims": shapes}))
            events.append(launch(at + 10, n + 1, 5 * speed))
            events.append(kernel(at + 50, 2 * rows / 8, n + 1, name=f"k{n % 40}"))
            events[-1]["args"]["grid"] = [shapes[0][0], 1, 1]
            if n % 40 == 0:
                events.append(step(number, at, 4000 * speed))
        return events

    found = comparison(tmp_path, steps_with(1, 8), steps_with(1.5, 16))
    assert found.machine.calls == 240
    (machine,) = [one for one in found.explanations if one.kind == "machine"]
    assert machine.text.startswith("The 80 calls per step that both run took 1.50 times as long on the CPU (")
    assert machine.text.endswith(": the machine, not the change.")
    assert machine.change_ns == pytest.approx(2_000_000, rel=0.02)
    assert "A step takes 6.00 ms instead of 4.00 ms (+50%): the machine, not the change." in found.answer


def test_what_a_graph_launched_did_not_become_what_a_call_launched(tmp_path):
    """The last kernel of each replay is another one; a fill before each replay is new."""
    sides: list[list[Event]] = [[], []]
    for number, events in enumerate(sides):
        for n in range(4):
            now = 1000.0 * n
            events.append(step(n, now, 990))
            for replay in range(3):
                at, graph = now + 300 * replay, 100 * n + 2 * replay + 1
                names = [*(f"k{k}" for k in range(8)), "sampled" if number else "largest"]
                events.append(launch(at + 25, graph, name="cudaGraphLaunch"))
                events += [kernel(at + 40 + 12 * k, 10, graph, name=name) for k, name in enumerate(names)]
                if number:
                    events += [cpu("aten::fill_", at + 5, 15), launch(at + 7, graph + 1)]
                    events.append(kernel(at + 20, 10, graph + 1, name="fill"))
    texts = [one.text for one in comparison(tmp_path, *sides).explanations]
    assert any(
        one.startswith("largest became sampled, 3 times: 30.0 µs → 30.0 µs on the GPU p") for one in texts
    )
    assert any(
        one.startswith("aten::fill_ is new, 3 times in every step: 30.0 µs on the GPU") for one in texts
    )


def eight(speed: float, between: float = 2, names: str = "abcdefgh", last: str = "") -> list[Event]:
    """Four steps of eight ops of 20 us, which take `speed` times as long, and `between` us after each; and
    one `last` op."""
    events: list[Event] = []
    now = 0.0
    for number in range(4):
        begin = now
        for name in [*names, *last]:
            events.append(cpu(f"aten::{name}", now, 20 * speed))
            now += 20 * speed + between
        events.append(step(number, begin, now - begin))
    return events


@pytest.mark.parametrize(("a", "b", "told"), [
    (eight(1), eight(1.25), True),
    (
        eight(1),
        eight(1.25, last="z"),
        False,
    ),  # of a program that does something else, 32 calls are too few
    (eight(1, 2000), eight(1.25, 2000), False),  # 40 us of a step of 16 ms
])  # fmt: skip
def test_where_a_machine_that_was_slower_is_told(a, b, told, tmp_path):
    found = comparison(tmp_path, a, b)
    assert found.machine.cpu_ratio == pytest.approx(1.25)
    assert [one.kind for one in found.explanations].count("machine") == told


@pytest.mark.parametrize("same", [True, False])
def test_few_calls_beside_a_device_that_sets_the_pace(tmp_path, same):
    """80 ops and launches, which take half as long again: of another program that says little."""
    one, other = ahead(False, length=50), ahead(False, length=50)
    for event in other:
        if event["name"] == "aten::mm":
            event["dur"] = 9.9
    if not same:
        other += [cpu("aten::other", 100 * n + 9.92, 0.05) for n in range(4)]
    found = comparison(tmp_path, one, other)
    assert ("machine" in {one.kind for one in found.explanations}) is same


@pytest.mark.parametrize(("ratio", "in_general", "agrees"), [
    (4, 2, True), (4, 1.9, False), (1.5, 0.9, False), (0.25, 0.5, True), (1.01, 0.9, True), (None, 2, True)
])  # fmt: skip
def test_half_of_what_a_ratio_says(ratio, in_general, agrees):
    assert _agree(ratio, in_general) is agrees


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_calls_whose_children_overlap_say_nothing_of_the_machine(tmp_path):
    """They take less than no time by themselves, and there is no logarithm of that."""
    for name, length in (("a", 30), ("b", 70)):
        events = [step(number, 1000 * number, 995) for number in range(4)]
        for begin in range(0, 4000, 100):
            events += [cpu("aten::mm", begin, 90, **{"Input Dims": [[8]]})]
            events += [cpu("cudaFree", begin + at, length, "cuda_runtime") for at in (1, 15)]
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    assert compared(tmp_path / "a.json", tmp_path / "b.json").machine.cpu_ratio is None
    assert compared(tmp_path / "b.json", tmp_path / "a.json").machine.cpu_ratio is None
