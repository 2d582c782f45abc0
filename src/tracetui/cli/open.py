"""`tracetui open` and `tracetui demo`: show a trace in the viewer, or its summary without a terminal.

Two are compared.

A folder has its traces listed.
"""

from __future__ import annotations

import gc
import io
import os
import sys
import time
from typing import TYPE_CHECKING

import click

from tracetui.cli.common import (
    cache_option,
    check_exists,
    command_errors,
    did_you_mean,
    emit,
    fail,
    leave,
    looks,
    traces_or_exit,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracetui.capture.live.model import Rerun
    from tracetui.session.folder import Found
    from tracetui.tui.settings import Settings


def check(path: str) -> None:
    """Exit at once for what is cheap to check: a missing file, an empty file."""
    from tracetui.core.safe_text import plain

    if path == "-":
        return
    check_exists(path)
    shown = plain(path)
    try:
        if os.path.isdir(path):
            return
        if os.stat(path).st_size == 0 and os.path.isfile(path):
            fail(f"{shown}: is empty")
        with open(path, "rb"):
            pass
    except OSError as error:
        fail(f"{shown}: {(error.strerror or 'cannot be read').lower()}")


def _settings(theme: str | None = None, ascii: bool = False, quiz: bool = False) -> Settings:
    """The user's settings, overridden by the command line. A quiz opens no pane: they tell the answer."""
    from tracetui.core.copying import replace
    from tracetui.tui.settings import SettingsError, load_settings

    try:
        found = load_settings()
    except SettingsError as error:
        fail(str(error), 2)
    found = replace(found, theme=theme or found.theme, ascii=ascii or found.ascii)
    return replace(found, quiz=True, pane="none") if quiz else found


def open_trace(
    path: str,
    theme: str | None = None,
    ascii: bool = False,
    other: str | None = None,
    again: Rerun | None = None,
    quiz: bool = False,
) -> None:
    """Open a trace in the viewer, or print its summary if standard output is no terminal.

    `theme` and `ascii` override the user's settings; `other` is a trace to compare it with; `again`: how it
    was recorded of a running process; `quiz`: the verdict is covered until a key.
    """
    paths = [path] if other is None else [path, other]
    if paths == ["-", "-"]:
        raise click.UsageError("only one of the two can be standard input")
    for one in paths:
        check(one)
    if os.path.isdir(path) and other is None:
        _open_folder(path, theme, ascii)
        return
    for one in paths:
        if os.path.isdir(one):
            fail(f"{one}: is a folder: two traces are compared")
    from tracetui.session.state import served

    if not sys.stdout.isatty() and not served():
        print_summary(path, ascii, other)
        return
    if "-" in paths and sys.stdin.isatty():
        fail("standard input is a terminal: pipe a trace into it, or name a file")
    if "-" in paths:
        _keyboard_from_terminal()
    gc.disable()  # until the first picture is there: see `TracetuiApp.on_mount`
    from tracetui.tui.loading import LoadTask

    tasks = [LoadTask(one, draws=other is None).start() for one in paths]  # load while Textual is imported
    settings = _settings(theme, ascii, quiz)
    from tracetui.tui.app import TracetuiApp

    app = TracetuiApp(tasks[0], settings, others=tasks[1:])
    app.recorder.remember(path, again)
    app.run()
    for task in tasks:
        if task.error is not None:
            fail(task.error)
    if app.return_code:
        leave(app.return_code)


def _open_folder(folder: str, theme: str | None, ascii: bool) -> None:
    """The start screen with the traces of a folder, or their list if standard output is no terminal."""
    from tracetui.session.paths import TRACE_ENDINGS

    none = f"no torch.profiler traces in this folder ({', '.join(TRACE_ENDINGS)})"
    found = traces_or_exit(folder, none)
    if sys.stdout.isatty() and sys.stdin.isatty():
        start(theme, ascii, found)
    else:
        emit("\n".join(_listing(found)))


def _listing(found: list[Found]) -> list[str]:
    """One line per trace: size, age, path; then how to open one."""
    import shlex

    from tracetui.core.safe_text import plain
    from tracetui.core.units import size
    from tracetui.session.recent import ago

    now = time.time()
    lines = [f"{size(f.bytes):>8}  {ago(now - f.changed):>10}  {plain(str(f.path))}" for f in found]
    return [*lines, "", f"To open one: tracetui {plain(shlex.quote(str(found[0].path)))}"]


def start_screen(ctx: click.Context, theme: str | None, ascii: bool) -> None:
    """`tracetui` alone. Raises UsageError without a terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError("no trace given (there is no start screen without a terminal)", ctx)
    start(theme, ascii)


def start(
    theme: str | None = None, ascii: bool = False, found: Sequence[Found] = (), again: Rerun | None = None
) -> None:
    """`tracetui` alone: a recent trace, a capture or a sample; `found`: the traces of a folder, first.

    `again`: how these were recorded of running processes.
    """
    from tracetui.tui.app import TracetuiApp

    app = TracetuiApp(settings=_settings(theme, ascii), found=found)
    for one in found:
        app.recorder.remember(one.path, again)
    app.run()
    if app.return_code:
        leave(app.return_code)


def _keyboard_from_terminal() -> None:
    """Standard input is the trace: keep it for the loader, and make the terminal descriptor 0."""
    sys.stdin = os.fdopen(os.dup(0), "r")
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        fail("no terminal to read keys from")
    os.dup2(terminal, 0)
    os.close(terminal)
    sys.__stdin__ = os.fdopen(0, "r", closefd=False)  # type: ignore[misc]


def print_summary(path: str, ascii: bool = False, other: str | None = None, in_turn: bool = False) -> None:
    """What `tracetui summary` prints; of two traces, or of A and B in turn, what `tracetui compare` does."""
    from tracetui.cli.compare import compare_command
    from tracetui.cli.tables import summary_command

    if ascii and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="ascii")  # other characters get their ASCII fallback
    paths = [path] if other is None else [path, other]
    command = compare_command if in_turn or other is not None else summary_command
    command.main(args=["--", *paths], prog_name=f"tracetui {command.name}", standalone_mode=False)


quiz_option = click.option(
    "--quiz", is_flag=True, help="Cover the verdict until h is pressed: look and guess first."
)


@click.command("open")
@click.argument("traces", nargs=-1, metavar="[TRACE] [OTHER]", type=click.Path(allow_dash=True))
@cache_option
@quiz_option
@looks
@command_errors
@click.pass_context
def open_command(
    ctx: click.Context, traces: tuple[str, ...], theme: str | None, ascii: bool, quiz: bool
) -> None:
    """Open TRACE (.json, .json.gz, .json.zst, .pftrace, .pftrace.gz, .pftrace.zst, or - for standard input)
    in the viewer; without one, choose it there.

    With a second trace, OTHER, the two are compared: one above the other, on one time axis. If TRACE is a
    folder, the traces in it are listed. If standard output is not a terminal, a summary of the trace is
    printed instead, or what "compare" prints. "tracetui TRACE" and "tracetui TRACE OTHER" do the same.
    """
    if len(traces) > 2:
        raise click.UsageError(f"at most two traces can be opened together; got {len(traces)}")
    if quiz and len(traces) != 1:
        raise click.UsageError("--quiz takes one trace")
    if not traces:
        start_screen(ctx, theme, ascii)
    else:
        open_trace(traces[0], theme, ascii, traces[1] if len(traces) == 2 else None, quiz=quiz)


def _complete_sample(ctx: click.Context, param: click.Parameter, typed: str) -> list[str]:
    from tracetui.session.samples import samples

    return [name for name in samples() if name.startswith(typed)]


@click.command("demo")
@click.argument("name", required=False, shell_complete=_complete_sample)
@click.option("--list", "listing", is_flag=True, help="List the bundled samples.")
@quiz_option
@looks
def demo_command(name: str | None, listing: bool, theme: str | None, ascii: bool, quiz: bool) -> None:
    """Open a bundled sample trace: train, or the one whose name is or contains NAME."""
    from tracetui.session.samples import ABOUT, samples

    found = samples()
    if not found:
        fail("this installation has no samples")
    if listing:
        from tracetui.core.units import size

        width = max(map(len, found)) + 2
        emit(
            "\n".join(
                f"{key:<{width}} {size(path.stat().st_size):>8}  {ABOUT.get(key, '')}".rstrip()
                for key, path in found.items()
            )
        )
        return
    if name is None:
        name = next((n for n in found if "train" in n), next(iter(found)))
    near = [n for n in found if n == name] or [n for n in found if name in n]
    if not near:
        fail(f"no sample {name[:60]!r}{did_you_mean(name, found)} (tracetui demo --list names all)")
    open_trace(str(found[near[0]]), theme, ascii, quiz=quiz)
