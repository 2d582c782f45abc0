"""`ranks`: the ranks of one job, on one clock."""

from __future__ import annotations

import os
import sys

import click

from tracetui.cli.common import cache_option, check_exists, command_errors, fail, progress_bar, traces_or_exit
from tracetui.cli.scopes import limits_callback
from tracetui.cli.tables import FAILED_LIMIT, chosen_format, formats, print_answer


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

    DIR has a trace per rank, also in folders of their own; or name the traces. Of a job that hangs, give the
    dumps of the flight recorder (nccl_trace_rank_N): they say which rank has not come, and where it was.
    """
    from tracetui.core.threads import import_numpy

    import_numpy()
    from tracetui.core.copying import replace
    from tracetui.views.ranks import (
        METRICS,
        dumps_answer,
        failures,
        ranks_answer,
        read_dumps,
        read_job,
        unknown_metric,
    )  # fmt: skip

    if (name := unknown_metric(limits)) is not None:
        raise click.BadParameter(
            f"expected one of {', '.join(METRICS)}; got {name!r}", param_hint="--fail-under"
        )
    files, dumps = _files(paths)
    beside = dumps_answer(*read_dumps(dumps)) if dumps else None
    if beside is not None and (len(files) < 2 or chosen_format() != "json"):
        print_answer(beside)
    if beside is not None and len(files) < 2:
        return
    with progress_bar() as progress:
        job = read_job(files, progress)
    answer = ranks_answer(job)
    more = {} if beside is None else {"stuck": beside.data()["stuck"]}
    print_answer(replace(answer, data=lambda: answer.data() | more))
    for line in (failed := failures(job, limits)):
        click.echo(f"tracetui: {line}", err=True)
    if failed:
        sys.exit(FAILED_LIMIT)


def _files(paths: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """(the traces that are named, or in folders; the dumps of the flight recorder); exits if there are none,
    or too few."""
    from tracetui.ranks.dumps import dumps_in, is_dump

    found: list[str] = []
    dumps: list[str] = []
    for path in paths:
        check_exists(path)
        if os.path.isdir(path):
            dumps += (here := dumps_in(path))
            found += _traces(path, needed=not here)
        elif is_dump(path):
            dumps.append(path)
        else:
            found.append(path)
    found = [path for path in dict.fromkeys(found) if path not in dumps]
    if len(found) == 1 and not dumps:
        fail(f"{found[0]}: is one trace: the ranks of a job have one each")
    return found, list(dict.fromkeys(dumps))


def _traces(folder: str, needed: bool) -> list[str]:
    """The traces in a folder; exits if there are none, and they are needed."""
    from tracetui.session.folder import traces_in

    if needed:
        found = traces_or_exit(folder, "is a folder without torch.profiler traces")
    else:
        found = traces_in(folder)
    return sorted(str(one.path) for one in found)
