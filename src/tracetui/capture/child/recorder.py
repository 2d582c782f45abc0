"""What of a program is recorded, from when, and until when; and its writing, before the program goes on.

How that is told is in `telling`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from . import cuspy
from . import device as devices
from .channel import OURS, Channel, Failure, aside, flush, no_signals
from .ending import Ender, uninterrupted
from .export import write_files
from .own import OwnProfilers
from .process import end_without_destructors, memory, threads, warn_of_forks
from .ranges import OpenRanges, in_backward
from .recording import Job, Quiet, can_all_threads, stage, start_profiler
from .steps import Steps
from .telling import Teller

if TYPE_CHECKING:
    import torch

MAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
LONGEST_WHOLE = 120.0
"""Seconds of a program without steps that are recorded, if nothing else is asked for."""
ROOM = 16
"""A recording without steps may take this part of the memory that is free: to read it takes PyTorch seven
times what it takes to record."""


def harmless(method: Callable[..., None]) -> Callable[..., None]:
    """What goes wrong in recording is told, and never reaches the program."""

    @functools.wraps(method)
    def call(self: Recorder, *arguments: Any) -> None:
        try:
            method(self, *arguments)
        except Exception as error:
            self.over = self.refused = True
            self.tell.failed(error)

    return call


class Recorder:
    """Records the steps of a program, or a stretch of its time, in this process and no other.

    Nobody knows at the start whether a step will come: a recording of the whole runs until the first one;
    then it is thrown away and the schedule begins. What is complete is written at once; else what there is
    when the program ends.

    On a machine with a GPU it begins when the program first uses one: to begin earlier would start CUDA, and
    what the program forks could not use it.
    """

    def __init__(self, job: Job, channel: Channel) -> None:
        self.job, self.channel = job, channel
        self.ender = Ender(channel)
        self.own = OwnProfilers(self._give_way, job["ours"])
        self.steps = Steps(self._step_ended, job["step_on"])
        self.tell = Teller(job, channel, self.steps)
        self.seen = 0  # steps, warm-up included
        self.skip = job["warmup_steps"] if job["warmup"] else 0
        self.before: int = job["wait"] + job["schedule_warmup"]
        self.total = self.before + job["active"]
        self.timed = job["duration"] is not None
        # With no step to skip, the recording of the whole is the schedule's: its first step begins where the
        # program does. Otherwise the schedule can begin after the first step at the earliest.
        self.at_once = self.skip + self.total == job["active"] and not self.timed and not job["after"]
        self.begin = 0 if self.at_once else max(self.skip, 1)
        self.whole: torch.profiler.profile | None = None
        """Runs until the first step, or for the time that is asked for."""
        self.prof: torch.profiler.profile | None = None
        """Runs under the schedule."""
        self._quiet = Quiet()
        self._ranges = OpenRanges()
        self._profiled = threading.Lock()  # held by whoever starts, steps, stops or writes
        self._busy = threading.local()
        self.over = False  # nothing more is to be recorded
        self._written = False
        self.refused = False  # nothing can be recorded: the program need not go on for our sake
        self._script = os.path.abspath(job["target"])
        self._became = ""  # the program that this one is about to run in its place
        self._pid = os.getpid()
        self._began = self._started = monotonic()
        self._device = "cpu"
        self._stopped = False  # whether the profiler that runs has been stopped already
        self._natives = 0  # threads that PyTorch's profiler has started
        self._has_run = False  # whether PyTorch's profiler has ever been started
        self._all_threads = False
        self._owner = 0  # the thread that a profiler of one thread belongs to

    def watch(self) -> None:
        """Be told when the program ends, forks, or becomes another one."""
        atexit.register(self._at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before_fork, after_in_child=self._forked)
        self.channel.asked = self._asked
        if self.job["inherits"]:  # else what it prints has nowhere to go
            self.channel.left = self._abandoned
            if self.channel.gone:
                self._abandoned()
        for name in ("_exit", "execv", "execve"):
            if original := getattr(os, name, None):
                setattr(os, name, self._ending_by(original))
        self.ender.exit = os._exit

    # What the program does

    def torch_imported(self) -> None:
        """PyTorch is there, and the program has not used it yet."""
        if self.over:
            return
        try:
            version = devices.import_torch()
            self.channel.phase("imported torch", f"torch {version}")
            if self.job["device"] not in ("auto", "cpu"):
                devices.select(devices.choose(self.job["device"], self.channel))
        except Failure as failure:
            self.over = True
            self.tell.failed(failure)
            flush()
            self.ender.exit(1)
        self._all_threads = can_all_threads(self.job)
        self.own.install()
        self._ranges.install()
        if self.timed or self.job["after"]:
            # A thread of ours will start the profiler, which imports this, and imports in two threads at once
            # can see modules that are not complete.
            with contextlib.suppress(Exception):
                import torch._dynamo
                import torch._inductor.config  # noqa: F401
        if not self.timed:
            self.steps.install()
        gpus = devices.gpu_backends()
        if self.job["device"] == "cpu" or not gpus:
            devices.tell_no_gpu(self.job["device"], self.channel)
            self._begin_whole()
        for backend in gpus:
            kind = backend.__name__.rpartition(".")[2]
            backend._lazy_call(functools.partial(self._begin_whole, kind))

    @harmless
    def _begin_whole(self, kind: str = "cpu") -> None:
        """Begin to record all that comes, or to wait for the time that was asked for.

        `kind`: of the device that the program starts at this moment.
        """
        if self.over or self.whole is not None or self.prof is not None or self._forked_off():
            return
        cuspy.choose(self.job, kind, self.channel, self.own.takes_kineto)
        if kind == "cuda" and self.job["profiler"] == "kineto" and self.own.takes_the_gpu():
            self._give_way()
            return
        if self.timed or self.job["after"]:
            aside(self._record_time)
            return
        with self._alone() as free:
            if free:
                if self.at_once:
                    self.prof = self._start((0, 0, self.job["active"]), kind)
                else:
                    self.whole = self._start((0, 0, 1), kind, stacks=False)
        if self.whole is not None and self._all_threads:
            aside(self._limit_whole)

    @harmless
    def _limit_whole(self) -> None:
        """A thread that keeps the recording of a program without steps from filling the memory."""
        begun, before, room = monotonic(), *memory()
        while monotonic() < begun + LONGEST_WHOLE and memory()[0] - before < room / ROOM and not self.over:
            sleep(0.25)
        with self._alone() as free:
            if free and self.whole is not None and self.seen == 0 and not self.over:
                text = f"no step in {monotonic() - begun:.0f} s: that is kept unless steps come"
                self._stop(self.whole)
                self._stopped = True
                self.channel.note("limited", f"{text} (--after and --duration record another time)")

    @harmless
    def _record_time(self) -> None:
        """A thread that records from `after` seconds on for `duration` seconds; or from then on the steps."""
        sleep(max(0.0, self._began + self.job["after"] - monotonic()))
        with self._alone() as free:
            if not free or self.over:
                return
            if not self.timed:
                self.job["after"] = 0.0
                self.whole = self._start((0, 0, 1), stacks=False)
                return
            self.channel.phase("recording", f"{self.job['duration']:g} s")
            self.whole = self._start(None)
            self._started = monotonic()  # with a GPU, to start takes seconds
        sleep(self.job["duration"])
        self._write()
        if (self._written or self.refused) and not self.job["run_to_end"]:
            self.ender.interrupt()

    def _step_ended(self) -> None:
        """A step of the program has just ended, in this thread."""
        if self._forked_off():
            return
        if self.ender.begun:
            self.ender.raise_here()
        if self.over or self.job["after"]:
            return
        with self._alone() as free:
            if free:
                self._count()
        if self._complete():
            self._write()
        if (self._written or self.refused) and not self.job["run_to_end"]:
            self.ender.raise_here()

    def _complete(self) -> bool:
        """Whether all steps that were wanted are recorded."""
        return self.prof is not None and self.seen - self.begin >= self.total

    @harmless
    def _count(self) -> None:
        """Count a step."""
        if self.over or self._complete() or not self._mine():
            return
        self.seen += 1
        wait, warmup = self.job["wait"], self.job["schedule_warmup"]
        if self.whole is not None:
            self._drop(self.whole)
            self.whole = None
            if self.seen == self.begin and in_backward():  # an annotation of autograd's is open
                self.begin += 1
        done = self.seen - self.begin
        if done < 0:
            self.channel.step("warming up", "", self.seen, self.skip)
        elif done == 0:
            self.prof = self._start((wait, warmup, self.job["active"]))
            self.channel.phase("profiling", stage(0, wait, warmup), 0, self.total)
        elif self.prof is not None:
            if self._complete():
                return
            with self._quiet if done in (wait, wait + warmup) else contextlib.nullcontext():
                self.prof.step()
            if done != wait + warmup:  # it would be the first thing in the recording
                self.channel.step("profiling", stage(done, wait, warmup), done, self.total)

    @property
    def _first(self) -> int:
        """The last step that is not recorded."""
        return self.begin + self.before

    def _mine(self) -> bool:
        """Whether this thread may step the profiler that runs."""
        running = self.whole is not None or self.prof is not None
        if self._all_threads or not running or self._owner == threading.get_ident():
            return True
        if self.whole is not None:
            raise self.tell.threads()
        return False

    # The profiler

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """Only this thread touches the profiler; False in a signal handler that interrupts such a moment."""
        if getattr(self._busy, "busy", False):
            yield False
            return
        with self._profiled:
            self._busy.busy = True
            try:
                with self.own.ours():
                    yield True
            finally:
                self._busy.busy = False

    def _start(
        self, steps: tuple[int, int, int] | None, kind: str = "", stacks: bool = True
    ) -> torch.profiler.profile:
        """`stacks`: False for what is to be thrown away; those of imports alone can take gigabytes.

        Counters are of the GPU that the program has taken by its first step.
        """
        job = self.job | ({} if stacks else {"with_stack": False, "metrics": []})
        self._device = kind or devices.in_use().type
        self._owner = threading.get_ident()
        self._stopped = False
        before = threads()
        with uninterrupted(), self._quiet, no_signals():
            prof = start_profiler(job, self._device, steps, self.channel, self._all_threads)
        self.job.update(profiler=job["profiler"], pftrace=job["pftrace"])
        self._has_run = True
        self._natives = max(self._natives, threads() - before)
        return prof

    def _running(self) -> torch.profiler.profile | None:
        """The profiler that runs, if this thread may stop it."""
        mine = self._all_threads or self._owner == threading.get_ident()
        return (self.prof or self.whole) if mine else None

    def _drop(self, prof: torch.profiler.profile) -> None:
        """Stop a profiler whose recording nobody wants. Another one may begin soon."""
        self._stop(prof)
        if self.job["profiler"] == "cuspy":
            cuspy.release(prof)

    def _stop(self, prof: torch.profiler.profile) -> None:
        if not self._stopped:
            self._ranges.settle(self._all_threads, last=False)
            with self._quiet:
                prof.stop()

    # The end

    @harmless
    def _write(self) -> None:
        """Stop what runs and write it, once; the program waits for that."""
        with uninterrupted(), self._alone() as free:
            if not free or self.over or self._forked_off():
                return
            self.over = True
            if prof := self._running():
                self._write_files(prof)

    def _write_files(self, prof: torch.profiler.profile) -> None:
        complete = self._complete()
        self.tell.recorded = monotonic() - self._started
        if not self._stopped:
            self._ranges.settle(self._all_threads, last=True)
        with self._quiet:
            if not self._stopped:
                if complete or (self.seen == 0 and not self.timed):
                    prof.step()
                prof.stop()
        if 0 < self.seen <= self._first:
            raise self.tell.too_few(self.seen, self._first)
        device = devices.in_use()
        self.job |= self.job["by_device"][device.type]
        with self._quiet:
            written = write_files(prof, self.job, self._device, self.channel)
        if not written.ops:
            raise self.tell.empty()
        whole = self.seen - self._first
        self.tell.there(self.seen, whole, written.steps, complete, frames=self.prof is not None)
        flush()
        info = {"profiler": self.job["profiler"], "steps": written.steps, "counted": self.steps.names}
        info = devices.machine(device) | info
        self._written = self.channel.publish(info, written.files)
        cuspy.leave_alone()
        if self._written and complete:
            self.channel.phase("finishing", os.path.basename(self.job["target"]))

    def _at_exit(self) -> None:
        """The program ends, or becomes another one."""
        if self._forked_off():
            return
        over = self.over
        self._write()
        if self.own.seen and not self.job["ours"]:
            self.channel.send("theirs", traces=self.own.traces)
        elif not over and self.prof is None and self.whole is None:
            few = self.seen and not self._became
            self.tell.failed(
                self.tell.too_few(self.seen, self._first) if few else self.tell.nothing(self._became)
            )
        self.channel.clean()  # here, since whoever kills the parent now would leave them

    def _ending_by(self, original: Any) -> Any:
        """`os._exit` and its kind, which end the program without a word: what there is is written first."""

        def leave(*arguments: Any) -> Any:
            if original.__name__ != "_exit":
                if again := self._runs_again(*arguments[:2]):
                    return original(arguments[0], again, *arguments[2:])
                self._became = os.path.basename(os.fsdecode(arguments[0]))
            self._at_exit()
            return original(*arguments)

        leave.__name__ = original.__name__
        leave.__doc__ = original.__doc__
        return leave

    def _runs_again(self, path: Any, arguments: Any) -> list[str] | None:
        """How to run a program that starts itself anew in its place, so that it is recorded; or None."""
        try:
            first, script, *rest = map(os.fsdecode, arguments)
            python = os.path.realpath(os.fsdecode(path)) == os.path.realpath(sys.executable)
        except (TypeError, ValueError):  # the program's mistake, or no script
            return None
        same = python and self.job["kind"] == "script" and os.path.abspath(script) == self._script
        if self.over or self._forked_off() or not same:
            return None
        streams = self.channel.hand_over({**self.job, "script_args": rest})
        return [first, MAIN, *streams] if streams else None

    def _asked(self) -> None:
        """The user wants what there is."""
        if self._all_threads:
            self._write()

    @harmless
    def _abandoned(self) -> None:
        """The parent is gone: the program goes on as if nobody recorded."""
        with self._alone() as free:
            running = None if self.over else self._running()
            self.over = True
            if free and running:
                self._drop(running)

    @harmless
    def _give_way(self, theirs: str = "") -> None:
        """The program is about to start a profiler of its own, and PyTorch has room for one.

        `theirs`: which, if that is to record a GPU.
        """
        with self._alone() as free:
            if not free or self.over:
                return
            self.over = True
            if running := self._running():
                self._drop(running)
            cuspy.leave_alone()
        self.tell.own(theirs, taken=self._has_run and self._device == "cuda")

    def _forked_off(self) -> bool:
        return os.getpid() != self._pid

    def _before_fork(self) -> None:
        alone = 0 < threads() <= 1 + len(OURS) + self._natives
        warn_of_forks(self._forked_off() or not alone)

    def _forked(self) -> None:
        """In a process that the program forked: nothing of ours goes on."""
        warn_of_forks(True)
        atexit.unregister(self._at_exit)
        self.channel.close()
        running = None if self.over else self.prof or self.whole
        self.over = True
        if running is not None and not self._stopped:
            import torch

            # It would record into memory that nobody reads.
            torch._C._autograd._clear_callbacks()
            if running.with_stack:
                sys.setprofile(None)
        if self._has_run:
            end_without_destructors()
