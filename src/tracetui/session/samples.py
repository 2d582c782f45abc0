"""The sample traces that come with tracetui."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

ENDINGS = (".json.gz", ".json")


ABOUT: Mapping[str, str] = {
    "matmul_add_64_cold": "the very first call: all is set up",
    "matmul_add_64_warm": "two small kernels a step: overhead-bound",
    "matmul_add_64_20_steps": "the profiler's own work delays a step",
    "matmul_add_4096_eager": "a large product: the CPU waits",
    "matmul_add_4096_compile": "the same by torch.compile",
    "linear": "nn.Linear: one kernel, a free transpose",
    "mlp_eager": "a GeGLU MLP: five kernels a step",
    "mlp_compile": "compiled: a Triton kernel fuses two",
    "mlp_liger": "with a fused kernel written by hand",
    "mlp_cuda_graph": "as a CUDA graph: one launch a step",
    "attention_naive": "attention written out, kernel by kernel",
    "attention_sdpa": "the same as one fused kernel",
    "llm_decode": "a token a step: a GPU mostly idle",
    "train": "two steps: forward, backward, AdamW",
    "train_memory": "one step, with the memory it takes",
    "train_ddp": "one of two GPUs: NCCL beside backward",
}
"""What to look at in each, in reading order."""


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
    found = {}
    for path in sorted(folder.rglob("*.json*")):
        ending = next((e for e in ENDINGS if path.name.endswith(e)), None)
        if ending and not path.name.endswith((".meta.json", ".averages.json")):
            found[str(path.relative_to(folder)).removesuffix(ending)] = path
    order = {name: n for n, name in enumerate(ABOUT)}
    return dict(sorted(found.items(), key=lambda item: order.get(item[0], len(order))))
