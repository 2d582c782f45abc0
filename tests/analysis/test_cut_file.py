"""A file whose end is missing. PyTorch writes what the GPU did last, so any of that may be missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.kineto import Event, cpu, run, step

from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import range_scope, step_scope
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.rules import find_findings
from tracetui.trace import Trace, load
from tracetui.views.lines import plain_text
from tracetui.views.summary import metric, summarize, summary_lines

LOADER = cpu("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 700, 200, "user_annotation")
OPS = [event for n in range(4) for event in (step(n, 1000 * n, 990), cpu("aten::mm", 1000 * n + 100, 600))]
WORK: list[Event] = [event for n in range(4) for event in run(1000 * n + 20, 970, n + 1)]


def cut(tmp_path: Path, *events: Event) -> Trace:
    """The trace of these events in a file that ends within the one after."""
    text = json.dumps({"schemaVersion": 1, "traceEvents": [*events, OPS[0]]})
    (tmp_path / "t.json").write_text(text[:-40])
    trace = load(tmp_path / "t.json")
    assert [notice.kind for notice in trace.notices] == ["truncated"]
    return trace


@pytest.mark.parametrize("work", [(), WORK[:4], WORK[4:], WORK])
def test_what_the_gpu_did_is_not_known(tmp_path: Path, work: tuple[Event, ...]) -> None:
    results = Part(cut(tmp_path, *OPS, LOADER, *work))
    for part in (None, range_scope(0, 2_500_000), step_scope(results.trace, 1)):
        verdict = verdict_of(results.within(part))
        assert (verdict.verdict, verdict.busy_share, verdict.parts) == ("not known", None, ())
        assert verdict.reason.startswith("The file is cut off.")
    assert metric(summarize(results), "busy") is None
    text = plain_text(summary_lines(summarize(results), 100))
    assert "idle" not in text
    assert "0.0%" not in text
    assert [row.number for row in steps_of(results).rows] == [0, 1, 2, 3]


def test_what_the_cpu_did_is(tmp_path: Path) -> None:
    (finding,) = find_findings(Part(cut(tmp_path, *OPS, LOADER | {"dur": 280}, *WORK[:2])))
    assert f"{finding.claims['share']}" == "7.1% of the steps"
    assert finding.claims["launches"] is True
