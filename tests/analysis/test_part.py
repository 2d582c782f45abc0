"""Parts: each fact is found once, whoever asks for it, and a part of the trace has its own."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.recorded import load

from tracetui.analysis.calls import calls
from tracetui.analysis.calls.calls import calls_of, exclusive_time_of
from tracetui.analysis.idle import cpu_time, gap_list, split
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.part import WHOLE, Part
from tracetui.analysis.steps import steps
from tracetui.analysis.steps.scope import range_scope, step_scope, window_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.core import threads
from tracetui.rules import find_findings
from tracetui.views.summary import summary_answer

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture
def llama() -> Part:
    return Part(load(DATA / "llama_train.json.gz"))


def counted(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[int]:
    """How often a function of a module is called from now on, one entry for each call."""
    seen: list[int] = []
    made: Callable[..., Any] = getattr(module, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        seen.append(1)
        return made(*args, **kwargs)

    monkeypatch.setattr(module, name, call)
    return seen


def test_a_summary_makes_each_analysis_once(llama, monkeypatch):
    seen = {
        "gaps": counted(monkeypatch, gap_list, "find_gaps"),
        "what the CPU did": counted(monkeypatch, cpu_time, "CpuTime"),
        "split": counted(monkeypatch, split, "Split"),
        "steps": counted(monkeypatch, steps, "summarize_steps"),
        "calls": counted(monkeypatch, calls, "build_calls"),
    }
    again = counted(monkeypatch, split, "find_gaps"), counted(monkeypatch, cpu_time, "find_gaps")
    summary = summary_answer(llama)
    summary.data(), summary.lines(80), summary.markdown()
    assert {name: len(found) for name, found in seen.items()} == dict.fromkeys(seen, 1)
    assert again == ([], [])


def test_threads_that_ask_at_once_get_one_result(llama, monkeypatch):
    seen = counted(monkeypatch, gap_list, "find_gaps")
    start = threading.Barrier(8)

    def ask(n: int) -> object:
        start.wait()
        return gaps_of(llama.in_scope(WHOLE if n % 2 else None))

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert len(seen) == 1
    assert all(one is found[0] for one in found)


def test_ready_tells_whether_a_result_is_there(llama):
    assert not llama.knows(causes_of)
    causes_of(llama)
    assert llama.knows(causes_of)
    assert llama.knows(gaps_of)


def test_where_memory_is_short_results_are_dropped_and_computed_again(llama, monkeypatch):
    findings, calls_before = find_findings(llama), calls_of(llama)
    assert llama.knows(exclusive_time_of)
    llama.forget(exclusive_time_of, calls_of)
    assert llama.knows(exclusive_time_of), "there is memory"
    assert calls_of(llama) is calls_before
    monkeypatch.setattr(threads, "memory", lambda: threads.NEEDED * len(llama.trace) - 1)
    llama.forget(calls_of)
    assert llama.knows(exclusive_time_of)
    assert calls_of(llama) is not calls_before
    assert calls_of(llama).self_cpu.tolist() == calls_before.self_cpu.tolist()
    short = Part(llama.trace)
    assert find_findings(short) == findings
    assert not short.knows(exclusive_time_of)
    assert short.knows(causes_of)


def test_the_last_part_is_kept(llama):
    first, second = range_scope(0, 20_000_000), range_scope(0, 30_000_000)
    part = llama.in_scope(first)
    assert llama.in_scope(range_scope(0, 20_000_000)) is part
    assert part.in_scope(first) is part
    assert part.in_scope(None) is llama.in_scope(WHOLE) is llama
    assert llama.in_scope(second) is not part
    assert llama.in_scope(first) is not part
    assert steps_of(part) is steps_of(llama)
    assert gaps_of(part) is not gaps_of(llama)


def test_parts_of_a_step_lie_in_its_window(llama):
    part = llama.in_scope(step_scope(llama.trace, 3))
    row = steps_of(llama).rows[part.scope.step]
    assert window_of(part) == row.window
    assert part.span == (row.start, row.start + row.duration)
    assert int(gaps_of(part).duration.sum()) == row.idle
    assert verdict_of(part) is row.verdict
