"""The commands that measure what a replay predicts, where a built-in workload's option brings it about."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tracetui.capture.catalog import WORKLOADS
from tracetui.capture.files import TRACES
from tracetui.capture.options import OF_EITHER, CaptureOptions

LEAST = 0.02
"""What is worth less than this share of a step is not worth a measurement."""


class Worth(Protocol):
    """Something that costs time, as `whatif` has it."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def worth_ns(self) -> float:
        """How much shorter a step would be without it."""


W = TypeVar("W", bound=Worth)


def captured_workload(path: str) -> CaptureOptions | None:
    """What a trace of a built-in workload was captured with, from the .meta.json beside it; else None."""
    ending = next((ending for ending in TRACES if path.endswith(ending)), None)
    try:
        if ending is None:
            return None
        meta = Path(path.removesuffix(ending) + ".meta.json").read_bytes()
        given: dict[str, Any] = json.loads(meta)["options"]
        usual = WORKLOADS[given["target"]].defaults()
        params = {name: value for name, value in given["params"].items() if value != usual[name]}
        named = (*OF_EITHER, "against", "predicted")
        options = {name: given[name] for name in named if name in given}
        found = CaptureOptions(given["target"], params, **options)
        found.check()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return found


def commands(
    options: CaptureOptions | None, step_ns: float, each: Sequence[W], on_gpu: bool
) -> list[tuple[W, str]]:
    """What can be measured, and by which command, in the order of `each`. `options`: what the trace was
    captured with; `on_gpu`: whether it has work of a GPU."""
    if options is None or options.kind != "workload" or options.against is not None:
        return []
    usual = CaptureOptions(options.target).on("cuda" if on_gpu else "cpu").dtype
    a = CaptureOptions(
        options.target,
        options.params,
        dtype="auto" if options.dtype == usual else options.dtype,
        compile=options.compile,
        mode=options.mode,
        device="auto" if on_gpu else "cpu",
    )
    made: dict[str, tuple[W, str]] = {}
    for one in each:
        b = _brought_about(a, one, on_gpu)
        if b is not None and one.worth_ns >= LEAST * step_ns:
            against = shlex.join([b.target, *b.own_words(a)])
            seconds = float(f"{one.worth_ns / 1e9:.3g}")
            made.setdefault(against, (one, replace(a, against=against, predicted=seconds).command()))
    return list(made.values())


def _brought_about(a: CaptureOptions, one: Worth, on_gpu: bool) -> CaptureOptions | None:
    """The same workload with the option that does something about this; None without one."""
    values = a.values()
    if one.kind == "cause" and one.name == "graphs" and on_gpu and a.mode == "default":
        return replace(a, compile=True, mode="reduce-overhead")
    if one.kind == "cause" and one.name == "dispatch" and not a.compile:
        return replace(a, compile=True)
    if one.kind == "cause" and one.name == "sync" and values.get("loss") == "item":
        return replace(a, params={**a.params, "loss": "kept"})
    if "optimizer" in one.name.lower() and values.get("optimizer", "fused") != "fused":
        return replace(a, params={**a.params, "optimizer": "fused"})
    return None
