"""Five tasks, each with an optimizer of its own."""

import os

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

for task in range(5):
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(max(6, STEPS // 5)):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
print("trained", f"{loss.item():.6f}")
