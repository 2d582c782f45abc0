"""What a file gets of a pane's table: numbers as they are, the unit in their field's name. Pure functions.

The fields are named as in `tracetui table --json` and its kind; lists are spread over fields, so that every
record is flat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracetui.analysis.activity import SmallOps
from tracetui.analysis.averages import Averages
from tracetui.analysis.causes import CAUSES, Causes
from tracetui.analysis.findings import Finding
from tracetui.analysis.gap_list import GapList
from tracetui.analysis.memory import MemoryUse
from tracetui.analysis.scope import find_steps
from tracetui.analysis.steps import StepRow
from tracetui.report.averages import averages_json
from tracetui.report.findings import findings_json
from tracetui.report.jsonable import us
from tracetui.report.steps import step_json
from tracetui.trace.model import I64, Trace

Record = dict[str, Any]


def averages_records(averages: Averages, order: I64, memory: MemoryUse | None) -> list[Record]:
    """Rows of the averages. Shares are those of all self time, from 0 to 1; null where there is none."""
    records = averages_json(averages, order.tolist(), memory)
    for record, row in zip(records, order.tolist(), strict=True):
        own = averages.self_cpu[row], averages.total_self_cpu
        on_device = averages.self_device[row], averages.total_self_device
        calls = max(1, record["calls"])
        record["self_cpu_share"], record["self_device_share"] = _share(*own), _share(*on_device)
        record["cpu_average_us"] = us(int(averages.cpu_total[row]) / calls)
        record["device_average_us"] = us(int(averages.device_total[row]) / calls)
    return records


def _share(part: int, whole: int) -> float | None:
    return int(part) / int(whole) if whole else None


def gaps_records(
    trace: Trace, gaps: GapList, causes: Causes | None, small: SmallOps | None, order: I64
) -> list[Record]:
    """Gaps; without what lies in the causes as long as they are not known yet."""
    idle = {d.device: d.idle for d in gaps.devices}
    number = find_steps(trace).number

    def name(event: int) -> str | None:
        return trace.name_of(event) if event >= 0 else None

    def record(row: int) -> Record:
        device, duration = int(gaps.device[row]), int(gaps.duration[row])
        found: Record = {
            "device": device,
            "start_ns": int(gaps.start[row]),
            "duration_ns": duration,
            "share_of_idle": _share(duration, idle[device]),
            "after": name(int(gaps.before[row])),
            "before": name(int(gaps.after[row])),
        }
        if causes is not None and small is not None:
            step, most = int(causes.step[row]), int(small.name[row])
            found |= {
                "cause": CAUSES[int(causes.cause[row])],
                "launch": name(int(causes.launch[row])),
                "op": name(int(causes.op[row])),
                "step": int(number[step]) if step >= 0 else None,
                "cpu": name(int(causes.activity[row])),
                "cpu_ops": int(small.count[row]),
                "cpu_most": trace.names[most] if most >= 0 else None,
            }
        return found

    return [record(row) for row in order.tolist()]


def steps_records(rows: Sequence[StepRow], order: I64) -> list[Record]:
    """Steps; the idle time of every cause in a field of its own."""

    def record(row: StepRow) -> Record:
        found = {**step_json(row), "busy_share": row.busy_share}  # as in the table, not as in the verdict
        by_cause = {t.cause: t.duration for t in row.idle_by_cause}
        spread = {f"idle_{cause}_ns": by_cause.get(cause, 0) for cause in CAUSES}
        return {k: v for key, value in found.items() for k, v in _spread(key, value, spread)}

    return [record(rows[row]) for row in order.tolist()]


def _spread(key: str, value: Any, spread: Record) -> list[tuple[str, Any]]:
    return list(spread.items()) if key == "idle_by_cause" else [(key, value)]


def findings_records(trace: Trace, findings: Sequence[Finding], shown: I64) -> list[Record]:
    """One record for each finding that a shown line belongs to, with the first piece of its evidence."""
    _, first = np.unique(shown, return_index=True)
    wanted = [findings[int(shown[i])] for i in np.sort(first)]

    def flat(found: Record) -> Record:
        told = {key: found[key] for key in ("rule", "severity", "title", "text", "advice")}
        evidence = found["evidence"]
        first = {f"evidence_{key}": evidence[0][key] for key in ("name", "start_ns", "duration_ns")}
        return {**told, "evidence": len(evidence), **first}

    return [flat(found) for found in findings_json(trace, wanted)]
