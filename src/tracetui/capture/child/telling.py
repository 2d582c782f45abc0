"""How a recording of a program is told: what it holds, why there is none, and how the program ended."""

from __future__ import annotations

import sys

from . import device as devices
from .channel import Channel, Failure
from .export import failed_reading
from .frames import in_a_line
from .recording import Job
from .steps import Steps


def of_the_profiler(error: BaseException) -> str:
    """What to say of an error that PyTorch's profiler raised."""
    if failed_reading(error):
        # torch 2.13 with stacks, about one time in forty: an event's name is not the text it was.
        return "PyTorch could not read the names in its own recording (it happens): capture again"
    return f"PyTorch's profiler failed: {type(error).__name__}: {error}"


def how_it_left(stop: SystemExit) -> str:
    """The end of a script that called `sys.exit`, in words."""
    return (
        f"ended with exit status {int(stop.code)}"
        if isinstance(stop.code, int)
        else f"ended with: {stop.code}"
    )


class Teller:
    """Tells of the recording of one program. `seen`: the steps that it made, warm-up included."""

    def __init__(self, job: Job, channel: Channel, steps: Steps) -> None:
        self.job, self.channel, self.steps = job, channel, steps
        self.timed = job["duration"] is not None
        self.recorded = 0.0
        """Seconds that a recording of time has lasted."""

    @property
    def _counted(self) -> str:
        return " and ".join(self.steps.names)

    def failed(self, error: Exception) -> None:
        """Nothing can be recorded."""
        kind = error.kind if isinstance(error, Failure) else "torch"
        text = str(error) if isinstance(error, Failure) else of_the_profiler(error)
        self.channel.send("failed", kind=kind, message=text)

    def left(self, error: BaseException) -> None:
        """The program's main thread ends with this."""
        if not isinstance(error, SystemExit):
            self.channel.send("left", message=f"failed: {in_a_line(error)}")
        elif error.code not in (None, 0):
            self.channel.send("left", message=how_it_left(error))

    def own(self, theirs: str, taken: bool) -> None:
        """The script starts a profiler. `theirs`: as in `OwnProfilers`; `taken`: ours had the GPU before."""
        text = "the script has a profiler of its own: it is left alone, to its end"
        ours = self.job["profiler"].capitalize()
        if taken and theirs not in ("", ours):
            lost = "it writes no trace" if theirs == "Cuspy" else "its trace has no GPU work"
            text += f"; but {theirs} cannot record a GPU after {ours}, so {lost}"
        self.channel.note("own_profiler", text)

    def threads(self) -> Failure:
        text = "the script trains in a thread of its own, which this PyTorch can record only "
        text += "without --profile-memory" if self.job["profile_memory"] else "from version 2.11 on"
        return Failure("threads", text)

    def too_few(self, seen: int, first: int) -> Failure:
        """`first`: the last step that is not recorded."""
        steps = "1 step" if seen == 1 else f"{seen} steps"
        return Failure(
            "few_steps",
            f"the script made {steps} ({self._counted}), but recording starts after {first}: "
            "try --no-warmup, a smaller --wait, or more steps",
        )

    def empty(self) -> Failure:
        when = f" in these {self.recorded:.1f} s (--after begins later)" if self.timed else ""
        where = self._children() or f"the script ran no PyTorch operators in this process{when}"
        return Failure("nothing", f"nothing was recorded: {where}")

    def nothing(self, became: str) -> Failure:
        """No recording was begun. `became`: the program that took this one's place."""
        if became:
            text = f"the script became another program ({became})"
        elif "torch" not in sys.modules:
            text = self._children() or "the script never imported PyTorch"
        elif self.timed or self.job["after"]:
            text = f"the script ended before --after {self.job['after']:g}s"
            if devices.gpu_backends():
                text += ", or never used the GPU"
        elif devices.gpu_backends():
            text = self._children() or "the script never used the GPU (--device cpu records the CPU)"
        else:
            return self.empty()
        return Failure("nothing", f"nothing was recorded: {text}")

    def there(self, seen: int, whole: int, in_trace: int, complete: bool, frames: bool) -> None:
        """What a recording holds. `whole`: steps that came to their end; `in_trace`: steps in the file."""
        active = self.job["active"]
        if self.timed:
            self.channel.note("timed", f"recorded {self.recorded:.1f} s")
        elif seen == 0:
            self.channel.note("one_step", self._one_step(frames))
        elif not complete:
            text = f"the script ended early: {whole} of {active} steps recorded"
            if in_trace > whole:
                text += f"; the last of the {in_trace} in the trace is cut off"
            self.channel.note("few_steps", text)
        else:
            steps = f"the {active} wanted steps are" if active > 1 else "the wanted step is"
            if self.job["run_to_end"]:
                self.channel.note("steps", f"{steps} recorded; each ends with {self._counted}")
                return
            text = f"stopped after step {seen} ({self._counted}): {steps} recorded"
            self.channel.note("stopped", f"{text} (--run-to-end lets the script finish)")

    def _one_step(self, frames: bool) -> str:
        end = "the whole run is one step of the trace"
        if self.job["step_on"]:
            seen = ", ".join(self.steps.annotations) or "none"
            text = f"no annotation {self.job['step_on']!r} was seen (but {seen}): {end}"
        else:
            hidden = " (torch.compile hides those that it compiles)" if _compiles() else ""
            text = f"no optimizer step was seen{hidden}: {end} "
            text += "(--step-on NAME: steps by an annotation; --duration: a time)"
        wanted = {"Python frames": self.job["with_stack"], "counters": self.job.get("metrics")}
        if not frames and (lacks := " and no ".join(name for name in wanted if wanted[name])):
            text += f"; it has no {lacks} (--duration records them)"
        elsewhere = self._children()
        return f"{text}; {elsewhere}" if elsewhere else text

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


def _compiles() -> bool:
    """Whether torch.compile was at work: it leaves out the annotations in what it compiles."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dynamo is not None and bool(dynamo.counters.get("frames"))
