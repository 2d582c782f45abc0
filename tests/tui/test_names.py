"""Names in tables: those of different events look different, and sort as they look."""

import numpy as np

from tracetui.analysis.calls.averages import averages
from tracetui.analysis.names.short_names import differences, short_names, told_apart
from tracetui.trace import load
from tracetui.tui.tables import drawing
from tracetui.views.averages import averages_table
from tracetui.views.model import Column, arrange

from .conftest import loaded, slice_event, write_trace

SLICED = ("volta_sgemm_128x32_nn", "volta_sgemm_128x32_sliced1x4_nn")


def test_names_that_are_short_alike_say_what_differs():
    assert differences(SLICED) == ["", "sliced1x4"]
    assert differences(["cat<float, 2, 128, 1>(T<128, 1>)", "cat<float, 2, 64, 64>(T<64, 64>)"]) == [
        "128 1", "64"
    ]  # fmt: skip
    assert differences(["f(a*)", "f(a&)"]) == ["#1", "#2"]
    long = "x" * 90
    assert differences([f"{long}1", f"{long}2"]) == ["#1", "#2"]
    shorts, full = ["f", "f", "g", "f", "f"], ["f(int)", "f(bool)", "g", "f(int)", "f(char)"]
    assert told_apart(shorts, full, [0, 0, 0, 0, 1]) == ["f · int", "f · bool", "g", "f · int", "f"]


def test_kernels_of_one_short_name_are_told_apart_in_the_averages_and_sort_as_shown(tmp_path):
    kernels = [
        slice_event(name, 10 * n, 5, 7, cat="kernel", args={"device": 0, "stream": 7})
        for n, name in enumerate((*SLICED, "void Cat<float>(float*)", "ampere_sgemm_32x32_nn"))
    ]
    trace = load(write_trace(tmp_path / "t.json", kernels))
    table = averages_table(trace, averages(trace))
    column = table.column("name")
    assert column is not None
    shown = [column.text(row) for row in range(table.rows)]
    assert len(set(shown)) == len(shown)
    assert any(name.endswith(" · sliced1x4") for name in shown)
    by_name = [shown[row] for row in arrange(table, "name", False)]
    assert by_name == sorted(by_name, key=str.casefold)
    trace = loaded("llama_train")
    table = averages_table(trace, averages(trace))
    column = table.column("name")
    assert column is not None
    shown = [column.text(row) for row in range(table.rows) if table.columns[1].text(row) == "GPU"]
    assert len(set(shown)) == len(shown)


def test_short_names_of_many_events():
    trace = loaded("mlp_eager")
    found = short_names(trace, np.array([3, -1, 5, 3]))
    assert found[0] == found[3] != ""
    assert found[1] == ""
    assert short_names(trace, np.zeros(0, dtype=np.int64)) == []


def test_a_cut_name_keeps_both_ends():
    name = "aten::cudnn_convolution_" + "y" * 5000 + "_backward"
    shown = drawing._cell(Column("name", "Name", lambda r: name, None, 20, False, ends=True), 0, 20)
    assert shown == "aten::cud…y_backward"
