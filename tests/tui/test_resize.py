"""The terminal changes its size: afterwards it shows what the app means it to show."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console
from textual import events
from textual._compositor import CompositorUpdate
from textual.geometry import Size
from textual.screen import Screen

from tracetui.tui.app import TracetuiApp
from tracetui.tui.loading import LoadTask

from .conftest import DATA, screen_of, until
from .test_timeline_sent import Terminal

WIDE, NARROW = Size(120, 36), Size(80, 24)


class Watched(TracetuiApp):
    """Draws onto a `Terminal`."""

    def __init__(self, task: LoadTask) -> None:
        super().__init__(task)
        self.terminal = Terminal(*WIDE)
        self.ansi = Console(color_system="truecolor", force_terminal=True)
        self.console._color_system = self.ansi._color_system

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        if isinstance(renderable, CompositorUpdate) and not self._batch_count:
            changed = self.sent.only_new(renderable, screen.size.width)
            assert isinstance(changed, CompositorUpdate)
            self.terminal.feed(changed.render_segments(self.ansi))
        super()._display(screen, renderable)

    def change_terminal(self, *sizes: Size) -> None:
        """The terminal takes one size after another: what it shows is shuffled, and it tells of each."""
        self.terminal.cells = [[("x", "")] * sizes[-1].width for _ in range(sizes[-1].height)]
        self.terminal.width, self.terminal.height = sizes[-1]
        for size in sizes:
            self.post_message(events.Resize(size, size))

    def meant(self) -> list[str]:
        """The lines of the screen."""
        return [strip.text for strip in self.screen._compositor.render_strips()]

    def seen(self) -> list[str]:
        """The lines of the terminal; of a wide character the first cell says all."""
        return ["".join(c for c, _ in line) for line in self.terminal.cells]


@pytest.mark.parametrize(
    "sizes",
    [
        (NARROW,),
        (NARROW, WIDE),
        (WIDE,),  # there and back before the app looked: one signal, of the size that it knows
        (WIDE, WIDE),  # the signal and the terminal's own report
        (NARROW, Size(120, 24), WIDE),
    ],
)
@pytest.mark.parametrize("dialog", [False, True])
async def test_a_terminal_that_changes_its_size_shows_all_of_the_screen(
    sizes: tuple[Size, ...], dialog: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    task = LoadTask(DATA / "mlp_eager.json.gz").start()
    assert task.finished.wait(30)
    app = Watched(task)
    async with app.run_test(size=(WIDE.width, WIDE.height)) as pilot:
        screen = screen_of(app)
        await pilot.press("right", "right")
        await until(pilot, lambda: screen.area.open is not None and screen.timeline.selected is not None)
        if dialog:
            await pilot.press("question_mark")
        await until(pilot, lambda: app.seen() == app.meant())
        app.change_terminal(*sizes)
        await pilot.press("right")
        await until(pilot, lambda: app.screen.size == sizes[-1] and app.seen() == app.meant())
