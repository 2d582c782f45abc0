"""What the monkey does: random keys, clicks, drags, wheels and sizes, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from tracetui.tui.bindings import ACTIONS

SIZES = ((20, 5), (80, 24), (120, 36), (200, 50), (10, 2), (45, 12), (300, 80))
KEYS = tuple(key for action in ACTIONS for key in action.keys if action.action != "app.quit")
MORE_KEYS = (
    *("up", "down", "left", "right", "enter", "tab", "shift+tab", "escape", "pageup", "pagedown"),
    *("home", "end", "space", "delete", "ctrl+a", "6", "9", "f1", "ctrl+u"),
)
OPENERS = ("slash", "colon", "F", "ctrl+p", "m")
WORDS = (
    *("gemm", "aten::", "cat:kernel dur>10us", "/^void .*", "/(", "-add", "dur>", "lane:stream", "at>1ms x"),
    *("[bold]", "“ä”", "1.5ms", "-1", "99999999999s", "0", "\\", '"two words"', "mark"),
)
ODD = (
    *("\x1b[I", "\x1b[O"),  # the focus comes and goes
    *("\x1b[200~gemm\n\x1b[2Jx\x1b[201~", "\x1b[200~" + "a" * 5000 + "\x1b[201~"),  # pasted
    *("\x1bx", "\x1b[97;5u", "\x1b[97;1:3u", "\x1b[27;5;9~"),  # Alt, and other protocols of keys
    *("\x1b[12;40R", "\x1b[?2026;2$y", "\x1b[?1;2c", "\x1bP1+r\x1b\\", "\x1b]11;rgb:00/00/00\x07"),  # reports
    *("\x1b[<0;9999;9999M\x1b[<0;9999;9999m", "\x1b[<0;0;0M\x1b[<0;0;0m", "\x1b[M !!"),  # a mouse elsewhere
    *("ä€🦊", "\x00", "\x1b[", "\x1b[<0;1"),
)
"""What else a terminal may send."""


class Act(NamedTuple):
    """One thing that the monkey does; `keys` and `mouse` count as so many events."""

    kind: str
    keys: tuple[str, ...] = ()
    """Their names, or for the kind "odd" what is sent."""
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
        told = {"keys": " ".join(self.keys), "odd": repr(self.keys), "pause": ""}
        told["resize"] = "{}x{}".format(*self.size)
        place = f"{self.held} {self.at[0]:.2f},{self.at[1]:.2f} {self.to[0]:.2f},{self.to[1]:.2f}"
        return f"{self.kind} {told.get(self.kind, place)}"


def acts(seed: int, keys: tuple[str, ...] = KEYS) -> Iterator[Act]:
    """What the monkey does, without end; the same for the same seed."""
    rng = random.Random(seed)
    sizes = [(120, 36)]

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
        elif dice < 0.95:
            yield Act(rng.choice(("wheel up", "wheel down")), at=place(), held=held)
        elif dice < 0.98:
            columns, lines = sizes[-1]
            near = (max(1, columns + rng.randint(-1, 1)), max(1, lines + rng.randint(-1, 1)))
            any_size = (rng.randint(1, 300), rng.randint(1, 80))
            sizes = [*sizes[-3:], rng.choice((near, near, any_size, sizes[0], rng.choice(SIZES)))]
            yield Act("resize", size=sizes[-1])
        elif dice < 0.985:
            yield Act("pause")
        elif dice < 0.99:
            yield Act("odd", (rng.choice(ODD),))
        else:
            yield Act("move", at=place())
