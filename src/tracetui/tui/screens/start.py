"""The first screen of a bare `tracetui`: capturing, recent traces, and samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.strip import Strip

from tracetui import __version__
from tracetui.core.cells import cell
from tracetui.session.folder import Found
from tracetui.tui.bindings import bind
from tracetui.tui.footer import Footer
from tracetui.tui.line_widget import LineWidget
from tracetui.tui.prompt import Prompt
from tracetui.tui.requests import OpenTrace
from tracetui.tui.screens.open import COMPLETE, TraceList
from tracetui.tui.screens.sheet import MOVES

HINTS = (
    ("↑↓", "choose", ""),
    ("Enter", "open", "choose"),
    ("o", "open a file", "open_file"),
    ("/", "search", "open_file"),
    ("c", "capture", "capture"),
    ("j", "record job", "attach"),
    ("q", "quit", "app.quit"),
)
TYPING = (("Enter", "open", "choose"), ("Tab", "complete", "complete"), ("Esc", "back", "close_prompt"))


class Welcome(LineWidget):
    """Two lines above the choices."""

    DEFAULT_CSS = "Welcome { height: 2; }"
    LINES = (
        (f" tracetui {__version__}", "accent"),
        (" Open a trace of torch.profiler, capture one here, or record a running job.", "dim"),
    )

    def render_line(self, y: int) -> Strip:
        text, look = self.LINES[y]
        return Strip([Segment(cell(text, self.size.width), self.style_of(look))])


class StartScreen(Screen[None]):
    """The choice of what to look at."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *MOVES,
        *COMPLETE,
        *bind("enter choose  o,slash,ctrl+o open_file  c app.capture  A,j app.attach  q,ctrl+c app.quit"),
    ]

    def __init__(self, traces: Sequence[Found] = ()) -> None:
        """`traces`: those of a folder, which come first."""
        super().__init__()
        self.traces = TraceList(capture=True, traces=traces)
        self.list = self.traces.list
        self.footer = Footer(HINTS)

    def compose(self) -> ComposeResult:
        yield Welcome()
        yield self.traces
        yield self.footer

    def on_mount(self) -> None:
        self.traces.show("")
        if len(self.traces.choices) > 1 and not self.traces.traces:
            self.list.show_row(1)

    async def on_trace_list_opened(self, message: TraceList.Opened) -> None:
        if message.path is None:
            await self.run_action("app.capture")
        else:
            self.post_message(OpenTrace(message.path))

    def action_choose(self) -> None:
        self.traces.choose()

    def action_move(self, step: int) -> None:
        self.list.action_move(step)

    def action_page(self, pages: int) -> None:
        self.list.action_page(pages)

    def action_complete(self) -> None:
        self.traces.complete()

    def action_open_file(self) -> None:
        """Ask for a path, or for a word to search for."""
        self.traces.ask()
        self.footer.hints = TYPING

    def action_close_prompt(self) -> None:
        self.traces.stop_asking()
        self.footer.hints = HINTS

    def on_prompt_left(self, message: Prompt.Left) -> None:
        self.action_close_prompt()

    def take_early(self, key: str) -> bool:
        """Whether the line takes a key that was typed for it before it had the focus."""
        return self.traces.prompt is not None and self.traces.prompt.take_early(key)
