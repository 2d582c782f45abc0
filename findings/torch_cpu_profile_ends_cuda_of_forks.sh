#!/usr/bin/env bash
# Guess: a torch.profiler recording of ProfilerActivity.CPU alone touches no GPU, so that what a process forks while it
# runs can use CUDA, as it can without the recording (the parent has not used CUDA).
# Versions: torch 2.11.0 (CUDA 13.0), on an NVIDIA H200. Needs an NVIDIA GPU.
# Behavior: the recording starts the CUDA driver in the parent, while torch.cuda.is_initialized() stays False, and a
# driver that was started is of no use after a fork. PyTorch's own check, which says "Cannot re-initialize CUDA in forked
# subprocess", does not see it either: the child gets a plain CUDA error. Programs that fork their workers before they use
# a GPU (launchers, samplers, actors) work until they are profiled on the CPU.
# Output seen: not recorded: works
#              recorded on the CPU alone: AcceleratorError: CUDA error: initialization error
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q torch==2.11.0 numpy
cd "$work"
cat > fork.py <<'END'
import contextlib
import os
import sys

import torch
from torch.profiler import ProfilerActivity, profile

recorded = sys.argv[1] == "recorded"
with profile(activities=[ProfilerActivity.CPU]) if recorded else contextlib.nullcontext():
    torch.ones(3).cos()
    assert not torch.cuda.is_initialized()
    if (pid := os.fork()) == 0:
        try:
            torch.ones(3, device="cuda").cos()
            said = "works"
        except Exception as error:
            said = f"{type(error).__name__}: {error}".splitlines()[0]
        print(said, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
END
plain=$("$work/venv/bin/python" -W ignore fork.py plain)
recorded=$("$work/venv/bin/python" -W ignore fork.py recorded 2> /dev/null)
echo "not recorded: $plain"
echo "recorded on the CPU alone: $recorded"
[ "$plain" = works ]
[[ $recorded == *"initialization error"* ]]
