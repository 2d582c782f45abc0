"""The timeline widget: calls, the mouse, and what is drawn again."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from textual import events
from textual._compositor import CompositorUpdate
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.message import Message
from textual.pilot import Pilot
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from tracetui.session.recording import Recording
from tracetui.session.session import Session
from tracetui.timeline.canvas import BOLD, INK, PAPER, UNDERLINE, Canvas, Packed
from tracetui.timeline.scene import TOP, Idle
from tracetui.timeline.themes import DARK, LIGHT, PLAIN
from tracetui.timeline.track_layout import Of
from tracetui.trace import Trace, load
from tracetui.tui.textual_private import SentLines, draw_less
from tracetui.tui.timeline.bar import SelectionBar
from tracetui.tui.timeline.delta_strips import Board, DeltaStrip
from tracetui.tui.timeline.messages import GapClicked, RangeChanged, SelectionChanged, ViewportChanged
from tracetui.tui.timeline.view import TimelineView

from .conftest import until
from .terminal import OnTerminal, Terminal


def written(folder: Path) -> Trace:
    """A thread with ops and launches, and a stream whose kernels leave gaps."""
    found: list[dict[str, Any]] = []

    def add(pid: int, tid: int, name: str, cat: str, ts: float, dur: float, **args: object) -> None:
        found.append(
            {"ph": "X", "pid": pid, "tid": tid, "name": name, "cat": cat, "ts": ts, "dur": dur, "args": args}
        )

    for i in range(20):
        at = 100.0 * i
        add(1, 1, f"aten::op{i % 3}", "cpu_op", at, 90)
        add(1, 1, "aten::inner", "cpu_op", at + 10, 60)
        add(1, 1, "cudaLaunchKernel", "cuda_runtime", at + 20, 10, correlation=i + 1)
        add(0, 7, f"kernel{i % 2}", "kernel", at + 50, 30, correlation=i + 1, device=0, stream=7)
    add(1, 2, "waits", "cpu_op", 0, 2000)
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": found}))
    return load(path)


class Shell(App[None]):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        kernels = np.flatnonzero(trace.category == list(trace.categories).index("kernel"))
        end = trace.start[kernels] + trace.duration[kernels]
        self.view = TimelineView(Session([Recording(trace)]))
        self.view.navigator.set_gaps({0: Idle(end[:-1], trace.start[kernels][1:])})
        self.bar = self.view.bar = SelectionBar()
        self.told: list[Message] = []
        self.selections: list[tuple[int, int] | None] = []
        """What was selected at each `SelectionChanged`."""

    def compose(self) -> ComposeResult:
        yield self.view
        yield self.bar

    def on_mount(self) -> None:
        self.view.focus()

    def on_selection_changed(self, message: SelectionChanged) -> None:
        self.told.append(message)
        self.selections.append(self.view.navigator.scene.event)

    def on_viewport_changed(self, message: ViewportChanged) -> None:
        self.told.append(message)

    def on_range_changed(self, message: RangeChanged) -> None:
        self.told.append(message)

    def on_gap_clicked(self, message: GapClicked) -> None:
        self.told.append(message)

    def heard(self, kind: type[Message]) -> list[Any]:
        return [m for m in self.told if isinstance(m, kind)]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(written(tmp_path))


def of_name(trace: Trace, name: str) -> list[int]:
    return [i for i in range(len(trace)) if trace.name_of(i) == name]


def text_of(view: TimelineView) -> str:
    return "\n".join(strip.text for strip in view.render_lines(view.size.region))


def cell_of(view: TimelineView, slice_index: int) -> tuple[int, int]:
    """Where on the widget a slice's middle is drawn."""
    trace = view.navigator.trace
    middle = int(trace.start[slice_index]) + int(trace.duration[slice_index]) // 2
    lines = view.navigator.scene.lines(view.size.height - TOP)
    lane, depth = int(trace.lane[slice_index]), int(trace.depth[slice_index])
    y = next(i for i, line in enumerate(lines) if line.ref == lane and line.depth == depth and line.of == 0)
    return view.navigator.scene.labels + view.navigator.view.column(middle), TOP + y


async def test_opens_on_what_matters(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        low, high = shell.view.navigator.trace.first_view
        assert shell.view.navigator.view.start_ns <= low
        assert shell.view.navigator.view.end_ns >= high
        text = text_of(shell.view)
        assert "waits" in text
        assert shell.view._cells is not None
        assert (shell.view._cells >> 9 & 0x1FF == DARK.idle).any()  # where the device is idle
        assert "GPU" in text.splitlines()[0]
        assert "nothing selected" in shell.bar.render_lines(shell.bar.size.region)[0].text


async def test_keys_of_selection(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        view, trace = shell.view, shell.view.navigator.trace
        ops = [i for i in range(len(trace)) if trace.name_of(i).startswith("aten::op")]
        view.navigator.select(ops[4])
        assert view.navigator.move("next")
        assert view.navigator.selected == ops[5]
        assert view.navigator.move("previous")
        assert view.navigator.move("down")
        assert trace.name_of(view.navigator.selected or 0) == "aten::inner"
        assert int(trace.parent[view.navigator.selected or 0]) == ops[4]
        assert view.navigator.move("down")
        assert trace.name_of(view.navigator.selected or 0) == "cudaLaunchKernel"
        assert view.navigator.move("up")
        assert view.navigator.move("up")
        assert view.navigator.selected == ops[4]
        assert not view.navigator.move("up")
        await pilot.pause()
        assert "aten::op1" in shell.bar.render_lines(shell.bar.size.region)[0].text
        assert shell.selections[-1] == (0, ops[4])
        view.navigator.select(ops[0])
        assert not view.navigator.move("previous")
        seen = set()
        while view.navigator.move("down"):
            seen.add(int(trace.lane[view.navigator.selected or 0]))
        assert len(seen) == len(trace.lanes)  # down leads through every lane


async def test_the_first_arrow_selects_something_in_view(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        assert shell.view.navigator.selected is None
        assert shell.view.navigator.move("next")
        assert shell.view.navigator.selected is not None


async def test_zoom_keeps_the_selection_in_place_and_returns(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view = shell.view
        view.navigator.select(of_name(view.navigator.trace, "aten::inner")[7], reveal=False)
        before = view.navigator.view
        at = cell_of(view, view.navigator.selected or 0)
        for _ in range(5):
            view.navigator.zoom(1.4)
        assert abs(cell_of(view, view.navigator.selected or 0)[0] - at[0]) <= 1
        for _ in range(5):
            view.navigator.zoom(1 / 1.4)
        assert view.navigator.view.cell == before.cell
        assert abs(view.navigator.view.start_ns - before.start_ns) <= 1


async def test_a_small_event_that_is_jumped_to_can_be_seen(shell):
    async with shell.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        view = shell.view
        launch = of_name(view.navigator.trace, "cudaLaunchKernel")[11]
        before = view.navigator.view
        view.navigator.select(launch)
        assert view.navigator.view.cell < int(view.navigator.trace.duration[launch])
        x, _ = cell_of(view, launch)
        assert view.navigator.scene.labels <= x < 80
        assert view.navigator.back()
        assert view.navigator.view == before
        assert view.navigator.forward()
        assert view.navigator.view.cell < before.cell
        assert not view.navigator.forward()


async def test_center_then_fit(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view = shell.view
        i = of_name(view.navigator.trace, "aten::inner")[10]
        view.navigator.zoom(3, 0)
        view.navigator.select(i, reveal=False)
        view.navigator.center()
        middle = int(view.navigator.trace.start[i]) + int(view.navigator.trace.duration[i]) // 2
        assert abs(view.navigator.view.column(middle) - view.navigator.view.width // 2) <= 1
        cell = view.navigator.view.cell
        view.navigator.center()
        assert view.navigator.view.cell < cell
        assert view.navigator.view.start_ns <= int(view.navigator.trace.start[i])
        assert view.navigator.view.end_ns >= int(
            view.navigator.trace.start[i] + view.navigator.trace.duration[i]
        )
        view.navigator.fit()
        assert view.navigator.view.end_ns >= view.navigator.trace.span[1]


async def test_click_selects_what_is_under_it(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view = shell.view
        for name in ("waits", "aten::op1", "kernel1"):
            target = of_name(view.navigator.trace, name)[-1]
            await pilot.click(TimelineView, offset=cell_of(view, target))
            await pilot.pause()
            assert view.navigator.selected == target
        await pilot.click(TimelineView, offset=(view.navigator.scene.labels + 2, view.size.height - 1))
        assert view.navigator.selected is None


async def test_double_click_fits(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view = shell.view
        target = of_name(view.navigator.trace, "aten::op1")[2]
        await pilot.double_click(TimelineView, offset=cell_of(view, target))
        await pilot.pause()
        assert view.navigator.selected == target
        assert view.navigator.view.span_ns < 2 * int(view.navigator.trace.duration[target])
        assert view.navigator.back()


async def test_a_double_click_on_a_label_leaves_the_view_where_it_is(shell):
    """It folds and unfolds the lane, whatever is selected."""
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view = shell.view
        x, y = cell_of(view, of_name(view.navigator.trace, "aten::op1")[2])
        await pilot.click(TimelineView, offset=(x, y))
        await pilot.pause()
        assert view.navigator.selected is not None
        before = view.navigator.view
        await pilot.double_click(TimelineView, offset=(2, y))
        await pilot.pause()
        assert view.navigator.view == before


async def test_click_on_a_gap(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view = shell.view
        x, y = cell_of(view, of_name(view.navigator.trace, "kernel0")[3])
        await pilot.click(TimelineView, offset=(x + 2, y))
        await pilot.pause()
        gap = shell.heard(GapClicked)[0]
        assert (gap.device, gap.index) == (0, 6)
        view.navigator.set_gap(gap.device, gap.index)
        await pilot.pause()
        assert "70.0 µs" in text_of(view)


async def wheel(pilot: Pilot[None], kind: type[events.MouseEvent], x: int, y: int, **keys: bool) -> None:
    view = pilot.app.query_one(TimelineView)
    held = {"shift": False, "meta": False, "ctrl": False} | keys
    view.post_message(kind(view, x, y, 0, 0, 0, **held))  # type: ignore[call-arg]
    await pilot.pause()


async def test_the_wheel(shell):
    async with shell.run_test(size=(120, 6)) as pilot:
        await pilot.pause()
        view = shell.view
        about = view.navigator.view.time(40)
        await wheel(pilot, events.MouseScrollUp, view.navigator.scene.labels + 40, 4, ctrl=True)
        assert abs(view.navigator.view.column(about) - 40) <= 1
        span = view.navigator.view.span_ns
        await wheel(pilot, events.MouseScrollDown, 60, 4, ctrl=True)
        assert view.navigator.view.span_ns > span
        view.navigator.zoom(5)
        start = view.navigator.view.start_ns
        await wheel(pilot, events.MouseScrollDown, 60, 4, shift=True)
        assert view.navigator.view.start_ns > start
        view.lanes.toggle_all()
        await wheel(pilot, events.MouseScrollDown, 60, 3)
        assert (view.navigator.scene.top > 0, view.navigator.scene.foot) == (True, 0)
        for _ in range(9):
            await wheel(pilot, events.MouseScrollUp, 60, 3)
        assert view.navigator.scene.top == 0
        await wheel(pilot, events.MouseScrollDown, 60, 4)  # below the rule of the device
        assert (view.navigator.scene.top, view.navigator.scene.foot > 0) == (0, True)


async def test_a_drag_selects_a_range(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view = shell.view
        left = view.navigator.scene.labels
        await pilot.mouse_down(TimelineView, offset=(left + 20, 5))
        await pilot.hover(TimelineView, offset=(left + 39, 9))
        await pilot.mouse_up(TimelineView, offset=(left + 39, 9))
        await pilot.pause()
        assert view.navigator.range_ns == (view.navigator.view.time(20), view.navigator.view.time(40))
        assert view.navigator.selected is None
        told = len(shell.heard(RangeChanged))
        assert told
        view.navigator.set_range(None)
        await pilot.pause()
        assert len(shell.heard(RangeChanged)) == told + 1
        assert view.navigator.range_ns is None


async def test_hovering_draws_nothing(shell, monkeypatch):
    async with shell.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: len(shell.view.navigator.scene.source.series) == 2)
        drawn: list[object] = []
        monkeypatch.setattr(shell.view, "_draw", lambda: drawn.append(1))
        for x in range(20, 100, 7):
            await pilot.hover(TimelineView, offset=(x, 6))
        assert not drawn


async def test_the_overview_moves_the_view(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view = shell.view
        view.navigator.zoom(10)
        await pilot.click(TimelineView, offset=(118, 0))
        await pilot.pause()
        low, high = view.navigator.trace.span
        assert view.navigator.view.contains(high - (high - low) // 100)


async def test_folding(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view = shell.view
        await until(pilot, lambda: len(view.navigator.scene.source.series) == 2)
        view.lanes.set_series([])
        height = view.navigator.scene.layout.height
        await pilot.click(TimelineView, offset=(2, TOP))
        await pilot.pause()
        assert view.navigator.scene.layout.height == height - 2
        assert "+2" in text_of(view).splitlines()[TOP]
        view.navigator.select(
            of_name(view.navigator.trace, "cudaLaunchKernel")[0]
        )  # a folded row is unfolded to show it
        assert view.navigator.scene.layout.height == height
        view.lanes.toggle_all()
        assert view.navigator.scene.layout.height == 2
        assert view.navigator.scene.layout.dock.height == 2  # a rule and a stream
        view.lanes.toggle_all()
        assert view.navigator.scene.layout.height == height
        view.lanes.hide()
        assert view.navigator.scene.layout.height == height - 3
        view.lanes.show_hidden()
        assert view.navigator.scene.layout.height == height
        view.lanes.pin()
        assert view.navigator.scene.layout.pinned_height == 3
        assert view.navigator.scene.layout.height == height - 3


async def test_many_calls_cost_one_frame(shell, monkeypatch):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.app.workers.wait_for_complete()  # the counters have a frame of their own
        await pilot.pause()
        frames: list[int] = []
        render = shell.view._render_frame
        monkeypatch.setattr(shell.view, "_render_frame", lambda: frames.append(1) or render())
        for _ in range(50):
            shell.view.navigator.zoom(1.01)
        await pilot.pause()
        assert len(frames) == 1


async def test_a_selection_step_draws_only_what_changed(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view = shell.view
        view.navigator.select(of_name(view.navigator.trace, "kernel0")[4], reveal=False)
        await pilot.pause()
        view.navigator.change(selected=of_name(view.navigator.trace, "kernel0")[5])
        changed = view._render_frame()
        lines = [region.y for region in changed]
        # The overview points to it, the ruler and the counters have the cursor there, and its own row.
        at = cell_of(view, of_name(view.navigator.trace, "kernel0")[5])[1]
        assert lines[:5] == [0, 1, at, at + 1, at + 2]
        below = view.navigator.scene.lines(view.size.height - TOP)
        assert {below[y - TOP].of for y in lines[5:]} <= {Of.COUNTER}


async def test_resizing_keeps_the_stretch(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view = shell.view
        view.navigator.zoom(4)
        before = view.navigator.view
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert view.navigator.view.width < before.width
        assert view.navigator.view.span_ns == pytest.approx(before.span_ns, rel=0.02)
        assert all(strip.cell_length == 80 for strip in view.render_lines(view.size.region))
        await pilot.resize_terminal(9, 3)
        await pilot.pause()
        assert view.size.width == 9
        assert all(strip.cell_length == 9 for strip in view.render_lines(view.size.region))
        pieces = view.render_lines(Region(2, 0, 5, 2))
        assert [strip.cell_length for strip in pieces] == [5, 5]


async def test_marks_matches_and_themes(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view = shell.view
        view.navigator.change(marks=((500_000, "half"),))
        mask = np.zeros(len(view.navigator.trace), dtype=np.bool_)
        mask[of_name(view.navigator.trace, "kernel1")] = True
        view.navigator.set_matches([mask])
        await pilot.pause()
        assert "half" in text_of(view)
        assert view.navigator.scene.source.matches is not None
        assert view.navigator.scene.source.matches.sum() == 10
        view.navigator.set_matches(None)
        assert view.navigator.scene.source.matches is None
        view.set_theme(LIGHT)
        await pilot.pause()
        assert view.navigator.scene.theme is LIGHT
        view.set_theme(PLAIN)
        await pilot.pause()
        styles = {segment.style for strip in view.render_lines(view.size.region) for segment in strip}
        assert all(s is not None and s.color is None and s.bgcolor is None for s in styles)


async def test_lit_names(shell):
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view = shell.view
        kernel = of_name(view.navigator.trace, "kernel1")[2]
        view.navigator.select(kernel)
        assert view.navigator.scene.source.same == int(view.navigator.trace.name[kernel])
        view.navigator.select(None)
        assert view.navigator.scene.source.same == -1


async def test_what_is_sent_is_what_is_seen(shell):
    """The lean strips, read back by Rich's own decoder, are the canvas."""
    from rich.ansi import AnsiDecoder

    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        shell.view.navigator.select(of_name(shell.view.navigator.trace, "kernel1")[2], reveal=False)
        await pilot.pause()
        console = Console(color_system="truecolor")
        for strip in shell.view.render_lines(shell.view.size.region):
            decoded = AnsiDecoder().decode_line(strip.render(console))
            assert decoded.plain == strip.text
            x = 0
            for segment in strip:
                for character in segment.text:
                    style = decoded.get_style_at_offset(console, x)
                    assert segment.style is not None
                    color, ground = style.color, style.bgcolor
                    if style.reverse:
                        color, ground = ground, color
                    assert ground == segment.style.bgcolor
                    if not character.isspace():
                        assert color == segment.style.color
                        assert bool(style.bold) == bool(segment.style.bold)
                    x += 1


class Two(Shell):
    """A trace, and the same one again 3 ms later."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        assert self.view.session.add(Recording(trace), 3_000_000) == 1
        self.view.navigator.set_gaps(self.view.navigator.scene.source.gaps, of=1)


async def test_two_recordings_on_one_axis(tmp_path):
    shell = Two(written(tmp_path))
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view, trace = shell.view, shell.view.navigator.trace
        assert view.navigator.view.start_ns <= 0
        assert view.navigator.view.end_ns >= 5_000_000
        lines = text_of(view).splitlines()
        assert lines[TOP].startswith(" trace.json")
        assert [line.startswith(" trace.json") for line in lines].count(True) == 2
        target = of_name(trace, "aten::op1")[2]
        view.navigator.select(target, of=1)
        await pilot.pause()
        assert (view.navigator.selected, view.navigator.scene.active) == (target, 1)
        assert view.navigator.view.contains(int(trace.start[target]) + 3_000_000)
        assert shell.selections[-1] == (1, target)
        bar = shell.bar.render_lines(shell.bar.size.region)[0].text
        assert bar.startswith(" trace.json aten::op1  at ")
        assert f"at {(int(trace.start[target]) + 3_000_000) / 1e6:.3f}" in bar
        view.session.search.find("kernel1")
        assert [int(s.matches.sum()) for s in view.navigator.scene.sources if s.matches is not None] == [
            10,
            10,
        ]
        view.navigator.select(None)
        await pilot.pause()
        assert (shell.selections[-1], view.navigator.scene.active) == (None, 1)


async def test_the_mouse_on_the_second_of_two_recordings(tmp_path):
    shell = Two(written(tmp_path))
    async with shell.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        view, trace = shell.view, shell.view.navigator.trace
        view.navigator.show(3_000_000, 5_000_000)
        await pilot.pause()
        kernel = of_name(trace, "kernel0")[3]
        middle = int(trace.start[kernel]) + int(trace.duration[kernel]) // 2 + 3_000_000
        x = view.navigator.scene.labels + view.navigator.view.column(middle)
        stream = int(trace.lane[kernel])
        keys = [(line.source, int(line.of), line.ref) for line in view.navigator.scene.lines(28)]
        y = TOP + keys.index((1, 0, stream))
        await pilot.click(TimelineView, offset=(x, y))
        assert view.navigator.scene.event == (1, kernel)
        await pilot.double_click(TimelineView, offset=(x, y))
        await pilot.pause()
        assert view.navigator.view.contains(middle)
        assert view.navigator.view.span_ns < 2 * int(trace.duration[kernel])
        assert view.navigator.back()
        await pilot.click(TimelineView, offset=(x + 3, y))
        await pilot.pause()
        clicked = shell.heard(GapClicked)[-1]
        assert (clicked.device, clicked.index, clicked.of) == (0, 6, 1)
        view.navigator.set_gap(0, 6)
        assert view.navigator.scene.gap == (1, 0, 6)
        before = view.navigator.scene.layout
        await pilot.click(TimelineView, offset=(2, TOP + keys.index((1, 0, 0))))  # a label folds its lane
        folded = np.flatnonzero(view.navigator.scene.layout.shown != before.shown)
        assert folded.tolist() == [before.track_of(Of.LANE, 0, 1)]


async def test_lanes_of_one_recording_leave_those_of_the_other(tmp_path):
    shell = Two(written(tmp_path))
    async with shell.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        view = shell.view
        await until(pilot, lambda: all(len(source.series) == 2 for source in view.navigator.scene.sources))
        first = view.lanes.arrangement(of=0)
        view.lanes.hide(0, of=1)
        assert view.lanes.is_hidden(0, of=1)
        assert not view.lanes.is_hidden(0, of=0)
        assert not view.lanes.move(-1, 2, of=1)  # the stream is the first of its device in the dock
        assert view.lanes.move(1, 2, of=1)
        assert view.lanes.arrangement(of=0) == first
        left = view.lanes.arrangement(of=1)
        assert (
            view.session.add(Recording(view.navigator.trace), -3_000_000) == 2
        )  # what a person arranged stays
        assert view.lanes.arrangement(of=1) == left
        view.lanes.reset()
        assert not view.lanes.is_hidden(0, of=1)
        view.lanes.restore(left, of=1)
        assert view.lanes.is_hidden(0, of=1)
        assert view.lanes.arrangement(of=0) == first


async def test_every_recording_gets_its_own_series(tmp_path):
    shell = Two(written(tmp_path))
    async with shell.run_test(size=(120, 40)) as pilot:
        await until(
            pilot, lambda: all(len(source.series) == 2 for source in shell.view.navigator.scene.sources)
        )
        assert shell.view.session.add(Recording(shell.view.navigator.trace), 9_000_000) == 2
        await until(pilot, lambda: len(shell.view.navigator.scene.sources[2].series) == 2)
        tracks = [
            (line.source, line.ref) for line in shell.view.navigator.scene.lines(99) if line.of is Of.COUNTER
        ]
        assert sorted(set(tracks)) == [(of, n) for of in range(3) for n in range(2)]


class Over(ModalScreen[None]):
    DEFAULT_CSS = "Over { align: center middle; } Over Static { width: 30; height: 5; background: red; }"

    def compose(self) -> ComposeResult:
        yield Static("a dialog")


class Main(Screen[None]):
    DEFAULT_CSS = """
    Main { layers: below over; }
    #float { layer: over; position: absolute; offset: 25 5; width: 20; height: 4; background: blue; }
    """

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        draw_less(self)
        self.view = TimelineView(Session([Recording(trace)]))
        self.bar = self.view.bar = SelectionBar()

    def compose(self) -> ComposeResult:
        yield Static("above", id="above")
        yield self.view
        yield self.bar
        yield Static("below", id="below")
        yield Static("floats over the lanes", id="float")


class Watched(OnTerminal):
    """Shows a timeline."""

    def __init__(self, trace: Trace, size: tuple[int, int]) -> None:
        super().__init__()
        self.trace = trace
        self.terminal = Terminal(*size)
        self.sent = SentLines()

    def on_mount(self) -> None:
        self.push_screen(Main(self.trace))

    def fresh(self) -> Terminal:
        """A terminal that is drawn anew, in full."""
        terminal = Terminal(self.terminal.width, self.terminal.height)
        screen = self.screen
        view = next(s for s in self.screen_stack if isinstance(s, Main)).view
        known = view._board, list(view._board.lines), view._cells, list(view._strips)
        view._cells = None  # painted anew, too: what is kept of it may be stale
        update = screen._compositor.render_update(full=True, screen_stack=self._background_screens)
        assert isinstance(update, CompositorUpdate)
        terminal.feed(update.render_segments(self.ansi))
        # This one was not for the app's own terminal.
        view._board, view._board.lines, view._cells, view._strips = known
        return terminal


async def quiet(pilot: Pilot[Any], terminal: Terminal) -> int:
    """Wait until nothing more is sent; all the bytes that were."""
    main = next((screen for screen in pilot.app.screen_stack if isinstance(screen, Main)), None)
    if main is not None:
        # Counters are worked out beside, and a frame may come later, where the last one took long.
        await until(pilot, lambda: main.view.navigator.scene.source.series and not main.view._waiting)
    await pilot.pause()
    return terminal.bytes


@pytest.mark.parametrize("seed", range(2))
async def test_the_terminal_shows_what_is_meant(small, seed):
    size = (110, 28)
    app = Watched(small, size)
    rng = random.Random(seed)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        main = app.screen
        assert isinstance(main, Main)
        view = main.view
        floating = main.query_one("#float", Static)
        n = len(small)
        steps = [
            lambda: view.navigator.pan(rng.choice([-0.5, -0.1, 0.1, 0.5])),
            lambda: view.navigator.zoom(rng.choice([1.4, 1 / 1.4, 3.0])),
            lambda: view.navigator.move(rng.choice(["next", "previous", "up", "down"])),
            lambda: view.navigator.move(rng.choice(["next", "previous", "up", "down"])),
            lambda: view.navigator.select(rng.randrange(n), reveal=rng.random() < 0.5),
            lambda: view.navigator.select(None),
            lambda: view.navigator.set_range(*sorted(rng.sample(range(*view.navigator.trace.span), 2))),
            lambda: view.navigator.change(gap=(0, 0)), lambda: view.lanes.toggle_fold(),
            lambda: view.navigator.fit(),
            lambda: main.query_one("#below", Static).update(f"below {rng.random()}"),
            lambda: main.query_one("#above", Static).update(f"above {rng.random()}"),
            lambda: setattr(main.query_one("#above"), "display", rng.random() < 0.5),
            lambda: app.push_screen(Over()) if len(app.screen_stack) < 3 else app.pop_screen(),
            lambda: app.notify("a message", timeout=0.01 + rng.random() / 20),
            lambda: setattr(floating, "display", not floating.display),
            lambda: setattr(floating, "display", not floating.display),
            lambda: floating.update(f"floats {rng.random()}"), lambda: app.refresh()
        ]  # fmt: skip
        for _ in range(60):
            for step in rng.choices(steps, k=rng.choice([1, 1, 2, 5])):
                step()
                if rng.random() < 0.3:
                    await pilot.pause(rng.choice([0, 0.001, 0.02]))
            await pilot.pause(rng.choice([0, 0.02]))
            if rng.random() < 0.3:
                while len(app.screen_stack) > 2:
                    app.pop_screen()
                await quiet(pilot, app.terminal)
                fresh = app.fresh().cells
                for y, (seen, want) in enumerate(zip(app.terminal.cells, fresh, strict=True)):
                    assert seen == want, f"line {y}"


async def test_a_step_sends_little(small):
    size = (200, 50)
    app = Watched(small, size)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        main = app.screen
        assert isinstance(main, Main)
        main.view.navigator.move("next")
        before = await quiet(pilot, app.terminal)
        main.view.navigator.move("down")
        await until(pilot, lambda: app.terminal.bytes > before)
        assert await quiet(pilot, app.terminal) - before < 2500


async def test_what_is_there_is_not_sent_again(small):
    size = (200, 50)
    app = Watched(small, size)
    async with app.run_test(size=size) as pilot:
        await app.workers.wait_for_complete()  # the counters, which may come after the first picture
        await quiet(pilot, app.terminal)
        app.screen.refresh(layout=True)
        before = await quiet(pilot, app.terminal)
        app.screen.refresh(layout=True)
        assert await quiet(pilot, app.terminal) - before < 200
        app.push_screen(Over())
        before = await quiet(pilot, app.terminal)
        app.screen.refresh(layout=True)
        assert await quiet(pilot, app.terminal) - before < 200
        app.sent.forget()
        app.screen.refresh(layout=True)
        await until(pilot, lambda: app.terminal.bytes - before > 200 * 50)


def test_the_terminal_of_these_tests():
    terminal = Terminal(10, 2)
    terminal.feed("\x1b[1;3Hab\x1b[2C\x1b[31mc\x1b[0m\nd")
    assert "".join(c for c, _ in terminal.cells[0]) == "??ab??c???"
    assert terminal.cells[1][0] == ("d", "")
    terminal.feed("\x1b[1;1H\x1b[38;5;1;48;5;2mx\x1b[7;48;5;1;38;5;2mx\x1b[27mx\x1b[0mx\x1b[7mx")
    looks = [look for _, look in terminal.cells[0][:5]]
    assert looks == ["on [2] [1]", "on [2] [1]", "on [1] [2]", "", "on ink paper"]


def line_of(text: str) -> Packed:
    canvas = Canvas.blank(len(text), 1, 7, 0)
    canvas.put(0, 0, text)
    return canvas.packed()[0]


def test_a_patch_sends_what_differs():
    console = Console()
    board = Board(1)
    first = DeltaStrip(line_of("0123456789abcdefghij"), 0, board)
    assert first.end == 20  # nothing is known yet: all of it
    first.render(console)
    second = DeltaStrip(line_of("0123456789aXcdefghij"), 0, board)
    assert second.end == 12
    terminal = Terminal(20, 1)
    terminal.feed(first.render(console))
    terminal.feed("\x1b[1;1H" + second.crop(0, 12).render(console))
    assert "".join(c for c, _ in terminal.cells[0]) == "0123456789aXcdefghij"
    assert len(second.crop(0, 12).render(console)) == 0  # it is there now
    assert len(DeltaStrip(line_of("Y123456789aXcdefghiZ"), 0, board).patch()) < 50
    assert DeltaStrip(line_of("Y123456789aXcdefghiZ"), 0, board).end == 0


def test_what_was_covered_is_sent_in_full():
    console = Console()
    for cover in (lambda s: s.divide([5, 20]), lambda s: s.crop(3, 20), lambda s: s.crop(0, 1)):
        board = Board(1)
        DeltaStrip(line_of("0123456789abcdefghij"), 0, board).render(console)
        changed = DeltaStrip(line_of("0123456789aXcdefghij"), 0, board)
        cover(changed)
        assert board.lines[0] is None
        assert "0123456789aX" in changed.crop(0, 12).render(console)
        later = DeltaStrip(line_of("0123456789aXcdefghij"), 0, board)
        assert later.end == 20
        assert later.divide([20]) == [later]


def test_any_patch_turns_one_line_into_the_other():
    console, dice = Console(), random.Random(7)

    def a_line() -> Packed:
        canvas = Canvas.blank(40, 1, 7, dice.choice((0, PAPER)))
        for _ in range(dice.randrange(12)):
            text = dice.choice(("ab", "   ", "▌▐█", "x"))
            ink, paper = dice.choice((1, 200, INK)), dice.choice((3, 0, 22, INK, PAPER, None))
            canvas.put(0, dice.randrange(38), text, ink, paper, dice.choice((0, BOLD, UNDERLINE)))
        return canvas.packed()[0]

    for _ in range(300):
        board = Board(1)
        patched, whole = Terminal(40, 1), Terminal(40, 1)
        patched.feed(DeltaStrip(a_line(), 0, board).render(console))
        for _ in range(3):
            cells = a_line()
            strip = DeltaStrip(cells, 0, board)
            patched.feed("\x1b[1;1H" + strip.crop(0, strip.end).render(console))
            whole.feed("\x1b[1;1H" + DeltaStrip(cells, 0, Board(1)).render(console))
            assert patched.cells == whole.cells
