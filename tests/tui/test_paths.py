"""Paths that people type, and names of traces of any length."""

from pathlib import Path

import pytest
from tests.conftest import ROOT

from tracetui.cli.open import open_command
from tracetui.formats.encodings import ENCODINGS
from tracetui.session.paths import (
    COMPRESSED,
    TRACE_ENDINGS,
    is_file_name,
    may_be_trace,
    meta_file,
    trace_stem,
    typed_path,
)
from tracetui.trace import load
from tracetui.tui.export import ExportError, write_new
from tracetui.tui.topline import trace_name

from .conftest import screen_of, slice_event, until, visit, write_trace
from .test_app import text


def test_a_home_is_found_and_one_of_nobody_stays_as_typed(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    assert typed_path(" ~/x.svg ") == Path("/home/ann/x.svg")
    assert typed_path("~nosuchuser/x.svg") == Path("~nosuchuser/x.svg")


@pytest.mark.parametrize("name", ["a.json.gz", "a.json", "a"])
def test_a_trace_s_stem_and_what_lies_beside_it(name):
    assert trace_stem(f"dir/{name}") == "a"
    assert meta_file(f"dir/{name}") == Path("dir/a.meta.json")


def test_what_is_known_by_the_ending_of_a_trace():
    for ending in TRACE_ENDINGS:
        assert trace_stem(f"a.b{ending}") == "a.b"
        assert may_be_trace(f"a{ending}")
        assert is_file_name(f"a{ending}")
    assert not may_be_trace("a.meta.json")
    assert not may_be_trace("a.gz")
    assert is_file_name("a.gz")
    assert not is_file_name("json")


def test_endings_are_those_of_the_encodings_and_stand_in_the_help_and_the_page_of_commands():
    assert {encoding.SUFFIX for encoding in ENCODINGS} == {"", *COMPRESSED}
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for ending in TRACE_ENDINGS:
        assert f"`{ending}`" in page, ending
        assert f"{ending}," in (open_command.help or ""), ending


@pytest.mark.parametrize("path", ["~nosuchuser/x.svg", "x" * 300, "no/x.svg", "a\0b", "."])
def test_what_cannot_be_written_is_told(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExportError):
        write_new(path, "text")
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_encoded_leaves_no_file(tmp_path):
    with pytest.raises(ExportError, match="cannot be written"):
        write_new(str(tmp_path / "x.txt"), "\ud800")
    assert list(tmp_path.iterdir()) == []


async def test_a_name_as_long_as_can_be_is_shown(tmp_path):
    path = write_trace(tmp_path / ("n" * 250 + ".json"), [slice_event("a", 0, 5)])
    async with visit(path, size=(80, 24)) as (app, pilot, _):
        await until(pilot, lambda: "nnnn" in text(app).split("\n")[0])
        assert trace_name(screen_of(app).trace) == "n" * 79 + "…"


def test_a_capture_is_named_with_its_folder_from_wherever_it_is_opened(tmp_path, monkeypatch):
    folder = tmp_path / "mlp"
    folder.mkdir()
    write_trace(folder / "eager.json", [slice_event("a", 0, 5)])
    meta_file(folder / "eager.json").write_text("{}")
    monkeypatch.chdir(folder)
    for path in ("eager.json", "../mlp/eager.json", str(folder / "eager.json")):
        assert trace_name(load(path)) == "mlp/eager.json"
