"""Steps of which the GPU sets the pace, and what the CPU does meanwhile."""

import json
import re
from pathlib import Path

import pytest
from tests.compare.conftest import compared, comparison
from tests.kineto import Event, cpu, kernel, launch, memcpy, step, trace_of

from tracetui.analysis.part import Part
from tracetui.compare.compare import compare, compare_steps
from tracetui.compare.model import Comparison
from tracetui.trace import load


def ahead(waits: bool, backlog: float = 0, length: float = 100) -> list[Event]:
    """Four steps of ten kernels of 100 us, or of another `length`. If it `waits`, the CPU waits for them all
    at the end of a step, and the next one's first launch comes 80 us later. `backlog`: us of work that is
    launched before."""
    found: list[Event] = [launch(-10, 900), kernel(-5, backlog + 25, 900)] if backlog else []
    now, done = 0.0, 20.0 + backlog
    for number in range(4):
        begin = now
        for k in range(10):
            correlation = 10 * number + k + 1
            found += [cpu("aten::mm", now, 8), launch(now + 2, correlation)]
            found.append(kernel(max(done, now + 8), length, correlation, name="gemm"))
            done = max(done, now + 8) + length
            now += 10
        if waits:
            found.append(cpu("cudaStreamSynchronize", now, done - now, "cuda_runtime"))
            now = done + 80
        found.append(step(number, begin, now - begin))
    return found


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
        found: list[Event] = []
        now, done = 0.0, 20.0
        for number in range(4):
            begin = now
            for k in range(10):
                correlation = 10 * number + k + 1
                found += [cpu("aten::mm", now, between - 1), launch(now + 2, correlation)]
                done = max(done, now + 8) + length
                found.append(kernel(done - length, length, correlation, name="gemm"))
                now += between
            found.append(step(number, begin, now - begin))
        return found

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
