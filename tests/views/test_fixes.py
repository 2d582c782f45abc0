"""What to fix first: the rows, what they are worth, and that a newcomer's questions are answered by them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.conftest import COLLECTION, SAMPLES, needed
from tests.kineto import Event, cpu, kernel, launch, step, trace_of

from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.part import Part, Scope
from tracetui.trace import load
from tracetui.views.fixes import MOST, Fix, fixes, fixes_by_time
from tracetui.views.overview import overviews
from tracetui.views.summary import summary_answer


def of(name: str) -> tuple[Fix, ...]:
    return fixes(Part(load(SAMPLES / f"{name}.json.gz")))


def a_step(n: int, sleep: float = 400, own: float = 0) -> list[Event]:
    """`load` sleeps, then three ops of 50 us launch a kernel of 20 each; `own`: the CPU time of a fourth."""
    at, events = 2000.0 * n, [step(n, 2000.0 * n, 1990)]
    events.append(cpu("load", at + 10, sleep, "user_annotation"))
    for k in range(3):
        begin, number = at + 20 + sleep + 60 * k, 10 * n + k + 1
        events += [cpu("aten::mm", begin, 50), launch(begin + 30, number), kernel(begin + 40, 20, number)]
    if own:
        begin, number = at + 20 + sleep + 180, 10 * n + 9
        events += [cpu("SqBackward", begin, own + 60), cpu("aten::mul", begin + own, 50)]
        events += [launch(begin + own + 30, number), kernel(begin + own + 40, 20, number)]
    return events


def made(tmp_path: Path, **options: float) -> Part:
    return Part(trace_of(tmp_path, *(event for n in range(6) for event in a_step(n, **options))))


def test_what_the_user_named_is_told_by_its_name_with_its_worth(tmp_path: Path) -> None:
    part = made(tmp_path, sleep=1200)
    first = fixes(part)[0]
    assert (first.what, first.kind, first.part) == ("load", "annotation", "host")
    assert first.worth_ns == pytest.approx(1_200_000, rel=0.03)
    assert first.worth_ns <= first.time_ns
    assert first.share == pytest.approx(0.6, abs=0.02)
    assert "load" in first.advice
    gaps, at = gaps_of(part), first.target.gap
    assert at is not None
    notes = [i for i in range(len(part.trace)) if part.trace.name_of(i) == "load"]
    inside = part.trace.start[notes]
    assert ((gaps.start[at] <= inside) & (inside < gaps.start[at] + gaps.duration[at])).any()
    assert "the rest" not in [row.what for row in fixes(part)]


def test_without_a_replay_it_is_the_time(tmp_path: Path) -> None:
    part = made(tmp_path, sleep=1200)
    assert {row.measure for row in fixes_by_time(part)} == {"time"}
    assert [row.what for row in fixes_by_time(part)] == [row.what for row in fixes(part)]


def test_an_op_of_the_program_that_is_slow_by_itself_is_what_to_fix(tmp_path: Path) -> None:
    """Its launches come from ops inside it, and neither CUDA graphs nor a compiler help against a sleep."""
    part = Part(trace_of(tmp_path, *(event for n in range(6) for event in a_step(n, sleep=100, own=1300))))
    first = fixes(part)[0]
    assert (first.what, first.kind, first.name) == ("SqBackward", "finding", "slow_calls")
    assert first.why.startswith("each of"), "its name stands beside it"
    assert first.worth_ns == pytest.approx(1_300_000, rel=0.06)
    assert "SqBackward" in first.advice
    assert "autograd.Function" in first.advice
    assert "reduce-overhead" not in first.advice


def test_of_a_real_loader_that_sleeps_it_comes_first() -> None:
    """4 ms a step, of 11.6; the other half of the pair, without the sleep, is that much faster."""
    path = needed(COLLECTION / "interleaved" / "without_sleep.a.json.gz")
    first = fixes(Part(load(path)))[0]
    assert first.what == "load"
    assert first.worth_ns is not None
    assert 4.0e6 <= first.worth_ns <= 4.5e6


@pytest.mark.parametrize(
    ("name", "what", "advice"),
    [
        ("train", "PyTorch's ops", "CUDA graphs"),
        ("llm_decode", "PyTorch's ops", "CUDA graphs"),
        ("mlp_eager", "mul, gelu", "Fuse them"),
        ("mlp_compile", "triton poi: gelu mul", "narrower type"),
        ("attention_naive", "attention", "scaled_dot_product_attention"),
        ("matmul_add_64_cold", "first calls", "Warm up"),
        ("train_ddp", "gelu_backward, copy, mul", "Fuse them"),
    ],
)
def test_the_samples(name: str, what: str, advice: str) -> None:
    first = of(name)[0]
    assert first.what == what
    assert advice in first.advice


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json.gz")), ids=lambda path: path.name.split(".")[0])
def test_every_row_is_a_part_of_a_step(path: Path) -> None:
    part = Part(load(path))
    rows = fixes(part)
    assert len(rows) <= MOST
    for row in rows:
        assert 0 < row.ns <= max(row.time_ns, row.worth_ns or 0)
        assert 0 < row.share <= 1
        assert row.what
        assert row.why
        assert row.advice
        assert (row.worth_ns is None) == (row.measure == "time")
    order = [row.ns if row.rank < 0 else row.rank for row in rows]
    assert order == sorted(order, reverse=True)


def test_first_the_fast_part_then_the_worths() -> None:
    notes = [
        document.fixes and document.fixes.note
        for document in overviews(Part(load(SAMPLES / "train.json.gz")))
    ]
    assert notes[:3] == [None, "time of a step in this recording", "worth, in this recording"]
    assert set(notes[3:]) == {"worth, in this recording"}


def test_json_has_the_rows_with_their_units() -> None:
    data = summary_answer(Part(load(SAMPLES / "train.json.gz"))).data()
    rows = of("train")
    assert [row["name"] for row in data["fixes"]] == [row.what for row in rows]
    assert set(data["fixes"][0]) == {"name", "kind", "of", "worth_ns", "time_ns", "share", "why", "advice"}
    assert data["advice"] == data["fixes"][0]["advice"]


def test_a_part_of_the_trace_has_times_alone() -> None:
    part = Part(load(SAMPLES / "train.json.gz"))
    low, high = part.span
    some = part.in_scope(Scope("range", low, (low + high) // 2, "range"))
    assert {row.measure for row in fixes(some)} == {"time"}
    assert np.isfinite([row.share for row in fixes(some)]).all()
