"""Takes its data from standard input, to its end."""

import os
import sys

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

total = 0.0
for line in sys.stdin:
    optimizer.zero_grad()
    loss = model(torch.full((1, 8), float(line))).square().mean()
    loss.backward()
    optimizer.step()
    total += loss.item()
print("trained", f"{total:.6f}")
