"""Cuspy, the second profiler for GPUs in PyTorch 2.15: whether this process can use it, and how.

A process has room for one of the two: who subscribes to CUPTI first, Cuspy or Kineto, keeps it from the other
until the process ends, and neither says so. So it is chosen once, before anything is recorded.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from .channel import Channel
from .frames import in_a_line

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
    """Where Cuspy is wanted: have `job` say whether it is to be, and tell if it is not.

    `kind`: of the device; `rival`: whether the program seems to start a Kineto of its own at some time.
    """
    if job["profiler"] != "cuspy" or "cuspy" in job:
        return
    job["cuspy"] = True
    wanted = (job["counters"] or "").split(",")
    job["metrics"] = [METRICS[name] for name in wanted if name in METRICS]
    why = _missing(kind)
    if not why and rival():
        why = "the script seems to have a profiler of its own, which would then record no GPU"
    why = why or _try(job, channel)
    if why:
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


def _try(job: dict[str, Any], channel: Channel) -> str:
    """Record nothing for a moment: why that fails. Without the counters that are refused, if it does not."""
    with _heard() as said:
        try:
            prof = profiler(job)
            prof.start()
        except Exception as error:  # one that lies in the way of its modules
            return in_a_line(error)
        works = getattr(prof._cuspy_profiler_observer, "available", False)
        prof.stop()
        release(prof)
    if not works:
        text = next((text for text in said if "unavailable" in text), "it does not say why")
        text = text.partition("unavailable: ")[2] or text
        if "MULTIPLE_SUBSCRIBERS" in text:
            return "another profiler (Kineto, Nsight) has this process already"
        if "requires libcupti" in text:
            return f"{text}: {sys.executable} -m pip install 'nvidia-cuda-cupti>=13.3'"
        return f"{text} (the driver may be too old)"
    refused = next((text for text in said if text.startswith("PM sampling")), "")
    if refused and job["metrics"]:
        job["metrics"] = []
        if "PRIVILEGE" in refused.upper() or "permission" in refused.lower():
            refused = "an administrator has to allow them (NVreg_RestrictProfilingToAdminUsers=0)"
        channel.note("counters", f"recording without the counters sm and dram: {refused}")
    return ""


@contextlib.contextmanager
def _heard() -> Iterator[list[str]]:
    """What Cuspy logs in here, in place of where the program would have it."""
    said: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(" ".join(record.getMessage().split()))

    log, ear = logging.getLogger("torch.profiler._cuspy"), Ear()
    before, log.propagate, log.level = (log.propagate, log.level), False, logging.WARNING
    log.addHandler(ear)
    try:
        yield said
    finally:
        log.removeHandler(ear)
        log.propagate, log.level = before


def profiler(job: dict[str, Any], **options: Any) -> Any:
    """A profiler by Cuspy, not started. `options`: others of `torch.profiler.profile`."""
    import torch
    import torch.profiler as tp

    class Waiting(tp.profile):  # type: ignore[misc]
        def stop_trace(self) -> None:
            # What has not run by then, Cuspy leaves out; Kineto waits.
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
