"""Explains calls of the CUDA, HIP and Level Zero runtimes and drivers, annotations, Python functions, the
profiler's own events, and waits on the GPU."""

from __future__ import annotations

from tracetui.words.texts import patterns, sections

ANNOTATION = "An annotation that the program set with record_function. Its length is the CPU's work in it."
SHADOWED = "What it launched is in its shadow, the annotation of the same name on the GPU's lanes."
PYTHON = "A Python function: its file, line and name. Recorded with with_stack, which slows Python down."
SHADOW = (
    "An annotation's shadow on the GPU: from the first to the last kernel that was launched inside it. "
    "It includes the pauses between them, so it is not busy time."
)
SPAN = "The whole recording, from start to stop. The profiler writes it; the program did not do it."


def runtime_call(name: str) -> str | None:
    """What a runtime or driver call of this name does; None if that is not known."""
    return next((text for pattern, text in patterns("others", "calls") if pattern.search(name[:200])), None)


def named_range(name: str) -> str | None:
    """What a well-known annotation or Python function is; None for any other name."""
    return next((text for pattern, text in patterns("others", "ranges") if pattern.match(name[:200])), None)


def overhead(name: str) -> str:
    """What an `overhead` event is."""
    known = sections("others")["overhead"]
    return next((text for key, text in known.texts.items() if name.startswith(key)), known.about)


def wait(name: str) -> str:
    """What a `cuda_sync` event is."""
    found = (text for pattern, text in patterns("others", "waits") if pattern.search(name[:200]))
    return next(found, "A mark in a stream, or the wait for one.")
