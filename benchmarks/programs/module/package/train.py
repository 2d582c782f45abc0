"""python -m package.train"""

import os
import sys

import torch

from .model import build

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = build()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(STEPS):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
print("trained", f"{loss.item():.6f}")
print(
    __name__,
    __package__,
    __spec__.name,
    sys.argv,
    __file__,
    sys.path[0],
    os.getcwd(),
    sys.modules["__main__"].__file__,
)
