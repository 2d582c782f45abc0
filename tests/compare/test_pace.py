"""Steps of which the GPU sets the pace, and what the CPU does meanwhile."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.compare.conftest import compared, comparison
from tests.compare.test_some_steps import NCCL, OPS, recording, said
from tests.kineto import Event, cpu, kernel, launch, memcpy, step, trace_of

from tracetui.analysis.part import Part
from tracetui.compare.compare import compare, compare_steps
from tracetui.compare.model import Comparison
from tracetui.trace import load


def ahead(waits: bool, backlog: float = 0, length: float = 100) -> list[Event]:
    """Four steps of ten kernels of 100 us, or of another `length`. If it `waits`, the CPU waits for them all
    at the end of a step, and the next one's first launch comes 80 us later. `backlog`: us of work that is
    launched before."""
    events: list[Event] = [launch(-10, 900), kernel(-5, backlog + 25, 900)] if backlog else []
    now, done = 0.0, 20.0 + backlog
    for number in range(4):
        begin = now
        for k in range(10):
            correlation = 10 * number + k + 1
            events += [cpu("aten::mm", now, 8), launch(now + 2, correlation)]
            events.append(kernel(max(done, now + 8), length, correlation, name="gemm"))
            done = max(done, now + 8) + length
            now += 10
        if waits:
            events.append(cpu("cudaStreamSynchronize", now, done - now, "cuda_runtime"))
            now = done + 80
        events.append(step(number, begin, now - begin))
    return events


def pair(folder: Path, a: bool, b: bool) -> Comparison:
    return comparison(folder, ahead(a), ahead(b))


def test_a_wait_makes_the_step_longer_that_the_gpu_paces(tmp_path):
    found = pair(tmp_path, False, True)
    assert found.metrics["step_ns"].change > 50_000
    assert re.search(r" The GPU waits for the CPU for [\d.]+ µs of it instead of none\.$", found.answer)
    (note,) = [note for note in found.notes if note.startswith("the GPU sets the pace")]
    idle = sum(one.b for cause, one in found.idle.items() if cause != "back to back")
    assert "makes a step longer only where the GPU waits for it (" in note
    assert f"({idle / 1000:.1f} µs per step in B, 0 ns in A)" in note


def test_a_gpu_that_sets_the_pace_on_one_side_only(tmp_path):
    """A small one waits for the CPU in every step; a larger one, on a faster CPU, never does."""

    def steps(between: float, length: float) -> list[Event]:
        events: list[Event] = []
        now, done = 0.0, 20.0
        for number in range(4):
            begin = now
            for k in range(10):
                correlation = 10 * number + k + 1
                events += [cpu("aten::mm", now, between - 1), launch(now + 2, correlation)]
                done = max(done, now + 8) + length
                events.append(kernel(done - length, length, correlation, name="gemm"))
                now += between
            events.append(step(number, begin, now - begin))
        return events

    found = comparison(tmp_path, steps(200, 50), steps(100, 110))
    assert re.search(r" The GPU waits for the CPU for none of it instead of 1\.\d+ ms\.$", found.answer)


def test_without_a_wait_the_cpu_does_not_make_a_step_longer(tmp_path):
    (note,) = pair(tmp_path, False, False).notes
    assert note.startswith("the GPU sets the pace: what the CPU does meanwhile does not make a step longer")


def test_the_first_step_does_not_count_the_work_from_before_it(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": ahead(False, backlog=2000)}))
    found = compare_steps(Part(load(path)), 0)
    assert found.metrics["step_ns"].a == found.metrics["step_ns"].b == 1_000_000
    # Both sides' idle and busy time are of what the device did of a step, one after the other.
    assert found.metrics["busy_share"].a == found.metrics["busy_share"].b == 1


def test_a_short_wait_is_told_too(tmp_path):
    """Less than steps vary, and alike in both: the device waits all the same."""
    note = next(note for note in pair(tmp_path, True, True).notes if note.startswith("the GPU sets the pace"))
    assert re.search(r"only where the GPU waits for it \(([\d.]+ µs) per step in B, \1 in A\)", note)


@pytest.mark.parametrize(("copies", "what"), [
    (0, "its 10 kernels"), (1, "its 10 kernels, copies and memsets"),
    (10, "its 10 kernels, copies and memsets")
])  # fmt: skip
def test_what_took_longer_on_another_machine_is_called_by_its_kinds(tmp_path, copies, what):
    for name, length in (("a", 100), ("b", 150)):
        events = ahead(False, length=length)
        for event in events:
            if event["cat"] == "kernel" and event["args"]["correlation"] % 10 < copies:
                event |= {"cat": "gpu_memcpy", "name": "Memcpy DtoD (Device -> Device)"}
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    found = compared(tmp_path / "a.json", tmp_path / "b.json")
    (machine,) = [one for one in found.explanations if one.kind == "machine"]
    assert f"{what} per step took 1.50 times as long on the GPU" in machine.text


@pytest.mark.parametrize(("length", "told"), [(102.5, False), (104, True)])
def test_a_gpu_that_was_hardly_slower_is_not_told(length, told, tmp_path):
    found = comparison(tmp_path, ahead(False, length=100), ahead(False, length=length))
    machine = [one.text for one in found.explanations if one.kind == "machine"]
    assert [f"took {length / 100:.2f} times as long on the GPU" in text for text in machine] == [True] * told


def overlapped(beside: bool) -> list[Event]:
    """Four steps of a copy of 200 us and a kernel of 300 us, one after the other or at once."""
    events: list[Event] = []
    for n in range(4):
        at, k = 1_000.0 * n, 2 * n + 1
        events += [step(n, at, 990), cpu("aten::to", at + 10, 20), cpu("aten::mm", at + 40, 20)]
        events += [launch(at + 12, k, name="cudaMemcpyAsync"), launch(at + 42, k + 1)]
        events += [memcpy(at + 60, 200, k, stream=9 if beside else 7)]
        events += [kernel(at + (60 if beside else 260), 300, k + 1, name="mm")]
    return events


def test_copies_beside_kernels(tmp_path):
    traces = []
    for beside in (False, True):
        folder = tmp_path / str(beside)
        folder.mkdir()
        traces.append(trace_of(folder, *overlapped(beside)))
    one, other = traces
    found = compare(Part(one), Part(other))
    (text,) = [each.text for each in found.explanations if each.kind == "overlap"]
    assert text.endswith("but no kernel runs meanwhile for 0 ns per step instead of 200 µs.")
    assert found.metrics["step_ns"].within_noise
    assert not found.metrics["busy_share"].within_noise
    # What runs beside other work is no measure of the machine.
    assert found.machine.device_ratio is None
    assert not compare(Part(one), Part(one)).explanations


def test_times_that_two_gpus_wait_are_not_a_part_of_one_step():
    """A model on two GPUs, and the same in micro-batches: their waits add up to more than a step."""
    data = Path(__file__).parent.parent / "data" / "two_gpus"
    found = compared(data / "pipeline_big.json.gz", data / "pipeline_micro.json.gz")
    assert found.answer.endswith(" The 2 GPUs together wait for the CPU for 14.0 ms instead of none.")
    (queued,) = [one.text for one in found.explanations if one.kind == "queued"]
    assert queued.endswith("on 2 GPUs together: for another GPU, stream or process.")


NOT_PROGRAM = ": the machine, not the program."


def work(cpu: float = 1, gpu: float = 1, count: int = 4, ops: int = 8) -> list[Event]:
    """Steps of ops of 20 us with kernels of 10 us, or so many times as long: 18 us without the launch."""
    return recording(*[[(f"aten::op{k}", 20 * cpu, (f"k{k}", 10 * gpu)) for k in range(ops)]] * count)


def test_a_slower_cpu(tmp_path):
    """8 x 28 instead of 8 x 18 us, and the launches as before; the GPU waits for it."""
    found = comparison(tmp_path, work(), work(1.5))
    text = (
        "The same program: its 16 calls per step took 1.56 times as long on the CPU "
        f"(+80.0 µs with the time between them){NOT_PROGRAM}"
    )
    assert said(found) == [("machine", "cpu", 80_000, 0, text)]
    assert found.answer == f"{text} A step takes 254 µs instead of 174 µs (+46%)."
    assert (found.metrics["step_ns"].machine, found.metrics["cpu_op_ns"].machine) == (80_000, 80_000)
    assert found.metrics["step_ns"].within_noise
    assert found.metrics["cpu_op_ns"].within_noise
    assert found.machine.cpu_ratio == pytest.approx(224 / 144)
    back = comparison(tmp_path, work(1.5), work())
    assert said(back)[0][4].startswith(
        "The same program: its 16 calls per step took 0.64 times as long on the CPU (-80.0 µs with "
    )
    assert [one[2] for one in said(back)] == [-80_000]


def test_a_slower_gpu_that_has_time(tmp_path):
    """10 us more of each kernel are hidden: the steps take as long."""
    found = comparison(tmp_path, work(), work(gpu=1.5))
    text = f"The same program: its 8 kernels per step took 1.50 times as long on the GPU{NOT_PROGRAM}"
    assert said(found) == [("machine", "device", 40_000, 0, text)]
    assert found.answer == "The same program. A step takes 174 µs, as before."
    assert found.metrics["device_ns"].machine == 40_000
    assert found.metrics["step_ns"].machine == 0


def test_a_slower_gpu_that_sets_the_pace(tmp_path):
    """Of six and of three steps."""
    text = (
        "The same program: its 8 kernels per step took 1.50 times as long on the GPU in the 3 pairs of steps"
        + NOT_PROGRAM
    )
    found = comparison(tmp_path, work(gpu=10, count=6), work(gpu=15, count=3))
    assert said(found) == [
        ("machine", "device", 400_000, 0, text), ("steps", "cpu", 0, 0, "B has 3 steps, A 6.")
    ]  # fmt: skip
    assert found.answer == f"{text} A step takes 1.20 ms instead of 800 µs (+50%)."
    assert found.metrics["step_ns"].machine == found.metrics["device_ns"].machine == 400_000
    assert found.notes[0] == "A has 6 steps, B 3: the numbers cover the 3 that were matched on each side"
    assert found.metrics["busy_share"].a == found.metrics["busy_share"].b == 1
    alike = comparison(tmp_path, work(gpu=10), work(gpu=15))
    assert said(alike) == [("machine", "device", 400_000, 0, text.replace(" in the 3 pairs of steps", ""))]


def test_a_slower_machine(tmp_path):
    found = comparison(tmp_path, work(), work(1.5, 1.5))
    text = (
        "The same program: its 16 calls per step took 1.56 times as long on the CPU (+80.0 µs with the time "
        f"between them), its 8 kernels per step took 1.50 times as long on the GPU{NOT_PROGRAM}"
    )
    assert said(found) == [("machine", "cpu", 80_000, 0, text)]


def test_of_a_single_step_the_numbers_are_of_all(tmp_path):
    found = comparison(tmp_path, work(count=3), work(count=1))
    assert found.notes == (
        "A has 3 steps, B 1: step 1 of A and step 1 of B were matched; the numbers cover all steps",
    )
    assert not [one for one in said(found) if one[0] == "steps"]
    two = comparison(tmp_path, work(count=2), work(count=3))
    assert [one[4] for one in said(two) if one[0] == "steps"] == ["B has 3 steps, A 2."]


def test_a_slower_machine_and_something_new(tmp_path):
    """120 ops of 30 instead of 20 us, and a new one of 400 us with 100 us on the GPU. A few calls do not say
    how fast a machine was that runs something else, too."""

    def more(ops: int) -> list[Event]:
        all_ = [(f"aten::op{k}", 30, (f"k{k}", 10)) for k in range(ops)]
        return recording(*[[*all_, ("aten::sort", 400, ("sort", 100))]] * 4)

    found = comparison(tmp_path, work(ops=120), more(120))
    assert said(found) == [
        (
            "machine", "cpu", 1_200_000, 0,
            "The 240 calls per step that both run took 1.56 times as long on the CPU "
            "(+1.20 ms with the time between them): the machine, not the change.",
        ),
        (
            "new", "device", 100_000, 400_000,
            "aten::sort is new in every step: 100 µs on the GPU, 400 µs on the CPU per step.",
        ),
    ]  # fmt: skip
    assert found.answer == (
        "A step takes 4.13 ms instead of 2.53 ms (+63%); +1.20 ms is the machine: without it, about 2.93 ms. "
        "The GPU's work took 1.30 ms instead of 1.20 ms (+8.3%)."
    )
    few = comparison(tmp_path, work(), more(8))
    assert [one[0] for one in said(few)] == ["new"]
    assert few.metrics["step_ns"].machine == few.metrics["cpu_op_ns"].machine == 0
    assert few.answer == (
        "A step takes 655 µs instead of 174 µs (+276%). "
        "The GPU's work took 180 µs instead of 80.0 µs (+125%)."
    )


@pytest.mark.parametrize(("others", "told"), [(30, True), (60, True), (100, True), (300, False)])
def test_how_much_has_to_be_the_same(tmp_path, others, told):
    """60 ops take half as long again. Beside many that are new, that says nothing of the machine."""
    same = [(f"aten::op{k}", 30) for k in range(60)]
    new = [(f"aten::other{k}", 10) for k in range(others)]
    a = recording(*[[(name, 20) for name, _ in same]] * 4)
    found = comparison(tmp_path, a, recording(*[[*same, *new]] * 4))
    machine = [one for one in said(found) if one[0] == "machine"]
    assert [one[2] for one in machine] == [600_000] * told
    for one in machine:
        assert one[4].startswith(
            "The 60 calls per step that both run took 1.50 times as long on the CPU (+600 µs"
        )
        # Most is another program where it has many more calls.
        unsized = ": the machine or inputs of other sizes, which were not recorded."
        assert one[4].endswith(unsized) == (others <= 30)


def test_a_slower_cpu_where_the_gpu_sets_the_pace(tmp_path):
    """No step is longer for it: it is what ops take. The call of a launch takes as long as before."""
    found = comparison(tmp_path, work(gpu=10), work(1.5, gpu=10))
    (one,) = said(found)
    assert one[:4] == ("machine", "cpu", 80_000, 0)
    assert "its 16 calls per step took 1.56 times as long on the CPU (+80.0 µs in ops)" in one[4]
    assert found.metrics["step_ns"].machine == 0
    assert found.metrics["cpu_op_ns"].machine == 80_000


def test_a_pause_beside_calls_where_no_ops_were_recorded(tmp_path):
    """One recording has ops, the other one none; and a pause of 3 ms per step."""
    a = unrecorded("cpu_op")
    b = recording(*[[*OPS, ({"name": "pause", "cat": "python_function"}, 3000)]] * 4)
    (one,) = said(comparison(tmp_path, a, b))
    assert one[:2] == ("host", "cpu")
    assert one[2] == pytest.approx(3_000_000, rel=0.01)
    assert one[4].startswith("The GPU waits 3.")
    assert one[4].endswith(
        " for a CPU outside all calls: Python, data loading, sleep, other programs or what was recorded."
    )


def test_what_comes_first_is_what_sets_the_pace(tmp_path):
    """300 us more on the CPU, and 50 us on the GPU."""

    def more(length: float) -> list[Event]:
        ops = [(f"aten::op{k}", 20, (f"k{k}", length)) for k in range(8)]
        return recording(*[[("aten::item", 300), *ops, ("aten::sort", 30, ("sort", 50))]] * 4)

    paced, waiting = (comparison(tmp_path, work(gpu=gpu), more(10 * gpu)) for gpu in (10, 1))
    new = (
        "new", "device", 50_000, 30_000,
        "aten::sort is new in every step: 50.0 µs on the GPU, 30.0 µs on the CPU per step.",
    )  # fmt: skip
    calls = ("calls", "cpu", 300_000, 0, "On the CPU, 1 call per step (aten::item) is new: 300 µs per step.")
    assert said(paced) == [new, calls]
    assert paced.answer == "A step takes 850 µs instead of 800 µs (+6.2%)."
    assert said(waiting) == [calls, new]


Made = Callable[[float, int], list[Event]]


def sparse(*parts: Made, count: int = 4) -> list[Event]:
    """Steps of 1 ms: each part makes its events from the start of a step and a number for its launches."""
    found = [step(n, 1000.0 * n, 990) for n in range(count)]
    for n in range(count):
        found += [event for part in parts for event in part(1000.0 * n, 100 * n)]
    return found


def plain(at: float, number: int, length: float = 30) -> list[Event]:
    return [
        cpu("aten::mm", at + 10, 20), launch(at + 12, number + 1),
        kernel(at + 20, length, number + 1, name="gemm"),
        cpu("aten::relu", at + 100, 20), launch(at + 102, number + 2),
        kernel(at + 110, 30, number + 2, name="clamp"),
    ]  # fmt: skip


def item(at: float, number: int) -> list[Event]:
    copy = kernel(at + 52, 2, number + 3, name="Memcpy DtoH (Device -> Pinned)", cat="gpu_memcpy")
    copy["args"] |= {"bytes": 8}
    return [
        cpu("aten::item", at + 40, 50), launch(at + 42, number + 3, 3, name="cudaMemcpyAsync"),
        cpu("cudaStreamSynchronize", at + 50, 30, "cuda_runtime"), copy,
    ]  # fmt: skip


def test_a_call_that_waits_for_the_gpu(tmp_path):
    """It is told by what it takes on the CPU."""
    without, waits = sparse(plain), sparse(plain, item)
    for a, b, what, sign in ((without, waits, "new", 1), (waits, without, "gone", -1)):
        found = comparison(tmp_path, a, b)
        text = (
            f"memcpy DtoH pinned (aten::item) is {what} in every step: 2.00 µs on the GPU, "
            "50.0 µs on the CPU (30.0 µs of that waiting for the GPU) per step."
        )
        assert said(found) == [(what, "device", 2000 * sign, 50_000 * sign, text)]
        (one,) = found.explanations
        assert one.first(False) == one.first(True) == (50_000 * sign, "cpu")
        bytes_, launches = found.metrics["copied_bytes"], found.metrics["launches"]
        assert (bytes_.change, launches.change) == (8 * sign, sign)
        assert not bytes_.within_noise
        assert found.metrics["copies_ns"].change == 2000 * sign


def filled(at: float, number: int) -> list[Event]:
    fill = kernel(at + 60, 4, number + 4, name="fill")
    return [cpu("aten::zero_", at + 40, 50), launch(at + 55, number + 4), fill]


def cleared(at: float, number: int) -> list[Event]:
    clear = kernel(at + 52, 2, number + 3, name="Memset (Device)", cat="gpu_memset")
    return [launch(at + 42, number + 3), clear]


def test_a_set_that_comes_before_a_kernel_of_its_op(tmp_path):
    """So its launch alone is its time on the CPU."""
    text = "memset is {} in every step: 2.00 µs on the GPU, 4.00 µs on the CPU per step."
    new = comparison(tmp_path, sparse(plain, filled), sparse(plain, filled, cleared))
    assert said(new) == [("new", "device", 2000, 4000, text.format("new before fill"))]
    gone = comparison(tmp_path, sparse(plain, filled, cleared), sparse(plain, filled))
    assert said(gone) == [("gone", "device", -2000, -4000, text.format("gone"))]
    # A set of no op is before nothing of its own.
    new = comparison(tmp_path, sparse(plain), sparse(plain, cleared))
    assert said(new) == [("new", "device", 2000, 4000, text.format("new"))]


@pytest.mark.parametrize(("beside", "told"), [(30, True), (3, False)])
def test_a_kernel_beside_a_collective(tmp_path, beside, told):
    """It takes 45 instead of 30 us, most of the time beside a collective that took 2 us before."""

    def talk(length: float) -> Made:
        def made(at: float, number: int) -> list[Event]:
            return [launch(at + 15, number + 5), kernel(at + 22, length, number + 5, 13, NCCL)]

        return made

    a = sparse(plain, talk(2))
    b = sparse(lambda at, number: plain(at, number, 45), talk(beside))
    texts = [one[4] for one in said(comparison(tmp_path, a, b))]
    where = ", where collectives run beside it on one side only" if told else ""
    assert f"gemm takes 45.0 µs instead of 30.0 µs on the GPU{where}." in texts


def load_of(at: float, number: int) -> list[Event]:
    return [cpu("aten::first", at + 200, 320), cpu("cuLibraryLoadData", at + 205, 300, "cuda_driver")]


def test_the_first_use_of_a_library(tmp_path):
    found = comparison(tmp_path, sparse(plain), sparse(plain, load_of))
    text = "The first use of the GPU and its libraries takes 300 µs per step instead of none."
    assert ("initialisation", "cpu", 300_000, 0, text) in said(found)
    back = comparison(tmp_path, sparse(plain, load_of), sparse(plain))
    text = "The first use of the GPU and its libraries takes 0 ns per step instead of 300 µs."
    assert ("initialisation", "cpu", -300_000, 0, text) in said(back)


def graph(*more: tuple[float, float, str]) -> list[Event]:
    """Three steps of five kernels that a graph launches, and `more` of them (start, time, name)."""

    def made(at: float, number: int) -> list[Event]:
        kernels = [(20 + 30 * k, 10, f"k{k}") for k in range(5)] + list(more)
        found = [launch(at + 5, number + 1, name="cudaGraphLaunch")]
        return found + [kernel(at + start, time, number + 1, name=name) for start, time, name in kernels]

    return sparse(made, count=3)


def launched(*more: tuple[float, float, str]) -> list[Event]:
    """The same from ops of 20 us, 10 us before each kernel."""

    def made(at: float, number: int) -> list[Event]:
        found = []
        kernels = [(20.0 + 30 * k, 10, f"k{k}") for k in range(5)] + list(more)
        for n, (start, time, name) in enumerate(kernels, number + 1):
            found += [cpu(f"aten::{name}", at + start - 12, 20), launch(at + start - 10, n)]
            found.append(kernel(at + start, time, n, name=name))
        return found

    return sparse(made, count=3)


def test_work_that_a_graph_launches_now(tmp_path):
    """Besides, one kernel became another one."""
    alone, of_graph = launched((400, 40, "other")), graph((400, 30, "extra"))
    calls = "On the CPU, {}: {} per step."
    ops = "cudaLaunchKernel, aten::k0 and 4 others"
    found = {one[0]: one[1:] for one in said(comparison(tmp_path, alone, of_graph))}
    told = f"10 calls per step ({ops}) are gone and 1 (cudaGraphLaunch) is new"
    assert found["calls"] == ("cpu", -96_000, 0, calls.format(told, "100 µs → 4.00 µs"))
    text = "aten::other became extra: 40.0 µs → 30.0 µs on the GPU, 20.0 µs on the CPU per step"
    assert found["replaced"] == ("device", -10_000, -20_000, f"{text}; now a graph launches it.")
    text = "The same 5 kernels, copies and memsets per step come from a CUDA graph: 5 → 1 launches."
    assert found["graph"] == ("device", 0, 0, text)
    found = {one[0]: one[1:] for one in said(comparison(tmp_path, of_graph, alone))}
    told = f"1 call per step (cudaGraphLaunch) is gone and 10 ({ops}) are new"
    assert found["calls"] == ("cpu", 96_000, 0, calls.format(told, "4.00 µs → 100 µs"))
    text = "extra became aten::other: 30.0 µs → 40.0 µs on the GPU, 20.0 µs on the CPU per step"
    assert found["replaced"] == ("device", 10_000, 20_000, f"{text}; before, a graph launched it.")
    text = "The same 5 kernels, copies and memsets per step no longer come from a CUDA graph: 1 → 5 launches."
    assert found["graph"] == ("device", 0, 0, text)


def test_a_graph_with_a_kernel_more(tmp_path):
    found = comparison(tmp_path, graph(), graph((400, 30, "extra")))
    text = "extra is new in every step: 30.0 µs on the GPU per step."
    assert said(found)[-1] == ("new", "device", 30_000, 0, text)
    queued = "330 µs per step instead of 80.0 µs: it waits for another stream or process."
    text = f"The GPU leaves queued work waiting for {queued}"
    assert said(found)[0] == ("queued", "device", 250_000, 0, text)


def unrecorded(*categories: str) -> list[Event]:
    return [event for event in recording(*[OPS] * 4) if event["cat"] not in categories]


@pytest.mark.parametrize(("without", "note", "missing"), [
    ("kernel", "did not record the GPU: only calls are compared", "device_ns"),
    (
        "cpu_op",
        "did not record ops, which costs time on the CPU: only launches and what they run are compared",
        "cpu_op_ns"
    )
])  # fmt: skip
def test_what_one_side_did_not_record(tmp_path, without, note, missing):
    whole, part = unrecorded(), unrecorded(without)
    for a, b, letter in ((whole, part, "B"), (part, whole, "A")):
        found = comparison(tmp_path, a, b)
        what = "calls" if without == "kernel" else "work"
        assert found.answer == f"No difference: the same {what}, in the same time."
        assert found.notes == (f"{letter} {note}",)
        one = found.metrics[missing]
        assert (one.a, one.b, one.change, one.ratio) == (None, None, None, None)
    # If neither did, nothing is missing.
    assert comparison(tmp_path, part, part).notes == ()
    # Launches of one side, and ops of the other.
    found = comparison(tmp_path, unrecorded("cpu_op"), unrecorded("kernel"))
    assert found.notes == (
        "B did not record the GPU, and the other did not record ops: only launches are compared",
    )


@pytest.mark.parametrize(("key", "what"), [
    ("record_shapes", "shapes"), ("with_stack", "Python stacks"), ("profile_memory", "memory")
])  # fmt: skip
def test_what_was_recorded_besides(tmp_path, key, what):
    events = recording(*[OPS] * 3)
    for name, more in (("a", {key: 1}), ("b", {key: 0}), ("c", {key: 1})):
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events, **more}))
    a, b, c = (tmp_path / f"{name}.json" for name in "abc")
    assert compared(a, b).notes == (f"only A recorded {what}, which costs time on the CPU",)
    assert compared(b, a).notes == (f"only B recorded {what}, which costs time on the CPU",)
    assert compared(a, c).notes == ()


def without_steps(ops: list[tuple[object, ...]], count: int = 1) -> list[Event]:
    return [one for one in recording(*[ops] * count) if one["cat"] != "user_annotation"]


def test_recordings_without_steps(tmp_path):
    one, more = without_steps(OPS), without_steps([*OPS, ("aten::sort", 40, ("sort", 10))])
    found = comparison(tmp_path, one, more)
    text = "aten::sort is new: 10.0 µs on the GPU, 40.0 µs on the CPU."
    assert said(found) == [("new", "device", 10_000, 40_000, text)]
    assert found.answer == (
        "The recording takes 208 µs instead of 167 µs (+25%). "
        "The GPU's work took 90.0 µs instead of 80.0 µs (+12%)."
    )
    assert found.notes == ("there are no steps: the recordings are compared as wholes",)
    for a, b, letter, some in ((one, recording(*[OPS] * 4), "B", "new"), (work(), one, "A", "gone")):
        found = comparison(tmp_path, a, b)
        assert found.notes == (f"only {letter} has steps: the recordings are compared as wholes",)
        times = "4 times in a row instead of 1" if some == "new" else "1 time in a row instead of 4"
        (block,) = [one for one in said(found) if one[0] == some]
        assert block[2:4] == ((240_000, 444_000) if some == "new" else (-240_000, -444_000))
        assert block[4] == (
            f"3 {'more' if some == 'new' else 'fewer'} of a block of 8 kernels, copies and memsets, which "
            f"comes {times} (k0, k1 and 6 others): 240 µs on the GPU, 444 µs on the CPU."
        )


def test_programs_that_have_nothing_in_common(tmp_path):
    other = [("aten::a", 15, ("x", 10)), ("aten::b", 15, ("y", 10)), ("aten::c", 15, ("z", 10))]
    for event in (b := recording(*[other] * 4)):
        event["name"] = event["name"].replace("cudaLaunchKernel", "cudaLaunchKernelExC")
    found = comparison(tmp_path, recording(*[OPS] * 4), b)
    assert found.mismatch == "A and B have hardly anything in common: is this the same program?"
    assert found.notes == (found.mismatch,)
    assert comparison(tmp_path, recording(*[OPS] * 4), recording(*[OPS[:4]] * 4)).mismatch == ""


def test_a_program_that_does_much_besides_is_the_same_one(tmp_path):
    """After each of 14 ops four new ones."""
    own = [(f"aten::op{k}", 20, (f"k{k}", 10)) for k in range(14)]
    besides = [[(f"aten::x{k}{n}", 20, (f"x{k}{n}", 10)) for n in range(4)] for k in range(14)]
    b = [one for op, more in zip(own, besides, strict=True) for one in (op, *more)]
    found = comparison(tmp_path, recording(*[own] * 4), recording(*[b] * 4))
    assert len(found.explanations) > 12
    assert found.mismatch == ""


def test_a_call_that_lasts_as_long_as_its_copy_waits_for_it(tmp_path):
    """Pageable memory: the call copies all along, and is no work of the CPU."""

    def fetch(at: float, number: int) -> list[Event]:
        copy = memcpy(at + 250, 200, number + 4, "DtoH (Device -> Pageable)")
        call = launch(at + 245, number + 4, 215, name="cudaMemcpyAsync")
        return [cpu("aten::to", at + 240, 230), call, copy]

    explanations = comparison(tmp_path, sparse(plain), sparse(plain, fetch)).explanations
    (only,) = (one for one in explanations if one.kind == "new")
    spent = "200 µs on the GPU, 230 µs on the CPU (215 µs of that waiting for the copy) per step"
    assert only.text == f"memcpy DtoH pageable (aten::to) is new in every step: {spent}."
