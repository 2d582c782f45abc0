"""Autocast and a GradScaler, which skips the first steps: their gradients are infinite."""

import os

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120)
for step in range(STEPS):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(torch.randn(4, 8)).square().mean() * 1e6
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print("trained", scaler.get_scale())
