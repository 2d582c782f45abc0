"""What to capture and how: `CaptureOptions`, its checks, its command line, and the names of its files."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from tracetui.capture.catalog import WORKLOADS, Value

DTYPES = ("bf16", "fp16", "fp32")
MODES = ("default", "reduce-overhead", "max-autotune")
WARMUP_STEPS = 3
"""Steps run before the profiler starts, where `CaptureOptions.warmup` is set."""

_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class OptionError(ValueError):
    """Options that cannot be: the message is one line for people."""


def launched_rank() -> int | None:
    """This process's rank, where torchrun or the like started several; None for a process on its own."""
    rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return int(rank) if rank.isdecimal() and world.isdecimal() and int(world) > 1 else None


@dataclass(frozen=True)
class CaptureOptions:
    """Everything a capture is made from. `check()` says whether it can be; `command()` repeats it."""

    target: str
    """A name in `WORKLOADS`, "module:function", or the path of a script that ends in .py."""
    params: Mapping[str, Value] = field(default_factory=dict)
    """The workload's own options (`WORKLOADS[target].params`); what is absent has its default."""
    script_args: tuple[str, ...] = ()
    """`sys.argv[1:]` of a script."""
    dtype: str = "bf16"
    """One of `DTYPES`. Workloads only."""
    compile: bool = False
    mode: str = "default"
    """torch.compile's mode, one of `MODES`."""
    warmup: bool = True
    """Run `WARMUP_STEPS` steps before the profiler starts. Without them the trace shows a cold start."""
    wait: int = 1
    """Steps that the started profiler skips."""
    schedule_warmup: int = 1
    """Steps that the profiler records and throws away."""
    active: int = 3
    """Steps recorded."""
    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_flops: bool = False
    device: str = "auto"
    """"cuda", "cuda:N", "cpu", "xpu"; "auto" is the first GPU, else the CPU with a notice."""
    seed: int = 0
    output: str = "traces"
    """Directory; the files go into a folder of it, named after the target. Made if its parent exists."""
    gzip: bool = False
    """Write .json.gz instead of .json."""
    force: bool = False
    """Overwrite a capture of the same name. Otherwise the new one gets a number: NAME-2, NAME-3, ..."""
    averages_json: bool = False
    """Also write NAME.averages.json: the table's rows as numbers."""
    python: str | None = None
    """The Python that runs the child, in an environment that has torch. None: this one."""

    @property
    def kind(self) -> str:
        """ "workload", "callable" or "script"."""
        if self.target in WORKLOADS:
            return "workload"
        if self.target.endswith(".py"):
            return "script"
        return "callable"

    @property
    def steps(self) -> int:
        """Steps from the profiler's start to the end of the recording."""
        return self.wait + self.schedule_warmup + self.active

    def values(self) -> dict[str, Value]:
        """The workload's own options, defaults filled in. Empty for user code."""
        workload = WORKLOADS.get(self.target)
        return {**workload.defaults(), **self.params} if workload else {}

    def check(self) -> None:
        """Raise `OptionError` for what cannot be captured, before a child is started."""
        if self.kind == "workload":
            self._check_params()
        elif self.kind == "callable" and not _CALLABLE.fullmatch(self.target):
            raise OptionError(
                f"no workload {self.target!r}: choose from {', '.join(WORKLOADS)}, "
                "or give module:function or a script.py"
            )
        elif self.params:
            flags = ", ".join("--" + name.replace("_", "-") for name in self.params)
            raise OptionError(f"{flags}: only the built-in workloads have this option")
        if self.kind == "script" and self.compile:
            raise OptionError("--compile is for workloads and module:function: a script compiles by itself")
        if self.kind == "script" and not os.path.isfile(self.target):
            raise OptionError(f"no such script: {self.target}")
        if self.script_args and self.kind != "script":
            raise OptionError(f"{self.script_args[0]}: only a script.py takes arguments")
        if self.dtype not in DTYPES:
            raise OptionError(f"--dtype is one of {', '.join(DTYPES)}, not {self.dtype!r}")
        if self.mode not in MODES:
            raise OptionError(f"--mode is one of {', '.join(MODES)}, not {self.mode!r}")
        if self.mode != "default" and not self.compile:
            raise OptionError(f"--mode {self.mode} needs --compile")
        if not re.fullmatch(r"auto|cpu|(cuda|xpu)(:\d+)?", self.device):
            raise OptionError(f"--device is cuda, cuda:N, cpu or xpu, not {self.device!r}")
        if self.wait < 0 or self.schedule_warmup < 0:
            raise OptionError("--wait and --schedule-warmup cannot be negative")
        if self.active < 1:
            raise OptionError("--active must be at least 1")

    def _check_params(self) -> None:
        workload = WORKLOADS[self.target]
        for name, value in self.params.items():
            param = workload.param(name)
            flag = "--" + name.replace("_", "-")
            if param is None:
                flags = ", ".join(p.flag for p in workload.params)
                raise OptionError(f"{self.target} has no option {flag}; it has {flags}")
            if param.choices:
                if value not in param.choices:
                    choices = ", ".join(param.choices)
                    raise OptionError(f"{flag} of {self.target} is one of {choices}, not {value!r}")
            elif value is None and param.default is None:
                continue
            elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise OptionError(f"{flag} must be a number above 0, not {value!r}")
        values = self.values()
        for whole, part in (("dim", "heads"), ("heads", "kv_heads")):
            a, b = values.get(whole), values.get(part)
            if isinstance(a, int) and isinstance(b, int) and a % b:
                raise OptionError(f"--{whole} {a} is not divisible by --{part.replace('_', '-')} {b}")
        dim, heads = values.get("dim"), values.get("heads")
        if isinstance(dim, int) and isinstance(heads, int) and dim // heads % 2:
            raise OptionError(f"--dim / --heads is {dim // heads}: rotary positions need an even number")

    @property
    def folder(self) -> str:
        """The folder in `output`: the workload's name, "module.function", or the script's name, no .py."""
        if self.kind == "script":
            return Path(self.target).stem or "script"
        return self.target.replace(":", ".")

    @property
    def stem(self) -> str:
        """The files' name without suffix, as in the series: "64x128x768x3072_bf16_warm_compile".

        Under torchrun it ends with the rank: each rank is a capture of its own.
        """
        parts = []
        if self.kind == "workload":
            parts += [WORKLOADS[self.target].tag(self.params), self.dtype]
        parts.append("warm" if self.warmup else "cold")
        if self.kind != "script":
            parts.append("compile" if self.compile else "eager")
        if self.compile and self.mode != "default":
            parts.append(self.mode)
        rank = launched_rank()
        if rank is not None:
            parts.append(f"rank{rank}")
        return "_".join(parts)

    def to_argv(self) -> list[str]:
        """Arguments of `tracetui capture` that make the same options; defaults are left out."""
        argv = [self.target]
        for name, value in self.params.items():
            if value is not None and value != WORKLOADS[self.target].defaults().get(name):
                argv += ["--" + name.replace("_", "-"), str(value)]
        default = CaptureOptions(self.target)
        for item in fields(self):
            value, flag = getattr(self, item.name), "--" + item.name.replace("_", "-")
            if item.name in ("target", "params", "script_args") or value == getattr(default, item.name):
                continue
            if isinstance(value, bool):
                argv.append(flag if value else flag.replace("--", "--no-"))
            else:
                argv += [flag, str(value)]
        if self.script_args:
            argv += ["--", *self.script_args]
        return argv

    def command(self) -> str:
        """The shell command that repeats the capture."""
        return shlex.join(["tracetui", "capture", *self.to_argv()])
