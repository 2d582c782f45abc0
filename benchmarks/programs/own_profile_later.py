"""A profiler of its own for a few steps late in the run."""

import os

import torch
from torch.profiler import profile

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
    if step == 20:
        prof = profile()
        prof.start()
    train_step()
    if step == 24:
        prof.stop()
        prof.export_chrome_trace("own.json")
print("trained", sum(row.count for row in prof.key_averages() if row.key.startswith("Optimizer.step")))
