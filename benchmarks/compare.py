"""Two traces of a million events, compared: the same program, a changed one, and one without steps.

    python benchmarks/compare.py [--events 1000000] [--repeat 3]

Both are made of the sample `train`, repeated; in the changed one, of every step, some ops are fused, some are
new, some copies are gone, and all times vary. Times are medians, beside that of loading one of them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from tracetui.analysis.part import Part
from tracetui.compare.compare import compare
from tracetui.trace import load

SAMPLE = Path(__file__).resolve().parent.parent / "sample_traces" / "train.json.gz"
SHIFT = 1 << 32
"""Between the ids of two repetitions."""
Event = dict[str, Any]


def repeated(times: int, changed: bool, steps: bool) -> list[Event]:
    """The events of the sample, `times` times one after the other."""
    events = json.loads(gzip.decompress(SAMPLE.read_bytes()))["traceEvents"]
    events = [
        e
        for e in events
        if e.get("ph") == "X" and e.get("cat") != "Trace" and e["name"] != "PyTorch Profiler (0)"
    ]
    first = min(float(e["ts"]) for e in events)
    length = max(float(e["ts"]) + float(e["dur"]) for e in events) - first + 100
    numbers = sorted(int(e["name"][13:]) for e in events if e["name"].startswith("ProfilerStep#"))
    per = max(numbers) - min(numbers) + 1 if numbers else 1
    rng, found = random.Random(3), []
    for i in range(times):
        for e in events:
            name, args = e["name"], dict(e.get("args", {}))
            if name.startswith("ProfilerStep#"):
                if not steps:
                    continue
                name = f"ProfilerStep#{int(name[13:]) + i * per}"
            for key in ("correlation", "External id"):
                if isinstance(args.get(key), int):
                    args[key] += i * SHIFT
            spread = 1.0
            if changed:
                spread = rng.uniform(0.97, 1.03)
                if name == "aten::view" and rng.random() < 0.3:
                    continue
                if "vectorized_elementwise" in name and rng.random() < 0.2:
                    name = f"triton_poi_fused_add_mul_{rng.randrange(9)}"
            ts, dur = float(e["ts"]) + i * length, float(e["dur"]) * (spread if e["cat"] == "kernel" else 1)
            found.append(e | {"name": name, "args": args, "ts": round(ts, 3), "dur": round(dur, 3)})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    one = len(repeated(1, False, True))
    times = max(1, round(args.events / one))
    print(f"{times * one:,} events a trace, {times} times the sample")
    with tempfile.TemporaryDirectory() as folder:
        for title, steps, changes in (
            ("the same program", True, (False, False)),
            ("a changed program", True, (False, True)),
            ("a changed program without steps", False, (False, True)),
        ):
            paths = [Path(folder) / "a.json", Path(folder) / "b.json"]
            for path, changed in zip(paths, changes, strict=True):
                path.write_text(json.dumps({"traceEvents": repeated(times, changed, steps)}))
            loading, comparing = [], []
            for _ in range(args.repeat):
                begin = time.perf_counter()
                traces = [load(path) for path in paths]
                loading.append((time.perf_counter() - begin) / 2)
                begin = time.perf_counter()
                found = compare(*map(Part, traces))
                comparing.append(time.perf_counter() - begin)
            matched = len(found.work.a) + len(found.calls.a)
            took, load_one = statistics.median(comparing), statistics.median(loading)
            what = f"{matched:,} events matched, {len(found.explanations)} explanations"
            print(f"{title:34} {took:6.2f} s (loading one: {load_one:.2f} s), {what}")


if __name__ == "__main__":
    main()
