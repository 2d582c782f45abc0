"""What the analyses cost on a large trace: a recorded one, repeated end to end in memory.

    python benchmarks/analysis.py [TRACE] [--events 1700000]

Prints CPU seconds, the median of three runs, beside the CPU seconds of sorting one column of the same
length (numpy's stable argsort of shuffled int64), so that runs on different machines can be compared by
their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec import structs

from tracetui.analysis.calls.averages import averages
from tracetui.analysis.calls.launches import find_launches
from tracetui.analysis.idle.causes import gap_causes
from tracetui.analysis.idle.gaps import find_gaps
from tracetui.analysis.steps.steps import summarize_steps
from tracetui.trace import Trace, load

DEFAULT = Path(__file__).parent.parent / "tests" / "data" / "llama_train.json.gz"
COLUMNS = ("duration", "name", "category", "kind", "depth", "implausible")
"""Columns that are alike in every copy."""


def repeat(trace: Trace, times: int) -> Trace:
    """The trace, `times` times one after the other, with ids of its own for each."""
    n = len(trace)
    low, high = trace.span
    lane = np.tile(trace.lane, times)
    copy = np.repeat(np.arange(times), n)
    start = np.tile(trace.start, times) + copy * (high - low + 1000)
    order = np.lexsort((start, lane))  # stable: longest first stays
    place = np.empty(n * times, np.int64)
    place[order] = np.arange(n * times)

    def column(values: np.ndarray) -> np.ndarray:
        return np.tile(values, times)[order]

    def link(values: np.ndarray) -> np.ndarray:
        index = np.tile(values.astype(np.int64), times)
        moved = place[np.maximum(index + copy * n, 0)]
        return np.where(index >= 0, moved, -1)[order].astype(np.int32)

    def ids(values: np.ndarray) -> np.ndarray:
        value = np.tile(values, times)
        return np.where(value > 0, value + copy * (int(values.max()) + 1), value)[order]

    lanes = tuple(structs.replace(x, first=x.first * times, last=x.last * times) for x in trace.lanes)
    return replace(
        trace,
        lanes=lanes,
        start=start[order],
        lane=lane[order],
        source=np.arange(n * times)[order],
        **{name: column(getattr(trace, name)) for name in COLUMNS},
        **{name: link(getattr(trace, name)) for name in ("parent", "launch", "op")},
        **{name: ids(getattr(trace, name)) for name in ("correlation", "external_id")},
    )


def cost(work: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description="What the analyses cost on a large trace.")
    parser.add_argument("trace", nargs="?", default=str(DEFAULT))
    parser.add_argument("--events", type=int, default=1_700_000)
    options = parser.parse_args()
    small = load(options.trace)
    trace = repeat(small, max(1, options.events // len(small)))
    shuffled = np.random.default_rng(0).permutation(trace.start)
    unit = cost(lambda: np.argsort(shuffled, kind="stable"))
    print(f"{len(trace):,} slices; sorting as many numbers: {unit:.2f} s")
    gaps = find_gaps(trace)
    rows: dict[str, Callable[[], object]] = {
        "averages": lambda: averages(trace),
        "gaps": lambda: find_gaps(trace),
        "causes": lambda: [gap_causes(trace, g) for g in gaps],
        "steps": lambda: summarize_steps(trace, gaps=gaps),
        "launches": lambda: find_launches(trace),
    }
    for name, work in rows.items():
        took = cost(work)
        print(f"{name:<12} {took:6.2f} s  {took / unit:5.1f} times the sort")


if __name__ == "__main__":
    main()
