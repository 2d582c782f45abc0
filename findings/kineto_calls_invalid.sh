#!/usr/bin/env bash
# Guess: each cuda_runtime event of a trace is named after the function that was called.
# Versions: torch 2.11.0 (CUDA 13.0, CUPTI 13.0.85), on an NVIDIA H200. Needs an NVIDIA GPU.
# Behavior: functions that came with CUDA 12.3 and 12.8 are called "INVALID", all of them alike: among them the question
# whether a stream is being captured, four of which come with a graph of three kernels, and Event.elapsed_time. Only the
# number in "cbid" tells them apart; CUPTI's header says what it stands for.
# Output seen: elapsed_time: INVALID 486 (cudaEventElapsedTime_v12080)
#              capture: INVALID 461 (cudaStreamGetCaptureInfo_v12030)
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.11.0 numpy
cd "$work"
"$work/venv/bin/python" - <<'END'
import json
import re
import sysconfig
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

headers = Path(sysconfig.get_path("purelib"), "nvidia").rglob("cupti_runtime_cbid.h")
text = next((path.read_text() for path in headers), "")
names = {int(number): name for name, number in re.findall(r"CBID_(\w+)\s*=\s*(\d+)", text)}
one = torch.ones(8, device="cuda")
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))


def time():
    begin.record()
    one + 1
    end.record()
    end.synchronize()
    begin.elapsed_time(end)


def capture():
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        (one * 2 + 1).relu()


def invalid(run):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        run()
        torch.cuda.synchronize()
    prof.export_chrome_trace("trace.json")
    events = json.load(open("trace.json"))["traceEvents"]
    return {event["args"]["cbid"] for event in events if event["name"] == "INVALID" and event["cat"] == "cuda_runtime"}


for what, run, number in (("elapsed_time", time, 486), ("capture", capture, 461)):
    found = invalid(run)
    print(f"{what}:", *(f"INVALID {n} ({names.get(n, '?')})" for n in found))
    assert number in found
END
