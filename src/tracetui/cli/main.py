"""The command group. A command's module is imported when the command runs."""

from __future__ import annotations

import errno
import importlib
import os
import sys
import warnings
from typing import Any

import click
from click.shell_completion import CompletionItem

from tracetui import __version__
from tracetui.cli.common import (
    cache_option,
    did_you_mean,
    harmless_errors,
    looks,
    near_file,
    open_closed_streams,
    output_failed,
    warn_of_plugins,
)
from tracetui.views.registry import OURS

COMMANDS = {
    # command: (module of tracetui.cli with the function COMMAND_command, one line for --help)
    "open": ("open", "Open a trace in the terminal viewer."),
    "demo": ("open", "Open a bundled sample trace."),
    "capture": ("capture", "Profile a workload or your code."),
    "run": ("run", "Start a command so that it can be recorded later."),
    "attach": ("attach", "Record a process that is running."),
    "env": ("run", 'Print the variables that "run" sets.'),
    "serve": ("serve", "Show a trace in a browser."),
    **{view.name: ("tables", view.title) for view in OURS.values()},
    "compare": ("compare", "Print what one trace does differently from another, and why."),
    "whatif": ("whatif", OURS["whatif"].title),
    "ranks": ("ranks", "Print which rank of a job the others wait for, and why."),
    "view": ("tables", "Print a view by its name, such as one of a plugin."),
    "check": ("check", "Report what is wrong with a file; write a clean copy."),
    "cache": ("cache", "Print or clear what is cached of large traces."),
    "completion": ("completion", "Print the script for Tab completion in bash, zsh or fish."),
}
VIEWERS = ("open", "demo", "capture", "attach", "serve")
"""The commands that open the viewer."""


def is_path(word: str) -> bool:
    """Whether a first word that is no command names a file or folder, which may be missing."""
    from tracetui.session.paths import is_file_name

    return word == "-" or os.path.lexists(word) or "/" in word or is_file_name(word)


def nearest(word: str) -> str:
    """`; did you mean X?`: a command, `demo SAMPLE`, `capture WORKLOAD` or a file."""
    from tracetui.capture.catalog import WORKLOADS
    from tracetui.session.samples import samples

    meant = {w: f"capture {w}" for w in WORKLOADS} | {s: f"demo {s}" for s in samples()}
    meant |= {command: command for command in COMMANDS}
    return did_you_mean(word, meant, meant.__getitem__) or near_file(word)


class LazyGroup(click.Group):
    """A group whose commands are imported on demand; `--help` needs only the table above."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with harmless_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with harmless_errors():
                return super().invoke(ctx)
        finally:  # after the viewer, which has the terminal for itself
            warn_of_plugins()

    def main(self, *args: Any, **kwargs: Any) -> Any:
        if sys.warnoptions:  # PYTHONWARNINGS and PYTHONDEVMODE are meant for a program that is captured
            warnings.simplefilter("ignore")
        open_closed_streams()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if error.errno not in (errno.EBADF, errno.ENOSPC, errno.EIO):
                raise
            output_failed(error)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command; `open` where a file stands in its place."""
        word = args[0]
        if word in COMMANDS:
            return super().resolve_command(ctx, args)
        if is_path(word):
            return "open", self.get_command(ctx, "open"), args
        if ctx.resilient_parsing:
            return None, None, args
        raise click.UsageError(f"no command or file {word!r}{nearest(word)}", ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Commands and options; also traces, as a word that is no command is a file."""
        from tracetui.cli.completion import file_item, traces_here

        found = [CompletionItem(name, help=line) for name, (_, line) in COMMANDS.items()]
        found = [item for item in found if item.value.startswith(incomplete)]
        if incomplete and not incomplete.startswith("-"):
            return found + traces_here(incomplete) if found else [file_item(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"tracetui.cli.{COMMANDS[cmd_name][0]}")
        command = getattr(module, f"{cmd_name}_command", None) or module.command_of(OURS[cmd_name])
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    from tracetui.core.plugins import installed, loaded

    click.echo(f"tracetui, version {__version__}")
    works = {plugin for plugin in installed() if any(one == plugin for one, _ in loaded(plugin.kind))}
    packages: dict[str, list[str]] = {}
    for plugin in installed():
        left_out = "" if plugin in works else " (left out)"
        packages.setdefault(plugin.package, []).append(f"{plugin.sort} {plugin.name}{left_out}")
    for package, adds in packages.items():
        click.echo(f"plugin {package}: {', '.join(adds)}")
    warn_of_plugins()
    ctx.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="[COMMAND | TRACE [TRACE] | FOLDER] [ARGS]...",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and the plugins, and exit.",
)
@cache_option
@looks
@click.pass_context
def main(ctx: click.Context, theme: str | None, ascii: bool) -> None:
    """A terminal trace viewer for PyTorch, with live capture.

    tracetui TRACE opens a trace, tracetui TRACE TRACE compares two, tracetui FOLDER lists the traces in a
    folder. Without arguments: open a recent trace, capture one, or look at a sample.

    TRACE is a file as torch.profiler writes it (.json or .pftrace; .gz, .zst), or - for standard input.
    """
    if ctx.invoked_subcommand is None:
        from tracetui.cli.open import start_screen

        start_screen(ctx, theme, ascii)
    elif (theme is not None or ascii) and ctx.invoked_subcommand not in VIEWERS:
        option = "--ascii" if ascii else "--theme"
        only = ", ".join(VIEWERS)
        raise click.UsageError(f"{option} is only for the viewer ({only}), not {ctx.invoked_subcommand}", ctx)
