#!/usr/bin/env bash
# Guess: torch.profiler's export_chrome_trace raises OSError if the disk is full, as any write in Python does.
# Versions: torch 2.13.0, and 2.14.1 in the same way.
# Behavior: it returns None; Kineto prints "Failed to write to log file!" to standard error. Of x.json there is
# nothing but half of it, named x.json.tmp. x.json.gz is there, a sound gzip file of no bytes at all: a job that
# looks whether its trace was written finds one. It is the same for a folder that does not exist.
# Output seen: x.json: returned None; {'x.json.tmp': 500}
#              x.json.gz: returned None; {'x.json.gz': 27, 'x.json.tmp': 500}
#              nowhere/x.json: returned None; {'x.json.gz': 27, 'x.json.tmp': 500}
# A limit on the size of files (ulimit -f) stands for the full disk.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.13.0 numpy
cd "$work"
"$work/venv/bin/python" - <<'END'
import gzip
import os
import resource
import signal

import torch
from torch.profiler import ProfilerActivity, profile

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing then fails as on a full disk
for name in ("x.json", "x.json.gz", "nowhere/x.json"):
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        for _ in range(10):
            torch.ones(8, 8) @ torch.ones(8, 8)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))
    returned = prof.export_chrome_trace(name)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(f"{name}: returned {returned};", {file: os.path.getsize(file) for file in os.listdir() if file[0] == "x"})
    assert returned is None
    assert os.listdir().count(name) == name.endswith(".gz")
assert os.path.getsize("x.json.tmp") == 500
assert gzip.open("x.json.gz").read() == b""
END
