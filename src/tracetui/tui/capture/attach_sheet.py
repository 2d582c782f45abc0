"""The sheet of running jobs: choose one, say what to record, and follow the recording."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

from rich.segment import Segment
from textual.binding import BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracetui.capture.live.model import AttachError, LiveEvent, Recorded, RecordRequest, Rerun
from tracetui.capture.live.processes import Job, jobs, processes, with_gpus
from tracetui.capture.live.record import record
from tracetui.core.cells import cell, clauses
from tracetui.core.copying import replace
from tracetui.core.safe_text import plain
from tracetui.tui.bindings import bind
from tracetui.tui.line_widget import LineWidget
from tracetui.tui.screens.sheet import Sheet
from tracetui.tui.tables.view import TableView
from tracetui.views.jobs import jobs_table

N = TypeVar("N", int, float)

TITLE = "Record a running job"
LOOK_SECONDS = 1.0
FOLDER = Path("traces")
"""Where traces go, the same folder as for a capture."""
LENGTHS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""The durations to choose from, in seconds."""
STEPS = (1, 2, 3, 5, 10, 20)
CHOOSING = (
    ("Esc", "close", "leave"),
    ("Enter", "record", "choose"),
    ("←→", "how long", ""),
    ("n", "steps", "steps"),
    ("k", "stacks", "flag('with_stack')"),
    ("h", "shapes", "flag('record_shapes')"),
    ("m", "memory", "flag('profile_memory')"),
)
RECORDING = (("Esc", "cancel", "leave"),)
FAILED = (("Esc", "close", "leave"), ("Enter", "again", "choose"))


class Line(LineWidget):
    """A line that says what will be recorded, or what happens."""

    DEFAULT_CSS = "Line { height: 1; }"

    text = reactive("")
    role = reactive("text")

    def show(self, text: str, role: str = "text") -> None:
        """`role`: how it looks."""
        self.text, self.role = text, role

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        text = cell(" " + clauses(self.text, width - 2), width)
        return Strip([Segment(text, self.style_of(self.role))], width)


class AttachSheet(Sheet[tuple[Rerun, Recorded]]):
    """The jobs that can be recorded; the result is what was recorded, and how to record it again."""

    SHARE = 0.5
    BINDINGS: ClassVar[list[BindingType]] = bind(
        "escape,q leave  enter choose  left longer(-1)  right longer(1)  n steps"
        "  k flag('with_stack')  h flag('record_shapes')  m flag('profile_memory')"
    )

    class Told(Message):
        """News of the recording, from its thread."""

        def __init__(self, recorder: Recorder, event: LiveEvent | AttachError) -> None:
            super().__init__()
            self.recorder, self.event = recorder, event

    class Looked(Message):
        """The jobs that were found, from the thread that looks for them."""

        def __init__(self, found: list[Job]) -> None:
            super().__init__()
            self.found = found

    def __init__(self, again: Rerun | None = None) -> None:
        """`again`: make this recording at once."""
        super().__init__(TITLE, CHOOSING)
        self.again = again
        self.wanted = RecordRequest()
        self.found: list[Job] = []
        self.table = TableView()
        self.line = Line()
        self.recorder: Recorder | None = None
        self.failed = False
        """Whether Enter repeats what failed, until another job is chosen."""
        self.begun = 0.0

    def body(self) -> Iterator[Widget]:
        yield self.line
        yield self.table

    def on_mount(self) -> None:
        self.table.focus()
        self.fit(4)
        if sys.platform != "linux":
            self.line.show("Linux only: elsewhere, PyTorch cannot be asked for a trace", "bad")
            return
        self._describe()
        self._look()
        self.set_interval(LOOK_SECONDS, self._look)
        if self.again is not None:
            self._start(self.again)

    def on_unmount(self) -> None:
        if self.recorder is not None:
            self.recorder.stop()

    # The list

    def _look(self) -> None:
        if self.recorder is None:
            threading.Thread(target=self._find, daemon=True).start()

    def _find(self) -> None:
        found = jobs(with_gpus(processes()))
        self.post_message(self.Looked(found))

    def on_attach_sheet_looked(self, message: Looked) -> None:
        if self.recorder is not None:
            return
        at = self._chosen
        self.found = message.found
        self.table.set_table(jobs_table(self.found, time.time()))
        same = [row for row, job in enumerate(self.found) if at is not None and job.first.pid == at.first.pid]
        if same:
            self.table.show_row(same[0])
        self.fit(max(4, min(len(self.found), 12) + 2))

    @property
    def _chosen(self) -> Job | None:
        row = self.table.row
        return self.found[row] if row is not None and row < len(self.found) else None

    # What to record

    def _describe(self) -> None:
        wanted = self.wanted
        long = f"{wanted.steps} optimizer steps" if wanted.steps is not None else _time(wanted.duration)
        flags = ("with_stack", "stacks"), ("record_shapes", "shapes"), ("profile_memory", "memory")
        extra = [word for name, word in flags if getattr(wanted, name)]
        text = f"record {long}" + (f", with {', '.join(extra)}" if extra else "")
        self.line.show(f"{text}; the files go to {FOLDER}/")

    def action_longer(self, step: int) -> None:
        if self.recorder is None:
            wanted = self.wanted
            if wanted.steps is not None:
                self.wanted = replace(wanted, steps=_next(STEPS, wanted.steps, step))
            else:
                self.wanted = replace(wanted, duration=_next(LENGTHS, wanted.duration, step))
            self._describe()

    def action_steps(self) -> None:
        """Switch between counting steps and time."""
        if self.recorder is None:
            self.wanted = replace(self.wanted, steps=5 if self.wanted.steps is None else None)
            self._describe()

    def action_flag(self, name: str) -> None:
        if self.recorder is None:
            self.wanted = replace(self.wanted, **{name: not getattr(self.wanted, name)})
            self._describe()

    # The recording

    def on_table_view_chosen(self, message: TableView.Chosen) -> None:
        self.action_choose()

    def action_choose(self) -> None:
        job, wanted = self._chosen, self.wanted
        if self.recorder is not None:
            return
        if self.failed and self.again is not None:
            self._start(self.again)
        elif job is not None:
            self._start(Rerun(plain(job.first.name, 80), lambda: record(job.processes, wanted, FOLDER)))

    def on_table_view_highlighted(self, message: TableView.Highlighted) -> None:
        if self.failed:
            self.failed = False
            self.head.title, self.head.hints = TITLE, CHOOSING
            self._describe()

    def _start(self, again: Rerun) -> None:
        try:
            FOLDER.mkdir(exist_ok=True)
        except OSError as error:
            self.line.show(f"cannot write to {FOLDER}: {error.strerror or error}", "bad")
            return
        self.again, self.begun, self.failed = again, time.monotonic(), False
        self.head.title, self.head.hints = again.label, RECORDING
        self.recorder = Recorder(again, self)

    def on_attach_sheet_told(self, message: Told) -> None:
        event = message.event
        if message.recorder is not self.recorder or self.again is None:
            return
        if isinstance(event, Recorded):
            self.dismiss((self.again, event))
        elif isinstance(event, AttachError):
            self.recorder, self.failed = None, True
            self.line.show(plain(str(event)), "bad")
            self.head.hints = FAILED
        else:
            words = f"{event.stage.value} {event.detail}".rstrip()
            self.line.show(f"{time.monotonic() - self.begun:5.1f} s  {words}", "accent")


class Recorder:
    """Runs a recording in a thread and passes its news on to a sheet."""

    def __init__(self, again: Rerun, sheet: AttachSheet) -> None:
        self._again, self._sheet = again, sheet
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="attach", daemon=True).start()

    def stop(self) -> None:
        """Stop asking processes; returns at once."""
        self._stopped.set()

    def _run(self) -> None:
        try:
            told = 0.0
            with contextlib.closing(self._again.make()) as events:  # type: ignore[type-var]
                for event in events:
                    if self._stopped.is_set():
                        return
                    if isinstance(event, Recorded) or time.monotonic() - told > 0.1:
                        told = time.monotonic()
                        self._tell(event)
        except AttachError as error:
            self._tell(error)
        except Exception as error:  # a bug of ours must not look like a recording that never ends
            self._tell(AttachError(f"internal error: {type(error).__name__}: {error}"))

    def _tell(self, event: LiveEvent | AttachError) -> None:
        if not self._stopped.is_set():
            self._sheet.post_message(AttachSheet.Told(self, event))


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:g} s"


def _next(choices: Sequence[N], now: N, step: int) -> N:
    at = min(range(len(choices)), key=lambda i: abs(choices[i] - now))
    return choices[max(0, min(at + step, len(choices) - 1))]
