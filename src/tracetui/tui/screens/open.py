"""The list of what can be opened, with a line to type a path or a word; and the sheet that holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget

from tracetui.core.cells import middle
from tracetui.session.folder import Found
from tracetui.session.paths import TRACE_ENDINGS, typed_path
from tracetui.session.recent import Recent, recent_traces
from tracetui.session.samples import samples
from tracetui.session.state import resolved
from tracetui.session.trace_list import Choice, choices, completed
from tracetui.tui.bindings import bind
from tracetui.tui.prompt import Prompt
from tracetui.tui.screens.picker import PickList
from tracetui.tui.screens.sheet import ListSheet
from tracetui.tui.tables.view import TableView
from tracetui.views.model import Column, Table

HINTS = (
    ("Esc", "close", "leave"),
    ("Enter", "open", "choose"),
    ("Tab", "complete", "complete"),
    ("↑↓", "choose", ""),
)
COMPARE = ("^t", "compare", "beside")
"""Shown with the other hints if there is a trace to compare with."""
KIND = 7
"""The number of cells for a choice's kind."""
LEAST_NAME = 23
"""The number of cells for a name; longer ones take up to half of the line."""
MANY = 10_000
FEW = 6
"""Of the traces in the current folder, so many are listed at first."""


class TraceList(Vertical):
    """Recent traces, samples, and the contents of a folder while its path is typed."""

    DEFAULT_CSS = "TraceList { height: 1fr; }"

    class Opened(Message):
        """A trace was chosen; None means capturing."""

        def __init__(self, path: Path | None) -> None:
            super().__init__()
            self.path = path

    def __init__(self, capture: bool = False, traces: Sequence[Found] = (), without: str = "") -> None:
        """`capture`: capturing is one of the choices; `traces`: those of a folder, which come first, and only
        once; `without`: the path of a trace that is left out."""
        super().__init__()
        self.capture, self.traces, self.without = capture, traces, without
        self.few: int | None = None
        """How many of the traces are listed at first; None: all."""
        self.typed = ""
        self.every = False
        """Whether all recent traces are listed."""
        self._every_recent = recent_traces()
        self.samples = {name: path for name, path in samples().items() if str(path) != without}
        self.choices: list[Choice] = []
        self.list = PickList()
        self.prompt: Prompt | None = None

    @property
    def recent(self) -> list[Recent]:
        """The recent traces that are not listed anyway."""
        left_out = {self.without, *(resolved(str(one.path)) for one in self.traces)}
        return [one for one in self._every_recent if str(one.path) not in left_out]

    def add(self, traces: Sequence[Found]) -> None:
        """List the traces of a folder, a few at first. The cursor stays on what it is on."""
        before = self.choice
        self.traces, self.few = traces, FEW
        self.show(self.typed)
        if before is not None and before in self.choices:
            self.list.show_row(self.choices.index(before))

    @property
    def choice(self) -> Choice | None:
        """What the cursor is on."""
        row = self.list.row
        return self.choices[row] if row is not None and row < len(self.choices) else None

    def compose(self) -> ComposeResult:
        yield self.list

    def ask(self, typed: str = "", label: str = "open:") -> None:
        """Show the line to type into."""
        if self.prompt is None:
            self.prompt = Prompt(label, typed, f"a path ({', '.join(TRACE_ENDINGS)}), or part of a name")
            self.mount(self.prompt, before=self.list)
            self.show(typed)

    def stop_asking(self) -> None:
        """Remove the line."""
        if self.prompt is not None:
            self.prompt.remove()
            self.prompt = None
            self.show("")

    def on_resize(self) -> None:
        row = self.list.row
        self.show(self.typed)
        if row is not None:
            self.list.show_row(row)

    def show(self, typed: str) -> None:
        """List what fits what was typed."""
        self.typed = typed
        room = self.size.height - (self.prompt is not None)
        here = min(len(self.traces), MANY if self.few is None else self.few)
        few = MANY if self.every else max(2, min(5, room - len(self.samples) - here - 2))
        found = self.choices = choices(
            typed,
            self.recent,
            self.samples,
            few,
            self.capture,
            traces=self.traces,
            few_traces=None if self.every else self.few,
        )
        first = {kind: n for n, kind in reversed(list(enumerate(c.kind for c in found)))}
        longest = max((len(c.name) for c in found), default=0)
        name = max(LEAST_NAME, min(longest, (self.size.width - KIND - 6) // 2))

        def kind(row: int) -> str:
            here = found[row].kind
            return here if first[here] == row and here != "more" else ""

        columns = (
            Column("kind", "", kind, None, KIND, False),
            Column("name", "", lambda r: middle(found[r].name, name), None, name, False),
            Column("about", "", lambda r: found[r].about, None, 0, False),
        )
        self.list.set_table(Table(columns, len(found), empty="no match"))

    # The line

    def on_prompt_typed(self, message: Prompt.Typed) -> None:
        message.stop()
        self.show(message.value)
        if self.prompt is not None:
            self.prompt.set_note("")

    def on_prompt_entered(self, message: Prompt.Entered) -> None:
        message.stop()
        self.choose()

    def complete(self) -> None:
        """Complete what was typed, as far as the names agree or else to the one under the cursor."""
        row = self.list.row
        if self.prompt is None or row is None:
            return
        longer = completed(self.typed, self.choices)
        here = self.choices[row]
        if longer == self.typed and here.kind in ("folder", "file"):
            longer = self.typed[: self.typed.rfind("/") + 1] + here.name
        self.prompt.set_value(longer)

    # Choosing

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        message.stop()
        self.choose()

    def choose(self) -> None:
        """Open what is under the cursor: a trace, a folder, or the rest of the recent traces."""
        row, here = self.list.row, self.choice
        if here is None:
            path = typed_path(self.typed)
            if self.typed.strip() and _is_file(path):
                self.post_message(self.Opened(path))
            elif self.prompt is not None:
                self.prompt.set_note("no such file", wrong=True)
        elif here.kind == "more":
            self.every = True
            self.show(self.typed)
            self.list.show_row(row or 0)
        elif here.kind == "folder" and self.prompt is not None:
            self.prompt.set_value(self.typed[: self.typed.rfind("/") + 1] + here.name)
        else:
            self.post_message(self.Opened(here.path))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


COMPLETE = bind("tab complete", priority=True)


class Chosen(NamedTuple):
    """A trace to open. `beside`: to compare it with the present one."""

    path: Path
    beside: bool


class OpenScreen(ListSheet[Chosen]):
    """Chooses a trace; the result is its path, and whether to compare."""

    BINDINGS: ClassVar[list[BindingType]] = [*COMPLETE, *bind("escape leave"), *bind("ctrl+t beside", True)]

    def __init__(
        self, present: str = "", compare: bool = False, without: str = "", found: Sequence[Found] = ()
    ) -> None:
        """`present`: the name of the trace that another one can be compared with, safe to show; "" for none.
        `compare`: Enter compares. `without`: the path of a trace that is left out. `found`: traces to list
        first."""
        title = f"Compare with {present}" if compare else "Open a trace"
        enter = ("Enter", "compare", "choose") if compare else HINTS[1]
        also = (COMPARE,) if present and not compare else ()
        super().__init__(title, (HINTS[0], enter, *also, *HINTS[2:]))
        self.traces = TraceList(traces=found, without=without)
        self.list = self.traces.list
        self.present, self.compare = present, compare

    def body(self) -> Iterator[Widget]:
        yield self.traces

    def on_mount(self) -> None:
        self.traces.ask(label="compare with:" if self.compare else "open:")

    def on_resize(self) -> None:
        listed = len(self.traces.traces) + len(self.traces.recent) + len(self.traces.samples)
        self.fit(listed + 1)

    def on_trace_list_opened(self, message: TraceList.Opened) -> None:
        if message.path is not None:
            self.dismiss(Chosen(message.path, self.compare))

    def action_complete(self) -> None:
        self.traces.complete()

    def action_choose(self) -> None:
        self.traces.choose()

    def action_beside(self) -> None:
        """Like Enter, but compares."""
        self.compare = bool(self.present)
        self.traces.choose()
