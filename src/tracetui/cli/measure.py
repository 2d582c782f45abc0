"""The commands that measure what a replay predicts, where a built-in workload's option brings it about."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from tracetui.capture.options import CaptureOptions

if TYPE_CHECKING:
    from tracetui.replay.worths import Worth, Worths

LEAST = 0.02
"""What is worth less than this share of a step is not worth a measurement."""


def commands(options: CaptureOptions | None, found: Worths, on_gpu: bool) -> list[tuple[Worth, str]]:
    """What can be measured, and by which command, the largest worth first. `options`: what the trace was
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
    made: dict[str, tuple[Worth, str]] = {}
    for one in found.each:
        b = _brought_about(a, one, on_gpu)
        if b is not None and one.muted is None and one.worth_ns >= LEAST * found.step_ns:
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
