"""Textual's Pilot, but that it never sleeps: it waits until the app has nothing left to do.

Textual's own sleeps after every key until the process seems idle: 60 ms for 4 ms of work, and on a busy
machine not always long enough. A key only changes what there is to draw: it is painted where a test looks, at
`pause`, and when it leaves the app.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable
from functools import cache
from types import FunctionType
from typing import Any
from weakref import WeakSet

import pytest
from textual import _callback, app, pilot
from textual._context import active_app
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.message import Message
from textual.message_pump import MessagePump
from textual.pilot import Pilot
from textual.screen import Screen

LONGEST = 30.0
"""Seconds for which an app may keep itself busy."""


async def settle(app: App[Any], paint: bool = True) -> None:
    """Wait until every message and callback that is due has been dealt with, and what changed is drawn.

    Without `paint` what has changed nothing but its looks is left for later, as when keys come quickly.
    Timers, threads and other processes are not waited for: see `until`. Raises TimeoutError where the app
    never comes to rest.
    """
    due = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]
    end = time.monotonic() + LONGEST
    for turn in itertools.count():
        await asyncio.sleep(0 if turn < 20 else 0.001)  # a thread may have to do something first
        while due:
            if time.monotonic() > end:
                raise TimeoutError("the app does not come to rest")
            await asyncio.sleep(0)
        # Textual draws at the next sixtieth of a second, and a new size waits half as long: now, instead.
        resized = getattr(app, "_resize_timer", None) is not None  # Textual 8.2.0 has none
        changed = [
            screen for screen in app.screen_stack if screen._update_timer._active.is_set()
            and (paint or _moves(screen))
        ]  # fmt: skip
        if not resized and not changed:
            unpainted = [screen for screen in app.screen_stack[-1:] if paint and screen in _UNPAINTED]
            if not unpainted:
                return
            _UNPAINTED.discard(unpainted[0])
            with unpainted[0]._context():
                _paint(unpainted[0])
        if resized:
            app._check_resize()
        for screen in changed:
            with screen._context():
                _draw(screen)


def _moves(screen: Screen[Any]) -> bool:
    """Whether widgets come, go or change their place, or something waits for the next picture."""
    return bool(
        screen._layout_required or screen._scroll_required or screen._recompose_required or screen._callbacks
    )


async def until(pilot: Pilot[Any], true: Callable[[], object], seconds: float = 30) -> None:
    """Wait for what a timer, a thread or another process does. Raises AssertionError if it takes longer."""
    end, wait, paint = time.monotonic() + seconds, 0.001, False
    while True:
        await settle(pilot.app, paint)
        if true():
            return
        paint = True  # it may be about what is sent
        assert time.monotonic() < end, "it did not come true"
        await asyncio.sleep(wait)
        wait = min(1.5 * wait, 0.02)


_draw, _paint = Screen._on_timer_update, Screen._compositor_refresh
_UNPAINTED: WeakSet[Screen[Any]] = WeakSet()


def _paint_later(screen: Screen[Any]) -> None:
    """What moves several times before the app is at rest is painted once."""
    if screen is not screen.app.screen or screen.app.is_inline:
        _paint(screen)
        return
    _UNPAINTED.add(screen)
    screen._dirty_widgets.clear()
    screen.app._update_mouse_over(screen)


_PARSED: dict[tuple[object, ...], Any] = {}
_parse, _set_variables = Stylesheet._parse_rules, Stylesheet.set_variables


def _parse_once(self: Stylesheet, css: str, *args: Any, **options: Any) -> Any:
    if not hasattr(self, "_sorted"):
        self._sorted = tuple(sorted(self._variables.items()))  # type: ignore[attr-defined]
    key = (css, *args, *options.items(), self._sorted)
    if key not in _PARSED:
        _PARSED[key] = _parse(self, css, *args, **options)
    return _PARSED[key]


def _set_and_forget(self: Stylesheet, variables: dict[str, str]) -> None:
    self.__dict__.pop("_sorted", None)
    _set_variables(self, variables)


_handlers, _count = MessagePump._get_dispatch_methods, _callback._count_parameters


@cache
def _places(receiver: type, name: str, message: type) -> tuple[tuple[type, str], ...] | None:
    """The classes, and the names in them, that handle a message; None where more than that decides."""
    kinds = {kind for kind in message.__mro__ if issubclass(kind, Message)}
    bases = [(base, vars(base)) for base in receiver.__mro__]
    if any(kinds & its.get("_decorated_handlers", {}).keys() for _, its in bases):
        return None
    names = [(base, f"_{name}" if its.get(f"_{name}") else name, its) for base, its in bases]
    return tuple((base, found) for base, found, its in names if its.get(found))


def _handlers_at(self: MessagePump, name: str, message: Message) -> Iterable[tuple[type, Any]]:
    """As Textual finds them, but that it looks through all bases each time, mostly in vain."""
    places = _places(type(self), name, type(message))
    if places is None:
        yield from _handlers(self, name, message)
        return
    for base, found in places:
        if message._no_default_action:
            break
        method = vars(base)[found]
        if not getattr(method, "_textual_on", None):
            yield base, method.__get__(self, base)


def _count_soon(func: Any) -> int:
    """Without a signature, which takes long to make."""
    if type(func) is not FunctionType or vars(func) or func.__code__.co_flags & 12:
        return _count(func)
    return func.__code__.co_argcount + func.__code__.co_kwonlyargcount


def drive(patch: pytest.MonkeyPatch) -> None:
    """Make every Pilot wait in this way, and parse each style sheet once for all apps."""
    patch.setattr(MessagePump, "_get_dispatch_methods", _handlers_at)
    patch.setattr(_callback, "_count_parameters", _count_soon)
    patch.setattr(Stylesheet, "_parse_rules", _parse_once)
    patch.setattr(Stylesheet, "set_variables", _set_and_forget)
    patch.setattr(RuleSet, "__hash__", object.__hash__)  # as it is, but not in Python
    patch.setattr(Screen, "_on_timer_update", lambda screen: None)  # half done is not drawn: `settle` draws
    patch.setattr(Screen, "_compositor_refresh", _paint_later)

    async def key_done(least: float = 0, most: float = 0) -> None:
        await settle(active_app.get(), paint=False)

    async def idle(least: float = 0, most: float = 0) -> None:
        await settle(active_app.get())

    async def wait_for_screen(self: Pilot[Any], timeout: float = 0) -> bool:
        await settle(self.app, paint=False)
        return True

    async def pause(self: Pilot[Any], delay: float | None = None) -> None:
        await settle(self.app)
        if delay:
            await asyncio.sleep(delay)
            await settle(self.app)

    patch.setattr(app, "wait_for_idle", key_done)
    patch.setattr(pilot, "wait_for_idle", idle)
    patch.setattr(Pilot, "_wait_for_screen", wait_for_screen)

    async def leave(self: App[Any]) -> None:
        if self._exception is None and not self._exit:
            await settle(self)
        await shutdown(self)

    shutdown = App._shutdown
    patch.setattr(Pilot, "pause", pause)
    patch.setattr(App, "_shutdown", leave)
