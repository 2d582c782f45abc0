"""The answer of the kernel-name decoder."""

from __future__ import annotations

from msgspec import Struct


class KernelName(Struct, frozen=True):
    """What a device event's name says, and no more: a field is None if the name does not state it.

    Attributes:
        name: the full name, as in the trace.
        family: who made the kernel: ``cublas``, ``nvjet``, ``cutlass``, ``triton``, ``aten``, ``flash``,
            ``cudnn``, ``nccl``, ``ck``, ``rocm``, ``vllm``, ... (`meanings.kernels.FAMILIES` has all),
            ``memcpy``, ``memset`` or ``other``.
        short: a readable name for bars and tables, at most 32 characters if possible.
        kind: what it computes: ``gemm``, ``conv``, ``attention``, ``elementwise``, ``reduction``,
            ``softmax``, ``norm``, ``copy``, ``index``, ``sort``, ``optimizer``, ``collective``, ``memcpy``,
            ``memset`` or ``other``.
        arch: the architecture as the name spells it (``sm90``, ``ampere``, ``gfx942``): the code's, which
            newer devices run too.
        dtype: the element type of the inputs: ``fp64``, ``fp32``, ``tf32``, ``bf16``, ``fp16``, ``fp8``, ...
        tile: the tile of one thread block, M x N or M x N x K.
        stages: the depth of the pipeline through shared memory.
        cluster: the thread-block cluster.
        instruction: the shape of one matrix instruction, M x N x K.
        layout: the operands' transposition (``nn``, ``tn``), or a convolution's memory layout.
        tensor_cores: whether the kernel uses matrix units.
        ops: the operators that a compiler fused into the kernel, metadata-only ones included.
        notes: anything else that the name says, in words.
    """

    name: str
    family: str
    short: str
    kind: str = "other"
    arch: str | None = None
    dtype: str | None = None
    tile: str | None = None
    stages: int | None = None
    cluster: str | None = None
    instruction: str | None = None
    layout: str | None = None
    tensor_cores: bool | None = None
    ops: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


NAMESPACES = {
    "vllm": "vllm", "sgl_hip": "sglang", "sglang": "sglang", "flashinfer": "flashinfer", "aiter": "aiter",
    "tensorrt_llm": "tensorrt_llm", "transformer_engine": "transformer_engine", "flash": "flash",
    "deep_gemm": "deep_gemm", "fbgemm_gpu": "fbgemm", "rocprim": "rocprim", "marlin": "marlin",
    "quickreduce": "quickreduce", "deep_ep": "deepep", "ck": "ck", "ck_tile": "ck",
}  # fmt: skip
"""A kernel's family, by the first part of its qualified name."""


def join_words(*words: str | None) -> str:
    """The non-empty words, joined by spaces."""
    return " ".join(word for word in words if word)


def on_plain_units(name: KernelName) -> bool:
    """Whether a kernel computes in fp32 without tensor cores."""
    return name.tensor_cores is False and name.dtype == "fp32"
