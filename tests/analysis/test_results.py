"""Results: each analysis is made once, whoever asks for it, and a part of the trace has its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.recorded import load

from tracetui.analysis.calls import calls
from tracetui.analysis.idle import cpu_time, gaps, split
from tracetui.analysis.results import Results
from tracetui.analysis.steps import steps
from tracetui.analysis.steps.scope import WHOLE, range_scope, step_scope
from tracetui.core import threads as machine
from tracetui.rules import find_findings
from tracetui.views.summary import summarize, summary_json, summary_lines, summary_markdown

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture
def llama() -> Results:
    return Results(load(DATA / "llama_train.json.gz"))


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[int]:
    """How often a function of a module is called from now on, one entry for each call."""
    seen: list[int] = []
    made: Callable[..., Any] = getattr(module, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        seen.append(1)
        return made(*args, **kwargs)

    monkeypatch.setattr(module, name, call)
    return seen


def test_a_summary_makes_each_analysis_once(llama: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {
        "gaps": counted(monkeypatch, gaps, "find_gaps"),
        "what the CPU did": counted(monkeypatch, cpu_time, "CpuTime"),
        "split": counted(monkeypatch, split, "Split"),
        "steps": counted(monkeypatch, steps, "summarize_steps"),
        "calls": counted(monkeypatch, calls, "build_calls"),
    }
    again = counted(monkeypatch, split, "find_gaps"), counted(monkeypatch, cpu_time, "find_gaps")
    summary = summarize(llama)
    summary_json(summary), summary_lines(summary, 80), summary_markdown(summary)
    assert {name: len(found) for name, found in seen.items()} == dict.fromkeys(seen, 1)
    assert again == ([], [])


def test_threads_that_ask_at_once_get_one_result(llama: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = counted(monkeypatch, gaps, "find_gaps")
    start = threading.Barrier(8)

    def ask(n: int) -> object:
        start.wait()
        return llama.within(WHOLE if n % 2 else None).gaps()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert len(seen) == 1
    assert all(one is found[0] for one in found)


def test_ready_tells_whether_a_result_is_there(llama: Results) -> None:
    assert not llama.ready("causes")
    llama.causes()
    assert llama.ready("causes")
    assert llama.ready("gaps")


def test_where_memory_is_short_results_are_dropped_and_computed_again(
    llama: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings, calls_before = find_findings(llama), llama.calls()
    assert llama.ready("own_time")
    llama.forget("own_time", "calls")
    assert llama.ready("own_time"), "there is memory"
    assert llama.calls() is calls_before
    monkeypatch.setattr(machine, "memory", lambda: machine.NEEDED * len(llama.trace) - 1)
    llama.forget("calls")
    assert llama.ready("own_time")
    assert llama.calls() is not calls_before
    assert llama.calls().self_cpu.tolist() == calls_before.self_cpu.tolist()
    short = Results(llama.trace)
    assert find_findings(short) == findings
    assert not short.ready("own_time")
    assert short.ready("causes")


def test_the_last_part_is_kept(llama: Results) -> None:
    first, second = range_scope(0, 20_000_000), range_scope(0, 30_000_000)
    part = llama.within(first)
    assert llama.within(range_scope(0, 20_000_000)) is part
    assert part.within(first) is part
    assert part.within(None) is llama.within(WHOLE) is llama
    assert llama.within(second) is not part
    assert llama.within(first) is not part
    assert part.steps() is llama.steps()
    assert part.gaps() is not llama.gaps()


def test_parts_of_a_step_lie_in_its_window(llama: Results) -> None:
    part = llama.within(step_scope(llama.trace, 3))
    row = llama.steps().rows[part.scope.step]
    assert part.window == row.window
    assert part.span == (row.start, row.start + row.duration)
    assert int(part.gaps().duration.sum()) == row.idle
    assert part.verdict() is row.verdict
