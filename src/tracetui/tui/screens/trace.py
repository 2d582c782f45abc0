"""The main screen: the timeline, the line about the selected event, and the panes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.worker import Worker, WorkerState

from tracetui.session.layout import Layout
from tracetui.session.navigator import Navigator
from tracetui.session.recent import remember
from tracetui.session.recording import Recording, trace_name
from tracetui.session.session import Session
from tracetui.timeline.themes import DARK, Theme
from tracetui.trace.model import Trace
from tracetui.tui.bindings import ACTIONS, TABLE_HINTS
from tracetui.tui.controllers.export import ExportKeys
from tracetui.tui.controllers.lanes import LaneKeys
from tracetui.tui.controllers.marks import MarkKeys
from tracetui.tui.controllers.moves import Moves
from tracetui.tui.controllers.navigation import Navigation
from tracetui.tui.controllers.panes import PaneKeys
from tracetui.tui.controllers.prompts import Prompts
from tracetui.tui.controllers.scopes import ScopeKeys
from tracetui.tui.controllers.screen_context import Escape, ScreenContext
from tracetui.tui.controllers.search import SearchKeys
from tracetui.tui.controllers.verdict import VerdictKeys
from tracetui.tui.footer import Footer
from tracetui.tui.hint import Hint, remember_seen, wanted
from tracetui.tui.layouts import LAYOUTS
from tracetui.tui.panes.area import PaneArea, PaneTabs
from tracetui.tui.panes.base import Follow, failure
from tracetui.tui.prompt import Prompt
from tracetui.tui.screens.sheet import TimelineScreen
from tracetui.tui.textual_private import after_next_paint, draw_less
from tracetui.tui.timeline.bar import SelectionBar
from tracetui.tui.timeline.messages import GapClicked, RangeChanged, SelectionChanged, ViewportChanged
from tracetui.tui.timeline.view import TimelineView
from tracetui.tui.verdict_line import VerdictLine


class TraceScreen(TimelineScreen):
    """A session on the screen. This class has the widgets; the controllers have the keys: their `action_`
    methods become the screen's own."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(a.keys), a.action, a.text, id=a.id, show=False) for a in ACTIONS
    ]
    DEFAULT_CSS = """
    TraceScreen { layout: vertical; }
    TraceScreen #body { layout: vertical; height: 1fr; width: 1fr; }
    TraceScreen #body.side { layout: horizontal; }
    TraceScreen #picture { height: 1fr; width: 1fr; }
    TraceScreen #body.side PaneArea { width: 42%; height: 100%; max-height: 100%; }
    TraceScreen #body.side PaneArea.maximized { width: 100%; }
    TraceScreen #body.side PaneArea.closed { width: 14; }
    """

    def __init__(
        self,
        recordings: Sequence[Recording],
        pane: str | None = "overview",
        palette: Theme = DARK,
        layout: Layout | None = None,
    ) -> None:
        """`pane`: the one that is open, unless the layout has its own; `layout`: as in `Session`."""
        super().__init__()
        draw_less(self)
        self.session = Session(recordings, palette, layout)
        self.look = look = LAYOUTS[self.session.layout.name]
        self.timeline = TimelineView(self.session)
        self.timeline.nothing = look.nothing
        self.bar = self.timeline.bar = SelectionBar()
        pane = pane and next((spec.key for spec in look.panes), pane)
        self.area, self.footer = PaneArea(self.session, pane, look.panes), Footer(look.hints)
        self.before: Session | None = None
        """The session with the beginning of the file that was shown while the rest was read."""
        self._resumed = False
        self.host = host = ScreenContext(
            self, self.session, self.timeline, self.area, self.footer, look.absent
        )
        # The order of the controllers is that of Esc's stack: Esc undoes the last one first.
        self.prompts = Prompts(host)
        self.lanes, self.marks = LaneKeys(host), MarkKeys(host, self.prompts)
        moves, self.navigation = Moves(host), Navigation(host)
        self.scopes, search = ScopeKeys(host), SearchKeys(host, self.prompts)
        host.escapes += [
            Escape(lambda: self.focused is not self.timeline, self.timeline.focus),
            Escape(lambda: self.query(Hint), self._drop_hint),
        ]
        self.panes = PaneKeys(host, self.navigation)
        exports = ExportKeys(host, self.prompts)
        self.top, self.verdict_line = look.top(self.navigator.scene), VerdictLine()
        self.verdict = VerdictKeys(host, self.verdict_line, self.top, self.panes)
        self.keys = look.keys(host, self.panes, self.verdict)
        host.on_recording += [
            self.scopes.recording_changed,
            self.navigation.count_gaps,
            self.area.follow_recording,
        ]
        host.give_keys(self.prompts, self.lanes, self.marks, moves, self.navigation, self.scopes, search)
        host.give_keys(self.panes, exports, self.verdict, self.keys)
        for name in look.lacks(self):
            setattr(self, name, lambda *_: host.say(look.absent))

    @property
    def navigator(self) -> Navigator:
        """The user's place in the session."""
        return self.session.navigator

    @property
    def trace(self) -> Trace:
        """The trace of the active recording."""
        return self.navigator.trace

    def compose(self) -> ComposeResult:
        yield self.top
        yield self.verdict_line
        with Container(id="body"):
            with Vertical(id="picture"):
                yield self.timeline
                yield self.bar
            yield self.area
        if wanted():
            yield Hint()
        yield self.footer

    def on_mount(self) -> None:
        self.timeline.focus()
        self.lanes.restore()
        self.marks.restore()
        if self.before is not None:
            self.session.go_on_from(self.before)
            self.before.let_go()
            self.before = None
        # Start with the timeline; what takes longer comes after it.
        after_next_paint(self, self.navigation.find_gaps)
        after_next_paint(self, self.keys.begin)
        for recording in self.navigator.recordings:
            self.run_worker(
                partial(remember, recording.trace.info.path),
                thread=True,
                exit_on_error=False,
                group="remember",
            )

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Textual has just applied the styles: the first time, do not do it again before the first
        picture."""
        event.refresh_styles, self._resumed = event.refresh_styles and self._resumed, True

    def on_unmount(self) -> None:
        self.lanes.save()  # the timer of the last change may still be running

    # Events and messages

    def on_key(self) -> None:
        """Remove the message about the previous key, in the same frame as the changes that this key makes.

        The key's action runs in the app once the key has bubbled up there; with two `call_later`, the removal
        comes after that.
        """
        if self.footer.grow_old():
            self.call_later(self.app.call_later, self.footer.drop_old)

    def on_mouse_down(self) -> None:
        self.on_key()

    def key_enter(self) -> None:
        """Enter is for tables: in the timeline it only says so."""
        if self.focused is self.timeline:
            self.host.say("Enter is for tables (Tab goes there); f centers the selection, e explains it")

    def take_early(self, key: str) -> bool:
        """Whether the prompt takes a key that was typed for it before it had the focus."""
        prompt = self.prompts.prompt
        return prompt is not None and prompt.take_early(key)

    def on_resize(self) -> None:
        self.panes.resized()

    def on_selection_changed(self, message: SelectionChanged) -> None:
        self.host.follow_recording()
        self.panes.selection_changed()

    def on_range_changed(self, message: RangeChanged) -> None:
        self.scopes.range_changed()

    def on_viewport_changed(self, message: ViewportChanged) -> None:
        self.scopes.view_changed()

    def on_gap_clicked(self, message: GapClicked) -> None:
        self.navigation.gap_clicked(message)

    def on_pane_area_has_keys(self, message: PaneArea.HasKeys) -> None:
        self.footer.hints = TABLE_HINTS if message.has else self.look.hints

    def on_follow(self, message: Follow) -> None:
        self.panes.follow(message.target)

    def on_verdict_line_picked(self, message: VerdictLine.Picked) -> None:
        self.verdict.pick(message.part)

    def on_pane_tabs_picked(self, message: PaneTabs.Picked) -> None:
        self.panes.action_pane(message.pane)

    def on_prompt_typed(self, message: Prompt.Typed) -> None:
        self.prompts.typed(message.value)

    def on_prompt_entered(self, message: Prompt.Entered) -> None:
        self.prompts.entered(message.value)

    def on_prompt_left(self, message: Prompt.Left) -> None:
        self.prompts.left()

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR:
            self.host.say(failure(event.worker.error))

    # The screen itself

    def action_clear(self) -> None:
        if not self.host.escape():
            self.host.say("nothing to clear")

    def _drop_hint(self) -> None:
        self.query(Hint).remove()
        remember_seen()

    def action_help(self) -> None:
        from tracetui.tui.screens.help import HelpScreen

        in_table = self.focused is not self.timeline
        self.app.push_screen(HelpScreen(getattr(self.app, "actions", ACTIONS), in_table, every=False))

    def tell_place(self, place: int, count: int) -> None:
        """Show which of the open traces this is."""
        name = " and ".join(trace_name(recording.trace) for recording in self.navigator.recordings)
        if count > 1:
            self.host.say(f"trace {place} of {count}: {name}")
        else:
            self.host.say(self.look.only)
