"""The bars of the averages, and what a column may be without."""

from __future__ import annotations

from pathlib import Path

from tests.kineto import cpu, kernel, run, trace_of

from tracetui.analysis.calls.averages import averages_of
from tracetui.analysis.part import Part
from tracetui.views.averages import BAR, average_columns
from tracetui.views.lines import bar
from tracetui.views.model import LEAST_SENTENCE, Column, fit


def test_bars_are_of_the_longest_kernel_and_annotations_have_none(tmp_path: Path) -> None:
    shadow = kernel(5, 900, 9, cat="gpu_user_annotation", name="phase")
    events = [*run(10, 100, 1, "long"), *run(200, 50, 2, "half"), cpu("phase", 5, 900, "user_annotation")]
    averages = averages_of(Part(trace_of(tmp_path, *events, shadow)))
    columns = average_columns(averages)
    found = {}
    for row, name in enumerate(averages.names):
        if averages.device[row]:
            found[name] = columns["device_bar"].text(row)
    assert found == {"long": bar(1.0, BAR), "half": bar(0.5, BAR), "phase": bar(0.0, BAR)}


def test_one_sentence_among_flexible_columns_needs_little_room() -> None:
    shown = [Column("name"), Column("text", clauses=True), Column("number", width=45, drop=1)]
    least = 2 * LEAST_SENTENCE + 45 + sum(column.after for column in shown[:-1])
    assert least * 3 // 10 > LEAST_SENTENCE  # what two columns without sentences would be given
    assert [column.key for column, _ in fit(shown, least)] == ["name", "text", "number"]
    assert [column.key for column, _ in fit(shown, least - 1)] == ["name", "text"]
