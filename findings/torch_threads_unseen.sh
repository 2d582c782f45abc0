#!/usr/bin/env bash
# Guess: torch.profiler.profile records the ops of the whole process while it is on, as it does the GPU's kernels.
# Versions: torch 2.13.0, and 2.14.1 in the same way.
# Behavior: only those of the thread that started it, and of autograd's threads. Ops and record_function ranges of other
# Python threads (a data loader's, a server's pool, an actor's) are in neither key_averages() nor the trace, without a
# word; on a GPU the kernels that they launch are there, with nothing on the CPU that they belong to. An experimental
# option that no tutorial names records them.
# Output seen: by default: ['in main']
#              profile_all_threads: ['in main', 'in thread']
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy
cd "$work"
"$work/venv/bin/python" - <<'END'
import json
import threading

import torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, record_function


def multiply():
    with record_function("in thread"):
        torch.ones(64, 64) @ torch.ones(64, 64)


def recorded(**options):
    with profile(activities=[ProfilerActivity.CPU], **options) as prof:
        with record_function("in main"):
            torch.ones(2)
        thread = threading.Thread(target=multiply)
        thread.start()
        thread.join()
    prof.export_chrome_trace("trace.json")
    names = {event["name"] for event in json.load(open("trace.json"))["traceEvents"]}
    rows = {row.key for row in prof.key_averages()}
    assert names >= rows
    assert ("aten::mm" in rows) == ("in thread" in rows)
    return sorted(name for name in rows if name.startswith("in "))


default, all_threads = recorded(), recorded(experimental_config=_ExperimentalConfig(profile_all_threads=True))
print("by default:", default)
print("profile_all_threads:", all_threads)
assert default == ["in main"]
assert all_threads == ["in main", "in thread"]
END
