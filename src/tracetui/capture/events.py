"""The events of a running capture: small frozen records, in order. `elapsed` is seconds since the start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias


class Phase(str, Enum):
    """The phases of a capture in order; some captures skip some.

    The values are the words of the .meta.json and of the child's messages; `label` is for people.
    """

    STARTING = "starting"  # the child process, up to `import torch`
    IMPORTED = "imported torch"  # detail: torch's version; now the device is looked for
    DEVICE = "device"  # detail: the device's name; now tensors and weights are made
    COMPILING = "compiling"  # detail: torch.compile's mode
    WARMING_UP = "warming up"  # step k of n
    RUNNING = "running"  # a script, before its first step
    RECORDING = "recording"  # a script for a time; detail: how long
    PROFILING = "profiling"  # step k of n; detail: wait, warm-up or active
    FINISHING = "finishing"  # a script whose steps are recorded, if it is to run to its end
    EXPORTING = "exporting"  # detail: the file

    @property
    def label(self) -> str:
        """What happens in this phase, for people."""
        return _LABELS.get(self, self.value)


_LABELS = {
    Phase.STARTING: "importing torch",
    Phase.IMPORTED: "looking for a device",
    Phase.DEVICE: "preparing",
}


@dataclass(frozen=True)
class Progress:
    """A phase began, or a step of it is done."""

    elapsed: float
    phase: Phase
    detail: str = ""
    step: int = 0
    """Finished steps of this phase."""
    steps: int = 0
    """Steps in this phase, 0 if it has none or the number is unknown."""

    @property
    def text(self) -> str:
        """One line for people with the current step, e.g. "profiling: step 3 of 5 (active)"."""
        label = self.phase.label
        if self.steps:
            detail = f" ({self.detail})" if self.detail else ""
            return f"{label}: step {min(self.step + 1, self.steps)} of {self.steps}{detail}"
        return f"{label}: {self.detail}" if self.detail else label


@dataclass(frozen=True)
class Note:
    """Something that the user should know about this capture, e.g. that it runs on the CPU."""

    elapsed: float
    kind: str
    """A stable word: "python", "no_gpu", "no_kernels", "few_steps", "one_step", "stopped", "steps", "timed",
    "limited", "large", "own_profiler", "kineto", "counters", or "script_failed"."""
    text: str


@dataclass(frozen=True)
class Output:
    """A line that the workload, a script or a library printed (stdout and stderr alike). NOT safe to show."""

    elapsed: float
    text: str


@dataclass(frozen=True)
class CaptureResult:
    """The files of a finished capture. All of them exist and are complete."""

    trace: Path
    """.json, .json.gz or .pftrace.gz."""
    table: Path | None
    """.txt: PyTorch's own table. None for a trace that a script recorded itself."""
    meta: Path | None
    """.meta.json: versions, device, options, the command to repeat it; or None likewise."""
    averages: Path | None
    """.averages.json, if requested."""
    info: dict[str, Any]
    """The contents of `meta`."""
    notes: tuple[Note, ...] = ()

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(p for p in (self.trace, self.table, self.averages, self.meta) if p is not None)


@dataclass(frozen=True)
class Done:
    """The last event of a capture that worked."""

    elapsed: float
    result: CaptureResult


@dataclass(frozen=True)
class Failed:
    """The last event of a capture that did not work. No file was written."""

    elapsed: float
    kind: str
    """A stable word: "no_python", "no_torch", "old_torch", "no_device", "usage", "out_of_memory", "workload",
    "killed", "disk", "torch", "few_steps", "nothing", "threads", "own_profiler", "internal"."""
    message: str
    """One line, safe to show."""
    tail: tuple[str, ...] = ()
    """The last lines that the child printed, safe to show; empty if `message` says it all."""
    exit_status: int | None = None
    """A script's own, as a shell gives it, if it is not 0."""


@dataclass(frozen=True)
class Cancelled:
    """The last event of a capture that `Capture.cancel` ended. No file was written, no process is left."""

    elapsed: float


CaptureEvent: TypeAlias = Progress | Note | Output | Done | Failed | Cancelled


def phase_times(events: Iterable[CaptureEvent], now: float | None = None) -> list[tuple[Phase, float]]:
    """Seconds spent in each phase so far, in order. `now`: elapsed time of a running capture."""
    starts: list[tuple[Phase, float]] = []
    end = 0.0
    for event in events:
        end = max(end, event.elapsed)
        if isinstance(event, Progress) and (not starts or starts[-1][0] is not event.phase):
            starts.append((event.phase, event.elapsed))
    end = max(end, now or 0.0)
    borders = [start for _, start in starts[1:]] + [end]
    return [(phase, border - start) for (phase, start), border in zip(starts, borders, strict=True)]
