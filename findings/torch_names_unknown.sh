#!/usr/bin/env bash
# Guess: a trace calls a record_function range as the program does; at most, odd characters are escaped.
# Versions: torch 2.13.0, and 2.14.1 in the same way.
# Behavior: one letter outside ASCII, and the trace calls the whole range "unknown": ranges that differ become one
# name, while the same profile's key_averages() keeps them apart. Whoever computes PyTorch's table from its own trace
# gets one row where PyTorch has three.
# Output seen: key_averages: Größe, данные, データ
#              trace:        unknown, unknown, unknown
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy
cd "$work"
PYTHONIOENCODING=utf-8 "$work/venv/bin/python" - <<'END'
import json

import torch
from torch.profiler import ProfilerActivity, profile, record_function

NAMES = ["Größe", "данные", "データ"]
with profile(activities=[ProfilerActivity.CPU]) as prof:
    for name in NAMES:
        with record_function(name):
            torch.ones(2)
prof.export_chrome_trace("trace.json")
averages = [row.key for row in prof.key_averages() if row.key in NAMES]
events = json.load(open("trace.json"))["traceEvents"]
ranges = [event["name"] for event in events if event.get("cat") == "user_annotation"]
print("key_averages:", ", ".join(averages))
print("trace:       ", ", ".join(ranges))
assert sorted(averages) == sorted(NAMES)
assert ranges == ["unknown"] * 3
END
