"""The commands that print a view: those that `views.registry` declares, `summary` and `view`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracetui.cli.common import cache_option, check_exists, command_errors, did_you_mean, emit, trace_argument
from tracetui.cli.scopes import limits_callback, load_scope, scope_option
from tracetui.views.registry import VIEWS, View, ViewOption

if TYPE_CHECKING:
    from tracetui.analysis.part import Part
    from tracetui.views.answer import Answer
    from tracetui.views.writers import Record

F = TypeVar("F", bound=Callable[..., object])

FAILED_LIMIT = 3
"""The exit code if a metric is under its limit."""


def formats(function: Callable[..., None]) -> Callable[..., None]:
    """The options `--json` and `--markdown`, as the one argument `form`."""

    def choose(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value and ctx.meta.setdefault("form", param.name) != param.name:
            raise click.UsageError("use either --json or --markdown, not both", ctx)

    function = click.option(
        "--markdown",
        is_flag=True,
        expose_value=False,
        callback=choose,
        help="Markdown, to paste into an issue.",
    )(function)
    return click.option(
        "--json", is_flag=True, expose_value=False, callback=choose, help="Strict JSON, for scripts."
    )(function)


def chosen_format() -> str:
    """One of "json", "markdown", "text"."""
    form: str = click.get_current_context().meta.get("form", "text")
    return form


def print_answer(answer: Answer) -> None:
    """Write an answer to standard output in the chosen format, and its notes beside a text."""
    from tracetui.views.jsonable import dumps
    from tracetui.views.terminal import render, terminal_width

    if chosen_format() == "json":
        emit(dumps(answer.data()))
    elif chosen_format() == "markdown":
        emit(answer.markdown())
    else:
        text = answer.lines(terminal_width())
        emit(text if isinstance(text, str) else render(text))
        for note in answer.notes:
            click.echo(note, err=True)


def command_of(view: View) -> click.Command:
    """The command that prints a view."""

    def command(trace: str, scope: str, **given: Any) -> None:
        print_view(view.name, load_scope(trace, scope, given.get("annotation")), given)

    decorated: Callable[..., None] = scope_option(formats(command_errors(command)))
    for option in reversed(view.options):
        decorated = _option(option)(decorated)
    about = f"{view.title}\n\n{cleandoc(view.about)}"
    return click.command(view.name, help=about)(trace_argument(decorated))


def _option(option: ViewOption) -> Callable[[F], F]:
    parse, default = option.parse, option.default

    def parsed(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            return parse(value) if parse is not None and value is not None else value
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    flag = isinstance(default, bool)
    number = not flag and (isinstance(default, int) or option.least > 0)
    words = click.Choice(option.choices) if option.choices else None
    return click.option(
        option.flag or f"--{option.name.replace('_', '-')}",
        option.name,
        type=click.IntRange(option.least) if number else words,
        is_flag=flag,
        default=default,
        show_default=bool(default) and parse is None,
        callback=parsed,
        metavar=option.metavar,
        help=option.help,
    )


def print_view(name: str, part: Part, options: Record) -> None:
    """Print a view in the chosen format."""
    from tracetui.views.terminal import is_terminal

    if name == "table":
        options = {**options, "fit": is_terminal()}
    print_answer(VIEWS[name].make(part, **options))


@click.command("summary")
@trace_argument
@click.option(
    "--fail-under",
    "limits",
    metavar="METRIC=SHARE",
    callback=limits_callback,
    multiple=True,
    help="Exit with code 3 if a metric is below this share: busy, step-busy, device-busy or overlap, "
    "e.g. busy=0.8. Repeatable.",
)
@scope_option
@formats
@command_errors
def summary_command(trace: str, limits: tuple[tuple[str, float], ...], scope: str) -> None:
    """Print what is in a trace and where to look: the verdict, idle time by cause, steps, kernels."""
    from tracetui.core.threads import import_numpy

    import_numpy()
    from tracetui.views.document_text import document_lines, document_markdown
    from tracetui.views.summary_cache import METRICS, file_name, kept_summary
    from tracetui.views.terminal import render, terminal_width

    for name, _ in limits:
        if name not in METRICS:
            raise click.BadParameter(
                f"expected one of {', '.join(METRICS)}; got {name!r}", param_hint="--fail-under"
            )
    form, title = chosen_format(), file_name(trace)
    kept = kept_summary(trace, form == "json") if scope == "whole" else None
    if kept is None:
        check_exists(trace)
        # Imported while the trace is read: most of that is not Python's work.
        threading.Thread(target=import_module, args=("tracetui.views.summary",)).start()
        part = load_scope(trace, scope)
        from tracetui.views.summary import find_summary

        kept, title = find_summary(part, form == "json"), file_name(part.trace.info.path)
    found, json = kept
    if form == "json":
        emit(json)
    elif form == "markdown":
        emit(document_markdown(found.document, title))
    else:
        emit(render(document_lines(found.document, title, terminal_width())))
    failed = False
    for name, least in limits:
        value = found.metrics[name]
        if value is None or value < least:
            failed = True
            shown = "is not known" if value is None else f"is {value:.3f}"
            click.echo(f"tracetui: {name} {shown}, below {least:g}", err=True)
    if failed:
        sys.exit(FAILED_LIMIT)


@click.command("view")
@click.argument(
    "name",
    required=False,
    shell_complete=lambda ctx, param, typed: [name for name in VIEWS if name.startswith(typed)],
)
@click.argument("trace", required=False, type=click.Path(path_type=str, allow_dash=True))
@cache_option
@scope_option
@formats
@command_errors
def view_command(name: str | None, trace: str | None, scope: str) -> None:
    """Print the view NAME of TRACE. Without arguments: list the views, with those that plugins add.

    tracetui gaps TRACE is tracetui view gaps TRACE, with options of its own.
    """
    if name is None:
        emit(repr(VIEWS))
        return
    if name not in VIEWS:
        expected = did_you_mean(name, VIEWS) or f": expected one of {', '.join(VIEWS)}"
        raise click.UsageError(f"no view {name[:60]!r}{expected}")
    if trace is None:
        raise click.UsageError(f"name a trace: tracetui view {name} TRACE")
    print_view(name, load_scope(trace, scope), {})
