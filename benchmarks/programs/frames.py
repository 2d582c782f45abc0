"""Looks at its own frames: warnings, a stack, a recursion to the limit."""

import inspect
import os
import sys
import traceback
import warnings

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train_step():
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def deep(level=0):
    try:
        return deep(level + 1)
    except RecursionError:
        return level


warnings.warn("about this line")
warnings.warn("about who calls it", stacklevel=2)
traceback.print_stack()
print([os.path.basename(frame.filename) for frame in inspect.stack()], deep())
print(sys._getframe().f_back, inspect.getsource(train_step)[:15], inspect.getmodule(train_step))
try:
    train_step(1)
except TypeError:
    traceback.print_exc()
for step in range(STEPS):
    train_step()
print("trained")
