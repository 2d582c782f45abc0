#!/usr/bin/env bash
# Guess: a collective that waits for a late rank costs the other rank's GPU nothing else: kernels that run beside it take as
# long as alone, since it moves no data yet.
# Versions: torch 2.11.0 (CUDA 13.0, NCCL 2.28.9), two NVIDIA H200s. Needs two GPUs.
# Behavior: its blocks spin on some of the GPU's multiprocessors until the late rank comes. Products beside the waiting
# all-reduce take longer by a fifth to two fifths, by their sizes. So kernels that are slower on one rank may be slower
# because another rank is late, not because that GPU is.
# Output seen: 4096 bfloat16: 0.175 ms alone, 0.246 ms beside it, 1.41 times
#              6144 bfloat16: 0.598 ms alone, 0.740 ms beside it, 1.24 times
#              3072 float32: 1.284 ms alone, 1.558 ms beside it, 1.21 times
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${PYTHON:-}" ]; then
    python3 -m venv "$work/venv"
    PYTHON=$work/venv/bin/python
    "$PYTHON" -m pip install -q torch==2.11.0 numpy
fi
cd "$work"
cat > late.py <<'END'
import os
import time

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
grads = torch.ones(64 << 20, device="cuda")


def products(x, count=20):
    """Milliseconds of the median of some products."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    marks[0].record()
    for mark in marks[1:]:
        x @ x
        mark.record()
    return marks


def median(marks):
    torch.cuda.synchronize()
    times = sorted(a.elapsed_time(b) for a, b in zip(marks, marks[1:]))
    return times[len(times) // 2]


for _ in range(3):
    dist.all_reduce(grads)
for size, dtype in ((4096, torch.bfloat16), (6144, torch.bfloat16), (3072, torch.float32)):
    x = torch.randn(size, size, device="cuda", dtype=dtype)
    products(x)
    torch.cuda.synchronize()
    dist.barrier()
    if rank == 0:
        alone = median(products(x))
    dist.barrier()
    torch.cuda.synchronize()
    if rank == 1:
        time.sleep(0.5)
    work = dist.all_reduce(grads, async_op=True)
    if rank == 0:
        time.sleep(0.05)  # its kernel has begun to wait
        beside = median(products(x))
        print(f"{size} {str(dtype)[6:]}: {alone:.3f} ms alone, {beside:.3f} ms beside it, {beside / alone:.2f} times", flush=True)
    work.wait()
    torch.cuda.synchronize()
    dist.barrier()
dist.destroy_process_group()
END
"$PYTHON" -m torch.distributed.run --nproc-per-node 2 late.py 2> /dev/null | tee out.txt
"$PYTHON" - <<'END'
ratios = [float(line.split()[-2]) for line in open("out.txt") if line.endswith("times\n")]
assert len(ratios) == 3
assert max(ratios) > 1.1
END
