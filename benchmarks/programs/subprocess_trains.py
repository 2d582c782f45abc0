"""Starts a Python that trains, and waits for it; makes no step itself."""

import subprocess
import sys

if sys.argv[1:] != ["train"]:
    import torch

    print("threads" if torch.get_num_threads() else "")
    done = subprocess.run([sys.executable, sys.argv[0], "train"], capture_output=True, text=True)
    print(done.returncode, done.stdout, done.stderr)
    sys.exit(done.returncode)

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


for step in range(STEPS):
    train_step()
print("trained")
