"""The averages against PyTorch: its recorded tables of real GPU traces, and live profiles of the same
test."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kineto import Event, cpu, kernel, launch, trace_of
from tests.recorded import load

from tracetui.analysis.calls.averages import AverageRow, Averages, averages, memory_use
from tracetui.analysis.calls.calls import build_calls, is_collective
from tracetui.analysis.calls.groups import GROUPS, shape_text
from tracetui.analysis.steps.scope import find_steps, range_scope, step_of, step_scope
from tracetui.trace import Kind, Trace
from tracetui.trace.memory import memory_records

DATA = Path(__file__).parent.parent / "data"
SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"
RECORDED = sorted([*DATA.rglob("*.averages.json"), *SAMPLES.glob("*.averages.json")])
Key = tuple[str, bool, bool]


def rows_by_key(table: Averages) -> dict[Key, AverageRow]:
    rows = {(r.name, r.device, r.annotation): r for r in table.rows()}
    assert len(rows) == len(table)
    return rows


def write_trace(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"traceEvents": events}))
    return path


def slice_(
    name: str, start: float, duration: float, cat: str = "cpu_op", tid: Any = 1, **args: Any
) -> dict[str, Any]:
    pid = 0 if cat in ("kernel", "gpu_memcpy", "cuda_sync", "gpu_user_annotation") else 9
    event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": duration}
    return event | {"args": {k.replace("_", " "): v for k, v in args.items()}}


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda p: f"{p.parent.name}-{p.name.split('.')[0]}")
def test_recorded_tables_row_by_row(recorded):
    trace = load(recorded.with_name(recorded.name.replace(".averages.json", ".json.gz")))
    ours = rows_by_key(averages(trace))
    theirs = {(r["key"], "CUDA" in r["device"], r["user"]): r for r in json.loads(recorded.read_text())}
    assert list(ours) == list(theirs)
    # PyTorch before 2.15 hangs the kernels of the op whose id an `overhead` event happens to have on that
    # event, too, and so on all calls around it.
    overhead = {trace.name_of(int(i)) for i in np.flatnonzero(trace.kind == Kind.OVERHEAD)}
    astray = 1e3 * sum(r["self_device"] for key, r in theirs.items() if key[0] in overhead and not key[1])
    assert overhead or not astray
    most = 0.0
    for key, row in ours.items():
        want = theirs[key]
        assert row.calls == want["count"], key
        assert row.cpu_total == pytest.approx(1e3 * want["cpu_total"], abs=0.01), key
        assert row.self_cpu == pytest.approx(1e3 * want["self_cpu"], abs=0.01), key
        more = 1e3 * want["device_total"] - row.device_total
        if key[1] or not overhead:
            assert more == pytest.approx(0, abs=0.01), key
        if key[0] in overhead:
            assert row.device_total == row.self_device == 0
        else:
            assert row.self_device == pytest.approx(1e3 * want["self_device"], abs=0.01), key
        most = max(most, more)
        assert more > -0.01, key
    assert most == pytest.approx(astray, abs=0.01)


def test_recorded_tables_are_there():
    assert len(RECORDED) >= 8


def test_chain_of_one_name_is_one_call(tmp_path):
    """The outermost keeps its duration, the innermost gives its children and its device time."""
    path = write_trace(tmp_path / "t.json", [
        slice_("f", 0, 100, External_id=1), slice_("f", 10, 80, External_id=2),
        slice_("f", 20, 60, External_id=3), slice_("g", 30, 20, External_id=4),
        slice_("h", 50, 20, External_id=5), slice_("k", 200, 7, "kernel", 7, External_id=3, correlation=11),
        slice_("k", 210, 5, "kernel", 7, External_id=1, correlation=12),
        slice_("k", 220, 3, "kernel", 7, External_id=4, correlation=13)
    ])  # fmt: skip
    rows = rows_by_key(averages(load(path)))
    f = rows["f", False, False]
    assert (f.calls, f.cpu_total, f.self_cpu) == (1, 100_000, 60_000)
    assert (f.device_total, f.self_device) == (10_000, 7_000)
    k = rows["k", True, False]
    assert (k.calls, k.device_total, k.cpu_total) == (3, 15_000, 0)


def test_two_children_of_one_name_are_not_merged(tmp_path):
    events = [slice_("f", 0, 100), slice_("f", 10, 20), slice_("f", 40, 20)]
    row = rows_by_key(averages(load(write_trace(tmp_path / "t.json", events))))["f", False, False]
    assert (row.calls, row.cpu_total, row.self_cpu) == (3, 140_000, 100_000)


def test_a_row_leads_to_the_longest_of_those_that_start_first(tmp_path):
    trace = trace_of(tmp_path, *(cpu("f", 0, length) | {"tid": length} for length in (3, 5, 4)))
    (first,) = averages(trace).first
    assert trace.duration[first] == 5_000


def test_overlap_without_nesting_makes_no_child(tmp_path):
    events = [
        slice_("a", 0, 10), slice_("b", 5, 10), slice_("c", 6, 2), slice_("d", 15, 0), slice_("e", 0, 0)
    ]  # fmt: skip
    rows = rows_by_key(averages(load(write_trace(tmp_path / "t.json", events))))
    assert rows["a", False, False].self_cpu == 10_000
    assert rows["b", False, False].self_cpu == 8_000  # c lies in both: the later one has it


def test_runtime_of_no_op_belongs_to_the_main_thread(tmp_path):
    """PyTorch files it under the thread that stopped the profiler, whatever thread it ran on."""
    events = [
        slice_("ProfilerStep#1", 0, 100, "user_annotation", External_id=1),
        slice_("Activity Buffer Request", 10, 30, "overhead", 0, External_id=5, correlation=5),
        slice_("cudaMalloc", 50, 10, "cuda_runtime", 2, correlation=6),
        slice_("work", 0, 90, tid=3, External_id=9),
        slice_("cudaLaunchKernel", 20, 10, "cuda_runtime", 4, External_id=9, correlation=7),
    ]
    events[1]["pid"] = -1
    rows = rows_by_key(averages(load(write_trace(tmp_path / "t.json", events))))
    assert rows["ProfilerStep*", False, True].self_cpu == 60_000
    assert rows["work", False, False].self_cpu == 80_000


def test_links_that_are_none(tmp_path):
    events = [
        slice_("f", 0, 100, External_id=5),
        slice_("Stream Sync", 10, 20, "cuda_sync", 7, External_id=5, correlation=5),
        slice_("k", 40, 10, "kernel", 7, External_id=5, correlation=9),
        slice_("note", 39.999, 50.002, "gpu_user_annotation", 7, External_id=5),
    ]
    rows = rows_by_key(averages(load(write_trace(tmp_path / "t.json", events))))
    assert rows["f", False, False].device_total == 10_000
    assert rows["Stream Sync", True, False].device_total == 20_000
    assert rows["note", True, True].device_total == 50_000  # Kineto widens it by 2 ns on export
    assert averages(load(tmp_path / "t.json")).total_self_device == 30_000


def test_the_annotation_of_a_collective_is_asynchronous(tmp_path):
    events = [
        slice_("record_param_comms", 0, 100), slice_("nccl:all_reduce", 10, 80, cat="user_annotation"),
        slice_("cuLaunchKernelEx", 20, 5, cat="cuda_driver")
    ]  # fmt: skip
    rows = rows_by_key(averages(load(write_trace(tmp_path / "t.json", events))))
    assert rows["record_param_comms", False, False].self_cpu == 95_000
    work = rows["nccl:all_reduce", False, True]
    assert (work.calls, work.cpu_total, work.self_cpu) == (1, 80_000, 0)


def test_memory_records_outside_of_calls_have_a_row(tmp_path):
    def record(name: str, time: float) -> dict[str, Any]:
        args = {"Bytes": 512, "Device Type": 0}
        where = {"cat": "cpu_instant_event", "s": "t", "pid": 9, "tid": 1, "args": args}
        return {"ph": "i", "name": name, "ts": time} | where

    events = [slice_("f", 0, 10), slice_("g", 20, 10), slice_("h", 40, 10, tid=2)]
    events += [record("[memory]", t) for t in (5, 10, 11, 35, 45, 60)] + [record("[OutOfMemory]", 25)]
    table = averages(load(write_trace(tmp_path / "t.json", events)))
    assert table.names == ("f", "[memory]", "g", "[OutOfMemory]", "h")
    assert table.calls.tolist() == [1, 3, 1, 1, 1]
    assert table.cpu_total.tolist() == [10_000, 0, 10_000, 0, 10_000]
    assert [r.first >= 0 for r in table.rows()] == [True, False, True, False, True]
    assert table.row_of.tolist() == [0, 2, 4]


def test_empty_trace(tmp_path):
    table = averages(load(write_trace(tmp_path / "t.json", [])))
    assert len(table) == 0
    assert table.total_self_cpu == table.total_self_device == 0


def test_unknown_group_and_column():
    trace = load(DATA / "mlp_eager.json.gz")
    with pytest.raises(ValueError, match="unknown group"):
        averages(trace, group="colour")
    with pytest.raises(KeyError):
        averages(trace).sorted_by("colour")


@pytest.mark.parametrize("name", ["llama_train", "mlp_eager", "matmul_add_64_nosched_20"])
def test_steps_and_the_rest_add_up(name):
    """Every event starts in one step or in none; so do the rows' sums."""
    trace = load(DATA / f"{name}.json.gz")
    calls = build_calls(trace)
    whole = averages(trace, calls=calls)
    steps = find_steps(trace)
    assert len(steps)
    parts = [averages(trace, step_scope(trace, int(n)), calls=calls) for n in steps.number]
    for column in ("calls", "cpu_total", "self_cpu", "device_total", "self_device"):
        inside = sum(int(getattr(p, column).sum()) for p in parts)
        assert 0 < inside <= int(getattr(whole, column).sum())
    in_steps = step_of(steps, trace.start[calls.cpu[~calls.removed]]) >= 0
    assert sum(int(p.calls[~p.device].sum()) for p in parts) == int(in_steps.sum())


def test_annotations_on_the_device_belong_to_the_step_of_their_annotation():
    """The device is two steps behind: the shadow of the third step's annotation begins after the step's
    end."""
    trace = load(DATA / "matmul_add_4096_warm_eager.json.gz")
    for number in find_steps(trace).number:
        rows = rows_by_key(averages(trace, step_scope(trace, int(number))))
        assert rows["matmul_add", True, True].calls == rows["matmul_add", False, True].calls == 1


def test_range_scope_counts_events_that_start_in_it():
    trace = load(DATA / "llama_train.json.gz")
    kernels = np.flatnonzero(trace.kind == Kind.KERNEL)
    low, high = int(trace.start[kernels[100]]), int(trace.start[kernels[200]])
    table = averages(trace, range_scope(low, high), group="kernel")
    expected = (
        trace.is_kind(Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET) & (trace.start >= low) & (trace.start < high)
    )
    assert int(table.calls.sum()) == int(expected.sum())
    assert int(table.self_device.sum()) == int(trace.duration[expected].sum())


@pytest.mark.parametrize("group", GROUPS)
def test_groups_split_rows_without_loss(group):
    trace = load(DATA / "mlp_eager.json.gz")
    plain, table = averages(trace), averages(trace, group=group)
    assert table.total_self_device == plain.total_self_device > 0
    if group in ("kernel", "op"):
        assert not (table.annotation | ~table.device).any()
    else:
        assert table.total_self_cpu == plain.total_self_cpu
        assert int(table.calls.sum()) == int(plain.calls.sum())


def test_groups_name_the_op_and_the_annotation():
    trace = load(DATA / "mlp_eager.json.gz")
    by_op = {r.name: r.group for r in averages(trace, group="op").rows()}
    assert by_op["nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT"] == "aten::mm"
    by_annotation = {(r.name, r.group) for r in averages(trace, group="annotation").rows()}
    assert ("aten::mm", "mlp_fwd") in by_annotation
    assert ("mlp_fwd", "ProfilerStep*") in by_annotation
    assert all(group for name, group in by_annotation if name.startswith("nvjet"))


def test_row_of_leads_to_every_event():
    trace = load(DATA / "llama_train.json.gz")
    table = averages(trace)
    for i, row in enumerate(table.rows()):
        at = np.flatnonzero(table.row_of == i)
        assert len(at) == row.calls
        assert row.first in at
        assert trace.start[at].min() == trace.start[row.first]


def live_rows(profile: Any) -> dict[Key, Any]:
    rows = {}
    for event in profile.key_averages():
        rows[event.key, "CUDA" in str(event.device_type), bool(event.is_user_annotation)] = event
    return rows


GARBLED = re.compile(r"\.py\(0\): (?!<?\w+>?$)")
"""A frame without a line whose name is no name: torch 2.13 reads it from memory that is free, each time anew,
and fails where that is no UTF-8."""


@pytest.mark.torch
@pytest.mark.parametrize(
    "options", [{}, {"with_stack": True}, {"profile_memory": True, "record_shapes": True}]
)
@pytest.mark.parametrize("steps", [True, False])
def test_live_profile(tmp_path, options, steps):
    """A live profile on the CPU: training with a backward pass, nested calls of one name, threads."""
    torch = pytest.importorskip("torch")
    import threading

    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.LayerNorm(64))
    optimizer = torch.optim.AdamW(net.parameters())

    def train() -> None:
        with record_function("forward"):
            loss = net(torch.randn(32, 64)).sum()
        with record_function("backward"):
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with record_function("same"), record_function("same"), record_function("same"):
            torch.mm(torch.ones(8, 8), torch.ones(8, 8))
        with record_function("aten::add"):
            torch.add(torch.ones(2), 1)
        thread = threading.Thread(target=lambda: torch.ones(4).cumsum(0))
        thread.start()
        thread.join()

    plan = schedule(wait=1, warmup=1, active=3, repeat=1) if steps else None
    for attempt in range(12):
        try:
            with profile(activities=[ProfilerActivity.CPU], schedule=plan, **options) as prof:
                for _ in range(5):
                    train()
                    prof.step()
            theirs = live_rows(prof)
            if not any(GARBLED.search(name) for name, _, _ in theirs):
                break
        except UnicodeDecodeError:
            if attempt == 11 or not options.get("with_stack"):
                raise
    path = tmp_path / "live.json"
    prof.export_chrome_trace(str(path))
    stacks = any("(" in name and ".py" in name for name, _, _ in theirs)
    trace = load(path)
    calls = build_calls(trace, stacks)
    table = averages(trace, calls=calls)
    ours = rows_by_key(table)
    assert ours.keys() == theirs.keys()
    records = memory_records(trace)
    assert (records is not None) == bool(options.get("profile_memory"))
    if records is not None:
        use = memory_use(trace, calls, table, records)
        assert use.self_host.max() > 1000
        for i, row in enumerate(table.rows()):
            want = theirs[row.name, row.device, row.annotation]
            assert use.host[i] == want.cpu_memory_usage, row
            assert use.self_host[i] == want.self_cpu_memory_usage, row
    assert len(theirs) > 20
    for key, row in ours.items():
        want = theirs[key]
        assert row.calls == want.count, key
        assert row.cpu_total == pytest.approx(1e3 * want.cpu_time_total, abs=0.01), key
        assert row.self_cpu == pytest.approx(1e3 * want.self_cpu_time_total, abs=0.01), key


def test_without_an_op_nothing_is_in_an_annotation(tmp_path):
    table = averages(
        trace_of(tmp_path, kernel(0, 5, 1, name="a"), kernel(9, 5, 2, name="b")), group="annotation"
    )
    assert {row.name: row.group for row in table.rows()} == {"a": "", "b": ""}


def memory_of_device(at: float, size: int, tid: int = 9, name: str = "[memory]") -> Event:
    args = {"Bytes": size, "Device Type": 1, "Device Id": 0}
    return {"ph": "i", "s": "t", "name": name, "pid": 9, "tid": tid, "ts": at, "args": args}


def numbers(trace: Trace, **more: Any) -> dict[str, tuple[int, int, int, int, int]]:
    """Name to (calls, CPU total, self CPU, device total, self device)."""
    return {
        row.name: (row.calls, row.cpu_total, row.self_cpu, row.device_total, row.self_device)
        for row in averages(trace, **more).rows()
    }


def test_averages_of_memory_alone(tmp_path):
    trace = trace_of(
        tmp_path, memory_of_device(5, 10), memory_of_device(6, -10),
        memory_of_device(7, 1, name="[OutOfMemory]")
    )  # fmt: skip
    assert numbers(trace) == {"[memory]": (2, 0, 0, 0, 0), "[OutOfMemory]": (1, 0, 0, 0, 0)}


@pytest.mark.parametrize("far", [3, 10**9])
def test_ids_of_ops_may_be_far_apart(tmp_path, far):
    """A kernel belongs to the op of its id, and to none where no op has it."""
    work = [kernel(100 * n, 10 + n, n) for n in range(4)]
    for event, number in zip(work, (1, far, 2, far + 1), strict=True):
        event["args"]["External id"] = number
    ops = [cpu("a", 0, 5, **{"External id": 1}), cpu("b", 10, 5, **{"External id": far})]
    found = numbers(trace_of(tmp_path, *ops, *work))
    assert (found["a"][3], found["b"][3]) == (10_000, 11_000)


def test_memory_of_a_scope(tmp_path):
    trace = trace_of(
        tmp_path, cpu("aten::mm", 0, 1), *(memory_of_device(at, 8) for at in (10, 20, 30)),
        memory_of_device(0.5, 8)
    )  # fmt: skip
    assert numbers(trace)["[memory]"][0] == 3  # one lies in the op
    assert numbers(trace, scope=range_scope(20_000, 30_000))["[memory]"][0] == 1
    assert "[memory]" not in numbers(trace, scope=range_scope(30_001, 90_000))


def test_what_averages_leave_out(tmp_path):
    trace = trace_of(
        tmp_path, cpu("train.py(1): main", 0, 100, "python_function"), cpu("aten::mm", 10, 50),
        cpu("aten::is_leaf", 12, 5), cpu("aten::_version", 40, 9), cpu("aten::mm", 200, -4),
        kernel(20, 5, 1, name="event", cat="cuda_event"), kernel(20, 5, 2, name="k")
    )  # fmt: skip
    assert numbers(trace) == {"aten::mm": (1, 50_000, 50_000, 0, 0), "k": (1, 0, 0, 5_000, 5_000)}
    assert averages(trace).left_out == 1
    assert numbers(trace, python_functions=True)["train.py(1): main"] == (1, 100_000, 50_000, 0, 0)
    assert len(build_calls(trace).cpu) == 1
    assert len(build_calls(trace, True).cpu) == 2


def test_a_collective_stands_outside_of_the_tree(tmp_path):
    trace = trace_of(
        tmp_path, cpu("step", 0, 100, "user_annotation"), cpu("nccl:all_reduce", 10, 50, "user_annotation"),
        cpu("aten::add", 20, 10)
    )  # fmt: skip
    assert numbers(trace) == {
        "step": (1, 100_000, 90_000, 0, 0), "nccl:all_reduce": (1, 50_000, 0, 0, 0),
        "aten::add": (1, 10_000, 10_000, 0, 0)
    }  # fmt: skip
    assert is_collective("gloo:x")
    assert not is_collective("my nccl:x")


def test_annotations_on_the_device_lose_what_the_export_adds(tmp_path):
    shadow = kernel(10, 5, 0, name="forward", cat="gpu_user_annotation")
    trace = trace_of(tmp_path, shadow, kernel(30, 0.001, 0, name="tiny", cat="gpu_user_annotation"))
    assert numbers(trace) == {"forward": (1, 0, 0, 4_998, 4_998), "tiny": (1, 0, 0, 0, 0)}
    calls = build_calls(trace)
    assert (calls.device_start - trace.start[calls.device]).tolist() == [1, 1]
    assert averages(trace).total_self_device == 0  # annotations do not count there


def test_the_orders_of_the_rows(tmp_path):
    events = [cpu("b", 0, 10), cpu("a", 20, 30), cpu("c", 60, 10), cpu("c", 80, 10)]
    made = averages(trace_of(tmp_path, *events))
    assert made.names == ("b", "a", "c")

    def order(column: str, **more: Any) -> list[str]:
        return [made.names[i] for i in made.sorted_by(column, **more)]

    assert order("cpu_time_total") == ["a", "c", "b"]
    assert order("cpu_time_total", ascending=True) == ["b", "c", "a"]
    assert order("cpu_time") == ["a", "b", "c"]
    assert order("count") == ["c", "b", "a"]
    assert order("name") == ["c", "b", "a"]
    assert order("name", ascending=True) == ["a", "b", "c"]
    with pytest.raises(KeyError):
        made.sorted_by("no such column")


@pytest.mark.parametrize(("dims", "text"), [
    ([[2, 3], []], "[[2, 3], []]"), ([[[2], [3]], [4]], "[[], [4]]"), ([[[2, 3], 4]], "[[]]"), ("no", "[]"),
    (None, "[]"), ([], "[]"), ([5], "[5]")
])  # fmt: skip
def test_shapes_as_pytorch_writes_them(dims, text):
    assert shape_text(dims) == text


def test_a_kernel_whose_op_has_the_number_of_its_launch(tmp_path):
    """An `External id` equal to the event's own correlation is a link of kernels; of marks of synchronization
    it is none."""
    op = cpu("aten::mm", 0, 50, **{"External id": 5})
    work = kernel(60, 10, 5)
    mark = kernel(80, 7, 5, name="Stream Sync", cat="cuda_sync")
    for event in (work, mark):
        event["args"]["External id"] = 5
    other = kernel(100, 3, 6, name="Event Sync", cat="cuda_sync")
    other["args"]["External id"] = 5
    for events, device in (((work,), 10_000), ((mark,), 0), ((work, other), 13_000), ((work, mark), 10_000)):
        table = averages(trace_of(tmp_path, op, launch(10, 5), *events))
        (row,) = [i for i, name in enumerate(table.names) if name == "aten::mm"]
        assert int(table.device_total[row]) == device
