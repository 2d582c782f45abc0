"""What a running capture tells: small frozen records, in order. `elapsed` is seconds since the start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias


class Phase(str, Enum):
    """The phases of a capture, in the order in which they come; some captures skip some.

    The values are the words of the .meta.json and of the child's messages; `label` is for people.
    """

    STARTING = "starting"  # the child process, up to `import torch`
    IMPORTED = "imported torch"  # detail: torch's version; now the device is looked for
    DEVICE = "device"  # detail: the device's name; now tensors and weights are made
    COMPILING = "compiling"  # detail: torch.compile's mode
    WARMING_UP = "warming up"  # step k of n
    RUNNING = "running"  # a script, before its first step
    PROFILING = "profiling"  # step k of n; detail: wait, warm-up or active
    EXPORTING = "exporting"  # detail: the file

    @property
    def label(self) -> str:
        """What goes on in this phase."""
        return _LABELS.get(self, self.value)


_LABELS = {
    Phase.STARTING: "importing torch",
    Phase.IMPORTED: "looking for a device",
    Phase.DEVICE: "preparing",
}


@dataclass(frozen=True)
class Progress:
    """A phase began, or went on by a step."""

    elapsed: float
    phase: Phase
    detail: str = ""
    step: int = 0
    """Steps of this phase that are done."""
    steps: int = 0
    """Steps in this phase, 0 where it has none or where nobody knows."""

    @property
    def text(self) -> str:
        """One line for people, e.g. "profiling: step 3 of 5 (active)": the step under way."""
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
    """A stable word: "no_gpu", "no_kernels", "few_steps", "one_step"."""
    text: str


@dataclass(frozen=True)
class Output:
    """A line that the workload, a script or a library printed (stdout and stderr alike). NOT safe to show."""

    elapsed: float
    text: str


@dataclass(frozen=True)
class CaptureResult:
    """The files of a finished capture. All of them exist, whole."""

    trace: Path
    """.json or .json.gz."""
    table: Path
    """.txt: PyTorch's own table."""
    meta: Path
    """.meta.json: versions, device, options, the command to repeat it."""
    averages: Path | None
    """.averages.json, where it was asked for."""
    info: dict[str, Any]
    """What `meta` holds."""
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
    "killed", "disk", "torch", "few_steps", "internal"."""
    message: str
    """One line, safe to show."""
    tail: tuple[str, ...] = ()
    """The last lines that the child printed, safe to show; empty where `message` says it all."""


@dataclass(frozen=True)
class Cancelled:
    """The last event of a capture that `Capture.cancel` ended. No file was written, no process is left."""

    elapsed: float


CaptureEvent: TypeAlias = Progress | Note | Output | Done | Failed | Cancelled


def phase_times(events: Iterable[CaptureEvent], now: float | None = None) -> list[tuple[Phase, float]]:
    """Seconds spent in each phase so far, in order. `now`: the capture's elapsed time, while it runs."""
    starts: list[tuple[Phase, float]] = []
    end = 0.0
    for event in events:
        end = max(end, event.elapsed)
        if isinstance(event, Progress) and (not starts or starts[-1][0] is not event.phase):
            starts.append((event.phase, event.elapsed))
    end = max(end, now or 0.0)
    borders = [start for _, start in starts[1:]] + [end]
    return [(phase, border - start) for (phase, start), border in zip(starts, borders, strict=True)]
