"""The fields of the form, and how keys change the options. Pure functions."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass, fields
from typing import Any

import msgspec

from tracetui.capture.catalog import WORKLOADS
from tracetui.capture.options import CUSPY, OPTIONS, PROGRAMS, CaptureOptions, OptionError
from tracetui.core.copying import replace
from tracetui.core.option import Option
from tracetui.session.paths import meta_file

CHOOSE = "← → choose one; or type module:function or script.py"
TARGET = Option("target", "", CHOOSE, tuple(WORKLOADS), free=True, label="workload")
ARGUMENTS = Option(
    "line",
    "",
    "the script's arguments, quoted as in a shell",
    free=True,
    targets=PROGRAMS,
    label="arguments",
)
FIRST = ("line", "dtype", "compile", "mode", "warmup", "device")
"""Options of how the program runs: they come before those of what is recorded."""


@dataclass(frozen=True)
class Draft(CaptureOptions):
    """Options as they stand in the form: what is typed need not be complete."""

    line: str = ""
    """The arguments of a script. `script_args` follow with `asked`."""


def draft(options: CaptureOptions) -> Draft:
    """The options, to be changed in the form."""
    if isinstance(options, Draft):
        return options
    return Draft(**_values(options), line=shlex.join(options.script_args))


def asked(options: CaptureOptions) -> CaptureOptions:
    """The options to capture with. Raises `OptionError` while a quote in the arguments is open."""
    if not isinstance(options, Draft):
        return options
    try:
        args = shlex.split(options.line) if options.kind in ARGUMENTS.targets else []
    except ValueError as error:
        wrong = "a quote is not closed" if "quot" in str(error) else "nothing follows the backslash"
        raise OptionError(f"arguments: {wrong}") from None
    return CaptureOptions(**_values(options) | {"script_args": tuple(args)})


def _values(options: CaptureOptions) -> dict[str, Any]:
    return {f.name: getattr(options, f.name) for f in fields(CaptureOptions)}


def form_fields(options: CaptureOptions) -> list[Option]:
    """The fields of the form: the target, its own options, then the options of every capture."""
    workload = WORKLOADS.get(options.target)
    own = workload.params if workload is not None else ()
    common = [o for o in (ARGUMENTS, *OPTIONS) if o.label and options.kind in o.targets]
    return [TARGET, *own, *sorted(common, key=lambda o: o.name not in FIRST)]


def value_of(options: CaptureOptions, field: Option) -> Any:
    """The value of a field."""
    return options.values()[field.name] if is_own(options, field) else getattr(options, field.name)


def is_own(options: CaptureOptions, field: Option) -> bool:
    """Whether a field is an option of this workload only."""
    return field.name in options.values()


def text_of(options: CaptureOptions, field: Option) -> str:
    """A field's value as text."""
    value = value_of(options, field)
    if field.kind == "flag":
        return "yes" if value else "no"
    return "-" if value is None and field.kind == "number" else str(value if value is not None else "")


def with_value(options: CaptureOptions, field: Option, value: Any) -> CaptureOptions:
    """The options with one value changed. A new target keeps only the options that it has."""
    if field is TARGET:
        workload = WORKLOADS.get(value)
        own = {p.name for p in workload.params} if workload else set()
        module = options.module and not (workload or ":" in value or value.endswith(".py"))
        params = {k: v for k, v in options.params.items() if k in own}
        return replace(options, target=value, module=module, params=params)
    if is_own(options, field):
        return replace(options, params={**options.params, field.name: value})
    changed = replace(options, **{field.name: value})
    if field.name in CUSPY and value:
        changed = replace(changed, profiler="cuspy")
    # A mode means nothing without compile, nor do others without Cuspy.
    unused = [] if changed.profiler == "cuspy" else list(CUSPY)
    unused += [] if changed.compile else ["mode"]
    return replace(changed, **{name: getattr(CaptureOptions, name) for name in unused})


def stepped(options: CaptureOptions, field: Option, step: int) -> CaptureOptions:
    """One step to the right (1) or left (-1): the next choice, the flag flipped, a size doubled or halved."""
    value = value_of(options, field)
    if field.kind == "flag":
        return with_value(options, field, not value)
    if field.choices:
        choices = field.choices
        at = choices.index(value) if value in choices else (-1 if step > 0 else 0)
        changed = choices[(at + step) % len(choices)]
        if field.name == "mode" and changed != "default":
            options = replace(options, compile=True)
        return with_value(options, field, changed)
    if field.kind != "number":
        return options
    if value is None:
        return with_value(options, field, 1) if step > 0 else options
    if not is_own(options, field):
        return with_value(options, field, max(0, value + step))
    if step > 0:
        return with_value(options, field, value * 2)
    if value <= 1:
        return with_value(options, field, None) if field.default is None else options
    return with_value(options, field, value // 2)


def typed(options: CaptureOptions, field: Option, character: str, fresh: bool) -> CaptureOptions:
    """The options after a typed character (in a text, several). `fresh`: the first in this field, which
    replaces the value."""
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


def rubbed(options: CaptureOptions, field: Option) -> CaptureOptions:
    """The options after a backspace."""
    value = value_of(options, field)
    if field.kind == "text":
        return with_value(options, field, str(value or "")[:-1] or (None if field.default is None else ""))
    if field.kind == "number" and value is not None:
        rest = int(value) // 10
        return with_value(options, field, None if not rest and field.default is None else rest)
    return options


def problem(options: CaptureOptions) -> str:
    """Why these options cannot be captured, in one line; "" if they can."""
    try:
        asked(options).check()
    except OptionError as error:
        return str(error)
    return ""


class Meta(msgspec.Struct):
    """The fields of a .meta.json that are read."""

    options: CaptureOptions
    cwd: str = ""
    counted: Any = None
    """What the steps of a program were."""


LONGEST_STACKED = 5.0
"""Seconds of a program without steps that are recorded with Python frames."""


def with_stacks(options: CaptureOptions, stepped: bool) -> CaptureOptions:
    """The options, with Python frames. A program in which no steps were seen has them only if it is recorded
    for a time."""
    options = replace(options, with_stack=True)
    if options.duration is None and options.kind in PROGRAMS and not stepped:
        return replace(options, duration=LONGEST_STACKED, step_on=None)
    return options


def earlier_options(trace: str, stacks: bool = False) -> CaptureOptions | None:
    """The options that a trace was captured with, from the .meta.json beside it; None if there is none.
    `stacks`: with Python frames.

    A script is looked for in the folder of that time, too. One that is nowhere is still named: the form says
    that it is missing.
    """
    try:
        # Not msgspec's decoder: it refuses arguments that were not UTF-8, which are surrogates here.
        meta = msgspec.convert(json.loads(meta_file(trace).read_bytes()), type=Meta)
        options = meta.options
        workload = WORKLOADS.get(options.target)
        usual = workload.defaults() if workload is not None else {}
        # The file has all options, including defaults: leave the defaults out of the command.
        params = {k: v for k, v in options.params.items() if k not in usual or v != usual[k]}
        options = replace(options, params=params)
        if options.kind == "script" and not os.path.isfile(options.target):
            there = os.path.join(meta.cwd, options.target)
            if not os.path.isfile(there):
                return with_stacks(options, bool(meta.counted)) if stacks else options
            options = replace(options, target=there)
        options = with_stacks(options, bool(meta.counted)) if stacks else options
        options.check()
    except (OSError, ValueError, msgspec.ValidationError, RecursionError):
        return None
    return options
