"""Tables and pictures written to files and copied, by the keys for it."""

from __future__ import annotations

import csv
import html
import json
from pathlib import Path

import numpy as np
import pytest

from tracetui.tui.export import ExportError, table_text, write_new
from tracetui.tui.panes.overview import OverviewPane
from tracetui.views.model import Column, Table
from tracetui.views.writers import as_csv, as_json, as_markdown

from .conftest import DATA, screen_of, until, visit
from .test_app import text

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


def test_tables_export_whole_numbers_and_escape_what_needs_it() -> None:
    rows = list(csv.reader(as_csv(TABLE, ORDER).splitlines()))
    assert rows == [["name", "self"], ['c,"d"', "2"], ["a|b", "1500"]]
    assert json.loads(as_json(TABLE, ORDER)) == [{"name": 'c,"d"', "self": 2}, {"name": "a|b", "self": 1500}]
    assert as_markdown(TABLE, ORDER).splitlines()[3] == "| a\\|b | 1.500 µs |"
    with pytest.raises(ExportError):
        table_text(TABLE, ORDER, ".xls")


def test_a_file_that_is_there_is_never_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "t.csv"
    assert write_new(str(target), "x") == target
    with pytest.raises(ExportError, match="already exists"):
        write_new(str(target), "y")
    assert target.read_text() == "x"
    with pytest.raises(ExportError):
        write_new(str(tmp_path / "no" / "t.csv"), "x")


async def test_of_a_table_that_is_not_whole_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_export_and_copy_by_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
