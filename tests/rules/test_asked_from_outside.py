"""What is said of the recording of a process that was running when it was asked for it."""

import pytest
from tests.conftest import COLLECTION
from tests.kineto import Event, cpu, launch, run, step, trace_of
from tests.rules.test_said_of_the_cpu import overhead

from tracetui.analysis.part import Part
from tracetui.analysis.recorded import asked_from_outside
from tracetui.rules import find_findings
from tracetui.trace import Trace, load

ASKED = {"traceName": "/tmp/tracetui-0/recording-1/trace_9.json"}
"""The thread of these events is of process 9."""


@pytest.mark.parametrize(("about", "steps", "asked"), [
    (ASKED, False, True), ({"traceName": "/tmp/tracetui-ab_c1/part.json", "trace_id": "A1"}, False, True),
    (ASKED | {"trace_id": "A1"}, False, False), (ASKED, True, False),
    ({"traceName": "/tmp/trace_8.json"}, False, False), ({"traceName": "trace.json"}, False, False),
    ({}, False, False)
])  # fmt: skip
def test_how_it_is_told(tmp_path, about, steps, asked):
    events = [cpu("aten::mm", 0, 5), *[step(1, 0, 10)] * steps]
    assert asked_from_outside(trace_of(tmp_path, *events, **about)) is asked


def test_a_recording_of_kineto_s():
    path = COLLECTION / "attached" / "h200_500ms.json.gz"
    if not path.exists():
        pytest.skip("no collection of traces")
    assert asked_from_outside(load(path))


def told(trace: Trace) -> dict[str, str]:
    findings = find_findings(Part(trace))
    return {finding.rule: f"{finding.title}. {finding.text} {finding.advice}" for finding in findings}


def test_nothing_is_said_of_a_schedule(tmp_path):
    """The profiler's work and a slow first launch, then six steps, the first of them slow."""
    events: list[Event] = [overhead(0, 2000), launch(2010, 1, 3000), *run(5100, 50, 2)]
    for n in range(6):
        start, length = (6000, 6000) if not n else (12_000 + 1000 * n, 900)
        events.append(cpu("Optimizer.step#SGD.step", start + length - 50, 50, "user_annotation"))
        events += [cpu("aten::mm", start, length - 100), *run(start + length - 110, 100, n + 10)]
    usual, asked = (told(trace_of(tmp_path, *events, **about)) for about in ({}, ASKED))
    assert "schedule" in usual["profiler_overhead"]
    assert "schedule" in usual["initialisation"]
    assert "schedule" in usual["cold_start"]
    assert not any("schedule" in text for text in asked.values())
    assert "The process was running when it was asked for this trace" in asked["initialisation"]
    assert "cold_start" not in asked
    assert "The process was running before it was asked for this trace" in asked["wide_first_step"]
