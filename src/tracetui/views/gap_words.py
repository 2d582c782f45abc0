"""Why a device was idle, in words: in one gap, in some, or in all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.analysis.calls.compiling import compile_time
from tracetui.analysis.idle.activity import activity_text, small_ops_of
from tracetui.analysis.idle.causes import CAUSES, MAYBE_BUSY, Causes
from tracetui.analysis.idle.cpu_time import LONGEST_LATENCY_NS, cpu_time_of
from tracetui.analysis.idle.cpu_verdict import cpu_collectives_of, cpu_work_of
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import causes_of
from tracetui.analysis.names.short_names import short_of
from tracetui.analysis.part import Part, fact
from tracetui.analysis.steps.loading import loading_time
from tracetui.analysis.steps.scope import NEVER, launch_times, step_table_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.units import duration, exact, instant, share
from tracetui.trace import Trace
from tracetui.trace.model import I64
from tracetui.views import thread_gaps
from tracetui.views.event import Fact
from tracetui.words.cause_words import cause_words

_MAYBE = [CAUSES.index(cause) for cause in MAYBE_BUSY]
COMPILING = "mostly torch.compile"
LOADING = "mostly a DataLoader"
IN_GRAPHS = "mostly a graph's host nodes"
TALKING = "mostly a collective on the CPU"


def words_of(
    part: Part, causes: Causes, start: I64, end: I64, at: slice = slice(None), idle: Sequence[int] = ()
) -> dict[str, str]:
    """`cause_words` of gaps, and whether torch.compile or a `DataLoader` was what kept the CPU.

    `idle`: the idle time that the words are for, by `CAUSES`; () for that of the gaps.
    """
    words, phases = cause_words(part.trace, causes, at), compile_time(part)
    compiled = int(phases.overlap(start, end).sum()) if len(phases) else 0
    idle = idle or causes.pieces[at].sum(0).tolist()
    dispatch, host = (idle[CAUSES.index(cause)] for cause in ("dispatch", "host"))
    if 2 * compiled > dispatch > 0:
        words["dispatch"] = COMPILING
    if len(loading := loading_time(part)):
        loaded = int(loading.overlap(start, end).sum())  # in ops of its own or not: at least the rest of it
        if 2 * (loaded - dispatch) > host > 0:
            words["host"] = LOADING
        elif 2 * (loaded - host) > dispatch > 0:
            words["dispatch"] = LOADING
    if len(nodes := cpu_time_of(part).in_graphs) and 2 * int(nodes.overlap(start, end).sum()) > host > 0:
        words["host"] = IN_GRAPHS
    if len(talking := cpu_collectives_of(part)):
        talked = int(talking.overlap(start, end).sum())
        if 2 * (talked - host) > dispatch > 0:
            words["dispatch"] = TALKING
        elif 2 * (talked - dispatch) > host > 0:
            words["host"] = TALKING
    return words


def words_of_all(part: Part) -> dict[str, str]:
    """The causes of all idle time that the verdict is about, in words."""
    gaps, idle = gaps_of(part), verdict_of(part).causes
    return words_of(part, causes_of(part), gaps.start, gaps.start + gaps.duration, idle=idle)


def _words_of_one(part: Part, gap: int) -> dict[str, str]:
    gaps, at = gaps_of(part), slice(gap, gap + 1)
    return words_of(part, causes_of(part), gaps.start[at], gaps.start[at] + gaps.duration[at], at)


@fact
def find_told(part: Part) -> bool:
    """Find all that `cause_text` and `cpu_doing` need, for any gap: once it is known, they are quick. Takes a
    while in a large trace."""
    # Telling one needs what telling any needs.
    return bool(len(gaps_of(part)) and (cause_text(part, 0), cpu_doing(part, 0)))


def cause_text(part: Part, gap: int) -> str:
    """Why a gap is there: `host: the CPU was outside any op; sync 1.20 ms`. Other causes are named from a
    tenth of it on."""
    causes = causes_of(part)
    (cause, _), *others = causes.parts(gap)
    text = _words_of_one(part, gap)[cause]
    waited_for = int(causes.waited_for[gap])
    if cause == "queued":
        text = "queued, but nothing recorded ran on this GPU"
    if cause == "queued" and waited_for >= 0:
        text = _waited(part.trace, waited_for, int(causes.event[gap]))
    in_flight = launch_times(part.trace, causes.event[gap : gap + 1])[0] == NEVER
    text = "launched before the recording" if cause == "unlinked" and in_flight else text
    return f"{cause}: {text}" + "".join(f"; {other} {duration(time)}" for other, time in others)


def gap_line(part: Part, gap: int, soon: bool) -> tuple[str, ...]:
    """A gap's length, its cause, what the CPU did and what ended the gap. The cause and the CPU's activity
    are left out if they are not known yet and would not be found `soon`."""
    if cpu_work_of(part) is not None:
        return thread_gaps.gap_line(part, gap)
    gaps = gaps_of(part)
    known = soon or part.knows(find_told)
    maybe = known and CAUSES[causes_of(part).cause[gap]] in MAYBE_BUSY
    parts = [f"{'not known for' if maybe else 'idle'} {duration(int(gaps.duration[gap]))}"]
    if known:
        parts += [cause_text(part, gap), *filter(None, (cpu_doing(part, gap),))]
    return (*parts, f"then {short_of(part.trace, int(gaps.after[gap]))}")


def _waited(trace: Trace, waited_for: int, event: int) -> str:
    name = short_of(trace, waited_for)
    after = int(trace.start[event] - trace.start[waited_for] - trace.duration[waited_for])
    if after > LONGEST_LATENCY_NS:
        return f"queued; it had to wait for {name}, which finished {duration(after)} earlier"
    return f"queued until {name} was done"


def gap_facts(part: Part, gap: int) -> list[Fact]:
    """Why a gap is there, in full: its pieces by cause, what the CPU was in, what the device waited for, and
    the events around it. `gap`: index in `all_gaps_of`."""
    if cpu_work_of(part) is not None:
        return thread_gaps.gap_facts(part, gap)
    trace, gaps, causes = part.trace, gaps_of(part), causes_of(part)
    start, length, step = int(gaps.start[gap]), int(gaps.duration[gap]), int(causes.step[gap])
    device = trace.device_called(int(gaps.device[gap]))
    nothing = "nothing that was recorded" if causes.pieces[gap, _MAYBE].any() else "nothing"
    facts = [Fact("idle", f"{device} ran {nothing} for {exact(length)}, starting at {instant(start)}")]
    row, words = causes.pieces[gap], _words_of_one(part, gap)
    order = [at for at in np.argsort(-row, kind="stable").tolist() if row[at]]
    wide = max((len(CAUSES[at]) for at in order), default=0)
    for n, at in enumerate(order):
        time, piece = exact(int(row[at])), share(int(row[at]) / length)
        text = f"{CAUSES[at]:<{wide}}  {time:>12}  {piece:>5}   {words[CAUSES[at]]}"
        facts.append(Fact("" if n else "by cause", text))
    activity = activity_text(trace, causes, small_ops_of(part), gap)
    if activity != "-":
        facts.append(Fact("the CPU in", activity, int(causes.activity[gap])))

    def event(label: str, i: int) -> list[Fact]:
        return [Fact(label, short_of(trace, i), i)] if i >= 0 else []

    facts += event("waited for", int(causes.waited_for[gap]))
    facts += event("before it", int(gaps.before[gap])) + event("ended by", int(gaps.after[gap]))
    # What follows is about that one.
    facts += event("launched by", int(causes.launch[gap])) + event("in op", int(causes.op[gap]))
    facts += event("in step", int(step_table_of(part).event[step]) if step >= 0 else -1)
    return facts


def cpu_doing(part: Part, gap: int) -> str | None:
    """What the launching thread did in a gap, `CPU in aten::add`, or around it, `within backward`; None where
    its cause says that already, or where nothing is known."""
    causes = causes_of(part)
    activity = activity_text(part.trace, causes, small_ops_of(part), gap)
    if activity in ("-", "outside ops"):
        return None
    # While the CPU was outside any op, what is around that is an annotation, or a function of Python's.
    return f"{'within' if CAUSES[causes.cause[gap]] == 'host' else 'CPU in'} {activity}"
