"""mp.spawn: two workers, which import this file again."""

import os

import torch
import torch.multiprocessing as mp

STEPS = int(os.environ.get("STEPS", "30"))


def train(rank):
    torch.manual_seed(rank)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
    with open(f"loss{rank}.txt", "w") as file:
        print(f"{loss.item():.6f}", file=file)


if __name__ == "__main__":
    mp.spawn(train, nprocs=2)
    print("trained", [open(f"loss{rank}.txt").read() for rank in range(2)])
