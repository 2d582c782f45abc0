"""torch.compile of the model; the optimizer is eager."""

import os

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

fast = torch.compile(model, backend="aot_eager")
for step in range(STEPS):
    optimizer.zero_grad()
    loss = fast(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
print("trained", f"{loss.item():.6f}", torch._dynamo.utils.counters["stats"]["unique_graphs"])
