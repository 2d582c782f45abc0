"""A trace against itself with one known thing changed: exactly that is told."""

import gzip
import json
import re

import pytest
from tests.compare.conftest import Events, compared, comparison
from tests.conftest import SAMPLES

from tracetui.core.units import duration
from tracetui.tui.verdict_line import answer_texts
from tracetui.views.compare_text import Report, compare_blocks
from tracetui.views.document_text import report_lines
from tracetui.views.lines import plain_text

ALL = sorted(path.name for path in SAMPLES.glob("*.json.gz"))


def named(events: Events, part: str, cat: str) -> Events:
    return sorted(
        (e for e in events if e.get("cat") == cat and part in e["name"]), key=lambda e: float(e["ts"])
    )


def named_calls(found, name: str) -> int:
    """ns of the last call of a name."""
    trace = found.a.trace
    return int(trace.duration[[i for i in range(len(trace)) if trace.name_of(i) == name][-1]])


def kinds(found) -> list[str]:
    return [one.kind for one in found.explanations]


@pytest.mark.parametrize("sample", ALL)
def test_nothing(sample):
    found = compared(SAMPLES / sample, SAMPLES / sample)
    assert found.explanations == ()
    assert found.answer == "No difference: the same work, in the same time."
    assert found.same_program
    assert all(metric.within_noise and not metric.change for metric in found.metrics.values())
    assert len(found.work.a) == len(found.a.work)
    assert len(found.calls.a) == len(found.a.calls)
    assert found.machine.cpu_ratio in (1.0, None)
    assert found.machine.device_ratio in (1.0, None)


def test_one_kernel_longer(pair):
    def longer(events: Events):
        kernel = named(events, "Gelu", "kernel")[1]
        kernel["dur"] = round(kernel["dur"] * 1.1, 3)

    found = pair("mlp_eager", longer)
    (one,) = found.explanations
    assert one.kind == "slower"
    assert one.on == "device"
    assert "Gelu" in one.names_a[0]
    assert "in step 3, 1 of 3 times" in one.text
    times = found.a.trace.duration[one.events_a], found.b.trace.duration[one.events_b]
    assert one.change_ns == round((int(times[1][0]) - int(times[0][0])) / 3) > 0
    assert times[1][0] == pytest.approx(1.1 * times[0][0], abs=1)
    assert found.same_program


def test_one_op_removed(pair):
    """With its launch and its kernel."""

    def without(events: Events):
        op = named(events, "aten::gelu", "cpu_op")[2]
        inside = [
            e for e in events if e.get("cat") == "cuda_runtime"
            and float(op["ts"]) <= float(e["ts"]) < float(op["ts"]) + float(op["dur"])
        ]  # fmt: skip
        gone = {e["args"]["correlation"] for e in inside}
        return [
            e for e in events if e is not op and not (
                e.get("ph") == "X" and e.get("args", {}).get("correlation") in gone
            ) and not (e.get("cat") == "ac2g" and e.get("id") in gone)
        ]  # fmt: skip

    found = pair("mlp_eager", without)
    (one,) = found.explanations
    assert one.kind == "gone"
    assert one.text.startswith("aten::gelu is gone in step 4: ")
    assert "Gelu" in one.names_a[0]
    assert one.names_b == ()
    gone, calls = found.a.trace.duration[one.events_a].sum(), named_calls(found, "aten::gelu")
    assert f": {duration(gone)} on the GPU, {duration(calls)} on the CPU." in one.text
    # What one of three steps has less is a third of that per step.
    assert (one.change_ns, one.cpu_change_ns) == (round(-gone / 3), round(-calls / 3))
    assert found.metrics["launches"].a == 7
    assert found.metrics["launches"].spread_b == (6, 7)


def test_an_op_that_launches_nothing_removed(pair):
    def without(events: Events):
        view = named(events, "aten::_unsafe_view", "cpu_op")[0]
        return [e for e in events if e is not view]

    (one,) = pair("mlp_eager", without).explanations
    assert (one.kind, one.on, one.names_a) == ("calls", "cpu", ("aten::_unsafe_view",))
    assert one.text.startswith("On the CPU, 1 call (aten::_unsafe_view) is gone in step 2: ")


def test_two_kernels_swapped(pair):
    """Those of gelu and mul, in one step: each takes the place of the other."""

    def swap(events: Events):
        gelu, mul = named(events, "Gelu", "kernel")[1], named(events, "BinaryFunctor", "kernel")[1]
        end = float(mul["ts"]) + float(mul["dur"])
        mul["ts"], gelu["ts"] = gelu["ts"], round(end - float(gelu["dur"]), 3)

    found = pair("mlp_eager", swap)
    assert kinds(found) == ["order"]
    (one,) = found.explanations
    assert re.search("gelu|mul", one.text)
    assert "in another place in step 3" in one.text
    assert one.change_ns == 0


def test_one_step_added(pair):
    """A fifth step, later, with the events of the last one."""
    far, more = 10_000.0, 1_000_000

    def longer(events: Events):
        last = named(events, "ProfilerStep#", "user_annotation")[-1]
        low, high = float(last["ts"]), float(last["ts"]) + float(last["dur"])
        cpu = [e for e in events if e.get("ph") == "X" and low <= float(e["ts"]) < high
               and e.get("cat") in ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver")]  # fmt: skip
        ids = {e["args"]["correlation"] for e in cpu if "correlation" in e["args"]}
        device = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
                  and e["args"]["correlation"] in ids]  # fmt: skip
        added = []
        for e in [*cpu, *device]:
            args = {k: v + more if k in ("correlation", "External id") else v for k, v in e["args"].items()}
            name = e["name"].replace("ProfilerStep#4", "ProfilerStep#5")
            added.append(e | {"ts": float(e["ts"]) + far, "args": args, "name": name})
        return [*events, *added]

    found = pair("mlp_eager", longer)
    assert kinds(found) == ["steps"]
    assert found.explanations[0].text == "B has 4 steps, A 3."
    assert found.rounds == ((0, 0), (1, 1), (2, 2))
    assert found.same_program


@pytest.mark.parametrize("sample", ["mlp_eager", "train", "attention_sdpa"])
def test_all_times_longer(pair, sample):
    def scale(events: Events):
        first = min(float(e["ts"]) for e in events if e.get("ph") == "X")
        for e in events:
            if "ts" in e:
                e["ts"] = round(first + 1.3 * (float(e["ts"]) - first), 3)
            if "dur" in e:
                e["dur"] = round(1.3 * float(e["dur"]), 3)

    found = pair(sample, scale)
    assert kinds(found) == ["machine"]
    assert found.machine.cpu_ratio == pytest.approx(1.3, rel=0.001)
    assert found.machine.device_ratio == pytest.approx(1.3, rel=0.001)
    assert found.same_program
    assert found.answer.startswith("The same program: its ")
    assert "took 1.30 times as long on the CPU" in found.answer
    assert "took 1.30 times as long on the GPU" in found.answer
    assert found.metrics["step_ns"].ratio == pytest.approx(1.3, rel=0.01)
    assert found.metrics["step_ns"].within_noise
    assert found.metrics["device_ns"].within_noise


def test_other_sizes(pair):
    """Twice the grid, and twice the time."""

    def larger(events: Events):
        for e in events:
            if e.get("cat") == "kernel" and "Gelu" in e["name"]:
                e["args"]["grid"] = [2 * e["args"]["grid"][0], *e["args"]["grid"][1:]]
                e["dur"] = round(2 * float(e["dur"]), 3)

    found = pair("mlp_eager", larger)
    assert kinds(found) == ["sizes"]
    assert not found.same_program
    (one,) = found.explanations
    assert one.text.startswith("1 of the kernels and copies per step works on other sizes (")
    assert "grid 49152x1x1" in one.text or " → " in one.text
    assert found.machine.device_ratio == 1.0


def test_sizes_decide_which_kernel_is_gone(tmp_path):
    """Three of one name in a row: the one with a grid of its own is gone."""
    from tests.kineto import kernel, launch, step

    def events(grids):
        found = [step(1, 0, 1000)]
        for n, grid in enumerate(grids):
            one = kernel(100 + 50 * n, 20, n + 1, name="gemm")
            one["args"] |= {"grid": [grid, 1, 1]}
            found += [launch(10 + 20 * n, n + 1), one]
        return found

    found = comparison(tmp_path, events([4, 4, 8, 16, 4, 4]), events([4, 4, 8, 4, 4]))
    # Its launch is told with it, once.
    assert kinds(found) == ["gone"]
    (gone,) = found.explanations[0].events_a
    assert found.a.trace.args(int(gone))["grid"] == [16, 1, 1]


def test_one_name_slower_is_not_the_machine(pair):
    """The GEMM that takes half of the time, 30% longer in every step: nothing else is."""

    def longer(events: Events):
        for kernel in named(events, "256x128", "kernel"):
            kernel["dur"] = round(kernel["dur"] * 1.3, 3)

    found = pair("mlp_eager", longer)
    assert kinds(found) == ["slower"]
    assert "256x128" in found.explanations[0].names_a[0]


def test_one_op_slower_is_not_the_machine(pair):
    """One op of each step takes 5 ms more on the CPU, as all that follows it comes later."""

    def later(events: Events):
        for op in named(events, "aten::embedding", "cpu_op"):
            end = float(op["ts"]) + float(op["dur"])
            for e in events:
                if "ts" in e and float(e["ts"]) >= end:
                    e["ts"] = float(e["ts"]) + 5000
                elif "dur" in e and float(e["ts"]) + float(e["dur"]) >= end and e["tid"] == op["tid"]:
                    e["dur"] = float(e["dur"]) + 5000

    found = pair("llm_decode", later)
    assert kinds(found) == ["slower"]
    assert found.explanations[0].text.startswith("aten::embedding takes 5.0")
    assert "machine" not in found.answer


def test_five_percent_of_one_kernel(pair):
    def longer(events: Events):
        for kernel in named(events, "256x128", "kernel"):
            kernel["dur"] = round(kernel["dur"] * 1.05, 3)

    found = pair("mlp_eager", longer)
    assert kinds(found) == ["slower"]
    assert found.answer.endswith("The GPU's work took 237 µs instead of 231 µs (+2.4%).")


@pytest.mark.parametrize("sample", ["mlp_eager", "train", "llm_decode"])
def test_kernels_of_other_names_that_take_as_long(pair, sample):
    def rename(events: Events):
        for kernel in named(events, "", "kernel"):
            kernel["name"] = f"v2_{kernel['name']}"

    found = pair(sample, rename)
    assert {one.kind for one in found.explanations} == {"replaced"}
    assert all(one.change_ns == 0 for one in found.explanations)


def test_work_beside_a_collective_says_nothing_of_the_machine(pair):
    """All kernels of B take 1.5 times as long, beside a long all-reduce that A does not have."""

    def crowd(events: Events):
        kernels = named(events, "", "kernel")
        first, last = float(kernels[0]["ts"]), float(kernels[-1]["ts"]) + 1000
        for kernel in kernels:
            kernel["dur"] = float(kernel["dur"]) * 1.5
        name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        args = kernels[0]["args"] | {"stream": 99, "correlation": 0, "External id": 0}
        talk = {"name": name, "ts": first - 1, "dur": last - first, "tid": 99, "args": args}
        events.append(kernels[0] | talk)

    found = pair("llm_decode", crowd)
    assert "machine" not in kinds(found)
    slower = [one.text for one in found.explanations if one.kind == "slower"]
    assert slower
    assert all("where collectives run beside it on one side only" in text for text in slower)


@pytest.mark.parametrize(("a", "b", "asked"), [
    (
        "train",
        "llm_decode",
        "by name only 21% of the GPU's work and 27% of the calls are the same in both",
    ),
    ("llm_decode", "mlp_eager", "A and B have hardly anything in common"),
    (
        "llm_decode",
        "train_memory",  # some ops come twice as often, but few of all
        "by name only 25% of the GPU's work and 27% of the calls are the same in both",
    ),
    ("mlp_eager", "mlp_compile", ""),
    ("attention_naive", "attention_sdpa", ""),
])  # fmt: skip
def test_other_programs_are_asked_about_first(a, b, asked):
    """Then the numbers say more than what is new and gone: most of that is summed up."""
    found = compared(SAMPLES / f"{a}.json.gz", SAMPLES / f"{b}.json.gz")
    text = plain_text(report_lines(compare_blocks(Report(found, ("A", "B"))), 80))
    assert found.mismatch == (f"{asked}: is this the same program?" if asked else "")
    assert (found.mismatch in found.notes) is bool(asked)
    assert (answer_texts(found)[0][0] == "TWO PROGRAMS?") is bool(asked)
    if asked:
        assert " ".join(text.partition("\n\n")[0].split()).endswith("is this the same program?")
        assert " ".join(text.split()).count("is this the same program?") == 1
        told = [one for one in found.explanations if one.kind != "steps"]  # a note says those
        assert f"  and {len(told) - 3} more: " in text
        assert " 0 ns " not in text.partition("Per step")[0]
        every = plain_text(report_lines(compare_blocks(Report(found, ("A", "B"), every=True)), 80))
        assert all(one.text[:30] in " ".join(every.split()) for one in told)


@pytest.mark.parametrize(("b", "said"), [
    ({"rank": 1, "world_size": 2}, "RANKS 0 AND 1"), ({"rank": 0, "world_size": 2}, "SAME PROGRAM"),
    ({"rank": 1, "world_size": 8}, "SAME PROGRAM"), ({"rank": "1", "world_size": 2}, "SAME PROGRAM"),
    (None, "SAME PROGRAM")
])  # fmt: skip
def test_two_ranks_of_a_job_are_not_before_and_after(tmp_path, b, said):
    top = json.loads(gzip.decompress((SAMPLES / "mlp_eager.json.gz").read_bytes()))
    paths = tmp_path / "a.json", tmp_path / "b.json"
    for path, info in zip(paths, ({"rank": 0, "world_size": 2}, b), strict=True):
        path.write_text(json.dumps({**top, "distributedInfo": info}))
    found = compared(*paths)
    (word, _), (text, _) = answer_texts(found)
    assert word == said
    if said == "RANKS 0 AND 1":
        step, work = (duration(found.metrics[name].a or 0) for name in ("step_ns", "device_ns"))
        assert text == f"A step takes {step} on rank 0, {step} on rank 1. The GPU's work: {work}, {work}."
    else:
        assert text == found.answer


@pytest.mark.parametrize("width", [40, 50, 60, 70, 80])
def test_long_names_of_recordings_are_wrapped(width):
    found = compared(SAMPLES / "mlp_eager.json.gz", SAMPLES / "mlp_compile.json.gz")
    text = plain_text(report_lines(compare_blocks(Report(found, ("a" * 90, "b" * 90))), width))
    assert max(map(len, text.splitlines())) <= width
    told = text.replace("\n", "").replace(" ", "")
    assert "a" * 90 + ",3steps" in told
    assert "b" * 90 + ",3steps" in told
