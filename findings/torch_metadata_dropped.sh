#!/usr/bin/env bash
# Guess: what profile.add_metadata was given before export_chrome_trace is in the file that it writes.
# Versions: torch 2.13.0, and 2.14.1 in the same way.
# Behavior: it is, only if the call came while the profiler was recording. After the with block, within on_trace_ready
# (where a job knows its step and its loss), and before the schedule's first active step it is dropped without a word.
# Nor does it last: the file of the next cycle lacks it.
# Output seen: during: kept; after: dropped; on_trace_ready: dropped; before the cycle: dropped; next cycle: dropped
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy
cd "$work"
"$work/venv/bin/python" -W ignore - <<'END'
import json

import torch
from torch.profiler import ProfilerActivity, profile, schedule

CPU = [ProfilerActivity.CPU]


def header(path):
    return {key for key in json.load(open(path)) if key.startswith("given")}


with profile(activities=CPU) as prof:
    torch.ones(2)
    prof.add_metadata("given during", "1")
prof.add_metadata("given after", "1")
prof.export_chrome_trace("one.json")

written = []


def ready(prof):
    prof.add_metadata("given in on_trace_ready", "1")
    written.append(f"{prof.step_num}.json")
    prof.export_chrome_trace(written[-1])


with profile(activities=CPU, schedule=schedule(wait=1, warmup=1, active=1, repeat=2), on_trace_ready=ready) as prof:
    prof.add_metadata("given before the cycle", "1")
    for step in range(8):
        torch.ones(2)
        if step == 2:
            prof.add_metadata("given in the first cycle", "1")
        prof.step()

for path in ("one.json", *written):
    print(path, sorted(header(path)))
assert header("one.json") == {"given during"}
assert [header(path) for path in written] == [{"given in the first cycle"}, set()]
END
