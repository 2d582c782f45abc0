"""Asks on its terminal before it trains."""

import os
import sys

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


print(sys.stdin.isatty(), sys.stdout.isatty(), os.isatty(0), os.get_terminal_size(1))
steps = int(input("How many? "))
for step in range(max(steps, STEPS)):
    train_step()
print("trained", steps, sys.stdin.readline().strip())
