"""`load`: a file becomes a Trace. (Whole file at once, for now.)"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from tracetui.trace.model import (
    CATEGORY_KINDS,
    NO_ID,
    Counters,
    Instants,
    Kind,
    Lane,
    Notice,
    Process,
    Progress,
    Trace,
    TraceError,
    TraceInfo,
)
from tracetui.trace.text import plain


class _Memory:
    def __init__(self, events: list[dict[str, Any]]) -> None:
        self.events = events

    def read(self, sources: Sequence[int]) -> list[dict[str, Any]]:
        return [self.events[s] for s in sources]


def _ns(value: Any) -> int:
    return round(float(value) * 1000)


def load(path: str | Path, progress: Progress | None = None) -> Trace:
    """Read a trace. Raises TraceError (one line) for what cannot be opened as one, OSError never."""
    try:
        raw = sys.stdin.buffer.read() if str(path) == "-" else Path(path).read_bytes()
        size = len(raw)
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
    except OSError as error:
        raise TraceError(f"{plain(str(path))}: {error.strerror or 'cannot be read'}") from None
    notices = []
    try:
        data = orjson.loads(raw)
    except orjson.JSONDecodeError:
        try:
            data = orjson.loads(raw.rstrip().rstrip(b",") + b"]")
            notices.append(Notice("truncated", "lost", 1, len(raw), "the file ends in the middle"))
        except orjson.JSONDecodeError as error:
            raise TraceError(f"{plain(str(path))}: is no trace ({error})") from None
    top = data if isinstance(data, dict) else {}
    events = top.get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(events, list):
        raise TraceError(f"{plain(str(path))}: is JSON, but has no traceEvents")
    if progress is not None:
        progress(size, size)

    phases: dict[str, int] = {}
    meta: dict[str, dict[str, Any]] = {}
    threads: dict[tuple[str, str], str] = {}
    rows: list[tuple[Any, ...]] = []
    stacks: dict[tuple[str, str], list[tuple[int, int]]] = {}
    instants: list[tuple[int, str, str, str, str, int]] = []
    counters: list[tuple[str, str, int, float]] = []
    flows: dict[tuple[str, Any], list[tuple[str, str, str, int, str]]] = {}
    for index, event in enumerate(events):
        phase = str(event.get("ph", ""))
        phases[phase] = phases.get(phase, 0) + 1
        pid, tid = str(event.get("pid", "")), str(event.get("tid", ""))
        name, category = str(event.get("name", "")), str(event.get("cat", ""))
        args = event.get("args") if isinstance(event.get("args"), dict) else {}
        if phase == "M":
            m = meta.setdefault(pid, {})
            if name == "thread_name":
                threads[pid, tid] = str(args.get("name", ""))
            elif name.startswith("process_"):
                m[name] = next(iter(args.values()), "")
            continue
        if "ts" not in event:
            continue
        ts = _ns(event["ts"])
        if phase == "X":
            rows.append((pid, tid, ts, _ns(event.get("dur", event.get("tdur", 0))), name, category, args, index))
        elif phase == "B":
            stacks.setdefault((pid, tid), []).append((len(rows), ts))
            rows.append((pid, tid, ts, -1, name, category, args, index))
        elif phase == "E":
            stack = stacks.get((pid, tid))
            if stack:
                at, begun = stack.pop()
                rows[at] = (*rows[at][:3], ts - begun, *rows[at][4:])
        elif phase in "iIR":
            instants.append((ts, name, category, pid, tid, index))
        elif phase == "C":
            for key, value in args.items():
                if isinstance(value, (int, float)):
                    counters.append((f"{name} {key}", pid, ts, float(value)))
        elif phase in "stf":
            flows.setdefault((category, event.get("id")), []).append((phase, pid, tid, ts, category))
    unclosed = sum(map(len, stacks.values()))
    last = max((r[2] + max(0, r[3]) for r in rows), default=0)
    rows = [r if r[3] >= 0 else (*r[:3], max(0, last - r[2]), *r[4:]) for r in rows]
    if unclosed:
        notices.append(Notice("unclosed", "odd", unclosed, -1, "B without its E: ends at the trace's end"))

    device_pids = {
        r[0]
        for r in rows
        if CATEGORY_KINDS.get(r[5].lower(), Kind.OTHER)
        in (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNC, Kind.GPU_ANNOTATION)
    }

    def lane_key(row: tuple[Any, ...]) -> tuple[str, str, str]:
        kind = CATEGORY_KINDS.get(row[5].lower(), Kind.OTHER)
        if kind == Kind.GPU_ANNOTATION:
            return (row[0], row[1], "gpu_annotation")
        if kind == Kind.SYNC:
            return (row[0], row[1], "sync")
        if kind == Kind.OVERHEAD:
            return (row[0], row[1], "overhead")
        if kind == Kind.SPAN:
            return (row[0], row[1], "span")
        return (row[0], row[1], "stream" if row[0] in device_pids else "thread")

    keys = [lane_key(r) for r in rows]
    order = ["thread", "overhead", "span", "gpu_annotation", "stream", "sync"]

    def number(text: str) -> tuple[int, str]:
        return (int(text), "") if text.lstrip("-").isdigit() else (1 << 62, text)

    distinct = sorted(
        set(keys), key=lambda k: (k[0] in device_pids, k[2] in ("overhead", "span"), number(k[0]), number(k[1]), order.index(k[2]))
    )
    lane_of = {key: i for i, key in enumerate(distinct)}
    pids = list(dict.fromkeys(k[0] for k in distinct))
    devices = {pid: (int(pid) if pid.isdigit() else i) for i, pid in enumerate(sorted(device_pids, key=number))}
    processes = tuple(
        Process(
            pid,
            plain(str(meta.get(pid, {}).get("process_name", ""))),
            plain(str(meta.get(pid, {}).get("process_labels", ""))),
            int(meta.get(pid, {}).get("process_sort_index", 0) or 0),
            devices.get(pid, -1),
        )
        for pid in pids
    )
    zero = min([r[2] for r in rows] + [i[0] for i in instants], default=0)
    names: dict[str, int] = {}
    categories: dict[str, int] = {}
    n = len(rows)
    lane = np.array([lane_of[k] for k in keys], dtype=np.int32)
    start = np.array([r[2] - zero for r in rows], dtype=np.int64)
    duration = np.array([r[3] for r in rows], dtype=np.int64)
    perm = np.lexsort((np.arange(n), -duration, start, lane))
    rows = [rows[i] for i in perm]
    lane, start, duration = lane[perm], start[perm], duration[perm]
    name = np.array([names.setdefault(plain(r[4]), len(names)) for r in rows], dtype=np.int32)
    category = np.array([categories.setdefault(r[5], len(categories)) for r in rows], dtype=np.int16)
    kinds = np.array([CATEGORY_KINDS.get(c.lower(), Kind.OTHER) for c in categories] or [0], dtype=np.int8)

    def ident(value: Any) -> int:
        return value if isinstance(value, int) and -(1 << 63) <= value < 1 << 63 else NO_ID

    correlation = np.array([ident(r[6].get("correlation")) for r in rows], dtype=np.int64)
    external = np.array([ident(r[6].get("External id", r[6].get("external id"))) for r in rows], dtype=np.int64)
    kind = kinds[category] if n else np.zeros(0, dtype=np.int8)

    depth, parent = np.zeros(n, dtype=np.int32), np.full(n, -1, dtype=np.int32)
    lanes = []
    for i, (pid, tid, what) in enumerate(distinct):
        first, end = (int(x) for x in np.searchsorted(lane, [i, i + 1]))
        groups: list[list[int]] = [[]]
        placed: list[list[int]] = [[]]
        for j in range(first, end):
            s, e = start[j], start[j] + duration[j]
            for stack, mine in zip(groups, placed, strict=True):
                while stack and start[stack[-1]] + duration[stack[-1]] <= s:
                    stack.pop()
                if not stack or e <= start[stack[-1]] + duration[stack[-1]]:
                    depth[j] = len(stack)
                    parent[j] = stack[-1] if stack else -1
                    stack.append(j)
                    mine.append(j)
                    break
            else:
                groups.append([j])
                placed.append([j])
        base = 0
        for mine in placed:
            depth[mine] += base
            base = int(depth[mine].max()) + 1 if mine else base
        given = threads.get((pid, tid), "")
        label = {"overhead": "profiler overhead", "span": "spans"}.get(what, f"stream {tid}" if pid in device_pids else f"thread {tid}")
        if what == "gpu_annotation":
            label += " annotations"
        elif what == "sync":
            label += " sync"
        elif given and given != label and what == "thread":
            label = given
        lanes.append(Lane(pids.index(pid), plain(tid), plain(label), what, devices.get(pid, -1) if pid in device_pids else -1, first, end, base))

    launches = {int(correlation[j]): j for j in np.flatnonzero((kind == Kind.RUNTIME) & (correlation != NO_ID))}
    ops = {int(external[j]): j for j in np.flatnonzero((kind == Kind.CPU_OP) & (external != NO_ID))}
    device = np.isin(kind, (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET, Kind.SYNC))
    launch, op = np.full(n, -1, dtype=np.int32), np.full(n, -1, dtype=np.int32)
    for j in np.flatnonzero(device):
        launch[j] = launches.get(int(correlation[j]), -1) if correlation[j] != NO_ID else -1
    for j in np.flatnonzero(device | (kind == Kind.RUNTIME)):
        op[j] = ops.get(int(external[j]), -1) if external[j] != NO_ID else -1

    def enclosing(pid: str, tid: str, ts: int) -> int:
        for what in ("thread", "stream"):
            at = lane_of.get((pid, tid, what))
            if at is None:
                continue
            ln = lanes[at]
            j = ln.first + int(np.searchsorted(start[ln.first : ln.last], ts, side="right")) - 1
            while j >= ln.first:
                if start[j] + duration[j] >= ts:
                    return j
                j -= 1
        return -1

    flow_kinds: dict[str, int] = {}
    links = []
    for (cat, _), ends in flows.items():
        if cat == "ac2g":
            continue
        begins = [e for e in ends if e[0] == "s"]
        finishes = [e for e in ends if e[0] == "f"]
        if begins and finishes:
            a, b = (enclosing(e[1], e[2], e[3] - zero) for e in (begins[0], finishes[0]))
            if a >= 0 and b >= 0:
                links.append((a, b, flow_kinds.setdefault(cat, len(flow_kinds))))
    link = np.array(links, dtype=np.int32).reshape(-1, 3)

    def thread_lane(pid: str, tid: str) -> int:
        return lane_of.get((pid, tid, "thread"), lane_of.get((pid, tid, "stream"), -1))

    instants.sort(key=lambda i: i[0])
    table = Instants(
        np.array([i[0] - zero for i in instants], dtype=np.int64),
        np.array([names.setdefault(plain(i[1]), len(names)) for i in instants], dtype=np.int32),
        np.array([categories.setdefault(i[2], len(categories)) for i in instants], dtype=np.int16),
        np.array([thread_lane(i[3], i[4]) for i in instants], dtype=np.int32),
        np.array([i[5] for i in instants], dtype=np.int64),
    )
    series = sorted({(c[0], c[1]) for c in counters})
    at = {s: i for i, s in enumerate(series)}
    counters.sort(key=lambda c: (at[c[0], c[1]], c[2]))
    counts = Counters(
        np.array([c[2] - zero for c in counters], dtype=np.int64),
        np.array([at[c[0], c[1]] for c in counters], dtype=np.int32),
        np.array([c[3] for c in counters], dtype=np.float64),
        tuple(plain(s[0]) for s in series),
        tuple(pids.index(s[1]) if s[1] in pids else -1 for s in series),
    )
    base_ns = top.get("baseTimeNanoseconds")
    info = TraceInfo(
        str(path),
        size,
        len(raw),
        zero + (base_ns or 0),
        base_ns,
        tuple(top.get("deviceProperties") or ()),
        top.get("distributedInfo"),
        {k: v for k, v in top.items() if isinstance(v, (int, str, float, bool))},
    )
    span = (int(start.min()), int((start + duration).max())) if n else (0, 1)
    return Trace(
        info, list(names), tuple(map(plain, categories)), processes, tuple(lanes),
        start, duration, name, category, kind, lane, depth, parent, correlation, external, launch, op,
        np.array([r[7] for r in rows], dtype=np.int64),
        link[:, 0], link[:, 1], tuple(flow_kinds), link[:, 2].astype(np.int8),
        table, counts, tuple(notices), np.zeros(n, dtype=np.bool_), phases, span, _Memory(events),
    )  # fmt: skip
