"""The collectives of a job, straight from the JSON of its files: slow, simple, and independent of tracetui.

All times are integer nanoseconds on the clock of the files, which the ranks of one host share.
"""

from __future__ import annotations

import ast
import gzip
import json
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A collective on one rank."""

    rank: int
    key: tuple[Any, ...]
    """What all ranks of it share: the group; the pair, for a send and its receive."""
    seq: int | None
    called: int
    start: int
    end: int


class Matched(NamedTuple):
    """A collective on all of its ranks."""

    calls: tuple[Call, ...]

    @property
    def last(self) -> Call:
        return max(self.calls, key=lambda call: (call.start, -call.rank))

    def wait(self, call: Call) -> int:
        return min(self.last.start, call.end) - call.start

    @property
    def transfer(self) -> int:
        return min(call.end - call.start for call in self.calls)


def read(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    found: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return found


def ns(microseconds: Any) -> int:
    return int(Decimal(microseconds) * 1000)


def calls_of(file: dict[str, Any]) -> tuple[list[Call], int]:
    """(the collectives of a file's rank; how many have no launch in the file)."""
    rank, base = file["distributedInfo"]["rank"], file.get("baseTimeNanoseconds") or 0
    members = {pg["pg_name"]: pg["ranks"] for pg in file["distributedInfo"].get("pg_config", [])}
    events = [e for e in file["traceEvents"] if e.get("ph") == "X" and "ts" in e]
    records = [e for e in events if e["name"] == "record_param_comms"]
    launches = {
        e["args"]["correlation"]: e
        for e in events
        if e.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in e["args"]
    }
    found, unlaunched = [], 0
    for event in events:
        if event.get("cat") != "kernel" or "nccl" not in event["name"].lower():
            continue
        launch = launches.get(event["args"]["correlation"])
        if launch is None:
            unlaunched += 1
            continue
        at = launch["ts"]
        around = [r for r in records if r["ts"] <= at and at + launch["dur"] <= r["ts"] + r["dur"]]
        args = around[0]["args"] if around else {}
        if "Collective name" not in args:
            key: tuple[Any, ...] = ("all",)
        elif "Src Rank" in args or "Dst Rank" in args:
            key = ("pair", args.get("Src Rank", rank), args.get("Dst Rank", rank))
        else:
            ranks = ast.literal_eval(args["Process Group Ranks"]) or members[args["Process Group Name"]]
            key = ("group", args["Process Group Name"], *ranks)
        start = base + ns(event["ts"])
        found.append(Call(rank, key, args.get("Seq"), base + ns(at), start, start + ns(event["dur"])))
    for event in events:
        if event.get("cat") == "user_annotation" and event["name"].startswith("gloo:"):
            start = base + ns(event["ts"])
            found.append(Call(rank, ("all", event["name"]), None, start, start, start + ns(event["dur"])))
    return sorted(found, key=lambda call: (call.called, call.start)), unlaunched


def match(files: list[dict[str, Any]]) -> tuple[list[Matched], int]:
    """(the collectives that every rank of their group has recorded; how many calls are left over)."""
    by_key: dict[tuple[Any, ...], dict[int, list[Call]]] = defaultdict(lambda: defaultdict(list))
    left = 0
    for file in files:
        calls, unlaunched = calls_of(file)
        left += unlaunched
        for call in calls:
            by_key[call.key][call.rank].append(call)
    ranks = {file["distributedInfo"]["rank"] for file in files}
    found = []
    for key, by_rank in by_key.items():
        wanted = set(by_rank) if key[0] == "all" else set(key[1:] if key[0] == "pair" else key[2:]) & ranks
        total = sum(map(len, by_rank.values()))
        first = by_rank[min(wanted)]
        numbered = {rank: _numbers(first, by_rank[rank]) for rank in wanted} if len(wanted) > 1 else {}
        for number in set.intersection(*map(set, numbered.values())) if numbered else ():
            calls = tuple(numbered[rank][number] for rank in sorted(wanted))
            found.append(Matched(calls))
            total -= len(calls)
        left += total
    return found, left


def _numbers(first: list[Call], calls: list[Call]) -> dict[int, Call]:
    """The calls of a rank by their number: `Seq`, or the place in `first` of the call that ends with it."""
    if all(call.seq is not None for call in (*first, *calls)):
        return {call.seq: call for call in calls if call.seq is not None}
    if not first or not calls:
        return {}

    def apart(shift: int) -> tuple[int, int, float, int]:
        """How many pairs cannot be, how far apart the others end: nobody is done before all have begun. A
        small send does not wait for its receive, so that the ends of a pair say little: as many as can be."""
        both = [(calls[i], first[i + shift]) for i in range(len(calls)) if 0 <= i + shift < len(first)]
        eager = first[0].key[1] if first[0].key[0] == "pair" else None
        never = sum(
            (a.end < b.start and a.rank != eager) or (b.end < a.start and b.rank != eager) for a, b in both
        )
        few = 0 if eager is None else -len(both)
        return never, few, median(abs(a.end - b.end) for a, b in both), abs(shift)

    shift = min(range(1 - len(calls), len(first)), key=apart)
    return {i + shift: call for i, call in enumerate(calls)}


def sums(found: list[Matched]) -> dict[int, dict[str, int]]:
    """Per rank: at how many it came last, how long it waited, and the transfers."""
    of: dict[int, dict[str, int]] = defaultdict(lambda: {"last": 0, "wait_ns": 0, "transfer_ns": 0})
    for one in found:
        of[one.last.rank]["last"] += 1
        for call in one.calls:
            of[call.rank]["wait_ns"] += one.wait(call)
            of[call.rank]["transfer_ns"] += one.transfer
    return of
