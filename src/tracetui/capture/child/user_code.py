"""A user's own program under the profiler: a callable, or a script, stepped by its optimizer."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import runpy
import sys
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .channel import Channel, Failure
from .recording import Job, make_profiler, stage

if TYPE_CHECKING:
    import torch


def load_callable(target: str) -> Callable[[], object]:
    """The callable that "module:function" names; a class's method by "module:Class.method".

    Raises `Failure("usage", ...)` where there is no such thing. An error inside the module comes through.
    """
    sys.path.insert(0, os.getcwd())
    module_name, _, path = target.partition(":")
    try:
        thing: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise  # the module is there, and something that it imports is not
        raise Failure("usage", f"no module {module_name!r} here or in this Python's environment") from error
    for part in path.split("."):
        if not hasattr(thing, part):
            raise Failure("usage", f"module {module_name!r} has no {path!r}")
        thing = getattr(thing, part)
    if not callable(thing):
        raise Failure("usage", f"{target} cannot be called: it is a {type(thing).__name__}")
    function: Callable[[], object] = thing
    return function


class Recorded(BaseException):
    """Unwinds a script whose last wanted step is recorded. The script's `except Exception` lets it pass."""


def how_it_left(stop: SystemExit) -> str:
    """The end of a script that called `sys.exit`, in words."""
    return f"ended with exit status {stop.code}" if isinstance(stop.code, int) else f"ended with: {stop.code}"


class ScriptRecorder:
    """Steps a profiler by the optimizer's steps. Without an optimizer the whole run is one step.

    Nobody knows at the start whether a step will come, so a recording of the whole runs until the first one;
    then it is thrown away and the schedule begins.
    """

    def __init__(self, job: Job, device: torch.device, channel: Channel) -> None:
        self.job, self.device, self.channel = job, device, channel
        self.seen = 0  # optimizer steps, warm-up included
        self.skip = job["warmup_steps"] if job["warmup"] else 0
        self.total = job["wait"] + job["schedule_warmup"] + job["active"]
        # With no step to skip, the recording of the whole is the schedule's: its first step begins where the
        # script does. Otherwise the schedule can begin after the first optimizer step at the earliest.
        self.at_once = self.skip + self.total == job["active"]
        self.begin = 0 if self.at_once else max(self.skip, 1)
        self.whole: torch.profiler.profile | None = None
        self.prof: torch.profiler.profile | None = None
        self._optimizer: Any = None
        self._wrapped = False
        self._inside = False
        self.recorded = False
        """Whether all wanted steps are recorded."""
        self.failure: BaseException | None = None
        """What the script raised after that; a `SystemExit` only if its status is not 0."""

    def run(self) -> torch.profiler.profile:
        """Run the script and return the stopped profiler.

        Raises `Failure` where there is nothing to show; what the script raises comes through.
        """
        from torch.optim.optimizer import register_optimizer_step_post_hook

        path = self.job["target"]
        sys.argv = [path, *self.job["script_args"]]
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        hook = register_optimizer_step_post_hook(self._after_step)
        self.channel.phase("running", os.path.basename(path))
        recorder = make_profiler(self.job, self.device, 0, 0, self.job["active"] if self.at_once else 1)
        recorder.start()
        if self.at_once:
            self.prof = recorder
        else:
            self.whole = recorder
        try:
            with self._alone():
                runpy.run_path(path, run_name="__main__")
        except Recorded:
            active = self.job["active"]
            steps = f"the {active} wanted steps are" if active > 1 else "the wanted step is"
            text = f"stopped after step {self.seen}: {steps} recorded (--run-to-end lets the script finish)"
            self.channel.note("stopped", text)
        except (Exception, SystemExit) as error:
            if isinstance(error, SystemExit) and error.code in (None, 0):
                pass
            elif self.recorded:
                self.failure = error
            elif isinstance(error, SystemExit):
                raise Failure("workload", f"{path} {how_it_left(error)}") from None
            else:
                raise
        finally:
            hook.remove()
        return self._finish()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """While recording, refuse a `torch.profiler` of the script's own: with two, PyTorch crashes."""
        from torch.profiler import profile

        original = profile.start

        @functools.wraps(original)
        def start(profiler: Any) -> None:
            if not self.recorded and profiler not in (self.whole, self.prof):
                text = "has a torch.profiler of its own: turn it off, or open the trace that it writes"
                raise Failure("workload", f"{self.job['target']} {text}")
            original(profiler)

        profile.start = start
        try:
            yield
        finally:
            profile.start = original

    def _finish(self) -> torch.profiler.profile:
        if self.seen == 0:
            prof = self.whole or self.prof
            assert prof is not None
            prof.step()
            prof.stop()
            text = "no optimizer step was seen: the whole run is one step of the trace"
            self.channel.note("one_step", text)
            return prof
        first = self.begin + self.job["wait"] + self.job["schedule_warmup"]
        if self.prof is None or self.seen <= first:
            raise Failure(
                "few_steps",
                f"the script made {self.seen} optimizer steps, but recording starts after {first}: "
                "try --no-warmup, a smaller --wait, or more steps",
            )
        recorded = self.seen - first
        if recorded < self.job["active"]:
            self.prof.stop()
            text = f"the script ended early: {recorded} of {self.job['active']} steps recorded"
            self.channel.note("few_steps", text)
        return self.prof

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """torch's hook, called before the optimizer's own annotation has ended."""
        if self._optimizer is None:
            self._optimizer = optimizer
        if optimizer is not self._optimizer:
            return  # a second optimizer's step belongs to the step of the first
        if not self._wrapped:
            self._wrap(optimizer)
        if not self._inside:
            self._count()

    def _wrap(self, optimizer: Any) -> None:
        """From the next call on, count after `step` has returned: a step's border then cuts no annotation."""
        original = optimizer.step

        @functools.wraps(original)
        def step(_: Any, *args: Any, **kwargs: Any) -> Any:
            self._inside = True
            try:
                result = original(*args, **kwargs)
            finally:
                self._inside = False
            self._count()
            return result

        # Bound, because a learning-rate scheduler made later binds what it finds here once more.
        optimizer.step = types.MethodType(step, optimizer)
        self._wrapped = True

    def _count(self) -> None:
        self.seen += 1
        if self.recorded and self.job["run_to_end"]:
            return
        wait, warmup = self.job["wait"], self.job["schedule_warmup"]
        if self.whole is not None:
            self.whole.stop()
            self.whole = None
        done = self.seen - self.begin
        if done < 0:
            self.channel.step("warming up", "", self.seen, self.skip)
        elif done == 0:
            self.prof = make_profiler(self.job, self.device, wait, warmup, self.job["active"])
            self.prof.start()
            self.channel.phase("profiling", stage(0, wait, warmup), 0, self.total)
        elif self.prof is not None:
            if done <= self.total:
                self.prof.step()
            if done >= self.total:
                self.prof.stop()
                self.channel.phase("profiling", "active", self.total, self.total)
                self.recorded = True
                if not self.job["run_to_end"]:
                    raise Recorded
                self.channel.phase("finishing", os.path.basename(self.job["target"]))
            if done != wait + warmup:  # it would be the first thing in the recording
                self.channel.step("profiling", stage(done, wait, warmup), done, self.total)
