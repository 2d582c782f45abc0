"""Findings as lines of the screen, and as a table of a file."""

import json
from typing import Any

import numpy as np
from tests.kineto import cpu, trace_of

from tracetui.rules.model import Finding
from tracetui.trace.slices import Slices
from tracetui.views.findings import FindingLine, finding_lines, findings_table
from tracetui.views.writers import as_json, as_markdown, row_count

NONE = Slices(None, np.empty(0, dtype=np.int64))  # type: ignore[arg-type]


def finding(*fields: Any) -> Finding:
    return Finding(*fields, device="", claims={}, affected=NONE)


SOME = [
    finding("one", "high", "A title of some words", "A reason that takes two lines.", "Do it.", (1, 0), {}),
    finding("two", "low", "Short", "Because.", "", (2,), {"share": 0.25}),
]


def test_each_part_has_a_label_on_its_first_line():
    assert finding_lines(SOME, 20) == [
        FindingLine(0, "high", "A title of some", True), FindingLine(0, "", "words  [2 events]", True),
        FindingLine(0, "why", "A reason that takes", False), FindingLine(0, "", "two lines.", False),
        FindingLine(0, "try", "Do it.", False), FindingLine(1, "low", "Short  [1 event]", True),
        FindingLine(1, "why", "Because.", False)
    ]  # fmt: skip


def test_a_file_has_one_row_for_all_lines_of_a_finding(tmp_path):
    trace = trace_of(tmp_path, cpu("a", 0, 10), cpu("b", 20, 30), cpu("c", 60, 5))
    lines = finding_lines(SOME, 20)
    table = findings_table(trace, SOME, lines, "none")
    assert [table.columns[0].text(r) for r in range(table.rows)] == [line.label for line in lines]
    assert [table.columns[1].text(r) for r in range(table.rows)] == [line.text for line in lines]
    assert table.dim is not None
    assert [table.dim(r) for r in range(table.rows)] == [False, False, True, True, True, False, True]
    order = np.array([6, 2, 3])
    assert row_count(table, order) == 2
    first, second = json.loads(as_json(table, order))
    assert (first["rule"], first["severity"], first["title"]) == ("two", "low", "Short")
    assert (second["rule"], second["evidence"]) == ("one", 2)
    assert [second[f"evidence_{key}"] for key in ("name", "start_ns", "duration_ns")] == ["b", 20_000, 30_000]
    head, sides, *rows = as_markdown(table, order).splitlines()
    assert head.startswith("| rule | ")
    assert set(sides) == set("|:-")
    assert "--:" not in sides
    assert [row.split(" | ")[0] for row in rows] == ["| two", "| one"]
    assert "None" not in as_markdown(table, order)
