"""The names that a sentence uses for events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.names.kernel_names import short_name
from tracetui.compare.calls import CallTree
from tracetui.compare.changes import Part
from tracetui.compare.sides import Side
from tracetui.core.units import significant
from tracetui.trace.model import I64, Kind, Trace

NAMED = 3
"""The most names in a sentence; the rest are counted."""
KINDS = {Kind.KERNEL: "kernels", Kind.MEMCPY: "copies", Kind.MEMSET: "memsets"}


def event_names(side: Side, part: Part) -> str:
    """The names for some events: the ops that launch nothing else, if those are few; else the events' own
    names."""
    own, ops = shorts(side.trace, part.events), shorts(side.trace, part.tops)
    few = _few(part, own, ops)
    if moves(side.trace, part.events):
        return f"{listed(own)} ({listed(ops)})" if few else listed(own)
    return listed(ops if few else own)


def ops_told(side: Side, part: Part) -> tuple[str, ...]:
    """The ops by which a sentence calls events; none if it uses the events' own names."""
    own, ops = shorts(side.trace, part.events), shorts(side.trace, part.tops)
    told = _few(part, own, ops) and not moves(side.trace, part.events)
    return tuple(sorted(ops)) if told else ()


def _few(part: Part, own: Sequence[str], ops: Sequence[str]) -> bool:
    return part.mostly and 0 < len(ops) <= min(NAMED, max(1, len(own)))


def often(side: Side, part: Part) -> int:
    """How often each name that a sentence uses occurs; 0 if they do not all occur equally often."""
    at = part.tops if ops_told(side, part) else part.events
    times = set(Counter(short(side.trace, i) for i in at).values())
    return times.pop() if len(times) == 1 else 0


def kinds(trace: Trace, events: Sequence[int]) -> str:
    """The word for these events: `kernel`, `kernels`, `kernels and sets`."""
    have = [np.any(trace.kind[np.array(events, dtype=np.int64)] == kind) for kind in KINDS]
    words = [word for word, has in zip(KINDS.values(), have, strict=True) if has]
    return words[0][:-1] if len(events) == 1 and words[0] == "kernels" else listed(words)


def shorts(trace: Trace, events: Sequence[int]) -> list[str]:
    """The short names of events, each once: in order if they are few, else the longest-running first."""
    at = np.array(events, dtype=np.int64)
    _, first, which = np.unique(trace.name[at], return_index=True, return_inverse=True)
    time = sum_into(which, trace.duration[at], len(first))
    order = np.argsort(-time if len(first) > NAMED else first, kind="stable")
    return list(dict.fromkeys(short(trace, events[i]) for i in first[order].tolist()))


def moves(trace: Trace, events: Sequence[int]) -> bool:
    return bool(np.all(trace.kind[np.array(events, dtype=np.int64)] != Kind.KERNEL))


def listed(names: Sequence[str]) -> str:
    """Names for a sentence: `a`, `a and b`, `a, b and 3 others`. An autograd node is one name."""
    there = set(names)
    names = [name for name in names if f"evaluate {name}" not in there]
    if len(names) > NAMED:
        names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} others"]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def is_(names: str) -> str:
    return "are" if " and " in names.partition(" (")[0] else "is"


def short(trace: Trace, i: int) -> str:
    name = trace.name_of(i)
    # Inductor names its calls after its kernels: both are written as the timeline shows the kernel.
    triton = name.startswith("triton_")
    return short_name(name, "kernel" if triton else trace.categories[int(trace.category[i])])


def by_time(side: Side, tree: CallTree, at: I64) -> list[str]:
    """The names of calls, those that take the most time first."""
    time: Counter[str] = Counter()
    _, first, which = np.unique(side.trace.name[at], return_index=True, return_inverse=True)
    spent = sum_into(which, tree.self_time[tree.place[at]], len(first))
    for i, ns in zip(at[first].tolist(), spent.tolist(), strict=True):
        time[short(side.trace, i)] += ns
    return [name for name, _ in time.most_common()]


def counted(number: float, noun: str = "") -> str:
    text = f"{number:,.0f}" if number >= 1 or number == 0 else significant(number)
    many = "" if text == "1" else "s"
    text = text if number < 1 or number == round(number) else f"about {text}"
    return f"{text} {noun}{many}" if noun else text
