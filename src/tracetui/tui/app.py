"""The app: it puts screens together and does what they ask for. No other logic lives here."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import wait
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from textual.actions import ActionParseResult, parse
from textual.dom import DOMNode
from textual.screen import Screen
from textual.theme import Theme
from textual.timer import Timer

from tracetui.core import threads
from tracetui.session.state import served
from tracetui.tui.bindings import NOT_SERVED, bind, rebound
from tracetui.tui.capture.recorder import Recorder
from tracetui.tui.loading import LoadTask
from tracetui.tui.requests import EndComparison, OpenTrace
from tracetui.tui.screens.loading import LoadingScreen
from tracetui.tui.settings import Settings
from tracetui.tui.textual_private import App, filters, fit, forget_places, mode_of
from tracetui.tui.themes import NONE, SIXTEEN, THEMES, default_theme, palette_of
from tracetui.tui.threads import Threads

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tracetui.session.folder import Found
    from tracetui.session.recording import Recording
    from tracetui.timeline.themes import Theme as Palette
    from tracetui.tui.screens.trace import TraceScreen
    from tracetui.tui.timeline.view import TimelineView

SETTLED = 0.05
"""How long the terminal's size must stay the same before a full repaint, in seconds."""

OPENED = 1.0
"""Seconds after which a small trace has drawn its first picture."""

CLOSED = 1.0
"""Seconds after which nothing refers to the screen of a comparison that has ended."""


NEARLY = 0.3
"""Seconds to wait for a trace that is almost read before another screen is shown."""
LARGE = 500_000
"""In a trace of at least this many slices, the analyses wait while the user presses keys."""
AFTER_KEY = 0.2
"""They wait until this many seconds after the last key,"""
LONGEST_WAIT = 1.0
"""but no longer than this in all; then they go on for a moment."""
SWITCHING = 0.0005
"""How long a thread runs Python before another one gets a turn, in seconds. The thread that draws waits this
long several times per frame."""


def collect_garbage() -> None:
    """Turn garbage collection on again. It skips the objects from the start of the program, nearly all of
    which stay."""
    gc.freeze()
    gc.enable()


def let_go_of_closed() -> None:
    """Free what was closed: its objects refer to one another, so `gc.freeze` would keep them."""
    gc.unfreeze()
    gc.collect()
    threads.release_memory(sys.maxsize)


class TracetuiApp(App):
    """tracetui: opens with a trace that is being loaded, or with the start screen."""

    TITLE = "tracetui"
    BINDINGS = bind("ctrl+l redraw", priority=True)
    CSS = "* { scrollbar-size-vertical: 1; }"
    DEFAULT_MODE: ClassVar[str] = "first"
    ALLOW_SELECT: ClassVar[bool] = False
    """A drag selects a stretch of time, never the text of a label."""

    def __init__(
        self,
        task: LoadTask | None = None,
        settings: Settings | None = None,
        found: Sequence[Found] = (),
        others: Sequence[LoadTask] = (),
    ) -> None:
        """`found`: the traces to list first if there is no task; `others`: what to open beside the first."""
        self._themed = False
        super().__init__()
        self.found = found
        self.served = served()
        self._opened = 1
        self.traces: list[TraceScreen] = []
        """The traces opened so far, each in its own mode."""
        self.settings = settings or Settings()
        if self.no_color:
            from tracetui.tui.filters import Colorless

            filters(self)[:] = [Colorless()]
        self._settling: Timer | None = None
        self._pressed, self._thread = 0.0, threading.get_ident()
        """When the last key was pressed, and the thread that must never wait for it."""
        every = rebound(self.settings.keys)
        self.actions = tuple(a for a in every if not (self.served and a.id in NOT_SERVED))
        for theme in THEMES.values():
            self.register_theme(theme)
        self._themed = True
        self.set_reactive(App.theme, self.settings.theme or default_theme())  # watched from the start on
        # Textual does this after the first screen, but that one may need them if a trace has been read by
        # then.
        self.stylesheet.set_variables(self.get_css_variables())
        self.tasks = () if task is None else (task, *others)
        self.add_mode(self.DEFAULT_MODE, self._first_screen)
        self.animation_level = "none"
        self.recorder = Recorder(self, lambda: self._shown, lambda found: self._choose(found=found))

    @property
    def available_themes(self) -> dict[str, Theme]:
        """Only our own themes: Textual's have no colors for the timeline."""
        return dict(THEMES) if self._themed else super().available_themes

    def on_mount(self) -> None:
        if not gc.isenabled():
            self.set_timer(OPENED, collect_garbage)
        sys.setswitchinterval(SWITCHING)
        asyncio.get_running_loop().set_default_executor(Threads(thread_name_prefix="worker"))
        self.set_keymap(self.settings.keys)
        self.app_resume_signal.subscribe(self, lambda _: self.action_redraw())
        if self.settings.ascii:
            from tracetui.tui.filters import AsciiFilter

            filters(self).append(AsciiFilter())

    @property
    def color_count(self) -> int:
        """How many colors this terminal has; 0 with NO_COLOR."""
        systems = {None: 0, "standard": 16, "windows": 16}
        return 0 if self.no_color else systems.get(self.console.color_system, 256)

    @property
    def palette(self) -> Palette:
        """The timeline's colors for this theme and terminal."""
        return palette_of(self.theme, self.color_count, self.settings.ascii)

    def get_css_variables(self) -> dict[str, str]:
        few = SIXTEEN if self.color_count == 16 and not self.is_headless else NONE if self.no_color else {}
        return {**super().get_css_variables(), **few}

    def watch_theme(self) -> None:
        for trace in self.traces:
            trace.timeline.set_theme(self.palette)

    def action_command_palette(self) -> None:
        from tracetui.tui.command_palette import open_palette

        open_palette(self, self.actions)

    def action_open(self) -> None:
        """Choose a trace to open beside those that are open."""
        self._choose()

    async def action_compare_with(self) -> None:
        """Choose another trace to compare this one with; or compare A and B, if they took turns in it."""
        from tracetui.analysis.steps.interleaved import SOURCE
        from tracetui.analysis.steps.scope import step_table_of
        from tracetui.session.recording import Recording

        one = self._shown.session.active if self._shown is not None else None
        if one is None or step_table_of(one.whole).source != SOURCE:
            self._choose(compare=True)
            return
        pairs = (t for t in self.traces if [r.trace for r in t.navigator.recordings] == [one.trace] * 2)
        pair = next(pairs, None)
        if pair is not None:
            await self.switch_mode(mode_of(self, pair))
        else:
            await self._show(self._trace_screen([one, Recording(one.trace)]))

    def _choose(self, compare: bool = False, found: Sequence[Found] = ()) -> None:
        from tracetui.session.folder import traces_beside
        from tracetui.session.recording import trace_name
        from tracetui.session.samples import samples
        from tracetui.tui.screens.open import Chosen, OpenScreen

        if self.served:
            self._say_served()
        if self.served or isinstance(self.screen, OpenScreen):
            return
        shown = self._shown
        present = shown.session.active if shown is not None else None

        def opened(chosen: Chosen | None) -> None:
            if chosen is not None:
                self.post_message(OpenTrace(chosen.path, present if chosen.beside else None))

        name, path = (trace_name(present.trace), present.path) if present is not None else ("", "")
        if path and not found and path not in map(str, samples().values()):  # samples are listed anyway
            found = traces_beside(path)
        self.push_screen(OpenScreen(name, compare, path if compare else "", found), opened)

    @property
    def _shown(self) -> TraceScreen | None:
        """The traces on the screen or right below a sheet."""
        return next((trace for trace in self.traces if trace in self.screen_stack), None)

    def search_themes(self) -> None:
        from tracetui.tui.command_palette import ThemePalette

        self.push_screen(ThemePalette(list(self.available_themes), self.theme))

    def _first_screen(self) -> Screen[Any]:
        if not self.tasks:
            from tracetui.tui.screens.start import StartScreen

            return StartScreen(self.found)
        if all(task.share == 1 for task in self.tasks):  # a kept trace is loaded very soon
            import tracetui.tui.screens.trace  # noqa: F401  (meanwhile)

            for task in self.tasks:
                wait([task.ended], NEARLY)
        if any(task.trace is None for task in self.tasks):
            return LoadingScreen(*self.tasks)
        return self._trace_screen(self._recordings(self.tasks))

    def _recordings(self, tasks: Sequence[LoadTask], beside: Recording | None = None) -> list[Recording]:
        from tracetui.session.recording import Recording

        found = [] if beside is None else [beside]
        return found + [Recording(task.trace) for task in tasks if task.trace is not None]

    def _trace_screen(self, recordings: Sequence[Recording]) -> TraceScreen:
        from tracetui.tui.screens.trace import TraceScreen

        if any(len(recording.trace) > LARGE for recording in recordings):
            threads.yield_to_ui = self._wait_for_keys
        if self.served:
            threads.limit_memory(sum(len(recording.trace) for recording in recordings))
        self.traces.append(TraceScreen(recordings, self._first_pane, self.palette))
        self.traces[-1].verdict_line.covered = self.settings.quiz
        self.traces[-1].session.gaps.minimum = self.settings.minimum_gap
        self._set_pace(self.traces[-1].timeline)
        return self.traces[-1]

    @property
    def _first_pane(self) -> str | None:
        """The pane that is open at the start."""
        return None if self.settings.pane == "none" else self.settings.pane

    def _set_pace(self, timeline: TimelineView) -> None:
        from tracetui.tui.timeline.pace import Pace, frame_limit

        timeline.pace = Pace(frame_limit(self.settings.frames_per_second))

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        if self.served and (parse(action) if isinstance(action, str) else action)[1] in NOT_SERVED:
            self._say_served()
            return True
        return await super().run_action(action, default_namespace, namespaces)

    def _say_served(self) -> None:
        for trace in self.traces:
            if trace is self.screen:
                trace.host.say("capturing, and other traces, are off in a browser")

    def _wait_for_keys(self) -> None:
        """Called by the threads that compute."""
        begun = time.monotonic()
        while (left := min(self._pressed + AFTER_KEY, begun + LONGEST_WAIT) - time.monotonic()) > 0:
            if threading.get_ident() == self._thread:
                return
            time.sleep(left)

    def on_unmount(self) -> None:
        threads.yield_to_ui = threads.no_op

    def take_key(self, key: str) -> bool:
        self._pressed = time.monotonic()
        take = getattr(self.screen, "take_early", None)
        return take is not None and take(key)

    # Repaints

    def on_resize(self) -> None:
        self.sent.forget()  # the terminal may have moved its lines
        forget_places()
        if self._settling is not None:
            self._settling.stop()
        if self.sent.width:
            # Lines of the old layout are sent until the new one is ready. Also, if the terminal changes its
            # size and changes it back within a frame, it matches the layout in size but has lost lines.
            self._settling = self.set_timer(SETTLED, self.action_redraw)

    def action_help_quit(self) -> None:
        """Ctrl+C quits, whatever has the focus."""
        self.exit()

    def action_redraw(self) -> None:
        """Send every line: another program wrote to the terminal, or we were suspended."""
        self.sent.forget()
        if self.screen_stack:  # empty while the app closes
            for screen in self.screen_stack:
                fit(screen)
            self.screen.refresh(layout=True)

    # Traces

    async def on_open_trace(self, message: OpenTrace) -> None:
        if self.served:
            return
        there = self._open_already(message.path)
        if there is not None:
            wanted = [there] if message.beside is None else [message.beside, there]
            shown = next((trace for trace in self.traces if trace.navigator.recordings == wanted), None)
            if shown is None:
                await self._show(self._trace_screen(wanted))
            else:
                await self.switch_mode(mode_of(self, shown))
                shown.tell_place(self.traces.index(shown) + 1, len(self.traces))
            return
        task = LoadTask(message.path, draws=message.beside is None).start()
        await self.push_screen(LoadingScreen(task, beside=message.beside))

    def _open_already(self, path: str | Path) -> Recording | None:
        """The recording of a file that is open and has not changed since."""
        from tracetui.session.state import resolved

        every = (recording for trace in self.traces for recording in trace.navigator.recordings)
        return next((one for one in every if one.path == resolved(str(path)) and one.is_current()), None)

    async def on_loading_screen_begun(self, message: LoadingScreen.Begun) -> None:
        """Draw the beginning of a large file while the rest is read."""
        screen, task = message.loading, message.loading.tasks[0]
        drawn = task.part  # None once all is read
        waits = self.screen_stack[-1:] == [screen] and not (screen.finished or task.cancelled)
        if waits and drawn is not None:
            from tracetui.tui.screens.part import PartScreen

            part = PartScreen(task, drawn, self.palette, self.actions, self._first_pane)
            self._set_pace(part.timeline)
            await self.push_screen(part)
            # Keys work from now on; meanwhile, import what shows the whole trace.
            threading.Thread(target=import_module, args=("tracetui.tui.screens.trace",)).start()

    async def on_loading_screen_ended(self, message: LoadingScreen.Ended) -> None:
        screen = message.loading
        if self.screen_stack[-1:] != [screen] or not screen.finished:
            return  # it posts this again once it is back on top
        from tracetui.tui.screens.part import PartScreen

        if any(task.trace is None for task in screen.tasks):
            if isinstance(screen, PartScreen):
                await self.pop_screen()  # the screen below says why
            else:
                screen.failed()
            return
        shown = self._trace_screen(self._recordings(screen.tasks, screen.beside))
        shown.before = screen.session if isinstance(screen, PartScreen) else None
        with self.batch_update():  # do not draw what is below
            if shown.before is not None:
                await self.pop_screen()
            if len(self.screen_stack) > 1:
                await self.pop_screen()
            await self._show(shown)

    async def _show(self, shown: TraceScreen) -> None:
        """Show a trace in a mode of its own."""
        self._opened += 1
        mode = f"trace {self._opened}"
        self.add_mode(mode, lambda: shown)
        await self.switch_mode(mode)

    async def on_end_comparison(self, message: EndComparison) -> None:
        """Go on with one of several recordings, on its own screen if it already has one."""
        closed = next((trace for trace in self.traces if trace is message.screen), None)
        if closed is None:
            return  # the key was pressed twice
        alone = next((t for t in self.traces if t.navigator.recordings == [message.recording]), None)
        if alone is None:
            await self._show(self._trace_screen([message.recording]))
        else:
            await self.switch_mode(mode_of(self, alone))
        await self._close(closed)

    async def _close(self, hidden: TraceScreen) -> None:
        self.traces.remove(hidden)
        await self.remove_mode(mode_of(self, hidden))
        self.set_timer(CLOSED, let_go_of_closed)

    async def action_next_trace(self) -> None:
        """Show the next trace of this session, in turn."""
        at = next((i for i, s in enumerate(self.traces) if s in self.screen_stack), -1)
        shown = self.traces[(at + 1) % len(self.traces)]
        await self.switch_mode(mode_of(self, shown))
        shown.tell_place(self.traces.index(shown) + 1, len(self.traces))

    async def action_close_trace(self) -> None:
        """Close the trace, or the comparison, and show the next one."""
        closed = next((trace for trace in self.traces if trace is self.screen), None)
        if closed is not None and len(self.traces) > 1:
            await self.action_next_trace()
            await self._close(closed)
        elif closed is not None:
            closed.host.say("this is the only open trace: q quits")

    # Captures

    def action_capture(self) -> None:
        """Show the capture form, or record again what was recorded for this trace."""
        if not self.served:
            self.recorder.again()

    def action_attach(self) -> None:
        """Record a running process."""
        if not self.served:
            self.recorder.attach()
