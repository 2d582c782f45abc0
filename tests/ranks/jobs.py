"""Jobs for tests: recorded ones with a clock that was shifted, and made ones of which all is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.ranks.plain import read

from tracetui.ranks.job import Job, job_of
from tracetui.ranks.summary import summarize

Event = dict[str, Any]


def job(paths: Sequence[Path]) -> Job:
    return job_of([summarize(str(path)) for path in paths])


def shifted(path: Path, out: Path, ns: int, drift: float = 0.0) -> Path:
    """A copy of a trace whose clock is ahead by `ns`, and goes faster by `drift`."""
    file = read(path)
    first = min(Decimal(e["ts"]) for e in file["traceEvents"] if e.get("ph") == "X")
    for event in file["traceEvents"]:
        if "ts" in event and event.get("ph") != "M":
            since = Decimal(event["ts"]) - first
            event["ts"] = round(float(since + Decimal(ns) / 1000 + since * Decimal(drift)), 3)
    file["baseTimeNanoseconds"] = (file.get("baseTimeNanoseconds") or 0) + int(first * 1000)
    out.write_text(json.dumps(file, default=float))
    return out


class Ranks:
    """Ranks that run the same steps; times in µs. What one rank does more is up to the callers."""

    def __init__(self, world: int, hosts: int = 1, named: bool = True) -> None:
        self.world, self.per_host, self.named = world, world // hosts, named
        self.cpu = [100.0] * world
        self.gpu = [0.0] * world
        self.events: list[list[Event]] = [[] for _ in range(world)]
        self.calls = [0] * world
        self.jitter = 12345

    def noise(self, most: float = 8.0) -> float:
        self.jitter = (self.jitter * 1103515245 + 12345) % (1 << 31)
        return most * self.jitter / (1 << 31)

    def on_cpu(self, rank: int, name: str, length: float, cat: str = "user_annotation") -> None:
        self._slice(rank, name, self.cpu[rank], length, cat)
        self.cpu[rank] += length

    def _slice(self, rank: int, name: str, start: float, length: float, cat: str, **args: Any) -> None:
        event = {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": 9, "ts": start, "dur": length}
        self.events[rank].append(event | {"args": args})

    def compute(self, rank: int, kernels: int, length: float, op: float = 20.0, grid: int = 64) -> None:
        """Ops that launch a kernel each."""
        for _ in range(kernels):
            start = self.cpu[rank]
            self._launched(
                rank, f"gemm_{grid}", start + op / 2, max(start + op, self.gpu[rank]), length, 7, grid
            )
            self._slice(rank, "aten::mm", start, op, "cpu_op")
            self.cpu[rank] += op
            self.gpu[rank] = max(start + op, self.gpu[rank]) + length

    def _launched(
        self,
        rank: int,
        name: str,
        call: float,
        start: float,
        length: float,
        stream: int,
        grid: int,
        **args: Any,
    ) -> None:
        self.calls[rank] += 1
        of = {"correlation": self.calls[rank]}
        self._slice(rank, "cudaLaunchKernel", call, 4.0, "cuda_runtime", **of)
        more = {"device": rank % self.per_host, "stream": stream, "grid": [grid, 1, 1]}
        event = {"ph": "X", "cat": "kernel", "name": name, "pid": rank % self.per_host, "tid": stream}
        self.events[rank].append(event | {"ts": start, "dur": length, "args": of | more | args})

    def all_reduce(self, ranks: Sequence[int], transfer: float = 50.0, name: str = "0") -> None:
        """Each rank's begins when its GPU is there, and all end together."""
        starts = {rank: max(self.cpu[rank] + 15, self.gpu[rank]) for rank in ranks}
        end = max(starts.values()) + transfer
        for rank in ranks:
            done = end + self.noise()
            args = {
                "Collective name": "allreduce", "In msg nelems": 1000, "Group size": len(ranks),
                "Process Group Name": name, "Process Group Ranks": str(list(ranks)),
            }  # fmt: skip
            self._collective(rank, args, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", starts[rank], done)

    def send(self, sender: int, receiver: int, transfer: float = 15.0) -> None:
        """The receive waits for the send, which waits for nobody."""
        sent = max(self.cpu[sender] + 15, self.gpu[sender])
        come = max(self.cpu[receiver] + 15, self.gpu[receiver])
        done = max(sent, come) + transfer
        args = {
            "In msg nelems": 1000,
            "Process Group Name": "0",
            "Process Group Ranks": "[]",
            "Group size": 0,
        }
        name = "ncclDevKernel_SendRecv(x)"
        self._collective(
            sender, args | {"Collective name": "send", "Dst Rank": receiver}, name, sent, sent + transfer
        )
        self._collective(
            receiver, args | {"Collective name": "recv", "Src Rank": sender}, name, come, done + 3
        )

    def _collective(self, rank: int, args: Event, name: str, start: float, end: float) -> None:
        call = self.cpu[rank]
        self._slice(rank, "record_param_comms", call, 20.0, "cpu_op", **args)
        self._launched(rank, name, call + 10, start, end - start, 17, 24, **args)
        self.cpu[rank] += 20
        self.gpu[rank] = max(self.gpu[rank], end)

    def wait(self, rank: int) -> None:
        """The CPU waits for its GPU."""
        length = max(self.gpu[rank] - self.cpu[rank], 0) + 5
        self.on_cpu(rank, "cudaDeviceSynchronize", length, "cuda_runtime")

    def steps(self, count: int, one: Callable[[int], None]) -> None:
        for number in range(count):
            begun = list(self.cpu)
            one(number)
            for rank in range(self.world):
                length = self.cpu[rank] - begun[rank]
                self._slice(rank, f"ProfilerStep#{number}", begun[rank], length, "user_annotation")

    def write(self, folder: Path, ahead: Mapping[int, tuple[float, float]] | None = None) -> list[Path]:
        """One file per rank. `ahead`, by host: by how much its clock is ahead (µs), and how much faster."""
        found = []
        for rank, events in enumerate(self.events):
            host = rank // self.per_host
            by, drift = (ahead or {}).get(host, (0.0, 0.0))
            moved = [event | {"ts": event["ts"] * (1 + drift) + by} for event in events]
            file: Event = {
                "baseTimeNanoseconds": 1_790_000_000_000_000_000,
                "distributedInfo": {"rank": rank, "world_size": self.world},
                "traceEvents": moved,
            }
            if self.named:
                file["host_name"] = f"host{host}"
            found.append(folder / f"rank{rank}.json")
            found[-1].write_text(json.dumps(file))
        return found
