"""Options with dashes, and -- among its arguments."""

import argparse
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


parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--active", type=int)
parser.add_argument("-m")
parser.add_argument("--run-to-end", action="store_true")
parser.add_argument("rest", nargs="*")
print(sys.argv, parser.parse_args())
for step in range(STEPS):
    train_step()
print("trained")
