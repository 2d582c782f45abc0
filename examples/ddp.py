"""Data-parallel training on as many GPUs as there are processes: a script to capture.

    torchrun --nproc-per-node 2 --no-python tracetui capture examples/ddp.py --no-open

Every rank captures itself, into files of its own. Without GPUs it runs on the CPU, through gloo; add
`-- --dim 64 --batch 32` there.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--dim", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=8)
    options = parser.parse_args()

    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    torch.manual_seed(0)
    layers = [m for _ in range(options.layers) for m in (nn.Linear(options.dim, options.dim), nn.GELU())]
    model = DistributedDataParallel(nn.Sequential(*layers).to(device))
    optimizer = torch.optim.AdamW(model.parameters(), fused=cuda)
    for _ in range(options.steps):
        x = torch.randn(options.batch, options.dim, device=device)
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
