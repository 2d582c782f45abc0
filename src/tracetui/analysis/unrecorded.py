"""What to say about work that the profiler did not record."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.idle.gaps import clocks_text
from tracetui.core.units import duration, plural
from tracetui.trace import Kind, Trace
from tracetui.trace.unknown import CLOCKS_NS, clock_offset, launched_at_no_time, without_duration
from tracetui.trace.unrecorded import linked_work, unrecorded
from tracetui.trace.unrecorded_time import waited_for

WORTH_SAYING = 0.01
"""The verdict mentions lost launches from this share of all launches on."""


def lost_launches(trace: Trace) -> str:
    """`48 of 308 launches, at the end`: those whose device events are not in the file; "" if none is known to
    be missing."""
    found = unrecorded(trace)
    lost = len(found.launches)
    if not lost or trace.cut_off:  # a file without its end may lack any event
        return ""
    if lost == found.of:
        return plural(lost, "launch", "launches") if lost == 1 else f"all {lost:,} launches"
    between = lost - found.before - found.after
    places = {"at the beginning": found.before, "in between": between, "at the end": found.after}
    there = {where: count for where, count in places.items() if count}
    where = next(iter(there)) if len(there) == 1 else ", ".join(f"{n:,} {at}" for at, n in there.items())
    return f"{lost:,} of {found.of:,} launches, {where}"


def lost_text(trace: Trace, low: int, high: int, is_whole: bool) -> str:
    """A sentence on the launches without device events that start within [low, high); "" if there are none,
    or too few to change an answer about the whole trace."""
    found = unrecorded(trace)
    if not (said := lost_launches(trace)):
        return ""
    if is_whole:
        worth = len(found.launches) >= WORTH_SAYING * found.of
        comma = "," if "," in said.split("launches")[-1] else ""
        return f"The device events of {said}{comma} are not in the file." if worth else ""
    start = trace.start[found.launches]
    here = int(np.count_nonzero((start >= low) & (start < high)))
    which = plural(here, "launch", "launches")
    return f"The device events of {which} here are not in the file." if here else ""


def notes(trace: Trace) -> list[tuple[str, int, str]]:
    """(level, count, text) of what a file lacks: "missing" if work is lost, "odd" if times cannot be right,
    "note" if it is normal."""
    found = unrecorded(trace)
    told: list[tuple[str, int, str]] = []
    if said := lost_launches(trace):
        lost = len(found.launches)
        which = said.removeprefix(f"{lost:,} ").removeprefix(f"all {lost:,} ")
        which = "all launches" if which == "launches" else which
        told.append(("missing", lost, f"a launch without its device event ({which})"))
    if len(waits := waited_for(trace)):
        text = "a wait for the GPU that returns long after all recorded work: what it waited for is missing"
        told.append(("missing", len(waits), f"{text} ({duration(waits.total)} in all)"))
    if zero := len(without_duration(trace)):
        text = "a kernel with a duration of 0: its time is missing"
        told.append(("odd", zero, f"{text} (of {int(trace.is_kind(Kind.KERNEL).sum()):,})"))
    if lost := launched_at_no_time(trace):
        told.append(("odd", lost, "a GPU event whose launch has lost its time"))
    if not trace.cut_off and abs(clock_offset(trace)) >= CLOCKS_NS:
        told.append(
            ("odd", len(linked_work(trace)[0]), f"a GPU event on another clock: {clocks_text(trace)}")
        )
    other = len(found.work) - found.earlier
    if found.earlier:
        told.append(("note", found.earlier, "a GPU event that was launched before the recording"))
    if other and not trace.cut_off:
        told.append(("note", other, "a GPU event whose launch is not in the file"))
    return told
