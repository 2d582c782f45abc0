#!/usr/bin/env bash
# Guess: "est. achieved occupancy %" of a kernel follows from its warps per SM: 12 of 64 are 18 %, or 19 %.
# Versions: torch 2.11.0 (CUDA 13.0), on an NVIDIA H200. Needs an NVIDIA GPU of the Hopper kind or newer.
# Behavior: it is 0 for every kernel with more shared memory than 48 KiB, which kernels have to ask for by themselves:
# all matrix products and attention kernels that are made for Hopper. Those that take most of the time of a large model
# have no occupancy, and a mean over the trace weighed by time is far too low.
# Output seen: 213188 bytes of shared memory, 12.0 warps per SM: 0 %
#              0 bytes of shared memory, 64.0 warps per SM: 63 %
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.11.0 numpy
cd "$work"
"$work/venv/bin/python" - <<'END'
import json

import torch
from torch.profiler import ProfilerActivity, profile

factor = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
    torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) @ factor
    torch.cuda.synchronize()
prof.export_chrome_trace("trace.json")
events = json.load(open("trace.json"))["traceEvents"]
kernels = [event["args"] for event in events if event.get("cat") == "kernel"]
for args in kernels:
    shared, warps, share = (args[key] for key in ("shared memory", "warps per SM", "est. achieved occupancy %"))
    print(f"{shared} bytes of shared memory, {warps} warps per SM: {share} %")
large = [args for args in kernels if args["shared memory"] > 48 << 10]
assert large, "no kernel with much shared memory: not a GPU of this kind?"
assert all(args["warps per SM"] >= 1 and args["est. achieved occupancy %"] == 0 for args in large)
assert any(args["est. achieved occupancy %"] > 0 for args in kernels if args not in large)
END
