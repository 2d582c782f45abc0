"""The form's fields, and what a key does to the options. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from tracetui.capture import DTYPES, MODES, WORKLOADS, CaptureOptions, OptionError, Param
from tracetui.session.paths import meta_file

DEVICES = ("auto", "cuda", "cpu", "xpu")
TARGET = "target"


@dataclass(frozen=True)
class Field:
    """One line of the form."""

    key: str
    """Name of the option in `CaptureOptions`, or of the workload's own."""
    label: str
    kind: str
    """"choice", "number", "flag" or "text"."""
    help: str
    choices: tuple[str, ...] = ()
    own: bool = False
    """An option of the workload rather than of every capture."""
    optional: bool = False
    """A number that may be absent."""


COMMON = (
    Field("dtype", "dtype", "choice", "of the tensors and weights", DTYPES),
    Field("compile", "compile", "flag", "run it through torch.compile"),
    Field("mode", "mode", "choice", "of torch.compile", MODES),
    Field("warmup", "warm-up", "flag", "run steps before the profiler starts; without: a cold trace"),
    Field("device", "device", "text", "auto, cuda, cuda:N, cpu or xpu; ← → go through them", DEVICES),
    Field("wait", "wait", "number", "steps that the started profiler skips"),
    Field("schedule_warmup", "throw away", "number", "steps that it records and throws away"),
    Field("active", "active", "number", "steps that it records"),
    Field("record_shapes", "shapes", "flag", "record the shapes of the inputs"),
    Field("profile_memory", "memory", "flag", "record what is allocated and freed"),
    Field("with_stack", "stacks", "flag", "record Python frames"),
    Field("with_flops", "flops", "flag", "estimate the FLOPs of matrix products"),
    Field("seed", "seed", "number", "for torch.manual_seed"),
    Field("output", "output", "text", "directory for the files"),
    Field("gzip", "gzip", "flag", "write .json.gz"),
    Field("python", "python", "text", "a Python with torch to run it in; empty: this one"),
)


def form_fields(options: CaptureOptions) -> list[Field]:
    """The lines of the form: the target, its own options, then those of every capture."""
    target = Field(
        TARGET,
        "workload",
        "text",
        "← → choose one; or type module:function or script.py",
        tuple(WORKLOADS),
    )
    found = [target]
    workload = WORKLOADS.get(options.target)
    if workload is not None:
        found += [_own(p) for p in workload.params]
    skipped = {"dtype"} if workload is None else set()
    if options.kind == "script":
        skipped |= {"compile", "mode"}
    return found + [f for f in COMMON if f.key not in skipped]


def _own(p: Param) -> Field:
    kind = "choice" if p.choices else "number"
    return Field(p.name, p.name.replace("_", " "), kind, p.help, p.choices, True, p.default is None)


def value_of(options: CaptureOptions, field: Field) -> Any:
    """The value of a field."""
    return options.values().get(field.key) if field.own else getattr(options, field.key)


def text_of(options: CaptureOptions, field: Field) -> str:
    """The value as it is shown."""
    value = value_of(options, field)
    if field.kind == "flag":
        return "yes" if value else "no"
    return "-" if value is None and field.kind == "number" else str(value if value is not None else "")


def with_value(options: CaptureOptions, field: Field, value: Any) -> CaptureOptions:
    """The options with another value. Another target brings its own options with it."""
    if field.key == TARGET:
        workload = WORKLOADS.get(value)
        own = {p.name for p in workload.params} if workload else set()
        return replace(options, target=value, params={k: v for k, v in options.params.items() if k in own})
    if field.own:
        return replace(options, params={**options.params, field.key: value})
    changed = replace(options, **{field.key: value})
    # A mode means nothing without compile.
    return replace(changed, mode="default") if not changed.compile else changed


def stepped(options: CaptureOptions, field: Field, step: int) -> CaptureOptions:
    """One step to the right (1) or left (-1): the next choice, the other flag, twice or half a size."""
    value = value_of(options, field)
    if field.kind == "flag":
        return with_value(options, field, not value)
    if field.choices:
        choices = field.choices
        at = choices.index(value) if value in choices else (-1 if step > 0 else 0)
        changed = choices[(at + step) % len(choices)]
        if field.key == "mode" and changed != "default":
            options = replace(options, compile=True)
        return with_value(options, field, changed)
    if field.kind != "number":
        return options
    if value is None:
        return with_value(options, field, 1) if step > 0 else options
    if not field.own:
        return with_value(options, field, max(0, value + step))
    if step > 0:
        return with_value(options, field, value * 2)
    if value <= 1:
        return with_value(options, field, None) if field.optional else options
    return with_value(options, field, value // 2)


def typed(options: CaptureOptions, field: Field, character: str, fresh: bool) -> CaptureOptions:
    """A character typed into a field; `fresh`: the first one since the cursor came, it replaces a number."""
    value = value_of(options, field)
    if field.kind == "text":
        return with_value(options, field, ("" if fresh and field.choices else str(value or "")) + character)
    if field.kind == "number" and character.isdigit() and character.isascii():
        before = 0 if fresh or value is None else int(value)
        return with_value(options, field, min(before * 10 + int(character), 10**9))
    if field.kind == "flag" and character == " ":
        return with_value(options, field, not value)
    if field.kind == "choice" and character == " ":
        return stepped(options, field, 1)
    return options


def rubbed(options: CaptureOptions, field: Field) -> CaptureOptions:
    """The last character taken away."""
    value = value_of(options, field)
    if field.kind == "text":
        return with_value(options, field, str(value or "")[:-1] or (None if field.key == "python" else ""))
    if field.kind == "number" and value is not None:
        rest = int(value) // 10
        return with_value(options, field, None if not rest and field.optional else rest)
    return options


def problem(options: CaptureOptions) -> str:
    """Why these options cannot be captured, in one line; "" where they can."""
    try:
        options.check()
    except OptionError as error:
        return str(error)
    return ""


def options_from(meta: Mapping[str, Any]) -> CaptureOptions | None:
    """The options of an earlier capture, from its .meta.json; None where they cannot be told."""
    given = meta.get("options")
    if not isinstance(given, Mapping) or not isinstance(given.get("target"), str):
        return None
    known: Iterable[str] = (f.name for f in fields(CaptureOptions))
    values = {k: given[k] for k in known if k in given}
    try:
        values["script_args"] = tuple(map(str, values.get("script_args", ())))
        workload = WORKLOADS.get(given["target"])
        usual = workload.defaults() if workload is not None else {}
        # All options are in the file, those at their default too: the command is shorter without them.
        params = dict(values.get("params", {}))
        values["params"] = {k: v for k, v in params.items() if k not in usual or v != usual[k]}
        options = CaptureOptions(**values)
        options.check()
    except (OptionError, TypeError, ValueError):
        return None
    return options


def earlier_options(trace: str) -> CaptureOptions | None:
    """The options that a trace was captured with, from the .meta.json beside it; None where there is none."""
    try:
        meta = json.loads(meta_file(trace).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return options_from(meta) if isinstance(meta, dict) else None
