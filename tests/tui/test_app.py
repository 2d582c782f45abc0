"""The app by its keys: the first picture, selection shared by timeline and tables, gaps, search."""

import threading

import numpy as np

from tracetui.analysis.idle.gap_list import GapList, gaps_of
from tracetui.analysis.part import Part
from tracetui.core.units import duration
from tracetui.rules import find_findings
from tracetui.session import gap_navigator
from tracetui.session.gap_navigator import gap_order
from tracetui.trace.model import I64
from tracetui.tui.app import TracetuiApp
from tracetui.tui.command_palette import Palette
from tracetui.tui.loading import LoadTask
from tracetui.tui.panes.averages import AveragesPane
from tracetui.tui.panes.details import DetailsPane
from tracetui.tui.panes.view import ViewPane
from tracetui.tui.prompt import Prompt
from tracetui.tui.screens.explain import ExplainScreen
from tracetui.tui.screens.help import HelpScreen
from tracetui.tui.screens.loading import LoadingScreen, Progress
from tracetui.tui.screens.trace import TraceScreen
from tracetui.tui.tables.view import TableView
from tracetui.views import findings_text

from .conftest import DATA, app_of, pane_of, screen_of, slice_event, until, visit, write_trace

LLAMA = DATA / "llama_train.json.gz"
SIZE = (120, 36)


def text(app: TracetuiApp) -> str:
    """All that is on the screen."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text for strip in strips)


async def test_it_opens_with_the_timeline_the_averages_and_the_keys():
    async with visit(LLAMA, size=SIZE) as (app, pilot, screen):
        await until(pilot, lambda: "aten::mm" in text(app))
        shown = text(app)
        for words in ("llama_train.json.gz", "NVIDIA H200", "ProfilerStep#2", "stream 7"):
            assert words in shown
        assert "wasd move" in shown
        assert screen.focused is screen.timeline


async def test_keys_move_the_timeline_whoever_has_the_focus():
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        start = screen.navigator.view
        await pilot.press("w")
        assert screen.navigator.view.span_ns < start.span_ns
        await pilot.press("3", "3", "6")
        assert isinstance(screen.focused, ViewPane)
        before = screen.navigator.view
        await pilot.press("d")
        assert screen.navigator.view.start_ns > before.start_ns
        await pilot.press("0")
        assert screen.navigator.view.span_ns >= start.span_ns


async def test_the_row_of_the_selected_event_comes_into_view_and_enter_jumps_to_instances(llama):
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        pane = pane_of(screen, AveragesPane)
        await until(pilot, lambda: pane.averages is not None)
        events = np.flatnonzero(llama.name == llama.names.index("aten::silu"))
        screen.navigator.select(int(events[0]))
        await until(pilot, lambda: pane.row is not None and pane.averages.names[pane.row] == "aten::silu")
        ran = {int(i): int(llama.duration[(llama.op == i) & (llama.launch >= 0)].sum()) for i in events}
        most = sorted(events.tolist(), key=lambda i: (-ran[i], -llama.duration[i]))
        longest = events[np.argsort(-llama.duration[events], kind="stable")]
        assert most[0] != longest[0], "so that it makes a difference"
        await pilot.press("tab", "enter")
        await until(pilot, lambda: screen.navigator.selected == most[0])
        assert screen.footer.message.startswith("the most self GPU time of ")
        assert duration(ran[most[0]]) in screen.footer.message
        await pilot.press("enter")
        await until(pilot, lambda: screen.navigator.selected == most[1])
        view = screen.navigator.view
        assert view.start_ns <= int(llama.start[most[1]]) < view.end_ns
        pane.sort_by("cpu_total")
        await pilot.press("enter")
        await until(pilot, lambda: screen.navigator.selected == int(longest[0]))
        assert "the longest of" in screen.footer.message


async def test_sorting_by_key_and_filtering():
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        pane = pane_of(screen, AveragesPane)
        await until(pilot, lambda: pane.averages is not None)
        assert pane.averages is not None
        assert pane.sort == "self_device"
        await pilot.press("less_than_sign")
        assert (pane.sort, pane.descending) == ("name", False)
        assert pane.table is not None
        shown = pane.table.columns[0].text
        names = [shown(r).casefold() for r in pane.order]
        assert names == sorted(names)
        await pilot.press("R")
        assert [shown(r).casefold() for r in pane.order] == sorted(names, reverse=True)
        await pilot.press("F", *"softmax")
        assert screen.prompts.prompt is not None
        await until(pilot, lambda: 0 < len(pane.order) < 12)
        await pilot.press("escape")
        await until(pilot, lambda: len(pane.order) == pane.table.count)
        assert not screen.query(Prompt)


async def test_g_walks_the_gaps_longest_first_or_by_time():
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        gaps = gaps_of(screen.session.active.whole)
        by_size = np.argsort(-gaps.duration, kind="stable")
        await pilot.press("g")
        assert screen.session.gaps.at == by_size[0]
        assert screen.navigator.selected == int(gaps.after[by_size[0]])
        assert f"gap 1 of {len(gaps):,}, longest first" in screen.footer.message
        await pilot.press("g", "g", "G")
        assert screen.session.gaps.at == by_size[1]
        await pilot.press("o", "g")
        assert screen.session.gaps.at == by_size[1] + 1
        view = screen.navigator.view
        assert view.start_ns <= int(gaps.start[screen.session.gaps.at]) < view.end_ns


async def test_in_a_large_trace_g_has_the_gaps_sorted_in_a_thread(monkeypatch):
    threads: list[threading.Thread] = []

    def order(gaps: GapList, by_size: bool, minimum: int) -> I64:
        threads.append(threading.current_thread())
        return gap_order(gaps, by_size, minimum)

    monkeypatch.setattr(gap_navigator, "gap_order", order)
    monkeypatch.setattr(gap_navigator, "SOON", 0)
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        await until(pilot, lambda: len(threads) == 1)  # longest first, before it is asked for
        await pilot.press("o", "g")
        await until(pilot, lambda: "by time" in screen.footer.message and "gap " in screen.footer.message)
        await until(pilot, lambda: screen.session.gaps.at is not None)
        await pilot.press("o", "g", "o", "g")
        assert len(threads) == 2
        assert threading.main_thread() not in threads


async def test_the_gaps_pane_names_causes_and_jumps():
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        await pilot.press("6")
        pane = pane_of(screen, ViewPane)
        await until(pilot, lambda: pane.table is not None and pane.table.column("cause") is not None)
        await until(pilot, lambda: "idle" in pane.note)
        await pilot.press("down", "down", "enter")
        gaps = gaps_of(screen.session.active.whole)
        third = int(np.argsort(-gaps.duration, kind="stable")[2])
        await until(pilot, lambda: screen.session.gaps.at == third)
        assert "idle for" in screen.footer.message
        assert screen.navigator.selected == int(gaps.after[third])


async def test_search_counts_as_one_types_and_walks(llama):
    async with visit(LLAMA, size=SIZE) as (app, pilot, screen):
        await pilot.press("slash", *"silu")
        expected = sum("silu" in n.casefold() for n in (llama.name_of(i) for i in range(len(llama))))
        await until(pilot, lambda: f"{expected} matches" in text(app))
        await pilot.press("enter")
        await until(pilot, lambda: screen.navigator.selected is not None)
        found = screen.session.search.slice
        assert screen.navigator.selected == int(found[0])
        await pilot.press("n", "n", "N")
        assert screen.navigator.selected == int(found[1])
        assert f"match 2 of {expected}" in screen.footer.message
        await pilot.press("slash", *"gemm", "enter")  # the next search begins anew
        assert screen.session.search.query == "gemm"
        await pilot.press("slash", "end", "x", "backspace", "enter")
        assert screen.session.search.query == "gemm"
        await pilot.press("escape")
        assert screen.session.search.query == ""
        await pilot.press("n")
        assert "press /" in screen.footer.message


async def test_a_wrong_search_says_so_and_escape_takes_it_away():
    async with visit(LLAMA, size=SIZE) as (app, pilot, screen):
        await pilot.press("slash", "slash", "left_parenthesis")
        await until(pilot, lambda: "not a regular expression" in text(app))
        await pilot.press("enter")
        await pilot.pause()
        assert screen.prompts.prompt is not None
        assert "not a regular expression" in text(app)
        await pilot.press("escape")
        await until(pilot, lambda: not screen.query(Prompt))
        assert screen.focused is screen.timeline


async def test_a_wrong_search_entered_at_once_stays_open_until_it_is_right():
    async with visit(LLAMA, size=SIZE) as (app, pilot, screen):
        await pilot.press("slash")
        prompt = screen.query_one(Prompt)
        prompt._input.value = "dur>"
        await pilot.press("enter")  # before the typing has paused
        await until(pilot, lambda: "a time looks like dur>100us" in text(app))
        assert screen.prompts.prompt is prompt
        await pilot.press(*"1ms", "enter")
        await until(pilot, lambda: screen.prompts.prompt is None)
        assert screen.session.search.query == "dur>1ms"
        assert "match 1 of" in screen.footer.message


async def test_brackets_follow_the_flow_from_op_to_kernel_and_back(llama):
    kernel = int(np.flatnonzero(llama.launch >= 0)[100])
    launch = int(llama.launch[kernel])
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        screen.navigator.select(kernel)
        await pilot.press("left_square_bracket")
        assert screen.navigator.selected == launch
        await pilot.press("left_square_bracket")
        assert screen.navigator.selected == int(llama.op[launch])
        await pilot.press("right_square_bracket", "right_square_bracket")
        assert screen.navigator.selected == kernel


async def test_details_are_read_off_the_file_and_lead_on(llama):
    kernel = int(np.flatnonzero(llama.launch >= 0)[100])
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        await pilot.press("2")
        pane = pane_of(screen, DetailsPane)
        await until(pilot, lambda: any(f.label == "events" for f in pane.facts))
        screen.navigator.select(kernel)
        await until(pilot, lambda: any(f.label == "grid" for f in pane.facts))
        labels = {f.label: f for f in pane.facts}
        assert labels["launch"].event == int(llama.launch[kernel])
        assert labels["correlation"].value == str(int(llama.correlation[kernel]))
        assert {"occupancy", "step", "op", "duration"} <= set(labels)
        pane.show_row(next(n for n, line in enumerate(pane.lines) if line.label == "launch"))
        await pilot.press("enter")
        await until(pilot, lambda: screen.navigator.selected == int(llama.launch[kernel]))


async def test_steps_and_findings_show_and_jump(llama):
    async with visit(LLAMA, size=SIZE) as (app, pilot, screen):
        await pilot.press("7")
        steps = pane_of(screen, ViewPane)
        await until(pilot, lambda: steps.shown is not None and "step 3" in text(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: screen.navigator.selected is not None)
        assert llama.name_of(screen.navigator.selected or 0) == "ProfilerStep#3"
        await pilot.press("8")
        findings = pane_of(screen, ViewPane)
        await until(pilot, lambda: findings.shown is not None)
        await pilot.press("enter")
        first = find_findings(screen.session.active.whole)[0]
        await until(pilot, lambda: screen.navigator.selected == first.evidence[0])
        await pilot.press("enter")
        await until(pilot, lambda: screen.navigator.selected == first.evidence[1 % len(first.evidence)])


async def test_a_digit_opens_and_closes_its_pane_and_tab_moves_the_arrows():
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        await pilot.press("tab")
        assert screen.focused is screen.area.open
        await pilot.press("escape")
        assert screen.focused is screen.timeline
        height = screen.timeline.size.height
        await pilot.press("3")
        assert screen.focused is screen.area.open  # it is shown already: it gets the keys
        await pilot.press("3")
        await pilot.pause()
        assert screen.area.open is None
        assert screen.timeline.size.height > height
        await pilot.press("3")
        await pilot.pause()
        assert isinstance(screen.focused, AveragesPane)


async def test_help_and_palette_open_and_close():
    async with visit(LLAMA, size=SIZE) as (app, pilot, _):
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        await until(pilot, lambda: "next, previous gap" in text(app))
        await pilot.press("escape")
        assert isinstance(app.screen, TraceScreen)
        await pilot.press("ctrl+p", *"next gap")
        await until(pilot, lambda: isinstance(app.screen, Palette) and len(app.screen.shown) < 5)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        await until(pilot, lambda: screen_of(app).session.gaps.at is not None)


async def test_a_trace_of_the_cpu_alone_says_what_that_means(tmp_path):
    path = write_trace(
        tmp_path / "cpu.json", [slice_event("aten::mm", 0, 10), slice_event("aten::add", 20, 5)]
    )
    async with visit(path, size=SIZE) as (app, pilot, _):
        await until(pilot, lambda: "CPU only" in text(app) and "CPU-ONLY" in text(app))
        await pilot.press("2")
        await until(pilot, lambda: "there are no kernels or launches to see" in text(app).replace("\n", " "))
        await pilot.press("g")
        assert screen_of(app).footer.message.startswith("gap 1 of 1, longest first: in no op for 10.000 µs")


async def test_what_was_lost_is_said_in_the_first_line(tmp_path):
    app = app_of(write_trace(tmp_path / "t.json", [{"ph": "B", "name": "x", "pid": 1, "tid": 1, "ts": 5}]))
    async with app.run_test(size=SIZE):
        assert "⚠ odd: " in text(app).split("\n")[0]


async def test_hostile_names_stay_plain_text(tmp_path):
    evil = "[bold red]pwn[/] \x1b[31mred\x07 \u202eabc"
    args = {"[link=x]key[/]\x1b]0;t\x07": "\x1b[2Jvalue\nsecond [blink]line[/]"}
    path = write_trace(tmp_path / "[red]evil[bold].json", [slice_event(evil, 0, 10, args=args)])
    async with visit(path, size=(120, 40)) as (app, pilot, screen):
        await pilot.press("right", "2")
        pane = pane_of(screen, DetailsPane)
        await until(pilot, lambda: any("[blink]" in f.value for f in pane.facts))
        await until(pilot, lambda: "[blink]line[/]" in text(app))
        shown = text(app)
        assert "[bold red]pwn[/]" in shown
        assert "[red]evil[bold].json" in shown
        assert not any(ord(c) < 32 for c in shown.replace("\n", ""))
        assert "\u202e" not in shown
        await pilot.press("3", "slash", *"[bold", "enter")
        await pilot.pause()
        assert "“[bold”" in screen.footer.message


async def test_loading_shows_progress_and_can_be_cancelled(tmp_path):
    task = LoadTask(tmp_path / "big.json")  # never started: it stays where we put it
    task.done, task.total = 3 << 20, 12 << 20
    app = TracetuiApp(task)
    async with app.run_test(size=(80, 24)) as pilot:
        assert isinstance(app.screen, LoadingScreen)
        await until(pilot, lambda: "reading big.json, 3.15 MB of 12.6 MB" in text(app))
        assert "25%" in text(app)
        await pilot.press("escape")
        assert task.cancelled
    assert app.return_code == 0


async def test_a_trace_that_arrives_later_replaces_the_progress():
    task = LoadTask(LLAMA)
    app = TracetuiApp(task)
    async with app.run_test(size=(80, 24)) as pilot:
        assert isinstance(app.screen, LoadingScreen)
        task.start()
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))


async def test_a_trace_that_arrives_under_the_palette_is_shown_when_that_has_left():
    task = LoadTask(LLAMA)
    app = TracetuiApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(LoadingScreen(task))
        await pilot.press("ctrl+p")
        await until(pilot, lambda: isinstance(app.screen, Palette))
        task.start()
        await until(pilot, task.ended.done)
        await pilot.pause(0.2)  # its end is told to the app, which must leave the palette as it is
        assert isinstance(app.screen, Palette)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen))
        assert len(app.traces) == 1


def test_a_trace_may_be_read_before_the_app_starts():
    app = TracetuiApp(LoadTask(LLAMA))
    wanted = app.get_css_variables()
    assert "part-compute" in wanted  # the theme's own, which the trace's screen needs
    assert wanted.items() <= app.stylesheet._variables.items()


async def test_a_load_that_ends_with_the_app_costs_nothing():
    app = TracetuiApp(LoadTask(LLAMA))
    async with app.run_test(size=(80, 24)):
        loading = app.screen
        assert isinstance(loading, LoadingScreen)
    assert not app.screen_stack
    await app.on_loading_screen_ended(LoadingScreen.Ended(loading))
    assert not app.traces


async def test_a_file_that_is_no_trace_becomes_a_message(tmp_path):
    path = tmp_path / "not.json"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200))
    task = LoadTask(path)
    app = TracetuiApp(task)
    async with app.run_test(size=(80, 24)) as pilot:
        task.start()
        await until(pilot, lambda: task.error is not None)
        await until(pilot, lambda: "Esc  quit" in text(app))
        # Where the message is broken into lines depends on the length of the path.
        assert "".join((task.error or "?").split())[-12:] in "".join(text(app).split())
        assert app.screen.query_one(Progress)
        await pilot.press("q")
    assert app.return_code == 1


def test_a_cancelled_load_ends():
    task = LoadTask(LLAMA)
    task.cancel()
    task.start()
    task.ended.result(30)
    assert task.error is None


async def test_e_explains_the_event_and_enter_follows_its_chain(llama):
    kernel = int(np.flatnonzero(llama.launch >= 0)[100])
    async with visit(LLAMA, size=SIZE) as (app, pilot, screen):
        await pilot.press("e")
        assert "select an event first" in screen.footer.message
        screen.navigator.select(kernel)
        await pilot.press("e")
        sheet = app.screen
        assert isinstance(sheet, ExplainScreen)
        await until(pilot, lambda: sheet.text is not None)
        await until(pilot, lambda: "◀ this event" in text(app))
        launch = int(llama.launch[kernel])
        row = next(n for n, line in enumerate(sheet.lines) if line.event == launch)
        sheet.query_one(TableView).show_row(row)
        await pilot.press("enter")
        await until(pilot, lambda: screen.navigator.selected == launch)
        await pilot.press("e", "escape")
        await until(pilot, lambda: app.screen is screen)
        assert screen.navigator.selected == launch


async def test_a_failed_analysis_costs_its_pane_and_not_the_app(monkeypatch):
    def broken(results: Part) -> None:
        raise ValueError("[bold]no\x1b[2J")

    monkeypatch.setattr(findings_text, "find_findings", broken)
    async with visit(LLAMA, size=SIZE) as (app, pilot, _):
        await pilot.press("8")
        await until(pilot, lambda: "could not be computed (ValueError: [bold]no␛[2J)" in text(app))
        await pilot.press("3")
        await until(pilot, lambda: "aten::mm" in text(app))
