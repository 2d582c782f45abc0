"""Hogwild: two forked workers train one shared model; the main process makes no step."""

import os

import torch
import torch.multiprocessing as mp

STEPS = int(os.environ.get("STEPS", "30"))


def train(model):
    torch.set_num_threads(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()


model = torch.nn.Linear(8, 8)
model.share_memory()
context = mp.get_context("fork")
workers = [context.Process(target=train, args=(model,)) for _ in range(2)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print("trained", [worker.exitcode for worker in workers])
