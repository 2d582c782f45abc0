"""Events in Kineto's format, small traces made of them, and what they say. Times in microseconds."""

import json
from pathlib import Path
from typing import Any

from tracetui.trace import Trace, load

Event = dict[str, Any]


def cpu(name: str, start: float, duration: float, cat: str = "cpu_op", **args: Any) -> Event:
    """An event of a CPU thread."""
    return {
        "ph": "X", "cat": cat, "name": name, "pid": 9, "tid": 9, "ts": start, "dur": duration, "args": args
    }  # fmt: skip


def launch(start: float, correlation: int, duration: float = 4, name: str = "cudaLaunchKernel") -> Event:
    """A runtime call that launches the device event of the same correlation."""
    return cpu(name, start, duration, "cuda_runtime", correlation=correlation)


def kernel(
    start: float, duration: float, correlation: int, stream: int = 7, name: str = "", **more: Any
) -> Event:
    """A kernel of device 0. `more` stands above the event's own fields."""
    args = {"correlation": correlation, "device": 0, "stream": stream}
    event = {"ph": "X", "cat": "kernel", "name": name or f"k{correlation}", "pid": 0, "tid": stream}
    return event | {"ts": start, "dur": duration, "args": args} | more


def memcpy(
    start: float, duration: float, correlation: int, way: str = "HtoD (Pinned -> Device)", stream: int = 7
) -> Event:
    """A copy of device 0, one byte per nanosecond."""
    event = kernel(start, duration, correlation, stream, f"Memcpy {way}", cat="gpu_memcpy")
    return event | {"args": event["args"] | {"bytes": int(duration * 1000)}}


def step(number: int, start: float, duration: float) -> Event:
    """A `ProfilerStep`."""
    return cpu(f"ProfilerStep#{number}", start, duration, "user_annotation")


def run(start: float, duration: float, correlation: int, name: str = "", **more: Any) -> list[Event]:
    """A kernel with the launch that puts it on its way 5 us before."""
    return [launch(start - 5, correlation), kernel(start, duration, correlation, name=name, **more)]


def note(name: str, start: float, duration: float, tid: int = 9) -> Event:
    """An annotation of the program."""
    return cpu(name, start, duration, "user_annotation") | {"tid": tid}


def memory(at: float, size: int, name: str = "[memory]") -> Event:
    """A record of the allocator of device 0."""
    args = {"Bytes": size, "Device Type": 1, "Device Id": 0}
    return {"ph": "i", "s": "t", "name": name, "pid": 9, "tid": 9, "ts": at, "args": args}


def trace_of(tmp_path: Path, *events: Event, **properties: Any) -> Trace:
    """The trace of these events; `properties`: further keys of the file."""
    path = tmp_path / "t.json"
    path.write_text(json.dumps(properties | {"traceEvents": list(events)}))
    return load(path)


def rows_of(trace: Trace) -> dict[str, tuple[int, str]]:
    """Name to (depth, name of the parent)."""
    return {
        trace.name_of(i): (
            int(trace.depth[i]), trace.name_of(int(trace.parent[i])) if trace.parent[i] >= 0 else ""
        ) for i in range(len(trace))
    }  # fmt: skip


def notices(trace: Trace) -> dict[str, int]:
    """How often there is each kind."""
    return {notice.kind: notice.count for notice in trace.notices}


def named(trace: Trace) -> dict[str, int]:
    """Name to slice."""
    return {trace.name_of(i): i for i in range(len(trace))}
