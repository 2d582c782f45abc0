"""Recorded traces with events changed at random, from a fixed seed: no analysis fails, and all sums still
add up."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.recorded import load

from tracetui.analysis.calls.averages import averages
from tracetui.analysis.calls.calls import build_calls
from tracetui.analysis.calls.groups import GROUPS
from tracetui.analysis.calls.launches import find_launches, short_kernels
from tracetui.analysis.calls.pytorch_times import pytorch_times
from tracetui.analysis.idle.causes import cause_totals, gap_causes, lead_in_causes
from tracetui.analysis.idle.gaps import find_gaps
from tracetui.analysis.part import Part
from tracetui.analysis.steps.steps import summarize_steps
from tracetui.trace import DEVICE_WORK, Trace
from tracetui.trace.unknown import idle_known
from tracetui.views.gaps_text import gaps_answer, gaps_json
from tracetui.views.jsonable import dumps
from tracetui.views.pytorch_table import pytorch_table, sort_rows
from tracetui.views.summary import summary_answer

DATA = Path(__file__).parent.parent / "data"
SOURCES = ("matmul_add_64_nosched_20", "mlp_compile", "matmul_add_4096_warm_eager")
CATEGORIES = (
    "cpu_op", "user_annotation", "kernel", "gpu_memcpy", "cuda_runtime", "overhead", "cuda_sync", "x", ""
)  # fmt: skip


def mutate(events: list[dict[str, Any]], chance: random.Random) -> list[dict[str, Any]]:
    result = []
    for event in events:
        event = dict(event)
        args = event["args"] = dict(event.get("args") or {})
        match chance.randrange(40):
            case 0:
                continue
            case 1:
                result.append(event)
            case 2:
                event["ts"] = float(event.get("ts", 0)) + chance.uniform(-1e3, 1e3)
            case 3:
                event["dur"] = chance.choice(
                    [0, -1, 1e15, 0.0005, float(event.get("dur", 0)) * 3, "12", None]
                )
            case 4:
                event["tid"] = chance.choice([0, 7, 8, "stream 9", -1, 426])
            case 5:
                event["pid"] = chance.choice([0, 1, 426, "Spans", ""])
            case 6:
                event["cat"] = chance.choice(CATEGORIES)
            case 7:
                args["correlation"] = chance.choice([0, -1, 368, 2**62, "a", None])
            case 8:
                args["External id"] = chance.choice([0, -5, 1025, 1028, 2**63 - 1, 1.5])
            case 9:
                event["name"] = chance.choice(
                    ["ProfilerStep#3", "ProfilerStep#", "aten::mm", "", "cudaFree", "nccl"]
                )
            case 10:
                event.pop("ts", None)
        result.append(event)
    if chance.random() < 0.3:
        chance.shuffle(result)
    return result


def check(trace: Trace) -> None:
    calls = build_calls(trace)
    for group in GROUPS:
        table = averages(trace, group=group, calls=calls)
        assert int(table.calls.sum()) == int((table.row_of >= 0).sum()) + table.calls[table.first < 0].sum()
        if group != "name":
            continue
        times = pytorch_times(trace, calls, table)
        np.testing.assert_allclose(times.cpu_total * 1e3, table.cpu_total, atol=1, rtol=1e-9)
        np.testing.assert_allclose(times.self_device * 1e3, table.self_device, atol=1, rtol=1e-9)
        pytorch_table(table, times, sort_rows(table, times, "self_cpu_time_total"), fit=80)
        # What calls spend in themselves and in their children is what the outermost spend.
        outermost = (calls.cpu_parent < 0) & ~calls.removed
        assert table.total_self_cpu == int(trace.duration[calls.cpu[outermost]].sum())
        assert int(calls.self_device.sum()) == int(calls.device_total[outermost].sum())
    work = trace.is_kind(*DEVICE_WORK) & ~trace.implausible
    found = find_gaps(trace)
    assert sum(g.events for g in found) == (int(work.sum()) if idle_known(trace) else 0)
    for gaps in found:
        causes = gap_causes(trace, gaps)
        assert sum(t.duration for t in cause_totals(causes)) == gaps.idle == int(gaps.duration.sum())
        lead_in_causes(trace, [gaps])
    steps = summarize_steps(trace)
    for name in ("busy", "idle", "compute", "copy", "set", "launches", "kernels", "copies"):
        parts = [getattr(row, name) for row in (*steps.rows, steps.outside)]
        assert sum(parts) == getattr(steps.whole, name), name
    short_kernels(trace, find_launches(trace))
    results = Part(trace)
    summary = summary_answer(results)
    json.loads(dumps(summary.data()))
    assert all(sum(len(t) for t, _ in line) <= 90 for line in summary.lines(80))
    summary.markdown()
    json.loads(dumps(gaps_json(results)))
    gaps_answer(results).lines(80)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("seed", range(12))
def test_mutations(tmp_path, source, seed):
    whole = json.loads(gzip.decompress((DATA / f"{source}.json.gz").read_bytes()))
    chance = random.Random(f"{source} {seed}")
    whole["traceEvents"] = mutate(whole["traceEvents"], chance)
    path = tmp_path / "mutated.json"
    path.write_text(json.dumps(whole))
    check(load(path))


@pytest.mark.parametrize("source", SOURCES)
def test_without_mutations(source):
    check(load(DATA / f"{source}.json.gz"))
