"""The tables of a comparison, recomputed step by step."""

import math

import numpy as np
import pytest
from tests.conftest import SAMPLES
from tests.kineto import Event, cpu, run, step, trace_of

from tracetui.analysis.calls.averages import Averages, averages, averages_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import step_table_of
from tracetui.compare.compare import compare, compare_steps
from tracetui.compare.model import Comparison, Metric
from tracetui.core.units import ratio_text
from tracetui.trace import load
from tracetui.views.compare import _noise, change_text, spread_text, value_text
from tracetui.views.compare_averages import (
    MEASURES,
    JoinedAverages,
    averages_records,
    averages_table,
    joined_averages,
)
from tracetui.views.compare_text import Report, compare_blocks
from tracetui.views.document_text import report_lines
from tracetui.views.lines import plain_text
from tracetui.views.model import arrange, fit
from tracetui.views.writers import TABLE_ENDINGS, table_text

Key = tuple[str, bool, bool]


@pytest.fixture(scope="module")
def pair() -> Comparison:
    return compared("mlp_eager", "mlp_compile")


def compared(one: str, other: str) -> Comparison:
    return compare(*(Part(load(SAMPLES / f"{name}.json.gz")) for name in (one, other)))


def summed(tables: list[Averages]) -> dict[Key, dict[str, int]]:
    """Rows of several tables, added up one by one."""
    found: dict[Key, dict[str, int]] = {}
    for table in tables:
        for row in table.rows():
            sums = found.setdefault((row.name, row.device, row.annotation), dict.fromkeys(MEASURES, 0))
            for measure in MEASURES:
                sums[measure] += getattr(row, measure)
    return {key: sums for key, sums in found.items() if sums["calls"]}


def steps_of(results: Part, which: list[int]) -> list[Averages]:
    table = step_table_of(results)
    return [averages(results.trace, table.scope(i)) for i in which]


def agrees(
    joined: JoinedAverages, side: dict[str, np.ndarray], expected: dict[Key, dict[str, int]], by: int
) -> None:
    """Every row of one side: the same sums, divided by the number of steps; rows of the other side have 0."""
    keys = list(zip(joined.names, joined.device.tolist(), joined.annotation.tolist(), strict=True))
    assert len(set(keys)) == len(keys)
    assert set(expected) <= set(keys)
    for row, key in enumerate(keys):
        for measure in MEASURES:
            sums = expected.get(key, dict.fromkeys(MEASURES, 0))
            assert side[measure][row] == pytest.approx(sums[measure] / by), (key, measure)


@pytest.mark.parametrize(
    "names", [("mlp_eager", "mlp_compile"), ("train", "train_memory"), ("mlp_eager", "train")]
)
def test_averages_are_the_mean_of_the_steps(names):
    found = compared(*names)
    joined = joined_averages(found)
    for side, columns in ((found.a, joined.a), (found.b, joined.b)):
        count = len(step_table_of(side.part))
        agrees(joined, columns, summed(steps_of(side.part, list(range(count)))), count)


def test_of_one_step_and_the_others():
    results = Part(load(SAMPLES / "mlp_eager.json.gz"))
    joined = joined_averages(compare_steps(results, 1))
    agrees(joined, joined.a, summed(steps_of(results, [0, 2])), 2)
    agrees(joined, joined.b, summed(steps_of(results, [1])), 1)


def test_of_recordings_without_steps_they_are_pytorchs():
    found = compared("matmul_add_64_cold", "linear")
    if found.per_step:
        found = compare(found.a.part, Part(load(SAMPLES / "mlp_liger.json.gz")))
    wholes = [one.part for one in (found.a, found.b)]
    joined = joined_averages(compare(*(_without_steps(results) for results in wholes)))
    for results, columns in zip(wholes, (joined.a, joined.b), strict=True):
        agrees(joined, columns, summed([averages_of(results)]), 1)


def _without_steps(results: Part):
    from tracetui.compare.sides import side_of

    return side_of(results, [])


def test_rows_go_from_the_largest_difference_to_the_least(pair):
    joined = joined_averages(pair)
    away = np.where(joined.device & joined.annotation, 0, np.abs(joined.change("self_device")))
    assert (np.diff(away) <= 0).all()
    assert joined.names[0] == "triton_poi_fused__unsafe_view_gelu_mul_0"
    first = int(joined.first_b[0])
    assert pair.b.trace.name_of(first) == joined.names[0]
    assert joined.first_a[0] == -1
    starts = pair.b.trace.start[pair.b.trace.name == pair.b.trace.name[first]]
    assert pair.b.trace.start[first] == starts.min()


def test_every_row_is_in_one_part(pair):
    joined = joined_averages(pair)
    parts = [joined.parts[name] for name in ("ops", "kernels", "annotations")]
    assert sorted(np.concatenate(parts)) == list(range(len(joined)))
    assert all(joined.device[row] for row in joined.parts["kernels"])
    assert averages_table(pair, joined, "kernels").count == len(joined.parts["kernels"])


def test_with_a_device_its_time_comes_first(pair):
    keys = [column.key for column in averages_table(pair, part="kernels").columns]
    assert keys[2:4] == ["self_device_a", "self_device_b"]
    keys = [column.key for column in averages_table(pair).columns if column.key.endswith("_a")]
    assert keys[:2] == ["self_device_a", "self_cpu_a"]


def test_tables_sort_by_each_number(pair):
    table = averages_table(pair)
    for column in table.columns:
        if column.values is None or not isinstance(column.values(), np.ndarray):
            continue
        rows = arrange(table, column.key, True)
        values = np.asarray(column.values(), dtype=float)[rows]
        known = values[~np.isnan(values)]
        assert (np.diff(known) <= 0).all(), column.key
        assert np.isnan(values[len(known) :]).all(), column.key


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_narrow_tables_keep_the_difference(pair, width):
    keys = [column.key for column, _ in fit(averages_table(pair).columns, width)]
    assert {"name", "self_device_change"} <= set(keys)
    for measure in MEASURES:
        shown = [key for key in keys if key in (f"{measure}_a", f"{measure}_b")]
        assert not shown or f"{measure}_change" in keys, (width, keys)


def test_new_and_gone(pair):
    ratio = averages_table(pair).column("self_device_ratio")
    assert ratio is not None
    texts = {joined.strip(): ratio.text(row) for row, joined in enumerate(joined_averages(pair).names)}
    assert texts["triton_poi_fused__unsafe_view_gelu_mul_0"] == "new"
    assert texts["aten::mul"] == "gone"
    assert texts["aten::mm"] == "1.00"
    assert texts["aten::t"] == "-"


def test_files_of_the_tables(pair):
    table = averages_table(pair)
    rows = np.arange(table.rows)
    for ending in TABLE_ENDINGS:
        assert table_text(table, rows, ending).count("\n") > table.rows


def test_a_recording_of_the_cpu_alone(tmp_path):
    """CPU time comes first, and columns of the GPU have nothing to say."""
    sides = []
    for n, slow in enumerate((1.0, 3.0)):
        events = [step(i, i * 100, 90) for i in range(2)]
        events += [cpu("aten::add", i * 100 + 10, 10) for i in range(2)]
        events += [cpu("aten::mul", i * 100 + 30, 10 * slow) for i in range(2)]
        (tmp_path / str(n)).mkdir()
        sides.append(Part(trace_of(tmp_path / str(n), *events)))
    found = compare(*sides)
    joined = joined_averages(found)
    assert not joined.any_device
    row = averages_records(joined, found, joined.parts["ops"])[0]
    assert (row["name"], row["self_cpu_a_us"], row["self_cpu_change_us"]) == ("aten::mul", 10, 20)
    keys = [column.key for column in averages_table(found).columns]
    assert keys[2:6] == ["self_cpu_a", "self_cpu_b", "self_cpu_change", "self_cpu_ratio"]
    assert not [key for key in keys if "device_" in key]


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(None, "-"), (math.inf, "-"), (math.nan, "-"), (0, "0"), (0.0004, "<0.001"), (0.0769, "0.077"),
     (0.1, "0.10"), (1.344, "1.34"), (12.55, "12.6"), (1234.5, "1,234")],
)  # fmt: skip
def test_ratios(ratio, text):
    assert ratio_text(ratio) == text


def test_values_and_changes():
    assert value_text("step_ns", 10_797_315.0) == "10.8 ms"
    assert value_text("launches", 7.0) == "7"
    assert value_text("launches", 7.5) == "7.5"
    assert value_text("kernels", 12345.5) == "12,346"
    assert value_text("busy_share", 0.9618) == "96.2%"
    assert value_text("busy_share", None) == "-"
    assert change_text("step_ns", -12_400.0) == "-12.4 µs"
    assert change_text("launches", 1.0) == "+1"
    assert change_text("launches", 0.0) == "-"
    assert change_text("busy_share", -0.0394) == "-3.9 points"
    assert change_text("busy_share", 0.0001) == "+<0.1 points"
    assert change_text("busy_share", None) == "-"
    assert spread_text("step_ns", (240_159.0, 337_110.0)) == "240 .. 337 µs"
    assert spread_text("step_ns", (999.0, 1_500.0)) == "999 ns .. 1.50 µs"
    assert spread_text("launches", (6.0, 7.0)) == "6 .. 7"
    assert spread_text("step_ns", (1_062_165.0, 1_063_126.0)) == "1.06 ms"
    assert spread_text("launches", (7.0, 7.0)) == ""
    assert spread_text("busy_share", (0.93, 0.97)) == "93.0% .. 97.0%"
    assert spread_text("busy_share", None) == ""


def test_bytes_are_never_the_machine_s():
    within = Metric(100.0, 110.0, True, machine=10.0)
    assert [_noise(name, within, within) for name in ("copied_bytes", "kernels", "device_ns")] == [
        "within noise", "within noise", "the machine"
    ]  # fmt: skip


def test_recordings_without_steps_are_compared_as_a_whole(tmp_path):
    def text(*events: Event) -> str:
        results = Part(trace_of(tmp_path, *run(10, 20, 1), *run(60, 20, 2), *events))
        return plain_text(report_lines(compare_blocks(Report(compare(results, results), ("a", "b"))), 100))

    assert "as a whole" in text()
    assert "0 steps" not in text()
    stepped = text(step(1, 0, 50), step(2, 50, 50))
    assert "as a whole" not in stepped
    assert "2 steps" in stepped
