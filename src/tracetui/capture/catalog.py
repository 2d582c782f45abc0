"""The built-in workloads with their options; does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tracetui.core.option import Option, Value


@dataclass(frozen=True)
class Workload:
    """A built-in program to capture. Its code is `workloads/NAME.py`, which only the child imports."""

    name: str
    text: str
    """One line for menus and help."""
    params: tuple[Option, ...]

    def defaults(self) -> dict[str, Value]:
        return {p.name: p.default for p in self.params}

    def param(self, name: str) -> Option | None:
        return next((p for p in self.params if p.name == name), None)

    def tag(self, values: Mapping[str, Value]) -> str:
        """The part of a file name made from the sizes, e.g. "64x128x768x3072" or "sdpa_8x16x1024x64".

        Words come first; defaults are left out, except for the first option.
        """
        words, sizes = [], []
        for i, p in enumerate(self.params):
            value = values.get(p.name, p.default)
            if p.choices:
                if i == 0 or value != p.default:
                    words.append(str(value))
            elif value is not None:
                sizes.append(str(value))
        return "_".join([*words, "x".join(sizes)])


_MODEL = (
    Option("batch", 1, "sequences"),
    Option("seq", 256, "tokens of each sequence (decode: already in the KV cache)"),
    Option("layers", 4, "transformer blocks"),
    Option("dim", 512, "width of the residual stream"),
    Option("heads", 8, "query heads"),
    Option("kv_heads", 2, "key and value heads, shared by the query heads (GQA)"),
    Option("hidden", 1536, "width inside the MLP"),
    Option("vocab", 8192, "size of the vocabulary"),
    Option("mlp", "swiglu", "the MLP's gate", ("swiglu", "geglu")),
)

WORKLOADS: Mapping[str, Workload] = {
    w.name: w
    for w in (
        Workload(
            "matmul_add",
            "torch.add(torch.matmul(x, w), b): the smallest trace worth reading",
            (
                Option("batch", None, "adds a batch axis: 3-D tensors, so bmm runs instead of mm"),
                Option("size", 64, "rows and columns of each matrix"),
            ),
        ),
        Workload(
            "linear",
            "nn.Linear with bias, forward",
            (
                Option("batch", 1024, "rows of the input"),
                Option("in_dim", 32, "input features"),
                Option("out_dim", 64, "output features"),
            ),
        ),
        Workload(
            "mlp",
            "a GeGLU MLP: gate, up and down projections around gelu and a multiply",
            (
                Option("batch", 64, "sequences"),
                Option("seq", 128, "tokens of each sequence"),
                Option("dim", 768, "width of the input"),
                Option("hidden", 3072, "width between the projections"),
                Option(
                    "kernel",
                    "eager",
                    "gelu and multiply: PyTorch's kernels, or a Liger kernel",
                    ("eager", "liger"),
                ),
            ),
        ),
        Workload(
            "attention",
            "causal attention, written out or as one of PyTorch's fused kernels",
            (
                Option(
                    "backend",
                    "sdpa",
                    "written out (naive, inplace), PyTorch's choice (sdpa), single ops (math), or one kernel",
                    ("naive", "inplace", "sdpa", "flash", "efficient", "math", "cudnn"),
                ),
                Option("batch", 8, "sequences"),
                Option("heads", 16, "attention heads"),
                Option("seq", 1024, "tokens of each sequence"),
                Option("head_dim", 64, "width of a head"),
            ),
        ),
        Workload(
            "llm",
            "a small decoder-only transformer: RMSNorm, rotary positions, GQA, KV cache; random weights",
            (
                Option("phase", "prefill", "the whole prompt, or a token at a time", ("prefill", "decode")),
                *_MODEL,
            ),
        ),
        Workload(
            "train",
            "training a transformer: forward, backward, AdamW",
            (
                Option(
                    "optimizer",
                    "fused",
                    "AdamW: one fused kernel, the multi-tensor kernels, or a plain loop over the parameters",
                    ("fused", "foreach", "plain"),
                ),
                Option(
                    "loss",
                    "kept",
                    "the loss stays on the GPU, or each step reads it (item), as for a log",
                    ("kept", "item"),
                ),
                *(Option(p.name, 4 if p.name == "batch" else p.default, p.help, p.choices) for p in _MODEL),
            ),
        ),
    )
}
"""Workloads by name, in the order for learners."""
