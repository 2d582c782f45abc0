"""What the monkey does: random keys, clicks, drags, wheels and sizes, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from textual import events
from textual.app import App
from textual.keys import _character_to_key
from textual.pilot import Pilot

from tracetui.tui.bindings import ACTIONS

SIZES = ((20, 5), (80, 24), (120, 36), (200, 50), (10, 2), (45, 12), (300, 80))
KEYS = tuple(key for action in ACTIONS for key in action.keys if action.action != "app.quit")
MORE_KEYS = (
    *("up", "down", "left", "right", "enter", "tab", "shift+tab", "escape", "pageup", "pagedown"),
    *("home", "end", "space", "delete", "ctrl+a", "6", "9", "f1", "ctrl+u"),
)
SIGNS = {"slash": "/", "colon": ":", "full_stop": ".", "comma": ",", "space": " ", "minus": "-", "plus": "+"}
OPENERS = ("slash", "colon", "F", "ctrl+p", "m")
WORDS = (
    *("gemm", "aten::", "cat:kernel dur>10us", "/^void .*", "/(", "-add", "dur>", "lane:stream", "at>1ms x"),
    *("[bold]", "“ä”", "1.5ms", "-1", "99999999999s", "0", "\\", '"two words"', "mark"),
)


class Act(NamedTuple):
    """One thing that the monkey does; `keys` and `mouse` count as so many events."""

    kind: str
    keys: tuple[str, ...] = ()
    at: tuple[float, float] = (0.0, 0.0)
    to: tuple[float, float] = (0.0, 0.0)
    """Places as shares of the screen."""
    button: int = 1
    held: str = ""
    size: tuple[int, int] = (80, 24)

    @property
    def events(self) -> int:
        return {"drag": 5, "click": 2, "keys": len(self.keys), "pause": 0}.get(self.kind, 1)

    def __str__(self) -> str:
        told = {"keys": " ".join(self.keys), "resize": "{}x{}".format(*self.size), "pause": ""}
        place = f"{self.held} {self.at[0]:.2f},{self.at[1]:.2f} {self.to[0]:.2f},{self.to[1]:.2f}"
        return f"{self.kind} {told.get(self.kind, place)}"


def acts(seed: int, keys: tuple[str, ...] = KEYS) -> Iterator[Act]:
    """What the monkey does, without end; the same for the same seed."""
    rng = random.Random(seed)

    def place() -> tuple[float, float]:
        return rng.random(), rng.random()

    while True:
        dice = rng.random()
        held = rng.choice(("", "", "", "ctrl", "shift"))
        if dice < 0.52:
            yield Act("keys", (rng.choice(keys),))
        elif dice < 0.62:
            yield Act("keys", (rng.choice(MORE_KEYS),))
        elif dice < 0.66:
            yield Act("keys", (rng.choice(keys),) * rng.randint(3, 12))
        elif dice < 0.70:
            opened = rng.choice((*OPENERS, "slash"))
            word = rng.choice(WORDS)[: rng.randint(1, 30)]
            ended = rng.choice(("enter", "enter", "escape", "tab"))
            yield Act("keys", (opened, *word, ended))
        elif dice < 0.74:
            yield Act("keys", ("escape",) * rng.randint(1, 2))
        elif dice < 0.84:
            yield Act("click", at=place(), button=rng.choice((1, 1, 1, 1, 2, 3)), held=held)
        elif dice < 0.90:
            yield Act("drag", at=place(), to=place(), held=held)
        elif dice < 0.97:
            yield Act(rng.choice(("wheel up", "wheel down")), at=place(), held=held)
        elif dice < 0.98:
            yield Act("resize", size=rng.choice(SIZES))
        elif dice < 0.985:
            yield Act("pause")
        else:
            yield Act("move", at=place())


async def perform(pilot: Pilot[Any], act: Act) -> None:
    """Do one thing, as the terminal would tell of it, and wait until the app has come to rest."""
    app = pilot.app
    if act.kind == "keys":
        for key in act.keys:
            app.post_message(key_event(key))
    elif act.kind == "resize":
        await pilot.resize_terminal(*act.size)
    elif act.kind == "pause":
        await pilot.pause(0.15)
    else:
        for event in mouse_events(app, act):
            driver = app._driver
            assert driver is not None
            driver.process_message(event)
    await pilot.pause(0)


def key_event(key: str) -> events.Key:
    named = _character_to_key(key) if len(key) == 1 and not key.isalnum() else key
    return events.Key(named, key if len(key) == 1 else SIGNS.get(key))


def mouse_events(app: App[Any], act: Act) -> list[events.MouseEvent]:
    width, height = app.size

    def made(kind: type[events.MouseEvent], place: tuple[float, float], button: int) -> events.MouseEvent:
        x, y = int(place[0] * width), int(place[1] * height)
        shift, ctrl = act.held == "shift", act.held == "ctrl"
        return kind(None, x, y, 0, 0, button, shift, False, ctrl, x, y)

    if act.kind == "move":
        return [made(events.MouseMove, act.at, 0)]
    if act.kind.startswith("wheel"):
        kind = events.MouseScrollUp if act.kind.endswith("up") else events.MouseScrollDown
        return [made(kind, act.at, 0)]
    if act.kind == "click":
        return [made(events.MouseDown, act.at, act.button), made(events.MouseUp, act.at, act.button)]
    middle = ((act.at[0] + act.to[0]) / 2, (act.at[1] + act.to[1]) / 2)
    return [
        made(events.MouseDown, act.at, 1),
        *(made(events.MouseMove, p, 1) for p in (act.at, middle, act.to)),
        made(events.MouseUp, act.to, 1),
    ]
