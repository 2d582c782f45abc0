"""Captures, and recordings of running processes: from the form or the sheet to the trace that opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracetui.tui.requests import OpenTrace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from textual.app import App

    from tracetui.capture.events import CaptureResult
    from tracetui.capture.live.model import Recorded, Rerun
    from tracetui.capture.options import CaptureOptions
    from tracetui.session.folder import Found
    from tracetui.session.recording import Recording
    from tracetui.tui.screens.trace import TraceScreen


class Recorder:
    """Shows what it takes to record a trace, and asks the app to open it."""

    def __init__(
        self,
        app: App[Any],
        shown: Callable[[], TraceScreen | None],
        choose: Callable[[Sequence[Found]], object],
    ) -> None:
        """`shown`: gives the trace on the screen; `choose`: lets the user choose among several."""
        self._app, self._shown, self._choose = app, shown, choose
        self._options: CaptureOptions | None = None
        """Those of the last capture."""
        self._asked: dict[str, Rerun] = {}
        """How traces of running processes were recorded, by the traces' resolved paths."""

    def remember(self, path: str | Path, again: Rerun | None) -> None:
        """Remember how the trace was recorded, so that `again` on it records the same process."""
        if again is not None:
            from tracetui.session.state import resolved

            self._asked[resolved(str(path))] = again

    def again(self) -> None:
        """Show the capture form, or record again what was recorded for the trace on the screen."""
        from tracetui.capture.catalog import WORKLOADS
        from tracetui.capture.options import CaptureOptions
        from tracetui.session.state import resolved
        from tracetui.tui.capture.form import earlier_options
        from tracetui.views.thread_gaps import wants_stacks

        shown, options, stacks = self._shown(), None, False
        if shown is not None:
            again = self._asked.get(resolved(shown.trace.info.path))
            if again is not None:
                self.attach(again, shown.navigator.recordings[-1])
                return
            stacks = wants_stacks(shown.session.active.whole)
            options = earlier_options(shown.trace.info.path, stacks)
        at = "with_stack" if stacks and options is not None else ""
        self._form(options or self._options or CaptureOptions(next(iter(WORKLOADS))), at)

    def _form(self, options: CaptureOptions, at: str = "") -> None:
        from tracetui.tui.capture.form_screen import FormScreen

        self._app.push_screen(FormScreen(options, at), self.capture)

    def capture(self, options: CaptureOptions | None) -> None:
        """Capture with these options; None: the form was left."""
        from tracetui.tui.capture.capture_screen import CaptureScreen

        if options is not None:
            self._options = options
            self._app.push_screen(CaptureScreen(options), self.captured)

    def captured(self, result: CaptureResult | CaptureOptions | None) -> None:
        """Open what was captured, or go back to the form with the options of what failed."""
        from tracetui.capture.options import CaptureOptions

        if isinstance(result, CaptureOptions):
            self._form(result)
        elif result is not None:
            self._app.post_message(OpenTrace(result.trace, self._before(result)))

    def _before(self, result: CaptureResult) -> Recording | None:
        """The recording to compare a capture with: the one on the screen, if it is of the same program, and
        recorded alike: stacks slow Python down, and a stretch of time has other steps."""
        from tracetui.tui.capture.form import earlier_options

        shown = self._shown()
        if shown is None:
            return None
        before = shown.navigator.recordings[-1]
        earlier, now = earlier_options(before.trace.info.path), earlier_options(str(result.trace))
        if earlier is None or now is None or earlier.target != now.target:
            return None
        alike = earlier.with_stack == now.with_stack and (earlier.duration is None) == (now.duration is None)
        return before if alike else None

    def attach(self, again: Rerun | None = None, beside: Recording | None = None) -> None:
        """Choose a process and record it, or repeat a recording and compare."""
        from tracetui.tui.capture.attach_sheet import AttachSheet

        def done(result: tuple[Rerun, Recorded] | None) -> None:
            if result is None:
                return
            again, recorded = result
            for path in recorded.paths:
                self.remember(path, again)
            for note in recorded.notes:
                self._app.notify(note, markup=False)
            if len(recorded.paths) > 1:
                from tracetui.session.folder import found_at

                self._choose([found_at(path) for path in recorded.paths])
            else:
                self._app.post_message(OpenTrace(recorded.paths[0], beside))

        self._app.push_screen(AttachSheet(again), done)
