"""What every step has is told once, whatever the steps are like; what some steps compile; other streams."""

from pathlib import Path

import pytest
from tests.kineto import Event, cpu, kernel, launch, step, trace_of

from tracetui.analysis.part import Part
from tracetui.compare.compare import compare
from tracetui.compare.model import Comparison


def both(tmp_path: Path, a: list[Event], b: list[Event]) -> Comparison:
    sides = []
    for name, events in (("a", a), ("b", b)):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        sides.append(Part(trace_of(folder, *events)))
    return compare(*sides)


def texts(found: Comparison) -> list[str]:
    return [one.text for one in found.explanations]


def loop(*extra: tuple[str, ...], length: float = 40, grid: int = 1, slow: float = 8) -> list[Event]:
    """Steps that multiply and add, and in step n the kernels `extra[n]`, each of an op of that name."""
    events: list[Event] = []
    for n in range(4):
        at = 3_000.0 * n
        events.append(step(n, at, 2_900))
        for k, name in enumerate(["mm", "add", "relu", *(extra[n] if extra else ()), "mean", "div", "sub"]):
            start, of = at + 100 * k, 100 * n + k + 1
            events += [cpu(f"aten::{name}", start, slow + 2 if name == "add" else 10)]
            events.append(launch(start + (slow + 2 if name == "add" else 10) - 6, of))
            work = kernel(start + 20, length if name == "mm" else 20, of, name=f"{name}_kernel")
            work["args"]["grid"] = [grid if name == "mm" else 1, 1, 1]
            events.append(work)
    return events


def test_the_same_kernels_in_another_order_in_each_step(tmp_path):
    orders = ("exp", "log", "cos", "sin"), ("log", "exp", "sin", "cos"), ("cos", "sin", "exp", "log")
    found = both(tmp_path, loop(*orders, ("sin", "cos", "log", "exp")), loop())
    (told,) = [text for text in texts(found) if "gone" in text]
    assert told.startswith("exp, log and 2 others are gone in every step: 80.0 µs on the GPU, ")


@pytest.mark.parametrize(("grid", "says"), [(1, False), (8, True)])
def test_an_op_on_other_sizes_that_keeps_the_cpu(tmp_path, grid, says):
    """As where a library plans for each new shape: beside the kernels on other sizes it is told, too."""
    one, other = loop(), loop(grid=grid, length=80, slow=8)
    for event in other:
        if event["name"] == "aten::mm":
            event["args"] = {"Input Dims": [[grid, 4]]}
            event["dur"] = 1_900 if grid > 1 else 10
    for event in one:
        if event["name"] == "aten::mm":
            event["args"] = {"Input Dims": [[1, 4]]}
    if grid > 1:  # what follows comes later
        late = {"aten::mm", "mm_kernel"}
        for event in other:
            if event["name"] not in late and not event["name"].startswith("ProfilerStep"):
                event["ts"] += 1_890 if event["ts"] % 3_000 >= 15 else 0
    found = both(tmp_path, one, other)
    assert bool([text for text in texts(found) if text.startswith("aten::mm takes 1.9")]) is says
    if says:
        assert any("work on other sizes" in text or "works on other sizes" in text for text in texts(found))


def test_compiling_within_a_step_is_told(tmp_path):
    compiles = [
        cpu("_compile.compile_inner (dynamo_timed)", 3_000.0 * n + 1_000, 1_500, "user_annotation")
        for n in (1, 2)
    ]
    (one,) = [e for e in both(tmp_path, loop(), [*loop(), *compiles]).explanations if e.kind == "compiling"]
    assert one.text == (
        "torch.compile compiles during the recording: 3.00 ms in B (step 1 and step 2). It does so once for "
        "each graph and each new set of shapes."
    )
    assert one.change_ns == 750_000
    assert one.on == "cpu"
    assert not [e for e in both(tmp_path, loop(), loop()).explanations if e.kind == "compiling"]


def test_where_another_stream_works_the_machine_is_not_measured(tmp_path):
    """Kernels beside others take longer for that; beside their successor on one stream they do not count."""
    busy = [kernel(3_000.0 * n + 15, 620, 900 + n, stream=9, name="other") for n in range(4)]
    busy += [launch(3_000.0 * n + 1, 900 + n, 1) for n in range(4)]
    slower = [e | {"dur": e["dur"] * 1.2} if e["name"].endswith("_kernel") else e for e in loop()]
    alone, beside = both(tmp_path, loop(), slower), both(tmp_path, loop(), [*slower, *busy])
    assert alone.machine.device_ratio == pytest.approx(1.2)
    assert beside.machine.device_ratio is None
    assert any("other work runs beside it on one side only" in text for text in texts(beside))
    same_stream = [
        e | {"args": e["args"] | {"stream": 7}, "tid": 7} if e["name"] == "other" else e for e in busy
    ]
    assert both(tmp_path, loop(), [*slower, *same_stream]).machine.device_ratio == pytest.approx(1.2, 0.01)


@pytest.mark.parametrize(("fused", "asked"), [("mm_relu", False), ("sort_topk", True)])
def test_a_compiled_program_of_the_same_ops_is_not_asked_about(tmp_path, fused, asked):
    compiled: list[Event] = []
    for n in range(4):
        at = 3_000.0 * n
        compiled += [step(n, at, 2_900), cpu("Torch-Compiled Region: 0/0", at + 5, 60)]
        compiled += [launch(at + 20, n + 1, name="cuLaunchKernel")]
        compiled.append(kernel(at + 40, 30, n + 1, name=f"triton_poi_fused_{fused}_0"))
    assert ("is this the same program?" in both(tmp_path, loop(), compiled).mismatch) is asked
    assert ("is this the same program?" in both(tmp_path, compiled, loop()).mismatch) is asked


def compiled(alone: bool) -> list[Event]:
    """`loop()`, where compiling in step 1 runs 20 kernels and calls ops; or the same ops by themselves."""
    events = loop()
    if not alone:
        events.append(cpu("_compile.compile_inner (dynamo_timed)", 4_000, 1_500))
    for k in range(20):
        events += [cpu("aten::clone", 4_010 + 50 * k, 30), launch(4_015 + 50 * k, 800 + k)]
        events.append(kernel(4_025 + 50 * k, 20, 800 + k, name="copy_kernel"))
        events.append(cpu("aten::empty", 4_042 + 50 * k, 6))
    return events


def test_what_compiling_runs_is_told_with_it(tmp_path):
    found = both(tmp_path, loop(), compiled(False))
    assert "calls" not in {one.kind for one in found.explanations}
    told = [text for text in texts(found) if "compil" in text]
    assert told[0].startswith("torch.compile compiles during the recording: 1.50 ms in B (step 1).")
    assert told[1].startswith("The compilation is new in step 1: 20 kernels (copy), 400 µs on the GPU")
    outside = texts(both(tmp_path, loop(), compiled(True)))
    assert not any("compil" in text for text in outside)
    assert any("aten::empty" in text for text in outside)
