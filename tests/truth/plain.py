"""A plain, slow reading of a trace, from nothing but its JSON: what the tool's numbers are held to.

Nothing here knows the tool. Times are integer nanoseconds as the file has them.
"""

import gzip
import json
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

DEVICE_WORK = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}
CALLS = {"cuda_runtime", "cuda_driver", "Runtime"}
OPS = {"cpu_op", "Operator"}
NO_OPS = ("ProfilerStep#", "enumerate(", "Optimizer.")
"""Annotations, which old files count among the operators."""

Spans = list[tuple[int, int]]


def union(spans: Spans) -> Spans:
    """The time that any of the spans covers, as spans that neither touch nor overlap, in order."""
    out: Spans = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def covered(spans: Spans, low: int, high: int) -> int:
    """How much of [low, high) the spans of a union cover."""
    total, at = 0, max(0, bisect_right(spans, (low, low)) - 1)
    while at < len(spans) and spans[at][0] < high:
        total += max(0, min(spans[at][1], high) - max(spans[at][0], low))
        at += 1
    return total


@dataclass(frozen=True)
class Raw:
    """The events that matter here.

    Attributes:
        busy: per device, the union of its kernels, copies and memsets.
        starts: per device and start, the correlations of those that start then.
        calls: the (start, thread) of the runtime call of each correlation.
        ops: per thread, the union of its ops.
    """

    busy: dict[str, Spans]
    starts: dict[tuple[str, int], list[Any]]
    calls: dict[Any, tuple[int, Any]]
    ops: dict[Any, Spans]

    def before_launch(self, device: object, begin: int, end: int) -> list[tuple[int, int]]:
        """What the launching thread did in the gap [begin, end) before the launch of the event that ends it.

        Returns (ns outside any op, ns in ops) for each event that starts then; (0, 0) for one without launch.
        """
        readings = []
        for correlation in self.starts.get((str(device), end), []):
            launch, thread = self.calls.get(correlation, (begin, None))
            until = max(begin, min(launch, end))
            inside = covered(self.ops.get(thread, []), begin, until)
            readings.append((until - begin - inside, inside))
        return readings


@lru_cache(maxsize=2)
def read(path: Path) -> Raw:
    """Read a sound trace of Kineto's, gzipped or not."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace")
    whole = json.loads(text, parse_float=Decimal, strict=False)
    events = whole["traceEvents"] if isinstance(whole, dict) else whole
    wanted = DEVICE_WORK | CALLS | OPS
    work, starts, calls, ops = defaultdict(list), defaultdict(list), {}, defaultdict(list)
    for event in events:
        if event.get("ph") != "X" or event.get("cat") not in wanted:
            continue
        start = int(Decimal(event["ts"]) * 1000)
        if start == 0 and event.get("dur") == 0:  # its time was lost
            continue
        end = start + int(Decimal(event.get("dur", 0)) * 1000)
        args, thread = event.get("args") or {}, (event["pid"], event["tid"])
        correlation = args.get("correlation")
        if event["cat"] in DEVICE_WORK:
            device = str(args.get("device", event["pid"]))
            work[device].append((start, end))
            starts[device, start].append(correlation)
        elif event["cat"] in OPS:
            if not event["name"].startswith(NO_OPS):
                ops[thread].append((start, end))
        elif correlation:
            calls.setdefault(correlation, (start, thread))
    busy, inside = ({key: union(spans) for key, spans in of.items()} for of in (work, ops))
    own = owners(events, calls, inside)
    calls = {key: (start, own.get(thread, thread)) for key, (start, thread) in calls.items()}
    return Raw(busy, dict(starts), calls, inside)


def owners(
    events: list[dict[str, Any]], calls: dict[Any, tuple[int, Any]], ops: dict[Any, Spans]
) -> dict[Any, Any]:
    """Whose the calls of a thread are that Cuspy has numbered otherwise: their lane's name is its number
    alone, it has no ops, and 19 of 20 calls begin in the ops of a thread that has no calls."""
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    threads = {thread for _, thread in calls.values()}
    found = {}
    for lost in threads - ops.keys():
        if named.get(lost, "").lstrip("thread -").isdigit():
            mine = [start for start, thread in calls.values() if thread == lost]
            for other in ops.keys() - threads:
                if 20 * sum(covered(ops[other], at, at + 1) for at in mine) >= 19 * len(mine):
                    found[lost] = other
    return found
