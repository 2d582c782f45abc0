"""Hooks of the program's own on its optimizer, and a scheduler, which wraps the step as well."""

import os

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

calls = []
optimizer.register_step_pre_hook(lambda *given: calls.append("before"))
optimizer.register_step_post_hook(lambda *given: calls.append("after"))
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
for step in range(STEPS):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    optimizer.step()
    scheduler.step()
print("trained", calls[:3], len(calls), f"{scheduler.get_last_lr()[0]:.6f}")
