"""python -m package"""

import os
import sys

import torch

from . import ARGV

STEPS = int(os.environ.get("STEPS", "30"))
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(STEPS):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
print("trained", ARGV, sys.argv, __name__, __package__, __spec__.name)
raise RuntimeError("at its end")
