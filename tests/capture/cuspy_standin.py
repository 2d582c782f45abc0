"""PyTorch 2.15 with a GPU and with Cuspy, as far as a capture sees them, over an older one: for tests.

A process that runs this as it starts has it. `program.start_gpu()` is what the first tensor on a GPU
does. STANDIN in the environment has words: `refuses` (the counters), `crashes` (in a part of Cuspy).
"""

from __future__ import annotations

import functools
import gzip
import json
import logging
import os
import sys
import types
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
import torch.profiler as tp
from torch.autograd import profiler as autograd
from torch.profiler import profiler as module

WORDS = os.environ.get("STANDIN", "").split()
NAMED = "ProfilerStep#"


@dataclass(frozen=True)
class CuspyConfig:
    enable_cuda_sync_events: bool = False
    enable_environment_counters: bool = False
    enable_graph_dependencies: bool = False
    enable_event_node_ids: bool = False


@dataclass
class PerformanceMetricsConfig:
    metric_names: list[str]
    sampling_interval_ms: float | None = None
    lookback_window_ms: float | None = None


@dataclass
class ProfilerActivityConfig:
    activity_types: list[str] | None = None
    profiler_configs: list[Any] = field(default_factory=list)


class Cupti:
    subscriber = ""
    registered = 0
    """Sessions of Cuspy that nobody has ended."""
    started = False
    asked = False
    """Whether the profiler that starts is a Kineto that is to record the GPU."""
    queued: list[Any] = []  # noqa: RUF012
    waited = 0


def patched(owner: Any, name: str) -> Any:
    """Puts a function in place of another one, which it gets first."""

    def put(function: Any) -> Any:
        original = getattr(owner, name)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(original, *args, **kwargs)

        setattr(owner, name, call)
        return call

    return put


base = tp.profile.__mro__[1]


@patched(tp.profile, "__init__")
def _init(original: Any, self: Any, *, activities: Any = (), **options: Any) -> None:
    configs: list[Any] = []
    plain = []
    for one in activities or (tp.ProfilerActivity.CPU,):
        if isinstance(one, dict):
            configs += [config for value in one.values() for config in value.profiler_configs]
        else:
            plain.append(one)
    original(self, activities=plain, **options)
    self._cuspy_config = next((one for one in configs if isinstance(one, CuspyConfig)), None)
    self._pm = next((one for one in configs if isinstance(one, PerformanceMetricsConfig)), None)
    self._use_cuspy = self._cuspy_config is not None
    self._cuspy_profiler_observer = None


@patched(base, "prepare_trace")
def _prepare(original: Any, self: Any) -> None:
    if getattr(self, "_use_cuspy", False):
        if "crashes" in WORDS:
            raise ImportError("libcupti.so.13: cannot open shared object file\nmore")
        if Cupti.subscriber == "Kineto":
            logging.getLogger("torch.profiler._cuspy.observers.base").warning(
                "Cuspy observer unavailable: %s",
                "cuptiSubscribe_v2 failed: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
            )
        else:
            Cupti.subscriber = "Cuspy"
            Cupti.registered += 1
        if self._pm and "refuses" in WORDS:
            logging.getLogger("torch.profiler._cuspy.pm_sampling").warning(
                "PM sampling could not start: %s", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
            )
        self._cuspy_profiler_observer = SimpleNamespace(available=Cupti.subscriber == "Cuspy")
    Cupti.asked = tp.ProfilerActivity.CUDA in self.activities
    if Cupti.asked:
        Cupti.subscriber = Cupti.subscriber or "Kineto"
    original(self)


@patched(autograd.profile, "_prepare_trace")
def _prepare_kineto(original: Any, self: Any) -> None:
    if Cupti.asked:  # this build leaves it out
        self.kineto_activities.add(tp.ProfilerActivity.CUDA)
    original(self)


for name in ("_prepare_profiler", "_enable_profiler"):

    @patched(autograd, name)
    def _strip(original: Any, config: Any, activities: Any, *args: Any, **more: Any) -> Any:
        return original(config, activities - {tp.ProfilerActivity.CUDA}, *args, **more)


@patched(base, "export_chrome_trace")
def _export(original: Any, self: Any, path: str, *args: Any) -> None:
    observer, self._cuspy_profiler_observer = getattr(self, "_cuspy_profiler_observer", None), None
    if not getattr(self, "_use_cuspy", False):
        original(self, path, *args)
        return
    if observer is None or not observer.available:
        module.warn("Cuspy observer unavailable; skipping chrome trace export")
        return
    Cupti.registered -= 1
    original(self, path, *args)
    with open(path, encoding="utf-8") as file:
        trace = json.load(file)
    os.remove(path)
    events = trace["traceEvents"]
    at = {"pid": 0, "tid": 7, "ts": events[-1].get("ts", 0), "dur": 1, "args": {"correlation": 1}}
    events.append({"ph": "X", "cat": "kernel", "name": "gemm", **at})
    out = path if path.endswith(".gz") else path + ".gz"
    text = json.dumps(trace | {"traceName": out}, separators=(",", ":")).encode()
    if ".pftrace" in out:  # interned names, each after its length
        names = {e["name"].encode() for e in events if str(e.get("name")).startswith(NAMED)}
        text = b"".join(b"\x12" + bytes([len(name)]) + name + b"\x32\x01" for name in sorted(names))
        text += b"\x0a\x06Kernel"
    counters = {"config": vars(self._cuspy_config), "metrics": self._pm and vars(self._pm)}
    with gzip.open(out, "wb", 1) as packed:
        packed.write(text)
    with open(os.environ["STANDIN_SAID"], "a", encoding="utf-8") as said:
        print(json.dumps(counters | {"registered": Cupti.registered, "waited": Cupti.waited}), file=said)


def wait_for_exports(self: Any) -> None:
    if getattr(self, "_cuspy_profiler_observer", None) is not None:
        Cupti.registered -= self._cuspy_profiler_observer.available
        self._cuspy_profiler_observer = None


def start_gpu() -> None:
    Cupti.started = True
    for call in Cupti.queued:
        call()


def synchronize(device: Any = None) -> None:
    Cupti.waited += 1


base.wait_for_exports = wait_for_exports
for kind in (CuspyConfig, PerformanceMetricsConfig, ProfilerActivityConfig):
    setattr(tp, kind.__name__, kind)
    setattr(module, kind.__name__, kind)

torch.version.cuda = "13.2"
torch.backends.cuda.is_built = lambda: True
torch.cuda.is_available = lambda: True
torch.cuda.is_initialized = lambda: Cupti.started
torch.cuda.current_device = lambda: 0
torch.cuda.device_count = lambda: 1
torch.cuda.set_device = lambda device: start_gpu()
torch.cuda.synchronize = synchronize
torch.cuda.get_device_name = lambda device=None: "a stand-in"
torch.cuda.get_device_properties = lambda device=None: SimpleNamespace(
    total_memory=1, multi_processor_count=1
)
torch.cuda._lazy_call = lambda call, **kwargs: Cupti.queued.append(call)
there = os.path.exists
os.path.exists = lambda path: path == "/dev/nvidiactl" or there(path)
sys.modules["program"] = types.ModuleType("program")
sys.modules["program"].start_gpu = start_gpu  # type: ignore[attr-defined]
