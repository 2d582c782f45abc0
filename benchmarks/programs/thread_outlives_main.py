"""A thread that is no daemon trains on after the main thread has ended."""

import os
import threading
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


def train():
    for step in range(STEPS):
        train_step()
        if STEPS < 1000:
            time.sleep(0.02)
    print("trained")


threading.Thread(target=train).start()
print("main ends")
