"""What is said about an event, links between events, the list of gaps, and units."""

import json
import os
from typing import Any

import numpy as np
import pytest
from tests.conftest import SAMPLES
from tests.kineto import cpu, run, trace_of

from tracetui.analysis.calls import flow
from tracetui.analysis.calls.averages import averages
from tracetui.analysis.calls.calls import self_time_of
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import members, step_scope
from tracetui.analysis.steps.steps import summarize_steps
from tracetui.core.units import exact
from tracetui.rules import find_findings
from tracetui.session.gap_navigator import gap_order, next_gap
from tracetui.trace import DEVICE_WORK, Kind, load
from tracetui.trace.memory import memory_records
from tracetui.tui.panes.details import args_of
from tracetui.tui.topline import device_names, warning
from tracetui.views.device_facts import device_facts
from tracetui.views.event import event_facts, histogram, trace_facts, value_text, wrapped
from tracetui.views.explain import explain

from .conftest import slice_event, write_trace

CPU_CALLS = (Kind.CPU_OP, Kind.ANNOTATION, Kind.RUNTIME, Kind.OVERHEAD)


def test_self_times_add_up_to_those_of_the_averages(llama):
    table, own = averages(llama), self_time_of(Part(llama))
    cpu = np.flatnonzero((table.row_of >= 0) & llama.is_kind(*CPU_CALLS))
    total = np.zeros(len(table), dtype=np.int64)
    np.add.at(total, table.row_of[cpu], own[cpu])
    assert total.tolist() == table.self_cpu.tolist()
    assert total.sum() > 0


def test_the_profilers_own_work_in_an_op_is_not_the_ops(tmp_path):
    """It lies on a lane of its own, but PyTorch takes it off the op that it held up."""
    request = cpu("Activity Buffer Request", 20, 30, "overhead", **{"External id": 5})
    op = cpu("aten::mm", 0, 100, **{"External id": 5})
    trace = trace_of(tmp_path, *[op, cpu("aten::empty", 60, 10), request | {"pid": -1, "tid": 0}])
    at = next(i for i in range(len(trace)) if trace.name_of(i) == "aten::mm")
    assert next(f.value for f in event_facts(trace, at, {}) if f.label == "self time").startswith("60.000 µs")
    table = averages(trace)
    assert table.self_cpu[table.names.index("aten::mm")] == 60_000
    assert ("self", "60.0 µs of 100 µs") in explain(trace, at).facts


def test_the_facts_of_a_kernel_lead_to_its_launch_its_op_and_its_step(llama):
    kernel = int(np.flatnonzero((llama.launch >= 0) & llama.is_kind(Kind.KERNEL))[200])
    facts = {f.label: f for f in event_facts(llama, kernel, {"grid": [1, 2, 3], "block": 7})}
    assert facts["launch"].event == int(llama.launch[kernel])
    assert facts["op"].event == int(llama.op[kernel])
    assert llama.name_of(facts["step"].event).startswith("ProfilerStep#")
    assert (facts["grid"].value, facts["block"].value) == ("[1, 2, 3]", "7")
    assert "self time" not in facts  # it is the duration
    assert f"{int(np.count_nonzero(llama.name == llama.name[kernel])):,} event" in facts["same name"].value


def test_how_a_kernel_was_launched_comes_first(llama):
    kernel = int(np.flatnonzero((llama.launch >= 0) & llama.is_kind(Kind.KERNEL))[200])
    args = {
        "External id": 7, "registers per thread": 32, "shared memory": 49_152, "warps per SM": 15.515152,
        "grid": [1024, 1, 1], "block": [64, 2, 1], "est. achieved occupancy %": 24
    }  # fmt: skip
    facts = event_facts(llama, kernel, args)
    assert [f.label for f in facts[:6]] == [
        "name", "duration", "grid", "occupancy", "fits on an SM", "launch"
    ]  # fmt: skip
    assert facts[2].value == "1024 × 1 × 1 blocks of 64 × 2 × 1 threads"
    assert facts[3].value == "24% (est.), 32 registers per thread, 49,152 B shared memory"
    assert len(facts[3].value) <= 60  # one line at 80 columns
    assert facts[4].value == "4 blocks, 16 of 64 warps; the grid has 7.76 blocks per SM"
    rest = [f.label for f in facts[6:]]
    assert "External id" in rest
    # The file's own number of warps counts the whole grid, not what is on a multiprocessor.
    assert not {"grid", "block", "registers per thread", "shared memory", "warps per SM"} & set(rest)


@pytest.mark.parametrize(("args", "facts"), [
    ({"bytes": 2_097_152, "memory bandwidth (GB/s)": 1489.454}, [("moves", "2,097,152 bytes at 1,489 GB/s")]),
    ({"bytes": 4}, [("moves", "4 bytes")]),
    ({"bytes": 4, "memory bandwidth (GB/s)": "fast"}, [("moves", "4 bytes")]),
    ({"registers per thread": 80}, [("takes", "80 registers per thread")]),
    ({"grid": [1, "2", 3], "block": [1], "bytes": True, "shared memory": "lots"}, [])
])  # fmt: skip
def test_what_a_device_event_took(args, facts):
    assert device_facts(args)[0] == facts


def test_the_facts_of_an_op_list_what_it_ran_on_the_gpu(llama):
    op = int(llama.op[int(np.flatnonzero((llama.op >= 0) & llama.is_kind(Kind.KERNEL))[50])])
    work = np.flatnonzero(np.isin(llama.launch, flow.launches_within(llama, op)))
    facts = event_facts(llama, op, None)
    told = next(f for f in facts if f.label == "on the GPU")
    assert told.value.startswith(f"{len(work)} event")
    assert exact(int(llama.duration[work].sum())) in told.value
    assert facts[-1].value == "reading …"


def test_a_step_counts_what_any_thread_launched_in_it_as_the_table_of_steps_does(llama):
    rows = summarize_steps(llama).rows
    assert len(rows) == 2
    for row in rows:
        lane = llama.lane[row.event]
        facts = event_facts(llama, row.event, None)
        at = next(n for n, f in enumerate(facts) if f.label == "on the GPU")
        told = facts[at].value
        assert told.startswith(f"{row.kernels:,} kernels, {row.copies:,} copies and memsets, ")
        work = np.flatnonzero(llama.is_kind(*DEVICE_WORK))
        mine = work[members(llama, step_scope(llama, row.number), work)]
        assert len(mine) == row.kernels + row.copies
        assert told.endswith(f", {exact(int(llama.duration[mine].sum()))} in all")
        assert (llama.lane[llama.launch[mine]] != lane).any(), "the backward pass has a thread of its own"
        first = mine[np.argsort(llama.start[mine], kind="stable")]
        assert [f.event for f in facts[at : at + 10]] == [first[0], *first[:8], first[8]]


def test_an_annotation_says_what_other_threads_launched_meanwhile(tmp_path):
    events = [cpu("train", 0, 100, "user_annotation"), *run(15, 20, 1), *run(55, 20, 2), *run(150, 5, 3)]
    events[3]["tid"] = 10  # the second launch
    facts = event_facts(trace_of(tmp_path, *events), 0, {})
    told = next(f.value for f in facts if f.label == "on the GPU")
    assert told == f"1 event, {exact(20_000)} in all; other threads launch 1 more meanwhile"
    alone = event_facts(trace_of(tmp_path, events[0], *events[3:]), 0, {})
    told = next(f.value for f in alone if f.label == "on the GPU")
    assert told == "nothing; other threads launch 1 more meanwhile"
    quiet = event_facts(trace_of(tmp_path, *events[:3]), 0, {})
    assert next(f.value for f in quiet if f.label == "on the GPU") == f"1 event, {exact(20_000)} in all"


def test_follow_and_unfollow_are_each_other(llama):
    for launch in np.unique(llama.launch[llama.launch >= 0])[::97].tolist():
        kernel, said = flow.follow(llama, launch)
        assert kernel is not None
        assert int(llama.launch[kernel]) == launch
        assert said
        assert flow.unfollow(llama, kernel)[0] == launch
        assert flow.unfollow(llama, launch)[0] == int(llama.op[launch])


def test_forward_and_backward_are_each_other(llama):
    assert len(llama.flow_from)
    forward = int(llama.flow_from[0])
    found = flow.partner(llama, forward)
    assert found[0] in llama.flow_to[llama.flow_from == forward]
    assert flow.partner(llama, found[0]) == (forward, True)


def test_an_op_has_the_backward_of_what_it_calls(llama):
    linear = np.flatnonzero(llama.is_kind(Kind.CPU_OP) & (llama.name == llama.names.index("aten::linear")))
    assert len(linear)
    for i in linear.tolist():
        inside = np.flatnonzero((llama.flow_from >= i) & (llama.flow_from < flow.subtree(llama, i)[1]))
        others = llama.flow_to[inside].tolist()
        found, back = flow.partner(llama, i)
        assert found in others
        assert (llama.duration[found], back) == (llama.duration[others].max(), False)
    facts = {f.label: f for f in event_facts(llama, int(linear[0]), {})}
    assert facts["backward op"].event == flow.partner(llama, int(linear[0]))[0]


def test_the_ends_of_a_flow_say_so(small):
    target, said = flow.follow(small, int(np.flatnonzero(small.launch >= 0)[-1]))
    assert target is None
    assert "ends here" in said
    top = int(np.flatnonzero(small.is_kind(Kind.ANNOTATION) & (small.parent < 0))[0])
    assert flow.unfollow(small, top)[0] is None


def test_gaps_walk_by_size_and_by_time(llama):
    results = Part(llama)
    gaps = gaps_of(results)
    assert int(gaps.duration.sum()) == sum(d.idle for d in gaps.devices)
    longest = int(gaps.duration.argmax())
    by_size, by_time = gap_order(gaps, True), gap_order(gaps, False)
    assert len(by_size) == len(by_time) == len(gaps)
    assert next_gap(gaps, by_size, None, 0, 1, True) == (longest, 1)
    assert next_gap(gaps, by_size, longest, 0, -1, True) == (int(by_size[-1]), len(gaps))
    tenth = int(gaps.start[10])
    assert next_gap(gaps, by_time, None, tenth, 1, False) == (10, 11)
    assert next_gap(gaps, by_time, None, tenth, -1, False) == (9, 10)
    assert len(gap_order(gaps, True, minimum=100_000)) == int(np.count_nonzero(gaps.duration >= 100_000))
    assert causes_of(results).event.tolist() == gaps.after.tolist()


def test_no_gaps_no_walk(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(
        json.dumps([{"ph": "X", "name": "a", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 0, "dur": 1}])
    )
    trace = load(path)
    results = Part(trace)
    gaps = gaps_of(results)
    assert len(gaps) == 0
    assert next_gap(gaps, gap_order(gaps, True), None, 0, 1, True) is None
    assert len(causes_of(results).cause) == 0
    assert device_names(trace) == "CPU only"
    another = {"ph": "X", "name": "b", "cat": "other", "pid": 2, "tid": 1, "ts": 0, "dur": 1}
    path.write_text(json.dumps([*json.loads(path.read_text()), another]))
    assert device_names(load(path)) == ""  # it may be a device
    path.write_text(json.dumps([json.loads(path.read_text())[0]])[:-1] + ', {"ph"')
    cut = load(path)
    assert cut.cut_off
    assert device_names(cut) == ""  # what is missing may have run on a device
    assert warning(trace) == ""
    assert any("Only the CPU was recorded" in f.value for f in trace_facts(trace))


def test_what_the_devices_are_called(tmp_path):
    def called(*events: tuple[int, str, str]) -> str:
        found: list[dict[str, object]] = []
        for pid, label, category in events:
            found.append({"ph": "M", "name": "process_labels", "pid": pid, "args": {"labels": label}})
            found.append({"ph": "X", "name": "a", "cat": category, "pid": pid, "tid": 1, "ts": 0, "dur": 1})
        path = tmp_path / "t.json"
        path.write_text(json.dumps(found))
        return device_names(load(path))

    assert called((1, "GPU 1", "kernel")) == "GPU 1"
    assert called((0, "HPU 0", "kernel")) == "HPU 0"
    assert called((0, "NPU 0", "kernel"), (1, "NPU 1", "kernel")) == "2 NPUs"
    assert called((0, "GPU 0", "kernel"), (1, "NPU 1", "kernel")) == "2 devices"
    assert called((9, "CPU", "cpu_op"), (8, "", "odd")) == ""
    assert called((8, "", "odd")) == ""


def test_the_file_s_own_facts(llama):
    facts = {f.label: f.value for f in trace_facts(llama)}
    assert facts["device 0"].startswith("NVIDIA H200, sm_90, 132 SMs")
    assert facts["events"].startswith("35,279")


@pytest.mark.parametrize(("value", "shown"), [
    ("a\x1b[1mb", "a␛[1mb"), ([1, "x\ny"], '[1, "x\\ny"]'), (None, "null"), (1.5, "1.5"),
    ({"k": "é"}, '{"k": "é"}')
])  # fmt: skip
def test_arguments_become_one_safe_line(value, shown):
    assert value_text(value) == shown


def test_long_arguments_are_cut_and_wrapped():
    assert len(value_text("x" * 100_000)) == 4000
    from tracetui.views.event import Fact

    assert wrapped([Fact("a", "one two three", 7)], 8) == [Fact("a", "one two", 7), Fact("", "three", 7)]


def test_histogram_hides_nothing():
    bars = histogram(np.sort(np.array([1.0] * 1000 + [50.0] + [100.0])))
    assert len(bars) == 24
    assert bars[0] == "█"
    assert sum(c != "·" for c in bars) == 3
    assert histogram(np.array([2.0, 2.0])) == "all the same"


def test_memory_at_an_events_start_and_what_it_changes(tmp_path):
    def record(ts: float, size: int, total: int, device: int) -> dict[str, Any]:
        args = {"Device Type": int(device >= 0), "Device Id": device, "Bytes": size, "Total Allocated": total}
        more = {"cat": "cpu_instant_event", "s": "t", "args": args | {"Total Reserved": 4 * 2**20}}
        return {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": ts} | more

    mib = 2**20
    path = write_trace(tmp_path / "m.json", [
        slice_event("f", 0, 5), slice_event("g", 10, 10), record(2, mib, 3 * mib, 0),
        record(15, mib // 2, 3 * mib + mib // 2, 0), record(16, -mib, 0, -1),
        record(18, -mib, 2 * mib + mib // 2, 0)
    ])  # fmt: skip
    trace = load(path)
    records = memory_records(trace)
    assert records is not None
    facts = {f.label: f.value for f in event_facts(trace, 1, {}, records)}
    assert facts["memory, GPU 0"] == "3.00 MiB allocated, 4.00 MiB reserved, at its start"
    assert facts["allocates"] == "-1.00 MiB CPU, -512 KiB GPU, until its end"
    first = {f.label: f.value for f in event_facts(trace, 0, {}, records)}
    assert "memory, GPU 0" not in first, "no record before it"
    assert first["allocates"] == "+1.00 MiB GPU, until its end"
    assert "allocates" not in {f.label for f in event_facts(trace, 0, {})}


def test_arguments_of_a_file_that_was_overwritten(tmp_path):
    path = write_trace(tmp_path / "o.json", [slice_event("f", 0, 5), slice_event("g", 10, 10, args={"a": 1})])
    assert args_of(load(path), 0) == {}
    path.write_text(path.read_text().replace("cpu_op", "cpu_ip") + " ")
    os.utime(path, ns=(1, 1))
    again = load(path)
    path.write_text("{}")
    assert "no longer readable" in args_of(again, 1)["arguments"]
    assert memory_records(again) is None


def test_the_details_tell_shapes_and_strides_in_words():
    trace = load(SAMPLES / "linear.json.gz")
    event = next(i for i in range(len(trace)) if trace.name_of(i) == "aten::addmm")
    facts = {fact.label: fact.value for fact in event_facts(trace, event, args_of(trace, event))}
    assert facts["input 2"] == "1024 x 32 bf16, strides 32, 1: in order"
    assert facts["input 3"] == "32 x 64 bf16, strides 1, 32: a transposed view"
    assert list(facts).index("input 3") < list(facts).index("step")
    assert facts["Input Strides"] == "[[1], [32, 1], [1, 32], [], []]", "as it is in the file, too"


def test_a_cold_start_says_that_warming_up_hides_the_cost():
    findings = find_findings(Part(load(SAMPLES / "matmul_add_64_cold.json.gz")))
    advice = next(finding.advice for finding in findings if finding.rule == "cold_start")
    assert "does not remove it" in advice
