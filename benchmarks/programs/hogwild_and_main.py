"""The main process trains, too, while a forked worker does."""

import os

import torch
import torch.multiprocessing as mp

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


for step in range(2):
    train_step()
worker = mp.get_context("fork").Process(target=train)
worker.start()
try:
    train()
    worker.join()
    print("trained", worker.exitcode)
finally:
    worker.terminate()
    print("cleanup: worker ended")
