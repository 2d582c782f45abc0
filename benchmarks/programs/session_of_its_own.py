"""Begins a session of its own and trains there, in a process whose parent is gone; the first one waits."""

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


read, write = os.pipe()
if os.fork():
    os.close(write)
    print(os.read(read, 100).decode())
    sys.exit(0)
os.setsid()
for step in range(STEPS):
    train_step()
os.write(write, b"trained")
