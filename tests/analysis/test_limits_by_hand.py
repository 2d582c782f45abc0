"""What the queue waited for, and the first use of a GPU, at the limits of their rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kineto import Event, cpu, kernel, launch, memcpy, trace_of

from tracetui.analysis.calls.averages import averages
from tracetui.analysis.calls.flow import partner
from tracetui.analysis.calls.groups import shape_text
from tracetui.analysis.idle.causes import CAUSES, gap_causes
from tracetui.analysis.idle.gaps import find_gaps
from tracetui.analysis.idle.initialization import first_calls, first_ops
from tracetui.analysis.rates.efficiency import efficiency
from tracetui.trace import Trace
from tracetui.trace.model import I64

BEFORE = (launch(0, 1), kernel(10, 90, 1))
"""A kernel of device 0 that ends at 100 us."""
USUAL = [e for n in (95, 96, 97) for e in (launch(10 * n, n), kernel(10 * n + 9, 1, n))]
"""Later on, launches that take 5 us to arrive: so the median of all is 5 us."""


def elsewhere(number: int, start: float, end: float, device: int = 1) -> Event:
    """A kernel of another device, whose launch was not recorded."""
    return kernel(start, end - start, number) | {
        "pid": device,
        "args": {"device": device, "stream": 7, "correlation": number},
    }


@pytest.mark.parametrize(
    ("spans", "end", "name"),
    [
        ([(50, 250)], 270, "k50"),  # the device 1 was done 20 us before, no longer
        ([(50, 250)], 270.001, ""),
        ([(50, 150), (160, 250), (260, 400)], 262, "k51"),  # the last that was over
        ([(50, 262), (270, 400)], 262, "k50"),
        ([(50, 262.001)], 262, ""),
        ([(50, 100)], 118, ""),  # over when the gap began
        ([(50, 100.001)], 118, "k50"),
        ([(300, 400)], 262, ""),
    ],
)
def test_work_of_another_device(
    tmp_path: Path, spans: list[tuple[float, float]], end: float, name: str
) -> None:
    others = [elsewhere(50 + i, *span) for i, span in enumerate(spans)]
    trace = trace_of(tmp_path, *BEFORE, *others, launch(20, 2), kernel(end, 10, 2), *USUAL)
    causes = gap_causes(trace, find_gaps(trace)[0])
    at = int(causes.waited_for[0])
    assert (trace.name_of(at) if at >= 0 else "") == name
    assert causes.waited_for.tolist()[1:] == [-1] * 3, "the other gaps waited for their launch"


@pytest.mark.parametrize(
    ("end", "name"),
    [(139, ""), (144, ""), (144.001, "k50")],  # it arrives at 139
)
def test_what_is_hardly_queued_waited_for_nothing(tmp_path: Path, end: float, name: str) -> None:
    late = [launch(130, 2), kernel(end, 10, 2, 8)]
    trace = trace_of(tmp_path, *BEFORE, elsewhere(50, 50, 138), *late, *USUAL)
    at = int(gap_causes(trace, find_gaps(trace)[0]).waited_for[0])
    assert (trace.name_of(at) if at >= 0 else "") == name


@pytest.mark.parametrize(
    ("end", "stream", "name"), [(120, 8, "k1"), (120.001, 8, ""), (120, 7, ""), (101, 8, "k1")]
)
def test_work_of_another_stream(tmp_path: Path, end: float, stream: int, name: str) -> None:
    """What the gap began with, if that was less than a launch's way ago."""
    trace = trace_of(tmp_path, *BEFORE, launch(20, 2), kernel(end, 10, 2, stream), *USUAL)
    at = int(gap_causes(trace, find_gaps(trace)[0]).waited_for[0])
    assert (trace.name_of(at) if at >= 0 else "") == name


def piece(trace: Trace, i: int) -> dict[str, float]:
    """Of gap i of device 0, in us."""
    row = gap_causes(trace, find_gaps(trace)[0]).pieces[i]
    return {cause: ns / 1000 for cause, ns in zip(CAUSES, row.tolist(), strict=True) if ns}


@pytest.mark.parametrize(
    ("copied", "call", "expected"),
    [
        (130, 20, {"sync": 10, "host": 50, "launch": 9}),  # from 130 to 140 the call waited
        (130, 19.999, {"host": 60, "launch": 9}),
        (140, 20, {"sync": 5, "host": 45, "launch": 9}),  # before the gap only until the copy began
        (140.7, 20, {"sync": 5, "host": 44.3, "launch": 9}),  # the last piece of it was on its way
        (140.85, 20, {"host": 49.15, "launch": 9}),  # it was over before its copy
        (130, 40, {"sync": 30, "host": 30, "launch": 9}),
    ],
)
def test_a_copy_that_blocks(tmp_path: Path, copied: float, call: float, expected: dict[str, float]) -> None:
    copy = [launch(120, 2, call, "cudaMemcpyAsync"), memcpy(125, copied - 125, 2)]
    trace = trace_of(tmp_path, *BEFORE, *copy, launch(190, 3), kernel(199, 10, 3), *USUAL)
    assert piece(trace, 1) == expected
    other = [copy[0], kernel(125, copied - 125, 2)]  # no copy
    trace = trace_of(tmp_path, *BEFORE, *other, launch(190, 3), kernel(199, 10, 3), *USUAL)
    assert set(piece(trace, 1)) == {"host", "launch"}


def test_each_thread_waits_for_itself(tmp_path: Path) -> None:
    """Two threads launch in turn; each had waited for another time."""
    events: list[Event] = [
        cpu("cudaStreamSynchronize", 60, 30, "cuda_runtime"),
        launch(190, 2),
        kernel(199, 10, 2),  # 199 to 209
        cpu("cudaStreamSynchronize", 195, 10, "cuda_runtime") | {"tid": 10},
        launch(290, 3) | {"tid": 10},
        kernel(299, 10, 3),  # 299 to 309
        launch(390, 4),
        kernel(399, 10, 4),
    ]
    trace = trace_of(tmp_path, *BEFORE, *events, *USUAL)
    assert piece(trace, 0) == {"sync": 30, "host": 60, "launch": 9}
    assert piece(trace, 1) == {"sync": 10, "host": 71, "launch": 9}
    assert piece(trace, 2) == {"host": 81, "launch": 9}


def test_work_that_nobody_launched(tmp_path: Path) -> None:
    events = [cpu("aten::mm", 0, 3), cpu("aten::mul", 5, 200), kernel(150, 10, 90), launch(190, 3)]
    trace = trace_of(tmp_path, *BEFORE, *events, kernel(199, 10, 3), *USUAL)
    causes = gap_causes(trace, find_gaps(trace)[0])
    assert (causes.launch[0], causes.op[0], causes.step[0]) == (-1, -1, -1)
    assert piece(trace, 0) == {"unlinked": 50}
    assert trace.name_of(int(causes.op[1])) == "aten::mul"
    assert trace.name_of(int(causes.event[0])) == "k90"


# The first use of a device


def lengths(trace: Trace, at: I64) -> list[float]:
    return [time / 1000 for time in trace.duration[at].tolist()]


def calls(name: str, *lengths: float) -> list[Event]:
    """Calls of these lengths in us, each 50 ms after the one before."""
    return [cpu(name, 50_000 * i, length, "cuda_runtime") for i, length in enumerate(lengths)]


@pytest.mark.parametrize(
    ("name", "took", "expected"),
    [
        ("cudaFuncGetAttributes", (200, 20, 20), [200]),  # ten times the median, and the first
        ("cudaFuncGetAttributes", (199.999, 20, 20), []),
        ("cudaFuncGetAttributes", (20, 200, 20), []),
        ("cudaFuncGetAttributes", (100, 1, 1), [100]),  # no shorter one is
        ("cudaFuncGetAttributes", (99.999, 1, 1), []),
        ("cudaFuncGetAttributes", (1000, 20), [1000]),  # two are too few to have a median
        ("cudaFuncGetAttributes", (999.999, 20), []),
        ("cudaMalloc", (10_000, 1, 1), [10_000]),
        ("cudaMalloc", (9_999.999, 1, 1), []),
        ("cudaMalloc", (19_999, 2000, 2000), []),
        ("cudaMalloc", (20_000, 2000, 2000), [20_000]),
        ("cuModuleLoadData", (100, 150, 99.999, 120), [100, 150, 120]),  # each loads something
        ("cudaMemcpyAsync", (40_000, 1, 1), []),
        ("cudaStreamSynchronize", (40_000, 1, 1), []),
    ],
)
def test_first_calls(tmp_path: Path, name: str, took: tuple[float, ...], expected: list[float]) -> None:
    trace = trace_of(tmp_path, *calls(name, *took))
    assert lengths(trace, first_calls(trace)) == expected


def test_the_medians_of_two_names_are_apart(tmp_path: Path) -> None:
    slow = [e | {"ts": e["ts"] + 20_000} for e in calls("cudaFuncSetAttribute", 9_000, 1_000, 1_000)]
    trace = trace_of(tmp_path, *calls("cudaFuncGetAttributes", 300, 20, 20), *slow)
    assert lengths(trace, first_calls(trace)) == [300]


def test_the_first_launch_of_a_kernel(tmp_path: Path) -> None:
    def new(at: float, n: int, length: float, name: str, stream: int = 7) -> list[Event]:
        return [launch(at, n, length), kernel(at + 900, 5, n, stream, name)]

    events = [e for n in range(5) for e in new(4000 + 1000 * n, 10 + n, 4, "a")]
    events += [*new(1000, 1, 4, "a"), *new(2000, 2, 100, "b"), *new(3000, 3, 500, "b")]
    trace = trace_of(tmp_path, *events)
    assert lengths(trace, first_calls(trace)) == [100]
    # A kernel without a launch tells nothing of when its name was launched first.
    lost = [kernel(3500, 5, 80, name="b"), kernel(1500, 5, 81, 30, "c")]
    trace = trace_of(tmp_path, *events, *lost)
    assert lengths(trace, first_calls(trace)) == [100]


LOADING = "Lazy Function Loading"


def in_an_op(begin: float, length: float, *others: tuple[float, float]) -> list[Event]:
    """`aten::mm` at `begin` with code that is loaded in its middle, on a thread of CUPTI's own, and others
    (start, length) of the name."""
    loading = cpu(LOADING, begin + length / 2, 10, "overhead") | {"tid": 77}
    ops = [cpu("aten::mm", *other) for other in ((begin, length), *others)]
    return [*ops, loading, *calls("cudaFuncGetAttributes", 1, 1)]


@pytest.mark.parametrize(
    ("op", "others", "counts"),
    [
        ((0, 1000), [(2000, 1)], True),
        ((0, 999.999), [(2000, 1)], False),  # no shorter one is
        ((0, 2000), [(5000, 200), (6000, 200)], True),  # ten times the median of the others
        ((0, 2000), [(5000, 200), (6000, 200.002)], False),
        ((0, 2000), [], False),
        ((0, 2000), [(2000, 1)], True),
        ((0, 2000), [(500, 100)], False),  # one within it is no other one
        ((0, 2000), [(500, 1), (5000, 200)], True),
        ((0, 2000), [(0, 0), (5000, 200)], True),  # at once, and of no length
        ((10, 2000), [(0, 10), (5000, 10)], False),  # not the first
        ((10, 2000), [(5000, 10), (0, 5)], False),
    ],
)
def test_first_ops(
    tmp_path: Path, op: tuple[float, float], others: list[tuple[float, float]], counts: bool
) -> None:
    trace = trace_of(tmp_path, *in_an_op(*op, *others))
    assert not len(first_calls(trace))
    assert lengths(trace, first_ops(trace, first_calls(trace))) == ([op[1]] if counts else [])


@pytest.mark.parametrize(("name", "counts"), [("new", True), ("old", False)])
def test_a_later_op_loads_what_it_is_the_first_to_launch(tmp_path: Path, name: str, counts: bool) -> None:
    """A product of a new shape needs a kernel that is not loaded yet."""
    before = [cpu("aten::mm", 0, 40), launch(10, 1), kernel(20, 5, 1, name="old")]
    events = [*in_an_op(100, 2000), launch(2050, 2), kernel(2060, 5, 2, name=name), *before]
    trace = trace_of(tmp_path, *events)
    assert lengths(trace, first_ops(trace, first_calls(trace))) == ([2000] if counts else [])


def test_an_op_holds_what_was_loaded_if_it_holds_the_middle_of_it(tmp_path: Path) -> None:
    def with_loading(begin: float, length: float) -> Trace:
        loading = cpu(LOADING, begin, length, "overhead") | {"tid": 77}
        return trace_of(tmp_path, cpu("aten::mm", 1000, 2000), cpu("aten::mm", 4000, 10), loading)

    for begin, length, counts in ((980, 50, True), (970, 50, False), (2970, 50, True), (2980, 50, False)):
        trace = with_loading(begin, length)
        assert len(first_ops(trace, first_calls(trace))) == counts, begin


def test_only_what_initializes_makes_an_op_one_of_initialisation(tmp_path: Path) -> None:
    inner = [cpu("cudaStreamCreate", 500, 300, "cuda_runtime"), cpu("aten::empty", 400, 600)]
    ops = [cpu("aten::mm", 0, 2000), cpu("aten::mm", 4000, 10), cpu("aten::empty", 4002, 1)]
    trace = trace_of(tmp_path, *ops, *inner)
    # The op right around the call is too short to be one; the one around that is another story.
    assert lengths(trace, first_ops(trace, first_calls(trace))) == []
    trace = trace_of(tmp_path, *ops, inner[0])
    assert lengths(trace, first_ops(trace, first_calls(trace))) == [2000]
    trace = trace_of(tmp_path, *ops, inner[0] | {"name": "cudaMemcpyAsync"})
    assert lengths(trace, first_ops(trace, first_calls(trace))) == []


# Forward and backward


def test_the_other_end_of_a_flow(tmp_path: Path) -> None:
    """An op without one has that of the op within it whose other end takes longest; one that ends within the
    op leads nowhere."""

    def flow(phase: str, at: float, number: int, tid: int) -> Event:
        mark = {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": 9, "tid": tid, "ts": at}
        return mark | ({"bp": "e"} if phase == "f" else {})

    ops = [
        cpu("linear", 0, 100),
        cpu("t", 10, 10),
        cpu("mm", 30, 10),
        cpu("add", 60, 10),
        cpu("relu", 110, 5),
    ]
    back = [cpu("back", 200, 10) | {"tid": 10}, cpu("early", 210, 20) | {"tid": 5}]
    flows = [flow("s", 31, 1, 9), flow("f", 201, 1, 10), flow("s", 61, 2, 9), flow("f", 211, 2, 5)]
    within = [flow("s", 11, 3, 9), flow("f", 62, 3, 9)]
    trace = trace_of(tmp_path, *ops, *back, *flows, *within)
    at = {trace.name_of(i): i for i in range(len(trace))}

    def other(name: str) -> tuple[str, bool] | None:
        found = partner(trace, at[name])
        return (trace.name_of(found[0]), found[1]) if found else None

    assert other("linear") == ("early", False)
    assert other("mm") == ("back", False)
    assert other("t") == ("add", False)
    assert other("add") == ("early", False)
    assert other("back") == ("mm", True)
    assert other("early") == ("add", True)
    assert other("relu") is None


# The throughput of a trace of the CPU


def test_the_throughput_of_ops_on_the_cpu(tmp_path: Path) -> None:
    shapes = {"Input Dims": [[3, 5], [5, 7]], "Input type": ["float", "float"]}
    ops = [cpu("aten::mm", 100 * i, 20 + i, **shapes) for i in range(3)]
    around = cpu("aten::matmul", 0, 90, **shapes)
    table = efficiency(trace_of(tmp_path, around, *ops))
    assert (table.recorded, table.sampled, table.kernels) == (True, False, ())
    (row,) = table.ops
    assert (row.calls, row.flops, row.duration) == (3, 3 * 2 * 105, 63_000)
    assert (row.bytes, row.tflops) == (3 * 4 * (15 + 35 + 21), pytest.approx(1e-5))
    assert efficiency(trace_of(tmp_path, around, *ops), limit=2).sampled is True
    assert efficiency(trace_of(tmp_path, *(e | {"args": {}} for e in ops))).ops == ()


# Times as in PyTorch's table


def test_a_kernel_whose_op_has_the_number_of_its_launch(tmp_path: Path) -> None:
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


def test_shapes_as_text() -> None:
    assert shape_text([[2, 3], [], [7]]) == "[[2, 3], [], [7]]"
    assert shape_text([[[2, 3], [4]], [5]]) == "[[], [5]]"  # a list of tensors
    assert shape_text([[[2, 3], 4]]) == "[[]]"
    assert shape_text(None) == "[]"
