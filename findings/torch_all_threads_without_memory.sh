#!/usr/bin/env bash
# Guess: options of torch.profiler.profile add up: profile_memory=True records allocations with profile_all_threads=True
# as it does without, only of more threads.
# Versions: torch 2.13.0.
# Behavior: it records none at all, of no thread, without a word: the trace has no [memory] event, and every row of
# key_averages() says 0 bytes. All ops and shapes are there.
# Output seen: one thread: 4 allocations and frees, 8192 bytes
#              profile_all_threads: 0 allocations and frees, 0 bytes
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy
cd "$work"
"$work/venv/bin/python" - <<'END'
import json

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile


def recorded(**options):
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, **options) as prof:
        for _ in range(2):
            torch.ones(1024)
    prof.export_chrome_trace("trace.json")
    events = json.load(open("trace.json"))["traceEvents"]
    memory = sum(event["name"] == "[memory]" for event in events)
    (row,) = (row for row in prof.key_averages() if row.key == "aten::empty")
    assert row.count == 2
    return memory, row.self_cpu_memory_usage


one, every = recorded(), recorded(experimental_config=_ExperimentalConfig(profile_all_threads=True))
print("one thread: {} allocations and frees, {} bytes".format(*one))
print("profile_all_threads: {} allocations and frees, {} bytes".format(*every))
assert one == (4, 8192)
assert every == (0, 0)
END
