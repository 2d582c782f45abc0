"""What to capture and how: `CaptureOptions`, its checks, its command line, and the names of its files.

An option of every capture is one field here, made by `option`; `OPTIONS` lists them.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NoReturn

from tracetui.capture.catalog import WORKLOADS
from tracetui.capture.naming import program_stem
from tracetui.core.option import Option, Value, flag_of

DTYPES = ("auto", "bf16", "fp16", "fp32")
COUNTERS = ("sm", "dram", "power")
CUSPY = ("counters", "graph_dependencies", "pftrace")
"""The options that Cuspy alone has."""
MODES = ("default", "reduce-overhead", "max-autotune")
PROGRAMS = ("script", "module")
"""The kinds of target that are a program of the user's own, with steps of its own."""
COMPILED = ("workload", "callable")
"""The kinds of target for torch.compile: a script compiles by itself."""
OF_EITHER = ("dtype", "compile", "mode")
"""What A and B of one recording have each for itself, besides the target and its own options."""
OF_BOTH = ("against", "rounds", "predicted", "module")
"""What the two have together."""
WARMUP_STEPS = 3
"""Steps run before the profiler starts if `CaptureOptions.warmup` is set."""

_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


class OptionError(ValueError):
    """Invalid options; the message is one line for people."""


def launched_rank() -> int | None:
    """This process's rank if torchrun or the like started several; else None."""
    rank, world = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "")
    return int(rank) if rank.isdecimal() and world.isdecimal() and int(world) > 1 else None


def option(default: Any, help: str, label: str = "", sentence: str | None = None, **more: Any) -> Any:
    """A field for an option of every capture; the arguments are those of `Option`."""
    return field(default=default, metadata={"help": help, "label": label, "sentence": sentence, **more})


@dataclass(frozen=True)
class CaptureOptions:
    """Everything that defines a capture. `check()` validates it, `command()` repeats it."""

    target: str
    """A name in `WORKLOADS`, "module:function", the path of a script that ends in .py, or, with `module`, a
    module's name."""
    params: Mapping[str, Value] = field(default_factory=dict)
    """The workload's own options (`WORKLOADS[target].params`); missing ones have their defaults."""
    script_args: tuple[str, ...] = ()
    """`sys.argv[1:]` of a script or a module."""
    module: bool = option(
        False,
        "run a module, as python -m does",
        sentence="TARGET is a module, run as python -m does.",
        names=("--module", "-m"),
    )
    dtype: str = option(
        "auto",
        "data type of tensors and weights",
        "dtype",
        "Data type of tensors and weights. auto: bf16 on a GPU, fp32 on a CPU (bf16 is slow on many).",
        choices=DTYPES,
        targets=("workload",),
    )
    compile: bool = option(
        False, "run it through torch.compile", "compile", names=("--compile/--no-compile",), targets=COMPILED
    )
    mode: str = option("default", "mode of torch.compile", "mode", choices=MODES, targets=COMPILED)
    warmup: bool = option(
        True,
        "run steps before the profiler starts (off: a cold trace)",
        "warm-up",
        sentence=f"Run {WARMUP_STEPS} steps before the profiler starts; --no-warmup gives a cold trace.",
        names=("--warmup/--no-warmup",),
    )
    wait: int = option(1, "steps that the profiler skips first", "wait", least=0)
    schedule_warmup: int = option(
        1, "steps it then records and discards", "discard", "Steps it then records and discards.", least=0
    )
    active: int = option(3, "steps it then records", "active", "Steps it then records.", least=1)
    against: str | None = option(
        None,
        "what takes turns with it, in one recording: mlp --compile",
        "against",
        "Record two, A and B, step by step in turn in one process: TARGET, and a target with options in "
        "quotes, 'mlp --compile' (or '--compile': TARGET with that changed). They are then compared.",
        free=True,
        targets=COMPILED,
        metavar="TEXT",
    )
    rounds: int = option(
        12,
        "rounds of A and B that are recorded",
        "",
        "With --against: rounds of A and B that are recorded.",
        targets=COMPILED,
        least=2,
    )
    predicted: float | None = option(
        None,
        "how much less B was predicted to take a step",
        "",
        "With --against: how much less B was predicted to take a step (1.2ms), to be shown beside.",
        targets=COMPILED,
        seconds=True,
    )
    """Seconds."""
    record_shapes: bool = option(False, "record the shapes of the inputs", "shapes")
    profile_memory: bool = option(False, "record allocations and frees", "memory")
    with_stack: bool = option(False, "record Python frames", "stacks")
    with_flops: bool = option(False, "estimate the FLOPs of matrix multiplications", "flops")
    profiler: str = option(
        "kineto",
        "cuspy, new in PyTorch 2.15, has counters and the dependencies in CUDA graphs",
        "profiler",
        "What records the GPU. cuspy is new in PyTorch 2.15, for NVIDIA's, and needs cupti-python and "
        "libcupti 13.3. Where it is missing, kineto records.",
        choices=("kineto", "cuspy"),
    )
    counters: str | None = option(
        None,
        "of the GPU, with cuspy: sm and dram (% in use), power (and clocks)",
        "counters",
        "With cuspy: counters of the GPU over time, sm and dram (% in use), power (and clocks, temperature).",
        choices=("sm,dram,power", "sm", "dram", "power"),
        free=True,
        metavar="LIST",
    )
    graph_dependencies: bool = option(
        False,
        "what waits for what in a CUDA graph, with cuspy",
        "graph deps",
        "With cuspy: what waits for what in a CUDA graph.",
    )
    pftrace: bool = option(
        False, "write .pftrace.gz, for Perfetto, with cuspy", "pftrace", "With cuspy: write .pftrace.gz."
    )
    device: str = option(
        "auto",
        "auto, cuda, cuda:N, cpu or xpu; ← → change it",
        "device",
        "auto (a GPU if there is one), cuda, cuda:N, cpu or xpu.",
        choices=("auto", "cuda", "cpu", "xpu"),
        free=True,
    )
    """"auto" is the first GPU, else the CPU with a notice."""
    seed: int = option(0, "seed for torch.manual_seed", "seed", targets=COMPILED)
    output: str = option(
        "traces",
        "folder for the files",
        "output",
        "Folder for the files.",
        free=True,
        names=("--output", "-o"),
        metavar="DIR",
    )
    """The files go into a folder of it, named after the target. Made if its parent exists."""
    duration: float | None = option(
        None,
        "record for so long, instead of steps",
        "",
        "Record a script for this long (5s, 500ms, 2m) instead of its steps.",
        targets=PROGRAMS,
        seconds=True,
    )
    """Seconds."""
    after: float = option(
        0.0,
        "begin so long after the start",
        "",
        "Begin so long after the script's start.",
        targets=PROGRAMS,
        seconds=True,
    )
    """Seconds."""
    step_on: str | None = option(
        None,
        "a step ends where this annotation does",
        "step on",
        "A step of a script ends where each record_function of this name does. Default: at optimizer.step().",
        targets=PROGRAMS,
        free=True,
        metavar="NAME",
    )
    run_to_end: bool = option(
        False,
        "let the script finish after it is recorded",
        "run to end",
        "Let a script finish; otherwise it is ended as soon as it is recorded.",
        targets=PROGRAMS,
    )
    ours: bool = option(
        False,
        "switch off the profilers that the script itself starts",
        "ours",
        "Switch off the profilers that the script itself starts. Else they are left alone, and the trace "
        "that they write is opened.",
        targets=PROGRAMS,
    )
    gzip: bool = option(False, "write .json.gz", "gzip")
    force: bool = option(False, "overwrite a capture of the same name; otherwise a number is added")
    averages_json: bool = option(False, "also write the table's rows as numbers")
    python: str | None = option(
        None,
        "a Python that has PyTorch; empty: found automatically",
        "python",
        "Python to run the capture in; it needs PyTorch, but not tracetui. Default: tracetui's own "
        "if it has PyTorch, else that of VIRTUAL_ENV, of CONDA_PREFIX, or python3 or python on the PATH.",
        free=True,
        metavar="PATH",
        envvar="TRACETUI_PYTHON",
    )

    @property
    def kind(self) -> str:
        """ "workload", "callable", "script" or "module"."""
        if self.module:
            return "module"
        if self.target in WORKLOADS:
            return "workload"
        if self.target.endswith(".py"):
            return "script"
        return "callable"

    @property
    def steps(self) -> int:
        """Steps from the profiler's start to the end of the recording."""
        return self.wait + self.schedule_warmup + self.active

    def on(self, device: str) -> CaptureOptions:
        """The same with the data type that "auto" is on a device of this type ("cuda", "xpu", "cpu")."""
        if self.kind != "workload" or self.dtype != "auto":
            return self
        return replace(self, dtype="fp32" if device == "cpu" else "bf16")

    def other(self) -> CaptureOptions | None:
        """What `against` names: B. How it is recorded is as for A. Raises `OptionError`."""
        if self.against is None:
            return None
        try:
            words = shlex.split(self.against)
        except ValueError:
            words = []
        if not words:
            raise OptionError(f"--against takes a target and its options; got {self.against!r}")
        if words[0].startswith("-"):  # the same target, with these options changed
            target, options, params = self.target, {}, self.params
        else:
            target, options, params = words.pop(0), {n: getattr(CaptureOptions, n) for n in OF_EITHER}, {}
        given = _of_either(target, words)
        if given.get("compile") is False:
            options["mode"] = "default"
        options |= {name: given.pop(name) for name in OF_EITHER if name in given}
        alone: dict[str, Any] = {name: getattr(CaptureOptions, name) for name in OF_BOTH}
        found = replace(self, target=target, params={**params, **given}, **alone, **options)
        if found.kind not in COMPILED:
            raise OptionError(f"--against takes a built-in workload or module:function; got {target!r}")
        try:
            found.check()
        except OptionError as error:
            raise OptionError(f"--against: {error}") from None
        return found

    def values(self) -> dict[str, Value]:
        """The workload's own options including defaults. Empty for user code."""
        workload = WORKLOADS.get(self.target)
        return {**workload.defaults(), **self.params} if workload else {}

    def check(self) -> None:
        """Raise `OptionError` if this cannot be captured, before a child is started."""
        if self.kind == "workload":
            self._check_params()
        elif self.kind == "callable" and not _CALLABLE.fullmatch(self.target):
            raise OptionError(
                f"no workload {self.target!r}: choose from {', '.join(WORKLOADS)}, "
                "or give module:function or a script.py"
            )
        elif self.params:
            flags = ", ".join(map(flag_of, self.params))
            raise OptionError(f"{flags}: only built-in workloads have this option")
        if self.kind == "module" and not _MODULE.fullmatch(self.target):
            raise OptionError(f"-m takes the name of a module; got {self.target!r}")
        program = self.kind in PROGRAMS
        for flag, given, call in (("compile", self.compile, "compile"), ("seed", self.seed, "manual_seed")):
            if program and given:
                raise OptionError(f"--{flag} does not apply to scripts: call torch.{call} in the script")
        if self.kind == "script" and not os.path.isfile(self.target):
            raise OptionError(f"no such script: {self.target}")
        if self.script_args and not program:
            raise OptionError(f"{self.script_args[0]}: only a script takes arguments")
        for o in OPTIONS:
            if o.targets == PROGRAMS and not program and getattr(self, o.name) != o.default:
                raise OptionError(f"{o.flag} applies only to a script.py or -m MODULE")
        for flag, value in (("--duration", self.duration), ("--after", self.after or None)):
            if value is not None and not 0.001 <= value <= 86400:
                raise OptionError(f"{flag} must be between 1ms and 24h")
        if self.duration is not None and self.step_on is not None:
            raise OptionError("--duration records time, --step-on steps: choose one")
        for o in OPTIONS:
            value = getattr(self, o.name)
            if o.kind == "choice" and value not in o.choices:
                raise OptionError(f"{o.flag} must be one of {', '.join(o.choices)}; got {value!r}")
            if o.least is not None and value < o.least:
                wrong = f"must be at least {o.least}" if o.least else "cannot be negative"
                raise OptionError(f"{o.flag} {wrong}")
        for name in CUSPY:
            if getattr(self, name) and self.profiler != "cuspy":
                raise OptionError(f"{flag_of(name)} needs --profiler cuspy")
        if unknown := set(self.counters.split(",") if self.counters else ()) - set(COUNTERS):
            raise OptionError(f"--counters takes {', '.join(COUNTERS)}; got {', '.join(sorted(unknown))!r}")
        if program and self.against is not None:
            raise OptionError("--against does not apply to scripts, which run once: try module:function")
        for name in ("rounds", "predicted") if self.against is None else ():
            if getattr(self, name) != getattr(CaptureOptions, name):
                raise OptionError(f"--{name} needs --against")
        if self.against is not None and self.active != CaptureOptions.active:
            raise OptionError("--against records --rounds, not --active steps")
        if self.mode != "default" and not self.compile:
            raise OptionError(f"--mode {self.mode} needs --compile")
        if not re.fullmatch(r"auto|cpu|(cuda|xpu)(:\d+)?", self.device):
            raise OptionError(f"--device must be cuda, cuda:N, cpu or xpu; got {self.device!r}")
        self.other()

    def _check_params(self) -> None:
        workload = WORKLOADS[self.target]
        for name, value in self.params.items():
            param = workload.param(name)
            flag = flag_of(name)
            if param is None:
                flags = ", ".join(p.flag for p in workload.params)
                raise OptionError(f"{self.target} has no option {flag}; it has {flags}")
            if param.choices:
                if value not in param.choices:
                    choices = ", ".join(param.choices)
                    raise OptionError(f"{flag} of {self.target} must be one of {choices}; got {value!r}")
            elif value is None and param.default is None:
                continue
            elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise OptionError(f"{flag} must be a number above 0; got {value!r}")
        values = self.values()
        for whole, part in (("dim", "heads"), ("heads", "kv_heads")):
            a, b = values.get(whole), values.get(part)
            if isinstance(a, int) and isinstance(b, int) and a % b:
                raise OptionError(f"--{whole} {a} is not divisible by {flag_of(part)} {b}")
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
        """The files' name without suffix: "64x128x768x3072_bf16_warm_compile" as in the series, or
        "train-lr=0.1" for a script, to which `_cold`, `_compile` and a mode are added.

        Under torchrun it ends with the rank: each rank makes its own capture.
        """
        if self.kind == "workload":
            parts = [WORKLOADS[self.target].tag(self.params), self.dtype]
            parts += ["warm" if self.warmup else "cold", "compile" if self.compile else "eager"]
        else:
            parts = [program_stem(self.target, self.script_args, module=self.module)]
            parts += [] if self.warmup else ["cold"]
            parts += ["compile"] if self.compile else []
        if self.compile and self.mode != "default":
            parts.append(self.mode)
        if (other := self.other()) is not None:
            usual = self if other.target == self.target else replace(other, params={})
            own = {n: v for n, v in other.values().items() if v is not None and v != usual.values()[n]}
            words = [word for name, value in own.items() for word in (flag_of(name), str(value))]
            dtype = "auto" if other.dtype == self.dtype else other.dtype
            words += replace(other, params={}, dtype=dtype).own_words()
            parts.append("against_" + program_stem(f":{other.folder}", words))
        rank = launched_rank()
        if rank is not None:
            parts.append(f"rank{rank}")
        return "_".join(parts)

    def to_argv(self) -> list[str]:
        """Arguments of `tracetui capture` for the same options; defaults are left out."""
        argv = [self.target, *self._words(OPTIONS)]
        if self.script_args:
            argv += ["--", *self.script_args]
        return argv

    def own_words(self, unlike: CaptureOptions | None = None) -> list[str]:
        """Those of the arguments that `--against` takes, too. A default is named where `unlike` has another
        value."""
        words = self._words([o for o in OPTIONS if o.name in OF_EITHER])
        if unlike is not None and unlike.target == self.target:
            usual = WORKLOADS[self.target].defaults() if self.kind == "workload" else {}
            for name, value in self.values().items():
                if value is not None and value == usual[name] != unlike.values()[name]:
                    words += [flag_of(name), str(value)]
        return words

    def _words(self, options: Sequence[Option]) -> list[str]:
        argv = []
        for name, value in self.params.items():
            if value is not None and value != WORKLOADS[self.target].defaults().get(name):
                argv += [flag_of(name), str(value)]
        for o in options:
            value = getattr(self, o.name)
            if value == o.default:
                continue
            if isinstance(value, bool):
                argv.append(o.flag if value else o.flag.replace("--", "--no-"))
            elif o.seconds:
                argv += [o.flag, f"{value:g}s"]
            else:
                argv += [o.flag, str(value)]
        return argv

    def command(self) -> str:
        """The shell command that repeats the capture."""
        return shlex.join(["tracetui", "capture", *self.to_argv()])


def _of_either(target: str, words: list[str]) -> dict[str, Any]:
    """What these words of `--against` set, by name. Raises `OptionError`."""
    from argparse import SUPPRESS, ArgumentParser, BooleanOptionalAction

    class Words(ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise OptionError(f"--against: {message}")

    parser = Words(add_help=False, allow_abbrev=False, argument_default=SUPPRESS)
    params = WORKLOADS[target].params if target in WORKLOADS else ()
    for o in (*params, *(o for o in OPTIONS if o.name in OF_EITHER)):
        if o.kind == "flag":
            parser.add_argument(o.flag, dest=o.name, action=BooleanOptionalAction)
        else:
            parser.add_argument(o.flag, dest=o.name, type=str if o.choices else int)
    given, rest = parser.parse_known_args(words)
    if rest:
        own = ", ".join(map(flag_of, OF_EITHER))
        raise OptionError(f"--against: {rest[0]} is not an option of {target}, nor one of {own}")
    return vars(given)


OPTIONS = tuple(
    Option(f.name, getattr(CaptureOptions, f.name), **f.metadata)
    for f in fields(CaptureOptions)
    if f.metadata
)
"""The options of every capture, in the order of `--help`."""
