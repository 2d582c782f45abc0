"""What work waited for that was launched and did not start: another stream, another device, or not known."""

from __future__ import annotations

from tracetui.analysis.devices import device_of, work_of_devices
from tracetui.analysis.idle.causes import AT, Causes, others_work
from tracetui.analysis.select import has_kind
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.model import cached_on_trace

KNOWN = 0.8
"""It is told if it is known for at least this share of the queued time."""


def waited_for_elsewhere(trace: Trace, causes: Causes) -> str:
    """Where the work ran that most queued work waited for: "another device" or "another stream"; "" if not
    known."""
    queued, known = causes.pieces[:, AT["queued"]], causes.waited_for >= 0
    if int(queued[known].sum()) < KNOWN * int(queued.sum()) or not queued.any():
        return ""
    here, there = (device_of(trace)[trace.lane[of[known]]] for of in (causes.event, causes.waited_for))
    on_another = 2 * int(queued[known][here != there].sum()) > int(queued.sum())
    return "another device" if on_another else "another stream"


@cached_on_trace
def waits_for_others(trace: Trace) -> bool:
    """Whether queued work may have been waiting for something else of this process, as far as the trace
    shows: another stream or device, or work from before the recording."""
    working = 0
    for lane in trace.lanes:
        if lane.device >= 0 and lane.first < lane.last:
            rows = slice(lane.first, lane.last)
            work = trace.is_kind(*DEVICE_WORK, of=rows) & ~trace.implausible[rows]
            working += bool(work.any())
            # In one stream, work from before the recording is over once the first recorded work starts.
            linked = trace.launch[rows][work] >= 0
            if working > 1 or bool((linked[:-1] & ~linked[1:]).any()):
                return True
    return not working


UNTIL = "queued until "
"""Begins the variant of `queued` that names what was waited for."""


def cause_variants(trace: Trace, causes: Causes) -> dict[str, str]:
    """What is known of causes beyond their names: cause to variant."""
    found = {} if waits_for_others(trace) else {"queued": "queued alone"}
    if len(work_of_devices(trace)) > 1:
        found["sync"] = "sync of several"
    if where := waited_for_elsewhere(trace, causes):
        found["queued"] = f"{UNTIL}{where}"
    if not has_kind(trace, Kind.CPU_OP):
        found["host"] = "no ops"
    elif others_work(causes):
        found["host"] = "host beside others"
    return found
