#!/usr/bin/env bash
# Guess: a torch.profiler recording ends with the work that was launched in it: stop() waits for the GPU, as it always
# has, so that each launch in the trace has its kernel.
# Versions: torch 2.15.0 (CUDA 13.2), cupti-python 13.4.0, libcupti 13.4.92, driver 580.159.04, NVIDIA H200. Needs a GPU.
# Behavior: with PyTorch 2.15's second profiler, Cuspy, stop() does not wait. What is queued or runs at that moment is not
# in the file, and nothing says so: the launches are there, their kernels are not. The same program under Kineto lacks none.
# Busy shares and totals of a program whose GPU lags behind are of a part of its work.
# Output seen: Kineto: 40 of 40 launches have their kernel
#              Cuspy: 1 of 40 launches have their kernel
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${PYTHON:-}" ]; then
    python3 -m venv "$work/venv"
    PYTHON=$work/venv/bin/python
    "$PYTHON" -m pip install -q torch==2.15.0 numpy cupti-python==13.4.0 pyelftools==0.33
    "$PYTHON" -m pip install -q --no-deps nvidia-cuda-cupti==13.4.92
fi
cd "$work"
cat > lags.py <<'END'
import gzip
import json
import os
import sys

import torch
from torch import profiler

gpu = profiler.ProfilerActivity.CUDA
if sys.argv[1] == "Cuspy":
    gpu = {gpu: profiler.ProfilerActivityConfig(profiler_configs=[profiler.CuspyConfig()])}
x = torch.randn(8192, 8192, device="cuda")
x @ x
torch.cuda.synchronize()
with profiler.profile(activities=[profiler.ProfilerActivity.CPU, gpu]) as prof:
    for _ in range(40):
        x @ x
prof.export_chrome_trace("trace.json")
with gzip.open("trace.json.gz", "rt") if os.path.exists("trace.json.gz") else open("trace.json") as text:
    events = json.load(text)["traceEvents"]
ran = {event["args"]["correlation"] for event in events if event.get("cat") == "kernel"}
calls = [event for event in events if "LaunchKernel" in event.get("name", "") and "correlation" in event.get("args", {})]
have = sum(event["args"]["correlation"] in ran for event in calls)
print(f"{have} of {len(calls)} launches have their kernel")
END
kineto=$("$PYTHON" lags.py Kineto 2> /dev/null | tail -1)
rm -f trace.json*
cuspy=$("$PYTHON" lags.py Cuspy 2> /dev/null | tail -1)
echo "Kineto: $kineto"
echo "Cuspy: $cuspy"
[ "${kineto%% *}" = "$(echo "$kineto" | cut -d' ' -f3)" ]
[ "${cuspy%% *}" -lt "$(echo "$cuspy" | cut -d' ' -f3)" ]
