"""What holds back a trace or a part of it: the CPU, computing, communication or copies.

A verdict rests on how the time of the devices splits (`tracetui.analysis.idle.split`): in the steps, where a
step's time runs until the next one starts, or in the whole recording if there are no steps. Time that says
nothing about the program's normal running is taken out first: initialisation, the profiler's own work, the
lead-in (the time that a pipeline needs to fill up in the first step, `Split.lead_ins`), and the time at the
beginning in which work from before the recording may run (`split.IN_FLIGHT`). The shares below divide the
rest; they add up to 1.

The verdict comes with the **launch delay**, the median time from a launch on the CPU to the start of its work
(for a graph: of its first node). A few microseconds mean that nothing is queued.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.idle.causes import CAUSES, NOT_THE_PROGRAMS, OF_THE_CPU
from tracetui.analysis.idle.split import BUSY, BUSY_PARTS, COLUMNS
from tracetui.core.copying import replace
from tracetui.core.units import duration, percent
from tracetui.trace.model import F64, I64
from tracetui.trace.unrecorded_time import CAPTURED, IN_FLIGHT, NOT_RECORDED

COMPUTE_SHARE = 0.8
"""Computing sets the pace if it takes at least this share of the time."""
PART_SHARE = 0.5
"""Any other part becomes the verdict from this share on."""
QUEUED_NS = 50_000
"""Several times the latency of a launch. Below this median delay hardly anything is queued."""
COMMUNICATION_SHARE = 0.1
"""Exposed communication gets a sentence if it takes at least this share of the busy time."""
LEFT_OUT = 0.25
"""If at least this share of the time is left out, shares are said to be of what counts."""
WORTH_SAYING = 0.01
"""What is left out is mentioned from this share of the time on."""
SHOWS = 0.001
"""From this share of the time on, what is left out is visible in a number of three digits."""
SOME_QUEUED = 0.01
"""Less of the time than this is not visible in the table below."""
MUCH_QUEUED = 0.1
"""Idle time with work queued is mentioned beside waiting for the CPU from this share of the time on."""

OF_STEPS = "of the steps"
OF_STEP = "of the step"
OF_RECORDING = "of the recording"

VERDICTS = (
    "overhead-bound", "compute-bound", "communication-bound", "copy-bound", "mixed", "CPU-only", "not known"
)  # fmt: skip

PARTS = ("compute", "communication", "copies", "cpu", "queued", "unlinked")
"""The parts of the judged time: `cpu` is idle time that is due to the CPU (`OF_THE_CPU`), `queued` includes
the time from one kernel to the next."""
PART_WORDS = {
    "compute": "compute",
    "communication": "communication while nothing computes",
    "copies": "copies while no kernel runs",
    "cpu": "waiting for the CPU",
    "queued": "idle time with work queued",
    "unlinked": "idle before work whose launch is not in the trace",
}
_NAMES = {"cpu": "overhead-bound", "communication": "communication-bound", "copies": "copy-bound"}


@dataclass(frozen=True, slots=True)
class CpuTime:
    """How the CPU's time in a part of a trace was spent. Times in ns."""

    span: int
    ops: int
    data_loading: int
    """Data loading while no other op ran."""
    communication: int
    """All communication, whatever ran beside it."""
    exposed_communication: int
    """Communication while no op ran and no data was loaded."""
    outside: int
    """`ops`, `data_loading`, `exposed_communication` and this add up to `span`."""
    threads: int
    """How many threads had ops."""
    thread_ops: int
    """The time in ops, summed over the threads."""
    top: str
    """The op with the most time of its own; "" for none. Safe to show."""
    top_self: int
    top_calls: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """A verdict and the numbers behind it."""

    verdict: str
    """One of `VERDICTS`."""
    busy_share: float | None
    """The busy share of the judged time, 0 to 1; None without device events."""
    launch_delay: int | None
    """The median launch delay, in ns; None if no device event has a launch in the trace."""
    reason: str
    """A sentence or two for people. Plain text."""
    communication_share: float | None = None
    """The share of the busy time, 0 to 1, with communication kernels and no other kernel. None without device
    events."""
    base: str = OF_RECORDING
    """What the shares are shares of, for sentences."""
    parts: tuple[int, ...] = ()
    """The judged time in ns by `PARTS`, over all devices. The sum is all of it."""
    causes: tuple[int, ...] = ()
    """The idle time in it by `CAUSES`, ns. Initialisation and the profiler have 0."""
    left_out: tuple[tuple[str, int], ...] = ()
    """What was taken out: ("lead-in", "in flight", "not recorded" or a cause, ns)."""
    cpu: CpuTime | None = None
    """For "CPU-only": how the CPU's time was spent."""

    @property
    def judged(self) -> int:
        """The time that the shares are of, ns."""
        return sum(self.parts)

    def share(self, part: str) -> float:
        """The share of one of `PARTS`, 0 to 1."""
        return self.parts[PARTS.index(part)] / self.judged if self.judged else 0.0

    @property
    def noticeably_left_out(self) -> bool:
        """Whether enough is left out to be visible in the numbers."""
        rest = sum(time for _, time in self.left_out)
        return rest >= SHOWS * (self.judged + rest) > 0

    @property
    def mostly_left_out(self) -> bool:
        """Whether less than half of the time counts."""
        return _mostly(self.left_out, self.judged)

    def of(self, judged: int | None = None) -> str:
        """What shares are shares of, for sentences: `base` or, if most does not count, how much of it does.
        `judged`: the judged time of one device."""
        return _share_of(self.base, self.judged if judged is None else judged, self.left_out)

    @property
    def idle(self) -> int:
        """The idle time in the judged time, ns."""
        return sum(self.causes)


def busy_text(busy_share: float) -> str:
    """A busy share with one decimal, `34.6%`; never rounded up to "100.0%"."""
    return percent(busy_share, 1)


def communication_text(verdict: Verdict) -> str:
    """`communication alone 76.3% of the busy time`; "" below `COMMUNICATION_SHARE`."""
    part = verdict.communication_share or 0
    return f"communication alone {busy_text(part)} of the busy time" if part >= COMMUNICATION_SHARE else ""


def _share_of(base: str, judged: int, left_out: tuple[tuple[str, int], ...]) -> str:
    """`of the steps`; if part of that does not count, `of the 1.85 ms of the steps that count`."""
    rest = sum(time for _, time in left_out)
    return f"of the {duration(judged)} {base} that count" if rest >= LEFT_OUT * (judged + rest) else base


def _mostly(left_out: tuple[tuple[str, int], ...], judged: int) -> bool:
    return sum(time for _, time in left_out) > judged > 0


def judge(
    time: I64 | Sequence[int] | None,
    launch_delay: int | None,
    base: str = OF_RECORDING,
    lead_in: I64 | Sequence[int] | None = None,
    devices: int = 1,
) -> Verdict:
    """The verdict on a trace or a part of it.

    `time`: by `COLUMNS`, ns, over all devices, without the lead-in; None without device events. `base`: what
    the shares are shares of. `lead_in`: the lead-in by `COLUMNS`, to be mentioned. `devices`: how many there
    are.
    """
    if time is None:
        return Verdict("not known", None, None, "There are no GPU events here.", base=base)
    values = dict(zip(COLUMNS, map(int, time), strict=True))
    busy = sum(values[part] for part in BUSY_PARTS)
    lead = (
        dict.fromkeys(COLUMNS, 0) if lead_in is None else dict(zip(COLUMNS, map(int, lead_in), strict=True))
    )
    out = [("lead-in", sum(lead.values()) - sum(lead[cause] for cause in NOT_THE_PROGRAMS))]
    out += [(cause, values[cause] + lead[cause]) for cause in _OUT]
    left_out = tuple((what, length) for what, length in out if length)
    causes = tuple(0 if cause in NOT_THE_PROGRAMS else values[cause] for cause in CAUSES)
    cpu = sum(values[cause] for cause in OF_THE_CPU)
    parts = (
        values["compute"], values["communication"], values["copies"], cpu,
        values["queued"] + values["back to back"], values["unlinked"],
    )  # fmt: skip
    judged = sum(parts)
    if sum(values[cause] for cause in (NOT_RECORDED, CAPTURED)) > judged:
        return Verdict("not known", None, launch_delay, _unknown(values, base), base=base, left_out=left_out)
    if not busy:
        return Verdict(
            "not known", 0.0, launch_delay, "The GPU runs nothing here.", None, base, parts, causes, left_out
        )
    shares = dict(zip(PARTS, (part / judged for part in parts), strict=True))
    if shares["compute"] >= COMPUTE_SHARE:
        word = "compute-bound"
    else:
        word = next((name for part, name in _NAMES.items() if shares[part] >= PART_SHARE), "mixed")
    back_to_back = 2 * values["back to back"] >= parts[PARTS.index("queued")]
    first = _mostly(left_out, judged)
    of = _share_of(base, judged, left_out)
    reason = _reason(word, shares, causes, judged, launch_delay, of, back_to_back, devices)
    if told := _not_counted(left_out, judged):
        most = _MOST.get(base, "Most of this")
        reason = f"{most} is not counted: {told}. {reason}" if first else f"{reason} Not counted: {told}."
    talked = values["communication"] / busy
    return Verdict(word, busy / judged, launch_delay, reason, talked, base, parts, causes, left_out)


def busy_shares(time: I64) -> F64:
    """The `busy_share` that `judge` finds for each row of times by `COLUMNS`, 0 to 1."""
    left_out = [COLUMNS.index(cause) for cause in NOT_THE_PROGRAMS]
    busy, judged = time[:, BUSY].sum(1), time.sum(1) - time[:, left_out].sum(1)
    return np.where(busy > 0, busy / np.maximum(judged, 1), 0.0)


def of_earlier_work(verdict: Verdict, part: float) -> Verdict:
    """The verdict if work from before the recording runs for this share (0 to 1) of the busy time."""
    if part < PART_SHARE or not verdict.busy_share:
        return verdict
    said = f"{busy_text(part)} of the busy time is work that was launched before the recording."
    return replace(verdict, reason=f"{verdict.reason} {said}")


def _reason(
    word: str, shares: dict[str, float], causes: tuple[int, ...], judged: int, delay: int | None, of: str,
    back_to_back: bool, devices: int,
) -> str:  # fmt: skip
    busy = sum(shares[part] for part in ("compute", "communication", "copies"))
    # The part may have both; mention the one that the words name.
    queued = causes[CAUSES.index("back to back" if back_to_back else "queued")] / judged
    said = shares | {"queued": queued}
    one = devices < 2
    it, its, others = ("it", "its", "ranks") if one else ("they", "their", "GPUs")
    who = "The GPU is" if one else f"Taken together, the {devices:,} GPUs are"
    reason = f"{who} busy {busy_text(busy)} {of}"
    words = PART_WORDS | ({"queued": "from one kernel to the next"} if back_to_back else {})
    if word == "compute-bound":
        reason += f": {it} {'sets' if one else 'set'} the pace, not the CPU."
    elif word == "overhead-bound":
        much = not back_to_back and queued >= MUCH_QUEUED
        reason += f"; for {busy_text(shares['cpu'])} {it} {'waits' if one else 'wait'} for the CPU. "
        reason += _meanwhile(causes, judged).replace("the GPU", "the GPU" if one else "a GPU")
        if delay is not None and delay < QUEUED_NS and not much:
            little = (
                "Hardly anything" if causes[CAUSES.index("queued")] >= SOME_QUEUED * judged else "Nothing"
            )
            reason += f" {little} is queued (launch to start {duration(delay)})."
        reason += (
            f" For {busy_text(queued)} {it} {'is' if one else 'are'} idle with work queued." if much else ""
        )
    elif word == "communication-bound":
        reason += (
            f": {busy_text(shares['communication'])} is communication (by name) while nothing computes, "
            f"which includes waiting for other {others}."
        )
        return reason
    elif word == "copy-bound":
        reason += f": {busy_text(shares['copies'])} is copies while no kernel runs."
    else:
        first, second = sorted(PARTS, key=lambda part: -said[part])[:2]
        reason += f". The largest part is {words[first]}, {busy_text(said[first])}"
        reason += f"; then {words[second]}, {busy_text(said[second])}" if said[second] else ""
        reason += "."
        if "communication" in (first, second) and shares["communication"]:
            return f"{reason} Communication is recognized by name, and includes waiting for other {others}."
    if shares["communication"] >= COMMUNICATION_SHARE * busy:
        reason += (
            f" {busy_text(shares['communication'] / busy)} of {its} busy time is communication (by name) "
            f"while nothing computes, which includes waiting for other {others}."
        )
    return reason


_CPU_IS = {
    "sync": "the CPU has waited for the GPU and has to launch again",
    "allocation": "the CPU allocates or frees memory",
    "dispatch": "the CPU is in PyTorch ops",
    "host": "the launching thread is in no recorded op",
    "launch": "the launch is on its way",
}


def _meanwhile(causes: tuple[int, ...], judged: int) -> str:
    """The largest of the CPU's causes, and the second if it is at least a tenth of the first."""
    of = sorted(((causes[CAUSES.index(cause)], cause) for cause in OF_THE_CPU), reverse=True)
    named = [of[0], *(one for one in of[1:2] if one[0] >= 0.1 * of[0][0])]
    told = ", or ".join(f"{_CPU_IS[cause]} ({cause} {busy_text(time / judged)})" for time, cause in named)
    return f"Meanwhile {told}."


_MOST = {
    OF_STEPS: "Most of the steps' time", OF_STEP: "Most of the step", OF_RECORDING: "Most of the recording"
}  # fmt: skip
_OUT = (IN_FLIGHT, NOT_RECORDED, CAPTURED, "initialisation", "profiler")
"""What is taken out before judging, beside the lead-in, in the order of `Verdict.left_out`."""
_LEFT_OUT = {
    "lead-in": "before the first GPU event of the first step",
    IN_FLIGHT: "at the beginning, with work queued and nothing recorded running",
    NOT_RECORDED: "in which work may have run that is not in the file",
    CAPTURED: "in which a CUDA graph was captured",
    "initialisation": "of initialisation",
    "profiler": "of the profiler's own work",
}


def _unknown(values: dict[str, int], base: str) -> str:
    """Why most of the time cannot be judged."""
    of = base.removeprefix("of ")
    captured, gone = (values[cause] / sum(values.values()) for cause in (CAPTURED, NOT_RECORDED))
    if captured > gone:
        said = "a CUDA graph is captured: what is launched meanwhile does not run."
        return f"For {busy_text(captured)} of {of} {said}"
    said = "it is not known what the GPU did: it may have run work that is not in the file."
    return f"For {busy_text(gone)} of {of} {said}"


def _not_counted(left_out: tuple[tuple[str, int], ...], judged: int) -> str:
    """What is left out, the longest first."""
    told = sorted(left_out, key=lambda one: -one[1])
    told = [(what, time) for what, time in told if time >= WORTH_SAYING * (judged + time)]
    return ", ".join(f"{duration(time)} {_LEFT_OUT[what]}" for what, time in told)
