"""Explains kernels, copies and memsets, by their decoded names."""

from __future__ import annotations

import re

from tracetui.analysis.names.model import KernelName

_MEMORY_BOUND = "Reading and writing memory sets its time."
KINDS = {
    "memcpy": "A copy. Its name does not say from where to where; its arguments may.",
    "memset": "Sets GPU memory to a value, mostly zero. A small one costs more to launch than to run.",
    "gemm": "A matrix multiplication. Arithmetic limits a large one; its launch, or too few blocks to fill "
    "the GPU, a small one.",
    "conv": "A convolution. Arithmetic limits a large one, as it does a matrix multiplication.",
    "attention": "Attention in one kernel: scores, softmax and the weighted sum, without writing the scores "
    "to memory.",
    "elementwise": "An elementwise kernel: every output element depends on one element of each input. "
    + _MEMORY_BOUND,
    "reduction": "A reduction: many elements become one. Reading memory takes most of its time.",
    "softmax": "A softmax over rows. Reading and writing memory takes most of its time.",
    "norm": "A normalization: statistics over rows or channels, then a scale and a shift. " + _MEMORY_BOUND,
    "copy": "A kernel that moves data or changes its type, without arithmetic. " + _MEMORY_BOUND,
    "index": "A kernel that gathers or scatters elements by an index. Memory sets its time; scattered "
    "places take longer than neighboring ones.",
    "sort": "One step of a sort. A sort takes several kernels and reads its data several times.",
    "optimizer": "An optimizer's update of many parameters in one kernel. It reads and writes each "
    "parameter, its gradient and its state once.",
    "collective": "Communication (by its name): devices exchange data. Its time includes waiting for the "
    "slowest rank.",
}

_SPECIAL = (
    ("attention", r"\bbwd\b", "The backward of attention in one kernel: it recomputes the scores instead of "
     "reading them."),
    ("attention", r"dot_do_o|convert_d|combine|reduce_head", "A small helper of attention: it prepares sums "
     "for it, or puts its parts together."),
    ("reduction", r"split.?k", "Adds up the parts of a matrix multiplication whose K was divided among "
     "blocks. Memory sets its time."),
    ("reduction", r"^nll_loss fwd", "The loss of each target, averaged. One block does all of it, so it is "
     "short and uses little of the GPU."),
    ("reduction", r"^nll_loss bwd", "The gradient of the loss: one element of each row is set. It is short "
     "and uses little of the GPU."),
    ("reduction", r"^argm", "Finds the index of the largest or smallest element. Reading memory sets its "
     "time."),
    ("reduction", r"(?:\b|_)(?:scan|cumsum|cumprod)(?:\b|_)", "Running sums (a scan): an output "
     "element depends on all before it."),
    ("reduction", r"\b(?:select|unique|partition|compact)\b", "It picks elements and packs them together."),
    ("reduction", r"\bbwd\b", "The backward of a reduction: a gradient goes to each element that took part."),
    ("softmax", r"\bbwd\b", "The gradient of a softmax over rows. Reading and writing memory takes most of "
     "its time."),
    ("norm", r"\bbwd\b|grad", "The gradient of a normalization, of its input or of its weights. "
    "" + _MEMORY_BOUND),
    ("elementwise", r"^random\b", "It writes random numbers and reads nothing."),
    ("elementwise", r"^(?:arange|fill)\b", "It writes numbers and reads nothing. Writing memory sets "
     "its time."),
    ("elementwise", r"^foreach\b", "An elementwise kernel over a whole list of tensors, such as all "
    "parameters. "
     + _MEMORY_BOUND),
    ("elementwise", r"geglu|swiglu", "A gated activation in one kernel: the activation of one half, times "
     "the other. " + _MEMORY_BOUND),
    ("index", r"^embedding[ _]b", "A step of an embedding's gradient: rows of the same index are added up. "
     "Memory sets its time."),
    ("other", r"^triu_tril|^tri[ul]\b", "It copies one triangle of a matrix and sets the rest to 0, as for a "
     "causal mask. Memory sets its time."),
    ("other", r"gamma.?beta", "The gradient of a norm's weights: sums over all rows. " + _MEMORY_BOUND),
)  # fmt: skip
SPECIAL = tuple((kind, re.compile(pattern, re.I), text) for kind, pattern, text in _SPECIAL)
"""For each kind, by the short name."""

COPIES = {
    "HtoD": "A copy from host memory to the GPU. It goes over PCIe or NVLink, which is far slower "
    "than the GPU's memory.",
    "DtoH": "A copy from the GPU to host memory. It goes over PCIe or NVLink, which is far slower "
    "than the GPU's memory.",
    "DtoD": "A copy within the GPU's memory. It reads and writes all of it and computes nothing.",
    "PtoP": "A copy from one device to another. It goes over NVLink or PCIe.",
    "HtoH": "A copy within host memory. The GPU's queue only puts it in order.",
}

FAMILIES = {
    "cublas": "It comes from cuBLAS, which picks one of many by shape, type and layout.",
    "nvjet": "It comes from cuBLAS, which has kernels of this kind for Hopper and later and picks one of "
    "many by shape, type and layout: so two matmuls in one model can run different kernels.",
    "cutlass": "It is built from CUTLASS templates, which cuBLAS, cuDNN and PyTorch use, too.",
    "triton": "It was written in Triton, by a compiler or by hand. Its author chose the blocks, by rules "
    "for these sizes or by trying some out (autotuning).",
    "aten": "It is one of PyTorch's own kernels.",
    "flash": "It comes from flash attention.",
    "cudnn": "It comes from cuDNN.",
    "nccl": "It comes from NCCL (RCCL on AMD).",
    "rocm": "It comes from AMD's libraries.",
    "ck": "It is built from AMD's Composable Kernel templates.",
    "rocprim": "It comes from rocPRIM, AMD's library of sorts, scans and reductions.",
    "aiter": "It comes from aiter, AMD's kernels for inference.",
    "deepep": "It comes from DeepEP, which sends tokens to the experts of other devices and back.",
    "deep_gemm": "It comes from DeepGEMM, whose FP8 matmuls are compiled for each shape.",
    "flashinfer": "It comes from FlashInfer.",
    "vllm": "It comes from vLLM.",
    "sglang": "It comes from SGLang's kernels.",
    "tensorrt_llm": "It comes from TensorRT-LLM, whose kernels FlashInfer, vLLM and SGLang use, too.",
    "transformer_engine": "It comes from Transformer Engine.",
    "marlin": "It is Marlin: a matmul with weights of a few bits, unpacked on the way.",
    "quickreduce": "It comes from AMD's quick reduce, an all-reduce that may compress what it sends.",
    "fbgemm": "It comes from FBGEMM.",
}
_GENERATED = (
    "cuDNN generates it for the case at hand. The numbers in its name are not documented; knob is cuDNN's "
    "word for a setting."
)


def kernel(name: KernelName) -> tuple[str, ...]:
    """What a kernel, a copy or a memset is; () if its name says nothing."""
    if name.kind == "memcpy":
        return tuple(text for way, text in COPIES.items() if way in name.short) or (KINDS["memcpy"],)
    special = (text for of, word, text in SPECIAL if of == name.kind and word.search(name.short))
    what = next(special, KINDS.get(name.kind, ""))
    family = FAMILIES.get(name.family, "")
    if name.family == "cudnn" and "generated" in name.name[:60]:
        family = _GENERATED
    return tuple(text for text in (what, family) if text)
