"""Trains while a Python that it has started trains as well."""

import subprocess
import sys

other = None
if sys.argv[1:] != ["train"]:
    other = subprocess.Popen([sys.executable, sys.argv[0], "train"], stdout=subprocess.PIPE, text=True)

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


try:
    for step in range(STEPS):
        train_step()
    print("trained")
finally:
    if other is not None:
        print("cleanup: waited for the other")
        other.terminate() if STEPS > 1000 else other.wait()
if other is not None:
    print(other.returncode, other.stdout.read())
