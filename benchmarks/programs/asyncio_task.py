"""An asyncio task that nobody awaits: an error in it reaches nobody."""

import asyncio
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


async def train(done):
    for step in range(STEPS):
        train_step()
        await asyncio.sleep(0)
    done.append(True)


async def main():
    done = []
    task = asyncio.create_task(train(done))
    try:
        while not done:
            await asyncio.sleep(0.01)
        print("trained", task.done())
    finally:
        print("cleanup: main")


asyncio.run(main())
