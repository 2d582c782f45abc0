"""Two recordings on one screen: how they are opened, walked, told in the panes, and closed again."""

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from textual.pilot import Pilot

from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.steps.scope import step_windows_of
from tracetui.capture.events import CaptureResult
from tracetui.session.layout import PAIR
from tracetui.timeline.scene import Event
from tracetui.tui.app import TracetuiApp
from tracetui.tui.layouts import LAYOUTS
from tracetui.tui.loading import LoadTask
from tracetui.tui.panes import PANES, keyed
from tracetui.tui.panes.compare import BothPane, ComparePane
from tracetui.tui.screens.explain import DifferenceScreen, ExplainScreen, StepScreen
from tracetui.tui.screens.open import OpenScreen
from tracetui.tui.screens.trace import TraceScreen
from tracetui.tui.settings import Settings
from tracetui.views.parts import evidence

from .conftest import pane_of, screen_of, sheet_lines, slice_event, until, visit, write_trace
from .test_app import text

SAMPLES = Path(__file__).resolve().parents[2] / "sample_traces"
EAGER, COMPILED, TRAIN = (SAMPLES / f"{name}.json.gz" for name in ("mlp_eager", "mlp_compile", "train"))
USUAL = (120, 36)


def two(a: Path = EAGER, b: Path = COMPILED, **settings: object) -> TracetuiApp:
    tasks = [LoadTask(path).start() for path in (a, b)]
    for task in tasks:
        task.ended.result(30)
    return TracetuiApp(tasks[0], Settings(**settings), others=tasks[1:])  # type: ignore[arg-type]


async def compared(pilot: Pilot[None]) -> TraceScreen:
    """Wait until the two are compared, and the pane shows it."""
    app = pilot.app
    assert isinstance(app, TracetuiApp)

    def done() -> bool:
        screen = app.screen
        if not isinstance(screen, TraceScreen) or not screen.session.comparing.differences:
            return False
        pane = screen.area.open
        return not isinstance(pane, ComparePane) or pane.overview is not None

    await until(pilot, done, 30)
    return screen_of(app)


def kernels(screen: TraceScreen, of: int, part: str) -> list[int]:
    trace = screen.navigator.recordings[of].trace
    found = [i for i in range(len(trace)) if part in trace.name_of(i)]
    return sorted(
        (i for i in found if trace.lanes[int(trace.lane[i])].device == 0), key=lambda i: trace.start[i]
    )


async def test_two_open_with_the_answer_the_reasons_and_the_numbers():
    app = two()
    async with app.run_test(size=USUAL) as pilot:
        screen = await compared(pilot)
        lines = text(app).splitlines()
        assert lines[0].startswith(" A mlp_eager   B mlp_compile  NVIDIA H200 · 3 steps")
        comparison = screen.session.comparing.comparison
        assert comparison.answer.split(". ")[0] in lines[1]
        assert " A 96% B 92% busy" in lines[2]
        assert any(line.startswith(" A mlp_eager") for line in lines[3:])
        assert any(line.startswith(" B mlp_compile") for line in lines[3:])
        pane = pane_of(screen, ComparePane)
        shown = "\n".join(lines)
        assert "What explains it" in shown
        assert "step time" in shown
        assert "noise" in shown
        for n, one in enumerate(comparison.explanations):
            assert pane.entries[n].text == one.text
        # Every number of the table, and idle time by cause.
        names = [entry.name for entry in pane.entries]
        assert {"step time", "GPU work", "launches", "kernels", "dispatch"} <= set(names)
        assert ") next difference" in lines[-1]


async def test_both_gpus_streams_are_in_view_on_a_small_screen():
    app = two(TRAIN, SAMPLES / "train_memory.json.gz")
    async with app.run_test(size=(80, 24)) as pilot:
        await compared(pilot)
        lines = text(app).splitlines()
        for letter in "AB":
            rule = next(n for n, line in enumerate(lines) if line.startswith(f"── {letter} · GPU 0"))
            assert "stream 7" in lines[rule + 1]


async def test_every_tab_has_its_title_at_120_columns():
    """They stand closer beside whose pane it is; the open one has a blank on both sides."""
    app = two()
    more = sum(len(f" {key} {spec.key} ") for key, spec in keyed(PANES)[9:])  # with the nine of a number, 120
    async with app.run_test(size=(120 + more, 36)) as pilot:
        tabs = (await compared(pilot)).area.tabs
        panes = [(key, spec.key) for key, spec in (*keyed(LAYOUTS["pair"].panes), *keyed(PANES))]
        for key, pane in (panes[0], ("7", "steps"), panes[-1]):
            await pilot.press(key)
            await until(pilot, lambda pane=pane: tabs.open == pane)
            assert [tuple(text.split()) for _, text in tabs.labels()] == panes
        await until(pilot, lambda: tabs.render_line(0).text.rstrip().endswith("of A"))
        assert f" {'  '.join(map(' '.join, panes[-2:]))} " in tabs.render_line(0).text
        await pilot.press("8")
        await until(pilot, lambda: " 7 steps  8 findings  9 efficiency " in tabs.render_line(0).text)


async def test_e_explains_the_line_under_the_cursor():
    app = two()
    async with app.run_test(size=USUAL) as pilot:
        screen = await compared(pilot)
        pane = pane_of(screen, ComparePane)
        pane.focus()
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, DifferenceScreen))
        shown = "\n".join(sheet_lines(app))
        assert "aten::gelu and aten::mul became triton poi: gelu mul" in shown
        assert "triton poi: gelu mul: 1 time, 55.7 µs" in shown
        # Enter on a place goes there.
        sheet = app.screen
        assert isinstance(sheet, DifferenceScreen)
        for _ in range(next(n for n, line in enumerate(sheet.lines) if line.event == 1)):
            await pilot.press("down")
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen and screen.navigator.selected is not None)
        assert "place 2 of 3" in screen.footer.message
        assert screen.navigator.scene.event == Event(1, kernels(screen, 1, "triton_poi")[1])
        # A number says what it is, and how far the steps are apart.
        pane.focus()
        pane.show_row(next(n for n, entry in enumerate(pane.entries) if entry.name == "step time"))
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, DifferenceScreen))
        shown = "\n".join(sheet_lines(app))
        assert "From the end of the previous step to its own end" in shown
        assert "steps of A" in shown
        assert "within noise" in shown


async def test_keys_go_from_difference_to_difference_and_say_why():
    app = two()
    async with app.run_test(size=(200, 50)) as pilot:
        screen = await compared(pilot)
        told = screen.session.comparing.differences
        for n, one in enumerate(told):
            await pilot.press("right_parenthesis")
            await pilot.pause()
            assert f"difference {n + 1} of {len(told)}" in screen.footer.message
            assert f"difference {n + 1}  {one.text[:60]}" in text(app)
            assert pane_of(screen, ComparePane).row == n
        await pilot.press("left_parenthesis")
        assert screen.session.comparing.at == len(told) - 2
        await pilot.press("escape")
        await pilot.pause()
        assert screen.session.comparing.told() == ()
        assert app.screen is screen


async def test_the_next_difference_draws_the_lines_of_two_entries(monkeypatch):
    drawn: list[int] = []
    line = ComparePane.render_line
    monkeypatch.setattr(ComparePane, "render_line", lambda pane, y: drawn.append(y) or line(pane, y))
    app = two()
    app.console._color_system = Console(color_system="truecolor", force_terminal=True)._color_system
    async with app.run_test(size=(200, 50)) as pilot:
        screen = await compared(pilot)
        await pilot.press("right_parenthesis")
        pane = pane_of(screen, ComparePane)
        for _ in range(3):
            await pilot.pause()
            before = pane.row
            drawn.clear()
            await pilot.press("right_parenthesis")
            await pilot.pause()
            both = [y for y, made in enumerate(pane.lines()) if {p.entry for p in made} & {before, pane.row}]
            assert before != pane.row
            assert sorted(drawn) == both
            assert len(both) < pane.size.height // 2
        shown = text(app)
        pane.refresh()
        await pilot.pause()
        assert text(app) == shown, "what was not drawn again is as it would be"


async def test_enter_in_the_pane_goes_to_each_place_of_a_difference():
    async with two().run_test(size=USUAL) as pilot:
        screen = await compared(pilot)
        comparing = screen.session.comparing
        fused = next(n for n, one in enumerate(comparing.differences) if one.kind == "fused")
        await pilot.press("C", *["down"] * fused)
        triton = kernels(screen, 1, "triton_poi")
        for n in range(3):
            await pilot.press("enter")
            await until(pilot, lambda n=n: screen.navigator.scene.event == Event(1, triton[n]))  # type: ignore[misc]
            assert f"place {n + 1} of 3" in screen.footer.message
            assert screen.area.open is not None
            assert screen.area.open.has_focus, "the keys stay with the pane"
        # A number says how far the steps are apart; the last line leads to the averages.
        pane = pane_of(screen, ComparePane)
        pane._go([entry.name for entry in pane.entries].index("step time"))
        await pilot.press("enter")
        await until(pilot, lambda: "lowest and highest of a step: A " in screen.footer.message)
        # Idle time leads to its longest gap: mlp_eager has none for the CPU's reasons, mlp_compile has.
        pane._go([entry.name for entry in pane.entries].index("dispatch"))
        results = screen.navigator.recordings[1].whole
        await until(pilot, lambda: all(one.whole.knows(causes_of) for one in screen.navigator.recordings))
        await pilot.press("enter")
        await until(pilot, lambda: "the longest such gap in" in screen.footer.message)
        assert screen.navigator.active == 1
        assert screen.session.gaps.at == evidence(results, "dispatch").gap
        pane._go([entry.name for entry in pane.entries].index("averages"))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(screen.area.open, BothPane))


async def test_the_partner_is_a_key_away_and_its_numbers_are_on_the_line():
    app = two()
    async with app.run_test(size=(160, 40)) as pilot:
        screen = await compared(pilot)
        gemm, other = kernels(screen, 0, "nvjet")[1], kernels(screen, 1, "nvjet")[1]
        screen.navigator.select(gemm, of=0)
        await pilot.pause()
        shown = text(app)
        assert " A nvjet" in shown or " A gemm" in shown
        assert "in B " in shown
        assert "B - A = " in shown
        await pilot.press("equals_sign")
        await pilot.pause()
        assert screen.navigator.scene.event == Event(1, other)
        assert "in A " in text(app)
        await pilot.press("equals_sign")
        assert screen.navigator.scene.event == Event(0, gemm)
        screen.navigator.select(kernels(screen, 1, "triton")[0], of=1)
        await pilot.press("equals_sign")
        await pilot.pause()
        assert screen.footer.message.startswith("only B has this")
        assert "only in B" in text(app)
        await pilot.press("ampersand")
        assert "aligned at" in screen.footer.message


async def test_e_explains_a_row_of_the_averages_of_both():
    app = two()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await compared(pilot)
        await pilot.press("P")
        await until(pilot, lambda: screen.area.open is not None and screen.area.open.table is not None)
        pane = pane_of(screen, BothPane)
        pane.focus()
        await pilot.press("down", "e")
        await until(pilot, lambda: isinstance(app.screen, ExplainScreen))
        assert screen.navigator.selected is not None
        assert pane.joined is not None
        assert pane.row is not None
        assert screen.navigator.trace.name_of(screen.navigator.selected) == pane.joined.names[pane.row]


async def test_the_averages_of_both_are_sorted_and_lead_to_both():
    app = two()
    async with app.run_test(size=(200, 40)) as pilot:
        screen = await compared(pilot)
        await pilot.press("P")
        await until(pilot, lambda: screen.area.open is not None and screen.area.open.table is not None)
        pane = pane_of(screen, BothPane)
        assert pane.table is not None
        keys = [column.key for column, _ in pane._columns()]
        assert {"name", "self_device_a", "self_device_b", "self_device_change", "self_device_ratio"} <= set(
            keys
        )
        for key in ("self_device_a", "self_device_b", "self_device_change", "self_device_ratio"):
            pane.sort_by(key, True)
            column = pane.table.column(key)
            assert column.values is not None
            values = np.asarray(column.values(), dtype=float)[pane.order]
            assert (np.diff(values[np.isfinite(values)]) <= 0).all()
        assert pane.joined is not None
        row = next(r for r, name in enumerate(pane.joined.names) if "nvjet" in name)
        pane.show_row(row)
        await pilot.press("enter")
        await until(pilot, lambda: screen.navigator.scene.event is not None)
        assert screen.navigator.active == 0
        await pilot.press("enter")
        await until(pilot, lambda: screen.navigator.active == 1)
        assert pane.joined.names[row] == screen.trace.name_of(screen.navigator.selected or 0)
        assert screen.area.open is pane
        for part in ("ops", "kernels", "annotations", "all"):
            await pilot.press("b")
            await until(pilot, lambda part=part: f"{part}, mean per step" in text(app))
            assert pane.part == part
            assert screen.footer.message == f"averages of {part}"
            assert pane.table is not None
            assert len(pane.order) == len(pane.joined.parts[part])


async def test_panes_of_one_recording_are_those_of_the_selections():
    app = two(COMPILED, EAGER, pane="kernels")
    async with app.run_test(size=(160, 40)) as pilot:
        screen = await compared(pilot)
        counts = [int(gaps_of(r.whole).duration.size) for r in screen.navigator.recordings]
        screen.navigator.select(kernels(screen, 0, "triton")[0], of=0)
        await pilot.press("4")
        await until(pilot, lambda: "triton_poi" in "\n".join(text(app).splitlines()[23:]))
        first = screen.area.open
        assert first.whole is screen.navigator.recordings[0].whole
        assert "of A" in text(app)
        screen.navigator.select(kernels(screen, 1, "Gelu")[0], of=1)
        await until(pilot, lambda: screen.area.open is not first)
        second = screen.area.open
        assert second.has_focus, "the keys stay with the table"
        assert second.whole is screen.navigator.recordings[1].whole
        await until(pilot, lambda: "of B" in text(app) and second.table is not None)
        assert "triton_poi" not in "\n".join(text(app).splitlines()[23:])
        assert sum(pane.display for pane in (first, second)) == 1
        screen.navigator.select(kernels(screen, 0, "triton")[0], of=0)
        await until(pilot, lambda: screen.area.open is first and first.display)
        await until(pilot, lambda: screen.area.tabs.counts.get("gaps") == f"{counts[0]:,}")
        # Steps are shown where they are on the axis.
        screen.navigator.select(kernels(screen, 1, "Gelu")[0], of=1)
        screen.session.comparing.align()
        await pilot.press("7")
        await until(pilot, lambda: screen.area.open is not None and screen.area.open.table is not None)
        screen.area.open.show_row(2)
        await pilot.press("enter")
        offset = screen.navigator.scene.sources[1].offset
        low, high = (int(one[2]) + offset for one in step_windows_of(screen.navigator.recordings[1].whole))
        await until(
            pilot, lambda: screen.navigator.view.start_ns <= low < high <= screen.navigator.view.end_ns
        )


async def test_search_gaps_and_marks_go_on_working():
    async with two().run_test(size=USUAL) as pilot:
        screen = await compared(pilot)
        await pilot.press("slash", *"cat:kernel", "enter")
        await until(
            pilot, lambda: len(screen.session.search) == 15 + 12 and screen.navigator.selected is not None
        )
        seen = set()
        for _ in range(27):
            await pilot.press("n")
            await pilot.pause()
            seen.add(screen.navigator.scene.event)
        assert len(seen) == 27
        assert {event.source for event in seen if event is not None} == {0, 1}
        await pilot.press("escape")
        for of in (0, 1):
            screen.navigator.select(kernels(screen, of, "nvjet")[0], of=of)
            await pilot.press("g")
            await pilot.pause()
            assert screen.navigator.active == of
            assert screen.session.gaps.at is not None
            await pilot.press("m", *f"mark {of}", "enter")
            await pilot.pause()
            assert [mark.label for mark in screen.navigator.recordings[of].marks.here] == [f"mark {of}"]
        assert len(screen.navigator.scene.marks) == 2


async def test_another_is_opened_to_compare_and_one_goes_on_with_either():
    async with visit(EAGER, pane="overview", size=USUAL) as (app, pilot, _):
        first = screen_of(app)
        for key in ("P", "right_parenthesis", "equals_sign", "ampersand", "Q"):
            await pilot.press(key)
            await pilot.pause()
            assert first.footer.message == "only one trace is open: C compares it with another"
        await pilot.press("C")
        await until(pilot, lambda: isinstance(app.screen, OpenScreen))
        assert "Compare with" in sheet_lines(app)[0]
        assert "compare with:" in sheet_lines(app)[1]
        await pilot.press(*str(COMPILED), "enter")
        both = await compared(pilot)
        assert both.navigator.recordings[0] is first.navigator.recordings[0], "A is not read again"
        assert both.navigator.scene.sources[0].rows is first.navigator.scene.sources[0].rows
        # Back to A by Esc, twice: the first one says what the second does.
        await pilot.press("escape")
        await pilot.pause()
        assert "Esc again goes back to A alone" in both.footer.message
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is first)
        assert app.traces == [first]
        # Again, by Ctrl+T; then on with B, for which there is a screen from then on.
        await pilot.press("ctrl+o", *str(COMPILED))
        await pilot.pause()
        await pilot.press("ctrl+t")
        both = await compared(pilot)
        await pilot.press("Q")
        await until(pilot, lambda: isinstance(app.screen, TraceScreen) and app.screen is not both)
        last = screen_of(app)
        assert last.navigator.recordings == [both.navigator.recordings[1]]
        assert app.traces == [first, last]
        # What is open is not read again.
        await pilot.press("C", *str(EAGER), "enter")
        assert (await compared(pilot)).navigator.recordings == [
            last.navigator.recordings[0],
            first.navigator.recordings[0],
        ]
        await pilot.press("t")
        await until(pilot, lambda: app.screen is first)


async def test_a_capture_of_the_same_program_is_compared_with_the_one_before(tmp_path):
    async with visit(EAGER, pane="overview", size=USUAL) as (app, pilot, _):
        first = screen_of(app)
        none = tmp_path / "none"
        app.recorder.captured(CaptureResult(COMPILED, none, none, None, {}))
        both = await compared(pilot)
        assert [r.trace.info.path for r in both.navigator.recordings] == [str(EAGER), str(COMPILED)]
        assert isinstance(both.area.open, ComparePane)
        # Another program is opened alone.
        app.recorder.captured(CaptureResult(TRAIN, none, none, None, {}))
        await until(pilot, lambda: isinstance(app.screen, TraceScreen) and app.screen not in (first, both))
        assert len(screen_of(app).navigator.recordings) == 1


async def test_one_that_cannot_be_read_says_so(tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text("no json")
    app = two(EAGER, broken)
    async with app.run_test(size=USUAL) as pilot:
        await until(pilot, lambda: "is not a trace" in text(app))
        await pilot.press("escape")
    assert app.return_code == 1


async def test_the_steps_pane_says_why_a_step_differs():
    async with visit(SAMPLES / "matmul_add_64_cold.json.gz", pane="steps", size=USUAL) as (
        app,
        pilot,
        screen,
    ):
        await until(pilot, lambda: screen.area.open is not None and screen.area.open.table is not None)
        await pilot.press("7", "equals_sign")
        await until(pilot, lambda: isinstance(app.screen, StepScreen) and app.screen.lines)
        sheet = app.screen
        assert isinstance(sheet, StepScreen)
        shown = "\n".join(sheet_lines(app))
        assert "beside the median of 2 other steps" in shown
        assert sheet.lines[0].label == "answer"
        assert sheet.lines[0].value[:40] in shown
        # Walk to a line with an event: the timeline shows it, Enter goes there.
        at = next(n for n, line in enumerate(sheet.lines) if line.event >= 0)
        for _ in range(at):
            await pilot.press("down")
        await until(pilot, lambda: screen.navigator.selected == sheet.lines[at].event)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen)
        assert screen.navigator.selected == sheet.lines[at].event


async def test_one_step_is_compared_with_nothing(tmp_path):
    path = write_trace(tmp_path / "one.json", [slice_event("ProfilerStep#1", 0, 10, cat="user_annotation")])
    async with visit(path, pane="steps", size=USUAL) as (_, pilot, screen):
        await until(pilot, lambda: screen.area.open is not None and screen.area.open.table is not None)
        await pilot.press("7", "equals_sign")
        await until(pilot, lambda: "only one step" in screen.footer.message)


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)])
@pytest.mark.parametrize("theme", ["dark", "light"])
async def test_it_fits_every_size(size, theme):
    app = two(theme=theme)
    async with app.run_test(size=size) as pilot:
        screen = await compared(pilot)
        await pilot.press("right_parenthesis", "C", "P", "1", "4", "tab", "down", "right", "equals_sign")
        await pilot.pause()
        lines = text(app).splitlines()
        assert len(lines) == size[1]
        assert all(len(line) <= size[0] for line in lines)
        assert screen.session.layout is PAIR


async def test_without_unicode_everything_is_ascii():
    app = two(ascii=True)
    async with app.run_test(size=USUAL) as pilot:
        await compared(pilot)
        await pilot.press("right_parenthesis")
        await pilot.pause()
        screen = screen_of(app)
        timeline = [strip.text for strip in screen.timeline.render_lines(screen.timeline.size.region)]
        assert all(line.isascii() for line in timeline)
        assert any("++++" in line for line in timeline)


async def test_the_other_recording_is_drawn_in_the_same_frame():
    """Its number of gaps and its pane do not wait for a message, which would take a second frame."""
    async with two().run_test(size=USUAL) as pilot:
        screen = await compared(pilot)
        counts = [f"{len(gaps_of(one.whole)):,}" for one in screen.navigator.recordings]
        assert counts[0] != counts[1]
        await until(pilot, lambda: "gaps" in screen.area.tabs.counts, 30)
        screen.area.show_pane("overview")
        screen.host.jump(kernels(screen, 0, "")[0], of=0)
        assert screen.area.tabs.counts["gaps"] == counts[0]
        screen.host.jump(kernels(screen, 1, "")[0], of=1)
        assert screen.area.tabs.counts["gaps"] == counts[1]
        assert screen.area.open is not None
        assert screen.area.open.of == 1
        assert screen.area.open.display


async def test_a_and_b_in_turn_are_compared_by_one_key(tmp_path):
    steps = [slice_event(name, 1000.0 * n, 900.0) for n, name in enumerate("ABABAB")]
    events = [{**step, "cat": "user_annotation"} for step in steps]
    events += [
        {**slice_event("aten::mm", 1000.0 * n + 10, 800.0 - 300 * (n % 2)), "cat": "cpu_op"} for n in range(6)
    ]
    async with visit(write_trace(tmp_path / "turns.json", events), "overview", size=USUAL) as (app, pilot, _):
        alone = screen_of(app)
        await until(pilot, lambda: "C compares them" in alone.footer.message)
        await pilot.press("C")
        pair = await compared(pilot)
        one, other = pair.navigator.recordings
        assert one.trace is other.trace
        comparison = pair.session.comparing.comparison
        assert comparison is not None
        assert comparison.paired is not None
        assert comparison.paired.rounds == 3
        await pilot.press("t")
        await until(pilot, lambda: app.screen is alone)
        await pilot.press("C")
        await until(pilot, lambda: app.screen is pair)
        await pilot.press("Q")
        await until(pilot, lambda: app.screen is alone)
        assert app.traces == [alone]
