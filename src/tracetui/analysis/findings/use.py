"""Rules on devices that stand idle: for overhead, or for other reasons."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.causes import CAUSES, NOT_THE_PROGRAMS, cause_sentences, waits_for_others
from tracetui.analysis.cpu_time import is_allocation
from tracetui.analysis.findings.compiled import COMPILED_GRAPH, COMPILED_REGION
from tracetui.analysis.findings.idle import LOADING_ADVICE, TURNS_SHARE, loader_calls, waits_for_device
from tracetui.analysis.findings.kernels import SHORT_EVENTS, SHORT_SHARE
from tracetui.analysis.findings.model import Finding, first_of
from tracetui.analysis.gaps import DeviceGaps, busy_union
from tracetui.analysis.launches import short_kernels
from tracetui.analysis.results import Results
from tracetui.analysis.split import BUSY, CAUSED
from tracetui.analysis.verdict import busy_text
from tracetui.trace.model import I64, Kind
from tracetui.units import capital, duration, share, verb

LITTLE_USE = 0.5
IDLE_SHARE = 0.1
"""From this share of the time on, idle time is worth a finding."""
MUCH_IDLE = 0.25
NO_REASON = "back to back"
FREEING_SHARE = 0.1
LOADING_SHARE = 0.4
"""From this share of the idle time on, the advice is that on data loading."""

_ADVICE = {
    "dispatch": "Give the GPU more work per launch: larger batches, torch.compile, CUDA graphs (mode="
    '"reduce-overhead"); in training, also fused optimizers.',
    "host": "Look at what Python does between the ops: data loading, logging, .item(), printing.",
    "sync": "Remove what makes the CPU wait in between: .item(), .cpu(), nonzero, printing a tensor.",
    "allocation": "Let the caching allocator keep its memory: no empty_cache() in the loop, stable shapes.",
    "launch": "Many launches one after another: fuse small kernels, or use CUDA graphs.",
    "queued": "Look at what the GPU waits for: another stream, an event, a copy, another process.",
    "back to back": "Fuse kernels that follow one another: torch.compile, or fused ops.",
    "unlinked": "The trace lacks the launches: record CPU activity as well.",
}
_COMPILED_ADVICE = (
    'It is compiled already: CUDA graphs (mode="reduce-overhead"), larger batches or larger compiled regions '
    "give the GPU more work per launch."
)


def overhead_bound(results: Results) -> Iterator[Finding]:
    """The device waits for the CPU: the verdict, with the largest causes of its idle time."""
    verdict = results.verdict()
    if verdict.verdict != "overhead-bound":
        return
    short = short_kernels(results.trace, results.launches())
    # Where it also waits for other ranks, or for what the trace does not show, the CPU is not all.
    queued = verdict.causes[CAUSES.index("queued")] >= IDLE_SHARE * verdict.judged
    alone = not queued and verdict.share("communication") < IDLE_SHARE
    pace = "A faster GPU or faster kernels would change little: the CPU sets the pace." if alone else ""
    waits, events = waits_for_device(results), ""
    # Few of them explain nothing; more of them are a finding of their own.
    if SHORT_SHARE * short.of <= short.events < SHORT_EVENTS and short.events:
        whose = "its" if short.events == 1 else "their"
        events = f"{short.events:,} of {short.of:,} kernels, copies and memsets "
        events += f"{verb(short.events, 'take')} less time than {whose} launch on the CPU."
    low, high = results.judged_range()
    begin, end = np.clip(waits.start, low, high), np.clip(waits.end, low, high)
    for idle in _idle(results):
        if idle.busy_share > LITTLE_USE:
            continue
        device = results.device_text(idle.gaps)
        numbers = {**idle.numbers, "short_launches": float(short.events)}
        if verdict.launch_delay is not None:
            numbers["launch_delay_ns"] = float(verdict.launch_delay)
        waited = int(idle.gaps.blocks.within(begin, end).sum())
        turns = waited >= TURNS_SHARE * idle.time
        text = f"CPU and GPU take turns: for {duration(waited)} the CPU waits for the GPU." if turns else pace
        yield Finding(
            "overhead_bound",
            "low" if verdict.mostly_left_out else "high",
            f"Overhead-bound: {device} is busy {busy_text(idle.busy_share)} {verdict.of(idle.time)}",
            " ".join(part for part in (_idle_text(results, idle), events, text) if part),
            _advice(results, idle),
            idle.evidence,
            numbers,
        )


def little_use(results: Results) -> Iterator[Finding]:
    """A device that is idle for more than half of its time, though not for overhead."""
    verdict = results.verdict()
    if verdict.verdict == "overhead-bound":
        return
    for idle in _idle(results):
        if idle.busy_share < LITTLE_USE:
            device = capital(results.device_text(idle.gaps))
            yield Finding(
                "little_use",
                "low" if verdict.mostly_left_out else "high",
                f"{device} is busy only {busy_text(idle.busy_share)} {verdict.of(idle.time)}",
                _idle_text(results, idle),
                _advice(results, idle),
                idle.evidence,
                idle.numbers,
            )


def idle_time(results: Results) -> Iterator[Finding]:
    """A device that is idle for less than half of its time, but for enough of it to look at."""
    verdict = results.verdict()
    for idle in _idle(results):
        if LITTLE_USE <= idle.busy_share <= 1 - IDLE_SHARE:
            device, part = capital(results.device_text(idle.gaps)), 1 - idle.busy_share
            if idle.idle - idle.no_reason < IDLE_SHARE * idle.time:  # the rest is the time between kernels
                continue
            yield Finding(
                "idle_time",
                "medium" if part >= MUCH_IDLE else "low",
                f"{device} is idle {share(part)} {verdict.of(idle.time)}",
                _idle_text(results, idle),
                _advice(results, idle),
                idle.evidence,
                idle.numbers,
            )


@dataclass(frozen=True, slots=True)
class _Idle:
    """How much a device was used in the time that the verdict is about."""

    gaps: DeviceGaps
    busy: int
    causes: I64
    """The idle time of each cause in ns, without what the verdict leaves out."""
    loading: int
    """The idle time while the program waited for a `DataLoader`, in ns."""
    evidence: tuple[int, ...]
    """The slices that ended the longest stretches, longest first."""

    @property
    def busy_share(self) -> float:
        return self.busy / self.time if self.busy else 0.0

    @property
    def time(self) -> int:
        return self.busy + self.idle

    @property
    def idle(self) -> int:
        return int(self.causes.sum())

    @property
    def no_reason(self) -> int:
        return int(self.causes[CAUSES.index(NO_REASON)])

    @property
    def largest(self) -> list[int]:
        """Indices into `CAUSES`, largest first: the first, and a second from a tenth of the idle time on."""
        order = np.argsort(-self.causes, kind="stable").tolist()
        reasons = [i for i in order if self.causes[i] and CAUSES[i] != NO_REASON] or order[:1]
        return [i for n, i in enumerate(reasons[:2]) if not n or self.causes[i] >= 0.1 * self.idle]

    @property
    def main(self) -> str:
        return CAUSES[self.largest[0]]

    @property
    def numbers(self) -> dict[str, float]:
        whole = self.gaps.busy_share
        return {"busy_share": self.busy_share, "idle_ns": float(self.idle), "span_busy_share": whole}


def _idle(results: Results) -> Iterator[_Idle]:
    """The devices that ran anything, with why they did not all the time."""
    low, high = results.judged_range()
    loader = busy_union(results.trace, loader_calls(results.whole))
    for device, time in zip(results.split().devices, results.judged_times(), strict=True):
        causes = time[CAUSED].copy()
        causes[[CAUSES.index(cause) for cause in NOT_THE_PROGRAMS]] = 0
        if not time[BUSY].any() or not causes.any():
            continue
        stretches = device.idle
        length = np.minimum(stretches.end, high) - np.maximum(stretches.start, low)
        length[stretches.event < 0] = 0
        longest = np.argsort(-length, kind="stable")[:5]
        ended_by = stretches.event[longest[length[longest] > 0]]
        last = results.work()[-1:]  # nothing ran after it
        evidence = first_of(ended_by if len(ended_by) else last)
        begin, end = np.clip(stretches.start, low, high), np.clip(stretches.end, low, high)
        cpu = sum(int(causes[CAUSES.index(cause)]) for cause in ("host", "dispatch"))
        loading = min(int(loader.within(begin, end).sum()), cpu)
        yield _Idle(device.gaps, int(time[BUSY].sum()), causes, loading, evidence)


def _idle_text(results: Results, idle: _Idle) -> str:
    words = cause_sentences(results.trace, results.causes())
    told = "; ".join(f"for {duration(idle.causes[i])} {words[CAUSES[i]]}" for i in idle.largest)
    verdict = results.verdict()
    counted = " that count" if verdict.noticeably_left_out else ""
    time = f"{duration(idle.time)} {verdict.base}{counted}"
    loading = ""
    if idle.loading >= 0.1 * idle.idle:
        loading = f" For {duration(idle.loading)} of the idle time the program waited for its DataLoader."
    return f"Of {time} the GPU is busy for {duration(idle.busy)}. Of its idle time, {told}.{loading}"


def _advice(results: Results, idle: _Idle) -> str:
    main, trace = idle.main, results.trace
    if idle.loading >= LOADING_SHARE * idle.idle:
        return LOADING_ADVICE
    if main == "host" and not _has_ops(results):
        return "Record CPU activity as well (ProfilerActivity.CPU): the trace does not show what the CPU did."
    if main == "allocation" and not _frees(results):
        return "Next to nothing is freed here: these are first requests. Warm up with the largest shapes."
    if main in ("launch", "dispatch") and _replays(results):
        return "It runs CUDA graphs already: put more work into one graph, or more into one kernel."
    if main == "dispatch" and _is_compiled(results):
        return _COMPILED_ADVICE
    if main == "queued" and not waits_for_others(trace):
        return "Look for other processes on the GPU (nvidia-smi), and record again with it to yourself."
    if main == "host":
        # Between tiny kernels the gaps outside of ops are long only because there is so little to launch.
        short, time = short_kernels(trace, results.launches()), dict(zip(CAUSES, idle.causes, strict=True))
        if 2 * short.events > short.of and "dispatch" in (CAUSES[i] for i in idle.largest):
            both = "" if 2 * time["host"] < idle.idle else f"{_ADVICE['host']} "
            return both + _ADVICE["dispatch"]
    return _ADVICE[main]


def _frees(results: Results) -> bool:
    """Whether freeing takes a noticeable part of the time in which memory is allocated and freed."""
    trace, at = results.trace, results.slices(Kind.RUNTIME, is_allocation)
    freeing = results.named(lambda name: "Free" in name)[trace.name[at]]
    return bool(trace.duration[at[freeing]].sum() >= FREEING_SHARE * trace.duration[at].sum() > 0)


def _replays(results: Results) -> bool:
    """Whether graph launches run most of the kernels, copies and memsets."""
    replay = results.named(lambda name: "GraphLaunch" in name)[results.trace.name[results.launches().launch]]
    return bool(2 * np.count_nonzero(replay) > len(replay))


def _is_compiled(results: Results) -> bool:
    """Whether most of what is launched is launched by compiled regions."""
    trace, calls = results.trace, results.launch_calls()
    regions = results.slices(Kind.CPU_OP, lambda name: name.startswith((COMPILED_REGION, COMPILED_GRAPH)))
    inside = busy_union(trace, regions).touching(trace.start[calls], trace.start[calls] + 1)
    return bool(2 * np.count_nonzero(inside) > len(calls))


def _has_ops(results: Results) -> bool:
    return bool(results.trace.is_kind(Kind.CPU_OP).any())
