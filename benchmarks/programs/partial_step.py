"""The optimizer's step is called by a partial, from a generator."""

import functools
import os

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def steps(step):
    for number in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        step()
        yield loss.item()


for loss in steps(functools.partial(optimizer.step, closure=None)):
    pass
print("trained", f"{loss:.6f}")
