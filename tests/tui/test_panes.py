"""Panes by keys: ranges, groups, sizes and places; a time to go to; the list of matches."""

from functools import partial

import numpy as np
import pytest
from tests.analysis.test_graphs import annotated
from tests.conftest import SAMPLES
from tests.kineto import cpu, kernel, launch, run, trace_of

from tracetui.analysis.calls.averages import averages
from tracetui.analysis.calls.graphs import TITLE
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import range_scope
from tracetui.core.cells import wrap
from tracetui.core.copying import replace
from tracetui.rules import find_findings
from tracetui.session.recording import Recording
from tracetui.session.session import Session
from tracetui.tui.panes import FREE, PANES, PaneSpec, _of_views
from tracetui.tui.panes.averages import AveragesPane
from tracetui.tui.panes.overview import DocumentPane
from tracetui.tui.panes.view import ViewPane
from tracetui.tui.screens.matches import MatchesScreen
from tracetui.views import registry
from tracetui.views.answer import Answer
from tracetui.views.document import Block, Document, Entry
from tracetui.views.gaps import gaps_table
from tracetui.views.registry import View
from tracetui.views.target import Target
from tracetui.views.writers import as_csv

from .conftest import DATA, gaps_shown, pane_of, screen_of, slice_event, until, visit, write_trace
from .test_app import text

LLAMA = DATA / "llama_train.json.gz"
MLP = DATA / "mlp_eager.json.gz"
SIZE = (120, 36)


async def test_a_range_narrows_averages_and_gaps_and_escape_widens_them_again(llama):
    step = llama.names.index("ProfilerStep#3")
    event = int(np.flatnonzero(llama.name == step)[0])
    start, end = int(llama.start[event]), int(llama.start[event] + llama.duration[event])
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        pane = pane_of(screen, AveragesPane)
        await until(pilot, lambda: pane.averages is not None)
        whole = pane.averages
        screen.navigator.select(event)
        await pilot.press("r")
        await until(pilot, lambda: pane.averages is not whole)
        expected = averages(llama, range_scope(start, end))
        assert pane.averages is not None
        assert pane.averages.names == expected.names
        assert pane.averages.self_device.tolist() == expected.self_device.tolist()
        await until(pilot, lambda: "range of 64." in pane.note and "GPU busy" in pane.note)
        await pilot.press("6")
        gaps = pane_of(screen, ViewPane)
        await until(pilot, lambda: "in the range: idle" in gaps.note)
        inside = gaps_of(screen.session.active.whole.in_scope(range_scope(start, end)))
        assert gaps_shown(gaps) == inside.duration.tolist()
        await pilot.press("enter")
        await until(pilot, lambda: screen.session.gaps.at is not None)
        await pilot.press("escape", "escape")
        await until(
            pilot,
            lambda: len(gaps_shown(gaps)) == len(gaps_of(screen.session.active.whole)),
        )


async def test_a_view_of_another_package_is_a_pane_with_its_text(monkeypatch):
    def make(part: Part) -> Answer:
        rows = [{"slices": len(part.trace)}, {"slices": 3}]
        wide = lambda width: [[(f"{width // 20} times", "bad")], [(part.scope.kind, "")]]  # noqa: E731
        return Answer("acme", lambda: rows, lambda: "", wide)

    view = View("acme", "What they say.", make, "what they say")
    monkeypatch.setattr(registry, "_of_plugins", lambda: {"acme": view})
    *_, spec = _of_views()
    assert spec == PaneSpec("acme", "view:ViewPane", "what they say", FREE[0])
    monkeypatch.setattr("tracetui.tui.panes.area.PANES", (*PANES, spec))
    async with visit(MLP, size=SIZE) as (app, pilot, screen):
        screen.action_pane("acme")
        pane = pane_of(screen, ViewPane)
        await until(pilot, lambda: pane.shown is not None)
        assert "5 times" in text(app)
        await pilot.press("enter")  # leads nowhere
        await pilot.press("u")
        await until(pilot, lambda: pane.table is not None and pane.table.columns[0].text(1) == "viewport")
        await pilot.resize_terminal(80, 36)
        await until(pilot, lambda: "3 times" in text(app))
        assert pane.table is not None
        assert as_csv(pane.table, pane.order) == f"slices\n{len(screen.navigator.trace)}\n3\n"


async def test_a_view_that_is_a_document_has_a_pane_whose_lines_lead_somewhere(monkeypatch):
    def make(part: Part) -> Answer:
        longest = int(np.argmax(part.trace.duration))
        entry = Entry("the longest", ("1 ms",), None, "", "of all", Target(event=longest))
        document = Document("One line.", "", (Block("a", "Slices", "", (entry,)),), ())
        return Answer("doc", list, str, lambda width: "", documents=lambda: [document])

    view = View("doc", "One line.", make, "one line", is_document=True)
    monkeypatch.setattr(registry, "_of_plugins", lambda: {"doc": view})
    *_, spec = _of_views()
    monkeypatch.setattr("tracetui.tui.panes.area.PANES", (*PANES, spec))
    async with visit(MLP, size=SIZE) as (app, pilot, screen):
        screen.action_pane("doc")
        pane = pane_of(screen, DocumentPane)
        await until(pilot, lambda: pane.overview is not None)
        assert "the longest  1 ms  of all" in text(app)
        await pilot.press("enter")
        await until(
            pilot, lambda: screen.navigator.selected == int(np.argmax(screen.navigator.trace.duration))
        )


async def test_averages_group_by_what_one_wants():
    async with visit(MLP, size=SIZE) as (app, pilot, _):
        pane = pane_of(screen_of(app), AveragesPane)
        await until(pilot, lambda: pane.averages is not None)
        await pilot.press("b")
        await until(pilot, lambda: pane.averages is not None and pane.averages.grouped_by == "shape")
        assert "by shape" in pane.note


async def test_shapes_are_short_and_can_be_searched_as_recorded():
    async with visit(SAMPLES / "mlp_eager.json.gz", size=SIZE) as (app, pilot, _):
        await pilot.press("b")
        await until(pilot, lambda: "aten::mul  64x128x3072, 64x128x3072 " in text(app))
        await pilot.press("F", *"[768, 3072]", "enter")
        await until(pilot, lambda: "aten::mm  8192x768, 768x3072 " in text(app))
        assert "aten::mul" not in text(app).partition("Self GPU")[2]


async def test_what_no_trace_recorded_is_no_group(tmp_path):
    ops = [slice_event("aten::mm", 20 * n, 15) for n in range(3)]
    async with visit(write_trace(tmp_path / "plain.json", ops), "ops", size=SIZE) as (app, pilot, _):
        await until(pilot, lambda: "aten::mm" in text(app))
        await pilot.press("b")
        await until(pilot, lambda: "by shape: none was recorded" in text(app))


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_the_mark_of_an_unusual_step_is_explained_beside_the_tabs(size):
    async with visit(SAMPLES / "matmul_add_64_warm.json.gz", "steps", size=size) as (app, pilot, _):
        await until(pilot, lambda: "step 2 !" in text(app))
        await until(pilot, lambda: "3 steps; ! differs: = says why" in text(app))


async def test_escape_takes_a_table_s_filter_away():
    async with visit(MLP, "kernels", size=SIZE) as (app, pilot, _):
        pane = screen_of(app).area.open
        assert pane is not None
        await until(pilot, lambda: pane.table is not None and pane.table.rows > 1)
        await pilot.press("F", *"gemm", "enter")
        await until(pilot, lambda: "filter “gemm”" in text(app))
        await until(pilot, lambda: "total of all rows  " in text(app))  # not of those that are left
        rows = len(pane.order)
        await pilot.press("escape")
        await until(pilot, lambda: "filter" not in pane.note)
        await until(pilot, lambda: "total of" not in text(app))
        assert len(pane.order) > rows
        assert pane.has_focus, "one thing at a time"
        await pilot.press("F", *"gemm", "enter", "tab", "right", "escape")
        assert len(pane.order) == rows, "from the timeline the selection goes first"
        assert screen_of(app).navigator.selected is None
        await pilot.press("escape")
        assert len(pane.order) > rows
        await pilot.press("escape")
        assert "nothing to clear" in text(app)


async def test_how_busy_a_view_was_is_told_once():
    async with visit(DATA / "mlp_eager.json.gz", "overview", size=SIZE) as (app, pilot, _):
        pane = screen_of(app).area.open
        await until(pilot, lambda: "What to fix first" in text(app))
        await pilot.press("u")
        assert pane is not None
        await until(pilot, lambda: "view of " in pane.note and "of the view" in text(app))
        assert "busy" not in pane.note
        assert pane.note in text(app)


async def test_panes_grow_move_aside_and_fill_the_screen():
    async with visit(MLP, size=(160, 40)) as (_, pilot, screen):
        height = screen.area.size.height
        await pilot.press("plus")
        await pilot.pause()
        assert screen.area.size.height == height + 3
        await pilot.press("minus", "minus")
        await pilot.pause()
        assert screen.area.size.height == height - 3
        await pilot.press("V")
        await pilot.pause()
        assert screen.area.region.x > 80
        assert screen.area.size.height == screen.timeline.size.height + screen.bar.size.height
        await pilot.press("v")
        await pilot.pause()
        assert screen.area.size.width == 160
        await pilot.press("V")  # the timeline is back, too
        await pilot.pause()
        assert screen.area.region.x == 0
        assert screen.timeline.size.width == 160


async def test_a_pane_beside_the_timeline_goes_below_where_it_gets_narrow():
    async with visit(MLP) as (_, pilot, screen):
        await pilot.press("V", "plus")
        await until(pilot, lambda: screen.area.region.x > 60)
        await pilot.resize_terminal(100, 30)
        await until(pilot, lambda: screen.area.region.x == 0 and screen.area.size.width == 100)
        assert screen.timeline.size.width == 100
        assert screen.area.size.height < screen.timeline.size.height
        await pilot.resize_terminal(120, 36)  # and back, as it was asked for
        await until(pilot, lambda: screen.area.region.x > 60)


async def test_a_time_to_go_to():
    async with visit(LLAMA, size=SIZE) as (app, pilot, screen):
        await pilot.press("w", "w", "w", "w", "colon", *"100ms", "enter")
        await until(pilot, lambda: screen.navigator.view.contains(100_000_000))
        await pilot.press("colon", *"soon", "enter")
        await until(pilot, lambda: "a time looks like" in text(app))


async def test_the_matches_as_a_list_that_jumps(llama):
    async with visit(LLAMA, size=SIZE) as (app, pilot, screen):
        await pilot.press("L")
        assert "press /" in screen.footer.message
        await pilot.press("slash", *"silu", "enter", "L")
        await until(pilot, lambda: isinstance(app.screen, MatchesScreen))
        await until(pilot, lambda: "matches for “silu”" in text(app))
        sheet = app.screen
        assert isinstance(sheet, MatchesScreen)
        await pilot.press("end", "home", "greater_than_sign")
        assert sheet.list.sort == "duration"
        await pilot.press("greater_than_sign")
        names = [sheet.table.columns[2].text(int(r)).casefold() for r in sheet.list.order]
        assert names == sorted(names)
        await pilot.press("less_than_sign")
        longest = int(sheet.found[int(np.argmax(llama.duration[sheet.found]))])
        await pilot.press("enter")
        await until(pilot, lambda: screen.navigator.selected == longest)


async def test_the_same_findings_again_do_not_begin_their_events_anew():
    async with visit(LLAMA) as (_, pilot, screen):
        await pilot.press("8")
        pane = pane_of(screen, ViewPane)
        await until(pilot, lambda: pane.shown is not None)
        first, second = find_findings(screen.session.active.whole)[0].evidence[:2]
        await pilot.press("enter")
        await until(pilot, lambda: screen.navigator.selected == first)
        assert pane.shown is not None
        pane.show_view(replace(pane.shown, note="found again"), "in view")
        assert pane.note == "in view: found again"
        await pilot.press("enter")
        await until(pilot, lambda: screen.navigator.selected == second)


NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def test_the_gaps_table_says_when_many_small_ops_fill_a_gap(tmp_path):
    ops = [cpu("aten::add" if n % 3 else "aten::mul", 105 + 20 * n, 15) for n in range(9)]
    one = [cpu("aten::mm", 320, 90), launch(400, 3), kernel(410, 10, 3)]
    trace = trace_of(
        tmp_path, launch(0, 1), kernel(10, 90, 1), *ops, launch(290, 2), kernel(300, 10, 2), *one
    )
    table = gaps_table(Part(trace))
    (column,) = [c for c in table.columns if c.key == "activity"]
    assert [column.text(row) for row in range(table.rows)] == ["9 ops, most in aten::add", "aten::mm"]
    assert column.values is not None
    assert list(column.values()) == ["9 ops, most in aten::add", "aten::mm"]


def test_the_verdict_in_the_app_says_how_much_is_communication(tmp_path):
    trace = trace_of(tmp_path, *run(100, 300, 1), *run(400, 500, 2, NCCL, stream=13), *run(900, 200, 3))
    (show,) = ViewPane(Session([Recording(trace)]), "findings").compute()
    assert isinstance(show, partial)
    assert show.args[0].note.endswith("; communication alone 50.0% of the busy time")
    quiet = trace_of(tmp_path, *run(100, 300, 1), *run(400, 20, 2, NCCL, stream=13), *run(420, 200, 3))
    (show,) = ViewPane(Session([Recording(quiet)]), "findings").compute()
    assert isinstance(show, partial)
    assert "communication" not in show.args[0].note
    (show,) = ViewPane(Session([Recording(trace)]), "steps").compute()
    assert isinstance(show, partial)
    assert "communication while nothing computes, 49.8%" in show.args[0].target_of(0, 0).said


def test_wrapped_sentences_keep_numbers_with_their_units():
    text = "It waits (2.04 ms) at 1.06 TB/s, 873 µs of it in 3 calls."
    for width in range(10, 60):
        lines = wrap(text, width)
        assert " ".join(lines) == text
        assert not any(line.endswith(("2.04", "1.06", "873")) for line in lines)
    assert wrap("12345 ms", 4) == ["1234", "5 ms"]


async def test_modules_stand_above_the_streams_and_say_what_they_are(tmp_path):
    annotated(tmp_path)
    async with visit(tmp_path / "t.json", size=(120, 40)) as (app, pilot, screen):
        await until(pilot, lambda: TITLE in text(app))
        lines = text(app).splitlines()
        at = next(n for n, line in enumerate(lines) if TITLE in line)
        assert at < next(n for n, line in enumerate(lines) if "stream 7" in line)
        assert "layers" in lines[at]
        trace = screen.trace
        screen.navigator.select(
            next(i for i in range(len(trace)) if trace.name_of(i) == "layers.0.attention")
        )
        await pilot.press("2")
        await until(pilot, lambda: "made by" in text(app))
        assert "layers.0.attention" in text(app)
        assert screen.navigator.move("down")
        await until(pilot, lambda: "layers.0.attention.wq" in text(app))


async def test_averages_by_module(tmp_path):
    annotated(tmp_path)
    async with visit(tmp_path / "t.json", size=(120, 40)) as (app, pilot, _):
        await until(pilot, lambda: "Self GPU" in text(app))
        await pilot.press("4", "b", "b")
        await until(pilot, lambda: "by module" in text(app) and "layers.0.feed_forward" in text(app))
        assert "layers.0.feed_forward (backward)" in text(app)
