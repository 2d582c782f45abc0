#!/usr/bin/env bash
# Guess: the "Lazy Function Loading" slice of a trace spans what the first launch of a kernel costs: with it taken away,
# the launch call takes as long as any other.
# Versions: torch 2.11.0 (CUDA 13.0), driver 580.159.04, NVIDIA H200. Needs a GPU.
# Behavior: loading a function waits until the GPU has done all that was queued before. The call that launches a kernel for
# the first time then takes as long as that queue, while the profiler's slice of the loading says some microseconds.
# So one new kernel in a loop that runs ahead of the GPU is a synchronization with no name: no wait, no ".item()".
# Output seen: 431 ms of queued work: first launch of a new kernel 404 ms, loading slice 0.09 ms; again 0.01 ms
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${PYTHON:-}" ]; then
    python3 -m venv "$work/venv"
    PYTHON=$work/venv/bin/python
    "$PYTHON" -m pip install -q torch==2.11.0 numpy
fi
cd "$work"
"$PYTHON" - <<'END'
import json
import time

import torch
from torch.profiler import ProfilerActivity, profile

x = torch.randn(8192, 8192, device="cuda")
x @ x
torch.cuda.synchronize()
begun = time.perf_counter()
for _ in range(10):
    x @ x
torch.cuda.synchronize()
queued = 100 * (time.perf_counter() - begun)  # ms of one product
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
    x + 1  # what the profiler does at its first launch is over
    torch.cuda.synchronize()
    for _ in range(20):
        x @ x
    x.clamp_(-1, 1)  # new
    for _ in range(20):
        x @ x
    x.clamp_(-1, 1)
    torch.cuda.synchronize()
prof.export_chrome_trace("trace.json")
events = [event for event in json.load(open("trace.json"))["traceEvents"] if event.get("ph") == "X"]
kernels = sorted((e for e in events if e.get("cat") == "kernel" and "clamp" in e["name"]), key=lambda e: e["ts"])
calls = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime" and "Launch" in e["name"]}
first, again = (calls[e["args"]["correlation"]] for e in kernels)
end = first["ts"] + first["dur"]
loading = sum(e["dur"] for e in events if e["name"] == "Lazy Function Loading" and first["ts"] <= e["ts"] < end) / 1000
print(
    f"{20 * queued:.0f} ms of queued work: first launch of a new kernel {first['dur'] / 1000:.0f} ms, "
    f"loading slice {loading:.2f} ms; again {again['dur'] / 1000:.2f} ms"
)
assert first["dur"] / 1000 > 10 * queued
assert 0 < loading < queued
assert again["dur"] / 1000 < 1
END
