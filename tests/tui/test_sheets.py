"""The sheets: docked at the foot of a timeline that lives on, walked, and left without a trace."""

import os
import re
from typing import Any

import numpy as np
import pytest
from rich.cells import cell_len
from tests.conftest import SAMPLES
from textual.geometry import Region
from textual.pilot import Pilot

from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.session.folder import traces_in
from tracetui.session.marks import mark_on
from tracetui.session.recent import remember
from tracetui.session.samples import samples
from tracetui.session.trace_list import Choice, choices, completed
from tracetui.trace.model import Kind
from tracetui.tui.app import TracetuiApp
from tracetui.tui.loading import LoadTask
from tracetui.tui.panes.base import Pane
from tracetui.tui.screens.explain import ExplainScreen
from tracetui.tui.screens.glossary import GlossaryScreen
from tracetui.tui.screens.matches import MatchesScreen
from tracetui.tui.screens.open import OpenScreen
from tracetui.tui.screens.sheet import Sheet
from tracetui.tui.screens.start import StartScreen
from tracetui.tui.screens.trace import TraceScreen
from tracetui.tui.settings import Settings

from .conftest import DATA, app_of, screen_of, sheet_lines, until
from .terminal import OnTerminal, Terminal
from .test_app import text

MLP = DATA / "mlp_eager.json.gz"
LLAMA = DATA / "llama_train.json.gz"
SMALL, USUAL = (80, 24), (120, 36)
SHEETS: dict[str, tuple[str, ...]] = {
    "Explain": ("e",), "Keys": ("question_mark",), "matches": ("L",), "Marks": ("l",), "Note": ("T",),
    "Commands": ("ctrl+p",), "Open a trace": ("ctrl+o",), "Glossary": ("I",)
}  # fmt: skip


async def begin(pilot: Pilot[Any]) -> None:
    """Something is searched for and selected, so that every sheet can be opened."""
    await pilot.press("slash", *"aten", "enter")
    await pilot.app.workers.wait_for_complete()
    await pilot.press("left", "right")
    await pilot.pause()


_faults: dict[tuple[int, int], dict[str, Exception]] = {}
"""What went wrong in a visit of one size that opened every sheet, by its name."""


@pytest.mark.parametrize("name", list(SHEETS))
@pytest.mark.parametrize("size", [SMALL, USUAL, (200, 50)])
async def test_a_sheet_lies_at_the_foot_and_leaves_no_trace(name, size):
    if size not in _faults:
        _faults[size] = await visit(size, *SHEETS)
    if fault := _faults[size].get(name):
        alone = await visit(size, name)
        raise alone.get(name) or AssertionError(f"well alone, but not after other sheets: {fault}")


async def visit(size: tuple[int, int], *names: str) -> dict[str, Exception]:
    """Open and leave these sheets, one after the other."""
    app, faults = app_of(MLP), {}
    async with app.run_test(size=size) as pilot:
        await begin(pilot)
        for name in names:
            try:
                await open_and_leave(pilot, name, size)
            except Exception as fault:
                faults[name] = fault
                await pilot.press("escape")
    return faults


async def open_and_leave(pilot: Pilot[Any], name: str, size: tuple[int, int]) -> None:
    app: Any = pilot.app
    before = text(app).split("\n")
    await pilot.press(*SHEETS[name])
    sheet = app.screen
    assert isinstance(sheet, Sheet)
    if isinstance(sheet, ExplainScreen):
        await until(pilot, lambda: sheet.text is not None)
    await pilot.pause()
    shown, own = text(app).split("\n"), sheet_lines(app)
    assert shown[:3] == before[:3], "the first line, overview and ruler stay"
    assert name in own[0]
    assert "Esc" in own[0]
    assert len(own) <= (size[1] - 3 if name == "Keys" else max(8, round(0.6 * size[1])))
    bar = screen_of_app(app).bar.region
    if name != "Keys":
        assert bar.bottom <= size[1] - len(own), "the line about the selection stays in view"
    await pilot.press("escape")
    await pilot.pause()
    assert isinstance(app.screen, TraceScreen)
    assert text(app).split("\n") == before


def screen_of_app(app: TracetuiApp) -> TraceScreen:
    """The trace's screen below the sheets."""
    return next(s for s in app.screen_stack if isinstance(s, TraceScreen))


async def test_lanes_that_were_unfolded_and_scrolled_are_so_again():
    app = app_of(samples()["train"])
    async with app.run_test(size=SMALL) as pilot:
        await pilot.press("slash", *"aten::mm", "enter")
        await app.workers.wait_for_complete()
        await pilot.press("n", "n", "f", "f", "down", "down", "right", "colon", "escape")
        await pilot.pause()
        before = text(app)
        for keys in (("L", "down", "down"), ("question_mark",), ("e", "end"), ("ctrl+p",), ("ctrl+o",)):
            await pilot.press(*keys)
            await app.workers.wait_for_complete()
            await pilot.press("escape")
            await pilot.pause()
            assert text(app) == before, keys


async def test_a_click_above_a_sheet_closes_it():
    app = app_of(MLP)
    async with app.run_test(size=USUAL) as pilot:
        await pilot.press("I")
        await pilot.pause()
        await pilot.click(offset=(40, 25))
        assert isinstance(app.screen, GlossaryScreen)
        await pilot.click(offset=(40, 4))
        assert isinstance(app.screen, TraceScreen)


async def test_a_sheet_is_no_higher_than_what_it_says():
    app = app_of(MLP)
    async with app.run_test(size=(120, 60)) as pilot:
        await begin(pilot)
        await pilot.press("e")
        sheet = app.screen
        assert isinstance(sheet, ExplainScreen)
        await until(pilot, lambda: sheet.text is not None)
        await pilot.pause()
        assert len(sheet_lines(app)) == len(sheet.lines) + 1 < 36
        assert "…" not in "\n".join(sheet_lines(app))


@pytest.mark.parametrize("name", list(SHEETS))
async def test_a_sheet_in_ascii_and_without_colors(name, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    task = LoadTask(MLP).start()
    task.ended.result(30)
    app = TracetuiApp(task, Settings(ascii=True))
    async with app.run_test(size=SMALL) as pilot:
        await begin(pilot)
        await pilot.press(*SHEETS[name])
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert text(app).isascii()
        assert name in sheet_lines(app)[0]
        assert "?" not in sheet_lines(app)[0].replace("? all keys", ""), (
            "every sign has one that stands for it"
        )
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                assert segment.style is None or segment.style.color is None or segment.style.color.is_default


async def test_help_needs_no_scrolling_on_a_usual_screen():
    app = app_of(MLP)
    async with app.run_test(size=USUAL) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        before = text(app)
        assert "Esc" in before
        assert "█" not in "".join(line[-1] for line in sheet_lines(app))
        await pilot.press("end")
        await pilot.pause()
        assert text(app) == before


class Seen(OnTerminal, TracetuiApp):
    """The app on a terminal."""

    def __init__(self, task: LoadTask, size: tuple[int, int]) -> None:
        super().__init__(task)
        self.terminal = Terminal(*size)

    def shown(self) -> list[str]:
        return ["".join(character for character, _ in line) for line in self.terminal.cells]


async def test_the_terminal_shows_the_timeline_as_a_sheet_walks_it():
    task = LoadTask(MLP).start()
    task.ended.result(30)
    app = Seen(task, USUAL)
    async with app.run_test(size=USUAL) as pilot:
        await begin(pilot)
        for keys in (
            ("L", "down", "down", "pagedown", "up", "escape"),
            ("e", "down", "end", "up", "escape"),
            ("g", "e", "end", "I", "down", "escape", "escape"),
            ("I", *"gap", "enter"),
            ("ctrl+p", "down", "escape"),
        ):
            for key in keys:
                await pilot.press(key)
                await app.workers.wait_for_complete()
                await pilot.pause(0.2 if isinstance(app.screen, GlossaryScreen) else None)
                for y, (seen, meant) in enumerate(zip(app.shown(), text(app).split("\n"), strict=True)):
                    assert seen.rstrip() == meant.rstrip(), (key, y)


# Walking
async def test_walking_the_matches_shows_each_and_esc_goes_back():
    app = app_of(LLAMA)
    async with app.run_test(size=USUAL) as pilot:
        await pilot.press("slash", *"softmax", "enter")
        screen = screen_of(app)
        navigator = screen.navigator
        await pilot.press("d", "w")
        await app.workers.wait_for_complete()  # the first two lines say what was found out
        await pilot.pause()
        scene, was = navigator.scene, text(app)
        await pilot.press("L", "down", "down")
        sheet = app.screen
        assert isinstance(sheet, MatchesScreen)
        await pilot.pause()
        at = int(sheet.found[sheet.list.row or 0])
        assert navigator.selected == at != scene.selected
        assert navigator.view.contains(int(navigator.trace.start[at]))
        drawn = text(app).split("\n")[screen.bar.region.y]
        assert screen.timeline.navigator.scene.source.short(int(navigator.trace.name[at]))[:12] in drawn
        view = navigator.view
        await pilot.press("escape")
        await pilot.pause()
        assert (navigator.selected, navigator.view) == (scene.selected, scene.view)
        assert text(app) == was
        await pilot.press("L", "down", "down", "enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        assert navigator.selected == at
        assert navigator.view == view, "what was shown is where one stays"
        await pilot.press("backspace")
        assert navigator.view == scene.view, "and back is where one came from"


async def test_walking_the_marks_shows_each_and_esc_goes_back():
    app = app_of(LLAMA)
    async with app.run_test(size=USUAL) as pilot:
        screen = screen_of(app)
        events = np.flatnonzero(screen.trace.kind == 6)[[5, 800]].tolist()
        for n, event in enumerate(events):
            screen.session.marks.marks.put(mark_on(screen.trace, event, 0, f"mark {n}"))
        view = screen.navigator.view
        await pilot.press("l", "down")
        await pilot.pause()
        assert screen.navigator.selected == events[1]
        await pilot.press("escape")
        assert screen.navigator.selected is None
        assert screen.navigator.view == view


# Gaps
async def test_a_gap_keeps_its_reason_in_view_and_e_begins_with_it():
    app = app_of(MLP)
    async with app.run_test(size=SMALL) as pilot:
        screen = screen_of(app)
        await pilot.press("g")
        await pilot.pause()
        results, at = screen.session.active.whole, screen.session.gaps.at
        assert at is not None
        cause = CAUSES[causes_of(results).cause[at]]
        bar = text(app).split("\n")[screen.bar.region.y]
        assert re.match(rf" idle [\d.]+ \ws  {cause}: \w+", bar), bar
        await pilot.press("colon", "escape")  # the message is gone
        await pilot.pause()
        assert text(app).split("\n")[screen.bar.region.y] == bar
        await pilot.press("e")
        sheet = app.screen
        assert isinstance(sheet, ExplainScreen)
        await until(pilot, lambda: sheet.text is not None)
        labels = [line.label for line in sheet.lines]
        assert labels[:2] == ["idle", "by cause"]
        assert labels.index("idle") < labels.index("then") == labels.index("what it is") - 1
        then = sheet.lines[labels.index("then")]
        assert then.value.endswith(", which ended it")
        assert then.event == gaps_of(results).after[at]
        assert "ran nothing for" in sheet_lines(app)[1]
        told = {}
        for line in sheet.lines[1:]:
            if line.label not in ("", "by cause"):
                break
            match = re.match(r"(.+?)  +([\d.,]+) (µs|ms)", line.value)
            told[match[1]] = round(float(match[2]) * (1e3 if match[3] == "µs" else 1e6))
        pieces = causes_of(results).pieces[at]
        assert told == {CAUSES[i]: int(pieces[i]) for i in np.flatnonzero(pieces)}
        assert sum(told.values()) == int(gaps_of(results).duration[at])
        await pilot.press("escape", "right", "e")  # another event: the gap is no longer the subject
        other = app.screen
        assert isinstance(other, ExplainScreen)
        await until(pilot, lambda: other.text is not None)
        assert "idle" not in [line.label for line in other.lines]


# Opening
def test_what_can_be_opened_is_grouped_and_found_by_words(tmp_path):
    from tracetui.session.recent import Recent

    recent = [Recent(tmp_path / f"run{n}.json", 100.0 - n) for n in range(9)]
    found = choices("", recent, samples(), few=3, capture=True, now=100.0)
    kinds = [c.kind for c in found]
    assert kinds[:5] == ["capture", "recent", "recent", "recent", "more"]
    assert set(kinds[5:]) == {"sample"}
    assert found[4].name == "6 more recent traces"
    assert {c.name for c in choices("compile mlp", recent, samples(), now=100.0)} == {"mlp_compile"}
    assert [c.name for c in choices("run7", recent, samples(), now=100.0)] == ["run7.json"]


def test_a_typed_path_lists_folders_and_traces(tmp_path):
    for name in ("a.json", "ab.json.gz", "ac.json.zst", "a.txt", "a.meta.json", ".hidden.json", "B.JSON"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "able").mkdir()
    (tmp_path / "odd\x1b[31m").mkdir()
    found = choices(f"{tmp_path}/a", [], {})
    assert [(c.kind, c.name) for c in found] == [
        ("folder", "able/"), ("file", "a.json"), ("file", "ab.json.gz"), ("file", "ac.json.zst")
    ]  # fmt: skip
    assert completed(f"{tmp_path}/a", found) == f"{tmp_path}/a"
    assert completed(f"{tmp_path}/ab", choices(f"{tmp_path}/ab", [], {})) == f"{tmp_path}/ab"
    assert completed(f"{tmp_path}/ac", choices(f"{tmp_path}/ac", [], {})) == f"{tmp_path}/ac.json.zst"
    assert [c.name for c in choices(f"{tmp_path}/", [], {}) if c.kind == "folder"] == ["able/"]
    assert choices("/nowhere/at/all", [], {}) == []
    assert choices("~nosuchuser/x", [], {}) == []
    assert choices("/" + "x" * 5000, [], {}) == []
    assert completed("x", [Choice("sample", "xyz", "")]) == "x"


async def test_the_other_traces_of_the_folder_come_first(tmp_path):
    for name in ("before.json.gz", "after.json.gz", "after.meta.json", "notes.txt"):
        (tmp_path / name).write_bytes((DATA / "mlp_compile.json.gz").read_bytes())
    remember(tmp_path / "before.json.gz")
    app = app_of(tmp_path / "after.json.gz")
    async with app.run_test(size=USUAL) as pilot:
        screen_of(app)
        for key in ("C", "ctrl+o"):
            await pilot.press(key)
            await pilot.pause()
            assert isinstance(app.screen, OpenScreen)
            listed = app.screen.traces.choices
            assert (listed[0].kind, listed[0].path) == ("trace", tmp_path / "before.json.gz")
            assert [c.path for c in listed].count(listed[0].path) == 1, "not again as recent"
            assert "trace" not in [c.kind for c in listed[1:]], "only what may be a trace by its name"
            await pilot.press("escape")


async def test_another_trace_is_opened_beside_the_first(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "second.json.gz").write_bytes((DATA / "mlp_compile.json.gz").read_bytes())
    app = app_of(MLP)
    async with app.run_test(size=USUAL) as pilot:
        first = app.screen
        await pilot.press("ctrl+o", *f"{tmp_path}/r")
        await pilot.pause()
        assert isinstance(app.screen, OpenScreen)
        assert "folder" in sheet_lines(app)[2]
        await pilot.press("tab", "tab")
        await pilot.pause()
        assert app.screen.traces.prompt._input.value == f"{tmp_path}/runs/second.json.gz"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen) and app.screen is not first)
        assert len(app.traces) == 2
        await pilot.press("t")
        await until(pilot, lambda: app.screen is first)
        assert "trace 1 of 2" in screen_of(app).footer.message
        await pilot.press("ctrl+o", *"llm", "enter")
        await until(pilot, lambda: len(app.traces) == 3)
        await pilot.press("ctrl+o", *"nothing like it", "enter")
        await until(pilot, lambda: "no such file" in sheet_lines(app)[1])


async def test_the_samples_are_in_view_on_the_first_screen_however_many_traces_were_open(
    tmp_path, monkeypatch
):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for n in range(14):
        file = tmp_path / f"run{n}.json"
        file.write_text("{}")
        remember(file)
    app = TracetuiApp()
    async with app.run_test(size=SMALL) as pilot:
        await pilot.pause()
        shown = text(app)
        assert all(name in shown for name in samples())
        assert sum(f"run{n}.json" in shown for n in range(14)) == 2
        await pilot.press("down", "down", "enter")
        await pilot.pause()
        assert isinstance(app.screen, StartScreen)
        assert sum(f"run{n}.json" in text(app) for n in range(14)) == 14


async def test_the_first_screen_begins_with_a_folder(tmp_path):
    inner = tmp_path / "monday"
    inner.mkdir()
    (inner / "one.json.gz").write_bytes(MLP.read_bytes())
    (tmp_path / "two.json.gz").write_bytes(MLP.read_bytes())
    os.utime(tmp_path / "two.json.gz", (1e9, 1e9))
    app = TracetuiApp(found=traces_in(tmp_path))
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.pause()
        assert text(app).split("\n")[2].split()[:2] == ["▸trace", "monday/one.json.gz"]
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))


# The glossary
async def test_the_glossary_says_what_a_word_means_and_shows_an_example():
    app = app_of(MLP)
    async with app.run_test(size=USUAL) as pilot:
        screen = screen_of(app)
        await pilot.press("question_mark", "I")
        await until(pilot, lambda: isinstance(app.screen, GlossaryScreen))
        sheet = app.screen
        assert isinstance(sheet, GlossaryScreen)
        await pilot.press(*"tensor core")
        await until(pilot, lambda: sheet.found.get("tensor core"))
        await pilot.pause()
        assert "Example: " in text(app)
        assert sheet.here is not None
        assert sheet.here.name == "tensor core"
        found = sheet.found["tensor core"]
        assert screen.navigator.selected == found.slice, "the timeline shows it"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        assert screen.navigator.selected == found.slice
        await pilot.press("I", *"rank")
        await until(pilot, lambda: "none in this trace" in text(app))
        await pilot.press("enter")
        await until(pilot, lambda: "no example of “rank”" in sheet_lines(app)[0])


async def test_the_glossary_begins_with_the_part_under_the_cursor():
    app = app_of(SAMPLES / "llm_decode.json.gz", "overview")
    async with app.run_test(size=(120, 36)) as pilot:
        screen = screen_of(app)
        await until(pilot, lambda: "CPU in PyTorch ops" in text(app) and screen.verdict_line.parts)
        view = screen.navigator.view
        await pilot.press("h", "I")
        await until(pilot, lambda: "The CPU was inside ops" in text(app).split("\n")[-7])
        assert "See also: operator, CUDA graph" in text(app)
        assert screen.navigator.view != view, "h went to a gap"
        view = screen.navigator.view
        await pilot.press("escape")
        assert screen.navigator.view == view


@pytest.mark.parametrize(("pane", "cell", "term"), [
    ("2", "occupancy", "occupancy"),
    ("2", "fits on an SM", "SM"),
    ("3", "aten::", "self and total"),  # the row has no term, the titles have
    ("4", "gemm", "GEMM"),
    ("6", "dispatch", "dispatch"),
    ("6", "launch", "launch (cause)"),
    ("7", "step 2", "overhead-bound"),
])  # fmt: skip
async def test_the_glossary_begins_with_a_term_of_the_row_under_the_cursor(pane, cell, term):
    app = app_of(SAMPLES / "train.json.gz", "overview")
    async with app.run_test(size=(160, 40)) as pilot:
        screen = screen_of(app)
        await pilot.press("slash", *"gemm", "enter", pane)
        await until(pilot, lambda: row_with(screen.area.open, cell) is not None)
        shown = screen.area.open
        assert shown is not None
        row = row_with(shown, cell)
        assert row is not None
        shown.show_row(row)
        await pilot.press("I")
        await until(pilot, lambda: isinstance(app.screen, GlossaryScreen))
        assert isinstance(app.screen, GlossaryScreen)
        assert app.screen.at == term
        await pilot.press("escape", "tab", "I")
        await until(pilot, lambda: isinstance(app.screen, GlossaryScreen))
        assert isinstance(app.screen, GlossaryScreen)
        assert app.screen.at == "", "the keys are the timeline's"


def row_with(pane: Pane | None, text: str) -> int | None:
    """The first row of the pane's table that has a cell beginning so."""
    if pane is None or pane.table is None:
        return None
    cells = [column.text for column in pane.table.columns]
    return next((row for row in range(pane.table.count) if any(c(row).startswith(text) for c in cells)), None)


async def test_e_lists_the_words_that_it_uses_and_opens_the_glossary_on_them():
    app = app_of(MLP)
    async with app.run_test(size=USUAL) as pilot:
        screen = screen_of(app)
        await pilot.press("g", "e")
        explained = app.screen
        assert isinstance(explained, ExplainScreen)
        await until(pilot, lambda: explained.text is not None)
        words = " ".join(line.value for line in explained.lines[-3:])
        names = [term.name for term in explained.text.terms]
        assert names
        assert names[0] in words
        await pilot.press("I")
        await until(pilot, lambda: isinstance(app.screen, GlossaryScreen))
        glossary = app.screen
        assert isinstance(glossary, GlossaryScreen)
        assert [term.name for term in glossary.shown] == names
        assert cell_len(sheet_lines(app)[0]) == USUAL[0]
        await until(pilot, lambda: names[0] in glossary.found)
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is explained)
        await pilot.press("I", *"kernel")
        glossary = app.screen
        assert isinstance(glossary, GlossaryScreen)
        await until(pilot, lambda: glossary.found.get("kernel") is not None)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        assert int(screen.trace.kind[screen.navigator.selected or 0]) == Kind.KERNEL


async def test_the_gpu_s_stream_stays_in_view_beside_a_sheet_on_a_small_screen():
    """Where the dock has no room for its annotations, too, the kernels come first; then all is as before."""
    app = app_of(SAMPLES / "llm_decode.json.gz", "overview")
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "queue" in text(app))
        before = text(app).split("\n")[4:14]
        names = [line[2:13].strip() for line in before]
        assert names.index("annotations") < names.index("stream 7")
        await pilot.press("I")
        await until(pilot, lambda: "Glossary" in text(app))
        lines = text(app).split("\n")
        rule = next(n for n, line in enumerate(lines) if line.startswith("── GPU 0"))
        assert lines[rule + 1].startswith("▸ stream 7   ↓3")
        await pilot.press("escape")
        await until(pilot, lambda: text(app).split("\n")[4:14] == before)


@pytest.mark.parametrize("key", ["question_mark", "ctrl+p"])
async def test_a_sheet_fills_a_screen_that_has_just_grown(key):
    app = app_of(MLP)
    async with app.run_test(size=USUAL) as pilot:
        await pilot.press(key)
        await pilot.pause()
        assert isinstance(app.screen, Sheet)
        for place in ((0, 0, 121, 37), (0, 0, 200, 50), (5, 2, 130, 40), (0, 0, 80, 9)):
            crop = Region(*place)
            strips = app.screen.render_lines(crop)
            assert [strip.cell_length for strip in strips] == [crop.width] * crop.height
