"""What the summary says the time of the verdict went to."""

import pytest
from tests.kineto import Event, cpu, kernel, launch, run, step, trace_of

from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import step_table_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.views.gap_words import cause_text
from tracetui.views.gaps_text import gaps_answer
from tracetui.views.parts import _until_first_work, evidence
from tracetui.views.steps import steps_answer
from tracetui.views.summary import metrics_of, summary_answer


def test_a_single_step_with_an_empty_front(tmp_path):
    """Idle time before the first device event is no gap, but the step's all the same."""
    trace = trace_of(tmp_path, step(0, 0, 1000), *run(900, 50, 1))
    summary = summary_answer(Part(trace))
    text = summary.text(80)
    title, *rows = text[text.index("Where the time goes") :].splitlines()[:3]
    assert title == "Where the time goes  1.00 ms of the step"
    assert rows[0].split()[:4] == ["compute", "50.0", "µs", "5.0%"]
    assert rows[1].split()[0] == "host"
    assert float(rows[1].split()[3].rstrip("%")) > 90
    assert "900 µs before its first event" in text
    assert "| host |" in summary.markdown()


def test_what_does_not_count_stands_below(tmp_path):
    late = [step(0, 0, 1000), cpu("aten::mm", 880, 30), *run(900, 50, 1)]
    trace = trace_of(tmp_path, *late, *(event for n in (1, 2) for event in (step(n, 1000 * n, 1000),
                     *run(1000 * n + 10, 980, n + 1))))  # fmt: skip
    text = summary_answer(Part(trace)).text(80)
    assert " that count, mean of 3" in text
    assert [line.split()[0] for line in text.splitlines() if line.endswith("not counted")] == ["lead-in"]
    text = steps_answer(Part(trace)).text(80)
    assert "%*" in next(line for line in text.splitlines() if line.startswith("  step 0"))
    assert text.splitlines().count("  * without the lead-in") == 1
    whole = next(line for line in text.splitlines() if line.startswith("  whole"))
    assert "%*" not in whole, "that is of the recording, lead-in and all"


def test_what_a_step_launched_may_run_after_it(tmp_path):
    """Two steps of 50 us on the CPU, each with 400 us for the GPU."""
    queued = [
        (step(n, 50 * n, 50), launch(50 * n + 5, n + 1), kernel(20 + 400 * n, 400, n + 1)) for n in (0, 1)
    ]
    trace = trace_of(tmp_path, *(event for events in queued for event in events))
    note = "compute and kernels: of what the step launched, whenever it ran"
    assert note in steps_answer(Part(trace)).text(80)
    alone = trace_of(
        tmp_path, *(e for n in (0, 1) for e in (step(n, 500 * n, 500), *run(500 * n + 9, 400, n + 1)))
    )
    assert note not in steps_answer(Part(alone)).text(80)


def test_compiling_is_not_called_ops(tmp_path):
    """First before any kernel, then in a gap; what comes after that gap is an op's own time."""
    phases = [cpu("bytecode_tracing (dynamo_timed)", at, 480) for at in (0, 1000)]
    work = [*run(500, 50, 1), *run(600, 50, 2), *run(1500, 50, 3), *run(1900, 50, 4)]
    results = Part(trace_of(tmp_path, *phases, cpu("aten::mm", 1560, 330), *work))
    assert "(dispatch: mostly torch.compile)" in gaps_answer(results).text(100)
    texts = [cause_text(results, gap) for gap in range(3)]
    assert "mostly torch.compile" in texts[1]
    assert "dispatch: the CPU was in PyTorch ops" in texts[2]


@pytest.mark.parametrize("width", [60, 80])
def test_numbers_wrap(tmp_path, width):
    long = [launch(500, 90, 600_000), kernel(600_510, 5, 90, name="new")]
    trace = trace_of(tmp_path, *run(0, 5, 1), *run(100, 5, 2), *run(200, 5, 3), *run(300, 5, 4), *long)
    lines = summary_answer(Part(trace)).text(width).splitlines()
    assert "(median)" in " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= width


def test_a_star_has_its_footnote(tmp_path):
    """Only outside of the steps something does not count: work from before the recording."""
    events = [cpu("aten::mm", 0, 10), kernel(50, 50, 9), step(0, 200, 800), *run(210, 780, 1)]
    text = steps_answer(Part(trace_of(tmp_path, *events))).text(80)
    assert "step 0  " in text
    assert "%*" in text.split("outside")[1].splitlines()[0]
    assert "* without work in flight" in text


@pytest.mark.parametrize(("length", "star"), [(10_000, True), (100_000, False)])
def test_what_no_number_shows_has_no_star(tmp_path, length, star):
    """The first step's work comes 30 us late: 0.3% of the step, or 0.03%."""
    events = []
    for n in range(3):
        at, late = length * n, 30 if n == 0 else 10
        events += [step(n, at, length), *run(at + late, length - 10 - late, n + 1)]
    results = Part(trace_of(tmp_path, *events))
    assert dict(steps_of(results).rows[0].verdict.left_out) == {"lead-in": 30_000}
    assert ("%*" in steps_answer(results).text(80)) is star


def test_idle_time_that_is_mostly_a_loader_is_called_so(tmp_path):
    """Also where it runs ops of its own, but not where the rest of the time may be longer."""
    loader = cpu("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 50, 400, "user_annotation")
    kernels = [*run(20, 10, 1), *run(600, 400, 2)]

    def text(*more: Event) -> str:
        return summary_answer(Part(trace_of(tmp_path, *kernels, loader, *more))).text(90)

    assert "mostly a DataLoader" in text()
    assert "mostly a DataLoader" in text(cpu("aten::stack", 60, 100))
    assert "mostly a DataLoader" not in text(cpu("aten::stack", 60, 250))
    assert "mostly a DataLoader" not in text(step(0, 0, 2000))


GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"


def test_the_first_names_of_a_summary(tmp_path):
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


def test_overlap_is_of_the_whole_recording(tmp_path):
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


def test_the_time_before_the_first_work_is_that_of_the_device_that_began_first(tmp_path):
    def of(device: int, start: float, n: int) -> Event:
        event = kernel(start, 2, n, pid=device)
        return event | {"args": event["args"] | {"device": device}}

    calls = [cpu("aten::mm", 0, 90), launch(80, 1), launch(85, 2)]
    events = [*calls, of(0, 300, 1), of(1, 100, 2), of(0, 320, 3)]
    assert _until_first_work(Part(trace_of(tmp_path, *events)), "lead-in").span == (0, 100_000)


def test_shares_of_the_ops_of_a_trace_without_a_device(tmp_path):
    trace = trace_of(tmp_path, cpu("aten::mm", 0, 30), cpu("aten::add", 40, 10))
    text = summary_answer(Part(trace)).markdown()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    shares = {row[0].strip("`"): row[2] for row in rows if row and "aten" in row[0]}
    assert shares == {"aten::mm": "75%", "aten::add": "25%"}


def test_the_longest_op_is_one_of_the_steps(tmp_path):
    """What took longer lies before and after them."""
    steps = [step(n, 100 + 100 * n, 100) for n in (1, 2, 3)]
    ops = [cpu(f"in {n}", 110 + 100 * n, 60 + n) for n in (1, 2, 3)]
    trace = trace_of(tmp_path, cpu("before", 0, 150), *steps, *ops, cpu("after", 600, 150))
    event = evidence(Part(trace), "ops").event
    assert event is not None
    assert trace.name_of(event) == "in 3"
