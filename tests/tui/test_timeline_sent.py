"""What the terminal shows after many small updates is what the app means it to show."""

import random
from typing import Any

import pytest
from rich.console import Console
from textual._compositor import CompositorUpdate
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from tracetui.session.recording import Recording
from tracetui.session.session import Session
from tracetui.timeline.canvas import BOLD, INK, PAPER, UNDERLINE, Canvas, Packed
from tracetui.trace import Trace
from tracetui.tui.textual_private import SentLines, draw_less
from tracetui.tui.timeline.bar import SelectionBar
from tracetui.tui.timeline.delta_strips import Board, DeltaStrip
from tracetui.tui.timeline.view import TimelineView

from .conftest import until
from .terminal import OnTerminal, Terminal


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
        await until(pilot, lambda: main.view.walk.scene.source.series and not main.view._waiting)
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
            lambda: view.walk.pan(rng.choice([-0.5, -0.1, 0.1, 0.5])),
            lambda: view.walk.zoom(rng.choice([1.4, 1 / 1.4, 3.0])),
            lambda: view.walk.move(rng.choice(["next", "previous", "up", "down"])),
            lambda: view.walk.move(rng.choice(["next", "previous", "up", "down"])),
            lambda: view.walk.select(rng.randrange(n), reveal=rng.random() < 0.5),
            lambda: view.walk.select(None),
            lambda: view.walk.set_range(*sorted(rng.sample(range(*view.walk.trace.span), 2))),
            lambda: view.walk.change(gap=(0, 0)), lambda: view.lanes.toggle_fold(), lambda: view.walk.fit(),
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
                meant = app.fresh()
                for y, (seen, want) in enumerate(zip(app.terminal.cells, meant.cells, strict=True)):
                    assert seen == want, f"line {y}"


async def test_a_step_sends_little(small):
    size = (200, 50)
    app = Watched(small, size)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        main = app.screen
        assert isinstance(main, Main)
        main.view.walk.move("next")
        before = await quiet(pilot, app.terminal)
        main.view.walk.move("down")
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
