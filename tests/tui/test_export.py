"""What files get of the panes' tables: the numbers of the trace, with their units, and whole names."""

import csv
import html
import json
from typing import Any

import numpy as np
import pytest

from tracetui.analysis.calls.averages import averages
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.part import Part
from tracetui.analysis.steps.steps import summarize_steps
from tracetui.rules import find_findings
from tracetui.tui.export import ExportError, table_text, write_new
from tracetui.tui.panes.overview import OverviewPane
from tracetui.tui.panes.view import ViewPane
from tracetui.views.averages import averages_table
from tracetui.views.findings import findings_json
from tracetui.views.gaps import field, gaps_table
from tracetui.views.gaps_text import gaps_json
from tracetui.views.model import Column, Table
from tracetui.views.steps import steps_table
from tracetui.views.writers import as_csv, as_json, as_markdown

from .conftest import DATA, pane_of, screen_of, until, visit
from .test_app import text


def read(table: Table) -> list[dict[str, Any]]:
    """The records of a JSON file; a CSV file says the same."""
    order = np.arange(table.rows)
    records: list[dict[str, Any]] = json.loads(as_json(table, order))
    lines = list(csv.DictReader(as_csv(table, order).splitlines(True)))
    assert lines == [{key: "" if value is None else str(value) for key, value in r.items()} for r in records]
    return records


def test_averages_have_shares_units_and_whole_names(llama):
    found = averages(llama)
    records = read(averages_table(llama, found))
    assert [r["name"] for r in records] == list(found.names)
    assert {r["device"] for r in records} == {"CPU", "CUDA"}
    assert [r["self_device_us"] for r in records] == [ns / 1000 for ns in found.self_device.tolist()]
    assert sum(r["self_cpu_share"] for r in records) == pytest.approx(1)
    annotated = (
        r["self_device_share"] for r in records if r["device"] == "CUDA" and not r["user_annotation"]
    )
    assert sum(annotated) == pytest.approx(1)
    row = next(r for r in records if r["name"] == "aten::mm")
    assert row["cpu_average_us"] == pytest.approx(row["cpu_total_us"] / row["calls"])


def test_averages_by_op_say_the_op(llama):
    found = averages(llama, group="op")
    groups = [r["group"] for r in read(averages_table(llama, found))]
    assert groups == list(found.groups)
    assert any("aten::" in group for group in groups)


def test_gaps_are_those_of_the_command(llama):
    results = Part(llama)
    records = read(gaps_table(results))
    (device,) = gaps_json(results)["devices"]
    assert sum(r.pop("share_of_idle") for r in records) == pytest.approx(1)
    for record, gap in zip(records, device["gaps"], strict=True):
        pieces = {field(piece["cause"]): piece["duration_ns"] for piece in gap.pop("pieces")}
        assert {key: time for cause in CAUSES if (time := record.pop(key := field(cause)))} == pieces
    assert [{k: v for k, v in r.items() if k != "device"} for r in records] == device["gaps"]
    assert "duration_ns" in read(gaps_table(results, causes=False))[0]


def test_steps_have_their_names_and_every_cause(llama):
    steps = summarize_steps(llama)
    rows = (*steps.rows, steps.outside, steps.whole)
    records = read(steps_table(steps))
    assert [r["label"] for r in records] == [row.label for row in rows]
    assert [r["busy_share"] for r in records] == [row.busy_share for row in rows]
    for record, row in zip(records, rows, strict=True):
        assert sum(record[f"idle_{field(cause)}"] for cause in CAUSES) == record["idle_ns"] == row.idle


async def test_a_finding_is_one_row_whatever_the_width():
    async with visit(DATA / "llama_train.json.gz", size=(80, 24)) as (_, pilot, screen):
        await pilot.press("8")
        pane = pane_of(screen, ViewPane)
        await until(pilot, lambda: pane.table is not None)
        assert pane.table is not None
        assert len(pane.order) > 2 * len(find_findings(screen.session.active.whole))
        records = json.loads(as_json(pane.table, pane.order))
        expected = findings_json(screen.trace, find_findings(Part(screen.trace)))
        keys = ("rule", "severity", "title", "text", "advice")
        assert [[r[k] for k in keys] for r in records] == [[e[k] for k in keys] for e in expected]
        assert [r["evidence_start_ns"] for r in records] == [e["evidence"][0]["start_ns"] for e in expected]
        assert len(as_markdown(pane.table, pane.order).splitlines()) == 2 + len(expected)
        # Of a filtered table those of which a line is left.
        pane.set_filter(expected[1]["title"][:20])
        assert expected[1]["rule"] in [r["rule"] for r in json.loads(as_json(pane.table, pane.order))]
        assert len(json.loads(as_json(pane.table, pane.order))) < len(expected)
        pane.set_filter("")
        await pilot.press("Y")
        assert f"{len(expected)} of {len(expected)} rows are in the clipboard" in screen.footer.message


def test_a_table_without_rows_makes_no_file(llama):
    table = averages_table(llama, averages(llama))
    with pytest.raises(ExportError, match="no row"):
        table_text(table, np.zeros(0, dtype=np.int64), ".csv")


MLP = DATA / "mlp_eager.json.gz"
SIZE = (120, 36)
VALUES = np.array([1500, 2], dtype=np.int64)
NAMES = ["a|b", 'c,"d"']
TABLE = Table(
    (
        Column("name", "Name", NAMES.__getitem__, lambda: NAMES, 0, False),
        Column("self", "Self", lambda r: f"{VALUES[r] / 1e3:.3f} µs", lambda: VALUES, 12),
    ),
    2,
)
ORDER = np.array([1, 0])


def test_tables_export_whole_numbers_and_escape_what_needs_it():
    rows = list(csv.reader(as_csv(TABLE, ORDER).splitlines()))
    assert rows == [["name", "self"], ['c,"d"', "2"], ["a|b", "1500"]]
    assert json.loads(as_json(TABLE, ORDER)) == [{"name": 'c,"d"', "self": 2}, {"name": "a|b", "self": 1500}]
    assert as_markdown(TABLE, ORDER).splitlines()[3] == "| a\\|b | 1.500 µs |"
    with pytest.raises(ExportError):
        table_text(TABLE, ORDER, ".xls")


def test_a_file_that_is_there_is_never_overwritten(tmp_path):
    target = tmp_path / "t.csv"
    assert write_new(str(target), "x") == target
    with pytest.raises(ExportError, match="already exists"):
        write_new(str(target), "y")
    assert target.read_text() == "x"
    with pytest.raises(ExportError):
        write_new(str(tmp_path / "no" / "t.csv"), "x")


async def test_of_a_table_that_is_not_whole_nothing_is_written(tmp_path, monkeypatch):
    """The overview grows while it is worked out."""
    monkeypatch.chdir(tmp_path)
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        area = screen_of(app).area
        await pilot.press("1")
        await until(pilot, lambda: area.tabs.open == "overview" and area.open and not area.open.busy)
        pane = area.open
        assert isinstance(pane, OverviewPane)
        pane._working = True
        await pilot.press("Y")
        assert "still being worked out" in text(app)
        await pilot.press("E", "enter")
        await until(pilot, lambda: "⚠ this table is still being worked out" in text(app))
        assert not list(tmp_path.iterdir())
        pane._working = False
        await pilot.press("enter")
        await until(pilot, (tmp_path / "mlp_eager-overview.csv").exists)


async def test_export_and_copy_by_keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with visit(MLP, size=SIZE) as (app, pilot, screen):
        await until(pilot, lambda: screen.area.open is not None and screen.area.open.table is not None)
        await pilot.press("E", "enter")
        written = tmp_path / "mlp_eager-ops.csv"
        await until(pilot, written.exists)
        table = list(csv.DictReader(written.read_text().splitlines()))
        assert any(row["name"] == "aten::mm" for row in table)
        await pilot.press("E", "enter")
        await until(pilot, lambda: "mlp_eager-ops.csv already exists" in text(app))
        await pilot.press("escape")
        before = text(app)
        for name in ("picture.svg", "picture.txt"):
            await pilot.press("E", "ctrl+u", *name, "enter")
            await until(pilot, (tmp_path / name).exists)
        # The picture is that of before the question.
        lines = (tmp_path / "picture.txt").read_text().splitlines()
        assert [line for line in lines if "export to:" in line] == []
        assert "ProfilerStep#2" in "\n".join(lines)
        assert len(lines) == len(before.rstrip("\n").split("\n"))
        drawn = html.unescape((tmp_path / "picture.svg").read_text()).replace("\xa0", " ")
        assert "<svg" in drawn
        assert "export to:" not in drawn
        assert "Self GPU" in drawn
        await pilot.press("right", "y")
        assert app.clipboard.startswith("name: ")
        await pilot.press("Y")
        assert app.clipboard.startswith("| Name |")
