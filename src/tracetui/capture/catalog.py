"""The built-in workloads and their own options, readable without importing torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = int | str | bool | None
"""What a workload's option may hold. None means "not given" (only where the default is None)."""


@dataclass(frozen=True)
class Param:
    """One option of a workload: `name` as in Python, `--name` with dashes on the command line."""

    name: str
    default: Value
    help: str
    choices: tuple[str, ...] = ()
    """For an option that is one of some words; empty for a number."""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")


@dataclass(frozen=True)
class Workload:
    """A built-in program to capture. Its code is `workloads/NAME.py`, which only the child imports."""

    name: str
    text: str
    """One line for menus and help."""
    params: tuple[Param, ...]

    def defaults(self) -> dict[str, Value]:
        return {p.name: p.default for p in self.params}

    def param(self, name: str) -> Param | None:
        return next((p for p in self.params if p.name == name), None)

    def tag(self, values: Mapping[str, Value]) -> str:
        """The part of a file's name that the sizes make, e.g. "64x128x768x3072" or "sdpa_8x16x1024x64".

        Words come first, and one that is the default of an option other than the first is left out.
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
    Param("batch", 1, "sequences"),
    Param("seq", 256, "tokens of each sequence (decode: already in the KV cache)"),
    Param("layers", 4, "transformer blocks"),
    Param("dim", 512, "width of the residual stream"),
    Param("heads", 8, "query heads"),
    Param("kv_heads", 2, "key and value heads, shared by the query heads (GQA)"),
    Param("hidden", 1536, "width inside the MLP"),
    Param("vocab", 8192, "size of the vocabulary"),
    Param("mlp", "swiglu", "the MLP's gate", ("swiglu", "geglu")),
)

WORKLOADS: Mapping[str, Workload] = {
    w.name: w
    for w in (
        Workload(
            "matmul_add",
            "torch.add(torch.matmul(x, w), b): the smallest trace worth reading",
            (
                Param("batch", None, "a batch axis in front: 3-D tensors, so that bmm runs instead of mm"),
                Param("size", 64, "rows and columns of each matrix"),
            ),
        ),
        Workload(
            "linear",
            "nn.Linear with bias, forward",
            (
                Param("batch", 1024, "rows of the input"),
                Param("in_dim", 32, "features in"),
                Param("out_dim", 64, "features out"),
            ),
        ),
        Workload(
            "mlp",
            "a GeGLU MLP: gate, up and down projections around gelu and a product",
            (
                Param("batch", 64, "sequences"),
                Param("seq", 128, "tokens of each sequence"),
                Param("dim", 768, "width of the input"),
                Param("hidden", 3072, "width between the projections"),
                Param(
                    "kernel", "eager", "gelu and the product: torch's, or Liger's kernel", ("eager", "liger")
                ),
            ),
        ),
        Workload(
            "attention",
            "causal attention, written out or by one of PyTorch's fused kernels",
            (
                Param(
                    "backend",
                    "sdpa",
                    "written out (naive, inplace), PyTorch's choice (sdpa), or one fused kernel",
                    ("naive", "inplace", "sdpa", "flash", "efficient", "math", "cudnn"),
                ),
                Param("batch", 8, "sequences"),
                Param("heads", 16, "heads"),
                Param("seq", 1024, "tokens of each sequence"),
                Param("head_dim", 64, "width of a head"),
            ),
        ),
        Workload(
            "llm",
            "a small decoder-only transformer: RMSNorm, rotary positions, GQA, KV cache; random weights",
            (
                Param("phase", "prefill", "the whole prompt, or a token at a time", ("prefill", "decode")),
                *_MODEL,
            ),
        ),
        Workload(
            "train",
            "that transformer learning: forward, backward, AdamW",
            (
                Param(
                    "optimizer",
                    "fused",
                    "AdamW: one fused kernel, the multi-tensor kernels, or a plain loop over the parameters",
                    ("fused", "foreach", "plain"),
                ),
                *(Param(p.name, 4 if p.name == "batch" else p.default, p.help, p.choices) for p in _MODEL),
            ),
        ),
    )
}
"""Name to workload, in the order in which a learner meets them."""
