"""Time in which the CPU is in no call."""

import json

import pytest
from tests.compare.conftest import comparison
from tests.kineto import Event, cpu, kernel, launch, step

from tracetui.analysis.part import Part
from tracetui.compare.compare import compare_steps
from tracetui.compare.model import Comparison, Explanation
from tracetui.compare.sides import paced_by_device, side_of
from tracetui.trace import load


def steps(pause: float, speed: float = 1, device: bool = False) -> list[Event]:
    """Four steps of 60 calls of 20 us, 2 us apart, and a `pause` after them; all but that takes `speed` times
    as long. `device`: each launches a kernel of 1 us."""
    events: list[Event] = []
    now = 0.0
    for number in range(4):
        begin = now
        for k in range(60):
            correlation = 60 * number + k + 1
            events.append(cpu(f"aten::op{k}", now, 20 * speed))
            if device:
                events += [launch(now + 1, correlation), kernel(now + 15, 1, correlation, name=f"k{k}")]
            now += 22 * speed
        now += pause
        events.append(step(number, begin, now - begin))
    return events


def outside(found: Comparison) -> list[Explanation]:
    return [one for one in found.explanations if one.kind == "host"]


def test_a_pause_is_no_slower_machine(tmp_path):
    found = comparison(tmp_path, steps(0), steps(3000))
    (one,) = outside(found)
    assert one.text.startswith("The CPU is outside all ops for 3.12 ms per step instead of 120 µs: ")
    assert one.change_ns == 3_000_000
    assert "machine" not in {other.kind for other in found.explanations}


def test_a_pause_beside_other_time_between_calls(tmp_path):
    """It is not more than what lies between all other calls, and they, too, took longer."""

    def with_gaps(speed: float, pause: float) -> list[Event]:
        """Four steps of 60 calls of 20 us, 18 us apart, with a pause after the 30th."""
        events: list[Event] = []
        now = 0.0
        for number in range(4):
            begin = now
            for k in range(60):
                events += [cpu(f"aten::op{k}", now, 20 * speed), launch(now + 1, 60 * number + k + 1)]
                events.append(kernel(now + 15, 1, 60 * number + k + 1, name=f"k{k}"))
                now += 38 * speed + (pause if k == 29 else 0)
            events.append(step(number, begin, now - begin))
        return events

    found = comparison(tmp_path, with_gaps(1, 0), with_gaps(1.05, 800))
    (machine,) = [one for one in found.explanations if one.kind == "machine"]
    assert machine.change_ns == pytest.approx(0.05 * 60 * 38_000, rel=0.1)
    (host,) = outside(found)
    assert host.change_ns == pytest.approx(800_000, rel=0.1)
    assert found.answer.startswith("The same ops and kernels. A step takes ")
    assert not found.metrics["step_ns"].within_noise


def test_a_pause_that_is_gone_is_no_faster_machine(tmp_path):
    """Calls that take half as long, and 8 ms per step less between two of them: the two are told apart."""

    def paused(event: Event) -> Event:
        number, rest = divmod(event["ts"], 1_320)  # the period of `steps(0)`
        late = 8_000 * number + (8_000 if rest >= 660 else 0)
        longer = 8_000 if event["name"].startswith("ProfilerStep") else 0
        return event | {"ts": event["ts"] + late, "dur": event["dur"] + longer}

    slow = [paused(event) for event in steps(0, device=True)]
    found = comparison(tmp_path, slow, steps(0, 0.5, device=True))
    (machine,) = [one for one in found.explanations if one.kind == "machine"]
    assert -700_000 <= machine.change_ns <= -500_000
    assert sum(one.change_ns for one in outside(found)) < -7_500_000


def test_more_time_outside_of_ops_may_be_another_program(tmp_path):
    """A trace does not say what the CPU did there; that calls and kernels are the same, it does."""
    found = comparison(tmp_path, steps(0), steps(3000))
    assert found.answer.startswith("The same calls. A step takes 4.32 ms instead of 1.32 ms")
    found = comparison(tmp_path, steps(0, device=True), steps(3000, 1.5, device=True))
    assert found.answer.startswith("The same ops and kernels. A step takes 4.98 ms instead of 1.32 ms")
    (machine,) = [one.text for one in found.explanations if one.kind == "machine"]
    assert machine.startswith("The 120 calls per step that both run took 1.")
    assert machine.endswith(": the machine, not the change.")
    found = comparison(tmp_path, steps(0, device=True), steps(0, 1.5, device=True))
    assert found.answer.startswith("The same program: its 120 calls per step took 1.")


def test_annotations_of_one_side_are_named(tmp_path):
    def with_(*names: str, each: int = 1) -> list[Event]:
        more = [cpu(name, 1320 * n + 1, 800, "user_annotation") for n in range(0, 4, each) for name in names]
        numbered = [cpu(f"round {n}", 1320 * n + 1, 900, "user_annotation") for n in range(4)]
        return [*steps(0), *numbered, *more]

    def noted(a: list[Event], b: list[Event]) -> list[str]:
        return [note for note in comparison(tmp_path, a, b).notes if "annotation" in note]

    assert noted(with_("forward"), with_("forward")) == []
    assert noted(with_(), with_("forward")) == ["only B has the annotation forward"]
    assert noted(with_("step#Adam"), with_("step#SGD")) == [
        "only A has the annotation step#Adam, only B step#SGD"
    ]
    many = [f"part {letter}" for letter in "abcde"]
    assert noted(with_(*many), with_()) == ["only A has the annotations part a, part b and 3 others"]
    assert noted(with_(), with_("now and then", each=2)) == [], "only in every other step"
    escape = noted(with_(), with_("x\x1b[31m{}"))
    assert len(escape) == 1
    assert "\x1b" not in escape[0]


def test_what_the_gpu_waits_for_it(tmp_path):
    (one,) = outside(comparison(tmp_path, steps(3000, device=True), steps(0, device=True)))
    assert one.text.startswith("The GPU waits ")
    assert one.change_ns == pytest.approx(-3_000_000, rel=0.01)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_gpu_that_has_a_collective_meanwhile_waits_for_no_cpu(tmp_path, swapped):
    """The CPU is outside its ops for as long, but in one recording a collective waits meanwhile."""
    alone, beside = steps(3000, device=True), steps(3000, device=True)
    for number in range(4):
        end, correlation = 4320 * (number + 1), 1000 + number
        beside += [launch(end - 3010, correlation)]
        beside += [kernel(end - 3000, 2995, correlation, 13, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")]
    found = comparison(tmp_path, *((beside, alone) if swapped else (alone, beside)))
    host = found.idle["host"]
    assert min(host.a or 0, host.b or 0) < 200_000 < 2_900_000 < max(host.a or 0, host.b or 0)
    assert not outside(found)
    assert "0 ns" not in " ".join(one.text for one in found.explanations)


@pytest.mark.parametrize("speed", [1.5, 2.5])
def test_a_slower_machine_takes_longer_between_calls_too(tmp_path, speed):
    found = comparison(tmp_path, steps(500), steps(500 * speed, speed))
    assert not outside(found)
    (machine,) = found.explanations
    assert machine.kind == "machine"
    assert f"took {speed:.2f} times as long on the CPU" in machine.text


def test_a_device_that_catches_up_does_not_set_the_pace(tmp_path):
    """All kernels run at the end, one right after the other."""
    events = steps(3000)
    for k in range(240):
        events += [launch(float(events[k + k // 60]["ts"]) + 1, k + 1), kernel(20_000 + 10 * k, 10, k + 1)]
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": events}))
    side = side_of(Part(load(tmp_path / "a.json")))
    assert not paced_by_device(side)
    assert (side.times[:3] == 4_320_000).all()


def test_less_is_told_where_it_is_most_of_the_change(tmp_path):
    """70 us of 1.4 ms, and nothing else."""
    (one,) = outside(comparison(tmp_path, steps(0, device=True), steps(70, device=True)))
    assert one.text.startswith("The GPU waits ")
    assert one.change_ns == pytest.approx(70_000, rel=0.01)
    # A step that grows by much more for another reason says nothing of it.
    assert not outside(comparison(tmp_path, steps(0, device=True), steps(20, device=True)))


@pytest.mark.parametrize(("new", "told"), [(200, True), (700, False)])
def test_a_part_of_the_change_is_told_from_a_sixth_of_it_on(tmp_path, new, told):
    """70 us more outside of ops, beside a new op that takes longer."""
    more = steps(70, device=True)
    for event in more:
        event["ts"] += new * (event["ts"] // 1390)
        event["dur"] += new * event["name"].startswith("ProfilerStep")
    more += [cpu("aten::new", (1390 + new) * n + 1390, new) for n in range(4)]
    assert bool(outside(comparison(tmp_path, steps(0, device=True), more))) is told


def test_a_step_in_which_the_cpu_is_busy_with_something_else(tmp_path):
    """A file is saved in the second step, for 3 ms, before the calls of the third."""
    events = steps(0, device=True)
    for event in events:
        number = event["args"].get("correlation", 0)
        if (event["ts"] >= 2 * 1320 and not event["name"].startswith("ProfilerStep#1")) or number > 120:
            event["ts"] += 3000
        if event["name"] == "ProfilerStep#1":
            event["dur"] += 3000
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": events}))
    results = Part(load(path))
    (one,) = outside(compare_steps(results, 1))
    assert one.text.startswith("The GPU waits 3.")
    assert one.change_ns == pytest.approx(3_000_000, rel=0.02)
    assert not outside(compare_steps(results, 2))


def test_a_gpu_that_another_program_uses_too(tmp_path):
    """In the second recording each kernel starts 15 us later, and nothing else runs meanwhile."""
    a, b = steps(0, device=True), steps(0, device=True)
    for event in b:
        event["ts"] += 15 * (event["cat"] == "kernel")
    found = comparison(tmp_path, a, b)
    queued = [one.text for one in found.explanations if one.kind == "queued"]
    change = found.idle["queued"].change
    assert change > 500_000
    assert len(queued) == 1
    assert queued[0].startswith("The GPU leaves queued work waiting for ")
    assert queued[0].endswith(": it waits for another stream or process.")
    assert [one.change_ns for one in found.explanations if one.kind == "queued"] == [round(change)]
    assert not [one for one in comparison(tmp_path, a, a).explanations if one.kind == "queued"]


@pytest.mark.parametrize(("name", "kind", "device"), [
    ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "loading", True),
    ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "loading", False),
    ("gloo:all_reduce", "communication", False)
])  # fmt: skip
def test_what_the_program_waits_for_is_named(tmp_path, name, kind, device):
    """Neither Python nor the machine."""
    a, b = steps(0, device=device), steps(3000, device=device)
    for one in [one for one in b if one["name"].startswith("ProfilerStep")]:
        b.append(cpu(name, one["ts"] + one["dur"] - 2900, 2800, "user_annotation"))
    explanations = comparison(tmp_path, a, b).explanations
    assert [one.kind for one in explanations] == [kind]
    assert "2.80 ms per step instead of none" in explanations[0].text


def test_time_after_calls_of_one_side_alone_is_not_the_machine(tmp_path):
    """Where 5 of 60 calls were, the CPU does something else for 50 us; the rest takes 1.1 times as long."""
    a, b = steps(0), steps(0, speed=1.1)
    gone = [f"aten::op{k}" for k in range(30, 35)]
    found = comparison(tmp_path, a, [event for event in b if event["name"] not in gone])
    (machine,) = (one for one in found.explanations if one.kind == "machine")
    # 55 calls of 20 us, and 2 us before 53 of them: all but the first and the one after those that are gone.
    assert machine.change_ns == pytest.approx(0.1 * (55 * 20_000 + 53 * 2_000), rel=0.01)
