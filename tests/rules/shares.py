"""Every share that a finding claims, of what it says that it is of; and its sentences say no other share.

A base that is not known here fails: a new kind of base needs its own count below.
"""

import re
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from tracetui.analysis.calls.calls import exclusive_time_of
from tracetui.analysis.device_work import device_work_of
from tracetui.analysis.idle.causes import NOT_THE_PROGRAMS
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.split import COLUMNS
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import slices_of, step_table_of
from tracetui.analysis.verdicts import earlier_work_of, verdict_of, verdict_times_of, verdict_window
from tracetui.core.units import parse_time, percent, share
from tracetui.rules import Finding
from tracetui.rules.claims import Share, Time
from tracetui.trace import DEVICE_WORK, Kind
from tracetui.trace.intervals import union
from tracetui.trace.model import I64

PERCENT = re.compile(r"<?\d[\d.]*%")
TIME = r"(?:<?[\d.,]+ (?:ns|µs|ms|s))"
WINDOW = re.compile(rf"of the (?:({TIME}) of the )?(recording|steps|step|range|view)\b")
OF_SCOPE = {
    "whole": {"recording", "steps", "step"}, "step": {"step"}, "range": {"range"}, "viewport": {"view"}
}  # fmt: skip
RATES = re.compile(
    r"of (?:the peak for its type|the SMs|the memory's bandwidth|what .* carries one way|the link to the"
    r" host)"
)
"""Shares of a rate, not of a time."""


def check_shares(results: Part, finding: Finding) -> int:
    """Assert that the shares that a finding claims are what they say, and that its sentences say no other;
    how many there were."""
    claimed = [claim for claim in finding.claims.values() if isinstance(claim, Share)]
    for claim in claimed:
        told = f"{finding.rule}, {results.scope.kind}: {claim!r}"
        if not RATES.match(claim.of):
            bases = list(_bases(results, finding, claim.of))
            assert bases, f"{told}: of what? Words that are known: `_bases` in tests/rules/shares.py"
            assert any(np.isclose(claim.whole, whole, rtol=1e-12) for whole in bases), f"{told}: not {bases}"
            assert any(
                np.isclose(claim.part, part, rtol=1e-12) for part in _parts(results, finding, claim)
            ), told
    said = PERCENT.findall(f"{finding.title}. {finding.text.partition(' Alike: ')[0]}")
    shown = {way(float(claim)) for claim in claimed for way in (share, lambda value: percent(value, 1))}
    assert set(said) <= shown, f"{finding.rule}: {said}, not {shown}"
    return len(claimed)


def _parts(results: Part, finding: Finding, claim: Share) -> Iterator[float]:
    """What the part may be, in ns: a time that the finding claims, or the sum of two."""
    if claim.of == "of the busy time":
        yield _busy(results, earlier_work_of(results))
    if claim.of == "of the GPUs' spans":
        devices = gaps_of(results).devices
        yield sum(
            _busy(results, finding.affected.at, (gaps.first, gaps.last), gaps.device) for gaps in devices
        )
    if finding.rule == "gpus_in_turn":  # what a GPU that does its share is idle
        every = np.flatnonzero(np.isin(results.trace.kind, DEVICE_WORK) & ~results.trace.implausible)
        whole = gaps_of(results.whole).devices
        busy = np.array([_busy(results, every, only=gaps.device) for gaps in whole])
        yield claim.whole - int(busy[busy > 0.15 * busy.sum()].sum())
    times = [claim.ns for claim in finding.claims.values() if isinstance(claim, Time)]
    if finding.rule == "compiled_overhead":
        times.append(finding.claims["each_ns"].ns * finding.claims["calls"].n)
    yield from (*times, *map(sum, combinations(times, 2)))


def _bases(results: Part, finding: Finding, words: str) -> Iterator[float]:
    """What the words may mean, in ns."""
    trace, work = results.trace, device_work_of(results).at
    if window := WINDOW.match(words):
        assert window[2] in OF_SCOPE[results.scope.kind], (
            f"{finding.rule}: {words}, in a {results.scope.kind}"
        )
        yield from _windows(results, window[2], window[1])
    elif words.startswith("of kernel and copy time"):
        yield sum(trace.duration[work].tolist())
    elif words.startswith("of kernel time"):
        yield sum(trace.duration[i] for i in work.tolist() if trace.kind[i] == Kind.KERNEL)
    elif words == "of the time in ops":
        yield _time_in_ops(results)
    elif words.startswith("of the self time of all ops"):
        yield exclusive_time_of(results)[slices_of(results, Kind.CPU_OP, lambda name: True)].sum()
    elif words == "of the busy time" or words.endswith("'s busy time"):
        yield _busy(results, np.flatnonzero(np.isin(trace.kind, DEVICE_WORK) & ~trace.implausible))
    elif words == "of their time":
        talks = np.array([i for i in work.tolist() if "nccl" in trace.name_of(i)], dtype=np.int64)
        for gaps in gaps_of(results).devices:
            yield _busy(results, talks, (gaps.first, gaps.last), gaps.device)
    elif words.startswith("of the compiled calls' CPU time"):
        regions = ("Torch-Compiled Region", "TorchDynamo Cache Lookup")
        yield trace.duration[slices_of(results, Kind.CPU_OP, lambda name: name.startswith(regions))].sum()
    elif words == "of its CPU time":
        yield finding.numbers["total_ns"]
    elif words == "of it":
        yield finding.claims["runs_ns"].ns
    elif words == "of the GPUs' spans":
        yield sum(gaps.span for gaps in gaps_of(results).devices)
    elif words == "of the GPU's span":
        yield from (gaps.span for gaps in gaps_of(results).devices)
    elif words.startswith("of the two"):
        yield finding.numbers["copy_ns"] + finding.numbers["product_ns"]


def _time_in_ops(results: Part) -> int:
    """The time in ops of all threads together, in the time that the verdict is about, ns."""
    trace, (low, high) = results.trace, verdict_window(results)
    at = np.flatnonzero(trace.kind == int(Kind.CPU_OP))
    return sum(
        int(
            union(trace.start[mine], trace.start[mine] + trace.duration[mine]).overlap(
                np.array([low]), np.array([high])
            )[0]
        )
        for mine in (at[trace.lane[at] == lane] for lane in np.unique(trace.lane[at]))
    )


def _busy(results: Part, work: I64, between: tuple[int, int] | None = None, only: int | None = None) -> int:
    """How long any of this work runs, in the time that the verdict is about or `between` two others, ns;
    `only`: on this device."""
    low, high = between or verdict_window(results)
    trace, busy = results.trace, 0
    device = np.array([lane.device for lane in trace.lanes])[trace.lane[work]]
    for one in np.unique(device).tolist() if only is None else [only]:
        begin = trace.start[work[device == one]]
        spans = union(begin, begin + trace.duration[work[device == one]])
        busy += int(spans.overlap(np.array([low]), np.array([high]))[0])
    return busy


def _windows(results: Part, word: str, counted: str) -> Iterator[float]:
    """The time of the recording, of its steps, of a step or of a range: all of it, or what counts of it."""
    verdict, (low, high), (begin, end) = verdict_of(results), verdict_window(results), results.span
    devices = max(1, len(gaps_of(results).devices))
    if word == "recording":
        yield from (end - begin, (end - begin) * devices)
    left_out = [COLUMNS.index(cause) for cause in NOT_THE_PROGRAMS]
    times = verdict_times_of(results)
    judged = [verdict.judged, *times.sum(1).tolist(), *(times.sum(1) - times[:, left_out].sum(1)).tolist()]
    if verdict.cpu is not None:
        judged.append(verdict.cpu.span)
    if counted:
        yield from (time for time in judged if np.isclose(time, float(parse_time(counted)), rtol=0.005))
        return
    yield from judged
    if word != "recording":
        yield from (high - low, end - begin, (high - low) * devices, (end - begin) * devices)
    if results.is_whole and word != "recording":
        table = step_table_of(results)
        yield int((table.end - table.start).sum())
