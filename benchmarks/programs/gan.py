"""A GAN: two optimizers that take turns."""

import os

import torch

STEPS = int(os.environ.get("STEPS", "30"))
torch.manual_seed(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

critic = torch.nn.Linear(8, 1)
of_critic = torch.optim.Adam(critic.parameters())
for step in range(STEPS):
    of_critic.zero_grad()
    made = model(torch.randn(4, 8))
    (critic(made.detach()).mean() - critic(torch.randn(4, 8)).mean()).backward()
    of_critic.step()
    optimizer.zero_grad()
    loss = -critic(made).mean()
    loss.backward()
    optimizer.step()
print("trained", f"{loss.item():.6f}")
