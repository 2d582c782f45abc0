"""Write the man page, docs/tracetui.1, from the commands: python docs/man.py"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from tracetui import __version__
from tracetui.cli.main import COMMANDS, main

PAGE = Path(__file__).with_name("tracetui.1")


def plain(text: str) -> str:
    """Text that roff shows as it is."""
    lines = text.replace("\\", r"\e").replace("-", r"\-").splitlines()
    return "\n".join(rf"\&{line}" if line[:1] in (".", "'") else line for line in lines)


def described(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """The help of a command, its options, and what its help ends with."""
    for block in inspect.cleandoc(command.help or "").split("\n\n"):
        yield f".nf\n{plain(block[2:])}\n.fi" if block.startswith("\b\n") else f".PP\n{plain(block)}"
    for option in command.params:
        if isinstance(option, click.Option) and (record := option.get_help_record(ctx)):
            yield f".TP\n.B {plain(record[0])}\n{plain(record[1])}"
    end = click.HelpFormatter(width=76)
    command.format_epilog(ctx, end)
    if end.getvalue():
        yield f".PP\n.nf\n{plain(end.getvalue().strip())}\n.fi"


def page() -> str:
    """The whole page, in roff."""
    top = click.Context(main, info_name="tracetui")
    parts = [
        f'.TH TRACETUI 1 "" "tracetui {__version__}"',
        f".SH NAME\ntracetui \\- {plain((main.help or '').split('.')[0])}",
        f".SH SYNOPSIS\n{plain(' '.join(['tracetui', *main.collect_usage_pieces(top)]))}",
        ".SH DESCRIPTION",
        *described(main, top),
        ".SH COMMANDS",
    ]
    for name in COMMANDS:
        command = main.get_command(top, name)
        assert command is not None
        ctx = click.Context(command, info_name=name, parent=top)
        parts += [f".SS {plain(' '.join(['tracetui', name, *command.collect_usage_pieces(ctx)]))}"]
        parts += described(command, ctx)
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
