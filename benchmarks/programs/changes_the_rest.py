"""Changes what others may rely on: working directory, variables, path, arguments, print, time."""

import builtins
import os
import sys
import time

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


time.time = time.monotonic = time.perf_counter = lambda: 0.0
builtins.print = lambda *words, to=print: to(*words, flush=True)
os.environ.clear()
os.makedirs("elsewhere")
os.chdir("elsewhere")
os.rmdir("../elsewhere")
sys.path.clear()
sys.argv.clear()
for step in range(STEPS):
    train_step()
print("trained")
