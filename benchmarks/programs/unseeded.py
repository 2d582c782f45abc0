"""Sets no seed: PyTorch's own is another one in each run."""

import os

import torch

STEPS = int(os.environ.get("STEPS", "30"))
print(torch.initial_seed() > 1000 or torch.initial_seed() < -1000)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(STEPS):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
print("trained")
