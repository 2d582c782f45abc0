"""What an event is, why it may be slow, and the chain from the step down to the kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracetui.analysis.calls.calls import self_time_of
from tracetui.analysis.calls.chain import Chain, launch_chain, launched_by
from tracetui.analysis.calls.compositions import PARTS, rms_norm
from tracetui.analysis.idle.cpu_time import is_synchronizing
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.initialization import (
    FAR,
    FEW,
    LONG_NS,
    first_calls,
    first_ops,
    profilers_work,
    queue_full,
)
from tracetui.analysis.names.kernel_names import decode, short_name
from tracetui.analysis.part import Part
from tracetui.analysis.rates.flops import work_of
from tracetui.analysis.rates.layouts import input_facts
from tracetui.analysis.select import has_kind, plausible
from tracetui.analysis.steps.scope import find_steps
from tracetui.core.units import duration, exact, plural, rate
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.indices import having
from tracetui.trace.model import I64
from tracetui.trace.slices import Slices
from tracetui.views.explain_device import Parts, compared, explain_device_event
from tracetui.words import operators, others
from tracetui.words.kernels import kernel
from tracetui.words.others import runtime_call

NOTABLE = 0.1
"""The least share of an event that is mentioned."""
UNKNOWN_CALL = "A call to the GPU's runtime or driver that tracetui does not know."


@dataclass(frozen=True, slots=True)
class Explanation:
    """One event, explained. All texts are plain and safe to show.

    Attributes:
        slice: the event.
        title: its short name and what kind of event it is.
        what: sentences on what it is.
        why: sentences on why it takes as long as it does; () where there is nothing to say.
        facts: (label, value) pairs: what the kernel's name says, the work's shape, achieved rates.
        chain: from the step down to the device.
    """

    slice: int
    title: str
    what: tuple[str, ...]
    why: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    chain: Chain


def explain(trace: Trace, i: int, own: I64 | None = None) -> Explanation:
    """Explain slice i. `own`: the self time of every slice, as `self_time_of` gives it, if already
    computed.

    Raises IndexError if there is no such slice.
    """
    if not 0 <= i < len(trace):
        raise IndexError(f"no slice {i}")
    kind = Kind(int(trace.kind[i]))
    category = trace.categories[int(trace.category[i])]
    title = f"{short_name(trace.name_of(i), category)} ({category})"
    if kind in DEVICE_WORK:
        what, why, facts = explain_device_event(trace, i)
    elif kind == Kind.RUNTIME:
        what, why, facts = _runtime(trace, i)
    elif kind in (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON):
        times = self_time_of(Part(trace)) if own is None else own
        what, why, facts = _cpu(trace, i, kind, int(times[i]))
    else:
        what, why, facts = [_other(trace, i, kind)], [], []
    return Explanation(i, title, tuple(what), tuple(why), tuple(facts), launch_chain(trace, i))


def explain_alone(trace: Trace, i: int) -> Explanation:
    """What the name of slice i says, and how long it took. Uses no other event, for a trace whose other
    events are still being read."""
    kind, name = Kind(int(trace.kind[i])), trace.name_of(i)
    category = trace.categories[int(trace.category[i])]
    if kind in DEVICE_WORK:
        what = kernel(decode(name)) or ("tracetui does not know how to read this kernel's name.",)
    elif kind == Kind.RUNTIME:
        what = (runtime_call(name) or UNKNOWN_CALL,)
    elif kind in (Kind.CPU_OP, Kind.ANNOTATION, Kind.PYTHON):
        what = (_cpu_meaning(name, kind),)
    else:
        what = (_other(trace, i, kind),)
    facts = (("took", exact(int(trace.duration[i]))), ("more", "known once the whole file is read"))
    return Explanation(i, f"{short_name(name, category)} ({category})", what, (), facts, Chain((), 0))


def _runtime(trace: Trace, i: int) -> Parts:
    name = trace.name_of(i)
    what = [runtime_call(name) or UNKNOWN_CALL]
    if _closes(trace, i):
        what.append("It is the last call in the recording: torch.profiler waits like this before it stops.")
    facts: list[tuple[str, str]] = []
    why: list[str] = []
    events = having(trace, "launch", i)
    if len(events) > 1:
        facts.append(("launched", f"{len(events):,} GPU events, {duration(trace.duration[events].sum())}"))
    if is_synchronizing(name):
        busy = _time_within(trace, i, plausible(trace, *DEVICE_WORK))
        if busy:
            wait = duration(trace.duration[i])
            why.append(f"The GPU works for {duration(busy)} of the {wait} that the CPU waits.")
    return what, why + _waiting_to_launch(trace, i) + compared(trace, i) + _first_use(trace, i), facts


def _first_use(trace: Trace, i: int) -> list[str]:
    """Sentences on a call or an op that is long because it is the device's first use, and on the longest
    stretch of it without a call."""
    same = having(trace, "name", int(trace.name[i]))
    ordinary = len(same) >= FEW and trace.duration[i] < FAR * float(np.median(trace.duration[same]))
    if trace.duration[i] < LONG_NS or ordinary:  # the rest looks at all calls of the trace
        return []
    calls = first_calls(trace)
    if i not in calls and i not in first_ops(trace, calls):
        return []
    why = [
        "Something in it is used for the first time (the GPU's context, a library, code). Later calls do "
        "not pay for that; every start of the program does."
    ]
    inside = trace.children(i)
    inside = inside[np.argsort(trace.start[inside], kind="stable")]
    if not len(inside):
        return why
    end = trace.start[i] + trace.duration[i]
    hole = np.append(trace.start[inside[1:]], end) - (trace.start[inside] + trace.duration[inside])
    at = int(np.argmax(hole))
    if hole[at] >= 0.5 * trace.duration[i]:
        after = trace.name_of(int(inside[at]))
        why.append(f"For {duration(hole[at])} of it, after {after}, the trace shows no call inside it.")
    return why


def _closes(trace: Trace, i: int) -> bool:
    """Whether call i waits for the device, outside of all ops and annotations, after everything else on the
    CPU."""
    if "DeviceSynchronize" not in trace.name_of(i) or trace.parent[i] >= 0:
        return False
    cpu = plausible(trace, Kind.CPU_OP, Kind.ANNOTATION, Kind.RUNTIME)
    return bool(len(cpu)) and int(trace.start[cpu].max()) == int(trace.start[i])


def _waiting_to_launch(trace: Trace, i: int) -> list[str]:
    waited = _time_within(trace, i, queue_full(trace))
    if waited < NOTABLE * trace.duration[i] or not waited:
        return []
    return [f"For {duration(waited)} of it, a launch waits: the GPU's queue is full."]


def _time_within(trace: Trace, i: int, at: I64) -> int:
    """How long the slices `at` run during slice i, in ns; overlap counts once."""
    start = trace.start[i : i + 1]
    return int(busy_union(trace, at).overlap(start, start + trace.duration[i])[0])


def _cpu(trace: Trace, i: int, kind: Kind, own: int) -> Parts:
    name = trace.name_of(i)
    what = [_cpu_meaning(name, kind), *_more(trace, i, name)]
    why: list[str] = []
    facts: list[tuple[str, str]] = []
    events = launched_by(trace, i)
    children = trace.children(i)
    facts.append(("self", f"{duration(own)} of {duration(trace.duration[i])}"))
    if len(events):
        total = duration(trace.duration[events].sum())
        facts.append(("launched", f"{plural(len(events), 'GPU event')}, {total}"))
    elif kind == Kind.CPU_OP and has_kind(trace, *DEVICE_WORK) and operators.about("memory") not in what[0]:
        what.append("This call launches nothing: its time is CPU time only.")
    if kind == Kind.CPU_OP:
        args = trace.args(i)
        facts += input_facts(args)
        work = work_of(name, args)
        if work is not None:
            facts.append(("M x K x N" if work.kind == "gemm" else "work", work.shape))
            if work.kind != "elementwise":
                facts.append(("FLOP", rate(work.flops, "")))
    profiler = _time_within(trace, i, profilers_work(trace))
    if profiler:
        why.append(f"{duration(profiler)} of it is the profiler's own work.")
    why += _waiting_to_launch(trace, i)
    # A collective's annotation has no self time, whatever is inside it.
    if own < 0.2 * trace.duration[i] and trace.duration[children].sum() > 0.8 * trace.duration[i]:
        most = Slices(trace, children).by_name()[0]
        spent = f"{plural(most.calls, 'call')}, " if most.calls > 1 else ""
        spent += duration(most.time)
        callee = short_name(most.name, "cpu_op")
        if most.time >= 0.5 * trace.duration[i]:
            why.append(f"Little of its time is its own: most of it goes to {callee} ({spent}).")
        else:
            why.append(f"Little of its time is its own. Of what it calls, {callee} takes the most ({spent}).")
    return what, why + compared(trace, i) + _first_use(trace, i), facts


def _cpu_meaning(name: str, kind: Kind) -> str:
    known = operators.operator(name) if kind == Kind.CPU_OP else None
    known = known or others.named_range(name) or operators.compiled(name)
    if known:
        return known
    if kind == Kind.ANNOTATION:
        return others.ANNOTATION
    if kind == Kind.PYTHON:
        return others.PYTHON
    return operators.unknown(name)


_BEFORE = (
    "The recording begins at #{}: the steps before it were usually skipped (wait), or run to warm up the "
    "profiler and discarded (warmup)."
)


def _more(trace: Trace, i: int, name: str) -> list[str]:
    """What this particular call, or this trace, adds to the meaning of the name."""
    if name.startswith("ProfilerStep#"):
        steps = find_steps(trace)
        first = int(steps.number.min()) if steps.source == "ProfilerStep" else 0
        return [f"Steps count from 0. {_BEFORE.format(first)}"] if first else []
    if name == "aten::scaled_dot_product_attention":
        inner = (operators.backend(trace.name_of(int(child))) for child in trace.children(i))
        return [f"Here it chose the backend {found}." for found in inner if found][:1]
    if name in PARTS and len(parts := rms_norm(trace, i)):
        launched_kinds = [trace.kind[launched_by(trace, int(op))] for op in parts]
        events = sum(int(np.count_nonzero(kinds == Kind.KERNEL)) for kinds in launched_kinds)
        names = ", ".join(trace.name_of(int(op)).removeprefix("aten::") for op in parts)
        launched = f", which launch {plural(events, 'kernel')}" if events else ""
        return [f"Here it is part of an RMSNorm in single ops: {names}{launched}."]
    if name == "aten::addmm":
        return _where_added(trace, i)
    if operators.operator(name) is None and trace.kind[i] == Kind.ANNOTATION:
        same = having(trace, "name", int(trace.name[i]))
        return [others.SHADOWED] if (trace.kind[same] == Kind.GPU_ANNOTATION).any() else []
    return []


def _where_added(trace: Trace, i: int) -> list[str]:
    """How an addmm added its third input, judging by what it launched."""
    names = [decode(trace.name_of(int(event))) for event in launched_by(trace, i)]
    if any("epilogue" in note for name in names for note in name.notes):
        return ["Here the epilogue adds it: the kernel's name says so."]
    if any(name.kind in ("memcpy", "copy") for name in names):
        return ["Here it is copied first."]
    return []


def _other(trace: Trace, i: int, kind: Kind) -> str:
    name = trace.name_of(i)
    if kind == Kind.OVERHEAD:
        return others.overhead(name)
    if kind == Kind.SYNC:
        return others.wait(name)
    known = {Kind.GPU_ANNOTATION: others.SHADOW, Kind.SPAN: others.SPAN}
    return known.get(kind, "An event of a kind that tracetui does not know.")
