"""One side does several times in a step what the other does once."""

import json

import numpy as np
import pytest
from tests.compare.conftest import compared
from tests.compare.test_changes import Program, both
from tests.conftest import SAMPLES
from tests.kineto import Event, cpu, step

from tracetui.compare.changes import Change
from tracetui.compare.model import Comparison, Explanation
from tracetui.compare.repeated_work import RepeatedWork
from tracetui.compare.repeated_work import without as removed

OPS = "linear", "norm", "loss"


def program(times: int, rows: int, last: str = "adam", names: tuple[str, ...] = OPS) -> Program:
    """Its ops launch a kernel each, so many times; then the optimizer's kernel comes once."""
    ops = [(name, [[rows, 8]], f"k_{name}") for name in names]
    return Program(*(ops * times), ("optimizer", [[9]], last))


def again(found: Comparison) -> Explanation:
    (one,) = [e for e in found.explanations if e.kind == "again"]
    return one


def test_micro_batches(tmp_path):
    found = both(tmp_path, program(1, 64), program(4, 16))
    (one,) = found.explanations
    assert one == again(found)
    start = "Of 3 kinds of calls (linear, norm and loss) "
    times = "30.0 µs → 120 µs on the GPU, 36.0 µs → 144 µs on the CPU per step."
    assert one.text == f"{start}there are 4 times as many per step, on smaller sizes: {times}"
    assert (one.change_ns, one.cpu_change_ns) == (90_000, 108_000)
    assert (len(one.events_a), len(one.events_b)) == (3, 12)
    assert not found.same_program
    assert not found.mismatch
    back = both(tmp_path, program(4, 16), program(1, 64))
    times = "120 µs → 30.0 µs on the GPU, 144 µs → 36.0 µs on the CPU per step."
    assert again(back).text == f"{start}one in 4 is left, on larger sizes: {times}"


def test_what_changes_besides_is_told_apart(tmp_path):
    found = both(tmp_path, program(1, 64), program(4, 16, last="sgd"))
    (other,) = [e for e in found.explanations if e.kind != "again"]
    assert (other.names_a, other.names_b) == (("adam",), ("sgd",))
    assert again(found).change_ns == 90_000


def test_calls_that_come_several_times_say_nothing_of_the_machine(tmp_path):
    """Nor do those that launch nothing, as the views here."""
    a, b = (
        Program(*[*((name, [[rows, 8]], f"k_{name}") for name in OPS), ("view", [[rows, 8]])] * times)
        for times, rows in ((1, 64), (4, 16))
    )
    assert again(both(tmp_path, a, b))
    assert both(tmp_path, a, b).machine.calls == 0


@pytest.mark.parametrize(("b", "told"), [
    (program(4, 64), True),  # the whole step, on the same sizes
    (Program(*[("linear", [[64, 8]], "k_linear")] * 4), False),  # too few kinds of calls
    (program(1, 32), False),  # other sizes, as often
])  # fmt: skip
def test_when_it_is_that(b, told, tmp_path):
    found = both(tmp_path, program(1, 64), b)
    assert any(e.kind == "again" for e in found.explanations) is told
    if told:
        assert "there are 4 times as many per step: " in again(found).text


def test_of_several_such_parts_the_longest_is_told(tmp_path):
    """Three kinds of calls come four times as often, three others twice."""
    others = [(name, [[64, 8]], f"k_{name}") for name in ("embed", "head", "scale")]
    ops = [(name, [[64, 8]], f"k_{name}") for name in OPS]
    found = both(tmp_path, Program(*ops, *others), Program(*(ops * 4), *(others * 2)))
    start = "Of 3 kinds of calls (linear, norm and loss) there are 4 times as many per step"
    assert again(found).text.startswith(start)


def test_a_few_more_layers_are_no_pieces(tmp_path):
    """Some ops come twice as often, on the same sizes: a part of the step."""
    rest = [("head", [[64, 8]], "k_head", "k_head", "k_head", "k_head", "k_head", "k_head")] * 9
    ops = [(name, [[64, 8]], f"k_{name}") for name in OPS]
    found = both(tmp_path, Program(*rest, *ops), Program(*rest, *ops, *ops))
    assert not [e for e in found.explanations if e.kind == "again"]


def test_without_a_device(tmp_path):
    for name, times, rows in (("a", 1, 64), ("b", 3, 20)):
        events: list[Event] = []
        for number in range(2):
            begin = now = number * 1000.0
            for _ in range(times):
                for op in OPS:
                    events.append(cpu(op, now, 20, **{"Input Dims": [[rows, 8]]}))
                    now += 25
            events.append(step(number, begin, 900))
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    one = again(compared(tmp_path / "a.json", tmp_path / "b.json"))
    assert one.on == "cpu"
    assert one.change_ns == 120_000
    assert one.text.endswith(
        "there are 3 times as many per step, on smaller sizes: 60.0 µs → 180 µs on the CPU per step."
    )


def test_what_moved_without_its_partner_is_gone_or_new():
    """In pairs (1, 11) to (4, 14), 12 and 3 belong to the repeated work."""
    none = np.zeros(0, dtype=np.int64)
    work = np.array([3]), np.array([12])
    again = RepeatedWork(2, 1, (none, none), (none.astype(bool),) * 2, work, (none, none), None)
    moved = Change("order")
    for at in range(1, 5):
        moved.add([at], [at + 10], (0, 0))
    found = {one.kind: (one.a.events, one.b.events) for one in removed(again, [moved])}
    assert found == {"order": ([1, 4], [11, 14]), "gone": ([2], []), "new": ([], [13])}


@pytest.mark.parametrize("order", [1, -1])
def test_programs_with_little_in_common(order):
    one, other = (SAMPLES / f"{name}.json.gz" for name in ("llm_decode", "train_memory")[::order])
    found = compared(one, other)
    assert not found.same_program
    assert any(e.kind == "order" for e in found.explanations)
