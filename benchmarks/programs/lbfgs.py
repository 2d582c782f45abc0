"""LBFGS, whose step calls a closure several times."""

import os

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
calls = 0


def closure():
    global calls
    calls += 1
    optimizer.zero_grad()
    loss = model(torch.ones(4, 8)).square().mean()
    loss.backward()
    return loss


for step in range(STEPS):
    loss = optimizer.step(closure)
print("trained", calls, f"{loss.item():.6f}")
