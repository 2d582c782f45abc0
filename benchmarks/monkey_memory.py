"""How much memory the app holds while the monkey is at it, measured fairly.

What is done for the first time takes memory once: modules are imported, a trace is analysed, caches fill. So
all that there is to do is done once, at every size that the monkey gives the terminal, before the first
measurement. And at every measurement the app shows the same: the trace's screen, at the size that it began
at, with nothing on top.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from monkey_acts import KEYS, MORE_KEYS, ODD, OPENERS, SIZES, WORDS, Act
from monkey_terminal import Hand
from tracetui.tui.app import let_go_of_closed

ALLOWED = 0.1
"""By which share memory may grow."""
TRIES = 40


class Sample(NamedTuple):
    """Memory at one moment."""

    events: int
    """Done until then; 0 after the warm-up."""
    resident: int
    """Bytes."""
    objects: int
    """That Python's garbage collector watches over."""


def everything() -> Iterator[Act]:
    """All that the monkey does, once at every size, the largest first."""
    places = [(x / 8 + 0.05, y / 8 + 0.05) for x in range(8) for y in range(8)]
    for size in sorted(SIZES, reverse=True):
        yield Act("resize", size=size)
        for key in (*KEYS, *MORE_KEYS):
            yield Act("keys", (key,))
            yield Act("keys", ("escape", "escape"))
        for pane in "12345":
            for key in ("b",) * 5 + ("greater_than_sign", "R", "u", "u", "u", "tab", "down", "enter"):
                yield Act("keys", (pane, key))
        for opened in OPENERS:
            for word in WORDS:
                yield Act("keys", (opened, *word, "enter"))
                yield Act("keys", ("escape",))
        for number, place in enumerate(places):
            held = ("", "ctrl", "shift")[number % 3]
            for kind in ("click", "wheel down", "wheel up", "move"):
                yield Act(kind, at=place, held=held)
            yield Act("drag", at=place, to=places[-number], held=held)
            yield Act("keys", ("escape", "escape"))
        for text in ODD:
            yield Act("odd", (text,))
            yield Act("keys", ("escape", "escape"))


async def warm_up(hand: Hand) -> None:
    """Do everything once, and wait for what is worked out in threads."""
    for act in everything():
        await hand.do(act)
        for _ in range(TRIES):
            if all(worker.is_finished for worker in hand.app.workers):
                break
            await hand.pause(0.02)


async def settle(hand: Hand, size: tuple[int, int]) -> None:
    """Bring the app to where it is measured: the trace's screen, nothing on top, at the size it began at."""
    from tracetui.tui.screens.trace import TraceScreen

    await hand.do(Act("resize", size=size))
    for _ in range(TRIES):
        await hand.do(Act("keys", ("escape",)))
        if isinstance(hand.app.screen, TraceScreen) and not hand.app.screen.query("Prompt"):
            break
    app: Any = hand.app
    while len(app.traces) > 1:  # what it has opened meanwhile is closed
        await hand.do(Act("keys", ("t" if app.screen is app.begun else "ctrl+x",)))
    await hand.do(Act("keys", ("escape",) * 6))
    await hand.pause(0.1)


async def sample(hand: Hand, events: int, size: tuple[int, int]) -> Sample:
    """Measure, after the app has come to rest, without what was let go but not given back to the system."""
    await settle(hand, size)
    let_go_of_closed()
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    return Sample(events, pages * os.sysconf("SC_PAGE_SIZE"), len(gc.get_objects()))


class Growth(NamedTuple):
    """By which share memory grew."""

    end: float
    """From the warm-up to the end."""
    most: float
    """From the warm-up to the largest measurement."""
    twice: float
    """To the end of as many events again, if it goes on as from the first half to the second."""

    @property
    def held(self) -> bool:
        return self.end <= ALLOWED and self.twice <= ALLOWED


def growth(samples: list[Sample]) -> Growth:
    """What the measurements say; the first is the one after the warm-up."""
    first, last = samples[0], samples[-1]
    middle = next(s for s in samples if s.events >= last.events / 2)
    early, late = middle.resident - first.resident, last.resident - middle.resident
    # Caches fill ever more slowly: half as much in the second half as in the first, then a quarter, ...
    ratio = min(1.0, late / early) if early > 0 else 1.0
    more = late * (ratio + ratio**2) if late > 0 else 0.0

    def share(resident: float) -> float:
        return resident / first.resident - 1

    return Growth(share(last.resident), share(max(s.resident for s in samples)), share(last.resident + more))
