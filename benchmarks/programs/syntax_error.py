"""Cannot be compiled."""

import torch

model = torch.nn.Linear(8, 8
for step in range(30):
    model.zero_grad()
