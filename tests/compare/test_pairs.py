"""Real captures that differ in one thing, or in nothing. What is so was first read from the raw JSON."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.compare.conftest import compared
from tests.conftest import SAMPLES

from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import step_table_of
from tracetui.compare.compare import compare, compare_steps
from tracetui.compare.model import Comparison, Explanation
from tracetui.compare.sides import side_of
from tracetui.trace import load
from tracetui.tui.verdict_line import answer_texts
from tracetui.views.compare_overview import compare_overview

PAIRS = Path(__file__).resolve().parent.parent / "data" / "pairs"


@cache
def of(a: str, b: str) -> Comparison:
    folder = PAIRS if (PAIRS / f"{a}.json.gz").exists() else SAMPLES
    return compared(folder / f"{a}.json.gz", folder / f"{b}.json.gz")


def one(found: Comparison, kind: str, part: str = "") -> Explanation:
    (mine,) = [e for e in found.explanations if e.kind == kind and part in e.text]
    return mine


def test_the_same_program_twice():
    """254 kernels, copies and sets per step in both; the ops' self times are 25.49 and 34.15 ms."""
    found = of("train_base", "train_base_again")
    assert found.same_program
    assert re.match(
        r"The same program: its 2,215 calls per step took 1\.34 times as long on the CPU "
        r"\(\+[\d.]+ ms with the time between them\): the machine, not the program\.",
        found.answer,
    )
    step = found.metrics["step_ns"]
    assert found.machine.cpu_ratio == pytest.approx(34_152_669 / 25_490_375)
    assert found.machine.device_ratio == pytest.approx(1.006, abs=0.002)
    assert (found.machine.calls, found.machine.work) == (8860, 1016)
    assert [e.kind for e in found.explanations if abs(e.change_ns) > step.change / 10] == ["machine"]
    assert all(metric.within_noise for metric in found.metrics.values())
    assert step.a == pytest.approx(10.8e6, rel=0.01)
    assert step.b == pytest.approx(13.6e6, rel=0.01)
    assert not found.work.regions
    assert not found.calls.regions


def test_item_each_step():
    """One copy to the host, aten::item and what it calls are new; the rest is the machine, 1.68 times."""
    found = of("train_base", "train_item")
    assert [e.kind for e in found.explanations] == ["machine", "new"]
    machine, new = found.explanations
    assert "1.68 times" in machine.text
    assert machine.change_ns == pytest.approx(6e6, rel=0.02)
    assert new.text.startswith("memcpy DtoH pinned (aten::item) is new in every step: ")
    assert "waiting for the GPU" in new.text
    assert new.names_b == ("Memcpy DtoH (Device -> Pinned)",)
    assert new.cpu_change_ns == pytest.approx(77_152, abs=1)
    launches = found.metrics["launches"]
    assert (launches.a, launches.b, launches.within_noise) == (254, 255, False)
    assert found.metrics["kernels"].change == 0
    assert found.answer.endswith("the machine, not the change.")
    assert found.metrics["step_ns"].machine == pytest.approx(machine.change_ns, abs=1)


def test_fused_optimizer():
    """40 foreach kernels per step became 6, 1,213 -> 482 us; 78 calls of aten::item are gone."""
    found = of("train_base", "train_fused_adamw")
    fused = one(found, "fused")
    assert "became aten::_fused_adamw_: 1.21 ms → 483 µs on the GPU, 670 µs → 123 µs on the CPU" in fused.text
    assert (len(fused.events_a), len(fused.events_b)) == (4 * 40, 4 * 6)
    assert fused.change_ns == pytest.approx(found.metrics["device_ns"].change, rel=0.05)
    # Each place is shown at what the sentence names, the longest of it: no small kernel of the same place.
    for shown, side, part in zip(
        fused.places.T, (found.a, found.b), ("std::multiplies", "FusedAdamMathFunctor"), strict=True
    ):
        names = [side.trace.name_of(int(i)) for i in shown]
        assert len(names) == 4
        assert all(part in name for name in names), names
    assert "1.75 times" in one(found, "machine").text
    assert "is the machine: without it, about 9.97 ms." in found.answer
    assert "aten::item" in one(found, "calls").names_a
    # The step takes longer, but the change made it shorter: it is not called slower.
    assert answer_texts(found)[0][0] == "THE MACHINE"
    assert answer_texts(of("attention_naive", "attention_sdpa"))[0][0] == "B IS FASTER"
    assert found.metrics["kernels"].change == -34
    assert not found.metrics["device_ns"].within_noise


def test_cuda_graph():
    """The same 51 kernels, copies and sets; for 369 calls per step there is one launch of a graph."""
    found = of("decode_eager", "decode_graph")
    graph = one(found, "graph")
    assert (
        graph.text == "The same 51 kernels, copies and memsets per step come from a CUDA graph: 51 → 1 "
        "launches."
    )
    calls = one(found, "calls")
    assert "369 calls per step" in calls.text
    assert "are gone and 1 (cudaGraphLaunch) is new" in calls.text
    assert found.metrics["kernels"].change == 0
    assert found.metrics["device_ns"].ratio == pytest.approx(1.016, abs=0.002)
    assert not found.work.regions
    back = of("decode_graph", "decode_eager")
    assert one(back, "graph").text.endswith("per step no longer come from a CUDA graph: 1 → 51 launches.")


def test_compiled_mlp():
    found = of("mlp_eager", "mlp_compile")
    fused = one(found, "fused")
    assert fused.text.startswith(
        "aten::gelu and aten::mul became triton poi: gelu mul: 67.3 µs → 55.6 µs on the "
    )
    assert one(found, "guards").change_ns == pytest.approx(15_168, abs=1)
    assert {e.kind for e in found.explanations} <= {"fused", "calls", "guards", "machine"}
    back = of("mlp_compile", "mlp_eager")
    assert one(back, "split").text.startswith(
        "triton poi: gelu mul became aten::gelu and aten::mul: 55.6 µs → 67.3 µs"
    )


def test_compiled_matmul():
    """The product with the addition in it is another kernel, with a copy before it."""
    found = of("matmul_add_4096_eager", "matmul_add_4096_compile")
    assert one(found, "fused").text.startswith(
        "aten::matmul and aten::add became aten::addmm: 192 µs → 172 µs"
    )
    copy = one(found, "new")
    assert copy.text.startswith(
        "memcpy DtoD (aten::addmm) is new before gemm bf16 256x128 nnt +C in every step: 15.7 µs on the GPU"
    )
    assert (copy.names_a, copy.names_b) == ((), ("Memcpy DtoD (Device -> Device)",))


def test_attention():
    found = of("attention_naive", "attention_sdpa")
    fused = one(found, "fused")
    assert "became aten::scaled_dot_product_attention: 1.06 ms → 57.7 µs on the GPU" in fused.text
    assert len(fused.names_a) == 6
    assert found.explanations[0] is fused


def test_liger():
    found = of("mlp_eager", "mlp_liger")
    assert one(found, "fused").text.startswith(
        "aten::gelu and aten::mul became LigerGELUMulFunction: 67.3 µs → 44.4 µs on the GPU, "
        "19.1 µs → 76.3 µs on the CPU"
    )
    assert found.machine.device_ratio == pytest.approx(1, abs=0.005)


def test_pinned_memory():
    """The copy takes 8.00 and 1.26 ms; the aten::to that asks for it 10.4 ms, and 20 us, on the CPU."""
    found = of("pageable", "pinned")
    copy = one(found, "replaced")
    assert copy.text.startswith(
        "memcpy HtoD pageable became memcpy HtoD pinned: 8.00 ms → 1.26 ms on the GPU, "
        "10.4 ms → 20.1 µs on the CPU"
    )
    assert copy.cpu_change_ns == pytest.approx(20_141 - 10_446_239, abs=1)
    # The CPU is done with all steps before the device is with the first.
    assert found.metrics["busy_share"].b == pytest.approx(0.997, abs=0.002)


@pytest.mark.parametrize(
    ("a", "b"), [("train_base", "train_fused_adamw"), ("mlp_eager", "mlp_compile"), ("pageable", "pinned")]
)
def test_device_time_adds_up(a, b):
    """What the explanations say of the device, and what is the same, make up the whole difference."""
    found = of(a, b)
    told = sum(
        found.b.trace.duration[e.events_b].sum() - found.a.trace.duration[e.events_a].sum()
        for e in found.explanations
        if e.on == "device" and e.kind not in ("machine", "sizes", "slower", "faster")
    )
    same = found.b.trace.duration[found.work.b].sum() - found.a.trace.duration[found.work.a].sum()
    assert told + same == (found.b.work_time.sum() - found.a.work_time.sum())


def test_the_gpu_sets_the_pace_of_few_calls():
    """13 calls per step are too few to say how fast the machine was: after a pageable copy all is cold."""
    found = of("pageable", "pinned")
    assert "machine" not in {e.kind for e in found.explanations}


def test_the_work_of_the_gpu_is_said_where_it_goes_another_way():
    """The step takes longer (the machine), the GPU's work 4.07 -> 3.36 ms."""
    found = of("train_base", "train_fused_adamw")
    assert found.answer.endswith(" The GPU's work took 3.36 ms instead of 4.07 ms (-17%).")
    for pair in (("pageable", "pinned"), ("attention_naive", "attention_sdpa")):
        assert "The GPU's work" not in of(*pair).answer


def test_the_machine_in_some_of_the_steps():
    """The ratio is that of the pairs: it says so where one side has more steps."""
    a, b = (Part(load(PAIRS / f"{name}.json.gz")) for name in ("train_base", "train_base_again"))
    found = compare(side_of(a), side_of(b, [0, 1]))
    assert "with the time between them) in the 2 pairs of steps: the machine" in found.answer
    assert "pairs of steps" not in of("train_base", "train_base_again").answer
    # All else is of the same steps: the program is the same, so idle time is the machine's, too.
    same = compare(side_of(a, [0, 1]), side_of(b, [0, 1]))
    assert found.metrics == same.metrics
    assert found.idle == same.idle
    assert found.notes[0] == "A has 4 steps, B 2: the numbers cover the 2 that were matched on each side"


def test_one_step_against_several_counts_all():
    """Events are matched with one step; the median is that of all."""
    a = Part(load(PAIRS / "train_base.json.gz"))
    found = compare(side_of(a, [0, 1, 2]), side_of(a, [3]))
    assert found.metrics["step_ns"].a == np.median(side_of(a, [0, 1, 2]).times)
    assert re.match(r"A has 3 steps, B 1: step \d of A and step 5 of B were matched; ", found.notes[0])


def test_what_the_gpu_is_idle_for():
    """Of the same program the machine explains it; a wait that only one side has it does not."""
    again = of("train_base", "train_base_again").idle
    assert again["dispatch"].change > 1.9e6
    assert all(one.within_noise for one in again.values())
    item = of("train_base", "train_item").idle
    assert [cause for cause, one in item.items() if not one.within_noise] == ["back to back", "sync"]
    assert item["sync"].a == 0


def test_memory_where_both_recorded_it(pair):
    """The peaks of the one step, read from the records; B has a megabyte more all along."""
    totals: dict[str, list[int]] = {"Total Allocated": [], "Total Reserved": []}

    def more(events):
        (step,) = [
            e for e in events if e["name"].startswith("ProfilerStep#") and e["cat"] == "user_annotation"
        ]
        for event in events:
            if event["name"] == "[memory]" and event["args"]["Device Type"] == 1:
                for what, seen in totals.items():
                    if event["ts"] < step["ts"] + step["dur"]:
                        seen.append(event["args"][what])
                event["args"]["Total Allocated"] += 1_000_000

    metrics = pair("train_memory", more).metrics
    allocated, reserved = metrics["peak_allocated_bytes"], metrics["peak_reserved_bytes"]
    assert (allocated.a, allocated.change) == (max(totals["Total Allocated"]), 1_000_000)
    assert not allocated.within_noise
    assert (reserved.a, reserved.change) == (max(totals["Total Reserved"]), 0)
    assert of("train", "train_memory").metrics["peak_allocated_bytes"].a is None


@pytest.mark.parametrize("name", ["train_base", "train_item", "decode_eager", "pageable", "pinned"])
def test_what_is_said_of_one_step_agrees_with_the_numbers(name):
    results = Part(load(PAIRS / f"{name}.json.gz"))
    for step in range(len(step_table_of(results))):
        found = compare_steps(results, step)
        ops = found.metrics["cpu_op_ns"]
        for one in found.explanations:
            if (one.kind, one.on) == ("machine", "cpu"):
                assert one.change_ns * (found.machine.cpu_ratio - 1) > 0
                assert one.change_ns * found.metrics["step_ns"].change > 0
                assert ops.change / ((found.machine.cpu_ratio - 1) * ops.a) >= 0.5


def test_one_call_is_told_to_change_by_what_it_did():
    """The ops took longer, the copy that holds the CPU up 10.1 instead of 10.5 ms."""
    found = compare_steps(Part(load(PAIRS / "pageable.json.gz")), 0)
    copy = one(found, "faster", "cudaMemcpyAsync")
    before, after = (
        side.trace.duration[at].sum() for side, at in ((found.a, copy.events_a), (found.b, copy.events_b))
    )
    assert copy.change_ns == pytest.approx(after - before, abs=1)


def test_idle_time_is_of_the_time_that_counts_where_the_gpu_is_behind():
    """The GPU works for less than 0.8 of a step, but ends it after the next has begun on the CPU. What it did
    between the ends of two steps is its work and its idle time."""
    graph = side_of(Part(load(PAIRS / "decode_graph.json.gz")))
    for busy, idle, time in zip(graph.busy_shares, graph.idle, graph.times, strict=True):
        assert busy * time + sum(idle.values()) == pytest.approx(time, rel=0.001)
    found = of("decode_eager", "decode_graph")
    back, again = (one.idle["back to back"] for one in (found, of("decode_graph", "decode_eager")))
    assert (back.a, back.b, back.within_noise) == (again.b, again.a, again.within_noise)


def test_the_overview_of_a_pair():
    """What is worse stands out, what is the machine's or noise does not."""
    found = of("train_base", "train_item")
    shown = compare_overview(found)
    why, metrics = shown.left[0].entries, {entry.name: entry for entry in shown.right[0].entries}
    assert [entry.style for entry in why] == ["bad", "bad"]
    assert why[1].name == "+77.2 µs CPU"
    assert shown.right[0].title == "Median step"
    launches, kernels, busy = (metrics[name] for name in ("launches", "kernels", "GPU busy"))
    assert (launches.numbers, launches.style) == (("254", "255", "+1", "1.00", ""), "")
    assert (kernels.numbers, kernels.style) == (("241", "241", "-", "1.00", "same"), "dim")
    assert busy.numbers[2:] == ("-13.6 pt", "0.64", "machine")
    back = compare_overview(of("train_item", "train_base")).left[0].entries
    assert [entry.style for entry in back] == ["good", "good"]
    once = compare_overview(replace(found, a=replace(found.a, steps=found.a.steps[:0])))
    assert once.right[0].title == "In all"
    none = replace(found.explanations[0], change_ns=0, cpu_change_ns=0)
    assert [
        entry.style for entry in compare_overview(replace(found, explanations=(none,))).left[0].entries
    ] == [""]
