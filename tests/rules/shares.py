"""Every share that a finding says, from the times that it gives and from what its words say the share is of.

A share whose words are not known here fails: a new kind of base needs its own count below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from tracetui.analysis.calls.calls import own_time_of
from tracetui.analysis.device_work import device_work_of
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.scope import slices_of, step_table_of
from tracetui.analysis.verdicts import earlier_work_of, judged_range, judged_times_of, verdict_of
from tracetui.core.units import parse_time, percent, share
from tracetui.rules import Finding
from tracetui.trace import DEVICE_WORK, Kind
from tracetui.trace.intervals import union
from tracetui.trace.model import I64

SHARE = re.compile(r"((?:\S+ \S+ )?)(<?\d[\d.]*%)\)? ([^.;:%()]*(?:\.\d[^.;:%()]*)*)")
"""Two words, a share, and the words that follow it."""
TIME = r"(?:<?[\d.,]+ (?:ns|µs|ms|s))"
WINDOW = re.compile(rf"of the (?:({TIME}) of the )?(recording|steps|step|range|view)\b")
OF_SCOPE = {
    "whole": {"recording", "steps", "step"},
    "step": {"step"},
    "range": {"range"},
    "viewport": {"view"},
}
RATES = re.compile(
    r"of (?:the peak for its type|the SMs|the memory's bandwidth|what .* carries one way|the link to the"
    r" host)"
)
"""Shares of a rate, not of a time."""


def check_shares(results: Part, finding: Finding) -> int:
    """Assert that the shares in a finding are what they say; how many there were."""
    if results.is_whole:  # a range counts all of what lies partly in it
        assert 0 <= finding.numbers.get("share", 0) <= 1, finding.rule
    said = SHARE.findall(f"{finding.title}. {finding.text}")
    for before, text, words in said:
        told = f"{finding.rule}, {results.scope.kind}: {before}{text} {words}"
        if not RATES.match(words):
            values = list(_values(results, finding, before, words, told))
            shown = {way(value) for value in values for way in (share, lambda part: percent(part, 1))}
            assert text in shown, f"{told}: not {sorted(shown)}"
    return len(said)


def _values(results: Part, finding: Finding, before: str, words: str, told: str) -> Iterator[float]:
    """What the share may be, from 0 to 1."""
    if words.startswith("pass before"):
        runs = re.search(rf" runs for ({TIME}), of which", finding.text)
        assert runs
        yield from (finding.numbers["stretch_ns"] / time for time in _about(runs[1]))
        return
    if words.startswith("of the busy time is work that was launched before"):
        work = np.flatnonzero(np.isin(results.trace.kind, DEVICE_WORK) & ~results.trace.implausible)
        yield _busy(results, earlier_work_of(results)) / max(1, _busy(results, work))
        return
    bases = list(_bases(results, finding, words))
    assert bases, f"{told}: of what? Words that are known: `_bases` in tests/rules/shares.py"
    said = re.match(rf"({TIME}), $", before)
    for whole in filter(None, bases):
        for time in _about(said[1]) if said else _times(finding):
            yield time / whole
            if re.match(r".*: \S* ?busy (?:only )?\S+%", told):
                yield 1 - time / whole


def _times(finding: Finding) -> list[float]:
    """The times that a finding gives, and the sums of two."""
    numbers = finding.numbers
    times = [value for key, value in numbers.items() if key.endswith("_ns") and key != "last_end_ns"]
    if finding.rule == "compiled_overhead":
        times.append(numbers["each_ns"] * numbers["calls"])
    return [*times, *map(sum, combinations(times, 2))]


def _about(text: str) -> list[float]:
    """What a time of three digits may be, in ns."""
    return [float(parse_time(text)) * (1 + away) for away in np.linspace(-0.005, 0.005, 41).tolist()]


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
    elif words.startswith("of the self time of all ops"):
        yield own_time_of(results)[slices_of(results, Kind.CPU_OP, lambda name: True)].sum()
    elif words.startswith(("of the busy time", "of the GPU's busy time", "of GPU ")):
        yield _busy(results, work)
    elif words.startswith("of their time, no other kernel runs"):
        yield _busy(results, np.array([i for i in work.tolist() if "nccl" in trace.name_of(i)]), trace.span)
    elif words.startswith("of the compiled calls' CPU time"):
        regions = ("Torch-Compiled Region", "TorchDynamo Cache Lookup")
        yield trace.duration[slices_of(results, Kind.CPU_OP, lambda name: name.startswith(regions))].sum()
    elif words.startswith("of its CPU time in"):
        yield finding.numbers["total_ns"]
    elif words.startswith("of the two"):
        yield finding.numbers["copy_ns"] + finding.numbers["product_ns"]


def _busy(results: Part, work: I64, between: tuple[int, int] | None = None) -> int:
    """How long any of this work runs, in the time that the verdict is about or `between` two others, ns."""
    low, high = between or judged_range(results)
    trace, busy = results.trace, 0
    device = np.array([lane.device for lane in trace.lanes])[trace.lane[work]]
    for one in np.unique(device).tolist():
        begin = trace.start[work[device == one]]
        spans = union(begin, begin + trace.duration[work[device == one]])
        busy += int(spans.within(np.array([low]), np.array([high]))[0])
    return busy


def _windows(results: Part, word: str, counted: str) -> Iterator[float]:
    """The time of the recording, of its steps, of a step or of a range: all of it, or what counts of it."""
    verdict, (low, high), (begin, end) = verdict_of(results), judged_range(results), results.span
    devices = max(1, len(gaps_of(results).devices))
    if word == "recording":
        yield from (end - begin, (end - begin) * devices)
    judged = [verdict.judged, *(int(time.sum()) for time in judged_times_of(results))]
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
