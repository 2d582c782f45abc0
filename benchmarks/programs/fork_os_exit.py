"""Forks a child, by multiprocessing, while it trains, several times."""

import multiprocessing
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


def work():
    for _ in range(5):
        train_step()


for step in range(STEPS):
    train_step()
    if step < 25 and step % 4 == 0:
        child = multiprocessing.get_context("fork").Process(target=work)
        child.start()
        child.join()
        if child.exitcode:
            print("child", child.exitcode)
print("trained")
