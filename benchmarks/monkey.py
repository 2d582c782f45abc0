"""Random keys and mouse events on several traces: nothing may fail, and memory may not grow.

    python benchmarks/monkey.py [TRACE ...] [--events 14400] [--seed 1] [--size 120x36]

14,400 events on each trace are what a person does in two hours at two per second. Each trace has a process of
its own, so that its memory is its own: measured after the first quarter of the events and at the end, in
which it may grow by a tenth. Told as well: which acts take long until the app has come to rest.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from textual import events
from textual.app import App
from textual.pilot import Pilot
from textual.worker import Worker, WorkerState

from tracetui.tui.app import TracetuiApp
from tracetui.tui.bindings import ACTIONS
from tracetui.tui.loading import LoadTask

SAMPLES = ("train", "llm_decode", "matmul_add_64_20_steps", "attention_naive", "mlp_cuda_graph")
SLOW = 0.1
SIZES = ((20, 5), (80, 24), (120, 36), (200, 50), (10, 2), (45, 12), (300, 80))
KEYS = tuple(key for action in ACTIONS for key in action.keys if action.action != "app.quit")
MORE_KEYS = (
    *("up", "down", "left", "right", "enter", "tab", "shift+tab", "escape", "pageup", "pagedown"),
    *("home", "end", "space", "delete", "ctrl+a", "6", "9", "f1", "ctrl+u"),
)
SIGNS = {"slash": "/", "colon": ":", "full_stop": ".", "comma": ",", "space": " ", "minus": "-", "plus": "+"}
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
            opened = rng.choice(("slash", "colon", "F", "ctrl+p", "m", "slash"))
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


class Tame(TracetuiApp):
    """The app, but that it does not end and captures nothing, as long as it is `tame`."""

    tame = True

    async def action_quit(self) -> None:
        if not self.tame:
            await super().action_quit()

    def exit(self, *arguments: Any, **named: Any) -> None:
        if self.tame:
            raise RuntimeError("the app ends by itself")
        super().exit(*arguments, **named)

    def _capture(self, options: object) -> None:
        return

    def _print_error_renderables(self) -> None:
        return


@dataclass
class Told:
    """What came of it."""

    events: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    took: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    memory: list[tuple[int, int]] = field(default_factory=list)
    """(events done, resident bytes)"""


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
    from textual.keys import _character_to_key

    named = _character_to_key(key) if len(key) == 1 and not key.isalnum() else key
    signs = {
        "slash": "/",
        "colon": ":",
        "full_stop": ".",
        "comma": ",",
        "space": " ",
        "minus": "-",
        "plus": "+",
    }
    return events.Key(named, key if len(key) == 1 else signs.get(key))


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


@contextmanager
def failed_workers(failures: list[str]) -> Iterator[None]:
    """Collect what goes wrong in threads: the app shows it as a message and lives on."""
    told = Worker.StateChanged.__init__

    def noted(self: Any, worker: Worker[Any], state: WorkerState) -> None:
        if state is WorkerState.ERROR and worker.error is not None:
            failures.append("in a worker: " + trace_of(worker.error))
        told(self, worker, state)

    Worker.StateChanged.__init__ = noted  # type: ignore[method-assign]
    try:
        yield
    finally:
        Worker.StateChanged.__init__ = told  # type: ignore[method-assign]


def trace_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)[-8:])


def said(acts: Iterable[Act]) -> str:
    return " | ".join(str(a) for a in acts)


def resident() -> int:
    """Bytes of memory that this process holds."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wrong_picture(app: App[Any]) -> str:
    """Draw the whole screen: every line has to fill it. What is wrong, "" where nothing is."""
    width, height = app.size
    strips = app.screen._compositor.render_strips()
    if not strips or app.screen.size != app.size:
        return ""  # a screen that is only just being put up
    wrong = [s for s in strips if sum(segment.cell_length for segment in s) != width]
    if wrong or len(strips) != height:
        lines = ", ".join(repr(s.text) for s in wrong[:3])
        return f"the picture does not fit {width}x{height} on {app.screen}: {len(strips)} lines, {lines}"
    return ""


async def rampage(path: Path, count: int, seed: int, size: tuple[int, int]) -> Told:
    """Let the monkey loose on one trace. After a failure the app begins anew and the monkey goes on."""
    task = LoadTask(path).start()
    task.finished.wait()
    if task.trace is None:
        raise SystemExit(task.error)
    told, doing, last = Told(), acts(seed), [Act("pause")] * 12
    begun, sampled = time.perf_counter(), 0
    with failed_workers(told.failures):
        while told.events < count:
            app = Tame(task)
            try:
                async with app.run_test(size=size) as pilot:
                    await pilot.pause(0.3)
                    while told.events < count and app.is_running:
                        act = next(doing)
                        last = [*last[1:], act]
                        at = time.perf_counter()
                        await perform(pilot, act)
                        told.took[name_of(act)].append(time.perf_counter() - at)
                        told.events += act.events
                        if told.events // 20 != (told.events - act.events) // 20:
                            wrong = wrong_picture(app)
                            if wrong:
                                told.failures.append(f"{wrong}\nthe last acts: {said(last)}")
                        if told.events - sampled >= count / 16:
                            sampled = told.events
                            told.memory.append((told.events, resident()))
                    if not app.is_running and app._exception is None:
                        told.failures.append("the app ended")
            except Exception as error:
                told.failures.append(f"{trace_of(error)}\nthe last acts: {said(last)}")
    told.memory.append((told.events, resident()))
    told.seconds = time.perf_counter() - begun
    return told


def name_of(act: Act) -> str:
    """Acts of one kind are timed together: a single key by its name."""
    if act.kind != "keys":
        return f"{act.held} {act.kind}".strip()
    return act.keys[0] if len(act.keys) == 1 else "several keys"


def report(path: Path, told: Told) -> bool:
    """Print it; whether all was well."""
    half = next((m for n, m in told.memory if n >= told.events // 4), told.memory[0][1])
    growth = told.memory[-1][1] / half - 1
    print(f"{path.name}: {told.events:,} events in {told.seconds:.0f} s, {len(told.failures)} failures")
    samples = ", ".join(f"{m / 2**20:.0f}" for _, m in told.memory)
    held = "held" if growth <= 0.1 else "NOT held"
    end = told.memory[-1][1] / 2**20
    print(f"  memory {half / 2**20:.1f} to {end:.1f} MiB, {growth:+.1%}: {held}  ({samples})")
    # A machine that does something else for a moment makes any act slow once: the middle one counts.
    slow = {k: v for k, v in told.took.items() if statistics.median(v) > SLOW / 2 and k != "pause"}
    for name, seconds in sorted(slow.items(), key=lambda kv: -statistics.median(kv[1])):
        over = sum(s > SLOW for s in seconds)
        median, most = statistics.median(seconds) * 1e3, max(seconds) * 1e3
        print(
            f"  slow: {name}: over 100 ms {over} of {len(seconds)}, median {median:.0f}, most {most:.0f} ms"
        )
    kinds: dict[str, list[str]] = defaultdict(list)
    for failure in told.failures:
        kinds[failure.split("\nthe last acts")[0]].append(failure)
    for failures in kinds.values():
        print(f"\n{len(failures)} times: {failures[0]}")
    sys.stdout.flush()
    return not told.failures and growth <= 0.1


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", nargs="*", type=Path)
    parser.add_argument("--events", type=int, default=14_400, help="on each trace")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", default="120x36")
    parser.add_argument("--here", action="store_true", help="one trace, in this process")
    options = parser.parse_args(list(arguments) if arguments is not None else None)
    folder = Path(__file__).resolve().parent.parent / "sample_traces"
    traces = options.traces or [folder / f"{name}.json.gz" for name in SAMPLES]
    columns, rows = map(int, options.size.split("x"))
    if options.here:
        with tempfile.TemporaryDirectory() as home:
            path = traces[0].resolve()
            os.environ.update(HOME=home, TRACETUI_STATE=home, XDG_CONFIG_HOME=home, XDG_STATE_HOME=home)
            os.chdir(home)  # what the app exports
            told = asyncio.run(rampage(path, options.events, options.seed, (columns, rows)))
            os.chdir("/")
        return 0 if report(path, told) else 1
    again = [sys.executable, __file__, "--here", "--size", options.size, "--events", str(options.events)]
    ends = [
        subprocess.run([*again, "--seed", str(options.seed + n), str(path)]).returncode
        for n, path in enumerate(traces)
    ]
    print(f"{len(traces)} traces: {'all held' if not any(ends) else 'NOT held'}")
    return int(any(ends))


if __name__ == "__main__":
    sys.exit(main())
