"""The jobs on this machine that can be asked for a trace, as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from tracetui.core.safe_text import plain
from tracetui.core.units import age
from tracetui.views.model import I64, Column, Table, each

Text = Callable[[int], str]


class Gpu(Protocol):
    """A GPU that a process uses."""

    @property
    def index(self) -> int: ...


class Process(Protocol):
    """A process that can be recorded: one rank of a job."""

    @property
    def pid(self) -> int: ...
    @property
    def user(self) -> str: ...
    @property
    def since(self) -> float: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def name(self) -> str: ...
    @property
    def gpus(self) -> Sequence[Gpu] | None: ...


class Job(Protocol):
    """What was started together."""

    @property
    def first(self) -> Process: ...
    @property
    def processes(self) -> Sequence[Process]: ...


def jobs_table(found: Sequence[Job], now: float) -> Table:
    """A row for each job; `now` in seconds since the epoch. JSON has the time of its start."""

    def column(key: str, title: str, width: int, text: Text, drop: int = 0, right: bool = False) -> Column:
        values = None if not width else lambda: [text(row) for row in range(len(found))]
        cut = Column(key, title, text, values, width, right, drop, False, ends=not width)
        return cut.with_text(title.lower(), text)

    def of(value: Callable[[Job], Any]) -> Callable[[I64], list[Any]]:
        return each(lambda row: value(found[row]))

    starts = np.array([job.first.since for job in found])
    columns = (
        column("pid", "PID", 8, lambda r: str(found[r].first.pid), right=True).with_fields(
            pid=of(lambda job: job.first.pid), pids=of(lambda job: [one.pid for one in job.processes])
        ),
        column("user", "User", 10, lambda r: plain(found[r].first.user, 10), 2).with_fields(
            user=of(lambda job: job.first.user)
        ),
        column("since", "Runs for", 9, lambda r: age(now - starts[r]), right=True).with_fields(
            since=of(lambda job: round(job.first.since, 3))
        ),
        column("ranks", "Ranks", 6, lambda r: _ranks(found[r]), 1, True).with_fields(
            ranks=of(lambda job: [one.rank for one in job.processes])
        ),
        column("gpu", "GPU", 8, lambda r: gpu_text(found[r]), 1).with_fields(gpus=of(_gpus)),
        column("command", "Command", 0, lambda r: plain(found[r].first.name, 500)).with_fields(
            command=of(lambda job: job.first.name)
        ),
    )
    return Table(columns, len(found), empty="nothing to record: start a job with: tracetui run COMMAND")


def _gpus(job: Job) -> list[int]:
    return sorted({gpu.index for one in job.processes for gpu in one.gpus or ()})


def gpu_text(job: Job) -> str:
    """Their numbers; `-` without any, `?` where nothing tells (nvidia-ml-py is not installed, say)."""
    none = "?" if any(one.gpus is None for one in job.processes) else "-"
    return ",".join(map(str, _gpus(job))) or none


def _ranks(job: Job) -> str:
    return str(len(job.processes)) if job.first.rank is not None or len(job.processes) > 1 else "-"
