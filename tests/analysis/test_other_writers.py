"""What PyTorch's other writers and options write, against its own tables and what happened.

`tests/data/writers` was recorded with torch 2.13 on a CPU, except for GPU records, which were made up.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, run, trace_of

from tracetui.analysis.calls.averages import averages_of
from tracetui.analysis.calls.calls import self_time_of
from tracetui.analysis.idle.gaps import find_gaps
from tracetui.analysis.part import Part
from tracetui.analysis.select import op_names
from tracetui.analysis.steps.scope import step_of, step_table_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules import find_findings
from tracetui.trace import Kind, Trace, load
from tracetui.trace.unended import unfinished
from tracetui.trace.unknown import idle_known
from tracetui.trace.unrecorded import unrecorded
from tracetui.trace.unrecorded_time import unrecorded_time
from tracetui.views.findings_text import unknown_events
from tracetui.views.pytorch_table import averages_answer

WRITERS = Path(__file__).parents[1] / "data" / "writers"


def recorded(name: str) -> Trace:
    return load(WRITERS / name)


def cells(text: str, *, totals: bool = True) -> dict[str, list[str]]:
    """The cells of each row of a table of PyTorch's, whatever the widths of its columns, by name; names that
    are cut by their beginning. Without rows of equal beginnings."""
    rows: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, _, rest = line.strip().partition("  ")
        if rest and not line.startswith("-"):
            rows[name.strip()[:50]] = [cell for cell in rest.split("  ") if cell.strip()]
    return {name: [cell.strip() for cell in row] for name, row in rows.items() if totals or name != "moved"}


def notices(trace: Trace) -> dict[str, int]:
    return {notice.kind: notice.count for notice in trace.notices}


@pytest.mark.parametrize("name", ["overload_names", "python_export_memory"])
def test_the_table_is_pytorchs(name):
    trace = recorded(f"{name}.json.gz")
    table = averages_answer(Part(trace)).text(10_000)
    assert cells(table) == cells((WRITERS / f"{name}.txt").read_text())


def test_overloads_stand_beside_the_name():
    table = averages_of(Part(recorded("overload_names.json.gz")), "overload")
    rows = {(row.name, row.group): row.calls for row in table.rows() if row.name == "aten::sum"}
    assert rows == {("aten::sum", ""): 2, ("aten::sum", "dim_IntList"): 4}
    assert (
        averages_answer(Part(recorded("event_list.json.gz")), group="overload")
        .notes[0]
        .startswith("the trace has no overloads")
    )


def test_only_ops_have_overloads(tmp_path):
    names = ("aten::add.Tensor", "lib::op", "DDP.forward", "torch.ddp::copy.x", "a::b.c.d")
    events = [cpu(name, 10 * n, 5) for n, name in enumerate(names)]
    events.append(cpu("aten::add.Tensor", 90, 5, "user_annotation"))
    trace = trace_of(tmp_path, *events)
    found = [trace.name_of(i) for i in range(len(trace))]
    assert found == ["aten::add", *names[1:], "aten::add.Tensor"]
    assert trace.event(0)["name"] == "aten::add.Tensor"


def test_memory_records_are_instants_whatever_their_phase():
    trace = recorded("python_export_memory.json.gz")
    assert not any(name == "[memory]" for name in (trace.name_of(i) for i in range(len(trace))))
    assert sum(trace.names[i] == "[memory]" for i in trace.instants.name.tolist()) == 34
    assert trace.phases["X"] == len(trace) + 34


def test_an_unfinished_annotation_has_no_self_time():
    trace = recorded("unfinished_annotation.json.gz")
    (moved,) = unfinished(trace)
    assert trace.name_of(moved) == "moved"
    assert self_time_of(Part(trace))[moved] == 0
    assert not len(trace.children(moved))
    assert notices(trace) == {"unfinished": 1}
    table = averages_answer(Part(trace)).text(10_000)
    ours, theirs = cells(table), cells((WRITERS / "unfinished_annotation.txt").read_text())
    # How long it took is not known: PyTorch's own table and its file differ.
    assert ours.pop("moved")[:3] == theirs.pop("moved")[:3] == ["0.00%", "0.000us", "0"]
    assert ours == theirs


def test_of_what_ended_nothing_is_said(tmp_path):
    """An annotation that ends after the recording, and one within it that says so."""
    span = cpu("PyTorch Profiler (0)", 0, 100, "Trace") | {"pid": "Spans", "tid": "x"}
    late, early = (cpu(name, 10, end, "user_annotation") for name, end in (("late", 95), ("early", 50)))
    trace = trace_of(tmp_path, span, late, early | {"args": {"finished": False}})
    assert not unfinished(trace)
    late["args"] = {"finished": False}
    trace = trace_of(tmp_path, span, late, early)
    assert [trace.name_of(i) for i in unfinished(trace)] == ["late"]


def test_frames_that_never_returned_end_with_their_callers():
    trace = recorded("unclosed_frames.json.gz")
    assert notices(trace) == {"outlasting_frame": 12}
    frames = np.flatnonzero(trace.kind == Kind.PYTHON)
    ids = {args["Python id"]: i for i, args in zip(frames.tolist(), trace.args_of(frames), strict=True)}
    for i, args in zip(frames.tolist(), trace.args_of(frames), strict=True):
        around = ids.get(args["Python parent id"], i)
        assert trace.start[i] + trace.duration[i] <= trace.start[around] + trace.duration[around]
    table = averages_of(Part(trace), "module")
    device: dict[str, int] = {}
    for row in table.rows():
        if row.device and row.group:
            device[row.group] = device.get(row.group, 0) + row.self_device
    assert device == {"Attention_0": 800_000, "MLP_0": 800_000, "Norm_0": 800_000}


def test_frames_without_ids_stay(tmp_path):
    frames = [cpu("main", 0, 100, "python_function"), cpu("outer", 10, 30, "python_function")]
    inner = cpu("inner", 20, 80, "python_function")
    assert 80_000 in trace_of(tmp_path, *frames, inner).duration
    frames[1]["args"], inner["args"] = {"Python id": 2}, {"Python id": 3, "Python parent id": 2}
    assert 80_000 not in trace_of(tmp_path, *frames, inner).duration
    inner["args"]["Python parent id"] = 7  # of a frame that is not here
    assert 80_000 in trace_of(tmp_path, *frames, inner).duration


def test_what_a_node_of_a_graph_does_on_the_cpu_holds_the_gpu_up():
    part = Part(recorded("graph_host_node.json.gz"))
    verdict = verdict_of(part)
    assert (verdict.verdict, verdict.busy_share) == ("overhead-bound", pytest.approx(0.402, abs=0.001))
    (finding,) = [one for one in find_findings(part) if one.rule == "overhead_bound"]
    assert f"{finding.claims['in_graphs_ns']}" == "1.50 ms"
    assert f"{finding.claims['advice']}" == "host nodes"
    assert "another process" not in finding.text


def test_nodes_that_record_events_take_no_time(tmp_path):
    node = kernel(60, 0, 1, cat="graph_event_node", name="EventRecord")
    events = [launch(0, 1, name="cudaGraphLaunch"), kernel(10, 50, 1), node, kernel(62, 50, 1)]
    assert idle_known(trace_of(tmp_path, *events))
    assert not idle_known(trace_of(tmp_path, *events, kernel(130, 500, 1, cat="other"), kernel(700, 5, 1)))


def test_a_cycle_that_had_begun_is_told_apart_from_no_profile():
    said = unknown_events(Part(recorded("rolled_over_stack.json.gz")))
    assert said is not None
    assert "export the trace in on_trace_ready" in said


def test_two_programs_in_one_file():
    trace = recorded("two_writers.json.gz")
    assert notices(trace)["several_writers"] == 1
    assert not len(unrecorded(trace).launches)
    verdict = verdict_of(Part(trace))
    assert (verdict.verdict, verdict.busy_share) == ("not known", None)
    assert "Several programs wrote this file" in verdict.reason
    rows = {row.name: row.calls for row in averages_of(Part(trace)).rows()}
    kernels = sum(row.calls for row in averages_of(Part(trace)).rows() if row.device)
    assert (rows["cudaLaunchKernel"], kernels) == (47, 46)


def test_two_programs_with_a_gpu_each_are_told_apart(tmp_path):
    one = [e for n in range(9) for e in run(10 + 20 * n, 10, n + 1)]
    other = [e | {"pid": 1 if e["pid"] == 0 else 5, "ts": e["ts"] + 3} for e in one]
    trace = trace_of(tmp_path, *one, *other)
    assert "several_writers" not in notices(trace)
    assert len(find_gaps(trace)) == 2
    same = [e | {"pid": 0 if e["pid"] == 0 else 5, "ts": e["ts"] + 3} for e in one]
    assert notices(trace_of(tmp_path, *one, *same))["several_writers"] == 1


def test_a_log_of_torch_compile_is_read_without_loss(tmp_path):
    log = WRITERS / "torch_trace.log"
    trace = load(log)
    assert (trace.events, len(trace), notices(trace)) == (8, 4, {"torch_trace": 1})
    broken = tmp_path / "broken.log"
    broken.write_text(log.read_text().replace('"ph": "E",', "", 1))
    assert notices(load(broken))["broken_event"] == 1


def test_between_two_recordings_nothing_is_known(tmp_path):
    def profile(at: float, first: int) -> list[Event]:
        span = cpu(f"PyTorch Profiler ({first})", at, 1000, "Trace") | {"pid": "Spans", "tid": "x"}
        return [span, *(e for n in range(10) for e in run(at + 10 + 100 * n, 90, first + n))]

    trace = trace_of(tmp_path, *profile(0, 1), *profile(50_000, 20))
    (hole,) = unrecorded_time(trace).values()
    assert (hole.start.tolist(), hole.end.tolist()) == ([1_000_000], [50_000_000])
    assert dict(verdict_of(Part(trace)).left_out)["not recorded"] == pytest.approx(49_000_000, rel=0.001)
    assert not unrecorded_time(trace_of(tmp_path, *profile(0, 1)))


def test_an_event_list_has_ops_and_annotations():
    trace = recorded("event_list.json.gz")
    names = {trace.names[i] for i in np.flatnonzero(op_names(trace)).tolist()}
    assert "aten::addmm" in names
    assert "block" not in names
    cpu_time = verdict_of(Part(trace)).cpu
    assert cpu_time is not None
    assert cpu_time.ops < 0.6 * cpu_time.span
    ours = cells(averages_answer(Part(trace)).text(10_000))
    theirs = cells((WRITERS / "event_list.txt").read_text())
    for name, row in ours.items():  # the file has no memory, and floats whose averages round otherwise
        if not name.startswith("Self"):
            assert row[:4] == theirs[name][:4], name


def test_steps_that_were_cut_to_a_call_last_from_one_call_to_the_next():
    trace = recorded("adjust_profiler_step.json.gz")
    steps = step_table_of(Part(trace))
    assert steps.number.tolist() == [2, 3, 4]
    ops = np.flatnonzero((trace.kind == Kind.CPU_OP) & (trace.parent >= 0))
    linear = [i for i in ops.tolist() if trace.name_of(i) == "aten::linear"]
    assert step_of(steps, trace.start[linear]).tolist() == [0] * 3 + [1] * 3 + [2] * 3


def test_the_recordings_are_whole():
    for path in sorted(WRITERS.glob("*.json.gz")):
        text = gzip.decompress(path.read_bytes())
        assert path.name == "two_writers.json.gz" or json.loads(text), path.name
