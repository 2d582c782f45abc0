"""A file whose end is missing. PyTorch writes what the GPU did last, so it is known of a part of the time."""

from __future__ import annotations

import json
from pathlib import Path

from tests.kineto import Event, cpu, run, step

from tracetui.analysis.results import Results
from tracetui.analysis.scope import range_scope
from tracetui.trace import Trace, load

OPS = [event for n in range(4) for event in (step(n, 1000 * n, 990), cpu("aten::mm", 1000 * n + 100, 600))]
WORK: list[Event] = [event for n in range(4) for event in run(1000 * n + 20, 970, n + 1)]


def cut(tmp_path: Path, *events: Event) -> Trace:
    """The trace of these events in a file that ends within the one after."""
    text = json.dumps({"schemaVersion": 1, "traceEvents": [*events, OPS[0]]})
    (tmp_path / "t.json").write_text(text[:-40])
    trace = load(tmp_path / "t.json")
    assert [notice.kind for notice in trace.notices] == ["truncated"]
    return trace


def test_the_time_after_the_last_gpu_event_is_not_idle(tmp_path: Path) -> None:
    results = Results(cut(tmp_path, *OPS, *WORK[:4]))
    verdict, steps = results.verdict(), results.steps()
    assert verdict.verdict == "compute-bound"
    assert verdict.reason.endswith("The file is cut off: what the GPU did after 1,990.000 µs is not known.")
    assert [row.number for row in steps.rows] == [0, 1]
    assert steps.whole.window_idle == steps.whole.duration - steps.whole.busy == 50_000
    assert not {finding.rule for finding in results.findings()} & {
        "overhead_bound",
        "idle_time",
        "little_use",
    }


def test_of_a_part_after_it_nothing_is_known(tmp_path: Path) -> None:
    part = Results(cut(tmp_path, *OPS, *WORK[:4])).within(range_scope(2_500_000, 3_500_000))
    assert (part.verdict().verdict, part.verdict().busy_share) == ("not known", None)
    assert part.verdict().reason.startswith("The file is cut off")


def test_without_gpu_events_it_may_have_had_some(tmp_path: Path) -> None:
    verdict = Results(cut(tmp_path, *OPS)).verdict()
    assert verdict.verdict == "not known"
    assert "what is left of it has no GPU events" in verdict.reason


def test_a_file_with_all_of_its_gpu_events_is_judged_as_ever(tmp_path: Path) -> None:
    results = Results(cut(tmp_path, *OPS, *WORK, *run(4000, 10, 9)))
    assert len(results.steps().rows) == 4
    assert "cut off" not in results.verdict().reason
