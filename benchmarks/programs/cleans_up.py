"""A loop inside finally, with and atexit, which all have something to do at the end."""

import atexit
import os
from contextlib import contextmanager

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


@contextmanager
def resource():
    try:
        yield
    finally:
        print("cleanup: with")


atexit.register(print, "cleanup: atexit")
try:
    with resource():
        for step in range(STEPS):
            loss = train_step()
        print("trained", f"{loss:.6f}")
finally:
    print("cleanup: finally")
