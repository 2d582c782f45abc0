"""Run a workload under torch.profiler in a child process, the only place that imports torch.

    options = CaptureOptions("mlp", {"batch": 8}, compile=True, device="cuda")
    capture = start(options, on_event=print)   # returns at once; OptionError for options that cannot be
    capture.cancel()                           # at any time: ends the child and everything it started
    for event in capture:                      # or follow it here; the last is Done, Failed or Cancelled
        ...
    match capture.wait():
        case Done(result=result): result.trace, result.table, result.meta   # paths
        case Failed(message=line, tail=lines): ...
        case Cancelled(): ...

`WORKLOADS` holds the built-in workloads with their options; `CaptureOptions.command()` is the command that
repeats a capture; `dataclasses.replace` changes one option of an earlier one. `on_event` is called from
background threads (in Textual: `app.call_from_thread`, or `post_message`, which may be called from any).
Nothing here imports torch, numpy or Textual when it is imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tracetui.capture.catalog import WORKLOADS, Option, Value, Workload
    from tracetui.capture.events import (
        Cancelled,
        CaptureEvent,
        CaptureResult,
        Done,
        Failed,
        Note,
        Output,
        Phase,
        Progress,
        phase_times,
    )
    from tracetui.capture.options import OPTIONS, CaptureOptions, OptionError, launched_rank
    from tracetui.capture.run import Capture, start

__all__ = [
    "OPTIONS",
    "WORKLOADS",
    "Cancelled",
    "Capture",
    "CaptureEvent",
    "CaptureOptions",
    "CaptureResult",
    "Done",
    "Failed",
    "Note",
    "Option",
    "OptionError",
    "Output",
    "Phase",
    "Progress",
    "Value",
    "Workload",
    "launched_rank",
    "phase_times",
    "start",
]

if not TYPE_CHECKING:

    def __getattr__(name):
        """Each when it is first used: `live` needs none of them, and is in a hurry."""
        for module in ("catalog", "events", "options", "run") if name in __all__ else ():
            found = vars(import_module(f"{__name__}.{module}"))
            if name in found:
                return found[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
