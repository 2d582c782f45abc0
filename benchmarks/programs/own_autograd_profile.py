"""torch.autograd.profiler.profile, of which it prints a table."""

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


with torch.autograd.profiler.profile() as prof:
    for step in range(STEPS):
        train_step()
table = prof.key_averages().table(sort_by="count", row_limit=3)
print("trained", len(table.splitlines()), sum(e.name == "aten::linear" for e in prof.function_events))
