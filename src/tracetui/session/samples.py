"""The sample traces that come with tracetui."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tracetui.session.paths import may_be_trace, trace_stem

ABOUT: Mapping[str, str] = {
    "matmul_add_64_cold": "a first call: setup and lazy loading",
    "matmul_add_64_warm": "tiny kernels: the GPU waits for the CPU",
    "matmul_add_64_20_steps": "the profiler itself delays the first launch",
    "matmul_add_4096_eager": "a large matmul: the CPU waits for the GPU",
    "matmul_add_4096_compile": "torch.compile: mm and add become one addmm",
    "linear": "nn.Linear: a transpose that costs nothing",
    "mlp_eager": "a GeGLU MLP: five kernels per step",
    "mlp_compile": "compiled: one Triton kernel replaces two",
    "mlp_liger": "the same fusion as a hand-written kernel",
    "mlp_cuda_graph": "a CUDA graph: one launch, five kernels",
    "attention_naive": "attention written out, one kernel per line",
    "attention_sdpa": "fused attention: 18 times less GPU time",
    "attention_math": "the same op, not fused: 20 kernels",
    "llm_decode": "one token per step: the GPU is 93% idle",
    "train": "training: forward, backward, fused AdamW",
    "train_memory": "a training step and the memory it takes",
    "train_ddp": "data-parallel: all-reduce beside backward",
}
"""What each sample teaches, in reading order; at most 43 cells."""


def sample_folder() -> Path | None:
    """Their folder: in the installed package, else at the root of a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "sample_traces", package.parent.parent / "sample_traces"):
        if folder.is_dir():
            return folder
    return None


def samples() -> dict[str, Path]:
    """The bundled samples by name (path below their folder without the ending), in reading order."""
    folder = sample_folder()
    if folder is None:
        return {}
    paths = [path for path in sorted(folder.rglob("*.json*")) if may_be_trace(path.name)]
    found = {str(path.relative_to(folder).with_name(trace_stem(path))): path for path in paths}
    order = {name: n for n, name in enumerate(ABOUT)}
    return dict(sorted(found.items(), key=lambda item: order.get(item[0], len(order))))
