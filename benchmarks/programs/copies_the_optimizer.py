"""Copies and pickles its optimizer in the middle, and saves a checkpoint."""

import copy
import os
import pickle

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
    if step % 10 == 5:
        optimizer = copy.deepcopy(optimizer)
        optimizer.param_groups[0]["params"] = list(model.parameters())
    if step == 12:
        print(sorted(vars(pickle.loads(pickle.dumps(optimizer)))), sorted(vars(optimizer)))
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
print("trained", optimizer.step.__name__)
