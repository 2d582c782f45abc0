"""How a trace was recorded: by the program itself or from outside, and what else was recorded."""

from __future__ import annotations

import re

import numpy as np

from tracetui.analysis.rates.efficiency import shapes_recorded
from tracetui.analysis.select import has_kind
from tracetui.trace import Kind, Trace

_INJECTED = re.compile(r"/tracetui-\w+/part\.json\Z")
_OF_PROCESS = re.compile(r"_(\d+)\.json\Z")


def asked_from_outside(trace: Trace) -> bool:
    """Whether a running process was asked for the trace: Kineto then puts `_PID` at the end of the file's
    name, and writes no `trace_id`, which `torch.profiler` does. Or `tracetui attach --inject` wrote it."""
    about = trace.info.properties
    name = str(about.get("traceName", ""))
    written = _OF_PROCESS.search(name)
    if written is None or "trace_id" in about or any(name.startswith("ProfilerStep") for name in trace.names):
        return _INJECTED.search(name) is not None
    return any(process.pid == written[1] for process in trace.processes)


def recorded_too(trace: Trace) -> list[str]:
    """What was recorded along with the ops, at a cost."""
    memory = any("[memory]" in trace.names[i] for i in np.unique(trace.instants.name).tolist())
    memory = memory or bool(trace.info.properties.get("profile_memory"))
    recorded = {"stacks": has_kind(trace, Kind.PYTHON), "shapes": shapes_recorded(trace), "memory": memory}
    return [what for what, was in recorded.items() if was]
