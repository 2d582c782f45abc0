"""What the tables show: the whole trace, a range, what is in view, a step."""

import re
import threading
import time

import numpy as np

from tracetui.analysis.calls.averages import Averages, averages
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.part import Part, Scope
from tracetui.analysis.steps.scope import range_scope, step_scope
from tracetui.analysis.steps.steps import summarize_steps
from tracetui.core.units import column_unit, exact, in_unit
from tracetui.rules import find_findings
from tracetui.trace import Kind, Trace
from tracetui.tui.panes import PANES, keyed
from tracetui.tui.panes import averages as pane_module
from tracetui.tui.panes.area import PaneTabs
from tracetui.tui.panes.averages import AveragesPane
from tracetui.tui.panes.view import ViewPane
from tracetui.tui.screens.trace import TraceScreen
from tracetui.views.averages import part_rows

from .conftest import (
    DATA,
    app_of,
    gaps_shown,
    pane_of,
    screen_of,
    shows_findings,
    slice_event,
    until,
    visit,
    write_trace,
)
from .test_app import text

LLAMA = DATA / "llama_train.json.gz"
SIZE = (120, 36)


def in_view(screen: TraceScreen) -> Scope:
    view = screen.navigator.view
    return range_scope(view.start_ns, view.end_ns, "viewport")


def kernel_of_step(trace: Trace, number: int) -> int:
    """A kernel from the middle of a step."""
    row = next(r for r in summarize_steps(trace).rows if r.number == number)
    kernels = np.flatnonzero(trace.is_kind(Kind.KERNEL))
    launched = trace.start[trace.launch[kernels]]
    inside = kernels[(launched >= row.start) & (launched < row.start + row.duration)]
    return int(inside[len(inside) // 2])


def same(shown: Averages | None, expected: Averages) -> bool:
    return (
        shown is not None and shown.names == expected.names
        and shown.self_device.tolist() == expected.self_device.tolist()
        and shown.self_cpu.tolist() == expected.self_cpu.tolist()
        and shown.calls.tolist() == expected.calls.tolist()
    )  # fmt: skip


async def test_the_averages_follow_the_view(llama):
    async with visit(LLAMA, size=SIZE) as (app, pilot, screen):
        pane = pane_of(screen, AveragesPane)
        await until(pilot, lambda: pane.averages is not None)
        await pilot.press("W", "u")
        assert "tables follow the view" in screen.footer.message
        await until(pilot, lambda: same(pane.averages, averages(llama, in_view(screen))))
        await pilot.press("d", "d", "d", "w")
        expected = averages(llama, in_view(screen))
        await until(pilot, lambda: same(pane.averages, expected))
        view = screen.navigator.view
        length = exact(view.end_ns - view.start_ns)
        await until(pilot, lambda: f"view of {length}: GPU busy" in text(app))
        longest = int(expected.self_device[part_rows(llama, expected, "ops")].max())
        assert in_unit(longest, column_unit(longest)) in text(app)
        assert longest < int(averages(llama).self_device.max())


async def test_a_step_is_that_of_the_selection_and_the_third_press_is_the_whole_again(llama):
    async with visit(LLAMA, size=SIZE) as (app, pilot, screen):
        pane = pane_of(screen, AveragesPane)
        screen.navigator.select(kernel_of_step(llama, 3))
        await pilot.press("u", "u")
        await until(pilot, lambda: same(pane.averages, averages(llama, step_scope(llama, 3))))
        await until(pilot, lambda: "tables show step 3" in text(app))
        row = next(r for r in summarize_steps(llama).rows if r.number == 3)
        length = exact(row.window[1] - row.window[0])
        assert row.busy_share is not None
        await until(pilot, lambda: f"step 3, {length}: GPU busy {row.busy_share:.2%}" in text(app))
        await pilot.press("u")
        await until(pilot, lambda: same(pane.averages, averages(llama)))
        assert pane.note == ""
        assert "the whole trace" in screen.footer.message


async def test_gaps_of_the_view_and_of_a_step(llama):
    async with visit(LLAMA, size=SIZE) as (app, pilot, screen):
        await pilot.press("6", "W", "u")
        pane = pane_of(screen, ViewPane)

        def shows(scope: Scope) -> bool:
            expected = gaps_of(Part(llama).in_scope(scope)).duration.tolist()
            return gaps_shown(pane) == expected

        def idle(scope: Scope) -> str:
            return exact(int(gaps_of(Part(llama).in_scope(scope)).duration.sum()))

        await until(pilot, lambda: shows(in_view(screen)))
        await until(pilot, lambda: f"in view: idle {idle(in_view(screen))}" in text(app))
        screen.navigator.select(kernel_of_step(llama, 3))
        await pilot.press("u")
        await until(pilot, lambda: shows(step_scope(llama, 3)))
        await until(pilot, lambda: f"in step 3: idle {idle(step_scope(llama, 3))}" in text(app))


async def test_steps_and_findings_honour_the_scope(llama):
    async with visit(LLAMA, size=SIZE) as (app, pilot, screen):
        await pilot.press("7")
        steps = pane_of(screen, ViewPane)
        await until(pilot, lambda: steps.table is not None and steps.table.rows == 4)
        row = next(r for r in summarize_steps(llama).rows if r.number == 3)
        screen.navigator.show(row.start + row.duration // 3, row.start + row.duration // 2)
        await pilot.press("u")
        await until(pilot, lambda: steps.table is not None and steps.table.columns[0].text(0) == "step 3")
        await until(pilot, lambda: "in view: 1 of 2 steps" in text(app))
        await pilot.press("8")
        findings = pane_of(screen, ViewPane)
        expected = find_findings(Part(llama).in_scope(in_view(screen)))
        assert expected != find_findings(Part(llama))
        await until(pilot, lambda: shows_findings(findings, expected))
        found = f"{len(expected)} finding"
        await until(pilot, lambda: re.search(f"in view: {found}", text(app)) is not None)
        await pilot.press("u")
        expected = find_findings(Part(llama).in_scope(step_scope(llama, 3)))
        await until(pilot, lambda: shows_findings(findings, expected))
        await until(pilot, lambda: "in step 3: " in text(app))
        await pilot.press("escape", "escape")
        await until(pilot, lambda: shows_findings(findings, find_findings(Part(llama))))


async def test_a_jump_from_a_finding_of_the_view_leaves_the_findings_as_they_are(llama):
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        await pilot.press("8", "u")
        pane = pane_of(screen, ViewPane)
        scope = in_view(screen)
        expected = find_findings(Part(llama).in_scope(scope))
        evidence = expected[0].evidence
        assert len(evidence) > 2
        await until(pilot, lambda: shows_findings(pane, expected))
        assert pane.note.startswith("in view: ")
        for n in range(3):
            await pilot.press("enter")
            await until(pilot, lambda n=n: screen.navigator.selected == evidence[n])
            assert f"evidence {n + 1} of {len(evidence)}" in screen.footer.message
            assert in_view(screen) != scope
            # Time for the tables to follow, if they did.
            await until(pilot, lambda: screen.session.scopes.frozen and screen.scopes._view_timer is None)
            assert shows_findings(pane, expected)
            assert screen.session.scopes.scope == scope
            assert pane.note.startswith("in earlier view: ")
        # A move of one's own, and they follow again.
        await pilot.press("d")
        moved = in_view(screen)
        await until(pilot, lambda: screen.session.scopes.scope == moved)
        await until(pilot, lambda: shows_findings(pane, find_findings(Part(llama).in_scope(moved))))
        assert pane.note.startswith("in view: ")


async def test_another_table_says_that_it_speaks_of_the_view_before(llama):
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        await pilot.press("u")
        pane = pane_of(screen, AveragesPane)
        before = in_view(screen)
        await until(pilot, lambda: same(pane.averages, averages(llama, before)))
        await pilot.press("tab", "end", "enter")
        await until(pilot, lambda: screen.session.scopes.frozen)
        await pilot.press("8")
        findings = pane_of(screen, ViewPane)
        await until(pilot, lambda: shows_findings(findings, find_findings(Part(llama).in_scope(before))))
        assert findings.note.startswith("in earlier view: ")
        assert pane.note.startswith("earlier view of ")
        # Asked anew, what is in view is what is shown.
        await pilot.press("escape", "escape")
        assert screen.session.scopes.scope is None
        await until(pilot, lambda: "view" not in findings.note)
        await pilot.press("u")
        assert screen.session.scopes.scope == in_view(screen)
        await until(
            pilot, lambda: shows_findings(findings, find_findings(Part(llama).in_scope(in_view(screen))))
        )
        assert findings.note.startswith("in view: ")


async def test_a_trace_of_nothing_that_pytorch_records_is_not_said_to_be_fine(tmp_path):
    events = [slice_event(f"paint{n}", n * 100, 50, cat="blink") for n in range(20)]
    async with visit(write_trace(tmp_path / "strange.json", events), size=SIZE) as (app, pilot, screen):
        await until(pilot, lambda: "no ops here" in text(app))
        await pilot.press("8")
        told = "no PyTorch events in this trace"
        await until(pilot, lambda: told in text(app))
        assert "stands out" not in text(app)
        await pilot.press("u")
        await until(pilot, lambda: "no PyTorch events in view" in text(app))
        assert isinstance(screen.area.open, ViewPane)


async def test_a_range_comes_before_the_view_and_escape_widens(llama):
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        screen.navigator.select(kernel_of_step(llama, 2))
        await pilot.press("u")
        assert screen.session.scopes.scope == in_view(screen)
        await pilot.press("r")
        await until(
            pilot,
            lambda: screen.session.scopes.scope is not None and screen.session.scopes.scope.kind == "range",
        )
        await pilot.press("u")
        assert screen.session.scopes.scope == in_view(screen)
        await pilot.press("escape")
        await pilot.pause(0.3)
        assert screen.navigator.range_ns is None
        assert screen.session.scopes.scope == in_view(screen)
        await pilot.press("escape")
        assert screen.session.scopes.scope is None


async def test_without_steps_there_are_two_scopes(tmp_path):
    events = [slice_event(f"op{n}", n * 100, 50) for n in range(20)]
    async with visit(write_trace(tmp_path / "plain.json", events), size=SIZE) as (_, pilot, screen):
        await pilot.press("u", "u")
        await until(pilot, lambda: "no step here" in screen.footer.message)
        assert screen.session.scopes.scope is None
        await pilot.press("u")
        assert screen.session.scopes.scope == in_view(screen)


async def test_a_held_key_costs_nothing_and_one_table_is_made_at_a_time(monkeypatch):
    app = app_of(LLAMA)
    made: list[Scope] = []
    under_way, most = 0, 0
    lock, may = threading.Lock(), threading.Event()
    real = pane_module.averages_of

    def slow(part: Part, group: str = "name") -> Averages:
        nonlocal under_way, most
        with lock:
            made.append(part.scope)
            under_way += 1
            most = max(most, under_way)
        assert may.wait(30)
        found = real(part, group)
        with lock:
            under_way -= 1
        return found

    async with app.run_test(size=SIZE) as pilot:
        screen = screen_of(app)
        pane = pane_of(screen, AveragesPane)
        await pilot.press("W", "u")
        await until(pilot, lambda: pane.averages is not None and pane.averages.scope == in_view(screen))
        monkeypatch.setattr(pane_module, "averages_of", slow)
        began = time.monotonic()
        await pilot.press(*("d" * 10))
        if time.monotonic() - began < 0.2:
            assert made == []
        may.set()
        await until(pilot, lambda: pane.averages is not None and pane.averages.scope == in_view(screen))
        assert made[-1] == in_view(screen)
        assert len(made) <= 2
        # Wishes that come while a table is being made: only the last one is granted.
        made.clear()
        may.clear()
        scopes = [range_scope(n, n + 50_000_000) for n in range(1, 9)]
        for scope in scopes:
            pane.set_scope(scope)
            await pilot.pause(0.01)
        may.set()
        await until(pilot, lambda: pane.averages is not None and pane.averages.scope == scopes[-1])
        assert len(made) <= 2
        assert most == 1


async def test_a_hidden_pane_follows_when_it_is_shown(llama):
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        hidden = pane_of(screen, AveragesPane)
        await until(pilot, lambda: hidden.averages is not None)
        whole = hidden.averages
        await pilot.press("6", "W", "u")
        pane = pane_of(screen, ViewPane)
        await until(pilot, lambda: "in view" in pane.note)
        assert hidden.averages is whole
        await pilot.press("3")
        await until(pilot, lambda: same(hidden.averages, averages(llama, in_view(screen))))


async def test_the_gaps_pane_opens_on_the_gap_that_is_selected():
    async with visit(LLAMA, size=SIZE) as (_, pilot, screen):
        await pilot.press("g", "g", "g")
        third = screen.session.gaps.at
        await pilot.press("6")
        pane = pane_of(screen, ViewPane)
        await until(pilot, lambda: "idle" in pane.note)
        assert pane.cursor == 2
        assert pane.row == third
        # The same where it was opened before, and hidden when the gap was chosen.
        await pilot.press("3", "g", "6")
        await pilot.pause()
        assert pane.row == screen.session.gaps.at != third
        # And in a part of the trace, of which the gap is one.
        await pilot.press("u")
        await until(pilot, lambda: "in view" in pane.note)
        gaps, at = gaps_of(screen.session.active.whole), screen.session.gaps.at or 0
        assert pane.item == (int(gaps.device[at]), int(gaps.index[at]))


async def test_a_kept_filter_and_the_scope_stay_in_view():
    app = app_of(LLAMA)
    narrow = 80 + sum(len(f" {key} ") for key, _ in keyed(PANES)[9:])  # with the nine of a number, 80
    async with app.run_test(size=(narrow, 24)) as pilot:
        screen = screen_of(app)
        tabs, pane = screen.area.tabs, screen.area.open
        assert isinstance(pane, AveragesPane)
        await until(pilot, lambda: pane.averages is not None and "6" in line_of(tabs))
        await pilot.press("F", *"mm", "enter")
        await until(pilot, lambda: "filter" in tabs.note)
        assert pane.table is not None
        told = f"filter “mm”: {len(pane.order)} of {pane.table.count} rows"
        assert 0 < len(pane.order) < pane.table.count
        await until(pilot, lambda: f" {told} " in line_of(tabs))
        # The last tabs have lost their titles for it, the open one has not.
        labels = [text.strip() for _, text in tabs.labels()]
        assert "3 ops" in labels
        assert labels[-1] == keyed(PANES)[-1][0]
        # With the scope, which comes first; the filter's count is of the rows there are now.
        await pilot.press("W", "W", "u")
        await until(pilot, lambda: tabs.note.startswith("view of") and "GPU busy" in tabs.note)
        now = f"filter “mm”: {len(pane.order)} of {pane.table.count} rows"
        await until(pilot, lambda: f"{now}" in line_of(tabs) and " view of " in line_of(tabs))
        # All rows again.
        await pilot.press("F", "escape")
        await until(pilot, lambda: "filter" not in tabs.note)


async def test_the_verdict_is_read_at_80_columns():
    async with visit(LLAMA, size=(80, 24)) as (app, pilot, _):
        tabs = screen_of(app).area.tabs
        await pilot.press("8")
        await until(pilot, lambda: "8 findings " in line_of(tabs) and "OVERHEAD-BOUND" in text(app))
        await pilot.press("u")
        await until(pilot, lambda: "in view: " in line_of(tabs))


async def test_narrow_tabs_end_in_no_torn_word():
    async with visit(LLAMA) as (app, pilot, _):
        tabs = screen_of(app).area.tabs
        await pilot.press("V")
        await until(pilot, lambda: tabs.size.width == 50)
        labels = [text.split() for _, text in tabs.labels()]
        assert [key for key, *_ in labels] == [key for key, _ in keyed(PANES)]
        assert ["3", "ops"] in labels  # the open one
        assert all(title in ([], [pane.key]) for (_, *title), pane in zip(labels, PANES, strict=True))
        await pilot.press("u")
        await until(pilot, lambda: " view of " in line_of(tabs))


async def test_a_note_without_room_for_its_first_clause_is_left_out():
    async with visit(LLAMA, size=(160, 36)) as (app, pilot, _):
        tabs = screen_of(app).area.tabs
        await until(pilot, lambda: "1 overview" in line_of(tabs))
        room = 160 - len("".join(text for _, text in tabs.labels()))
        first = "x" * (room - 6)
        for note, shown in ((f"{first}: host 45%", f"{first}…"), (f"{first} 1.234 ms", "")):
            tabs.set_note(note)
            assert line_of(tabs)[160 - room :].strip() == shown
        tabs.set_note(f"{first} 1.234 ms", f"{first} 1.234 ms")  # needed: other tabs lose their titles
        assert line_of(tabs).rstrip().endswith(f"{first} 1.234 ms")


def line_of(tabs: PaneTabs) -> str:
    return tabs.render_line(0).text
