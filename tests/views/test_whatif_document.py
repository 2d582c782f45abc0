"""The pane of `whatif`: rows that lead to events, scenarios, and the path through a step."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.conftest import SAMPLES

from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import step_windows_of
from tracetui.trace import Trace, load
from tracetui.views.document import Document, Entry
from tracetui.views.whatif import whatif_answer
from tracetui.views.whatif_document import PIECES


def documents(name: str) -> tuple[Trace, list[Document]]:
    part = Part(load(SAMPLES / f"{name}.json.gz"))
    made = whatif_answer(part).documents
    assert made is not None
    return part.trace, list(made())


def block(document: Document, key: str) -> tuple[Entry, ...]:
    return next(block.entries for block in document.blocks if block.key == key)


@pytest.mark.parametrize("name", ["train", "llm_decode", "mlp_eager"])
def test_the_rows_are_those_of_json_and_lead_to_the_longest(name: str) -> None:
    trace, (first, last) = documents(name)
    found = whatif_answer(Part(trace)).data()["worths"]
    rows = block(first, "worths")
    assert rows == block(last, "worths")
    assert len(rows) == len(found)
    for row, one in zip(rows, found, strict=True):
        event = row.target.event
        assert (event is None) == (one["kind"] == "cause")
        if event is not None:
            same = [i for i in range(len(trace)) if trace.name_of(i) == one["name"]]
            assert trace.name_of(event) == one["name"]
            assert trace.duration[event] <= max(int(trace.duration[i]) for i in same)


def test_scenarios_are_those_of_the_command() -> None:
    from click.testing import CliRunner

    from tracetui.cli.main import main

    _, (_, last) = documents("train")
    numbers = {row.name: row.numbers[0] for row in block(last, "scenarios")}
    for name, option in (("launches in one call", ("--graphs",)), ("a CPU twice as fast", ("--cpu", "2x"))):
        ran = CliRunner().invoke(main, ["whatif", str(SAMPLES / "train.json.gz"), *option, "--json"])
        assert numbers[name] == f"{json.loads(ran.stdout)['predicted_ns']['value'] / 1e6:.3g} ms"


@pytest.mark.parametrize("name", ["train", "llm_decode", "mlp_eager"])
def test_the_path_lies_in_one_step_in_order_without_overlap(name: str) -> None:
    trace, (_, last) = documents(name)
    rows = block(last, "path")
    assert 0 < len(rows) <= PIECES
    low, high = step_windows_of(Part(trace))
    times = []
    for row in rows:
        if row.target.event is not None:
            start = int(trace.start[row.target.event])
            times.append((start, start + int(trace.duration[row.target.event])))
        else:
            assert row.target.span is not None
            times.append(row.target.span)
    step = int(np.searchsorted(low, times[-1][0], side="right")) - 1
    assert times == sorted(times)
    assert all(start < high[step] and end > low[step] for start, end in times)
    assert sum(float(row.numbers[1].strip("<%")) for row in rows) <= 100
