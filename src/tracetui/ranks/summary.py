"""What the reduction over all ranks needs of one file: small, however large the file is."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import numpy as np
from msgspec import Struct

from tracetui.analysis.idle.exposed_time import exposed_communication
from tracetui.analysis.idle.kinds import communicates, time_by_kind_of
from tracetui.analysis.idle.split import COLUMNS
from tracetui.analysis.part import Part
from tracetui.analysis.select import plausible
from tracetui.analysis.steps.scope import step_table_of, step_windows_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.core.safe_text import plain
from tracetui.ranks.calls import Calls, calls_of
from tracetui.ranks.cpu import CpuSteps, cpu_steps
from tracetui.trace import Kind, Trace
from tracetui.trace.load import load
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices

MOST_RANKS = 1 << 20
"""A larger number in a file is not a rank."""
KERNELS = 12
"""The names of kernels that are compared over ranks: those with the most time."""
GRIDS = 4
"""Kernels of each name whose grids are looked at."""
_NAMED = re.compile(r"(?i)(?:rank|worker|tp-?|gpu|_r|^r)[-_]?(\d{1,6})(?!\d)")
_HOST = re.compile(r"(.+)_\d+\.\d+\.pt\.trace\.json(?:\.gz)?$")
"""What `tensorboard_trace_handler` calls its files: host, process, time."""
_NO_HOST = re.compile(r"(?i)rank|worker|step")


class KernelSum(Struct, frozen=True):
    """The kernels of one name that are no collectives."""

    count: int
    time: int
    grids: tuple[str, ...]
    """The sizes of some of them, sorted: other sizes are other work."""


class RankSummary(Struct, frozen=True, eq=False):
    """One file of a job."""

    path: str
    """NOT safe to show."""
    size: int
    rank: int | None
    world: int | None
    host: str | None
    """Safe to show."""
    start: int
    """Of the recording, on the file's clock, ns."""
    end: int
    calls: Calls
    numbers: I64
    """Of the steps."""
    low: I64
    """When each step's window begins, on the file's clock."""
    high: I64
    cpu: CpuSteps
    """Of the steps or, without any, of the whole recording."""
    kernels: Mapping[str, KernelSum]
    """By name, those with the most time."""
    compute: int
    """Time in which kernels other than collectives ran."""
    communication: int
    exposed: int
    """Communication while no other kernel ran."""
    exposed_steps: int
    """The same in the windows of the steps, or in the whole recording."""
    judged: tuple[int, ...] | None
    """The time that a verdict is about, by `split.COLUMNS`; None without device events."""
    devices: int
    delay: int | None
    base: str

    @property
    def name(self) -> str:
        """Of the file, NOT safe to show."""
        return os.path.basename(self.path)

    @property
    def step_time(self) -> int:
        """The length of all steps together."""
        return int((self.high - self.low).sum())


def summarize(path: str) -> RankSummary:
    """The summary of a file. Raises TraceError."""
    trace = load(path, workers=1)
    try:
        return summary_of(trace, path)
    finally:
        trace.derived.clear()


def summary_of(trace: Trace, path: str) -> RankSummary:
    """The summary of a trace."""
    part, info = Part(trace), trace.info
    about = info.distributed or {}
    rank = _number(about.get("rank"))
    if rank is None and (named := _NAMED.findall(PurePath(path).name)):
        rank = int(named[0])
    begin, end = trace.span
    low, high = step_windows_of(part)
    numbers = step_table_of(part).number
    if not len(low):
        low, high, numbers = np.array([begin]), np.array([end]), np.array([-1])
    kinds, whole = time_by_kind_of(part), steps_of(part).whole
    alone = int(exposed_communication(trace).overlap(low, high).sum()) if len(low) else 0
    verdict, kernels = whole.verdict, _kernels(trace)
    zero = info.zero_ns
    return RankSummary(
        path,
        info.size,
        rank,
        _number(about.get("world_size")),
        _host(info.properties, path),
        begin + zero,
        end + zero,
        calls_of(trace, rank),
        numbers,
        low + zero,
        high + zero,
        cpu_steps(trace, low, high),
        kernels,
        int(kinds.compute[-1]),
        int(kinds.communication[-1]),
        int(kinds.exposed_communication[-1]),
        alone,
        tuple(whole.judged.tolist()) if verdict.cpu is None and len(whole.judged) == len(COLUMNS) else None,
        len(part_devices(trace)),
        verdict.launch_delay,
        verdict.base,
    )


def part_devices(trace: Trace) -> set[int]:
    """The devices that ran anything."""
    return {lane.device for lane in trace.lanes if lane.kind == "stream" and lane.device >= 0}


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < MOST_RANKS else None


def _host(properties: Mapping[str, Any], path: str) -> str | None:
    told = properties.get("host_name")
    if isinstance(told, str) and told:
        return plain(told, 100)
    named = _HOST.fullmatch(PurePath(path).name)
    return plain(named[1], 100) if named and not _NO_HOST.search(named[1]) else None


def _kernels(trace: Trace) -> dict[str, KernelSum]:
    kernels = plausible(trace, Kind.KERNEL)
    kernels = kernels[~communicates(trace)[trace.name[kernels]]]
    found = {}
    for of in Slices(trace, kernels).by_name()[:KERNELS]:
        at = of.slices.at
        # The first ones: they lie together in the file.
        grids = {str(args.get("grid")) for _, args in trace.args_in_turn(at[:GRIDS])}
        found[of.name] = KernelSum(of.calls, of.time, tuple(sorted(grids)))
    return found
