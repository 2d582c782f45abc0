"""Forks a child that trains as well."""

import os
import sys

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train_step():
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


for step in range(3):
    train_step()
pid = os.fork()
for step in range(STEPS):
    loss = train_step()
print("child" if pid == 0 else "parent", f"{loss:.6f}", flush=True)
if pid == 0:
    sys.exit(0)
print("child ended with", os.waitpid(pid, 0)[1])
