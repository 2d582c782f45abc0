"""`tracetui capture`: profile a workload, a callable or a script, then open the trace."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from tracetui.capture.catalog import WORKLOADS, Workload
from tracetui.capture.events import (
    Cancelled,
    CaptureEvent,
    CaptureResult,
    Done,
    Failed,
    Note,
    Output,
    Phase,
    Progress,
)
from tracetui.capture.interpreter import find_python
from tracetui.capture.options import OPTIONS, PROGRAMS, CaptureOptions, OptionError, launched_rank
from tracetui.capture.process import StartError
from tracetui.capture.run import Capture, start
from tracetui.cli.attach import Span
from tracetui.cli.common import (
    Stopped,
    check_exists,
    did_you_mean,
    emit,
    fail,
    leave,
    looks,
    stop_signals,
    warn,
)
from tracetui.cli.completion import words_or_files
from tracetui.core.option import Option
from tracetui.core.safe_text import plain

REPORT = "TRACETUI_REPORT"
"""Environment variable of a rank: the file to which it adds the path of its trace."""


def _flags(workload: Workload) -> str:
    words = []
    for p in workload.params:
        default = "|".join(p.choices) if p.choices else "N" if p.default is None else str(p.default)
        words.append(f"{p.flag} {default}")
    return " ".join(words)


class CaptureCommand(click.Command):
    """A command whose help ends with the workloads and their options."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Workloads, with their own options and defaults"):
            for workload in WORKLOADS.values():
                formatter.write_text(f"{workload.name}: {workload.text}")
                with formatter.indentation():
                    formatter.write_text(_flags(workload))


def _meaning(texts: dict[str, list[str]]) -> str:
    """What an option is, and of which workloads: theirs by text."""
    if len(texts) > 1:
        return "; ".join(f"{', '.join(owners)}: {text}" for text, owners in texts.items()) + "."
    ((text, owners),) = texts.items()
    return f"{text[:1].upper()}{text[1:]} ({', '.join(owners)})."


def workload_options() -> list[click.Parameter]:
    """A click option for each option of any workload; whether the workload has it is checked later."""
    meant: dict[str, dict[str, list[str]]] = {}
    choices: dict[str, list[str]] = {}
    for workload in WORKLOADS.values():
        for p in workload.params:
            meant.setdefault(p.name, {}).setdefault(p.help, []).append(workload.name)
            choices.setdefault(p.name, []).extend(p.choices)
    return [
        click.Option(
            ["--" + name.replace("_", "-"), name],
            type=click.Choice(list(dict.fromkeys(choices[name]))) if choices[name] else int,
            help=_meaning(texts),
        )
        for name, texts in meant.items()
    ]


def common_option(o: Option) -> click.Parameter:
    """The click option of an option that every capture has."""
    text = click.Path() if o.metavar in ("PATH", "DIR") else str
    return click.Option(
        [*(o.names or [o.flag]), o.name],
        # None for a flag: click 8.2.0 inverts flags of type bool.
        type={"choice": click.Choice(o.choices), "number": int, "text": text, "time": Span()}.get(o.kind),
        is_flag=o.kind == "flag",
        default=o.default,
        show_default=o.default is not None and o.default is not False and o.kind != "time",
        help=f"{o.help[0].upper()}{o.help[1:]}." if o.sentence is None else o.sentence,
        metavar=o.metavar,
        envvar=o.envvar,
    )


@click.command(cls=CaptureCommand, params=[*workload_options(), *map(common_option, OPTIONS)])
@click.argument(
    "words",
    nargs=-1,
    metavar="TARGET [-- SCRIPT_ARGS]...",
    shell_complete=lambda ctx, param, typed: words_or_files(WORKLOADS, typed),
)
@click.option(
    "--ranks",
    type=click.IntRange(1, 1024),
    metavar="N",
    help="Start N of it through torchrun, as for one per GPU; each records itself.",
)
@click.option("--open/--no-open", "open_app", default=True, help="Open the trace afterwards (on a terminal).")
@looks
def capture_command(
    words: tuple[str, ...],
    ranks: int | None,
    open_app: bool,
    theme: str | None,
    ascii: bool,
    **given: Any,
) -> None:
    """Profile TARGET under torch.profiler, in a separate process, and open the trace.

    TARGET is a built-in workload (below), module:function (each call is one step), a script.py or, with -m, a
    module. Of a program, each optimizer.step() is one step; --step-on names an annotation instead, and
    --duration records for a time. A program without steps is one step as a whole; Ctrl+C keeps what there is.

    A program is ended as soon as it is recorded; --run-to-end lets it finish. If it fails, its exit code
    becomes this command's. If it starts a profiler of its own, that is left alone, and its trace is opened.

    The files go into a folder inside DIR: the trace (.json), PyTorch's table (.txt), and the versions and
    options used (.meta.json). Without a terminal, a summary of the trace is printed.

    --ranks N, or torchrun --nproc-per-node N --no-python tracetui capture script.py: every rank captures
    itself, into files whose names end with its rank.
    """
    names = {p.name for w in WORKLOADS.values() for p in w.params}
    params = {name: value for name in names if (value := given.pop(name)) is not None}
    try:
        if not words:
            raise OptionError(f"name what to capture: {', '.join(WORKLOADS)}, module:function or a script.py")
        if words[0].endswith(".py") and not given["module"]:
            check_exists(words[0], 2)
        options = CaptureOptions(target=words[0], params=params, script_args=words[1:], **given)
        if ranks is not None:
            options.check()
            _capture_ranks(options, ranks, open_app, theme, ascii)
        result = _capture(options)
    except OptionError as error:
        unknown = words and words[0] not in WORKLOADS and ":" not in words[0] and not given["module"]
        fail(f"{error}{did_you_mean(words[0], WORKLOADS) if unknown else ''}", 2)
    rank = launched_rank()  # several ranks share one terminal: none may take it over
    app = open_app and rank is None and sys.stdout.isatty() and sys.stdin.isatty()
    from tracetui.cli.open import open_trace, print_summary

    if not app and not rank:
        with suppress(SystemExit):  # the files are there, even if this cannot be read
            print_summary(str(result.trace), ascii, in_turn=options.against is not None)
        if result.table is not None:
            emit("\nFiles written (PyTorch's own table is the .txt):")
    for path in result.files:
        click.echo(plain(str(path)), err=app)
    if report := os.environ.get(REPORT):
        with open(report, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(str(result.trace.absolute()) + "\n")
    if app:
        open_trace(str(result.trace), theme, ascii)
    leave(result.info.get("exit_status", 0))


def _capture_ranks(
    options: CaptureOptions, ranks: int, open_app: bool, theme: str | None, ascii: bool
) -> NoReturn:
    """Start captures of a script through torchrun, open what they recorded, and exit as torchrun does."""
    if options.kind not in PROGRAMS:
        raise OptionError("--ranks applies only to a script.py or -m MODULE")
    try:
        python, said = find_python(options.python)
    except StartError as error:
        fail(str(error))
    if said:
        warn(said)
    own = os.path.abspath(sys.argv[0])
    started = os.path.basename(own).startswith("tracetui") and os.access(own, os.X_OK)
    target, *rest = options.to_argv()
    command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command += ["--no-python", *([own] if started else [sys.executable, "-m", "tracetui"])]
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", errors="surrogateescape") as report:
        torchrun = subprocess.Popen(
            [*command, "capture", target, "--no-open", *rest], env={**os.environ, REPORT: report.name}
        )
        while True:
            try:
                with stop_signals():
                    status = torchrun.wait()
                break
            except Stopped as stop:  # each rank keeps what there is; Ctrl+C has reached them by itself
                if stop.signal != signal.SIGINT:
                    torchrun.send_signal(stop.signal)
        paths = sorted(report.read().splitlines())
    if paths and open_app and sys.stdout.isatty() and sys.stdin.isatty():
        from tracetui.cli.open import start as start_app
        from tracetui.session.folder import found_at

        start_app(theme, ascii, [found_at(Path(path)) for path in paths])
    sys.exit(status if status >= 0 else 128 - status)


def _capture(options: CaptureOptions) -> CaptureResult:
    """Run the capture, with its progress on stderr; exits if there is no result."""
    news: queue.Queue[CaptureEvent] = queue.Queue()
    line = StatusLine(options.kind == "workload" and sys.stderr.isatty())
    signals: list[int] = []
    with stop_signals(signals.append):  # all the time: a closed terminal sends several at once
        capture = start(options, news.put, inherit=True)
        end = _follow(capture, news, line, signals)
    if not isinstance(end, Done):
        _give_up(options, end, signals[0] if signals else 0)
    return end.result


def _give_up(options: CaptureOptions, end: Failed | Cancelled, stopped: int) -> NoReturn:
    """Say why there is no result. `stopped`: the signal that ended it, if one did."""
    if isinstance(end, Cancelled) or (stopped and end.kind in ("killed", "workload", "nothing")):
        fail("capture canceled; no file was written", 128 + stopped if stopped else 1)
    if options.kind == "workload":  # the output of user code has been shown already
        for text in end.tail:
            click.echo("  " + text, err=True)
    fail(end.message, end.exit_status or (2 if end.kind == "usage" else 1))


def _follow(
    capture: Capture, news: queue.Queue[CaptureEvent], line: StatusLine, signals: list[int]
) -> Done | Failed | Cancelled:
    """Show events until the end. On a terminal that includes a line for each phase of a workload.

    `signals` that come meanwhile stop the capture.
    """
    seen = 0
    while True:
        for number in signals[seen:]:
            # A program may clean up as it would without us. Who asks twice wants it to end now.
            # (torchrun sends its ranks SIGTERM after the SIGINT that a terminal sent them.)
            if number not in signals[:seen]:
                capture.stop(number)
            elif number != getattr(signal, "SIGHUP", None):
                capture.cancel()
            seen += 1
        try:
            event = news.get(timeout=0.1)
        except queue.Empty:
            line.show(capture.elapsed)
            continue
        if isinstance(event, Progress):
            line.update(event)
        elif isinstance(event, Note):
            line.say(
                f"note: {event.text}" if capture.options.kind == "workload" else f"tracetui: {event.text}"
            )
        elif isinstance(event, Output):
            if capture.options.kind != "workload":
                line.say(event.text)  # where a program cannot have our streams: as it would look without us
        else:
            line.finish(event.elapsed)
            return event


class StatusLine:
    """The running phase and its seconds in the terminal's last line; finished phases stay above."""

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        self._event: Progress | None = None
        self._began = 0.0

    def update(self, event: Progress) -> None:
        if self._event is None or event.phase is not self._event.phase:
            self.finish(event.elapsed)
            self._began = event.elapsed
        self._event = event
        self.show(event.elapsed)

    def show(self, now: float) -> None:
        if self._terminal and self._event is not None:
            width = os.get_terminal_size(2).columns if os.isatty(2) else 80
            text = f"{now - self._began:7.1f} s  {self._event.text}"
            click.echo("\r\x1b[K" + text[: width - 1], nl=False, err=True)

    def say(self, text: str) -> None:
        with suppress(OSError):  # the terminal was closed, or nobody reads the pipe: the recording goes on
            click.echo(("\r\x1b[K" if self._terminal else "") + text, err=True)

    def finish(self, now: float) -> None:
        """End the running phase's line; remove it if the phase was very short."""
        if self._terminal and self._event is not None:
            if now - self._began >= 0.05 or self._event.phase is Phase.PROFILING:
                self.show(now)
                click.echo(err=True)
            else:
                click.echo("\r\x1b[K", nl=False, err=True)
        self._event = None
