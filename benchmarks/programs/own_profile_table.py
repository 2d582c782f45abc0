"""A profiler of its own around everything, of which it prints a table."""

import os

import torch
from torch.profiler import profile, record_function

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


with profile(record_shapes=True) as prof:
    for step in range(STEPS):
        with record_function("step"):
            train_step()
for row in sorted(prof.key_averages(), key=lambda row: row.key):
    print(row.key, row.count)
