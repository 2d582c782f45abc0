"""Ends with an exit code of its own before any step."""

import os
import sys

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

if STEPS:
    print("nothing to do")
    sys.exit(4)
