"""Rules on the recording itself: its own cost, and graphs that are captured in it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.analysis.efficiency import shapes_recorded
from tracetui.analysis.findings.model import Finding, first_of
from tracetui.analysis.results import Results
from tracetui.analysis.select import has
from tracetui.analysis.verdict import OF_RECORDING
from tracetui.trace import Kind, Trace
from tracetui.units import duration, plural, share

CAPTURE_SHARE = 0.05
_INJECTED = re.compile(r"/tracetui-\w+/part\.json\Z")
_OF_PROCESS = re.compile(r"_(\d+)\.json\Z")
RECORDED_SHARE = 0.2
OFTEN_NS = 10_000
"""With a Python call as often as that, stacks alone cost a noticeable part of the time (about 1 us each)."""


def graph_capture(results: Results) -> Iterator[Finding]:
    """A CUDA graph is captured within the recording: what is launched meanwhile does not run."""
    trace = results.trace
    begins = results.slices(Kind.RUNTIME, lambda name: "StreamBeginCapture" in name)
    ends = results.slices(Kind.RUNTIME, lambda name: "StreamEndCapture" in name)
    made = results.slices(Kind.RUNTIME, lambda name: "GraphInstantiate" in name)
    after = np.searchsorted(ends, begins)
    begins, after = begins[after < len(ends)], after[after < len(ends)]
    same = trace.lane[begins] == trace.lane[ends[after]]
    first, last = begins[same], ends[after[same]]
    if not len(first):
        return
    length = trace.start[last] + trace.duration[last] - trace.start[first]
    time, building = int(length.sum()), int(trace.duration[made].sum())
    span = results.span[1] - results.span[0]
    part = (time + building) / span if span else 0.0
    instantiated = f" and {duration(building)} to instantiate" if building else ""
    base = OF_RECORDING if results.is_whole else results.verdict().base
    yield Finding(
        "graph_capture",
        "low" if part >= CAPTURE_SHARE else "info",
        f"{plural(len(first), 'CUDA graph is', 'CUDA graphs are')} captured in this recording",
        f"It takes {duration(time)} to capture{instantiated}, {share(part)} {base}. Whatever is launched "
        "during a capture is recorded into the graph, not run: those ops have no kernel. A program does this "
        "once per graph.",
        "Ignore that stretch when you read the trace, or record after it: only the replays repeat.",
        first_of(np.concatenate([first[np.argsort(-length)], last, made])),
        {"captures": float(len(first)), "capture_ns": float(time), "instantiate_ns": float(building)},
    )


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
    recorded = {"stacks": has(trace, Kind.PYTHON), "shapes": shapes_recorded(trace), "memory": memory}
    return [what for what, was in recorded.items() if was]


def recording_cost(results: Results) -> Iterator[Finding]:
    """Stacks of very many calls, or shapes or memory with them, were recorded of a program that waits for
    its CPU."""
    trace = results.trace
    stacks = results.slices(Kind.PYTHON, lambda _: True)
    stacks = stacks[trace.lane[stacks] == np.argmax(np.bincount(trace.lane[stacks], minlength=1))]
    if not results.is_whole or not len(stacks) or not len(results.work()):
        return
    if (results.busy_share or 0.0) >= 1 - RECORDED_SHARE:
        return
    also = [what for what in recorded_too(trace) if what != "stacks"]
    if not also and len(stacks) * OFTEN_NS < results.span[1] - results.span[0]:
        return
    ops = len(results.slices(Kind.CPU_OP, lambda _: True))
    recorded = "stacks were recorded"
    if also:
        recorded = f"{', '.join(['stacks', *also[:-1]])} and {also[-1]} were recorded together"
    each = f", each with its {' and '.join(also)}" if also else ""
    yield Finding(
        "recording_cost",
        "low",
        f"The recording itself costs CPU time: {recorded}",
        f"{len(stacks):,} Python calls were recorded along with {plural(ops, 'op')}{each}. The measured "
        "threads do all of that work, and the trace does not show how long it takes: without it, the CPU "
        "would be faster and the GPU idle for less time.",
        "To measure times, turn with_stack, record_shapes and profile_memory off; turn one on only to answer "
        "a question that needs it.",
        first_of(stacks[np.argsort(-results.own_time()[stacks], kind="stable")]),
        {"python_calls": float(len(stacks)), "ops": float(ops)},
    )
