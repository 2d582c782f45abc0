"""Limits on what a change may cost, for a gate: how much a metric may grow from A to B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tracetui.compare.model import Comparison
from tracetui.core.units import percent
from tracetui.views.compare import change_text, value_text
from tracetui.views.lines import Span

METRICS = {
    "step": "step_ns",
    "device": "device_ns",
    "compute": "compute_ns",
    "communication": "communication_ns",
    "copies": "copies_ns",
    "launches": "launches",
    "kernels": "kernels",
    "bytes": "copied_bytes",
    "cpu-op": "cpu_op_ns",
}
"""What a limit can be on, by the names of the command line."""
WALL_TIME = ("step", "cpu-op")
"""Those that a busy machine changes."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How much larger a metric of B may be."""

    name: str
    """One of `METRICS`."""
    most: float
    """A share of A's if `relative`; else ns, or a count."""
    relative: bool

    @property
    def text(self) -> str:
        if self.relative:
            return f"+{100 * self.most:g}%"
        return f"+{value_text(METRICS[self.name], self.most)}" if self.most else "0"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the change of a metric compares with its limit."""

    limit: Limit
    a: float | None
    b: float | None
    machine: float
    """What of the change the machine's speed explains."""
    counted: float | None
    """The part of the change that counts: without the machine's, and 0 if the rest is noise. None if
    unknown."""
    over: bool
    """Whether it is above the limit."""

    @property
    def change(self) -> float | None:
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def excused(self) -> bool:
        """Whether it is above the limit only with the machine's part and noise."""
        return not self.over and self.change is not None and _over(self.limit, self.a or 0.0, self.change)


def check_limits(
    comparison: Comparison, limits: Sequence[Limit], strict: bool = False
) -> tuple[Outcome, ...]:
    """Each limit against the comparison. What a slower machine explains, and what lies within noise, does
    not count, unless `strict`. A metric that is not known is over its limit."""
    return tuple(_check(comparison, limit, strict) for limit in limits)


def _check(comparison: Comparison, limit: Limit, strict: bool) -> Outcome:
    metric = comparison.metrics[METRICS[limit.name]]
    if metric.a is None or metric.change is None:
        return Outcome(limit, metric.a, metric.b, 0.0, None, True)
    if (rounds := comparison.paired) is not None and limit.name == "step":  # in a round, the machine cancels
        counted = rounds.median if strict or rounds.clear else 0.0
        over = _over(limit, metric.a, counted)
        return Outcome(limit, metric.a, metric.a + rounds.median, 0.0, counted, over)
    # A slower machine excuses. A faster one accuses nobody: what it hides is an estimate.
    excused = max(0.0, metric.machine)
    counted = metric.change if strict else 0.0 if metric.within_noise else metric.change - excused
    return Outcome(limit, metric.a, metric.b, metric.machine, counted, _over(limit, metric.a, counted))


def _over(limit: Limit, a: float, change: float) -> bool:
    return change > (limit.most * a if limit.relative else limit.most)


def _grown(outcome: Outcome, change: float) -> str:
    """A change as the limit has it: a share, or a difference."""
    if not outcome.limit.relative:
        return change_text(METRICS[outcome.limit.name], change) if change else "0"
    if not outcome.a:
        return "from 0" if change else "0%"
    if not change:
        return "0%"
    return f"{'-' if change < 0 else '+'}{percent(abs(change) / outcome.a, 1)}"


def failure(outcome: Outcome) -> str:
    """One line on a limit that was passed."""
    limit, key = outcome.limit, METRICS[outcome.limit.name]
    if outcome.change is None or outcome.counted is None:
        return f"{limit.name} is not known, so it is not within its limit of {limit.text}"
    values = f"{value_text(key, outcome.b)} instead of {value_text(key, outcome.a)}"
    text = f"{limit.name} {_grown(outcome, outcome.counted)}, over its limit of {limit.text}: {values}"
    if outcome.counted != outcome.change:
        text += f" ({_grown(outcome, outcome.change)} with what the machine's speed explains)"
    return text


def limits_rows(outcomes: Sequence[Outcome]) -> list[list[str | Span]]:
    """A row for each limit: metric, change, limit, what became of it."""
    rows: list[list[str | Span]] = []
    for one in outcomes:
        grown = "not known" if one.change is None else _grown(one, one.change)
        rows.append([one.limit.name, grown, f"limit {one.limit.text}", _word(one)])
    return rows


def _word(one: Outcome) -> Span:
    if one.over:
        adjusted = one.counted is not None and one.counted != one.change
        more = f": {_grown(one, one.counted or 0.0)} but for the machine" if adjusted else ""
        return f"over{more}", "bad"
    return ("not counted: the machine, noise", "warn") if one.excused else ("within", "good")


def wall_time_note(outcomes: Sequence[Outcome]) -> str:
    """A warning about limits on wall times; "" if there are none."""
    names = list(dict.fromkeys(one.limit.name for one in outcomes if one.limit.name in WALL_TIME))
    if not names:
        return ""
    are = "is a wall time" if len(names) == 1 else "are wall times"
    return (
        f"{' and '.join(names)} {are}, which a busy machine changes by itself: limits on device, launches "
        "and kernels are steadier"
    )


def limits_json(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One object per limit."""
    return [
        {
            "metric": METRICS[one.limit.name],
            "limit": one.limit.most,
            "relative": one.limit.relative,
            "change": one.change,
            "machine": one.machine,
            "counted": one.counted,
            "over": one.over,
            "wall_time": one.limit.name in WALL_TIME,
        }
        for one in outcomes
    ]
