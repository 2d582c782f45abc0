"""Begins again after whatever went wrong, as a supervisor does."""

import os

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


step = 0
while step < STEPS:
    try:
        while step < STEPS:
            train_step()
            step += 1
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        print("again after", type(error).__name__)
print("trained", step)
