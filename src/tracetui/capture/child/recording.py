"""torch.profiler around steps: the schedule of the series, and the loop that a built-in workload runs in."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import cuspy
from . import device as devices
from .channel import STEP_INTERVAL, Channel, flush
from .frames import in_a_line

if TYPE_CHECKING:
    import torch

Job = dict[str, Any]
OPTIONS = ("record_shapes", "profile_memory", "with_stack", "with_flops")
"""The options of a capture that are those of `torch.profiler.profile`."""
NOISE = re.compile(
    rb"USDT:|ERROR: External init callback|ERROR:.* DeviceProperties\.cpp:"
    rb"|\[W\d+ [^]]* (?:collection|record_function)\.cpp:"
)
"""What torch 2.13 itself prints when a profiler starts or stops; the last in the middle of an operator."""


def _ignored(*texts: str) -> list[Any]:
    """Filters of `warnings`."""
    return [("ignore", re.compile(text, re.IGNORECASE), Warning, None, 0) for text in texts]


IGNORED = _ignored(
    "Warning: Profiler clears events",  # some versions say so at every start; nothing is lost in one cycle
    "Profiler won't be using warmup",  # with --schedule-warmup 0 the user wants to see the very first call
)
"""What PyTorch says about our profiler while it starts or stops."""
IGNORED_LATER = _ignored(r".* \(Triggered internally at .*profiler/collection\.cpp")
"""What it says when a backward pass ends in which ours stopped: which annotation was open then."""


def _ignore(first: list[Any]) -> None:
    """Have these filters first, whatever the program has set, and none of the others above.

    `warnings.filterwarnings` and `catch_warnings` would make Python repeat the program's own warnings.
    """
    ours = IGNORED + IGNORED_LATER
    warnings.filters[:] = [*first, *(item for item in warnings.filters if item not in ours)]  # type: ignore[index]


def _said_once() -> set[str]:
    """What torch.profiler has warned of: it does so once in a process."""
    module = sys.modules.get("torch.profiler.profiler")
    said: set[str] = getattr(module, "_WARNINGS_SHOWN", set())
    return said


def make_profiler(
    job: Job, kind: str, steps: tuple[int, int, int] | None, all_threads: bool = False
) -> torch.profiler.profile:
    """A profiler with the capture's options, not started.

    `kind`: the device's ("cuda", "xpu", "cpu"); `steps`: to wait, to warm up, to record; None: no steps.
    `all_threads`: records what all threads do, and any of them may step and stop it; see `can_all_threads`.
    """
    from torch.profiler import ProfilerActivity, profile, schedule

    plan = None if steps is None else schedule(wait=steps[0], warmup=steps[1], active=steps[2], repeat=1)
    options: dict[str, Any] = {name: job[name] for name in OPTIONS} | {"schedule": plan}
    if all_threads:
        from torch._C._profiler import _ExperimentalConfig

        options["experimental_config"] = _ExperimentalConfig(profile_all_threads=True)
    if kind == "cuda" and job["profiler"] == "cuspy":
        made: profile = cuspy.profiler(job, **options)
        return made
    activities = [ProfilerActivity.CPU]
    if kind == "cuda":
        activities.append(ProfilerActivity.CUDA)
    elif kind == "xpu":
        activities.append(ProfilerActivity.XPU)
    return profile(activities=activities, **options)


def start_profiler(
    job: Job, kind: str, steps: tuple[int, int, int] | None, channel: Channel, all_threads: bool = False
) -> torch.profiler.profile:
    """A profiler, started. Where Cuspy is wanted and does not start, it is Kineto, and `job` says so."""
    by_cuspy = kind == "cuda" and job["profiler"] == "cuspy"
    why = ""
    try:
        prof = make_profiler(job, kind, steps, all_threads)
        prof.start()
        why = cuspy.why_not(prof) if by_cuspy else ""
        if why:
            prof.stop()
    except Exception as error:  # one that lies in the way of Cuspy's modules
        if not by_cuspy:
            raise
        why = in_a_line(error)
    if why:
        cuspy.fall_back(job, channel, why)
        prof = make_profiler(job, kind, steps, all_threads)
        prof.start()
    return prof


class Quiet:
    """A context that leaves out what PyTorch says about its own profiler. Other lines come at its end."""

    def __init__(self) -> None:
        self._file: Any = None
        self._stderr = -1
        self._said: set[str] = set()

    def __enter__(self) -> None:
        _ignore(IGNORED + IGNORED_LATER)
        self._said = set(_said_once())
        if self._file is None:  # kept: the profiler may already record
            self._file = tempfile.TemporaryFile(buffering=0)
        try:
            self._stderr = os.dup(2)
        except OSError:  # the program has closed it
            return
        flush()
        os.dup2(self._file.fileno(), 2)

    def __exit__(self, *error: object) -> None:
        _ignore(IGNORED_LATER)
        _said_once().intersection_update(self._said)  # what a profiler of the program's own has yet to say
        if self._stderr < 0:
            return
        flush()
        os.dup2(self._stderr, 2)
        os.close(self._stderr)
        self._stderr = -1
        if self._file.tell():
            self._file.seek(0)
            for line in self._file.read().splitlines(keepends=True):
                if not NOISE.match(line):
                    with contextlib.suppress(OSError):
                        os.write(2, line)
            self._file.seek(0)
            self._file.truncate()


def can_all_threads(job: Job) -> bool:
    """Whether a profiler of all threads records what is wanted. It sees no allocations."""
    from torch._C._profiler import _ExperimentalConfig

    if job["profile_memory"]:
        return False
    try:
        _ExperimentalConfig(profile_all_threads=True)
    except TypeError:  # older than torch 2.8 or so
        return False
    return True


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
    users = job["kind"] == "callable"  # it may work in threads of its own, and has our standard error
    quiet = Quiet() if users else contextlib.nullcontext()
    _ignore(IGNORED)
    reporter = StepReporter(channel, total, wait, warmup)
    # Stacks are recorded for all threads: the reporter would be in the trace.
    stacks = job["with_stack"]
    with quiet:
        if job["profiler"] == "cuspy":  # with steps to skip, it would show too late whether it starts
            trial = start_profiler(job, device.type, None, channel)
            trial.stop()
            cuspy.release(trial)
        all_threads = users and can_all_threads(job)
        prof = start_profiler(job, device.type, (wait, warmup, active), channel, all_threads)
    with contextlib.nullcontext() if stacks else reporter:
        for i in range(total):
            reporter.done = i
            if stacks and i < wait + warmup:
                channel.step("profiling", stage(i, wait, warmup), i, total)
            step()
            with quiet if i + 1 in (wait, wait + warmup, total) else contextlib.nullcontext():
                prof.step()
    prof.stop()
    devices.synchronize(device)
    channel.phase("profiling", "active", total, total)
    return prof
