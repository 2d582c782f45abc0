"""`table`, `gaps`, `steps`, `findings`, `summary`, `efficiency`: print what is in a trace."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from tracetui.cli.common import check_exists, command_errors, emit, load_or_exit, trace_argument
from tracetui.cli.scopes import duration_callback, limits_callback, load_scope, parse_scope, scope_option
from tracetui.core.units import plural

if TYPE_CHECKING:
    from tracetui.views.lines import Line

FAILED_LIMIT = 3
"""The exit code if a metric is under its limit."""

GROUP_CHOICES = ("name", "shape", "annotation", "module", "kernel", "op")
UNGROUPED = {
    "shape": "the trace has no shapes: record with record_shapes=True",
    "annotation": "the trace has no annotations: add them with torch.profiler.record_function",
    "module": "the trace has no modules: record with with_stack=True",
}
"""What is said where no row has anything to be grouped by."""
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


def _column(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is None:
        return None
    name = ALIASES.get(value.lower(), value.lower()).replace("device", "cuda").replace("xpu", "cuda")
    if name not in SORT_CHOICES:
        raise click.BadParameter(f"expected one of {', '.join(SORT_CHOICES)}; got {value!r}", ctx, param)
    return name


@click.command("table")
@trace_argument
@click.option("--sort", metavar="COLUMN", callback=_column, help=f"One of {', '.join(SORT_CHOICES)}.")
@click.option("--limit", type=click.IntRange(min=0), default=0, help="Rows to print; 0 prints all.")
@scope_option
@click.option(
    "--group",
    type=click.Choice(GROUP_CHOICES),
    default="name",
    show_default=True,
    help="One row per name; or per name and input shapes, enclosing annotation or module; or per kernel, or "
    "kernel and op.",
)
@click.option("--python-functions", is_flag=True, help="Include Python functions, as PyTorch 2.13 does.")
@click.option("--name-width", type=click.IntRange(min=8), help="Widest name column; PyTorch's default is 55.")
@formats
@command_errors
def table_command(
    trace: str,
    sort: str | None,
    limit: int,
    scope: str,
    group: str,
    python_functions: bool,
    name_width: int | None,
) -> None:
    """Print the averages table: the rows and numbers of PyTorch's key_averages().table().

    The text has PyTorch's layout. Rows are sorted by device time, or by CPU time if no device was recorded,
    unless --sort says otherwise.

    PyTorch before 2.15 can count unrelated kernels on rows of the profiler's own overhead, such as "Activity
    Buffer Request"; tracetui does not.
    """
    part = load_scope(trace, scope)
    from tracetui.analysis.calls.averages import averages_of, memory_use_of
    from tracetui.analysis.calls.calls import calls_of
    from tracetui.analysis.calls.pytorch_times import pytorch_times
    from tracetui.views.averages import averages_json, averages_markdown
    from tracetui.views.pytorch_table import FULL_NAME_WIDTH, device_header, pytorch_table, sort_rows
    from tracetui.views.terminal import is_terminal

    table = averages_of(part, group, python_functions)
    times = pytorch_times(part.trace, calls_of(part, python_functions), table)
    memory = memory_use_of(part, group, python_functions)
    if sort is None:
        sort = "self_cuda_time_total" if table.total_self_device else "self_cpu_time_total"
    order = sort_rows(table, times, sort, memory)
    order = order[:limit] if limit else order

    def text(width: int) -> str:
        fit = width if is_terminal() and name_width is None else None
        widest = name_width or FULL_NAME_WIDTH
        device = device_header(part.trace)
        return pytorch_table(table, times, order, memory=memory, name_width=widest, fit=fit, device=device)

    write(lambda: averages_json(table, order, memory), lambda: averages_markdown(table, order, memory), text)
    if chosen_format() == "text" and not len(table):
        click.echo("no PyTorch events in this trace", err=True)
    if chosen_format() == "text" and group in UNGROUPED and not any(table.groups):
        click.echo(UNGROUPED[group], err=True)
    if chosen_format() == "text" and table.left_out:
        click.echo(f"left out: {plural(table.left_out, 'slice')} with impossible times", err=True)


@click.command("gaps")
@trace_argument
@click.option(
    "--min",
    "minimum",
    metavar="TIME",
    callback=duration_callback,
    default="0us",
    help="Only gaps of at least this length, e.g. 5us.",
)
@click.option(
    "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Gaps to print as text."
)
@scope_option
@formats
@command_errors
def gaps_command(trace: str, minimum: int, limit: int, scope: str) -> None:
    """Print the gaps: when a GPU ran nothing on any stream, and why.

    Totals count every gap, whatever --min says. --json lists every gap in time order.
    """
    part = load_scope(trace, scope)
    from tracetui.views.gaps_text import gaps_json, gaps_lines, gaps_markdown

    write(
        lambda: gaps_json(part, minimum),
        lambda: gaps_markdown(part, minimum, limit),
        lambda width: gaps_lines(part, width, minimum, limit),
    )


@click.command("steps")
@trace_argument
@click.option("--annotation", metavar="NAME", help="Treat each call of this annotation as a step.")
@click.option("--limit", type=click.IntRange(min=0), default=0, help="Steps to print as text; 0 prints all.")
@scope_option
@formats
@command_errors
def steps_command(trace: str, annotation: str | None, limit: int, scope: str) -> None:
    """Print one row per step: how long it took, what it launched, and how long the GPU was idle.

    GPU work belongs to the step that launched it, even if it runs after that step has ended on the CPU.
    """
    loaded = load_or_exit(trace)
    from tracetui.analysis.steps.steps import summarize_steps
    from tracetui.core.safe_text import plain
    from tracetui.views.steps import all_steps_json, steps_from, steps_lines, steps_markdown

    annotation = None if annotation is None else plain(annotation)  # as names are in a trace
    steps = steps_from(summarize_steps(loaded, annotation), parse_scope(loaded, scope, annotation))
    write(
        lambda: all_steps_json(steps),
        lambda: steps_markdown(steps, limit),
        lambda width: steps_lines(steps, width, limit),
    )


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


@click.command("findings")
@trace_argument
@scope_option
@formats
@command_errors
def findings_command(trace: str, scope: str) -> None:
    """Print the findings: what to notice, why it matters, what to try, and the events that show it."""
    part = load_scope(trace, scope)
    from tracetui.rules import find_findings
    from tracetui.views.findings import findings_json
    from tracetui.views.findings_text import findings_lines, findings_markdown

    write(
        lambda: {"findings": findings_json(part.trace, find_findings(part))},
        lambda: findings_markdown(part),
        lambda width: findings_lines(part, width),
    )


@click.command("efficiency")
@trace_argument
@click.option(
    "--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Rows; 0 prints all."
)
@scope_option
@formats
@command_errors
def efficiency_command(trace: str, limit: int, scope: str) -> None:
    """Print achieved TFLOP/s and GB/s of operators and kernels, and their share of the device's peak.

    The work is computed from the recorded shapes (record_shapes=True); the time is that of the GPU events.
    """
    part = load_scope(trace, scope)
    from tracetui.analysis.rates.counters import device_counters
    from tracetui.analysis.rates.efficiency import efficiency_of
    from tracetui.views.efficiency_text import efficiency_json, efficiency_lines, efficiency_markdown

    table, counters = efficiency_of(part), device_counters(part)
    write(
        lambda: efficiency_json(table, counters),
        lambda: efficiency_markdown(table, limit, counters),
        lambda width: efficiency_lines(table, width, limit, counters),
    )
