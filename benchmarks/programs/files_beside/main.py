"""Relative paths, a module beside it, and os.chdir."""

import os
from helper import numbers

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

data = torch.tensor(numbers("data.txt"))
os.makedirs("run/1")
os.chdir("run/1")
with open("loss.txt", "w") as log:
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        optimizer.step()
        if step < 30:
            print(step, f"{loss.item():.6f}", file=log)
torch.save(model.state_dict(), "../model.pt")
print("trained", os.path.basename(os.getcwd()), os.path.exists(__file__))
