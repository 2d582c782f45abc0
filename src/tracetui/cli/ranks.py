"""`ranks`: the ranks of one job, on one clock."""

from __future__ import annotations

import os
import sys

import click

from tracetui.cli.common import cache_option, check_exists, command_errors, fail, progress_bar, traces_or_exit
from tracetui.cli.scopes import limits_callback
from tracetui.cli.tables import FAILED_LIMIT, formats, write


@click.command("ranks")
@click.argument("paths", metavar="DIR | TRACE...", nargs=-1, required=True, type=click.Path(path_type=str))
@click.option(
    "--fail-under",
    "limits",
    metavar="METRIC=SHARE",
    callback=limits_callback,
    multiple=True,
    help="Exit with code 3 if a metric is below this share: busy, exposed (the share of the steps without "
    "exposed communication, on the rank with most of it) or balance (the fastest rank's own time over the "
    "slowest's), e.g. balance=0.8. Repeatable.",
)
@cache_option
@formats
@command_errors
def ranks_command(paths: tuple[str, ...], limits: tuple[tuple[str, float], ...]) -> None:
    """Print which rank of a job the others wait for, and why.

    DIR has a trace per rank, also in folders of their own; or name the traces.
    """
    from tracetui.core.threads import import_numpy

    import_numpy()
    from tracetui.views.ranks import METRICS, failures, ranks_answer, read_job, unknown_metric

    if (name := unknown_metric(limits)) is not None:
        raise click.BadParameter(
            f"expected one of {', '.join(METRICS)}; got {name!r}", param_hint="--fail-under"
        )
    with progress_bar() as progress:
        job = read_job(_files(paths), progress)
    answer = ranks_answer(job)
    write(answer.data, answer.markdown, answer.lines)
    for line in (failed := failures(job, limits)):
        click.echo(f"tracetui: {line}", err=True)
    if failed:
        sys.exit(FAILED_LIMIT)


def _files(paths: tuple[str, ...]) -> list[str]:
    """The traces that are named, and those in folders; exits if there are none."""
    found: list[str] = []
    for path in paths:
        check_exists(path)
        if os.path.isdir(path):
            found += sorted(
                str(one.path) for one in traces_or_exit(path, "is a folder without torch.profiler traces")
            )
        else:
            found.append(path)
    found = list(dict.fromkeys(found))
    if len(found) == 1:
        fail(f"{found[0]}: is one trace: the ranks of a job have one each")
    return found
