"""`check`: what is wrong with a trace file, and a clean copy of it."""

from __future__ import annotations

import sys

import click

from tracetui.cli.common import (
    Stopped,
    command_errors,
    emit,
    is_standard_output,
    load_or_exit,
    stop_signals,
    trace_argument,
    write,
)

LOST = 1
"""The exit code if part of the file could not be read."""


@click.command("check")
@trace_argument
@click.option(
    "--repair",
    "out",
    metavar="OUT.json.gz",
    type=click.Path(path_type=str, dir_okay=False),
    help="Write a clean copy: every event that could be read, as JSON that other viewers can open. "
    "- is standard output.",
)
@command_errors
def check_command(trace: str, out: str | None) -> None:
    """Print what is wrong with TRACE.

    Exits with 1 if part of the file is lost: an event that cannot be read, or a file that ends in the middle.
    Repairs without loss, implausible values, and work that the profiler did not record are listed, too, and
    leave the exit code at 0.
    """
    from tracetui.analysis.unrecorded import notes
    from tracetui.core.safe_text import plain
    from tracetui.core.units import plural
    from tracetui.views.write_json import write_json

    found = load_or_exit(trace)
    counts = f"{plural(found.events, 'event')}, {plural(len(found), 'slice')}"
    lines = [f"{counts} in {plural(len(found.lanes), 'lane')}"]
    missing = notes(found)
    if not found.notices and all(level == "note" for level, *_ in missing):
        lines.append("nothing is wrong with this file")
    for notice in found.notices:
        place = f", first at byte {notice.offset:,}" if notice.offset >= 0 else ""
        lines.append(f"{notice.level:9}{notice.count:>9,}  {notice.text}{place}")
    lines += [f"{level:9}{count:>9,}  {text}" for level, count, text in missing]
    if out == "-":
        out = "/dev/stdout"
    if out is not None:
        try:
            with stop_signals():
                events = write_json(found, out)
        except Stopped as stop:
            sys.exit(128 + stop.signal)
        lines.append(f"{plain(out)}: {events:,} events written")
    if out is not None and is_standard_output(out):  # the copy alone belongs there
        write(sys.stderr, "\n".join(lines) + "\n")
    else:
        emit("\n".join(lines))
    if any(notice.level == "lost" for notice in found.notices):
        sys.exit(LOST)
