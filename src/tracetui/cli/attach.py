"""`tracetui attach`: a trace of a process that is running."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracetui.cli.common import Stopped, emit, fail, looks, stop_signals, warn, write
from tracetui.core.safe_text import plain

if TYPE_CHECKING:
    from tracetui.capture.live.model import LiveEvent, Recorded, RecordRequest
    from tracetui.capture.live.processes import Job, Process

LOOK_SECONDS = 0.5
"""How often we look for a process while there is none."""
SOCKET_SECONDS = 10.0
"""How long after PyTorch's library a process may get the socket that it asks through."""
PICTURE = ("tui.app", "tui.screens.trace", "tui.panes.overview", "session.recording", "views.overview")
"""What the first picture needs: imported while a process records, not before it has been asked."""


class Span(click.ParamType):  # type: ignore[type-arg]
    """A time such as 500ms, 2s or 10m, in seconds."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from tracetui.capture.live.model import seconds

        if isinstance(value, float):
            return value
        try:
            return seconds(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command("attach")
@click.argument("target", required=False, metavar="[PID | NAME | URL]")
@click.option("--duration", type=Span(), default="500ms", show_default=True, help="How long to record.")
@click.option("--steps", type=click.IntRange(1, 100_000), help="Record this many optimizer steps instead.")
@click.option("--with-stack", is_flag=True, help="Record Python frames.")
@click.option("--record-shapes", is_flag=True, help="Record the shapes of the inputs.")
@click.option("--profile-memory", is_flag=True, help="Record allocations and frees.")
@click.option("--start-in", type=Span(), default="0", help="Wait this long before recording.")
@click.option("--every", type=Span(), help="Record repeatedly, once per TIME, until Ctrl+C.")
@click.option(
    "--keep", type=click.IntRange(1, 10_000), help="With --every: keep this many, delete older ones."
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=Path("traces"),
    show_default=True,
    metavar="DIR",
    help="Folder for the traces.",
)
@click.option("--open/--no-open", "open_app", default=True, help="Open the trace afterwards (on a terminal).")
@click.option("--list", "listing", is_flag=True, help="List what can be recorded, and exit.")
@click.option("--json", "as_json", is_flag=True, help="With --list: as JSON.")
@click.option("--no-wait", is_flag=True, help="Exit if there is nothing to record, instead of waiting.")
@click.option("--ranks", is_flag=True, help="With the PID of one rank: record all ranks of its job.")
@click.option(
    "--inject", is_flag=True, help="Run code in a process that was not started for recording (Python 3.14)."
)
@looks
def attach_command(
    target: str | None,
    every: float | None,
    keep: int | None,
    output: Path,
    open_app: bool,
    listing: bool,
    as_json: bool,
    no_wait: bool,
    ranks: bool,
    inject: bool,
    theme: str | None,
    ascii: bool,
    **given: Any,
) -> None:
    """Record what a running process does, and open the trace.

    PID: a process, or one that started others; all ranks of a job are recorded at the same time. NAME: part
    of a command line. URL: a vLLM or SGLang server. Without a target: the only job, if "tracetui run" started
    it; otherwise you are asked which one. If there is none, wait for one.

    A process can be recorded if it was started by "tracetui run COMMAND", or with the variables that
    "tracetui env" prints. --no-open prints the paths of the traces, one per line.
    """
    from tracetui.capture.live.model import AttachError, RecordRequest

    if keep is not None and every is None:
        raise click.UsageError("--keep needs --every")
    if as_json and not listing:
        raise click.UsageError("--json needs --list")
    made = list[Path]()
    try:
        with stop_signals():
            if listing:
                emit(_listing(_jobs(), as_json))
                return
            wanted = RecordRequest(**given)
            if not 0.001 <= wanted.duration <= 86400:
                raise AttachError("--duration must be between 1ms and 24h", 2)
            make = _recorder(target, wanted, output, no_wait, ranks, inject)
            _make_folder(output)
            if every is not None:
                _again_and_again(make, every, keep, made)
                return
            app = open_app and sys.stdout.isatty() and sys.stdin.isatty()
            recorded = _follow(make(), app)
    except AttachError as error:
        fail(str(error), error.code)
    except Stopped as stop:
        fail(f"stopped; {len(made)} traces are kept" if made else "nothing was recorded", 128 + stop.signal)
    if not app:
        emit("\n".join(str(path) for path in recorded.paths))
        return
    from tracetui.capture.live.model import Rerun
    from tracetui.cli.open import open_trace, start
    from tracetui.session.folder import found_at

    again = Rerun(plain(target or "the same process", 80), make)
    if len(recorded.paths) == 1:
        open_trace(str(recorded.paths[0]), theme, ascii, again=again)
    else:
        start(theme, ascii, [found_at(path) for path in recorded.paths], again)


def _make_folder(output: Path) -> None:
    from tracetui.capture.live.model import AttachError

    try:
        output.mkdir(exist_ok=True)
    except FileExistsError as error:
        raise AttachError(f"cannot write to {output}: it is not a folder") from error
    except OSError as error:
        raise AttachError(f"cannot write to {output}: {error.strerror or error}") from error
    if not os.access(output, os.W_OK | os.X_OK):
        raise AttachError(f"cannot write to {output}: permission denied")


def _jobs() -> list[Job]:
    from tracetui.capture.live.model import AttachError
    from tracetui.capture.live.processes import jobs, processes, with_gpus

    if sys.platform != "linux":
        raise AttachError("attach works only on Linux: elsewhere, PyTorch cannot be asked for a trace")
    return jobs(with_gpus(processes()))


def _recorder(
    target: str | None, wanted: RecordRequest, output: Path, no_wait: bool, ranks: bool, inject: bool
) -> Callable[[], Iterator[LiveEvent]]:
    """What makes a recording each time it is called. Raises AttachError."""
    if target is not None and target.startswith(("http://", "https://")):
        from tracetui.capture.live.servers import record_server

        return lambda: record_server(target, wanted, output)
    if inject:
        from tracetui.capture.live.inject import record_injected
        from tracetui.capture.live.model import AttachError

        if target is None or not target.isdecimal():
            raise AttachError("--inject needs the id of a process", 2)
        warn("--inject runs tracetui's code inside that process")
        return lambda: record_injected(int(target), wanted, output)
    chosen: list[Process] = []

    def make() -> Iterator[LiveEvent]:
        from tracetui.capture.live.listener import started
        from tracetui.capture.live.record import record

        if not chosen:
            chosen[:] = yield from _choose(target, no_wait, ranks)
        elif not any(started(one.pid) == one.ticks for one in chosen):
            chosen[:] = _started_again(target, ranks, chosen[0])
        yield from record(chosen, wanted, output)

    return make


def _choose(target: str | None, no_wait: bool, ranks: bool) -> Generator[LiveEvent, None, Sequence[Process]]:
    """The processes of the job that `target` names, when there is one. Raises AttachError."""
    from tracetui.capture.live.model import AttachError, Stage, Status
    from tracetui.capture.live.processes import CLOSED, jobs_of, why_not

    patience = 0.0
    while True:
        found = jobs_of(_jobs(), target, ranks)
        if len(found) > 1:
            return _picked(found).processes
        if found:
            if target is None:
                _confirm(found[0])
            return found[0].processes
        what, lacks = "for a process started with: tracetui run COMMAND", "no process can be recorded"
        if target is not None and target.isdecimal():
            reason = why_not(int(target))
            if reason:
                raise AttachError(reason)
            what, lacks = f"for process {target} to import PyTorch", ""
            if _has_torch(int(target)):  # about to have a socket, or no longer
                what = f"for process {target} to open a socket on which it asks"
                patience = patience or time.monotonic() + SOCKET_SECONDS
                if no_wait:
                    raise AttachError(f"process {target} has no socket on which it asks, at least not now")
                if time.monotonic() > patience:
                    raise AttachError(f"process {target} {CLOSED}")
        elif target is not None:
            name = plain(target, 60)
            what = f"for a process with {name} in its command"
            lacks = f"no process with {name} in its command can be recorded"
        if no_wait and not lacks:
            raise AttachError(f"process {target} has not imported PyTorch, at least not yet")
        if no_wait:
            raise AttachError(f"{lacks}: start it with: tracetui run COMMAND")
        yield Status(Stage.WAITING, what)
        time.sleep(LOOK_SECONDS)


def _has_torch(pid: int) -> bool:
    from tracetui.capture.live.procfs import has_torch

    try:
        return has_torch(pid)
    except OSError:
        return False


def _started_again(target: str | None, ranks: bool, before: Process) -> Sequence[Process]:
    """The processes of a job that was started again: with the same text in its command, or else with the same
    command. Nobody is asked: this may be hours later, or in the app. Raises AttachError."""
    from tracetui.capture.live.model import AttachError
    from tracetui.capture.live.processes import jobs_of

    found = jobs_of(_jobs(), target, ranks)
    if target is None or target.isdecimal():
        found = [job for job in found if job.first.command == before.command]
    if len(found) == 1:
        return found[0].processes
    several = "; several jobs could be meant now" if found else ""
    raise AttachError(f"process {before.pid} has ended{several}", gone=True)


def _confirm(job: Job) -> None:
    """Say which job will be recorded, which nobody has named; ask, unless `tracetui run` started it to be
    recorded. Raises AttachError."""
    from tracetui.capture.live.model import AttachError
    from tracetui.core.units import age
    from tracetui.views.jobs import gpu_text

    first, count = job.first, len(job.processes)
    facts = [f"{count} processes"] * (count > 1) + [f"runs for {age(time.time() - first.since)}"]
    facts += [f"GPU {gpu_text(job)}"] * (gpu_text(job) not in "-?")
    what = f"{first.pid} {plain(first.name, 200)}"
    told = f"{what} ({', '.join(facts)})"
    if all(one.by_run for one in job.processes):
        write(sys.stderr, f"tracetui: the only job is {told}\n")
    elif not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise AttachError(
            f'the only job is {what}, not started by "tracetui run": to record it, name it: '
            f"tracetui attach {first.pid}",
            2,
        )
    elif not click.confirm(f"Record {told}?", err=True):
        raise AttachError("nothing was recorded")


def _picked(found: Sequence[Job]) -> Job:
    """The job that the user picks by its number. Raises AttachError without a terminal."""
    from tracetui.capture.live.model import AttachError

    lines = _listing(found, False).splitlines()
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        pids = ", ".join(str(job.first.pid) for job in found[:8])
        command = f"tracetui attach {found[0].first.pid}"
        raise AttachError(f"several jobs can be recorded ({pids}): name one, as in {command}", 2)
    write(sys.stderr, f"      {lines[0]}\n")
    for number, line in enumerate(lines[1:], 1):
        write(sys.stderr, f"{number:>4}  {line}\n")
    picked: int = click.prompt("Which one", type=click.IntRange(1, len(found)), err=True)
    return found[picked - 1]


def _listing(found: Sequence[Job], as_json: bool) -> str:
    """A line for each job, below a heading; or the same as JSON."""
    import numpy as np  # not before a process is asked: it takes a while

    from tracetui.views.jobs import jobs_table
    from tracetui.views.lines import plain_text
    from tracetui.views.writers import aligned, cells, records

    table = jobs_table(found, time.time())
    rows = np.arange(len(found))
    if as_json:
        return json.dumps(records(table.columns, rows), indent=2)
    return plain_text(aligned(table.columns, cells(table.columns, rows))) if len(found) else table.empty


def _warm() -> None:
    for name in PICTURE:
        import_module(f"tracetui.{name}")


def _follow(events: Iterator[LiveEvent], app: bool = False) -> Recorded:
    """Say on standard error what happens, until the traces are there. `app`: they will be opened."""
    from tracetui.capture.live.model import AttachError, Recorded, Stage

    begun = time.monotonic()
    terminal = sys.stderr.isatty()
    told = None
    with contextlib.closing(events) as following:  # type: ignore[type-var]
        for event in following:
            if isinstance(event, Recorded):
                for note in event.notes:
                    warn(note)
                return event
            if app and event.stage not in (Stage.WAITING, Stage.ASKING):
                app = False
                threading.Thread(target=_warm, daemon=True).start()
            if event != told and (terminal or event.stage is Stage.WAITING):
                told = event
                words = f"{event.stage.value} {event.detail}".rstrip()
                clock = f"{time.monotonic() - begun:7.1f} s  " if terminal else "tracetui: "
                write(sys.stderr, f"{clock}{words}\n")
    raise AttachError("the recording ended without a trace")


def _again_and_again(
    make: Callable[[], Iterator[LiveEvent]], every: float, keep: int | None, made: list[Path]
) -> None:
    """A flight recorder: its paths as they come, until the job has ended. `made` gets those that are kept."""
    from tracetui.capture.live.model import AttachError

    due = time.monotonic()
    while True:
        try:
            paths = _follow(make()).paths
        except AttachError as error:
            if error.gone and made:
                warn(str(error))
                return
            if error.gone or error.code == 2:
                raise
            warn(str(error))
        else:
            made += paths
            rounds = keep * len(paths) if keep is not None else len(made)
            for old in made[: max(0, len(made) - rounds)]:
                with contextlib.suppress(OSError):
                    old.unlink()
            del made[: max(0, len(made) - rounds)]
            emit("\n".join(str(path) for path in paths))
        due = max(due + every, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
