"""Gradient accumulation: an optimizer's step for every four batches."""

import os

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for step in range(STEPS * 4):
    loss = model(torch.randn(4, 8)).square().mean() / 4
    loss.backward()
    if step % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
print("trained", f"{loss.item():.6f}")
