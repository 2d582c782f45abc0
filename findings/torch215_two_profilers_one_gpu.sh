#!/usr/bin/env bash
# Guess: PyTorch 2.15 has two profilers for CUDA (Kineto and Cuspy), chosen by a configuration of one and the same
# torch.profiler.profile: a process can use one, and after its end the other.
# Versions: torch 2.15.0 (CUDA 13.2), cupti-python 13.4.0, libcupti 13.4.92, driver 580.159.04, NVIDIA H200. Needs a GPU.
# Behavior: the first one keeps the GPU until the process ends. Kineto after Cuspy records nothing of the GPU and says
# nothing: a trace of CPU work alone, as if the program had not used the GPU. Cuspy after Kineto runs, but its
# export_chrome_trace writes no file, with a Python warning. A warm-up or a library that profiles once is enough.
# Output seen: Cuspy, then Kineto: 20 kernels, then 0, warnings: none
#              Kineto, then Cuspy: 20 kernels, then no file, warnings: Cuspy observer unavailable; skipping chrome trace export
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
cat > two.py <<'END'
import gzip
import json
import os
import sys
import warnings

import torch
from torch import profiler

cuspy = profiler.ProfilerActivityConfig(profiler_configs=[profiler.CuspyConfig()])
GPU = {"Kineto": profiler.ProfilerActivity.CUDA, "Cuspy": {profiler.ProfilerActivity.CUDA: cuspy}}


def recorded(name):
    """The number of kernels in a trace of 20 products."""
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU, GPU[name]]) as prof:
        for _ in range(20):
            x @ x
        torch.cuda.synchronize()
    prof.export_chrome_trace(f"{name}.json")
    file = next((f for f in (f"{name}.json.gz", f"{name}.json") if os.path.exists(f)), None)
    if file is None:
        return "no file"
    with (gzip.open if file.endswith(".gz") else open)(file, "rt") as text:
        return sum(event.get("cat") == "kernel" for event in json.load(text)["traceEvents"])


x = torch.randn(512, 512, device="cuda")
x @ x
torch.cuda.synchronize()
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    first, second = map(recorded, sys.argv[1:])
texts = sorted({str(one.message) for one in said if "uspy" in str(one.message) or "ineto" in str(one.message)})
print(f"{first} kernels, then {second}, warnings: {'; '.join(texts) or 'none'}")
END
one=$("$PYTHON" two.py Cuspy Kineto 2> /dev/null | tail -1)
other=$("$PYTHON" two.py Kineto Cuspy 2> /dev/null | tail -1)
echo "Cuspy, then Kineto: $one"
echo "Kineto, then Cuspy: $other"
[ "$one" = "20 kernels, then 0, warnings: none" ]
[[ $other == "20 kernels, then no file, warnings: "*"skipping chrome trace export"* ]]
