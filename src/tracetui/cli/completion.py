"""`tracetui completion`: the script that makes Tab complete, and what words are completed to."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem, get_completion_class

from tracetui.cli.common import emit
from tracetui.session.paths import may_be_trace

SHELLS = ("bash", "zsh", "fish")


def file_item(typed: str) -> CompletionItem:
    """Leaves it to the shell to complete a path."""
    return CompletionItem(typed, type="file")


def words_or_files(words: Iterable[str], typed: str) -> list[CompletionItem]:
    """The words that begin as typed; paths if there is none."""
    return [CompletionItem(word) for word in words if word.startswith(typed)] or [file_item(typed)]


def traces_here(typed: str) -> list[CompletionItem]:
    """Traces and folders in the working directory that begin as typed and need no quotes in a shell."""
    names = sorted(name for name in os.listdir() if name.startswith(typed) and shlex.quote(name) == name)
    shown = [name + "/" if os.path.isdir(name) else name for name in names]
    return [CompletionItem(name) for name in shown if name.endswith("/") or may_be_trace(name)]


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the script that lets Tab complete commands, options, files, samples and workloads in SHELL.

    To install it, run one of these and start a new shell:

    \b
      tracetui completion bash >> ~/.bashrc
      tracetui completion zsh >> ~/.zshrc        (below the line with compinit)
      tracetui completion fish > ~/.config/fish/completions/tracetui.fish
    """
    found = get_completion_class(shell)
    assert found is not None
    emit(found(ctx.find_root().command, {}, "tracetui", "_TRACETUI_COMPLETE").source())
