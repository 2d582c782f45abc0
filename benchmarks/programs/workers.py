"""A DataLoader with two workers, new ones for each epoch."""

import os

import torch
from torch.utils.data import DataLoader, TensorDataset

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

loader = DataLoader(TensorDataset(torch.randn(40, 8)), batch_size=4, num_workers=2)
for epoch in range(max(3, STEPS // 10)):
    for (batch,) in loader:
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
print("trained", f"{loss.item():.6f}")
