"""`efficiency`: how close operators and kernels come to the device's peak."""

from __future__ import annotations

import click

from tracetui.cli.common import command_errors, load_or_exit, trace_argument
from tracetui.cli.scopes import parse_scope, scope_option
from tracetui.cli.tables import formats, write


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

    The work is computed from the recorded shapes (record_shapes=True), the time is that of the GPU events.
    """
    loaded = load_or_exit(trace)
    from tracetui.analysis.results import Results
    from tracetui.report.efficiency import efficiency_json, efficiency_lines, efficiency_markdown

    table = Results(loaded).within(parse_scope(loaded, scope)).efficiency()
    write(
        lambda: efficiency_json(table),
        lambda: efficiency_markdown(table, limit),
        lambda width: efficiency_lines(table, width, limit),
    )
