"""`whatif`: what each fix would be worth in a recording."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import click

from tracetui.cli.common import command_errors, trace_argument
from tracetui.cli.scopes import load_scope
from tracetui.cli.tables import formats, print_view


def _times(text: str) -> float | None:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{0,9})?|\.\d{1,9})x?", text.strip(), re.ASCII)
    return float(match[1]) if match else None


def _cpu(ctx: click.Context, param: click.Parameter, value: str) -> float:
    factor = _times(value)
    if not factor:
        raise click.BadParameter(f"expected a number above 0, for example 2x; got {value[:40]!r}", ctx, param)
    return factor


def _kernels(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, float], ...]:
    found = []
    for value in values:
        name, _, factor = value.rpartition("=")
        times = _times(factor)
        if not name or times is None:
            text = f"expected NAME=0.5x (half its time); got {value[:60]!r}"
            raise click.BadParameter(text, ctx, param)
        found.append((name, times))
    return tuple(found)


@click.command("whatif")
@trace_argument
@click.option("--graphs", is_flag=True, help="What is launched between two waits comes in one call.")
@click.option("--cpu", metavar="2x", default="1x", callback=_cpu, help="The CPU is so many times as fast.")
@click.option(
    "--without",
    metavar="NAME",
    multiple=True,
    help="This op, annotation, function, call or kernel is not there, nor what it launches. Repeatable.",
)
@click.option(
    "--kernel",
    metavar="NAME=0.5x",
    multiple=True,
    callback=_kernels,
    help="This kernel or copy takes such a part of its time. Repeatable.",
)
@click.option("--no-sync", is_flag=True, help="No call waits for the device.")
@click.option("--overlap", is_flag=True, help="Copies and collectives run beside all other work.")
@formats
@command_errors
def whatif_command(trace: str, **options: Any) -> None:
    """Print what each fix would be worth in this recording, by a replay of it.

    With options, also how long a step would have taken if all of them were so. A NAME that nothing has stands
    for all that contain it. Worths are of the whole recording: no forecast of another one. Of a capture of a
    built-in workload, it says which command measures one of them: see "tracetui capture --against".
    """
    from tracetui.capture.measure import captured_workload, commands

    options["measures"] = partial(commands, captured_workload(trace))
    print_view("whatif", load_scope(trace, "whole"), options)
