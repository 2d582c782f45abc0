"""A profiler of its own, with a schedule, which writes traces."""

import os

import torch
from torch.profiler import profile, schedule, tensorboard_trace_handler

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


with profile(
    schedule=schedule(wait=2, warmup=1, active=3, repeat=2),
    on_trace_ready=tensorboard_trace_handler("log"),
) as prof:
    for step in range(STEPS):
        train_step()
        prof.step()
print("trained", len(os.listdir("log")))
