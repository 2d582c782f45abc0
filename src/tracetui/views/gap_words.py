"""Why a device was idle, in words: in one gap, in some, or in all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracetui.analysis.calls.compiling import compile_time
from tracetui.analysis.idle.activity import activity_text
from tracetui.analysis.idle.causes import CAUSES, Causes
from tracetui.analysis.idle.cpu_time import LONGEST_LATENCY_NS
from tracetui.analysis.names.short_names import short_of
from tracetui.analysis.results import Results
from tracetui.analysis.steps.loading import loading_time
from tracetui.analysis.steps.scope import NEVER, launch_times
from tracetui.core.units import duration, exact, instant, share
from tracetui.trace import Trace
from tracetui.trace.model import I64
from tracetui.views.event import Fact
from tracetui.words.cause_words import cause_words

COMPILING = "mostly torch.compile"
LOADING = "mostly a DataLoader"


def words_of(
    results: Results, causes: Causes, start: I64, end: I64, at: slice = slice(None), idle: Sequence[int] = ()
) -> dict[str, str]:
    """`cause_words` of gaps, and whether torch.compile or a `DataLoader` was what kept the CPU.

    `idle`: the idle time that the words are for, by `CAUSES`; () for that of the gaps.
    """
    words, phases = cause_words(results.trace, causes, at), compile_time(results)
    compiled = int(phases.within(start, end).sum()) if len(phases) else 0
    idle = idle or causes.pieces[at].sum(0).tolist()
    dispatch, host = (idle[CAUSES.index(cause)] for cause in ("dispatch", "host"))
    if 2 * compiled > dispatch > 0:
        words["dispatch"] = COMPILING
    if len(loading := loading_time(results)):
        loaded = int(loading.within(start, end).sum())  # in ops of its own or not: at least the rest of it
        if 2 * (loaded - dispatch) > host > 0:
            words["host"] = LOADING
        elif 2 * (loaded - host) > dispatch > 0:
            words["dispatch"] = LOADING
    return words


def words_of_all(results: Results) -> dict[str, str]:
    """The causes of all idle time that the verdict is about, in words."""
    gaps, idle = results.gaps(), results.verdict().causes
    return words_of(results, results.causes(), gaps.start, gaps.start + gaps.duration, idle=idle)


def _words_of_one(results: Results, gap: int) -> dict[str, str]:
    gaps, at = results.gaps(), slice(gap, gap + 1)
    return words_of(results, results.causes(), gaps.start[at], gaps.start[at] + gaps.duration[at], at)


FOUND = "gaps told"
"""The key of what `cause_text` and `cpu_doing` need: `Results.ready` tells whether they are quick."""


def find_told(results: Results) -> None:
    """Find all that `cause_text` and `cpu_doing` need, for any gap. Takes a while in a large trace."""

    def find() -> bool:
        # Telling one needs what telling any needs.
        return bool(len(results.gaps()) and (cause_text(results, 0), cpu_doing(results, 0)))

    results.kept(FOUND, find)


def cause_text(results: Results, gap: int) -> str:
    """Why a gap is there: `host: the CPU was outside any op; sync 1.20 ms`. Other causes are named from a
    tenth of it on."""
    causes = results.causes()
    (cause, _), *others = causes.parts(gap)
    text = _words_of_one(results, gap)[cause]
    waited_for = int(causes.waited_for[gap])
    if cause == "queued":
        text = "queued, but nothing recorded ran on this GPU"
    if cause == "queued" and waited_for >= 0:
        text = _waited(results.trace, waited_for, int(causes.event[gap]))
    in_flight = launch_times(results.trace, causes.event[gap : gap + 1])[0] == NEVER
    text = "launched before the recording" if cause == "unlinked" and in_flight else text
    return f"{cause}: {text}" + "".join(f"; {other} {duration(time)}" for other, time in others)


def gap_line(results: Results, gap: int, soon: bool) -> tuple[str, ...]:
    """A gap's length, its cause, what the CPU did and what ended the gap. The cause and the CPU's activity
    are left out if they are not known yet and would not be found `soon`."""
    gaps = results.gaps()
    parts = [f"idle {duration(int(gaps.duration[gap]))}"]
    if soon or results.ready(FOUND):
        parts += [cause_text(results, gap), *filter(None, (cpu_doing(results, gap),))]
    return (*parts, f"then {short_of(results.trace, int(gaps.after[gap]))}")


def _waited(trace: Trace, waited_for: int, event: int) -> str:
    name = short_of(trace, waited_for)
    after = int(trace.start[event] - trace.start[waited_for] - trace.duration[waited_for])
    if after > LONGEST_LATENCY_NS:
        return f"queued; it had to wait for {name}, which finished {duration(after)} earlier"
    return f"queued until {name} was done"


def gap_facts(results: Results, gap: int) -> list[Fact]:
    """Why a gap is there, in full: its pieces by cause, what the CPU was in, what the device waited for, and
    the events around it. `gap`: index in `Results.gaps`."""
    trace, gaps, causes = results.trace, results.gaps(), results.causes()
    start, length, step = int(gaps.start[gap]), int(gaps.duration[gap]), int(causes.step[gap])
    device = trace.device_called(int(gaps.device[gap]))
    facts = [Fact("idle", f"{device} ran nothing for {exact(length)}, starting at {instant(start)}")]
    row, words = causes.pieces[gap], _words_of_one(results, gap)
    order = [at for at in np.argsort(-row, kind="stable").tolist() if row[at]]
    wide = max((len(CAUSES[at]) for at in order), default=0)
    for n, at in enumerate(order):
        time, part = exact(int(row[at])), share(int(row[at]) / length)
        text = f"{CAUSES[at]:<{wide}}  {time:>12}  {part:>5}   {words[CAUSES[at]]}"
        facts.append(Fact("" if n else "by cause", text))
    activity = activity_text(trace, causes, results.small_ops(), gap)
    if activity != "-":
        facts.append(Fact("the CPU in", activity, int(causes.activity[gap])))

    def event(label: str, i: int) -> list[Fact]:
        return [Fact(label, short_of(trace, i), i)] if i >= 0 else []

    facts += event("waited for", int(causes.waited_for[gap]))
    facts += event("before it", int(gaps.before[gap])) + event("ended by", int(gaps.after[gap]))
    # What follows is about that one.
    facts += event("launched by", int(causes.launch[gap])) + event("in op", int(causes.op[gap]))
    facts += event("in step", int(results.step_table().event[step]) if step >= 0 else -1)
    return facts


def cpu_doing(results: Results, gap: int) -> str | None:
    """What the launching thread did in a gap, `CPU in aten::add`, or around it, `within backward`; None where
    its cause says that already, or where nothing is known."""
    causes = results.causes()
    activity = activity_text(results.trace, causes, results.small_ops(), gap)
    if activity in ("-", "outside ops"):
        return None
    # While the CPU was outside any op, what is around that is an annotation, or a function of Python's.
    return f"{'within' if CAUSES[causes.cause[gap]] == 'host' else 'CPU in'} {activity}"
