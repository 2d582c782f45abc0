"""How well a replay reproduces recordings, and what it costs.

    python benchmarks/replay.py TRACE...

One line per trace with steps: the median step as it was measured; how far the median of the replayed steps is
from it, and the step that is furthest from its own measurement; the three constants, in microseconds, from
the recording; how many of the device events start as they were measured, since nothing that is known explains
it; and the milliseconds that the graph, and then all worths, take beyond the other analyses.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from tracetui.analysis.calls.calls import outermost_ops_of
from tracetui.analysis.idle.split import split_of
from tracetui.analysis.part import Part
from tracetui.analysis.steps.steps import steps_of
from tracetui.core.errors import TraceError
from tracetui.replay.graph import graph_of
from tracetui.replay.scenario import replay
from tracetui.replay.worths import worths
from tracetui.trace import load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("trace", nargs="+")
    errors = []
    print(f"{'trace':44} steps  step us    median   worst  latency  gap  return  as measured     ms  muted")
    for path in parser.parse_args().trace:
        try:
            part = Part(load(path))
        except TraceError:
            continue
        for fact in (steps_of, split_of, outermost_ops_of):
            fact(part)
        begun = time.perf_counter()
        graph = graph_of(part)
        built = time.perf_counter()
        found = worths(part)
        ranked = time.perf_counter()
        if not graph.by_steps:
            continue
        measured = np.diff(graph.measured[graph.marks])
        worst = float(np.abs(replay(graph).length / measured - 1).max())
        errors.append(abs(found.reproduction_error))
        name = "/".join(Path(path).parts[-2:])[-44:]
        constants = (one.value / 1000 for one in (graph.latency, graph.gap, graph.back))
        kept = f"{graph.unexplained}/{int((graph.nodes.length > 0).sum())}"
        print(
            f"{name:44} {found.steps:5} {found.step_ns / 1000:9.1f} {100 * found.reproduction_error:7.3f}% "
            f"{100 * worst:6.3f}%  " + "  ".join(f"{one:5.2f}" for one in constants) + f" {kept:>12} "
            f"{1000 * (built - begun):4.0f}+{1000 * (ranked - built):.0f}  {found.muted or ''}"
        )
    if errors:
        middle, most, worst = np.percentile(errors, (50, 90, 100))
        print(f"{len(errors)} traces: median {middle:.3%}, 90th percentile {most:.3%}, most {worst:.3%}")


if __name__ == "__main__":
    main()
