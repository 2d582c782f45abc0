"""Scopes and limits as people type them: `step:3`, `range:10us..20us`, `busy=0.8`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tracetui.cli.common import load_or_exit

if TYPE_CHECKING:
    from tracetui.analysis.part import Part, Scope
    from tracetui.trace import Trace


def limits_callback(
    ctx: click.Context, param: click.Parameter, values: tuple[str, ...]
) -> tuple[tuple[str, float], ...]:
    """Metrics and their lower limits: `busy=0.8`, `busy=80%`."""
    return tuple(_limit(value, ctx, param) for value in values)


def _limit(value: str, ctx: click.Context, param: click.Parameter) -> tuple[str, float]:
    metric, found, number = value.partition("=")
    try:
        least = float(number.rstrip("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        least = -1.0
    if not found or not 0 <= least <= 1:
        text = f"expected METRIC=SHARE, for example busy=0.8 or busy=80%; got {value[:40]!r}"
        raise click.BadParameter(text, ctx, param)
    return metric.strip().lower(), least


scope_option = click.option(
    "--scope",
    metavar="SCOPE",
    default="whole",
    show_default=True,
    help="Part of the trace: whole, step:N, or range:FROM..TO (times from its start, e.g. range:10us..2ms).",
)


def load_scope(path: str, text: str, annotation: str | None = None) -> Part:
    """A trace file, or the scope that `text` names in it. `annotation`: each call of it is a step."""
    trace = load_or_exit(path)
    from tracetui.analysis.part import Part

    return Part(trace).in_scope(parse_scope(trace, text, annotation))


def parse_scope(trace: Trace, text: str, annotation: str | None = None) -> Scope:
    """The scope that `text` names in this trace. Raises click.BadParameter if there is no such scope."""
    from tracetui.analysis.steps.scope import scope_named

    try:
        return scope_named(trace, text, annotation)
    except (LookupError, ValueError) as error:
        raise click.BadParameter(str(error.args[0]), param_hint="--scope") from None
