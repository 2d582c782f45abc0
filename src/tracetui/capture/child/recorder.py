"""What of a program is recorded, from when, and until when; and its writing, before the program goes on."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from . import device as devices
from .channel import OURS, Channel, Failure, aside, flush, no_signals
from .ending import Ender, stop_timer
from .export import failed_reading, write_files
from .own import OwnProfilers
from .ranges import OpenRanges
from .recording import Job, Quiet, can_all_threads, make_profiler, stage
from .steps import Steps

if TYPE_CHECKING:
    import torch

FORKS = ("ignore", re.compile("This process .* is multi-threaded, use of fork"), DeprecationWarning, None, 0)
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
        except Failure as failure:
            self.over = self.refused = True
            self.channel.send("failed", kind=failure.kind, message=str(failure))
        except Exception as error:
            self.over = self.refused = True
            text = f"PyTorch's profiler failed: {type(error).__name__}: {error}"
            if failed_reading(error):
                text = "PyTorch could not read the names in its own recording (it happens): capture again"
            self.channel.send("failed", kind="torch", message=text)

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
        self.seen = 0  # steps, warm-up included
        self.skip = job["warmup_steps"] if job["warmup"] else 0
        self.total = job["wait"] + job["schedule_warmup"] + job["active"]
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
        self._recorded = 0.0
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
            self.channel.send("failed", kind=failure.kind, message=str(failure))
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

    def failed(self, error: BaseException) -> None:
        """The program's main thread ends with this."""
        if isinstance(error, SystemExit):
            text = "" if error.code in (None, 0) else how_it_left(error)
        else:
            lines = str(error).strip().splitlines()
            text = f"failed: {type(error).__name__}" + (f": {lines[0]}" if lines else "")
        if text:
            self.channel.send("left", message=text)

    @harmless
    def _begin_whole(self, kind: str = "cpu") -> None:
        """Begin to record all that comes, or to wait for the time that was asked for.

        `kind`: of the device that the program starts at this moment.
        """
        if self.over or self.whole is not None or self.prof is not None or self._forked_off():
            return
        if kind == "cuda" and self.own.takes_the_gpu():
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
        begun, before, room = monotonic(), *_memory()
        while monotonic() < begun + LONGEST_WHOLE and _memory()[0] - before < room / ROOM and not self.over:
            sleep(0.25)
        with self._alone() as free:
            if free and self.whole is not None and self.seen == 0 and not self.over:
                text = f"no step in {monotonic() - begun:.0f} s: that is kept unless steps come"
                self._ranges.settle(all_threads=True, last=False)
                with self._quiet:
                    self.whole.stop()
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
            if self.seen == self.begin and _in_backward():  # an annotation of autograd's is open
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

    def _mine(self) -> bool:
        """Whether this thread may step the profiler that runs."""
        running = self.whole is not None or self.prof is not None
        if self._all_threads or not running or self._owner == threading.get_ident():
            return True
        if self.whole is not None:
            self.over = self.refused = True
            text = "the script trains in a thread of its own, which this PyTorch can record only "
            text += "without --profile-memory" if self.job["profile_memory"] else "from version 2.11 on"
            self.channel.send("failed", kind="threads", message=text)
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
        """`stacks`: False for what is to be thrown away; those of imports alone can take gigabytes."""
        job = self.job | {"with_stack": self.job["with_stack"] and stacks}
        self._device = kind or devices.in_use().type
        self._owner = threading.get_ident()
        self._stopped = False
        before = _threads()
        with _uninterrupted(), self._quiet, no_signals():
            prof = make_profiler(job, self._device, steps, self._all_threads)
            prof.start()
        self._has_run = True
        self._natives = max(self._natives, _threads() - before)
        return prof

    def _drop(self, prof: torch.profiler.profile) -> None:
        """Stop a profiler whose recording nobody wants. Another one may begin soon."""
        if not self._stopped:
            self._ranges.settle(self._all_threads, last=False)
            with self._quiet:
                prof.stop()

    # The end

    @harmless
    def _write(self) -> None:
        """Stop what runs and write it, once; the program waits for that."""
        with _uninterrupted(), self._alone() as free:
            if not free or self.over or self._forked_off():
                return
            self.over = True
            prof = self.prof or self.whole
            if prof is not None and (self._all_threads or self._owner == threading.get_ident()):
                self._write_files(prof)

    def _write_files(self, prof: torch.profiler.profile) -> None:
        complete = self._complete()
        self._recorded = monotonic() - self._started
        if not self._stopped:
            self._ranges.settle(self._all_threads, last=True)
        with self._quiet:
            if not self._stopped:
                if complete or (self.seen == 0 and not self.timed):
                    prof.step()
                prof.stop()
        first = self.begin + self.job["wait"] + self.job["schedule_warmup"]
        if 0 < self.seen <= first:
            raise Failure("few_steps", self._too_few())
        device = devices.in_use()
        self.job |= self.job["by_device"][device.type]
        with self._quiet:
            written = write_files(prof, self.job, self._device, self.channel)
        if not written.ops:
            raise Failure("nothing", "nothing was recorded: " + self._where_the_work_is())
        self.channel.note(*self._what_is_there(complete, self.seen - first, written.steps))
        flush()
        info = devices.machine(device) | {"steps": written.steps, "counted": self.steps.names}
        self._written = self.channel.publish(info, written.files)
        if self._written and complete:
            self.channel.phase("finishing", os.path.basename(self.job["target"]))

    def _too_few(self) -> str:
        first = self.begin + self.job["wait"] + self.job["schedule_warmup"]
        steps = "1 step" if self.seen == 1 else f"{self.seen} steps"
        return (
            f"the script made {steps} ({self._counted}), but recording starts after {first}: "
            "try --no-warmup, a smaller --wait, or more steps"
        )

    def _what_is_there(self, complete: bool, whole_steps: int, in_trace: int) -> tuple[str, str]:
        """The note about a recording: its kind and text. `whole_steps`: that came to their end."""
        active = self.job["active"]
        if self.timed:
            return "timed", f"recorded {self._recorded:.1f} s"
        if self.seen == 0:
            hidden = " (torch.compile hides those that it compiles)" if _compiles() else ""
            text = f"no optimizer step was seen{hidden}: the whole run is one step of the trace "
            text += "(--step-on NAME: steps by an annotation; --duration: a time)"
            if self.job["step_on"]:
                seen = ", ".join(self.steps.annotations) or "none"
                text = f"no annotation {self.job['step_on']!r} was seen (but {seen}): "
                text += "the whole run is one step of the trace"
            if self.job["with_stack"] and self.prof is None:
                text += "; it has no Python frames (--duration records them)"
            elsewhere = self._children()
            return "one_step", f"{text}; {elsewhere}" if elsewhere else text
        if not complete:
            text = f"the script ended early: {whole_steps} of {active} steps recorded"
            if in_trace > whole_steps:
                text += f"; the last of the {in_trace} in the trace is cut off"
            return "few_steps", text
        steps = f"the {active} wanted steps are" if active > 1 else "the wanted step is"
        if self.job["run_to_end"]:
            return "steps", f"{steps} recorded; each ends with {self._counted}"
        text = f"stopped after step {self.seen} ({self._counted}): {steps} recorded"
        return "stopped", f"{text} (--run-to-end lets the script finish)"

    @property
    def _counted(self) -> str:
        return " and ".join(self.steps.names)

    def _where_the_work_is(self) -> str:
        when = f" in these {self._recorded:.1f} s (--after begins later)" if self.timed else ""
        return self._children() or f"the script ran no PyTorch operators in this process{when}"

    def _children(self) -> str:
        """What to do about work in other processes, if there was any."""
        try:
            import resource
        except ImportError:
            return ""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = used.ru_utime + used.ru_stime
        if seconds < 1.0:
            return ""
        target = self.job["target"]
        text = (
            f"the processes that the script started used {seconds:.0f} s of CPU time and are not recorded. "
        )
        if self.job["kind"] == "module" and target.endswith((".run", ".launch", ".launcher")):
            text += f"Have {target} start tracetui capture SCRIPT.py "
            text += "(torchrun --no-python, accelerate launch --no_python)"
        else:
            text += "For a script that torchrun can start, add --ranks N"
        return f"{text}; for any other: tracetui run COMMAND, and tracetui attach meanwhile"

    def _at_exit(self) -> None:
        """The program ends, or becomes another one."""
        if self._forked_off():
            return
        over = self.over
        self._write()
        if self.own.seen and not self.job["ours"]:
            self.channel.send("theirs", traces=self.own.traces)
        elif not over and self.prof is None and self.whole is None:
            self._tell_nothing()
        self.channel.clean()  # here, since whoever kills the parent now would leave them

    def _tell_nothing(self) -> None:
        """Say why there is no recording."""
        if self._became:
            text = f"the script became another program ({self._became})"
        elif self.seen:
            self.channel.send("failed", kind="few_steps", message=self._too_few())
            return
        elif "torch" not in sys.modules:
            text = self._children() or "the script never imported PyTorch"
        elif self.timed or self.job["after"]:
            text = f"the script ended before --after {self.job['after']:g}s"
            if devices.gpu_backends():
                text += ", or never used the GPU"
        elif devices.gpu_backends():
            text = self._children() or "the script never used the GPU (--device cpu records the CPU)"
        else:
            text = self._where_the_work_is()
        self.channel.send("failed", kind="nothing", message=f"nothing was recorded: {text}")

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
            running = None if self.over else self.prof or self.whole
            self.over = True
            if free and running is not None and self._all_threads:
                self._drop(running)

    @harmless
    def _give_way(self) -> None:
        """The program is about to start a profiler of its own, and PyTorch has room for one."""
        with self._alone() as free:
            if not free or self.over:
                return
            self.over = True
            running = self.prof or self.whole
            if running is not None and (self._all_threads or self._owner == threading.get_ident()):
                self._drop(running)
        self.channel.note(
            "own_profiler", "the script has a profiler of its own: it is left alone, to its end"
        )

    def _forked_off(self) -> bool:
        return os.getpid() != self._pid

    def _before_fork(self) -> None:
        """Python 3.12 warns where a process with threads forks: of ours there is nothing to say.

        It does so after the hooks of the fork have run, or before.
        """
        _warn_of_forks()
        if not self._forked_off() and 0 < _threads() <= 1 + len(OURS) + self._natives:
            warnings.filters.insert(0, FORKS)  # type: ignore[attr-defined]

    def _forked(self) -> None:
        """In a process that the program forked: nothing of ours goes on."""
        _warn_of_forks()
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
            _end_without_destructors()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl+C does not lose what there is: the program gets it afterwards.

    Nor does the program's timer go on: what we take here is no part of the step that it guards.
    """
    if threading.get_ident() != threading.main_thread().ident:
        yield  # only the main one is interrupted
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    left = stop_timer()
    try:
        yield
    finally:
        if any(left):
            signal.setitimer(signal.ITIMER_REAL, *left)
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
        if pressed:
            signal.raise_signal(signal.SIGINT)


def _end_without_destructors() -> None:
    """Have this forked process end as by `_exit` when Python itself has ended.

    Kineto waits at exit for threads of its own, which are not in a forked process. (glibc)
    """
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        on_exit, flush_all = libc.on_exit, libc.__cxa_atexit
        on_exit(libc._exit, None)
        flush_all(libc.fflush, None, None)  # before that


def _warn_of_forks() -> None:
    with contextlib.suppress(ValueError):
        warnings.filters.remove(FORKS)  # type: ignore[attr-defined]


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 0


def _in_backward() -> bool:
    import torch

    return bool(torch._C._current_graph_task_id() != -1)


def _compiles() -> bool:
    """Whether torch.compile was at work: it leaves out the annotations in what it compiles."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters.get("frames"))


def _memory() -> tuple[int, float]:
    """(bytes that this process has for itself, bytes that are free); (0, inf) where Linux does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            _, resident, shared, *_ = map(int, file.read().split())
        with open("/proc/meminfo", encoding="ascii") as file:
            free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        return 0, float("inf")
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE"), free


def how_it_left(stop: SystemExit) -> str:
    """The end of a script that called `sys.exit`, in words."""
    return (
        f"ended with exit status {int(stop.code)}"
        if isinstance(stop.code, int)
        else f"ended with: {stop.code}"
    )
