"""Two threads of a pool train a model each, at the same time."""

import os
from concurrent.futures import ThreadPoolExecutor

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train(number):
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).square().mean().backward()
        optimizer.step()
    return number


with ThreadPoolExecutor(2) as pool:
    print("trained", list(pool.map(train, range(2))))
