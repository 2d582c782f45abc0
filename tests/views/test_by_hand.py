"""What reports say at their limits: memory without an op, unknown devices, narrow and wide screens."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from rich.cells import cell_len
from tests.kineto import Event, cpu, kernel, launch, step, trace_of
from tests.recorded import load

from tracetui.analysis.calls.averages import averages_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import step_table_of
from tracetui.analysis.steps.steps import summarize_steps
from tracetui.cli.main import main
from tracetui.trace.memory import memory_records
from tracetui.views import terminal
from tracetui.views.document_text import report_lines
from tracetui.views.event import event_facts
from tracetui.views.findings_text import findings_lines
from tracetui.views.gaps_text import gaps_answer
from tracetui.views.jsonable import share
from tracetui.views.lines import plain_text
from tracetui.views.parts import _until_first_work
from tracetui.views.pytorch_table import sort_rows
from tracetui.views.steps import step_blocks, steps_answer
from tracetui.views.summary import metrics_of, summary_answer

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"


def run(tmp_path: Path, *arguments: str) -> str:
    """A command on the trace that `trace_of` wrote there."""
    report, *options = arguments
    result = CliRunner().invoke(main, [report, str(tmp_path / "t.json"), *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def memory(at: float, size: int, name: str = "[memory]") -> Event:
    args = {"Bytes": size, "Device Type": 1, "Device Id": 0}
    return {"ph": "i", "s": "t", "name": name, "pid": 9, "tid": 9, "ts": at, "args": args}


def test_memory_is_on_the_rows_that_it_belongs_to(tmp_path: Path) -> None:
    trace_of(
        tmp_path,
        cpu("aten::mm", 10, 10),
        cpu("aten::empty", 12, 5),
        *(memory(at, size) for at, size in ((1, 64), (10, 512), (13, 1024), (20, 256), (21, -32))),
        memory(30, 1, "[OutOfMemory]"),
    )
    rows = {row["name"]: row for row in json.loads(run(tmp_path, "table", "--json"))}
    assert {name: row["device_memory_bytes"] for name, row in rows.items()} == {
        "aten::mm": 1792,  # both of its ends included
        "aten::empty": 1024,
        "[memory]": 32,
        "[OutOfMemory]": 0,
    }
    assert rows["aten::mm"]["self_device_memory_bytes"] == 768


def test_shares_that_are_none() -> None:
    assert share(0.25) == 0.25
    assert share(None) is share(float("nan")) is share(float("inf")) is None


def product(tmp_path: Path, device: str, **types: Any) -> dict[str, Any]:
    event = kernel(20, 2, 1, name=GEMM)
    event["args"]["External id"] = 1
    shapes = {"Input Dims": [[1024, 256], [256, 512]], "External id": 1} | types
    properties = {"deviceProperties": [{"id": 0, "name": device}]}
    trace_of(tmp_path, cpu("aten::mm", 0, 9, **shapes), launch(2, 1), event, **properties)
    found: dict[str, Any] = json.loads(run(tmp_path, "efficiency", "--json"))
    return found


def test_a_device_that_is_not_known_has_no_peak(tmp_path: Path) -> None:
    found = product(tmp_path, "Riva 128")
    assert found["ops"][0]["compute_share"] is None
    text = " ".join(run(tmp_path, "efficiency").split())
    assert "Riva 128" in text
    assert "no shares" in text
    assert "data sheet" not in text
    product(tmp_path, "NVIDIA H200")
    assert "data sheet" in " ".join(run(tmp_path, "efficiency").split())


def test_without_types_the_kernel_s_name_tells(tmp_path: Path) -> None:
    found = product(tmp_path, "NVIDIA H200")
    assert found["ops"][0]["dtype"] == "bf16"
    assert found["ops"][0]["gbps"] is None


@pytest.mark.parametrize("width", [80, 90, 130, 200])
@pytest.mark.parametrize("report", ["gaps", "steps", "summary", "findings", "efficiency"])
def test_screens_of_any_width(
    samples: Path, monkeypatch: pytest.MonkeyPatch, report: str, width: int
) -> None:
    monkeypatch.setattr(terminal, "terminal_width", lambda: width)
    path = str(samples / "attention_naive.json.gz")
    lines = CliRunner().invoke(main, [report, path]).stdout.splitlines()
    assert max(map(len, lines)) <= width
    if width == 200:  # sentences are not read in lines of any length
        prose = [line for line in lines if line.endswith((".", ",")) and "  " not in line.strip()]
        assert all(len(line) <= 104 for line in prose)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_sentences_about_gaps_are_wrapped_not_cut(tmp_path: Path, width: int) -> None:
    """Six causes: in no width does an ellipsis stand in one."""
    busy = cpu("Activity Buffer Request", 5, 300, cat="overhead", tid=0, pid=-1)
    events = [cpu("aten::mm", 0, 400), launch(310, 1), kernel(320, 5, 1), launch(420, 2), kernel(600, 5, 2)]
    trace = trace_of(tmp_path, busy, *events, deviceProperties=[{"id": 0, "name": "NVIDIA H200"}])
    text = gaps_answer(Part(trace)).text(width).partition("\nLongest")[0]
    assert "…" not in text
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert "profiler itself was at work" in " ".join(text.split())


def test_evidence_keeps_its_times(tmp_path: Path) -> None:
    """A long name gives way, from the same place in each line."""
    name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events = [cpu(name, 123_456.0 * i, 100_000, cat="user_annotation") for i in range(3)]
    work = [
        e for i in range(3) for e in (launch(123_456.0 * i + 110_000, i), kernel(123_456 * i + 111_000, 9, i))
    ]
    lines = plain_text(findings_lines(Part(trace_of(tmp_path, *events, *work)), 80)).splitlines()
    told = [line for line in lines if line.startswith("  > enumerate")]
    assert told
    assert all(line.endswith("µs, 100 ms") and " at " in line for line in told)
    assert all(cell_len(line) <= 80 for line in told)


def test_idle_time_of_two_devices_is_said_to_be_a_sum(tmp_path: Path) -> None:
    def of(device: int, start: float, n: int) -> Event:
        event = kernel(start, 2, n, pid=device)
        return event | {"args": event["args"] | {"device": device}}

    marks = [step(0, 0, 100), step(1, 100, 100)]
    runs = [e for n, at in enumerate((10, 90, 110, 190)) for e in (launch(at - 8, n, 1), of(0, at, n))]
    text = steps_answer(Part(trace_of(tmp_path, *marks, *runs))).text(80)
    assert "over all devices" not in text
    both = [
        e for n, at in enumerate((12, 92, 112, 192)) for e in (launch(at - 8, n + 9, 1), of(1, at, n + 9))
    ]
    text = steps_answer(Part(trace_of(tmp_path, *marks, *runs, *both))).text(80)
    assert "idle: the sum over all devices" in text


def test_the_first_names_of_a_summary(tmp_path: Path) -> None:
    """A step's own time is of no op; kernels that look alike are told apart."""
    answer = summary_answer(Part(trace_of(tmp_path, step(0, 0, 100), cpu("aten::mm", 20, 10))))
    assert [one["name"] for one in answer.data()["top"]] == ["aten::mm"]
    alike = [GEMM, GEMM.replace("segment_k_off", "split_k")]
    runs = [
        e for n, name in enumerate(alike) for e in (launch(40 * n, n), kernel(40 * n + 10, 5, n, name=name))
    ]
    text = summary_answer(Part(trace_of(tmp_path, *runs))).text(80)
    assert "gemm bf16 128x128 tn · segment" in text
    assert "gemm bf16 128x128 tn · split" in text


def test_memory_in_the_details(tmp_path: Path) -> None:
    def record(at: float, size: int, kind: int, total: int) -> Event:
        args = {"Bytes": size, "Device Type": kind, "Device Id": 0 if kind else -1, "Total Allocated": total}
        return memory(at, 0) | {"args": args}

    events = [record(1, 1024, 0, 1024), record(2, 2048, 1, 2048), record(15, -512, 1, 1536)]
    trace = trace_of(tmp_path, cpu("aten::mm", 10, 10), cpu("early", 0, 0.5), *events, record(30, 0, 0, 0))
    records = memory_records(trace)

    def said(name: str) -> dict[str, str]:
        at = next(i for i in range(len(trace)) if trace.name_of(i) == name)
        return {fact.label: fact.value for fact in event_facts(trace, at, {}, records)}

    facts = said("aten::mm")
    assert facts["memory, CPU"] == "1.00 KiB allocated, at its start"
    assert facts["memory, GPU 0"] == "2.00 KiB allocated, at its start"
    assert facts["allocates"] == "-512 B GPU, until its end"
    assert not {"memory, CPU", "memory, GPU 0", "allocates"} & set(said("early"))


def test_a_copy_that_cannot_be_written(tmp_path: Path) -> None:
    trace_of(tmp_path, cpu("aten::mm", 10, 10))
    path = str(tmp_path / "t.json")
    result = CliRunner().invoke(main, ["check", path, "--repair", str(tmp_path / "nowhere" / "x.json.gz")])
    assert result.exit_code != 0
    assert "no such file" in result.output.lower()


def test_the_details_of_a_kernel(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, launch(0, 1), kernel(10, 5, 1))

    def said(**args: Any) -> dict[str, str]:
        return {fact.label: fact.value for fact in event_facts(trace, 1, args)}

    assert "10.000 µs" in " ".join(said().values())  # from its launch, the first slice of all
    assert said(grid=[2, 3], block=[128])["grid"] == "2 × 3 blocks of 128 threads"
    for grid in ([], [1, 2, 3, 4], [1.5], "1", [True]):
        assert "blocks" not in said(grid=grid, block=[128]).get("grid", "")
    assert said(bytes=4096, **{"memory bandwidth (GB/s)": 12.5})["moves"] == "4,096 bytes at 12.5 GB/s"
    assert said(bytes=4096, **{"memory bandwidth (GB/s)": 0})["moves"] == "4,096 bytes"


def test_rows_that_are_no_steps_stand_out(samples: Path) -> None:
    lines = report_lines(step_blocks(summarize_steps(load(samples / "mlp_eager.json.gz"))), 100)
    styles = {line[1][0].strip(): line[1][1] for line in lines if len(line) > 2}
    assert {styles[name] for name in styles if name.startswith("step ")} == {""}
    assert styles["whole"] == "title"


def test_overlap_is_of_the_whole_recording(tmp_path: Path) -> None:
    """Of a part it is that of its steps."""
    talk = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    events = [
        *(step(n, 100 * n, 90) for n in range(2)),
        launch(0, 1), kernel(10, 50, 1), launch(1, 2), kernel(20, 20, 2, 8, talk),
        launch(100, 3), kernel(110, 30, 3), launch(101, 4), kernel(120, 40, 4, 8, talk),
        launch(300, 5), kernel(310, 20, 5, 8, talk),
    ]  # fmt: skip
    results = Part(trace_of(tmp_path, *events))
    assert metrics_of(results)["overlap"] == 0.5  # 40 of 80 us
    assert metrics_of(results.in_scope(step_table_of(results).scope(1)))["overlap"] == 0.5  # 20 of 40
    assert metrics_of(results.in_scope(step_table_of(results).scope(0)))["overlap"] == 1.0


def test_the_time_before_the_first_work_is_that_of_the_device_that_began_first(tmp_path: Path) -> None:
    def of(device: int, start: float, n: int) -> Event:
        event = kernel(start, 2, n, pid=device)
        return event | {"args": event["args"] | {"device": device}}

    calls = [cpu("aten::mm", 0, 90), launch(80, 1), launch(85, 2)]
    events = [*calls, of(0, 300, 1), of(1, 100, 2), of(0, 320, 3)]
    found = _until_first_work(Part(trace_of(tmp_path, *events)), "lead-in")
    assert found is not None
    assert found.span == (0, 100_000)


def test_steps_of_an_optimizer_say_where_they_come_from(tmp_path: Path) -> None:
    events = [e for n in range(4) for e in (cpu("Optimizer.step#SGD.step", 100 * n, 20, "user_annotation"),)]
    runs = [e for n in range(4) for e in (launch(100 * n + 30, n), kernel(100 * n + 40, 20, n))]
    text = steps_answer(Part(trace_of(tmp_path, *events, *runs))).text(80)
    assert "Optimizer.step" in text.splitlines()[-1], text


def test_rows_by_memory(tmp_path: Path) -> None:
    """Without records of memory the order stays."""
    trace = trace_of(tmp_path, cpu("a", 0, 5), cpu("b", 10, 5), cpu("c", 20, 5))
    results = Part(trace)
    table, use = averages_of(results, "name"), np.array([1, 3, 2])
    memory: Any = SimpleNamespace(host=use, self_host=use[::-1], device=-use, self_device=use)
    times: Any = None  # not asked
    for column, order in (
        ("cpu_memory_usage", [1, 2, 0]),
        ("self_cpu_memory_usage", [1, 0, 2]),
        ("cuda_memory_usage", [0, 2, 1]),
        ("self_device_memory_usage", [1, 2, 0]),
    ):
        assert sort_rows(table, times, column, memory) == order
        assert sort_rows(table, times, column) == [0, 1, 2]
    with pytest.raises(KeyError):
        sort_rows(table, times, "memory")
