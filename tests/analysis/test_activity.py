"""What the CPU was in during a gap that no single thing fills."""

from pathlib import Path

import numpy as np
import pytest
from tests.kineto import cpu, kernel, launch, trace_of
from tests.recorded import load

from tracetui.analysis.idle.activity import activity_text, activity_texts, small_ops
from tracetui.analysis.idle.causes import CAUSES, gap_causes
from tracetui.analysis.idle.gaps import find_gaps
from tracetui.analysis.part import Part
from tracetui.trace import Kind, Trace
from tracetui.views.gaps_text import gaps_answer, gaps_json

DATA = Path(__file__).parent.parent / "data"

# A kernel that ends at 100 us; the gap lasts until the second one begins, launched at 290.
BEFORE = (launch(0, 1), kernel(10, 90, 1))
AFTER = (launch(290, 2), kernel(300, 10, 2))
MANY = (
    cpu("aten::mul", 95, 15),  # 10 of it in the gap
    cpu("aten::add", 115, 40),
    cpu("aten::empty", 116, 30),  # within add: counted with it
    cpu("aten::mul", 160, 30),
    cpu("aten::add", 200, 35),
    cpu("aten::sum", 280, 40),  # 10 of it before the launch
)


def told(trace: Trace) -> tuple[str, int, str]:
    (gaps,) = find_gaps(trace)
    causes = gap_causes(trace, gaps)
    small = small_ops(trace, gaps.before, causes)
    return CAUSES[int(causes.cause[0])], int(small.count[0]), activity_text(trace, causes, small, 0)


def test_small_ops_are_counted_and_the_one_with_most_time_is_named(tmp_path):
    assert told(trace_of(tmp_path, *BEFORE, *MANY, *AFTER)) == ("dispatch", 5, "5 ops, most in aten::add")


@pytest.mark.parametrize(("events", "expected"), [
    ((cpu("aten::add", 120, 200),), ("dispatch", 0, "aten::add")),
    ((cpu("aten::add", 120, 20),), ("host", 0, "outside ops")),
    ((cpu("train_step", 90, 250, "user_annotation"), *MANY), ("dispatch", 0, "train_step"))
])  # fmt: skip
def test_one_thing_is_named_as_it_is(tmp_path, events, expected):
    assert told(trace_of(tmp_path, *BEFORE, *events, *AFTER)) == expected


def test_text_and_json_say_it(tmp_path):
    results = Part(trace_of(tmp_path, *BEFORE, *MANY, *AFTER))
    assert "5 ops, most in aten::add" in gaps_answer(results).text(110)
    (gap,) = gaps_json(results)["devices"][0]["gaps"]
    assert (gap["cpu"], gap["cpu_ops"], gap["cpu_most"]) == (None, 5, "aten::add")


STEP = cpu("ProfilerStep#3", 90, 250, "user_annotation")
FREE = tuple(cpu("cudaFree", at, 25, "cuda_runtime") for at in (110, 150, 190, 230))


@pytest.mark.parametrize(("events", "expected"), [
    (
        (STEP, *FREE, cpu("cudaMalloc", 260, 20, "cuda_runtime")),
        ("allocation", 5, "5 calls, most in cudaFree")
    ),
    ((STEP, *MANY), ("dispatch", 5, "5 ops, most in aten::add")),
    ((STEP, cpu("aten::add", 120, 20)), ("host", 0, "outside ops"))
])  # fmt: skip
def test_a_step_is_not_what_the_cpu_was_in(tmp_path, events, expected):
    trace = trace_of(tmp_path, *BEFORE, *events, *AFTER)
    assert told(trace) == expected
    # The fields of files are about the slice that covers half of the gap: here the step.
    (gap,) = gaps_json(Part(trace))["devices"][0]["gaps"]
    assert (gap["cpu"], gap["cpu_ops"], gap["cpu_most"]) == ("ProfilerStep#3", 0, None)


def test_ops_fill_a_gap_of_which_the_launch_takes_more(tmp_path):
    # Until the launch at 190: 35 and 30 of 90 us in ops; the launch takes 100 us.
    late = (launch(190, 2, 100), kernel(300, 10, 2))
    trace = trace_of(tmp_path, *BEFORE, cpu("aten::mul", 110, 35), cpu("aten::add", 150, 30), *late)
    assert told(trace) == ("launch", 2, "2 ops, most in aten::mul")
    (gap,) = gaps_json(Part(trace))["devices"][0]["gaps"]
    assert (gap["cpu"], gap["cpu_ops"], gap["cpu_most"]) == (None, 2, "aten::mul")
    trace = trace_of(tmp_path, *BEFORE, cpu("aten::mul", 110, 35), *late)
    assert told(trace) == ("launch", 0, "-")


def test_against_a_loop_over_all_ops():
    trace = load(DATA / "llama_train.json.gz")
    (gaps,) = find_gaps(trace)
    causes = gap_causes(trace, gaps)
    small = small_ops(trace, gaps.before, causes)
    texts = [activity_text(trace, causes, small, i) for i in range(len(gaps))]
    assert activity_texts(trace, causes, small) == texts
    assert {"outside ops", "-"} < set(texts)
    is_op = trace.kind == Kind.CPU_OP
    outer = [i for i in np.flatnonzero(is_op).tolist() if not _in_an_op(trace, i)]
    lane = trace.lane[outer]
    start = trace.start[outer]
    end = start + trace.duration[outer]
    several = np.flatnonzero(small.count)
    assert len(several) > 100
    for gap in several[:: len(several) // 50].tolist():
        assert CAUSES[int(causes.cause[gap])] in ("dispatch", "launch")
        assert causes.activity[gap] < 0
        launched = causes.launch[gap]
        low, high = int(gaps.start[gap]), int(trace.start[launched])
        spent = np.minimum(end, high) - np.maximum(start, low)
        inside = np.flatnonzero((spent > 0) & (lane == trace.lane[launched]))
        assert len(inside) == small.count[gap] >= 2
        times: dict[str, int] = {}
        for k in inside.tolist():
            name = trace.name_of(outer[k])
            times[name] = times.get(name, 0) + int(spent[k])
        assert times[trace.names[int(small.name[gap])]] == max(times.values())
        assert 2 * sum(times.values()) > high - low


def _in_an_op(trace: Trace, i: int) -> bool:
    at = int(trace.parent[i])
    while at >= 0 and trace.kind[at] != Kind.CPU_OP:
        at = int(trace.parent[at])
    return at >= 0


def test_the_first_slice_of_all_may_be_what_the_cpu_did(tmp_path):
    trace = trace_of(
        tmp_path, cpu("enumerate(DataLoader)#x", 0, 90, "user_annotation"), launch(80, 2),
        kernel(0, 10, 1), kernel(100, 5, 2),
    )  # fmt: skip
    (gaps,) = find_gaps(trace)
    causes = gap_causes(trace, gaps)
    small = small_ops(trace, gaps.before, causes)
    assert causes.activity.tolist() == [0]
    texts = activity_texts(trace, causes, small)
    assert texts == [activity_text(trace, causes, small, 0)]
    assert "DataLoader" in texts[0]


def test_many_small_ops(tmp_path):
    ops = [
        cpu(name, 10 + 15 * i, 13)
        for i, name in enumerate(["aten::add", "aten::mul", "aten::add", "aten::mm"])
    ]
    trace = trace_of(
        tmp_path,
        kernel(0, 15, 1),  # the first op began before the gap
        *ops,
        cpu("aten::inner", 26, 5),
        launch(66, 2),  # and the last one launches
        kernel(80, 5, 2),
    )
    (gaps,) = find_gaps(trace)
    causes = gap_causes(trace, gaps)
    small = small_ops(trace, gaps.before, causes)
    assert (small.count.tolist(), [trace.names[i] for i in small.name]) == ([4], ["aten::add"])
    assert activity_texts(trace, causes, small) == ["4 ops, most in aten::add"]
