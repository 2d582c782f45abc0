"""What one line of a comparison means, how it was measured, and the events behind it."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.calls.calls import self_time_of
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.names.short_names import short_names, short_of
from tracetui.compare.model import Comparison, Explanation
from tracetui.compare.naming import counted
from tracetui.compare.sides import Side
from tracetui.core.units import duration, plural, significant
from tracetui.trace.model import DEVICE_WORK, I64
from tracetui.views.compare import Number, spread_text
from tracetui.views.compare_text import NOISE
from tracetui.views.event import Fact
from tracetui.words.cause_words import CAUSE_TEXT

MEANS = {
    "machine": "Both sides run these, on the same sizes, and one side took longer for all of them. Two "
    "recordings of one program may differ by a third on the CPU: look at what is left without "
    "this.",
    "initialisation": "The first use of the GPU and of its libraries takes long, once. Leave such steps out.",
    "host": "The thread that launches was not in any op or runtime call: no event says what it did.",
    "compiling": "torch.compile was at work: that is not part of what the program costs later. Leave such "
    "steps out, or warm up first.",
    "loading": "The program waited for its next batch: no op or kernel of the step is slower because of "
    "that.",
    "communication": "On the CPU, collectives ran while no op did. They also wait for the slowest rank.",
    "overlap": "A device has engines for copies: copies that overlap with kernels take no extra time.",
    "queued": "Work was queued and nothing recorded ran: another stream did, or another program on this GPU.",
    "fused": "Fewer kernels run in the same place: they belong to the same op or have the same neighbors.",
    "split": "More kernels run in the same place: they belong to the same op or have the same neighbors.",
    "replaced": "Other kernels run in the same place: they belong to the same op or have the same neighbors.",
    "again": "One side does the same several times in a step, most often on smaller pieces: micro-batches, "
    "or a loss in chunks.",
    "dtype": "The program does the same with another data type, so it runs other kernels.",
    "new": "B does this, A does not, or less often.",
    "gone": "A does this, B does not, or less often.",
    "order": "The same work runs earlier or later among the rest of its stream.",
    "calls": "Only one side makes these calls, and they launch nothing that only that side has.",
    "guards": "Compiled code first checks that it still fits its inputs: at every call, on the CPU.",
    "graph": "The work is the same; a CUDA graph launches it at once, which saves time on the CPU.",
    "sizes": "The work is the same, on larger or smaller inputs.",
    "slower": "The work is the same, and took longer than the other unchanged work would suggest.",
    "faster": "The work is the same, and took less time than the other unchanged work would suggest.",
    "once": "The work is the same. On a busy machine any call may take long: the system ran something else.",
    "steps": "One side has more steps. Numbers are per step.",
}
"""By kind of explanation."""
METRICS = {
    "step_ns": "From the end of the previous step to its own end, on the CPU or of the work that it "
    "launched, whichever is later.",
    "device_ns": "The durations of all kernels, copies and memsets that it launched; overlap counts twice.",
    "busy_share": "The share of a step in which the GPU ran anything.",
    "compute_ns": "The time in which the GPU computed.",
    "communication_ns": "The time in which the GPU did nothing but communicate.",
    "copies_ns": "The time in which the GPU did nothing but copy.",
    "launches": "Calls that launch work; a graph is one.",
    "kernels": "Kernels that it launched.",
    "copied_bytes": "The bytes of the copies that it launched, according to the traces.",
    "peak_allocated_bytes": "The most that tensors took on a GPU, as PyTorch's allocator counted it.",
    "peak_reserved_bytes": "The most GPU memory that PyTorch's allocator held, in use or not.",
    "cpu_op_ns": "The self times of its ops, on all threads.",
}
NAMES, PLACES = 6, 5
"""How many are listed."""


def explanation_facts(found: Comparison, one: Explanation) -> list[Fact]:
    """What an explanation means and rests on. `event` of a fact: which of its places it is about."""
    facts = [Fact("what", one.text), Fact("meaning", MEANS[one.kind])]
    pairs = plural(len(found.rounds), "pair") + (" of steps" if found.per_step else " of recordings")
    if one.kind == "machine":
        told = [
            f"on the {where} {significant(ratio)} times as long"
            for where, ratio in (("CPU", found.machine.cpu_ratio), ("GPU", found.machine.device_ratio))
            if ratio is not None
        ]
        same = f"{found.machine.calls:,} calls and {found.machine.work:,} kernels, copies and memsets"
        facts.append(Fact("measured", f"{same} are the same in {pairs}; {', '.join(told)}."))
        return facts
    if len(one.events_a) or len(one.events_b):
        where = "durations on the GPU" if one.on == "device" else "self times on the CPU"
        beside = (
            ", and what the calls took that launched them, with the ops that launch nothing else"
            if one.on == "device" and one.cpu_change_ns
            else ""
        )
        facts.append(Fact("measured", f"The {where} of these events{beside}: the median of {pairs}."))
    for letter, side, events in zip("AB", (found.a, found.b), (one.events_a, one.events_b), strict=True):
        told = _names(side, events, len(found.rounds))
        facts += [Fact(f"in {letter}" if n == 0 else "", text) for n, text in enumerate(told or ["nothing"])]
    for n, place in enumerate(one.places[:PLACES].tolist()):
        told = [
            f"{letter} {side.label(int(side.round_of(np.array([i]))[0]))}: {short_of(side.trace, i)}, "
            f"{duration(int(side.trace.duration[i]))}"
            for letter, side, i in zip("AB", (found.a, found.b), place, strict=True)
            if i >= 0
        ]
        facts.append(Fact("places" if n == 0 else "", "; ".join(told), n))
    if len(one.places) > PLACES:
        facts.append(Fact("", f"and {len(one.places) - PLACES:,} more"))
    return facts


def _names(side: Side, events: I64, rounds: int) -> list[str]:
    """The names of events, with how many of each there are in a step and their time, the longest first."""
    if not len(events):
        return []
    trace = side.trace
    device = trace.is_kind(*DEVICE_WORK)[events]
    time = np.where(device, trace.duration[events], self_time_of(side.part)[events])
    _, first, which = np.unique(trace.name[events], return_index=True, return_inverse=True)
    took = sum_into(which, time, len(first))
    count = np.bincount(which)
    order = np.argsort(-took, kind="stable")[:NAMES]
    told = [
        f"{name}: {counted(count[n] / rounds, 'time')}, {duration(took[n] / rounds)}"
        for name, n in zip(short_names(trace, events[first[order]]), order.tolist(), strict=True)
    ]
    return told + ([f"and {plural(len(first) - NAMES, 'other name')}"] if len(first) > NAMES else [])


def number_facts(row: Number) -> list[Fact]:
    """What a number means, and how far apart the steps of either side are."""
    cause = row.title.removeprefix("idle: ")
    what = (
        f"The time of a step in which the GPU ran nothing: {CAUSE_TEXT[cause]}."
        if row.idle
        else METRICS[row.name]
    )
    facts = [Fact("what", what)]
    for letter, spread in zip("AB", (row.metric.spread_a, row.metric.spread_b), strict=True):
        if text := spread_text(row.name, spread):
            facts.append(Fact(f"steps of {letter}", f"{text}, lowest and highest; the number is the median"))
    if row.metric.machine:
        facts.append(Fact("the machine", f"explains {duration(row.metric.machine)} of the difference"))
    if row.noise in NOISE:
        facts.append(Fact("noise", f"{NOISE[row.noise]}."))
    return facts
