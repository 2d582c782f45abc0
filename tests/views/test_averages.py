"""The rows of the averages: their bars, their memory, and what a column may be without."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.kineto import cpu, kernel, memory, run, trace_of
from tests.views.test_efficiency import printed

from tracetui.analysis.calls.averages import averages_of
from tracetui.analysis.part import Part
from tracetui.views.averages import BAR, average_columns
from tracetui.views.lines import bar
from tracetui.views.model import LEAST_SENTENCE, Column, fit
from tracetui.views.pytorch_table import sort_rows


def test_bars_are_of_the_longest_kernel_and_annotations_have_none(tmp_path):
    shadow = kernel(5, 900, 9, cat="gpu_user_annotation", name="phase")
    events = [*run(10, 100, 1, "long"), *run(200, 50, 2, "half"), cpu("phase", 5, 900, "user_annotation")]
    averages = averages_of(Part(trace_of(tmp_path, *events, shadow)))
    columns = average_columns(averages)
    found = {}
    for row, name in enumerate(averages.names):
        if averages.device[row]:
            found[name] = columns["device_bar"].text(row)
    assert found == {"long": bar(1.0, BAR), "half": bar(0.5, BAR), "phase": bar(0.0, BAR)}


def test_one_sentence_among_flexible_columns_needs_little_room():
    shown = [Column("name"), Column("text", clauses=True), Column("number", width=45, drop=1)]
    least = 2 * LEAST_SENTENCE + 45 + sum(column.after for column in shown[:-1])
    assert least * 3 // 10 > LEAST_SENTENCE  # what two columns without sentences would be given
    assert [column.key for column, _ in fit(shown, least)] == ["name", "text", "number"]
    assert [column.key for column, _ in fit(shown, least - 1)] == ["name", "text"]


def test_memory_is_on_the_rows_that_it_belongs_to(tmp_path):
    trace_of(
        tmp_path, cpu("aten::mm", 10, 10), cpu("aten::empty", 12, 5),
        *(memory(at, size) for at, size in ((1, 64), (10, 512), (13, 1024), (20, 256), (21, -32))),
        memory(30, 1, "[OutOfMemory]")
    )  # fmt: skip
    rows = {row["name"]: row for row in json.loads(printed(tmp_path, "table", "--json"))}
    assert {name: row["device_memory_bytes"] for name, row in rows.items()} == {
        "aten::mm": 1792,  # both of its ends included
        "aten::empty": 1024,
        "[memory]": 32,
        "[OutOfMemory]": 0,
    }
    assert rows["aten::mm"]["self_device_memory_bytes"] == 768


def test_rows_by_memory(tmp_path):
    """Without records of memory the order stays."""
    results = Part(trace_of(tmp_path, cpu("a", 0, 5), cpu("b", 10, 5), cpu("c", 20, 5)))
    table, use = averages_of(results, "name"), np.array([1, 3, 2])
    memory: Any = SimpleNamespace(host=use, self_host=use[::-1], device=-use, self_device=use)
    times: Any = None  # not asked
    for column, order in (
        ("cpu_memory_usage", [1, 2, 0]),
        ("self_cpu_memory_usage", [1, 0, 2]),
        ("cuda_memory_usage", [0, 2, 1]),
        ("self_device_memory_usage", [1, 2, 0]),
    ):
        assert sort_rows(table, times, column, memory) == order
        assert sort_rows(table, times, column) == [0, 1, 2]
    with pytest.raises(KeyError):
        sort_rows(table, times, "memory")
