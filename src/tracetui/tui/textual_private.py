"""Everything that uses Textual's private parts. No other module does.

Tested with Textual 8.2.0 and 8.2.8. `tests/tui/test_textual_private.py` checks that each name used here
exists and does what we rely on: run it first when a new version of Textual breaks something.

- `App`: sends through `SentLines`, offers each key to `take_key` before any binding, ignores bytes typed that
  are no UTF-8, and leaves the terminal as it was when a signal ends it, or an error after which Textual waits
  for ever.
- `filters`, `mode_of`, `lines_of`, `lines_between`, `behind`: state of the app that has no public name.
- `after_next_paint`: what does not begin before the first picture is there.
- `LazyStrip`, `draw_less`: strips and screens that do less for a key.
- `_LazyStylesheet`: the parts of a widget (`COMPONENT_CLASSES`) get their styles when they are first drawn,
  and CSS is parsed once.
- `fit`: lays out a screen that has missed a change of the terminal's size.
- `forget_drawn`, `forget_places`: clear caches that keep closed widgets alive.

Two parts of the program keep track of what the terminal shows. `SentLines` keeps whole lines of the screen
as the text that was sent, and sends the cells that differ (ansi_lines.py): it saves repaints. A `Board`
(timeline/delta_strips.py) keeps the cells of one widget, so that only those that differ are sent. They meet
where a line is drawn.
`SentLines` renders the strips of a whole line, and so updates their boards, whether or not it then sends the
line: the terminal shows it either way. `SentLines` cannot read an update of part of a line, such as a board's
patch: it forgets that line, and the next repaint sends it whole.
"""

from __future__ import annotations

import asyncio
import codecs
import functools
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

import textual.app
from rich.console import Console
from rich.segment import Segment
from textual._compositor import ChopsUpdate, Compositor, CompositorUpdate, LayoutUpdate
from textual._parser import Parser
from textual._styles_cache import StylesCache
from textual._xterm_parser import XTermParser
from textual.css.scalar import Scalar
from textual.css.styles import RenderStyles
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.driver import Driver
from textual.events import Resize
from textual.filter import LineFilter
from textual.geometry import Region
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from tracetui.core.cells import TALLEST, WIDEST
from tracetui.core.safe_text import plain
from tracetui.tui.ansi_lines import change

Line = tuple[int, Sequence[Strip | None]]
"""Where a line is, and the strips that it is made of; None where no widget drew anything."""


class SentLines:
    """The lines of the screen as they were last sent; a line that is not known is always sent."""

    def __init__(self) -> None:
        self.width = 0
        self.lines: dict[int, str] = {}

    def forget(self) -> None:
        """Forget all lines, as the terminal may show something else: the next repaint sends every line."""
        self.lines.clear()

    def only_new(self, update: Any, width: int) -> Any:
        """The update of a screen of `width` cells, without the lines that the terminal already shows."""
        if width != self.width:
            self.width = width
            self.forget()
        if isinstance(update, LayoutUpdate) and update.region.x == 0:
            lines = [(y, list(strips)) for y, strips in enumerate(update.strips, update.region.y)]
            return _Changed(self, lines, None)
        if not isinstance(update, ChopsUpdate):
            return update
        whole: list[Line] = []
        parts: list[tuple[int, int, int]] = []
        for y, left, right in update.spans:
            strips = [strip for strip in update.chops[y].values() if strip is not None]
            if left <= 0 and right >= width and len(strips) == len(update.chops[y]):
                whole.append((y, strips))
            else:
                parts.append((y, left, right))
                self.lines.pop(y, None)
        rest = ChopsUpdate(update.chops, parts, update.chop_ends) if parts else None
        return _Changed(self, whole, rest)


class _Changed(CompositorUpdate):
    """The cells of whole lines that differ from what was sent before, and parts of other lines."""

    def __init__(self, sent: SentLines, lines: Sequence[Line], rest: ChopsUpdate | None) -> None:
        self.sent, self.lines, self.rest = sent, lines, rest

    def render_segments(self, console: Console) -> str:
        shown = self.sent.lines
        parts: list[str] = []
        for y, strips in self.lines:
            pieces = [strip.render(console) for strip in strips if strip is not None]
            text = "".join(pieces)
            if len(pieces) < len(strips):  # a widget drew less than its width: Textual would fail here
                shown.pop(y, None)
                parts.append(change(y, None, text))
            elif shown.get(y) != text:
                parts.append(change(y, shown.get(y), text))
                shown[y] = text
        if self.rest is not None:
            parts.append(self.rest.render_segments(console))
        return "".join(parts)


class LazyStrip(Strip):
    """A strip whose segments are made only when somebody asks for them; sending a patch does not."""

    __slots__ = ["_made", "_make"]

    def __init__(self, make: Callable[[], list[Segment]], cell_length: int) -> None:
        self._make = make
        self._made: list[Segment] | None = None
        super().__init__((), cell_length)

    @property
    def _segments(self) -> list[Segment]:
        if self._made is None:
            self._made = self._make()
        return self._made

    @_segments.setter
    def _segments(self, none: list[Segment]) -> None:
        """Textual's constructor sets them; ours are made later."""


class _Tight(Compositor):
    """A compositor that draws only the widgets that overlap what is sent. Textual's own draws every widget
    whose clip overlaps it, and so most of the screen for one line."""

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip)
            if seen and (crop is None or crop.overlaps(seen)):
                yield region, clip, widget.render_lines(seen.translate(-region.offset))


def draw_less(screen: Screen[Any]) -> None:
    """Make a screen that is not mounted yet draw only the widgets that are sent."""
    screen._compositor = _Tight()


class _Components(dict[str, RenderStyles]):
    """The styles of a widget's parts, each worked out when it is first asked for. Textual works out all of
    them at every change of focus, though most parts are not on the screen."""

    def __init__(self, stylesheet: Stylesheet, node: DOMNode, names: frozenset[str]) -> None:
        super().__init__()
        self._stylesheet, self._node, self._names = stylesheet, node, names

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __missing__(self, name: str) -> RenderStyles:
        part = DOMNode(classes=name)
        part._attach(self._node)
        self._stylesheet.apply(part, animate=False)
        self[name] = part.styles
        return part.styles


class _LazyStylesheet(Stylesheet):
    """A stylesheet whose parsed rules stay valid until a variable changes. Textual would read all of the CSS
    three times before the first screen of a mode."""

    def set_variables(self, variables: dict[str, str]) -> None:
        if variables != self._variables:
            super().set_variables(variables)

    def reparse(self) -> None:
        self.parse()

    def _process_component_classes(self, node: DOMNode) -> None:
        names = node._get_component_classes()
        if names:
            before = node._component_styles
            now = node._component_styles = _Components(self, node, names)
            if any(now[name] != styles for name, styles in before.items()):
                node.refresh()


PATIENCE = 3.0
"""Seconds from a signal or an error until the program is ended, whatever it is doing."""


class App(textual.app.App[None]):
    """Textual's app, but it sends only changed lines, and offers keys to `take_key` first."""

    def __init__(self) -> None:
        super().__init__()
        self.stylesheet = _LazyStylesheet(variables=self.stylesheet._variables)
        self.sent = SentLines()
        self.put_off: list[Callable[[], object]] = []
        """To be called when the next picture is sent."""
        _ignore_invalid_input()

    def _build_driver(self, headless: bool, *args: Any, **kwargs: Any) -> Driver:
        if not headless:  # the next thing Textual does is change the terminal
            self._catch_signals()
        return super()._build_driver(headless, *args, **kwargs)

    def get_driver_class(self) -> type[Driver]:
        found = super().get_driver_class()
        return _terminal_driver() if found.__name__ == "LinuxDriver" else found

    def _catch_signals(self) -> None:
        """Let SIGTERM, SIGHUP and SIGQUIT end the app like `q`, with exit code 128 + n."""
        loop = asyncio.get_running_loop()

        def stop(number: int, frame: FrameType | None) -> None:
            signal.signal(number, signal.SIG_DFL)
            with suppress(RuntimeError):  # the loop has already ended
                # Wait until everything is mounted: an app that is ending does not wait for that.
                leave = functools.partial(self.exit, return_code=128 + number)
                loop.call_soon_threadsafe(self.call_later, leave)
            last = threading.Timer(PATIENCE, self._end, (128 + number,))
            last.daemon = True
            last.start()

        for name in ("SIGTERM", "SIGHUP", "SIGQUIT"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), stop)

    def _end(self, code: int, said: str = "") -> None:
        leaving = threading.Thread(target=self._leave, args=(said,), daemon=True)
        leaving.start()
        leaving.join(PATIENCE / 3)  # it lasts where the terminal takes nothing
        os._exit(code)

    def _leave(self, said: str) -> None:
        with suppress(Exception):
            if self._driver is not None:
                # In a thread, Textual fails to switch off the mouse reports.
                self._driver.write("\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l")
                self._driver.stop_application_mode()
                self._driver.close()  # its thread writes what is left
            if said and sys.__stderr__ is not None:
                print(said, file=sys.__stderr__, flush=True)

    def _handle_exception(self, error: Exception) -> None:
        """End the program even if it waits for something that will never come, such as the mounting of a
        widget with wrong styles."""
        super()._handle_exception(error)
        if not self.is_headless:
            last = threading.Timer(PATIENCE, self._end_stuck, (error,))
            last.daemon = True
            last.start()

    def _end_stuck(self, error: Exception) -> None:
        if self._running:
            said = next(iter(str(error).splitlines()), "")
            self._end(1, f"tracetui: ended by an error: {type(error).__name__}: {plain(said)}")

    def take_key(self, key: str) -> bool:
        """Whether to handle this key here instead of in the widgets' bindings. (Priority bindings come before
        this.)"""
        return False

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        super()._display(screen, self.sent.only_new(renderable, screen.size.width))
        if renderable is not None and not self._batch_count:
            now, self.put_off = self.put_off, []
            for go_on in now:
                go_on()

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        if self._exit:  # keys typed after `q` while the screens close: nothing can be mounted any more
            return True
        if not priority and self.take_key(key):
            return True
        return await super()._check_bindings(key, priority)


def _terminal_driver() -> type[Driver]:
    """Textual's driver for a terminal, but for sizes beyond all screens, and it goes on after any SIGCONT."""
    from textual.drivers.linux_driver import LinuxDriver

    class TerminalDriver(LinuxDriver):
        def __init__(self, app: textual.app.App[Any], **options: Any) -> None:
            super().__init__(app, **options)
            self._size = self._size or self._get_terminal_size()

        def _get_terminal_size(self) -> tuple[int, int]:
            width, height = super()._get_terminal_size()
            return min(width, WIDEST), min(height, TALLEST)

        def process_message(self, message: Message) -> None:
            if isinstance(message, Resize):  # the terminal says its size itself
                width, height = message.size
                size = max(1, min(width, WIDEST)), max(1, min(height, TALLEST))
                message = Resize.from_dimensions(size, message.pixel_size)
            super().process_message(message)

        def stop_application_mode(self) -> None:
            if self._mouse_pixels:
                self.write("\x1b[?1016l")
            super().stop_application_mode()

        def _sigcont_application(self, *given: Any) -> None:
            if self._auto_restart and self._key_thread is not None and self._key_thread.is_alive():
                self.suspend_application_mode()  # after SIGSTOP, of which nobody was told
                self._must_signal_resume = True
            super()._sigcont_application(*given)

    return TerminalDriver


def _ignore_invalid_input() -> None:
    """Ignore bytes that are not UTF-8 (from a mouse report of an old terminal, or a paste), and sequences
    that Textual cannot read (such as kitty's reports of keys that are let go): they would end the thread that
    reads the keys, and with it the app. At the end of its input that thread would loop forever: the terminal
    is gone, and not every process learns that from a signal."""
    if sys.platform == "win32":
        return
    from textual.drivers import linux_driver

    class Lenient(XTermParser):
        def feed(self, data: str) -> Iterable[Message]:
            for character in data:  # nothing may come from a browser: Textual would take it for the end
                yield from self._tried(super().feed(character))

        def tick(self) -> Iterable[Message]:
            return self._tried(super().tick())

        def _tried(self, read: Iterable[Message]) -> Iterable[Message]:
            try:
                yield from read
            except (ArithmeticError, LookupError, TypeError, ValueError):
                Parser.__init__(self)  # begin anew after this sequence

    class Decoder(codecs.getincrementaldecoder("utf-8")):  # type: ignore[misc]
        def decode(self, data: bytes, final: bool = False) -> str:
            if not data and not final:
                os.kill(os.getpid(), signal.SIGHUP)
                time.sleep(0.1)
            return str(super().decode(data, final))

    def decoder(encoding: str) -> functools.partial[Any]:
        return functools.partial(Decoder, errors="ignore")

    linux_driver.getincrementaldecoder = decoder  # type: ignore[attr-defined]
    for driver in (linux_driver, sys.modules.get("textual.drivers.web_driver")):
        if driver is not None:
            driver.XTermParser = Lenient  # type: ignore[attr-defined]


def filters(app: textual.app.App[Any]) -> list[LineFilter]:
    """The filters that every drawn line goes through: change the list in place."""
    return app._filters


def after_next_paint(node: Widget, callback: Callable[[], object]) -> None:
    """Call back once the next picture is sent. While the app starts, and while it changes screens, Textual
    draws without sending anything, and calls `call_after_refresh` callbacks after that. A headless app sends
    nothing."""
    app = node.app
    if isinstance(app, App) and app._batch_count and not app.is_headless:
        app.put_off.append(functools.partial(node.call_later, callback))
    else:
        node.call_after_refresh(callback)


def mode_of(app: textual.app.App[Any], screen: Screen[Any]) -> str:
    """The mode of a screen; the current mode if it has none."""
    modes = (mode for mode, stack in app._screen_stacks.items() if screen in stack)
    return next(modes, app.current_mode)


def fit(screen: Screen[Any]) -> None:
    """Lay a screen out for the size of the terminal, if it was laid out for another one: a screen
    that is opened while the terminal changes its size may miss that."""
    if screen._compositor.size != screen.app.size:
        screen._screen_resized(screen.app.size)


def lines_of(screen: Screen[Any]) -> list[Strip]:
    """The screen's lines as they are drawn."""
    return screen._compositor.render_strips()


def lines_between(screen: Screen[Any], first: int, last: int) -> list[Strip]:
    """The lines `first` to `last` - 1 of a screen as they are drawn. A line that a single widget draws is
    that widget's own strip, so that its `Board` learns that the line was sent."""
    lines = screen._compositor._render_chops(
        Region(0, first, screen.size.width, last - first), lambda y: first <= y < last
    )
    found = []
    for line in lines[first:last]:
        strips = [strip for strip in line.values() if strip is not None]
        found.append(strips[0] if len(strips) == 1 else Strip.join(strips))
    return found


def behind(app: textual.app.App[Any]) -> bool:
    """Whether output is still waiting to be written (a slow link); never in a headless app."""
    thread = getattr(app._driver, "_writer_thread", None)
    queue = getattr(thread, "_queue", None)
    if queue is None:
        return False
    if queue.qsize():
        return True
    stream = sys.__stderr__  # Textual writes here
    if stream is None:
        return False
    try:
        return not select.select([], [stream.fileno()], [], 0)[1]
    except (OSError, ValueError):
        return False


def forget_drawn() -> None:
    """Free the drawn lines of closed widgets; called when a screen or a prompt closes.

    Textual caches the inner and outer styles of 1,024 widgets, keyed by their caches of drawn lines. That
    keeps the lines of the last thousand widgets alive: whole screens that were closed long ago. Open widgets
    compute their styles again when they are next drawn.
    """
    _clear(StylesCache.get_inner_outer)


def forget_places() -> None:
    """Free what Textual caches about some 20,000 regions, which are useless once the terminal has another
    size."""
    for function in (*vars(Region).values(), Scalar.resolve):
        _clear(function)


def _clear(function: object) -> None:
    clear = getattr(function, "cache_clear", None)
    if clear is not None:
        clear()
