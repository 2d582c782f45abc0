"""torch.profiler._KinetoProfile, which has no schedule."""

import os

import torch
from torch.profiler import ProfilerActivity, _KinetoProfile

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


prof = _KinetoProfile(activities=[ProfilerActivity.CPU])
prof.start()
for step in range(STEPS):
    train_step()
prof.stop()
prof.export_chrome_trace("own.json")
print("trained", sum(row.count for row in prof.key_averages() if row.key == "aten::linear"))
