"""What lanes are called by what they do."""

from dataclasses import replace

import pytest
from msgspec import structs
from tests.timeline.conftest import trace_of

from tracetui.analysis.names.roles import roles
from tracetui.trace.model import Kind, Process, Trace

RING = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
BACKWARD = "autograd::engine::evaluate_function: MmBackward0"


def named(trace: Trace, *names: str) -> Trace:
    """With other names of its lanes, and the ids that those have."""
    lanes = [
        structs.replace(lane, name=name, tid=name.split()[1])
        for lane, name in zip(trace.lanes, names, strict=True)
    ]
    return replace(trace, lanes=tuple(lanes))


@pytest.mark.parametrize(("slices", "names", "called"), [
    # The most ops; and who runs the backward pass
    (
        [(0, 0, 9, "a"), (1, 0, 9, "a"), (1, 9, 9, "b"), (2, 0, 9, BACKWARD)],
        ["thread 7 (python3)", "thread 8 (python3)", "thread 9 (python3)"],
        ["CPU thread 7", "CPU main", "CPU autograd"],
    ),
    # Steps before ops; two threads run backward passes
    (
        [(0, 0, 9, "ProfilerStep#1"), (1, 0, 9, BACKWARD), (1, 9, 9, "x"), (2, 0, 9, BACKWARD)],
        ["thread 7 (python3)", "thread 8 (pt_autograd_0)", "thread 9 (pt_autograd_1)"],
        ["CPU main", "CPU autograd 8", "CPU autograd 9"],
    ),
    # Without steps: not who runs the backward pass, however many ops that has
    (
        [(0, 0, 9, "a"), (1, 0, 9, BACKWARD), (1, 9, 9, "x"), (1, 18, 9, "x")],
        ["thread 7 (python3)", "thread 8 (python3)"],
        ["CPU main", "CPU autograd"],
    ),
    # Nothing but a backward pass was recorded: its thread is no main one
    ([(0, 0, 9, BACKWARD)], ["thread 8 (pt_autograd_0)"], ["CPU autograd"]),
    # On a CPU the main thread runs the backward pass, too
    ([(0, 0, 9, "ProfilerStep#1"), (0, 9, 9, BACKWARD)], ["thread 7 (python)"], ["CPU main"]),
    # A name that says something is kept
    (
        [(0, 0, 9, "a"), (0, 9, 9, "a"), (1, 0, 9, "b"), (2, 0, 9, "b"), (3, 0, 9, "b")],
        ["thread 7", "thread 8 (pt_data_worker)", "thread 9 (pt_data_worker)", "thread 10 (pin memory)"],
        ["CPU main", "pt_data_worker 8", "pt_data_worker 9", "pin memory"],
    ),
    # A name of the file's own
    (
        [(0, 0, 9, "a"), (0, 9, 9, "a"), (1, 0, 9, "b")],
        ["thread 1", "EngineCore 2"],
        ["CPU main", "EngineCore 2"],
    ),
])  # fmt: skip
def test_threads(slices, names, called):
    assert list(roles(named(trace_of(slices), *names))) == called


def test_streams():
    streams = [0, 1, 2]
    trace = trace_of([(0, 0, 9, "gemm"), (0, 9, 9, RING), (1, 0, 9, RING), (2, 0, 9, "add")], streams=streams)
    trace = named(trace, "stream 7", "stream 17", "stream 20")
    assert roles(trace) == ("stream 7", "NCCL", "stream 20")
    two = trace_of([(0, 0, 9, "gemm"), (1, 0, 9, RING), (2, 0, 9, RING)], streams=streams)
    assert roles(named(two, "stream 7", "stream 17", "stream 20")) == ("stream 7", "NCCL 17", "NCCL 20")
    # Copies alone do not make it one, and beside collectives do no harm.
    copies = replace(trace, kind=trace.kind.copy())
    copies.kind[:1] = Kind.MEMCPY
    assert roles(copies)[:2] == ("NCCL 7", "NCCL 17")
    copies.kind[:2] = Kind.MEMCPY
    assert roles(replace(copies))[0] == "stream 7"


def test_annotations_and_ranks():
    trace = named(trace_of([(0, 0, 9, "a"), (1, 0, 9, "k")], streams=[0, 1]), "stream 7", "stream 7")
    lanes = (
        structs.replace(trace.lanes[0], name="stream 7 annotations", kind="gpu_annotation"), trace.lanes[1]
    )  # fmt: skip
    assert roles(replace(trace, lanes=lanes)) == ("annotations", "stream 7")
    several = (lanes[0], structs.replace(lanes[0], tid="8", name="stream 8 annotations"))
    assert roles(replace(trace, lanes=several)) == ("stream 7 annotations", "stream 8 annotations")
    ranked = trace_of([(0, 0, 9, "a")])
    ranked = replace(ranked, processes=(Process("1", "python", "", 0, -1, "TP00"),))
    lane = structs.replace(ranked.lanes[0], name="[TP00] thread 7 (python)")
    assert roles(replace(ranked, lanes=(lane,))) == ("[TP00] CPU main",)


def test_nothing():
    assert roles(trace_of([])) == ()


def test_the_process_s_first_thread_is_the_main_one():
    """Steps, else the thread whose id is the process's, else the most ops."""
    trace = trace_of([(0, 0, 9, "a"), (1, 0, 9, "a"), (1, 9, 9, "b")])
    trace = named(trace, "thread 7 (python3)", "thread 8 (python3)")
    of_7 = replace(trace, processes=tuple(structs.replace(process, pid="7") for process in trace.processes))
    assert list(roles(of_7)) == ["CPU main", "CPU thread 8"]
    assert list(roles(trace)) == ["CPU thread 7", "CPU main"]
