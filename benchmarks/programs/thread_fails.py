"""A thread fails, and Python says so; the main thread goes on."""

import os
import threading

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


def fail():
    train_step()
    raise ValueError("in the thread")


for step in range(STEPS):
    train_step()
thread = threading.Thread(target=fail, name="loader")
thread.start()
thread.join()
print("trained")
