"""A small machine whose truth is known: a CPU, streams, graphs. It runs a program and writes what a profiler
would; the same program under a change gives the truth that a replay has to predict. Times in microseconds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.kineto import Event, trace_of

from tracetui.trace import Trace

BACKWARD = "autograd::engine::evaluate_function: MmBackward0"
LAUNCH, LEAST_WAIT, GRAPH_LAUNCH = 4.0, 1.0, 10.0


@dataclass
class Options:
    """What a change makes different."""

    cpu: float = 1.0
    """CPU time is divided by this."""
    kernel: dict[str, float] = field(default_factory=dict)
    """By name: the time of a kernel is multiplied by this."""
    without: frozenset[str] = frozenset()
    """Annotations that are not there, with all that they launch; kernels, with the calls that launch them."""
    elsewhere: frozenset[str] = frozenset()
    """Annotations that take no time on the CPU."""
    syncs: bool = True
    copies_aside: bool = False
    """Whether copies have a stream of their own."""
    jitter: float = 0.1


class Machine:
    """Runs a program at once: `now` is the time on the CPU, `free` when each stream's last work ends."""

    latency, gap, inner_gap, back = 2.0, 1.2, 0.4, 6.0

    def __init__(self, options: Options | None = None, seed: int = 1) -> None:
        self.options = options or Options()
        self.random = random.Random(seed)
        self.now, self.thread, self.ids = 100.0, 9, 100
        self.free: dict[int, float] = {}
        self.held: dict[int, float] = {}
        """When what a stream waits for is over."""
        self.events: list[Event] = []
        self.ends: list[float] = []
        self.absent = self.marks = False

    def _about(self, time: float) -> float:
        return time * (1 + self.options.jitter * self.random.uniform(-1, 1))

    def _call(self, name: str, cat: str, length: float, **args: object) -> None:
        event = {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": self.thread}
        self.events.append(event | {"ts": self.now, "dur": length, "args": args})
        self.now += length

    @contextmanager
    def inside(self, name: str, cat: str = "cpu_op") -> Iterator[None]:
        """An op, or an annotation."""
        begun, cpu, absent = self.now, self.options.cpu, self.absent
        self.absent |= name in self.options.without
        if name in self.options.elsewhere | self.options.without:
            self.options.cpu = float("inf")
        yield
        self.options.cpu, self.absent = cpu, absent
        event = {"ph": "X", "cat": cat, "name": name, "pid": 9, "tid": self.thread}
        self.events.append(event | {"ts": begun, "dur": self.now - begun, "args": {}})

    def work(self, time: float) -> None:
        """The CPU is busy."""
        self.now += self._about(time) / self.options.cpu

    def _device(self, name: str, time: float, stream: int, earliest: float, gap: float, cat: str) -> None:
        start = max(earliest, self.free.get(stream, 0.0) + self._about(gap), self.held.pop(stream, 0.0))
        time *= self.options.kernel.get(name, 1.0)
        event = {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": start, "dur": time}
        self.events.append(event | {"args": {"correlation": self.ids, "device": 0, "stream": stream}})
        self.free[stream] = start + time

    def launch(self, name: str, time: float, stream: int = 7, cat: str = "kernel") -> None:
        """Launch a kernel or a copy."""
        if name in self.options.without:
            return
        self.ids += 1
        aside = cat == "gpu_memcpy" and self.options.copies_aside
        self._call("cudaLaunchKernel", "cuda_runtime", LAUNCH / self.options.cpu, correlation=self.ids)
        if not self.absent:
            stream = 99 if aside else stream
            self._device(name, time, stream, self.now + self._about(self.latency), self.gap, cat)

    def op(self, name: str, kernel: str, time: float, cpu: float = 8.0, stream: int = 7) -> None:
        """An op with a kernel."""
        with self.inside(name):
            self.work(cpu / 2)
            self.launch(kernel, time, stream)
            self.work(cpu / 2)

    def graph(self, kernels: list[tuple[str, float]], stream: int = 7) -> None:
        """Launch a graph."""
        self.ids += 1
        self._call("cudaGraphLaunch", "cuda_runtime", GRAPH_LAUNCH / self.options.cpu, correlation=self.ids)
        earliest = self.now + self._about(self.latency)
        kernels = [one for one in kernels if one[0] not in self.options.without]
        for i, (name, time) in enumerate(kernels):
            self._device(name, time, stream, earliest, self.inner_gap if i else self.gap, "kernel")

    def sync(self, stream: int | None = None) -> None:
        """Wait for the device, or for one stream."""
        ended = max(self.free.values(), default=0.0) if stream is None else self.free[stream]
        self.wait_until("cudaDeviceSynchronize" if stream is None else "cudaStreamSynchronize", ended)

    def wait_until(self, call: str, ended: float) -> None:
        """Wait for what ends then."""
        if self.options.syncs and not self.absent:
            over = max(self.now + LEAST_WAIT, ended + self._about(self.back))
            self._call(call, "cuda_runtime", over - self.now)

    def wait(self, stream: int, on: int) -> None:
        """Let a stream wait for another. With `marks`, the profiler says so."""
        record, call = self.ids + 1, self.ids + 2
        self.ids = call
        self._call("cudaEventRecord", "cuda_runtime", 1 / self.options.cpu, correlation=record)
        self._call("cudaStreamWaitEvent", "cuda_runtime", 1 / self.options.cpu, correlation=call)
        if self.marks:
            mark = {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": stream}
            told = {"stream": stream, "wait_on_stream": on, "wait_on_cuda_event_record_corr_id": record}
            self.events.append(mark | {"ts": self.now, "dur": 0, "args": told | {"correlation": call}})
        over = self.free.get(on, 0.0) + self.gap
        self.held[stream] = max(self.held.get(stream, 0.0), over)

    @contextmanager
    def backward(self) -> Iterator[None]:
        """What another thread does while this one waits for it."""
        with self.inside("backward", "user_annotation"):
            self.now += 5 / self.options.cpu
            self.thread = 10
            yield
            self.thread = 9
            self.now += 5 / self.options.cpu

    def steps(self, count: int, step: Callable[[Machine], None]) -> Machine:
        """Run a program."""
        for number in range(count):
            self.ends.append(max(self.now, *self.free.values(), 0.0))
            with self.inside(f"ProfilerStep#{number}", "user_annotation"):
                step(self)
        self.ends.append(max(self.now, *self.free.values(), 0.0))
        return self

    @property
    def step_ns(self) -> float:
        """The mean step."""
        return (self.ends[-1] - self.ends[0]) / (len(self.ends) - 1) * 1000

    def trace(self, tmp_path: Path) -> Trace:
        """What a profiler writes."""
        return trace_of(tmp_path, *self.events)


def host_bound(m: Machine) -> None:
    """The device waits for the CPU, which has 30 us of work for 20 us of the device's."""
    with m.inside("load", "user_annotation"):
        m.work(100)
        m.launch("Memcpy HtoD (Pinned -> Device)", 15, cat="gpu_memcpy")
    for i in range(20):
        m.op("aten::mm" if i % 2 else "aten::add", "gemm" if i % 2 else "add", 10, 16)
    with m.inside("log", "user_annotation"):
        m.op("aten::sum", "reduce", 5)
        m.work(60)


def device_bound(m: Machine) -> None:
    """The CPU runs ahead."""
    with m.inside("load", "user_annotation"):
        m.work(20)
        m.launch("Memcpy HtoD (Pinned -> Device)", 40, cat="gpu_memcpy")
    for i in range(20):
        m.op("aten::mm" if i % 2 else "aten::add", "gemm" if i % 2 else "add", 60 if i % 2 else 15)
    with m.inside("log", "user_annotation"):
        m.op("aten::sum", "reduce", 5)


def waiting(m: Machine) -> None:
    """The CPU waits for the device in the middle of each step, and another thread runs the backward."""
    with m.inside("load", "user_annotation"):
        m.work(50)
        m.launch("Memcpy HtoD (Pinned -> Device)", 20, cat="gpu_memcpy")
    for i in range(10):
        m.op("aten::mm" if i % 2 else "aten::add", "gemm" if i % 2 else "add", 40 if i % 2 else 10)
    with m.inside("log", "user_annotation"):
        m.op("aten::sum", "reduce", 5)
        m.sync()
        m.work(30)
    with m.backward():
        for _ in range(10):
            with m.inside(BACKWARD):
                m.op("aten::mm", "gemm", 40, 12)
            m.work(2)


def two_streams(m: Machine) -> None:
    """Work on a second stream that the first one waits for, and that waits for the first one."""
    with m.inside("load", "user_annotation"):
        m.work(20)
        m.launch("Memcpy HtoD (Pinned -> Device)", 40, cat="gpu_memcpy")
    for i in range(8):
        m.op("aten::mm" if i % 2 else "aten::add", "gemm" if i % 2 else "add", 50 if i % 2 else 15)
        if i % 4 == 1:
            m.wait(20, 7)
            m.op("aten::bmm", "side", 90, stream=20)
    m.wait(7, 20)
    for _ in range(4):
        m.op("aten::add", "add", 15)
    with m.inside("log", "user_annotation"):
        m.op("aten::sum", "reduce", 5)
        m.sync()


def one_of_two(m: Machine) -> None:
    """The CPU waits for one stream while another runs."""
    m.op("aten::bmm", "side", 90, stream=20)
    m.op("aten::mm", "gemm", 120)
    m.sync(7)
    m.work(150)


def an_earlier_one(m: Machine) -> None:
    """The CPU waits for work that is not the last in its stream."""
    m.op("aten::mm", "gemm", 200)
    ended = m.free[7]
    m.op("aten::add", "add", 30)
    m.wait_until("cudaEventSynchronize", ended)
    m.work(100)


def told(m: Machine) -> None:
    """The profiler says what a stream waits for: what is over long before and was not launched last."""
    m.marks = True
    m.wait(20, 7)
    m.op("aten::bmm", "side", 60, stream=20)
    m.work(300)
    m.op("aten::mul", "other", 5, stream=30)
    m.wait(7, 20)
    m.op("aten::mm", "gemm", 90)


def replayed(m: Machine) -> None:
    """A graph a step, between ops."""
    with m.inside("load", "user_annotation"):
        m.work(60)
        m.launch("Memcpy HtoD (Pinned -> Device)", 20, cat="gpu_memcpy")
    m.graph([("gemm" if i % 2 else "add", 10.0) for i in range(12)])
    with m.inside("log", "user_annotation"):
        m.op("aten::sum", "reduce", 5)
        m.work(20)
