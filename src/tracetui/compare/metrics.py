"""The numbers of a step on both sides, and how much of their difference is noise or the machine's speed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tracetui.analysis.calls.averages import memory_of
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.select import has_kind, plausible
from tracetui.compare.context import Speed
from tracetui.compare.model import Metric
from tracetui.compare.sides import Side, paced_by_device
from tracetui.compare.unrecorded import nothing, unrecorded_work
from tracetui.core.columns import counted
from tracetui.core.copying import replace
from tracetui.trace.memory import RECORD, named_instants
from tracetui.trace.model import DEVICE_WORK, F64, I64, Kind, Trace
from tracetui.trace.unknown import idle_known
from tracetui.trace.unrecorded import launched_without

MACHINE_SHARE = 0.02
"""If steps vary at all, medians may differ by this share without that being a difference."""

FEW, APART = 3, 2
"""It is not noise if, with at least `FEW` steps on each side, every step of one has `APART` times what any of
the other has,"""
SURE = 4
"""nor if, with at least this many steps, every step of one side has more than any of the other, leaving out
the machine."""
MOST_READ = 1 << 12
"""The most copies whose sizes are read from the files."""

ALIKE = 0.05
"""The busy share and the step's time changed inversely if their product changed by less than this."""
OVERLAP = 0.02
"""Share of a step: if the time that copies run alone changes by this much, the busy share shows it."""


def metrics_of(a: Side, b: Side, speed: Speed) -> dict[str, Metric]:
    """The metrics, by `METRICS`."""

    def of(
        values: Callable[[Side], F64 | I64],
        explained: Callable[[float], float] = lambda _: 0.0,
        slack: float = 0.0,
    ) -> Metric:
        """A metric; not known if a side has no values."""
        return _metric(values(a), values(b), lambda left, _: explained(left), slack)

    def rows(field: str, known: bool) -> Callable[[Side], I64]:
        return lambda side: np.array([getattr(row, field) for row in side.rows if known], dtype=np.int64)

    def drifted(left: float) -> float:
        return left * (speed.device_drift - 1)

    slack = 0.0 if speed.exact else MACHINE_SHARE
    whole = not (a.calls_only or b.calls_only)
    known = whole and idle_known_of(a, b)
    # Where runtime calls are recorded, their time is not part of their ops' self time, so both sides must
    # have them or neither.
    alike = not a.work_only and links_of(a, b)
    alike = alike and has_kind(a.trace, Kind.RUNTIME) == has_kind(b.trace, Kind.RUNTIME)
    metrics = {
        "step_ns": of(lambda side: side.times, lambda left: _pace(a, b, speed.path, left, drifted), slack),
        "device_ns": of(lambda side: side.work_time[: side.rounds if whole else 0], drifted, slack),
        "compute_ns": of(rows("compute", known), drifted, slack),
        "communication_ns": of(rows("exposed_communication", known), drifted, slack),
        "copies_ns": of(rows("exposed_copy", known), drifted, slack),
        "launches": of(_launches(a, b, whole)),
        "kernels": of(rows("kernels", whole)),
        "copied_bytes": of(_copied),
        **{f"peak_{what}_bytes": _peak_metric(a, b, what) for what in ("allocated", "reserved")},
        "cpu_op_ns": of(
            lambda side: side.op_time[: side.rounds if alike else 0],
            lambda left: left * (speed.cpu_drift - 1),
            slack,
        ),
    }
    step, work = metrics["step_ns"], metrics["device_ns"]
    if paced_by_device(a) and paced_by_device(b) and not work.within_noise:
        # If the device sets the pace, steps that vary on the CPU must not hide a difference in the device's
        # work.
        against = (step.change or 0) * (work.change or 0) <= 0
        metrics["step_ns"] = replace(step, within_noise=step.within_noise and against)
    if known and len(a.busy_shares) and len(b.busy_shares):
        busy = of(lambda side: side.busy_shares)
        # It is not noise either if the idle shares are far apart.
        noise = busy.within_noise and of(lambda side: 1 - side.busy_shares).within_noise
        metrics["busy_share"] = replace(busy, within_noise=noise)
        metrics["busy_share"] = replace(busy, within_noise=busy_is_noise(metrics))
    else:
        metrics["busy_share"] = Metric(None, None, True)
    return metrics


def _launches(a: Side, b: Side, whole: bool) -> Callable[[Side], I64]:
    """How many calls launch work in each round; empty where that is not known. `whole`: nothing of the work
    is left out of the comparison."""
    gone = a.trace.cut_off or b.trace.cut_off or bool(nothing(a, b) or unrecorded_work(a, b))
    if (gone and not whole) or not (linked(a.trace) and linked(b.trace)):
        return lambda side: side.steps[:0]
    if not (a.lost or b.lost):
        return lambda side: np.array([row.launches for row in side.rows], dtype=np.int64)

    def on_the_cpu(side: Side) -> I64:
        # What the profiler lost was launched, too: count calls that may launch, with and without work.
        calls, *_ = launched_without(side.trace)
        of = side.round_of(calls)
        return counted(of[of >= 0], side.rounds)

    return on_the_cpu


def busy_is_noise(metrics: Mapping[str, Metric]) -> bool:
    """Whether the difference in the busy share is noise, judging by the step and its work. It is if both of
    these differ only by noise, unless copies run alone for a different time. It is not if a shorter step has
    more work, a longer one has less, or steps of different length have the same work."""
    busy, step, work = (metrics[name] for name in ("busy_share", "step_ns", "device_ns"))
    copies = metrics["copies_ns"]
    overlap = not copies.within_noise and abs(copies.change or 0) >= OVERLAP * (step.a or 0)
    if overlap and step.within_noise and work.within_noise:
        return busy.within_noise
    if work.within_noise and not step.within_noise and busy.ratio and step.ratio:
        # The same work in a different time: the busy share differs too, if that alone accounts for it.
        return busy.within_noise and not abs(busy.ratio * step.ratio - 1) < ALIKE
    if busy.a is None or step.within_noise or work.within_noise:
        return busy.within_noise or (step.within_noise and work.within_noise)
    return busy.within_noise and (step.change or 0) * (work.change or 0) >= 0


def linked(trace: Trace) -> bool:
    """Whether the trace shows what launched some of its device work, or has no device work."""
    work = plausible(trace, *DEVICE_WORK)
    return not len(work) or bool((trace.launch[work] >= 0).any())


def idle_known_of(a: Side, b: Side) -> bool:
    """Whether both recordings show when their devices were idle."""
    return idle_known(a.trace) and idle_known(b.trace)


def links_of(a: Side, b: Side) -> bool:
    """Whether both show what launched the device's work, or neither does. A trace without device work counts
    as showing it."""
    return linked(a.trace) == linked(b.trace)


def _metric(a: F64 | I64, b: F64 | I64, machine: Callable[[float, float], float], slack: float) -> Metric:
    """The medians of the values of the two sides' rounds. `machine`: how much of the change from one to the
    other the machine explains; `slack`: the share by which they may differ anyway."""
    one, other = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if not len(one) or not len(other):
        return Metric(None, None, True)
    left, right = float(np.median(one)), float(np.median(other))
    # If every step of one side has some of it and no step of the other does, the difference is real, however
    # much it varies.
    only = np.all(one > 0) != np.all(other > 0) and np.any(one) != np.any(other)
    far = min(len(one), len(other)) >= FEW and APART * min(one.max(), other.max()) < max(
        one.min(), other.min()
    )
    explained = machine(left, right)
    above, below = other.min() - one.max() - explained, one.min() - other.max() + explained
    sure = min(len(one), len(other)) >= SURE and max(above, below) > 0
    spread = 0.0 if only or far or sure else max(_vary(one), _vary(other))
    return Metric(
        left, right, abs(right - left - explained) <= max(spread, slack * max(left, right)),
        (float(one.min()), float(one.max())), (float(other.min()), float(other.max())), explained,
    )  # fmt: skip


def _pace(a: Side, b: Side, path: float, step: float, drifted: Callable[[float], float]) -> float:
    """How much longer a step takes because the machine was slower: on the device if that sets the pace, else
    on the CPU."""
    if paced_by_device(a) and paced_by_device(b):
        return drifted(step)
    return path


def _vary(values: F64) -> float:
    """Three standard errors of the median of these values, estimated from their median deviation."""
    away = float(np.median(np.abs(values - np.median(values))))
    return 3 * 1.2533 * 1.4826 * away / float(np.sqrt(len(values)))


def _copied(side: Side) -> I64:
    """The bytes that the copies of each round move; empty if there are too many copies to read."""
    trace = side.trace
    copies = trace.kind[side.work] == Kind.MEMCPY
    if side.calls_only or np.count_nonzero(copies) > MOST_READ:
        return np.zeros(0, dtype=np.int64)
    sizes = [args.get("bytes") for args in trace.args_of(side.work[copies])]
    known = np.array([n if isinstance(n, int) and 0 <= n < 1 << 50 else 0 for n in sizes], dtype=np.int64)
    return sum_into(side.work_round[copies], known, side.rounds)


def _peak_metric(a: Side, b: Side, what: str) -> Metric:
    # The sizes are read from the files, so only do it if both have them.
    if not all(len(named_instants(side.trace, RECORD)) for side in (a, b)):
        return Metric(None, None, True)
    return _metric(_peaks(a, what), _peaks(b, what), lambda *_: 0.0, 0.0)


def _peaks(side: Side, what: str) -> I64:
    """The most bytes "allocated" or "reserved" in each round, on the GPU with the most; empty if some round
    has no record before its end."""
    records = memory_of(side.part)
    if records is None:
        return np.zeros(0, dtype=np.int64)
    total: I64 = getattr(records, what)
    found = np.full(side.rounds, -1, dtype=np.int64)
    for device in np.unique(records.where[records.where >= 0]).tolist():
        at = np.flatnonzero((records.where == device) & (total >= 0))
        # What was allocated when a round began counts too.
        low, high = (np.searchsorted(records.time[at], ends) for ends in side.windows)
        for n, (first, last) in enumerate(zip(np.maximum(low - 1, 0).tolist(), high.tolist(), strict=True)):
            found[n] = max(found[n], int(total[at[first:last]].max(initial=-1)))
    return found if (found >= 0).all() else found[:0]


def idle_of(a: Side, b: Side, machine: float) -> dict[str, Metric]:
    """Idle time by cause, the largest first. `machine`: how much it adds to a step, ns."""

    def times(side: Side, cause: str) -> I64:
        return np.array([one.get(cause, 0) for one in side.idle], np.int64)

    mid = {cause: [float(np.median(times(side, cause))) for side in (a, b)] for cause in CAUSES}
    wholes = [sum(one) or 1.0 for one in zip(*mid.values(), strict=True)]
    sign = 1 if machine > 0 else -1
    # How much each cause moves in the machine's direction, scaled so that the sum is at most what the machine
    # adds.
    along = {cause: max(sign * (right - left), 0.0) for cause, (left, right) in mid.items()}
    scale = min(1.0, abs(machine) / (sum(along.values()) or 1.0))

    def explained(cause: str) -> float:
        # Idle time grows by more than its share: less of it is hidden by work alongside.
        share = min(2 * time / whole for time, whole in zip(mid[cause], wholes, strict=True))
        return sign * min(scale * along[cause], abs(machine) * share)

    found = {
        cause: _metric(times(a, cause), times(b, cause), lambda *_, of=cause: explained(of), MACHINE_SHARE)
        for cause in CAUSES
    }
    known = [(cause, one) for cause, one in found.items() if one.a or one.b]
    return dict(sorted(known, key=lambda one: -max(one[1].a or 0, one[1].b or 0)))
