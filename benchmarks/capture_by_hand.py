"""The script that somebody would write without tracetui: the baseline of `capture_matrix.py overhead`.

    python benchmarks/capture_by_hand.py mlp cuda 50 out.json

It makes the same tensors, and profiles the same steps under the same schedule, as `tracetui capture mlp`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule


def matmul_add(device: str) -> Callable[[], object]:
    x, w, b = (torch.randn(64, 64, device=device, dtype=torch.bfloat16) for _ in range(3))

    def step() -> object:
        with record_function("matmul_add"):
            return torch.add(torch.matmul(x, w), b)

    return step


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(768, 3072, bias=False)
        self.up = nn.Linear(768, 3072, bias=False)
        self.down = nn.Linear(3072, 768, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.gate(x), approximate="tanh") * self.up(x))


def mlp(device: str) -> Callable[[], object]:
    x = torch.randn(64, 128, 768, device=device, dtype=torch.bfloat16)
    model = MLP().to(device, torch.bfloat16).requires_grad_(False)

    def step() -> object:
        with record_function("mlp_fwd"):
            return model(x)

    return step


def main() -> None:
    name, device, active, path = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    torch.manual_seed(0)
    step = {"matmul_add": matmul_add, "mlp": mlp}[name](device)
    for _ in range(3):
        step()
    activities = [ProfilerActivity.CPU]
    if device == "cuda":
        torch.cuda.synchronize()
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, schedule=schedule(wait=1, warmup=1, active=active, repeat=1)) as prof:
        for _ in range(1 + 1 + active):
            step()
            prof.step()
    prof.export_chrome_trace(path)


if __name__ == "__main__":
    main()
