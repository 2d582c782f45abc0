"""Annotations, Python functions, the profiler's own events, and waits on the device."""

from __future__ import annotations

import re

_RANGES = (
    (
        r"ProfilerStep#",
        "One step of the profiler's schedule: from one prof.step() to the next. What the step launched may "
        "run on the device after it.",
    ),
    (
        r"Optimizer\.step#",
        "The optimizer's update of the parameters. PyTorch sets this annotation in every optimizer's step().",
    ),
    (
        r"Optimizer\.zero_grad#",
        "The gradients are cleared. With set_to_none, the default, they are dropped, which launches nothing.",
    ),
    (
        r"enumerate\(DataLoader\)#",
        "The loop takes its next batch from the data loader. Without workers the batch is made here; with "
        "workers it is the wait for one.",
    ),
    (
        r"(?:nccl|gloo|mpi|ucc|xccl|hccl):",
        "A collective, from its call on. It is asynchronous: the communication itself is a kernel on the "
        "device with NCCL, and work of other threads with Gloo.",
    ),
    (
        r"DistributedDataParallel\.forward",
        "The forward of DistributedDataParallel, which is that of the module inside it. It may send buffers "
        "to the other ranks first.",
    ),
    (r"nn\.Module: ", "The call of a module: its forward, with its hooks. It was recorded with with_stack."),
    (
        r"<built-in ",
        "A function written in C, called from Python. It was recorded with with_stack, which slows Python "
        "down.",
    ),
)
RANGES = tuple((re.compile(pattern), text) for pattern, text in _RANGES)

ANNOTATION = (
    "An annotation that the program set with record_function. Its length is that of the CPU's work in it."
)
SHADOWED = "What that launched is in its shadow, the annotation of the same name on the device's lanes."
PYTHON = (
    "A Python function: its file, line and name. It was recorded with with_stack, which slows Python down."
)
SHADOW = (
    "An annotation's shadow on the device: from the first to the last kernel that was launched inside it. "
    "Pauses between them are part of it, so that it is no busy time."
)
SPAN = "The whole recording, from start to stop. The profiler writes it; it is no work of the program."

_PROFILERS = "A program without a profiler does not spend this time."
OVERHEAD = {
    "Activity Buffer Request": "The profiler asks for memory to record device events into, and the program "
    f"waits meanwhile. {_PROFILERS}",
    "Buffer Flush": f"The profiler collects what the device has recorded. {_PROFILERS}",
    "Instrumentation": f"The profiler prepares code to be recorded. {_PROFILERS}",
    "Resource": f"The profiler takes note of a stream or a context. {_PROFILERS}",
    "Lazy Function Loading": "CUDA loads a kernel that is used for the first time. It does so without the "
    "profiler, too.",
    "Runtime Triggered Module Loading": "CUDA loads a module whose code is used for the first time. It "
    "does so without the profiler, too.",
    "Driver Compiler": "The driver compiles code for this device. It does so without the profiler, too.",
    "Command Buffer "
    "Full": "The launch waits for a place in the device's queue. It does so without the profiler, too.",
}
"""The beginnings of the names of `overhead` events."""

_WAITS = (
    (
        r"Stream Wait Event",
        "A stream waits for a mark in another stream. The CPU does not; work that comes later in this stream "
        "does.",
    ),
    (
        r"(Event|Stream|Context|Device) Sync",
        "The CPU waits for the device. The device itself does nothing for it.",
    ),
    (r"Event Record", "A mark in a stream. Others can wait for it."),
)
WAITS = tuple((re.compile(pattern), text) for pattern, text in _WAITS)


def named_range(name: str) -> str | None:
    """What an annotation, or a Python function, of a well-known name is; None for any other."""
    return next((text for pattern, text in RANGES if pattern.match(name[:200])), None)


def overhead(name: str) -> str:
    """What an `overhead` event is."""
    known = (text for key, text in OVERHEAD.items() if name.startswith(key))
    return next(known, f"The profiler's own work. {_PROFILERS}")


def wait(name: str) -> str:
    """What a `cuda_sync` event is."""
    found = (text for pattern, text in WAITS if pattern.search(name[:200]))
    return next(found, "A mark in a stream, or the wait for one.")
