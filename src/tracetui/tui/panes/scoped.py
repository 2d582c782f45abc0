"""Panes that can cover a part of the trace: a range, what is in view, a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from textual.worker import Worker, WorkerState, get_current_worker

from tracetui.analysis.part import Part, Scope
from tracetui.analysis.steps.scope import window_of
from tracetui.core.units import exact, share_of
from tracetui.session.session import Session
from tracetui.tui.panes.base import Pane
from tracetui.tui.textual_private import after_next_paint

LOADING = "loading"
"""The group of the workers that make the panes' tables."""

OVER = (WorkerState.SUCCESS, WorkerState.ERROR, WorkerState.CANCELLED)


def scope_name(scope: Scope) -> str:
    """A scope in a word or two: `range`, `view`, `step 3`."""
    if scope.kind == "step":
        return scope.label
    return "view" if scope.kind == "viewport" else scope.kind


def scope_texts(part: Part) -> tuple[str, str]:
    """The scope, and how busy its devices were: `range of 1.200 ms`, `GPU busy 76.10%`."""
    if part.is_whole:
        return "", ""
    from tracetui.analysis.idle.gap_list import gaps_of

    start, end = window_of(part)
    devices = gaps_of(part).devices
    busy, time = sum(device.busy for device in devices), (end - start) * len(devices)
    busy_text = f"GPU busy {share_of(busy, time)}" if time else ""
    joined = ", " if part.scope.kind == "step" else " of "  # "step 3 of 14" would mean something else
    return f"{scope_name(part.scope)}{joined}{exact(end - start)}", busy_text


class ScopedPane(Pane):
    """A table for a scope. It is made in a thread, one at a time, and only while the pane is visible."""

    def __init__(self, session: Session, key: str) -> None:
        super().__init__(session, key)
        self.scope = session.scopes.scope
        self.earlier = False
        """Whether the table covers an earlier view than the one on the screen."""
        self._working = False
        self._outdated = False

    def compute(self) -> Iterator[Callable[[], None]]:
        """Called in a thread: makes the table, and yields functions that show it, to be called on the UI
        thread."""
        raise NotImplementedError

    def on_mount(self) -> None:
        after_next_paint(self, self.load)  # the first picture does not wait for what this imports

    def set_scope(self, scope: Scope | None) -> None:
        self.scope = scope
        self.load()

    def set_earlier(self, earlier: bool) -> None:
        self.earlier = earlier
        self._update_note()

    def place(self) -> str:
        where = super().place()
        return where.replace("view", "earlier view") if self.earlier else where

    def load(self) -> None:
        """Make the table again: now, after the current work, or when the pane is next shown."""
        self._outdated = True
        self.catch_up()

    def catch_up(self) -> None:
        if self._outdated and self.is_attached and self.display and not self._working:
            self._outdated, self._working = False, True
            self.run_worker(self._load, thread=True, exit_on_error=False, group=LOADING)

    def _load(self) -> None:
        worker = get_current_worker()
        for show in self.compute():
            if worker.is_cancelled:
                return
            self.app.call_from_thread(show)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.worker.group == LOADING and event.state in OVER:
            self._working = False
            self.catch_up()
