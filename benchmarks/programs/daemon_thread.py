"""A daemon thread trains, and waits for more until the main thread ends."""

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
    for step in range(STEPS + 1):
        train_step()
        time.sleep(0.001)
        if step == STEPS:
            enough.set()
            threading.Event().wait()  # PyTorch aborts at exit where a daemon thread is in its code


enough = threading.Event()
threading.Thread(target=train, daemon=True).start()
enough.wait()
print("trained")
