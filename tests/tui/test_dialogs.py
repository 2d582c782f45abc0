"""The sheets over the trace: the palette, the themes, help, the matches, and the line to type into."""

from itertools import groupby

import pytest
from textual import events
from textual.widgets import Input

from tracetui.capture.events import Failed, Phase, Progress
from tracetui.capture.options import CaptureOptions
from tracetui.core.units import capital
from tracetui.rules import find_findings
from tracetui.session.samples import ABOUT, samples
from tracetui.trace.model import Kind
from tracetui.tui.app import TracetuiApp
from tracetui.tui.bindings import ACTIONS
from tracetui.tui.capture.capture_screen import CaptureScreen
from tracetui.tui.capture.form import asked
from tracetui.tui.capture.form_screen import FormScreen
from tracetui.tui.capture.progress import capture_lines
from tracetui.tui.command_palette import Palette, ThemePalette, commands
from tracetui.tui.hint import LINES, fitted
from tracetui.tui.loading import LoadTask
from tracetui.tui.screens.explain import ExplainScreen
from tracetui.tui.screens.glossary import GlossaryScreen
from tracetui.tui.screens.help import HelpScreen, sections
from tracetui.tui.screens.matches import MatchesScreen
from tracetui.tui.screens.open import LEAST_NAME
from tracetui.tui.screens.picker import Choice, PickList, fitting
from tracetui.tui.screens.sheet import SheetHead
from tracetui.tui.screens.trace import TraceScreen
from tracetui.tui.settings import Settings

from .conftest import DATA, app_of, screen_of, sheet_lines, until, visit, write_trace
from .test_app import text

MLP = DATA / "mlp_compile.json.gz"
SIZE = (80, 24)


def lines(app: TracetuiApp) -> list[str]:
    return text(app).split("\n")


def test_what_was_typed_finds_the_nearest_choice_first():
    choices = [
        Choice("Averages, gaps"), Choice("Next gap", "g"), Choice("Gap order"), Choice("Quit", about="gap")
    ]  # fmt: skip
    assert fitting(choices, "") == [0, 1, 2, 3]
    assert fitting(choices, "gap") == [2, 0, 1, 3]
    assert fitting(choices, "next gap") == [1]
    assert fitting(choices, "nega") == [1]
    assert fitting(choices, "ng") == [1]
    assert fitting(choices, "nap") == []  # letters from within words are no abbreviation
    assert fitting([Choice("Sort by the previous column")], "open") == []
    assert fitting([Choice("a " * 20)], "a" * 40) == []  # nor does it take long to tell
    assert fitting(choices, "zz") == []


async def test_the_palette_tells_keys_as_they_are_bound_and_does_what_is_chosen():
    task = LoadTask(MLP).start()
    task.ended.result(30)
    app = TracetuiApp(task, Settings(keys={"help": "f1"}))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("ctrl+p", *"all keys")
        await pilot.pause()
        assert isinstance(app.screen, Palette)
        assert "f1" in sheet_lines(app)[2]
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))


async def test_a_click_on_a_command_does_it_and_esc_does_nothing():
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        await pilot.press("ctrl+p", *"all keys")
        await pilot.pause()
        await pilot.click(PickList, offset=(5, 0))
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.press("escape", "ctrl+p", "down", "escape")
        assert isinstance(app.screen, TraceScreen)
        await pilot.press("ctrl+p", *"zzzz", "enter")
        assert isinstance(app.screen, Palette)  # nothing to do


async def test_a_theme_is_shown_while_one_chooses():
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        trace, first = screen_of(app), app.theme
        app.action_change_theme()
        await pilot.pause()
        assert isinstance(app.screen, ThemePalette)
        await pilot.press("down")
        await pilot.pause()
        second = app.theme
        assert second != first
        assert trace.timeline.navigator.scene.source.palette.theme.name == app.palette.name
        await pilot.press("escape")
        assert app.theme == first
        app.action_change_theme()
        await pilot.pause()
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        assert app.theme == second


async def test_help_begins_with_the_table_where_the_keys_go_there_and_scrolls_to_its_end():
    assert [group for group, _ in sections(in_table=True)][:2] == ["Panes", "In a table"]
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        await pilot.press("question_mark")
        await pilot.pause()
        assert sheet_lines(app)[1].split()[0] == "Moving"
        assert "select a range" not in text(app)
        await pilot.press("question_mark")  # all of them
        await pilot.pause()
        await pilot.press("end")
        await pilot.pause()
        assert "select a range" in text(app)
        await pilot.press("ctrl+p", *"next gap")
        await pilot.pause()
        assert "Next gap" in text(app)  # the trace's commands, not the help's
        await pilot.press("escape")
        assert isinstance(app.screen, TraceScreen)
        await pilot.press("tab", "question_mark")
        await pilot.pause()
        assert sheet_lines(app)[1].split()[0] == "Panes"
        assert "zoom in, out" not in text(app)
        before = text(app)
        await pilot.press("question_mark", "pagedown")
        await pilot.pause()
        assert text(app) != before


async def test_matches_show_their_time_on_a_small_screen_and_the_hints_can_be_clicked():
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        await pilot.press("slash", *"aten", "enter", "L")
        await pilot.pause()
        assert isinstance(app.screen, MatchesScreen)
        head, titles = sheet_lines(app)[:2]
        assert "matches for “aten”" in head
        assert titles.split()[:4] == ["▲Start", "Duration", "Category", "Name"]
        await pilot.click(SheetHead, offset=(head.index("Esc"), 0))
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))


async def test_the_chain_of_an_explanation_is_never_cut_off():
    async with visit(MLP, size=(60, 60)) as (app, pilot, _):
        kernel = int(screen_of(app).trace.is_kind(Kind.KERNEL).argmax())
        screen_of(app).timeline.navigator.select(kernel)
        await pilot.press("e")
        sheet = app.screen
        assert isinstance(sheet, ExplainScreen)
        await until(pilot, lambda: bool(sheet.lines))
        assert len([line for line in sheet.lines if line.event == kernel]) > 1
        await pilot.press("end")
        await pilot.pause()
        shown = " ".join(" ".join(row[14:-1].split()) for row in sheet_lines(app))
        assert "after its launch ◀ this event" in shown


async def test_the_line_to_type_into_tells_what_enter_and_esc_do_and_what_is_wrong():
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        await pilot.press("slash")
        await pilot.pause()
        assert "Enter go  Esc clear" in lines(app)[-1]
        await pilot.press(*"dur>abc")
        await until(
            pilot, lambda: lines(app)[-1].rstrip().endswith("a time looks like dur>100us or at<1.5ms")
        )
        await pilot.press("ctrl+u", *"/a(/")
        await until(pilot, lambda: lines(app)[-1].rstrip().endswith("not a regular expression: missing )"))


def test_the_hint_leaves_out_what_does_not_fit():
    for width in (40, 60, 80, 200):
        shown = [fitted(parts, width) for parts in LINES]
        assert all(len(line) <= width for line in shown)
        assert "Esc hides this" in shown[-1]
    assert len(LINES) <= 2
    assert fitted(LINES[0], 40) == " New here?  w s zoom, a d pan"
    assert fitted(LINES[0], 80).endswith("e explains it")
    assert "I what the words mean" in fitted(LINES[1], 80)


async def test_a_small_screen_has_no_room_for_the_hint(monkeypatch):
    monkeypatch.setattr("tracetui.tui.screens.trace.wanted", lambda: True)
    async with visit(MLP, size=(40, 12)) as (app, pilot, _):
        await pilot.pause()
        assert "New here?" not in text(app)
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "New here?" in text(app))


async def test_the_palette_on_a_narrow_screen_cuts_off_nothing():
    async with visit(MLP, size=(56, 14)) as (app, pilot, _):
        await pilot.press("ctrl+p")
        await pilot.pause()
        assert not [line for line in sheet_lines(app) if "…" in line]
        await pilot.resize_terminal(120, 30)
        await until(pilot, lambda: "Moving" in sheet_lines(app)[2])


async def test_the_palette_keeps_the_groups_of_the_help_together():
    app = app_of(MLP)
    async with app.run_test(size=SIZE):
        where = [c.choice.about for c in commands(app, screen_of(app))]
        assert [g for g, _ in groupby(where)] == list(dict.fromkeys(where))


async def test_the_palette_finds_findings_and_words():
    async with visit(MLP, "findings", size=SIZE) as (app, pilot, _):
        screen = screen_of(app)
        await until(pilot, lambda: screen.session.active.whole.knows(find_findings))
        finding = find_findings(screen.session.active.whole)[0]
        await pilot.press("ctrl+p", *finding.title.lower()[:30])
        await until(pilot, lambda: isinstance(app.screen, Palette) and len(app.screen.shown) == 1)
        await pilot.press("enter")
        await until(pilot, lambda: screen.navigator.selected == finding.evidence[0])
        await pilot.press("ctrl+p", *"data loader")
        await pilot.pause()
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, GlossaryScreen))
        assert "data loader" in sheet_lines(app)[2]


async def test_the_palette_has_every_action_and_zooms():
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        screen = screen_of(app)
        found = {c.choice.text for c in commands(app, screen)}
        assert ({capital(a.text) for a in ACTIONS} - found) == {"Find a command"}
        before = screen.navigator.view.span_ns
        await pilot.press("ctrl+p", *"zoin", "enter")
        await until(pilot, lambda: screen.navigator.view.span_ns < before)


def test_every_sample_says_what_it_is():
    assert set(samples()) == set(ABOUT)
    assert max(len(name) for name in ABOUT) <= LEAST_NAME
    assert max(len(about) for about in ABOUT.values()) <= 43


async def test_the_first_screen_opens_a_file_by_its_path(tmp_path):
    app = TracetuiApp()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("o", *"/nope", "enter")
        await until(pilot, lambda: "/nope" in lines(app)[2] and "⚠ no such file" in lines(app)[2])
        assert not [line for line in lines(app) if "…" in line]
        for odd in ("~nosuchuser/x.json", "x" * 300):
            app.screen.query_one(Input).value = odd
            await pilot.press("enter")
            await until(pilot, lambda odd=odd: f"{odd[-17:]} " in lines(app)[2])  # type: ignore[misc]
            assert "⚠ no such file" in lines(app)[2]
        await pilot.press("escape", "o", *str(MLP), "enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))


async def test_a_failed_capture_goes_back_to_the_form_as_it_was():
    options = CaptureOptions("mlp", active=7, python="/bin/false")
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        app.recorder.capture(options)
        await pilot.pause()
        assert isinstance(app.screen, CaptureScreen)
        await until(pilot, lambda: "change and try again" in lines(app)[-1])
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, FormScreen))
        assert isinstance(app.screen, FormScreen)
        assert asked(app.screen.form.options) == options


def test_a_failure_s_log_is_told_in_full():
    tail = tuple(f"line {n} " + "long " * 30 for n in range(40))
    started = Progress(0.0, Phase.STARTING)
    shown = capture_lines([started, Failed(1.0, "killed", "it failed", tail)], "x", 1.0, True, 60, 20)
    told = " ".join(line.text for line in shown if line.role == "output")
    assert "line 0 " in told
    assert told.count("long") == 40 * 30


async def test_ctrl_c_leaves_from_a_dialog():
    every = ("question_mark", "ctrl+p", "ctrl+o", "T", "l", "e")
    for keys in (("slash", "a"), ("slash", *"mm", "enter", "L"), *(("right", key) for key in every)):
        async with visit(MLP, size=SIZE) as (app, pilot, _):
            await pilot.press(*keys, "ctrl+c")
            await until(pilot, lambda app=app: app._exit)  # type: ignore[misc]


async def test_a_file_without_events_says_so(tmp_path):
    async with visit(write_trace(tmp_path / "none.json", []), size=SIZE) as (app, pilot, _):
        await until(pilot, lambda: "this file has no events" in lines(app)[0])
        assert "CPU only" not in text(app)
        await pilot.press("right")
        await until(pilot, lambda: "there is nothing to select" in lines(app)[-1])


async def test_a_file_that_is_no_trace_says_what_one_is(tmp_path):
    path = tmp_path / "text.json"
    path.write_text("not a trace")
    task = LoadTask(path).start()
    task.ended.result(30)
    app = TracetuiApp(task)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "is not a trace: tracetui opens what" in text(app))
        assert "Esc  quit" in text(app)
        await pilot.press("escape")
        await until(pilot, lambda: app._exit)


async def test_what_was_entered_wrongly_can_be_put_right(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        await pilot.press("colon", *"abc", "enter")
        await until(pilot, lambda: "⚠ a time looks like" in lines(app)[-1])
        await pilot.press("ctrl+u", *"9s", "enter")
        await until(pilot, lambda: "⚠ the trace runs from" in lines(app)[-1])
        await pilot.press("ctrl+u", *"100us", "enter")
        await until(pilot, lambda: screen_of(app).prompts.prompt is None)
        assert screen_of(app).timeline.navigator.view.contains(100_000)
        assert screen_of(app).timeline.navigator.scene.instant == 100_000
        await pilot.press("E", "ctrl+u", *"no/x.md", "enter")
        await until(pilot, lambda: "⚠ no/x.md: No such file or directory" in lines(app)[-1])
        await pilot.press("ctrl+u", *"~nosuchuser/x.md", "enter")
        await until(pilot, lambda: "⚠ ~nosuchuser/x.md: No such file or directory" in lines(app)[-1])
        await pilot.press("ctrl+u", *"x.md", "enter")
        await until(pilot, lambda: "wrote x.md" in lines(app)[-1])
        assert (tmp_path / "x.md").read_text().startswith("| Name")


async def test_the_palette_of_the_first_screen():
    app = TracetuiApp()
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press("ctrl+p", *"open", "enter")
        await until(pilot, lambda: "a path (.json" in lines(app)[2])


async def test_a_click_cancels_the_loading(tmp_path):
    task = LoadTask(tmp_path / "big.json")  # never started
    app = TracetuiApp(task)
    async with app.run_test(size=SIZE) as pilot:
        await until(pilot, lambda: "Esc  cancel" in text(app))
        at = next(y for y, line in enumerate(lines(app)) if "Esc  cancel" in line)
        await pilot.click(offset=(lines(app)[at].index("Esc"), at))
        await until(pilot, lambda: task.cancelled)


@pytest.mark.parametrize("keys", ["/gemm", "/gemm\r", ":90us\r", "/a_b+c-d@e\\f/g\r"])
async def test_what_is_typed_in_one_piece_goes_to_the_line(keys):
    """As a slow link brings it: all letters before the line is there."""
    names = {
        "/": "slash", ":": "colon", "\r": "enter", "_": "underscore", "+": "plus", "-": "minus", "@": "at"
    }  # fmt: skip
    names["\\"] = "backslash"
    async with visit(MLP) as (app, pilot, _):
        await app.workers.wait_for_complete()
        await pilot.pause()
        screen = screen_of(app)
        for key in keys:
            app.post_message(events.Key(names.get(key, key), key))
        if keys.startswith("/"):
            await until(pilot, lambda: screen.session.search.query == keys[1:].strip())
        await until(pilot, lambda: (screen.prompts.prompt is None) == keys.endswith("\r"))
        assert screen.session.gaps.at is None, "g was no key"
        assert screen.session.marks.marks.all == []
