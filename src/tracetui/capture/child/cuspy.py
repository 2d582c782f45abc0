"""Cuspy, the second profiler for GPUs in PyTorch 2.15: whether this process can use it, and how.

A process has room for one of the two: who subscribes to CUPTI first, Cuspy or Kineto, keeps it from the other
until the process ends, and neither says so. So it is chosen once, before anything is recorded.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from .channel import Channel

PACKAGES = {"cupti": "cupti-python", "elftools": "pyelftools"}
"""Modules that it needs, which PyTorch does not declare, and the packages that have them."""
METRICS = {
    "sm": "sm__cycles_active.avg.pct_of_peak_sustained_elapsed",
    "dram": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
}
SAMPLES = 10_000
"""How many of each metric are kept, the last ones: for as many, CUPTI takes 180 MB."""
SPAN = 2.0
"""Seconds that they span where steps are recorded, whose length nobody knows."""


def choose(job: dict[str, Any], kind: str, channel: Channel, rival: Callable[[], bool] = bool) -> None:
    """Where Cuspy is wanted and cannot be: have `job` say Kineto, and tell why.

    `kind`: of the device; `rival`: whether the program seems to start a Kineto of its own at some time. A GPU
    is not touched: the program may be about to say which one it takes.
    """
    if job["profiler"] != "cuspy":
        return
    wanted = (job["counters"] or "").split(",")
    job["metrics"] = [METRICS[name] for name in wanted if name in METRICS]
    why = _missing(kind)
    if not why and rival():
        why = "the script seems to have a profiler of its own, which would then record no GPU"
    if why:
        fall_back(job, channel, why)
    else:
        _Ear(channel)


def fall_back(job: dict[str, Any], channel: Channel, why: str) -> None:
    """Have Kineto record instead, and tell why."""
    leave_alone()
    job["profiler"], job["pftrace"] = "kineto", False
    channel.note("kineto", f"recording with Kineto, not Cuspy: {why}")


def _missing(kind: str) -> str:
    """What Cuspy needs and is not there, as far as that is known without trying."""
    import torch
    import torch.profiler

    if not hasattr(torch.profiler, "CuspyConfig"):
        return f"PyTorch {torch.__version__} does not have it, 2.15 and newer do"
    if kind != "cuda" or torch.version.cuda is None:
        return "it is for NVIDIA's GPUs, and the recording is of none"
    missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
    if missing:
        return f"{' and '.join(missing)} missing: {sys.executable} -m pip install {' '.join(missing)}"
    return ""


def why_not(prof: Any) -> str:
    """Why a profiler by Cuspy that has been started records no GPU; "" if it does, or has not begun to."""
    if getattr(prof._cuspy_profiler_observer, "available", True):
        return ""
    text = _Ear.heard
    if "MULTIPLE_SUBSCRIBERS" in text:
        return "another profiler (Kineto, Nsight) has this process already"
    if "requires libcupti" in text:
        return f"{text}: {sys.executable} -m pip install 'nvidia-cuda-cupti>=13.3'"
    return f"{text or 'it does not say why'} (the driver may be too old)"


class _Ear(logging.Handler):
    """Hears what Cuspy logs, in place of where the program has its logs, while ours records."""

    log = logging.getLogger("torch.profiler._cuspy")
    heard = ""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self.channel: Channel | None = channel
        self.before = self.log.propagate, self.log.level
        self.log.addHandler(self)
        self.log.propagate = False
        self.log.setLevel(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        text = " ".join(f"{record.getMessage()}{f': {error}' if error else ''}".split())
        if "observer unavailable: " in text:
            _Ear.heard = text.partition("unavailable: ")[2]
        elif text.startswith("PM sampling") and self.channel is not None:
            if "PRIVILEGE" in text.upper() or "permission" in text.lower():
                text = "an administrator has to allow them (NVreg_RestrictProfilingToAdminUsers=0)"
            self.channel.note("counters", f"counters (sm, dram) are not recorded: {text}")
            self.channel = None  # once is enough


def leave_alone() -> None:
    """Ours records no more: what Cuspy logs from now on is the program's."""
    for ear in [one for one in _Ear.log.handlers if isinstance(one, _Ear)]:
        _Ear.log.removeHandler(ear)
        _Ear.log.propagate = ear.before[0]
        _Ear.log.setLevel(ear.before[1])


def profiler(job: dict[str, Any], **options: Any) -> Any:
    """A profiler by Cuspy, not started. `options`: others of `torch.profiler.profile`."""
    import torch
    import torch.profiler as tp

    class Waiting(tp.profile):  # type: ignore[misc]
        def stop_trace(self) -> None:
            # What has not run by then, Cuspy leaves out; Kineto waits.
            if not why_not(self):
                with contextlib.suppress(RuntimeError):  # the program's work on the GPU has failed
                    torch.cuda.synchronize()
            super().stop_trace()

    configs: list[Any] = [
        tp.CuspyConfig(
            enable_cuda_sync_events=True,
            enable_environment_counters="power" in (job["counters"] or ""),
            enable_graph_dependencies=job["graph_dependencies"],
            enable_event_node_ids=job["graph_dependencies"],
        )
    ]
    if job["metrics"]:
        span = 1000 * (job["duration"] or SPAN)
        configs.append(
            tp.PerformanceMetricsConfig(
                metric_names=job["metrics"], sampling_interval_ms=span / SAMPLES, lookback_window_ms=span
            )
        )
    cuda = tp.ProfilerActivityConfig(profiler_configs=configs)
    activities: list[Any] = [tp.ProfilerActivity.CPU, {tp.ProfilerActivity.CUDA: cuda}]
    return Waiting(activities=activities, **options)


def release(prof: Any) -> None:
    """Give up what a stopped profiler by Cuspy recorded; of others there is nothing to give up.

    Without that, it goes on to take in what all later ones record.
    """
    if hasattr(prof, "wait_for_exports"):
        prof.wait_for_exports()
