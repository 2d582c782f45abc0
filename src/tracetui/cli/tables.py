"""`table`, `gaps`, `steps`, `findings`, `summary`, `efficiency`, `view`: print what is in a trace."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracetui.cli.common import cache_option, check_exists, command_errors, did_you_mean, emit, trace_argument
from tracetui.cli.scopes import duration_callback, limits_callback, load_scope, scope_option
from tracetui.views.registry import VIEWS

if TYPE_CHECKING:
    from tracetui.analysis.part import Part
    from tracetui.views.lines import Line
    from tracetui.views.writers import Record

F = TypeVar("F", bound=Callable[..., object])

FAILED_LIMIT = 3
"""The exit code if a metric is under its limit."""

GROUP_CHOICES = ("name", "shape", "annotation", "module", "kernel", "op", "overload")
SORT_CHOICES = (
    "self_cuda_time_total",
    "self_cpu_time_total",
    "cuda_time_total",
    "cpu_time_total",
    "cuda_time",
    "cpu_time",
    "count",
    "name",
    "self_cuda_memory_usage",
    "self_cpu_memory_usage",
    "cuda_memory_usage",
    "cpu_memory_usage",
)
ALIASES = {"calls": "count"}


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


def write(
    as_json: Callable[[], Any], as_markdown: Callable[[], str], as_text: Callable[[int], str | list[Line]]
) -> None:
    """Write a result to standard output in the chosen format. `as_text` gets the terminal's width."""
    from tracetui.views.jsonable import dumps
    from tracetui.views.terminal import render, terminal_width

    if chosen_format() == "json":
        emit(dumps(as_json()))
    elif chosen_format() == "markdown":
        emit(as_markdown())
    else:
        text = as_text(terminal_width())
        emit(text if isinstance(text, str) else render(text))


def command_of_view(*options: Callable[[F], F]) -> Callable[[Callable[..., Record]], click.Command]:
    """Makes a command of the view of its name. The function gets the values of the options, and returns those
    of the view; its text is the command's help."""

    def decorate(function: Callable[..., Record]) -> click.Command:
        name = function.__name__.removesuffix("_command")

        @functools.wraps(function)
        def command(trace: str, scope: str, **given: Any) -> None:
            print_view(name, load_scope(trace, scope, given.get("annotation")), function(**given))

        decorated: Callable[..., None] = formats(command_errors(command))
        for option in (*reversed(options), trace_argument):
            decorated = option(decorated)
        return click.command(name)(decorated)

    return decorate


def print_view(name: str, part: Part, options: Record) -> None:
    """Print a view in the chosen format."""
    answer = VIEWS[name].make(part, **options)
    write(answer.data, answer.markdown, answer.lines)
    for note in answer.notes if chosen_format() == "text" else ():
        click.echo(note, err=True)


def _column(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    name = ALIASES.get(value.lower(), value.lower()).replace("device", "cuda").replace("xpu", "cuda")
    if name not in SORT_CHOICES:
        raise click.BadParameter(f"expected one of {', '.join(SORT_CHOICES)}; got {value!r}", ctx, param)
    return name


@command_of_view(
    click.option("--sort", metavar="COLUMN", callback=_column, help=f"One of {', '.join(SORT_CHOICES)}."),
    click.option("--limit", type=click.IntRange(min=0), default=0, help="Rows to print; 0 prints all."),
    scope_option,
    click.option(
        "--group",
        type=click.Choice(GROUP_CHOICES),
        default="name",
        show_default=True,
        help="One row per name; or per name and input shapes, enclosing annotation, module or overload; or "
        "per kernel, or kernel and op.",
    ),
    click.option("--python-functions", is_flag=True, help="Include Python functions, as PyTorch 2.13 does."),
    click.option(
        "--name-width", type=click.IntRange(min=8), help="Widest name column; PyTorch's default is 55."
    ),
)
def table_command(**options: Any) -> Record:
    """Print the averages table: the rows and numbers of PyTorch's key_averages().table().

    The text has PyTorch's layout. Rows are sorted by device time, or by CPU time if no device was recorded,
    unless --sort says otherwise.

    PyTorch before 2.15 can count unrelated kernels on rows of the profiler's own overhead, such as "Activity
    Buffer Request"; tracetui does not.
    """
    from tracetui.views.terminal import is_terminal

    return {**options, "fit": is_terminal()}


@command_of_view(
    click.option(
        "--min",
        "minimum",
        metavar="TIME",
        callback=duration_callback,
        default="0us",
        help="Only gaps of at least this length, e.g. 5us.",
    ),
    click.option(
        "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Gaps to print as text."
    ),
    scope_option,
)
def gaps_command(**options: Any) -> Record:
    """Print the gaps: when a GPU ran nothing on any stream, and why.

    Totals count every gap, whatever --min says. --json lists every gap in time order.
    """
    return options


@command_of_view(
    click.option("--annotation", metavar="NAME", help="Treat each call of this annotation as a step."),
    click.option(
        "--limit", type=click.IntRange(min=0), default=0, help="Steps to print as text; 0 prints all."
    ),
    scope_option,
)
def steps_command(**options: Any) -> Record:
    """Print one row per step: how long it took, what it launched, and how long the GPU was idle.

    GPU work belongs to the step that launched it, even if it runs after that step has ended on the CPU.
    """
    return options


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
    from tracetui.views.kept_summary import METRICS, WIDEST, keep_forms, kept_forms
    from tracetui.views.terminal import render, terminal_width

    for name, _ in limits:
        if name not in METRICS:
            raise click.BadParameter(
                f"expected one of {', '.join(METRICS)}; got {name!r}", param_hint="--fail-under"
            )
    width, form = min(terminal_width(), WIDEST), chosen_format()
    forms = kept_forms(trace) if scope == "whole" else None
    if forms is not None and width in forms.lines and (form != "json" or forms.json):
        text, metrics = {"json": forms.json, "markdown": forms.markdown}.get(form), forms.metrics
        emit(render(forms.lines[width]) if text is None else text)
    else:
        check_exists(trace)
        # Imported while the trace is read: most of that is not Python's work.
        threading.Thread(target=import_module, args=("tracetui.views.summary",)).start()
        part = load_scope(trace, scope)
        from tracetui.trace.saved import keeps
        from tracetui.views.summary import every_form, metric, summarize, summary_form

        summary = summarize(part)
        metrics = {name: metric(summary, name) for name, _ in limits}
        said = summary_form(summary, form, width)
        emit(said if isinstance(said, str) else render(said))
        if scope == "whole" and keeps(part.trace.reader.source):
            keep_forms(part.trace.reader.source, every_form(summary, width, 80, WIDEST))
    failed = False
    for name, least in limits:
        value = metrics[name]
        if value is None or value < least:
            failed = True
            shown = "is not known" if value is None else f"is {value:.3f}"
            click.echo(f"tracetui: {name} {shown}, below {least:g}", err=True)
    if failed:
        sys.exit(FAILED_LIMIT)


@command_of_view(scope_option)
def findings_command() -> Record:
    """Print the findings: what to notice, why it matters, what to try, and the events that show it."""
    return {}


@command_of_view(
    click.option(
        "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Rows; 0 prints all."
    ),
    scope_option,
)
def efficiency_command(**options: Any) -> Record:
    """Print achieved TFLOP/s and GB/s of operators and kernels, and their share of the device's peak.

    The work is computed from the recorded shapes (record_shapes=True); the time is that of the GPU events.
    """
    return options


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
