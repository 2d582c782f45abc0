"""Explains annotations, Python functions, the profiler's own events, and waits on the GPU."""

from __future__ import annotations

import re

_RANGES = (
    (
        r"ProfilerStep#",
        "One step of the profiler's schedule: from one prof.step() to the next. What the step launched may "
        "run on the GPU after it.",
    ),
    (
        r"Optimizer\.step#",
        "The optimizer's update of the parameters. PyTorch sets this annotation in every optimizer's step().",
    ),
    (
        r"Optimizer\.zero_grad#",
        "Clears the gradients. With set_to_none, the default, it drops them, which launches nothing.",
    ),
    (
        r"enumerate\(DataLoader\)#",
        "The loop takes its next batch from the data loader. Without workers the batch is made here; "
        "with workers this is the wait for one.",
    ),
    (
        r"(?:nccl|gloo|mpi|ucc|xccl|hccl):",
        "A collective, as the CPU sees it. It is asynchronous: with NCCL the communication itself is a "
        "kernel on the GPU, with Gloo it is the work of other threads.",
    ),
    (
        r"DataParallel\.forward",
        "The forward of DataParallel: it copies the model to each GPU, divides the batch, and joins the "
        "outputs. All of it runs in one process.",
    ),
    (
        r"DistributedDataParallel\.forward",
        "The forward of DistributedDataParallel: that of the module inside it. It may first send buffers to "
        "the other ranks.",
    ),
    (r"nn\.Module: ", "A call of a module: its forward and its hooks. Recorded with with_stack."),
    (
        r"<built-in ",
        "A function written in C, called from Python. Recorded with with_stack, which slows Python down.",
    ),
)
RANGES = tuple((re.compile(pattern), text) for pattern, text in _RANGES)

ANNOTATION = "An annotation that the program set with record_function. Its length is the CPU's work in it."
SHADOWED = "What it launched is in its shadow, the annotation of the same name on the GPU's lanes."
PYTHON = "A Python function: its file, line and name. Recorded with with_stack, which slows Python down."
SHADOW = (
    "An annotation's shadow on the GPU: from the first to the last kernel that was launched inside it. "
    "It includes the pauses between them, so it is not busy time."
)
SPAN = "The whole recording, from start to stop. The profiler writes it; the program did not do it."

_PROFILERS = "Without a profiler the program does not spend this time."
OVERHEAD = {
    "Activity Buffer Request": "The profiler asks for memory to record GPU events in, while the program "
    f"waits. {_PROFILERS}",
    "Buffer Flush": f"The profiler collects what the GPU has recorded. {_PROFILERS}",
    "Instrumentation": f"The profiler prepares code to be recorded. {_PROFILERS}",
    "Resource": f"The profiler takes note of a stream or a context. {_PROFILERS}",
    "Lazy Function Loading": "CUDA loads a kernel that is used for the first time. That happens without the "
    "profiler, too.",
    "Runtime Triggered Module Loading": "CUDA loads a module whose code is used for the first time. That "
    "happens without the profiler, too.",
    "Driver Compiler": "The driver compiles code for this GPU. That happens without the profiler, too.",
    "Command Buffer "
    "Full": "The launch waits for room in the GPU's queue. That happens without the profiler, too.",
}
"""Prefixes of the names of `overhead` events."""

_WAITS = (
    (
        r"Stream Wait Event",
        "A stream waits for a mark in another stream. The CPU does not wait; later work in this stream does.",
    ),
    (
        r"(Event|Stream|Context|Device) Sync",
        "The CPU waits for the GPU. The GPU itself has nothing to do for it.",
    ),
    (r"Event Record", "A mark in a stream. Others can wait for it."),
)
WAITS = tuple((re.compile(pattern), text) for pattern, text in _WAITS)


def named_range(name: str) -> str | None:
    """What a well-known annotation or Python function is; None for any other name."""
    return next((text for pattern, text in RANGES if pattern.match(name[:200])), None)


def overhead(name: str) -> str:
    """What an `overhead` event is."""
    known = (text for key, text in OVERHEAD.items() if name.startswith(key))
    return next(known, f"The profiler's own work. {_PROFILERS}")


def wait(name: str) -> str:
    """What a `cuda_sync` event is."""
    found = (text for pattern, text in WAITS if pattern.search(name[:200]))
    return next(found, "A mark in a stream, or the wait for one.")
