"""Marks and notes: kept beside the trace, listed, edited, exported, and harmless whoever wrote the file."""

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from textual.events import Paste

from tracetui.session.marks import (
    LABEL_LIMIT,
    NOTE_LIMIT,
    Mark,
    Marks,
    event_of,
    mark_on,
    next_mark,
    note_text,
    one_line,
    read_marks,
    save_marks,
    with_mark,
)
from tracetui.session.state import state_file, write_state
from tracetui.tui.app import TracetuiApp
from tracetui.tui.screens.marks import EARLIER, MarksScreen, rest_of_note
from tracetui.tui.screens.note import NoteScreen
from tracetui.tui.screens.trace import TraceScreen

from .conftest import DATA, app_of, loaded, screen_of, sheet_lines, slice_event, until, visit, write_trace
from .test_app import text

MLP = DATA / "mlp_eager.json.gz"
SIZE = (80, 24)


def load_marks(path: str, folder: Path) -> list[Mark]:
    return read_marks(state_file("marks", path, folder)).marks


def kept_in(state: Path) -> dict[str, Any]:
    """What the only file of marks holds."""
    (file,) = (state / "marks").glob("*.json")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def listed(app: TracetuiApp) -> MarksScreen:
    assert isinstance(app.screen, MarksScreen)
    return app.screen


# The list of marks
def test_marks_are_kept_by_file_and_an_empty_label_takes_one_away(tmp_path):
    marks = with_mark(with_mark([], Mark(20, " two ")), Mark(10, "one\x1b[2J", "a\nb", "aten::mm", "s7", 5))
    assert marks == [Mark(10, "one␛[2J", "a\nb", "aten::mm", "s7", 5), Mark(20, "two")]
    assert save_marks("a.json", marks, tmp_path)
    assert load_marks("a.json", tmp_path) == marks
    assert load_marks("b.json", tmp_path) == []
    assert not save_marks("-", marks, tmp_path)
    assert with_mark(marks, Mark(20, "")) == [marks[0]]
    assert with_mark(marks, Mark(20, "", "\n\nwhy?\nno")) == [marks[0], Mark(20, "why?", "why?\nno")]
    assert [next_mark(marks, t) for t in (0, 10, 20)] == [marks[0], marks[1], marks[0]]
    assert next_mark([], 0) is None


def test_files_of_older_versions_are_read(tmp_path):
    file = state_file("marks", "a.json", tmp_path)
    assert write_state(file, {"path": "a.json", "marks": [{"time_ns": 5, "label": "old"}]})
    assert load_marks("a.json", tmp_path) == [Mark(5, "old")]


@pytest.mark.parametrize("spoilt", [
    b"", b"\xff\xfe", b"[]", b"{", b"[" * 100_000, b'{"marks": 5}',
    b'{"marks": [5, null, [], {}, {"time_ns": "1", "label": "x"}, {"time_ns": 1}]}',
    b'{"marks": [{"time_ns": Infinity, "label": "x"}, {"time_ns": 1e400, "label": "x"}]}',
    b'{"marks": [{"time_ns": ' + b"9" * 400 + b', "label": "x"}, {"time_ns": true, "label": "x"}]}'
])  # fmt: skip
def test_a_spoilt_file_is_as_good_as_none(tmp_path, spoilt):
    file = state_file("marks", "a.json", tmp_path)
    file.parent.mkdir()
    file.write_bytes(spoilt)
    assert load_marks("a.json", tmp_path) == []
    marks = Marks("a.json", None, tmp_path)
    assert not marks.whole
    marks.put(Mark(1, "new"))
    assert load_marks("a.json", tmp_path) == [Mark(1, "new")]
    aside = file.with_suffix(".bad")
    assert aside.read_bytes() == spoilt
    assert aside.name in marks.trouble
    marks.put(Mark(2, "newer"))
    assert (marks.trouble, len(list(file.parent.iterdir()))) == ("", 2)


def test_every_file_that_cannot_be_read_is_put_aside_and_none_written_over(tmp_path):
    file = state_file("marks", "a.json", tmp_path)
    assert file is not None
    marks = Marks("a.json", None, tmp_path)
    for n, spoilt in enumerate(("one", "two")):
        marks.put(Mark(n, f"mark {n}"))
        file.write_text(spoilt)
        marks.put(Mark(n + 10, f"mark {n + 10}"))
        assert marks.kept
    assert [p.read_text() for p in sorted(file.parent.glob("*.bad"))] == ["two", "one"]
    assert [m.time for m in load_marks("a.json", tmp_path)] == [0, 1, 10, 11]


def test_a_file_that_can_be_neither_read_nor_moved_stays(tmp_path, monkeypatch):
    file = state_file("marks", "a.json", tmp_path)
    file.parent.mkdir()
    file.write_text("{")

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "rename", refused)
    marks = Marks("a.json", None, tmp_path)
    marks.put(Mark(1, "one"))
    marks.put(Mark(2, "two"))
    assert [m.label for m in marks.here] == ["one", "two"]
    assert (marks.kept, marks.trouble[:9], file.read_text()) == (False, "not saved", "{")


def test_one_more_than_can_be_kept_is_not_made(tmp_path, monkeypatch):
    monkeypatch.setattr("tracetui.session.marks.MOST", 3)
    marks = Marks("a.json", None, tmp_path)
    for n in range(4):
        assert marks.trouble == ""
        marks.put(Mark(n, f"mark {n}"))
    assert marks.trouble == "not made: there are 3 marks already"
    marks.put(Mark(0, "changed"))
    assert marks.trouble == ""
    assert [m.label for m in marks.here] == ["changed", "mark 1", "mark 2"]
    assert load_marks("a.json", tmp_path) == marks.all


def test_a_mark_of_an_older_version_becomes_one_of_the_trace_when_it_is_changed(tmp_path):
    save_marks("a.json", [Mark(5, "old"), Mark(5, "another's", zero=7)], tmp_path)
    marks = Marks("a.json", 8, tmp_path)
    marks.put(Mark(5, "mine", zero=8))
    marks.put(Mark(5, "changed"))
    assert [(m.label, m.zero) for m in marks.all] == [("another's", 7), ("changed", 8)]


def test_what_can_be_read_of_a_file_is_read_and_made_harmless(tmp_path):
    entries = [
        {"time_ns": 9, "label": "\x1b]52;c;AAAA\x07" + "x" * 200, "note": "a\x1b[2J\r\n\u202eb\t|\x00\n\n"},
        "nonsense",
        {"time_ns": 3, "label": 7, "note": "n" * 10**6, "on": {"name": "\x9b31m", "lane": 5}, "zero_ns": "z"},
    ]
    assert write_state(state_file("marks", "a.json", tmp_path), {"marks": entries})
    first, second = load_marks("a.json", tmp_path)
    assert (first.time, first.name, first.lane, first.zero) == (3, "\ufffd31m", "", None)
    assert len(first.note) == NOTE_LIMIT
    assert len(first.label) == LABEL_LIMIT
    assert second.label.startswith("␛]52;c;AAAA␇x")
    assert len(second.label) == LABEL_LIMIT
    assert second.note == "a␛[2J\n\ufffdb    |␀"


def test_a_note_in_one_line():
    assert one_line(Mark(1_500, "slow")) == "slow, at 1.500 µs"
    assert one_line(Mark(1_500, "slow", "it waits\n\n for Ann")) == "slow: it waits / for Ann"
    assert one_line(Mark(1_500, "it waits", "it waits\nfor Ann")) == "it waits / for Ann"
    assert rest_of_note(Mark(0, "it waits", "it waits\nfor Ann")) == "for Ann"
    assert rest_of_note(Mark(0, "x", "it waits")) == "it waits"
    assert rest_of_note(Mark(0, "x")) == "-"
    assert note_text("\n a \r\n\n") == " a"


def test_two_sessions_on_one_trace_do_not_lose_each_other_s_marks(tmp_path):
    one, two = (Marks("a.json", 7, tmp_path) for _ in range(2))
    one.put(Mark(1, "one", zero=7))
    two.put(Mark(2, "two", zero=7))
    assert [m.label for m in two.all] == ["one", "two"]
    one.drop(Mark(2, "two", zero=7))
    assert [m.label for m in load_marks("a.json", tmp_path)] == ["one"]


def test_marks_without_a_place_last_for_the_session(tmp_path):
    (tmp_path / "file").touch()
    for marks in (Marks("-"), Marks("a.json", None, tmp_path / "file")):
        marks.put(Mark(1, "one"))
        marks.put(Mark(2, "two"))
        assert [m.label for m in marks.here] == ["one", "two"]
        assert not marks.kept


def test_marks_of_an_earlier_trace_at_the_path_are_told_apart(tmp_path):
    old = Marks("a.json", 7, tmp_path)
    old.put(Mark(5, "old", zero=7))
    new = Marks("a.json", 8, tmp_path)
    assert (new.here, new.at(5)) == ([], None)
    new.put(Mark(5, "new", zero=8))
    assert [m.label for m in new.here] == ["new"]
    assert sorted(m.label for m in new.all) == ["new", "old"]
    new.drop(old.all[0])
    assert [m.label for m in new.all] == ["new"]


def test_a_mark_finds_its_event_again(llama):
    for event in np.random.default_rng(3).integers(0, len(llama), 50).tolist():
        mark = mark_on(llama, event, 0, "x")
        found = event_of(llama, mark)
        assert found is not None
        assert mark_on(llama, found, 0, "x") == mark
        assert event_of(llama, mark._replace(time=mark.time + 1)) is None
        assert event_of(llama, mark._replace(name="another")) is None
    assert event_of(llama, mark_on(llama, None, 5, "x")) is None


# In the app
async def test_marks_are_there_at_the_next_opening():
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        await pilot.press("right", "m", *"here it is [b]", "enter")
        screen = screen_of(app)
        await until(pilot, lambda: len(screen.session.marks.marks.all) == 1)
        event = screen.navigator.selected
        assert event is not None
        assert screen.session.marks.marks.here == [mark_on(screen.trace, event, 0, "here it is [b]")]
    again = app_of(MLP)
    async with again.run_test(size=SIZE) as pilot:
        screen = screen_of(again)
        assert [m.label for m in screen.session.marks.marks.here] == ["here it is [b]"]
        await pilot.press("w", "w", "M")
        assert "here it is [b]" in screen.footer.message
        assert screen.navigator.selected == event
        assert screen.navigator.view.contains(screen.session.marks.marks.here[0].time)
        await pilot.press("m", *["backspace"] * 20, "enter")
        await until(pilot, lambda: not screen.session.marks.marks.all)
        assert screen.navigator.scene.marks == ()


async def test_marks_that_cannot_be_read_are_put_aside_and_that_is_said(state):
    file = state_file("marks", str(MLP))
    file.parent.mkdir()
    file.write_text('{"marks": [{"time_ns": 5, "lab')
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        await until(pilot, lambda: "cannot be read; their file will be set aside" in text(app))
        await pilot.press("right", "m", "x", "enter")
        await until(pilot, lambda: f"is now marks/{file.stem}.bad" in text(app))
    assert [m["label"] for m in kept_in(state)["marks"]] == ["x"]


async def test_marks_and_lanes_are_kept_where_the_working_directory_goes(tmp_path, state, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    write_trace(folder / "t.json", [slice_event("a", 0, 5), slice_event("b", 0, 5, tid=2)])
    with monkeypatch.context() as at:
        at.chdir(folder)
        async with visit("t.json", size=SIZE) as (app, pilot, _):
            await until(pilot, lambda: "t.json" in text(app))
            shutil.rmtree(folder)
            assert state_file("marks", "t.json", state) is None
            await pilot.press("right", "p", "m", "x", "enter")
            await until(pilot, lambda: "marked at" in screen_of(app).footer.message)
    found = [json.loads(file.read_text()) for file in state.glob("*/*.json")]
    assert sorted(f["path"] for f in found) == [str(folder / "t.json")] * 2
    assert {next(iter(f.keys() - {"path"})) for f in found} == {"lanes", "marks"}


async def test_m_reaches_marks_that_share_a_cell():
    async with visit(MLP, size=SIZE) as (_, pilot, screen):
        for time in (1_000, 1_001, 1_002):
            screen.session.marks.marks.put(mark_on(screen.trace, None, time, f"number {time}"))
        seen = []
        for _ in range(4):
            await pilot.press("M")
            seen.append(screen.footer.message.split(",")[0])
        assert set(seen) == {"number 1000", "number 1001", "number 1002"}
        assert seen[3] == seen[0]


async def test_a_note_is_written_read_and_changed(state):
    async with visit(MLP, size=SIZE) as (app, pilot, screen):
        await pilot.press("right", "T")
        sheet = app.screen
        assert isinstance(sheet, NoteScreen)
        name = screen.trace.name_of(screen.navigator.selected or 0)
        await until(pilot, lambda: f"on {name}" in text(app))
        await pilot.press(*"waits", "enter", *"ask [i]Ann[/i]")
        sheet.note.post_message(Paste("\x1b[2Jpasted\tby\r\nhand"))
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        (mark,) = screen.session.marks.marks.here
        assert mark.label == "waits"
        assert mark.note == "waits\nask [i]Ann[/i]␛[2Jpasted    by\nhand"
        assert kept_in(state)["marks"][0]["on"]["name"] == name
        await pilot.press("escape", "escape", "M")
        assert screen.footer.message == "waits / ask [i]Ann[/i]␛[2Jpasted    by / hand"
        await pilot.press("T", "shift+tab", *["backspace"] * 5, *"Better", "enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        assert [m.label for m in screen.session.marks.marks.here] == ["Better"]
        assert screen.session.marks.marks.here[0].note == mark.note


async def test_a_note_is_not_lost_by_one_escape():
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        await pilot.press("right", "T", "escape")
        assert isinstance(app.screen, TraceScreen)  # nothing was typed
        await pilot.press("T", *"precious", "escape")
        assert isinstance(app.screen, NoteScreen)
        await until(pilot, lambda: "not saved" in text(app))
        await pilot.press("y", "escape")
        assert isinstance(app.screen, NoteScreen)  # and more was typed since
        await pilot.press("escape")
        assert isinstance(app.screen, TraceScreen)
        assert screen_of(app).session.marks.marks.all == []


async def test_a_mark_with_a_note_outlives_its_label():
    async with visit(MLP, size=SIZE) as (_, pilot, screen):
        await pilot.press("right")
        screen.session.marks.marks.put(mark_on(screen.trace, screen.navigator.selected, 0, "label", "a note"))
        await pilot.press("m", *["backspace"] * 5, "enter")
        await until(pilot, lambda: "l, then d removes the mark with a note" in screen.footer.message)
        assert [(m.label, m.note) for m in screen.session.marks.marks.here] == [("a note", "a note")]


async def test_a_note_ends_at_its_limit():
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        await pilot.press("T")
        sheet = app.screen
        assert isinstance(sheet, NoteScreen)
        sheet.note.post_message(Paste("x" * (2 * NOTE_LIMIT)))
        await pilot.pause()
        await pilot.press("y")
        assert sheet.note.text == "x" * NOTE_LIMIT


async def test_the_list_goes_to_edits_removes_and_brings_back(state):
    async with visit(MLP, size=SIZE) as (app, pilot, screen):
        await pilot.press("l")
        await until(pilot, lambda: "no marks yet" in text(app))
        await pilot.press("enter", "d", "e", "u", "escape")
        trace = screen.trace
        events = [int(i) for i in np.flatnonzero(trace.kind == 6)[:3]]
        for n, event in enumerate(events):
            screen.session.marks.marks.put(
                mark_on(trace, event, 0, f"mark {n}", "line one\nline two" if n == 1 else "")
            )
        await pilot.press("l", "down")
        sheet = listed(app)
        await until(pilot, lambda: "line two" in text(app))
        assert "line one / line two" in text(app)
        await pilot.press("d")
        assert [m.label for m in screen.session.marks.marks.here] == ["mark 0", "mark 2"]
        assert [m.time for _, m in zip(sheet.rows, sheet.rows, strict=True)] == [
            int(trace.start[events[0]]), int(trace.start[events[2]])
        ]  # fmt: skip
        assert "u undoes it" in sheet.head.message
        assert len(screen.navigator.scene.marks) == 2
        await pilot.press("delete", "u", "u")
        assert [m.label for m in screen.session.marks.marks.here] == ["mark 0", "mark 1", "mark 2"]
        assert sheet.here is not None
        assert sheet.here.label == "mark 1"
        await pilot.press("e", *" More.", "ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, MarksScreen))
        assert [e["note"] for e in kept_in(state)["marks"]] == ["", "line one\nline two More.", ""]
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        assert screen.navigator.selected == events[1]
        assert screen.navigator.view.contains(int(trace.start[events[1]]))
        assert screen.footer.message == "mark 1: line one / line two More."


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
async def test_the_list_has_room_for_every_column(size):
    async with visit(MLP, size=size) as (app, pilot, screen):
        kernel = int(np.flatnonzero(screen.trace.kind == 6)[0])
        screen.session.marks.marks.put(mark_on(screen.trace, kernel, 0, "a label", "a note"))
        await pilot.press("l")
        await until(pilot, lambda: "a note" in text(app))
        head, row = sheet_lines(app)[1:3]
        assert all(word in head for word in ("Time", "Label", "On", "Note"))
        assert row.index("a label") == head.index("Label")
        assert row.index("a note") == head.index("Note")
        assert "gemm bf16" in row


@pytest.mark.parametrize("ending", [".md", ".csv", ".json"])
async def test_marks_are_exported(ending, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with visit(MLP, size=SIZE) as (app, pilot, screen):
        screen.session.marks.marks.put(mark_on(screen.trace, 0, 0, "a | b", "one\ntwo <b>"))
        screen.session.marks.marks.put(mark_on(screen.trace, None, 77, "bare"))
        screen.session.marks.marks.put(Mark(5, "of another trace", zero=1))
        await pilot.press("l", "E", *["backspace"] * 3, *".xyz", "enter")
        await until(pilot, lambda: "⚠ a table needs .csv" in text(app))
        await pilot.press(*["backspace"] * 4, *ending, "enter")
        file = tmp_path / f"mlp_eager-marks{ending}"
        await until(pilot, file.exists)
        await until(pilot, lambda: "wrote" in listed(app).head.message)
        written = file.read_text()
    name, lane = screen.trace.name_of(0), screen.trace.lanes[0].name
    time = int(screen.trace.start[0])
    if ending == ".md":
        assert written.splitlines()[0] == "| Time | Label | Event | Lane | Note |"
        assert f"| a \\| b | {name} | {lane} | one<br>two \\<b\\> |" in written.replace("\\#", "#")
        assert "another trace" not in written
        return
    rows = json.loads(written) if ending == ".json" else list(csv.DictReader(written.splitlines(True)))
    rows = sorted(rows, key=lambda r: str(r["label"]))
    assert [r["label"] for r in rows] == ["a | b", "bare"]
    assert str(rows[0]["time_ns"]) == str(time)
    assert (rows[0]["event"], rows[0]["lane"], rows[0]["note"]) == (name, lane, "one\ntwo <b>")
    assert str(rows[1]["time_ns"]) == "77"


async def test_a_trace_written_anew_at_the_path_does_not_show_the_old_marks(tmp_path):
    file = write_trace(
        tmp_path / "t.json", [slice_event("old", 1_000_000, 50), slice_event("b", 1_000_100, 9)]
    )
    async with visit(file, size=SIZE) as (app, pilot, _):
        await pilot.press("right", "m", *"look", "enter")
        assert [m.label for m in screen_of(app).session.marks.marks.here] == ["look"]
    write_trace(file, [slice_event("new", 2_000_000, 50)])
    async with visit(file, size=SIZE) as (app, pilot, screen):
        await until(pilot, lambda: "1 mark of an earlier trace at this path" in screen.footer.message)
        assert screen.navigator.scene.marks == ()
        await pilot.press("M")
        assert "no marks yet" in screen.footer.message
        await pilot.press("l")
        await until(pilot, lambda: EARLIER in text(app))
        await pilot.press("enter")
        assert "earlier trace" in listed(app).head.message
        await pilot.press("d")
        assert screen.session.marks.marks.all == []


def test_loaded_traces_know_their_zero():
    """The marks rest on it."""
    assert len({loaded(name).info.zero_ns for name in ("mlp_eager", "mlp_compile", "llama_train")}) == 3


def test_a_mark_on_a_kernel_says_so_in_short():
    fill = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, int>(int)"
    assert Mark(1, "", name=fill, lane="GPU 1 stream 7").on == "fill fp32 vec4, GPU 1 stream 7"
    assert Mark(1, "", name="forward", lane="stream 7 annotations").on == "forward, stream 7 annotations"
    assert Mark(1, "").on == ""
