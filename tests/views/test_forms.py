"""Tables in all their forms: every column stands in one, the writers write what the columns say."""

import csv
import io
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from tests.recorded import load

from tracetui.analysis.calls.averages import averages_of, memory_use_of
from tracetui.analysis.part import WHOLE, Part
from tracetui.analysis.rates.efficiency import efficiency_of
from tracetui.analysis.steps.scope import range_scope
from tracetui.analysis.steps.steps import steps_of
from tracetui.rules import find_findings
from tracetui.tui.panes.averages import AnnotationsPane, KernelsPane, OpsPane
from tracetui.views import averages, efficiency, findings, gaps, steps
from tracetui.views.jsonable import dumps
from tracetui.views.lines import plain_text
from tracetui.views.model import Column, Columns, Table, by_key, fit, select_columns
from tracetui.views.writers import aligned, as_csv, as_json, as_markdown, cells, markdown_table, records

SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"
FORMS = ("SCREEN", "TEXT", "MARKDOWN", "JSON", "FILE", "CPU")


@pytest.fixture(scope="module")
def results() -> Part:
    return Part(load(SAMPLES / "train_memory.json.gz"))


def every_table(results: Part) -> list[tuple[ModuleType, Columns]]:
    memory = memory_use_of(results, "op")
    assert memory is not None
    return [
        (averages, averages.average_columns(averages_of(results, "op"), memory, results.trace)),
        (efficiency, efficiency.efficiency_columns(efficiency_of(results).ops)),
        (findings, findings.finding_columns(results.trace, find_findings(results))),
        (gaps, gaps.gap_columns(results)), (steps, steps.step_columns(steps_of(results).rows))
    ]  # fmt: skip


def form_of(module: ModuleType, form: str) -> str:
    """The keys of a form; of several screens, those of all."""
    keys = getattr(module, form, "")
    return keys if isinstance(keys, str) else " ".join(keys.values())


def test_every_column_stands_in_a_form_and_every_form_has_its_columns(results):
    for module, columns in every_table(results):
        named = {key for form in FORMS for key in form_of(module, form).split()}
        assert named == set(columns), module.__name__


def test_a_column_has_what_its_forms_ask_for(results):
    for module, columns in every_table(results):
        name = module.__name__
        shown = select_columns(columns, form_of(module, "SCREEN"))
        assert all(c.title or c.key.endswith(("_bar", "what")) for c in shown), name
        for form in ("JSON", "FILE"):
            shown = select_columns(columns, getattr(module, form, ""))
            assert all(c.fields for c in shown), name
            fields = [field for c in shown for field in c.fields]
            assert len(fields) == len(set(fields)), name


def small() -> Columns:
    lengths = np.array([1500, 20, 7])
    return by_key(
        Column("name", "Name", lambda r: "abc"[r], right=False)
        .with_text("", lambda r: ("a|bc"[r], "accent"), markdown_heading="Name")
        .with_fields(name=lambda at: ["abc"[i] for i in at.tolist()]),
        Column("time", "Time", lambda r: f"{lengths[r]:,}", lambda: lengths)
        .with_text("time", lambda r: f"{lengths[r]:,}", lambda r: f"**{lengths[r]}**")
        .with_fields(time_ns=lambda at: lengths[at].tolist(), long=lambda at: (lengths[at] > 100).tolist()),
    )


def test_shares_of_a_range_are_at_most_all_of_it():
    """Ops launch more in this range of the file than what runs there: 338.7 us against 232.5 us."""
    results = Part(load(SAMPLES / "mlp_eager.json.gz"))
    trace = results.trace
    for scope in (WHOLE, range_scope(380_000, 640_000)):
        found = averages_of(results.in_scope(scope))
        table = averages.averages_table(trace, found, "ops")
        assert table.only is not None
        share = table.column("self_device_share")
        assert share is not None
        shares = [float(text[:-1]) for row in table.only.tolist() if (text := share.text(row)) != "-"]
        ran = int(found.self_device[table.only].sum())
        assert sum(shares) == pytest.approx(100 * ran / max(ran, found.total_self_device), abs=0.1)
        assert max(shares) <= 100
        assert float(table.foot["self_device"].replace(",", "")) == max(ran, found.total_self_device) / 1000
    assert ran > found.total_self_device


def test_aligned_text():
    shown = select_columns(small(), "name time")
    lines = aligned(shown, cells(shown, [0, 1]))
    assert plain_text(lines) == "      time\n  a  1,500\n  |     20\n"
    assert lines[1][1] == ("a", "accent")


def test_markdown():
    assert markdown_table(select_columns(small(), "name time"), [1]) == (
        "| Name | Time |\n| --- | ---: |\n| \\| | **20** |\n"
    )


def test_records_have_the_fields_in_order_of_the_keys():
    found = records(select_columns(small(), "time none name"), np.array([2, 0]))
    assert [list(record.items()) for record in found] == [
        [("time_ns", 7), ("long", False), ("name", "c")], [("time_ns", 1500), ("long", True), ("name", "a")]
    ]  # fmt: skip


def test_files_of_a_table_without_records_have_its_columns():
    table, order = Table(select_columns(small(), "name time"), 3), np.array([2, 0])
    rows = csv.reader(io.StringIO(as_csv(table, order)))
    assert list(rows) == [["name", "time"], ["c", "7"], ["a", "1500"]]
    assert json.loads(as_json(table, order)) == [{"name": "c", "time": 7}, {"name": "a", "time": 1500}]
    assert as_markdown(table, order) == "| Name | Time |\n|:--|--:|\n| c | 7 |\n| a | 1,500 |\n"


def test_no_text_becomes_a_formula():
    texts = ["=cmd|' /C calc'!A0", "+1", "-x", "@sum(A1)", "\t=1", "sound", "a=b", ""]
    made = [{"name": text, "n": -i} for i, text in enumerate(texts)]
    table = Table((), len(texts), records=lambda order: [made[i] for i in order.tolist()])
    rows = list(csv.reader(io.StringIO(as_csv(table, np.arange(len(texts))))))
    assert [row[0] for row in rows[1:]] == ["'" + text for text in texts[:5]] + texts[5:]
    assert [row[1] for row in rows[1:]] == ["0", *(str(-i) for i in range(1, len(texts)))]


@pytest.mark.parametrize("pane", [OpsPane, KernelsPane, AnnotationsPane])
def test_a_narrow_table_shows_what_it_is_sorted_by(pane, results):
    part = pane.__name__.removesuffix("Pane").lower()
    table = averages.averages_table(
        results.trace, averages_of(results, "op"), part, memory=memory_use_of(results, "op")
    )
    first = next(key for key in pane.sort_first.split() if table.column(key))
    for width in (60, 77, 117):
        assert first in [column.key for column, _ in fit(table.columns, width)]


def test_json_of_sums_beyond_64_bits():
    absurd = {"times": [2**70, -(2**64)], "nan": float("nan"), "one": np.int64(3), "yes": True}
    assert json.loads(dumps(absurd)) == {"times": [2.0**70, -(2.0**64)], "nan": None, "one": 3, "yes": True}
    assert json.loads(dumps({"times": [2**62, 1.5]})) == {"times": [2**62, 1.5]}
