"""What is said of steps: the columns that a narrow table keeps, where steps come from, idle time."""

import numpy as np
from tests.kineto import Event, cpu, kernel, launch, run, step, trace_of
from tests.recorded import load

from tracetui.analysis.part import Part
from tracetui.analysis.steps.steps import summarize_steps
from tracetui.views.document_text import report_lines
from tracetui.views.steps import source_text, step_blocks, step_columns, steps_answer, steps_table


def test_idle_time_of_two_devices_is_said_to_be_a_sum(tmp_path):
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


def test_rows_that_are_no_steps_stand_out(samples):
    lines = report_lines(step_blocks(summarize_steps(load(samples / "mlp_eager.json.gz"))), 100)
    styles = {line[1][0].strip(): line[1][1] for line in lines if len(line) > 2}
    assert {styles[name] for name in styles if name.startswith("step ")} == {""}
    assert styles["whole"] == "title"


def test_steps_of_an_optimizer_say_where_they_come_from(tmp_path):
    events = [e for n in range(4) for e in (cpu("Optimizer.step#SGD.step", 100 * n, 20, "user_annotation"),)]
    runs = [e for n in range(4) for e in (launch(100 * n + 30, n), kernel(100 * n + 40, 20, n))]
    text = steps_answer(Part(trace_of(tmp_path, *events, *runs))).text(80)
    assert "Optimizer.step" in text.splitlines()[-1], text


TALK = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def test_communication_is_dropped_first_where_there_is_none(tmp_path):
    for name in ("", TALK):
        steps = summarize_steps(trace_of(tmp_path, step(1, 0, 100), *run(10, 20, 1, name), *run(40, 10, 2)))
        drop = {key: column.drop for key, column in step_columns(steps.rows).items()}
        first = sorted(drop, key=lambda key: -drop[key])[:3]
        if name:
            assert (
                drop["exposed_communication"] < drop["communication"] < drop["window_idle"] < drop["compute"]
            )
            assert "communication" not in first
        else:
            assert drop["compute"] < drop["communication"] < drop["exposed_communication"]


def test_where_the_steps_come_from_is_said():
    sources = ("ProfilerStep", "repeats", "Optimizer.step", "annotation decode")
    texts = [source_text(source) for source in sources]
    assert texts[0] == ""
    assert len(set(texts)) == 4
    assert "decode" in texts[3]


def test_a_file_has_the_idle_time_of_each_cause(tmp_path):
    """A gap from 30 to 100: 35 us outside of ops, 30 in one, and the launch of 5."""
    op = cpu("aten::mm", 60, 30)
    steps = summarize_steps(trace_of(tmp_path, step(1, 0, 120), *run(10, 20, 1), op, *run(100, 20, 2)))
    records = steps_table(steps).records
    assert records is not None
    idle = {
        key: value for key, value in records(np.array([0]))[0].items() if key.startswith("idle_") and value
    }
    assert {
        key: value for key, value in idle.items() if "host" in key or "dispatch" in key or "launch" in key
    } == {
        next(key for key in idle if cause in key): ns
        for cause, ns in (("host", 35_000), ("dispatch", 30_000), ("launch", 5_000))
    }
    assert sum(value for key, value in idle.items() if key != "idle_ns") == idle["idle_ns"] == 70_000


def test_a_trace_without_steps_says_so(tmp_path):
    text = steps_answer(Part(trace_of(tmp_path, cpu("a", 0, 10)))).text(80)
    assert "The trace has no ProfilerStep annotations." in text
