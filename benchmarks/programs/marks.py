"""Marks its iterations by record_function; two optimizer steps are in each."""

import os

import torch
from torch.profiler import record_function

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


for step in range(STEPS):
    with record_function("iteration"):
        train_step()
        train_step()
print("trained")
