"""The first screen of a bare `tracetui`: the traces here, capturing, recent traces, and samples, with what is
known of the one under the cursor."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.strip import Strip

from tracetui import __version__
from tracetui.core.cells import cell, middle, wrap
from tracetui.core.safe_text import plain
from tracetui.core.units import size
from tracetui.session.folder import SCANNED, Found, found_at, traces_in
from tracetui.session.recent import ago
from tracetui.session.samples import sample_folder
from tracetui.tui.bindings import bind
from tracetui.tui.footer import Footer
from tracetui.tui.line_widget import LineWidget, Run
from tracetui.tui.prompt import Prompt
from tracetui.tui.requests import OpenTrace
from tracetui.tui.screens.open import COMPLETE, TraceList
from tracetui.tui.screens.sheet import MOVES
from tracetui.tui.tables.view import TableView

if TYPE_CHECKING:
    from tracetui.views.preview import Preview

HINTS = (
    ("↑↓", "choose", ""),
    ("Enter", "open", "choose"),
    ("o", "open a file", "open_file"),
    ("/", "search", "open_file"),
    ("c", "capture", "capture"),
    ("j", "record job", "attach"),
    ("q", "quit", "app.quit"),
)
HERE = 100
"""The newest files of the current folder that are looked into."""
LEAST = 14
"""A screen of fewer lines has no room for the preview."""
ROOMY = 30
"""The same without traces in the current folder."""
AT_ONCE = 0.3
"""Seconds that the first picture waits for the traces of the current folder."""
PAUSE = 0.15
"""Seconds that the cursor rests on a trace before that is looked at."""
TYPING = (("Enter", "open", "choose"), ("Tab", "complete", "complete"), ("Esc", "back", "close_prompt"))


def traces_here() -> Sequence[Found]:
    """The traces in the current folder and two levels below it, without the samples, newest first."""
    ours = sample_folder()
    try:
        return [one for one in traces_in(".", HERE, SCANNED) if ours not in one.path.resolve().parents]
    except (OSError, RuntimeError):  # no such folder any more, or links in a circle
        return ()


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


class PreviewLines(LineWidget):
    """What is known of the trace under the cursor: where it is, its size and age, its verdict and why."""

    DEFAULT_CSS = """
    PreviewLines { height: 4; border-top: solid $panel; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.found: Found | None = None
        self.verdict: Preview | None = None

    def tell(self, found: Found | None, verdict: Preview | None) -> None:
        """Show a file, and its verdict once that is known."""
        self.found, self.verdict = found, verdict
        self.refresh()

    def texts(self, width: int) -> list[list[Run]]:
        """The lines, of at most so many cells."""
        if self.found is None:
            return []
        about = f"  {size(self.found.bytes)}, {ago(time.time() - self.found.changed)}"
        path = middle(plain(str(self.found.path), 400), max(8, width - len(about)))
        lines: list[list[Run]] = [[(path, "text"), (about, "dim")]]
        if self.verdict is None:
            return lines
        (word, look), reason = self.verdict
        head = f"{word.upper()}  " if word else ""
        first, *rest = wrap(head + reason, max(20, width), 2) or [""]
        return [
            *lines,
            [(head, look or "dim"), (first[len(head) :], "text")],
            *([(one, "text")] for one in rest),
        ]

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        lines = self.texts(width - 2)
        runs = lines[y] if y < len(lines) else []
        segments = [
            Segment(" ", self.rich_style),
            *(Segment(text, self.style_of(look)) for text, look in runs),
        ]
        return Strip(segments).adjust_cell_length(width, self.rich_style)


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
        self.preview = PreviewLines()
        self.footer = Footer(HINTS)
        self._known: dict[str, Preview] = {}
        """The verdicts found so far, by path."""

    def compose(self) -> ComposeResult:
        yield Welcome()
        yield self.traces
        yield self.preview
        yield self.footer

    def on_mount(self) -> None:
        self.traces.show("")
        if not self.traces.traces:
            self._to_first()
            here: Future[Sequence[Found]] = Future()
            Thread(target=lambda: here.set_result(traces_here()), daemon=True).start()
            wait([here], AT_ONCE)
            if here.done():
                self._add(here.result())
                self._to_first()
            else:  # then the cursor stays on what it is on
                here.add_done_callback(lambda found: self.call_later(self._add, found.result()))
        self._tell()

    def _add(self, found: Sequence[Found]) -> None:
        self.traces.add(found)
        self._make_room()
        self._tell()

    def on_resize(self) -> None:
        self._make_room()

    def _make_room(self) -> None:
        """Where the samples alone fill the screen, they come before the preview."""
        self.preview.display = self.size.height >= (LEAST if self.traces.traces else ROOMY)

    def _to_first(self) -> None:
        """To the first trace here, else the latest, else the sample of a training step."""
        kinds = [choice.kind for choice in self.traces.choices]
        train = [
            n for n, one in enumerate(self.traces.choices) if one.kind == "sample" and one.name == "train"
        ]
        first = [kinds.index(kind) for kind in ("trace", "recent") if kind in kinds]
        if rows := first + train:
            self.list.show_row(rows[0])

    # The preview

    def on_table_view_highlighted(self, message: TableView.Highlighted) -> None:
        self._tell()

    def _tell(self) -> None:
        """Say what is known of the trace under the cursor, and find its verdict in a thread."""
        choice = self.traces.choice
        path = choice.path if choice is not None and choice.kind != "folder" else None
        try:
            found = found_at(path) if path is not None else None
        except OSError:
            found = None
        known = self._known.get(str(path))
        self.preview.tell(found, known)
        if found is not None and known is None:
            work = partial(self._judge, found)
            self.run_worker(work, thread=True, group="preview", exclusive=True, exit_on_error=False)

    def _judge(self, found: Found) -> None:
        from textual.worker import get_current_worker

        from tracetui.views.preview import preview

        worker = get_current_worker()
        time.sleep(PAUSE)  # while keys go through the list, nothing is read
        if not worker.is_cancelled:
            verdict = preview(str(found.path))
            if not worker.is_cancelled and self.is_attached:
                self.app.call_from_thread(self._judged, found, verdict)

    def _judged(self, found: Found, verdict: Preview) -> None:
        self._known[str(found.path)] = verdict
        if self.preview.found == found:
            self.preview.tell(found, verdict)

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
