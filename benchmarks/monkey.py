"""Random keys, mouse events and sizes of the terminal on several traces: nothing may fail, the terminal shows
what the app means it to, and memory may not grow.

    python benchmarks/monkey.py [TRACE ...] [--events 14400] [--seed 1] [--size 120x36]

TRACE may be two that are compared: `A,B`. The app runs on a real pseudo-terminal (`monkey_terminal.py`).
14,400 events on each trace are what a person does in two hours at two per second. Each trace has a process of
its own, so that its memory is its own. First, everything is done once, at several sizes of the terminal
(`monkey_memory.py`). From there to the end resident memory may grow by a tenth, and it may
not be heading for more: the report extrapolates to as many events again. It is measured eight times, with the
app at rest on the trace's screen. The report also lists the acts after which the app takes long to come to
rest.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.worker import Worker, WorkerState

from monkey_acts import Act, acts
from monkey_memory import Sample, growth, sample, settle, warm_up
from monkey_terminal import Terminal, running
from tracetui.tui.app import TracetuiApp
from tracetui.tui.loading import LoadTask

if TYPE_CHECKING:
    from tracetui.session.recording import Recording
    from tracetui.tui.screens.trace import TraceScreen

SAMPLES = ("train", "llm_decode", "matmul_add_64_20_steps", "attention_naive", "mlp_cuda_graph")
SLOW = 0.1
PARTS = 8
"""Measurements of memory."""


class Tame(TracetuiApp):
    """The app, but that it does not end, captures nothing and keeps what it began with, as long as it is
    `tame`."""

    tame = True
    begun: TraceScreen | None = None

    def _trace_screen(self, recordings: Sequence[Recording]) -> TraceScreen:
        made = super()._trace_screen(recordings)
        self.begun = self.begun or made
        return made

    async def action_close_trace(self) -> None:
        if self.screen is not self.begun:
            await super().action_close_trace()

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
class Outcome:
    """What happened on one trace."""

    events: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    took: dict[str, array[float]] = field(default_factory=lambda: defaultdict(lambda: array("d")))
    """By name of the act; arrays, so that the monkey's own memory does not grow much."""
    memory: list[Sample] = field(default_factory=list)


@contextmanager
def failed_workers(failures: list[str]) -> Iterator[None]:
    """Collect what goes wrong in threads: the app shows it as a message and lives on."""
    original = Worker.StateChanged.__init__

    def noted(self: Any, worker: Worker[Any], state: WorkerState) -> None:
        if state is WorkerState.ERROR and worker.error is not None:
            failures.append("in a worker: " + trace_of(worker.error))
        original(self, worker, state)

    Worker.StateChanged.__init__ = noted  # type: ignore[method-assign]
    try:
        yield
    finally:
        Worker.StateChanged.__init__ = original  # type: ignore[method-assign]


def trace_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)[-8:])


def listed(acts: Iterable[Act]) -> str:
    return " | ".join(str(a) for a in acts)


async def rampage(
    paths: Sequence[Path], count: int, seed: int, size: tuple[int, int], warm: bool = True
) -> Outcome:
    """Let the monkey loose on one trace, or on two that are compared. After a failure the app begins anew and
    the monkey goes on."""
    tasks = [LoadTask(path).start() for path in paths]
    for task in tasks:
        task.ended.result()
        if task.trace is None:
            raise SystemExit(task.error)
    outcome, doing, last = Outcome(), acts(seed), [Act("pause")] * 12
    terminal, begun = Terminal(size), time.perf_counter()
    with failed_workers(outcome.failures):
        while outcome.events < count:
            app = Tame(tasks[0], others=tasks[1:])
            try:
                async with running(app, terminal) as hand:
                    if warm and not outcome.events:
                        await warm_up(hand)
                    if warm and not outcome.memory:
                        outcome.memory.append(await sample(hand, outcome.events, size))
                    while outcome.events < count and app.is_running:
                        act = next(doing)
                        last = [*last[1:], act]
                        at = time.perf_counter()
                        await hand.do(act)
                        outcome.took[name_of(act)].append(time.perf_counter() - at)
                        outcome.events += act.events
                        if outcome.events // 20 != (outcome.events - act.events) // 20:
                            wrong = await hand.wrong_picture()
                            if wrong:
                                outcome.failures.append(f"{wrong}\nthe last acts: {listed(last)}")
                        if warm and outcome.events >= len(outcome.memory) * count / PARTS:
                            outcome.memory.append(await sample(hand, outcome.events, size))
                    if app.is_running:
                        await settle(hand, size)
                        app.tame = False
                        await hand.do(Act("keys", ("q",)))
                    elif app._exception is None:
                        outcome.failures.append(f"the app ended\nthe last acts: {listed(last)}")
                if app.return_code:
                    outcome.failures.append(f"q ended it with exit code {app.return_code}")
            except Exception as error:
                outcome.failures.append(f"{trace_of(error)}\nthe last acts: {listed(last)}")
                outcome.events += 1  # so that what always fails ends
    outcome.seconds = time.perf_counter() - begun
    return outcome


def name_of(act: Act) -> str:
    """Acts of one kind are timed together: a single key by its name."""
    if act.kind != "keys":
        return f"{act.held} {act.kind}".strip()
    return act.keys[0] if len(act.keys) == 1 else "several keys"


def report(name: str, outcome: Outcome) -> bool:
    """Print it; whether all was well."""
    print(f"{name}: {outcome.events:,} events in {outcome.seconds:.0f} s, {len(outcome.failures)} failures")
    held = True
    if outcome.memory:
        grown = growth(outcome.memory)
        held = grown.held
        samples = ", ".join(f"{s.resident / 2**20:.1f}" for s in outcome.memory)
        objects = f"{outcome.memory[0].objects:,} to {outcome.memory[-1].objects:,}"
        print(
            f"  memory {grown.end:+.1%}, at most {grown.most:+.1%}, by as many again {grown.twice:+.1%}: "
            f"{'held' if held else 'NOT held'}\n  MiB: {samples}; objects {objects}"
        )
    # A machine that does something else for a moment makes any act slow once: the middle one counts.
    slow = {k: v for k, v in outcome.took.items() if statistics.median(v) > SLOW / 2 and k != "pause"}
    for name, seconds in sorted(slow.items(), key=lambda kv: -statistics.median(kv[1])):
        over = sum(s > SLOW for s in seconds)
        median, most = statistics.median(seconds) * 1e3, max(seconds) * 1e3
        print(
            f"  slow: {name}: over 100 ms {over} of {len(seconds)}, median {median:.0f}, most {most:.0f} ms"
        )
    kinds: dict[str, list[str]] = defaultdict(list)
    for failure in outcome.failures:
        kinds[failure.split("\nthe last acts")[0]].append(failure)
    for failures in kinds.values():
        print(f"\n{len(failures)} times: {failures[0]}")
    sys.stdout.flush()
    return not outcome.failures and held


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("traces", nargs="*")
    parser.add_argument("--events", type=int, default=14_400, help="on each trace")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--size", default="120x36")
    parser.add_argument("--cold", action="store_true", help="begin at once; memory is not measured")
    parser.add_argument("--here", action="store_true", help="one trace, in this process and its terminal")
    options = parser.parse_args(list(arguments) if arguments is not None else None)
    folder = Path(__file__).resolve().parent.parent / "sample_traces"
    traces = options.traces or [*(str(folder / f"{name}.json.gz") for name in SAMPLES)]
    columns, rows = map(int, options.size.split("x"))
    if options.here:
        said = os.dup(1)  # descriptor 1 becomes the app's terminal
        with tempfile.TemporaryDirectory() as home:
            paths = [Path(path).resolve() for path in traces[0].split(",")]
            os.environ.update(HOME=home, TRACETUI_STATE=home, XDG_CONFIG_HOME=home, XDG_STATE_HOME=home)
            os.chdir(home)  # what the app exports
            outcome = asyncio.run(
                rampage(paths, options.events, options.seed, (columns, rows), not options.cold)
            )
            os.chdir("/")
        with open(said, "w") as sys.stdout:
            return 0 if report(" and ".join(path.name for path in paths), outcome) else 1
    again = [sys.executable, __file__, "--here", "--size", options.size, "--events", str(options.events)]
    again += ["--cold"] if options.cold else []
    environment = {**os.environ, "ESCDELAY": "5", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    for name in ("NO_COLOR", "COLUMNS", "LINES", "SSH_TTY", "SSH_CONNECTION"):
        environment.pop(name, None)
    ends = [
        subprocess.run([*again, "--seed", str(options.seed + n), trace], env=environment).returncode
        for n, trace in enumerate(traces)
    ]
    print(f"{len(traces)} traces: {'all held' if not any(ends) else 'NOT held'}")
    return int(any(ends))


if __name__ == "__main__":
    sys.exit(main())
