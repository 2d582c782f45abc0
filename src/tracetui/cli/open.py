"""`tracetui open` and `tracetui demo`: show a trace in the viewer, or its summary without a terminal."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

import click

from tracetui.cli.common import fail, looks

if TYPE_CHECKING:
    from tracetui.tui.settings import Settings


def check(path: str) -> None:
    """Exit at once for what is cheap to check: a missing file, a directory, an empty file."""
    from tracetui.safe_text import plain

    if path == "-":
        return
    shown = plain(path)
    try:
        if os.path.isdir(path):
            fail(f"{shown}: is a directory, not a trace")
        if os.stat(path).st_size == 0 and os.path.isfile(path):
            fail(f"{shown}: is empty")
        with open(path, "rb"):
            pass
    except OSError as error:
        fail(f"{shown}: {(error.strerror or 'cannot be read').lower()}")


def _settings(theme: str | None = None, ascii: bool = False) -> Settings:
    """The user's settings, overridden by the command line."""
    from dataclasses import replace

    from tracetui.tui.settings import SettingsError, load_settings

    try:
        found = load_settings()
    except SettingsError as error:
        fail(str(error), 2)
    return replace(found, theme=theme or found.theme, ascii=ascii or found.ascii)


def open_trace(path: str, theme: str | None = None, ascii: bool = False) -> None:
    """Open a trace in the viewer, or print its summary if standard output is no terminal.

    `theme` and `ascii` override the user's settings.
    """
    check(path)
    if not sys.stdout.isatty():
        if ascii and isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="ascii")  # other characters get their ASCII fallback
        print_summary(path)
        return
    if path == "-" and sys.stdin.isatty():
        fail("standard input is a terminal: pipe a trace into it, or name a file")
    from tracetui.tui.loading import LoadTask

    settings = _settings(theme, ascii)
    if path == "-":
        _keyboard_from_terminal()
    task = LoadTask(path).start()  # loads while Textual is imported
    from tracetui.tui.app import TracetuiApp

    app = TracetuiApp(task, settings)
    app.run()
    if task.error is not None:
        fail(task.error)
    _leave(app.return_code)


def start(theme: str | None = None, ascii: bool = False) -> None:
    """`tracetui` alone: a recent trace, a capture or a sample."""
    from tracetui.tui.app import TracetuiApp

    app = TracetuiApp(settings=_settings(theme, ascii))
    app.run()
    _leave(app.return_code)


def _leave(code: int | None) -> None:
    if code:
        raise SystemExit(code)


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


def print_summary(path: str) -> None:
    """What `tracetui summary` prints."""
    from tracetui.cli.tables import summary_command

    summary_command.main(args=[path], prog_name="tracetui summary", standalone_mode=False)


@click.command("open")
@click.argument("trace", type=click.Path(allow_dash=True))
@looks
def open_command(trace: str, theme: str | None, ascii: bool) -> None:
    """Open TRACE (.json, .json.gz, .json.zst, or - for standard input) in the viewer.

    Where standard output is no terminal, its summary is printed instead.
    """
    open_trace(trace, theme, ascii)


@click.command("demo")
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="List the bundled samples.")
@looks
def demo_command(name: str | None, listing: bool, theme: str | None, ascii: bool) -> None:
    """Open a bundled sample trace."""
    from tracetui.session.samples import samples

    found = samples()
    if not found:
        fail("no samples are bundled with this installation")
    if listing:
        from tracetui.session.samples import ABOUT
        from tracetui.units import size

        width = max(map(len, found))
        for key, path in found.items():
            click.echo(f"{key:<{width}} {size(path.stat().st_size):>8}  {ABOUT.get(key, '')}".rstrip())
        return
    if name is None:
        name = next((n for n in found if "train" in n), next(iter(found)))
    near = [n for n in found if n == name] or [n for n in found if name in n]
    if not near:
        fail(f"no sample is called {name!r}: see tracetui demo --list")
    open_trace(str(found[near[0]]), theme, ascii)
