"""torch.profiler around steps: the schedule of the series, and the loop that a built-in workload runs in."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import device as devices
from .channel import STEP_INTERVAL, Channel

if TYPE_CHECKING:
    import torch

Job = dict[str, Any]


def make_profiler(
    job: Job, device: torch.device, wait: int, warmup: int, active: int
) -> torch.profiler.profile:
    """A profiler with the capture's options, not started."""
    from torch.profiler import ProfilerActivity, profile, schedule

    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    elif device.type == "xpu":
        activities.append(ProfilerActivity.XPU)
    # Some versions say so at every start; there is one cycle, and nothing of it is lost.
    warnings.filterwarnings("ignore", message="Warning: Profiler clears events")
    with warnings.catch_warnings():
        # With --schedule-warmup 0 the user wants to see the very first call.
        warnings.filterwarnings("ignore", message="Profiler won't be using warmup")
        return profile(
            activities=activities,
            schedule=schedule(wait=wait, warmup=warmup, active=active, repeat=1),
            record_shapes=job["record_shapes"],
            profile_memory=job["profile_memory"],
            with_stack=job["with_stack"],
            with_flops=job["with_flops"],
        )


def stage(step: int, wait: int, warmup: int) -> str:
    """The schedule's name for a step."""
    return "wait" if step < wait else "warm-up" if step < wait + warmup else "active"


class StepReporter(threading.Thread):
    """Reports the progress of the profiled loop from its own thread.

    Anything the loop does between two steps is inside a ProfilerStep of the trace, and a step may take only
    30 us. So the loop just sets `done`, which this thread polls.
    """

    def __init__(self, channel: Channel, total: int, wait: int, warmup: int) -> None:
        super().__init__(daemon=True)
        self.done = 0
        self._channel, self._total, self._wait, self._warmup = channel, total, wait, warmup
        self._end = threading.Event()

    def run(self) -> None:
        last = 0
        while not self._end.wait(STEP_INTERVAL):
            if self.done != last:
                last = self.done
                self._channel.phase("profiling", stage(last, self._wait, self._warmup), last, self._total)

    def __enter__(self) -> StepReporter:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self.join()


def record_steps(
    job: Job, device: torch.device, step: Callable[[], object], channel: Channel, compiled: str | None
) -> torch.profiler.profile:
    """Warm up if asked to, then run `step` under the schedule. Returns the stopped profiler.

    `compiled`: torch.compile's mode if the first call compiles, else None.
    """
    if compiled is not None:
        channel.phase("compiling", compiled)
    if job["warmup"]:
        count = job["warmup_steps"]
        for i in range(count):
            if compiled is None or i > 0:
                channel.step("warming up", "", i, count)
            step()
            if i == 0:
                devices.synchronize(device)
                channel.phase("warming up", "", 1, count)
        devices.synchronize(device)

    wait, warmup, active = job["wait"], job["schedule_warmup"], job["active"]
    total = wait + warmup + active
    if job["warmup"] or compiled is None:
        channel.phase("profiling", stage(0, wait, warmup), 0, total)
    prof = make_profiler(job, device, wait, warmup, active)
    reporter = StepReporter(channel, total, wait, warmup)
    # Stacks are recorded for all threads: the reporter would be in the trace.
    stacks = job["with_stack"]
    with prof, contextlib.nullcontext() if stacks else reporter:
        for i in range(total):
            reporter.done = i
            if stacks and i < wait + warmup:
                channel.step("profiling", stage(i, wait, warmup), i, total)
            step()
            prof.step()
    devices.synchronize(device)
    channel.phase("profiling", "active", total, total)
    return prof
