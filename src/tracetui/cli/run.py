"""`tracetui run` and `tracetui env`: start jobs so that `tracetui attach` can ask them for a trace."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import NoReturn

import click

from tracetui.cli.common import emit, fail, warn


@click.command(
    "run",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    no_args_is_help=True,
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="[--] COMMAND [ARGS]...")
def run_command(command: tuple[str, ...]) -> NoReturn:
    """Start COMMAND (python, torchrun, vllm serve, a shell script) so that it can be asked for a trace.

    The command runs as it would without tracetui: its output, its signals and its exit code are its own, and
    it is not slowed down. From another terminal, "tracetui attach" records what it does.

    It sets KINETO_USE_DAEMON and four more variables that PyTorch's profiler library reads when it starts;
    "tracetui env" prints them. Kineto's own messages are switched off in the job, unless KINETO_LOG_LEVEL is
    set.
    """
    from tracetui.capture.live.launch import run
    from tracetui.capture.live.model import AttachError

    try:
        run(command, warn)
    except AttachError as error:
        fail(str(error), error.code)


def _quoted_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


FORMATS = {
    "sh": lambda name, value: f"export {name}={shlex.quote(value)}",
    "fish": lambda name, value: f"set -gx {name} {_quoted_fish(value)}",
    "plain": lambda name, value: f"{name}={value}",
}


@click.command("env")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder where the job and attach meet, for a container: mount it there, under the same path.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice([*FORMATS, "json"]),
    default="sh",
    show_default=True,
    help="sh and fish: for the shell; plain: for docker --env-file or a service file.",
)
def env_command(folder: Path | None, form: str) -> None:
    """Print the variables that let a job be asked for a trace, for jobs that are started some other way.

    In a shell or a Slurm script: eval "$(tracetui env)". For docker: tracetui env --format plain > FILE, then
    docker run --env-file FILE. PyTorch reads them when it is imported, so a job that is already running
    has to be restarted.
    """
    from tracetui.capture.live.launch import environment, shared_folder
    from tracetui.capture.live.model import AttachError

    try:
        meeting = shared_folder(folder)
        variables = environment(meeting, os.environ)
        if folder is not None:  # all that the two have in common
            variables["KINETO_ONDEMAND_TRACE_DIR"] = str(meeting)
    except AttachError as error:
        fail(str(error), error.code)
    if form == "json":
        emit(json.dumps(variables, indent=2))
    else:
        emit("\n".join(FORMATS[form](name, value) for name, value in variables.items()))
