"""DistributedDataParallel in a group of one, by gloo."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=0, world_size=1)
wrapped = DistributedDataParallel(model)
try:
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = wrapped(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
    print("trained", f"{loss.item():.6f}")
finally:
    dist.destroy_process_group()
    print("cleanup: group destroyed")
