"""Evaluates without an optimizer."""

import os

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

total = 0.0
with torch.inference_mode():
    for step in range(STEPS):
        total += model(torch.randn(4, 8)).sum().item()
print("evaluated", f"{total:.6f}")
