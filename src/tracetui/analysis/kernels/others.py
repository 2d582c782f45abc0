"""Attention, collectives, copies, sorting and scanning, and whatever no other module knows."""

from __future__ import annotations

import re

from tracetui.analysis.kernels import cxx
from tracetui.analysis.kernels.model import KernelName, join_words

_COPY_KIND = re.compile(r"\b([HDAP])to([HDAP])\b")
_SM = re.compile(r"sm_?(\d{2,3})\b|Sm(\d{2,3})")
_TILE = re.compile(r"\d+x\d+(?:x\d+)?")
_TRAITS = re.compile(r"kernel_traits<(\d{1,4}), (\d{1,4}), (\d{1,4})")
_CAST = re.compile(r"\((?:int|bool)\)")
_NCCL_TYPE = re.compile(
    r"_(__nv_bfloat16|u?int(?:8|32|64)_t|float|half|double|f8e[45]m[23]|bf16|f16|f32|f64|[ui](?:8|32|64))(?:_|$)"
)
_ALGORITHMS = ("RING", "TREE", "NVLS", "COLLNET", "PAT")
_PROTOCOLS = ("LL128", "LL", "SIMPLE")
_REDUCTIONS = ("SumPostDiv", "PreMulSum", "Sum", "Prod", "MinMax", "Min", "Max", "Avg")
_REDUCING = ("AllReduce", "ReduceScatter", "Reduce")
_STRIP = re.compile(r"(?:_cuda)?(?:_kernel|Kernel)(?:_val|_new)?$")
# For a name that no module knows: the first kind with a word that it contains.
_KINDS = {
    "collective": ("cross_device_reduce", "allreduce", "all_reduce"),
    "conv": ("convolve", "wgrad", "dgrad", "winograd", "im2col"),
    "gemm": ("gemv", "gemm"),
    "norm": ("batch_norm", "layer_norm", "rms_norm", "rmsnorm", "bn_"),
    "softmax": ("softmax",),
    "attention": ("attention", "fmha"),
    "reduction": ("reduce", "scan"),
    "sort": ("sort",),
    "copy": ("transpose", "copy", "nchwtonhwc", "nhwctonchw", "permute"),
    "index": ("embedding", "index", "gather", "scatter"),
}
_FAMILIES = {
    "cudnn": ("cudnn",),
    "cublas": ("cublas", "gemv", "splitkreduce", "gemmk1", "gemmsn", "dot_kernel", "reduce_1block"),
    "cutlass": ("cutlass",),
    "rocm": ("ck_tile", "miopen", "rocclr"),
    "aten": ("at::", "at_cuda_detail"),
}
_REWRITES = {
    "splitKreduce_kernel": "split-K reduce", "reduce_1Block_kernel": "reduce 1 block",
    "gemmk1_kernel": "gemm k=1", "gemmSN_NN_kernel": "gemm small n nn",
    "gemmSN_TN_kernel": "gemm small n tn", "gemmSN_kernel": "gemm small n", "gemv2T_kernel_val": "gemv t",
    "gemv2N_kernel": "gemv n", "gemvNSP_kernel": "gemv nsp", "dot_kernel": "dot",
    "magma_sgemmEx_kernel": "gemm magma", "globalKernel": "cublasLt epilogue",
    "nchwToNhwcKernel": "nchw to nhwc", "nhwcToNchwKernel": "nhwc to nchw",
}  # fmt: skip


def decode_transfer(name: str) -> KernelName | None:
    """``Memcpy HtoD (Pageable -> Device)``, ``Memset (Device)``."""
    low = name[:100].lower()
    if low.startswith("memset"):
        return KernelName(name, "memset", "memset", kind="memset")
    if not low.startswith("memcpy"):
        return None
    way = _COPY_KIND.search(name[:100])
    memory = next((word for word in ("Pageable", "Pinned", "Managed") if word in name[:100]), "")
    note = f"{memory.lower()} host memory" if memory in ("Pageable", "Pinned") else memory
    short = join_words("memcpy", way.group() if way else None, memory.lower())
    return KernelName(name, "memcpy", short, kind="memcpy", notes=(note,) if note else ())


def decode_collective(name: str) -> KernelName | None:
    """``ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)`` and older spellings; RCCL uses the same."""
    text = name[:300]
    if not text.startswith(("ncclDevKernel", "ncclKernel")):
        return None
    head = text.partition("(")[0]
    words = head.split("_")
    what = words[1] if len(words) > 1 else "kernel"
    algorithm, protocol, reduction = (
        next((word for word in known if word in words), "")
        for known in (_ALGORITHMS, _PROTOCOLS, _REDUCTIONS)
    )
    typed = _NCCL_TYPE.search(head)
    # Collectives that reduce nothing also have "Sum" and a type in their names, which mean nothing there.
    reduces = what in _REDUCING
    dtype = cxx.DTYPES.get(typed.group(1)) if typed and reduces else None
    short = join_words("nccl", what, dtype, algorithm.lower(), protocol.lower())
    notes = tuple(filter(None, (reduction if reduces else "", algorithm, protocol)))
    return KernelName(name, "nccl", short, kind="collective", dtype=dtype, notes=notes)


def decode_attention(name: str, function: cxx.Function) -> KernelName | None:
    """Flash attention 2 and 3, PyTorch's memory-efficient kernels, cuDNN's."""
    text = _CAST.sub("", name[: cxx.LIMIT])
    base = function.base
    low = base.lower()
    way = "bwd" if any(word in low for word in ("bwd", "bprop", "backward", "cutlassb")) else "fwd"
    arch = _arch(base)
    if low.startswith("cudnn_generated_") and "sdpa" in low:
        tile = next((word for word in base.split("_") if _TILE.fullmatch(word)), None)
        return KernelName(
            name, "cudnn", join_words("cudnn attention", way, tile), kind="attention", arch=arch, tile=tile,
            tensor_cores=True if "mma" in low else None,
        )  # fmt: skip
    if low.startswith("fmha_cutlass"):
        words = base.split("_")
        dtype = next((cxx.DTYPES[word] for word in words if word in cxx.DTYPES), None)
        tile = next((word for word in words if _TILE.fullmatch(word)), None)
        return KernelName(
            name, "cutlass", join_words("efficient attention", way, dtype, tile), kind="attention",
            arch=arch, dtype=dtype, tile=tile, notes=("memory-efficient attention",),
        )  # fmt: skip
    if "cudnn" in function.path and low.startswith(("fmha_", "compute_dot_do_o", "convert_dq")):
        step = base.removeprefix("fmha_").removesuffix("_specialized")
        return KernelName(name, "cudnn", join_words("cudnn attention", step), kind="attention")
    if "flash" not in text[:200].lower() or "reshape_and_cache" in low:
        return None
    if not any(word in text[:400].lower() for word in ("fwd", "bwd", "attn", "attention")):
        return None
    traits = _TRAITS.search(text)
    dtype = next((d for word, d in (("bfloat16", "bf16"), ("half_t", "fp16")) if word in text[:2000]), None)
    tile = f"{traits[2]}x{traits[3]}" if traits else None
    head = f"d{traits[1]}" if traits else None
    parts = ("splitkv", "combine", "dot_do_o", "convert_dq", "convert_dkv")
    part = next((word for word in parts if word in low), None)
    if base in ("device_kernel", "Kernel", "Kernel2"):
        inside = text[:600].lower()
        way = "bwd" if "bwd" in inside or "backward" in inside else "fwd"
        arch = _arch(text[:600])
    return KernelName(
        name, "flash", join_words("flash", way, part, dtype, head, tile), kind="attention", arch=arch,
        dtype=dtype, tile=tile, tensor_cores=None if part else True,
        notes=(f"head dimension {traits.group(1)}",) if traits else (),
    )  # fmt: skip


def _arch(text: str) -> str | None:
    sm = _SM.search(text)
    return f"sm{sm[1] or sm[2]}" if sm else None


def decode_cub(name: str, function: cxx.Function) -> KernelName | None:
    """``cub::DeviceRadixSortOnesweepKernel<...>``: sorting, scanning, selecting."""
    base = function.base
    if "cub" not in function.path or not base.startswith("Device"):
        return None
    words = cxx.snake(_STRIP.sub("", base).removeprefix("Device")).replace("_", " ")
    kind = "sort" if "sort" in words else "reduction"
    family = "aten" if "at_cuda_detail" in function.path else "other"
    return KernelName(name, family, f"cub {words}", kind=kind)


def decode_other(name: str, function: cxx.Function) -> KernelName:
    """Any other name: its last part, less namespaces, templates and the word "kernel"; and its type."""
    text = name[: cxx.LIMIT].strip()
    if text.startswith("_Z"):
        return _mangled(name, text)
    base = function.base or text
    low = ("::".join(function.path).lower() or text.lower()).replace("fbgemm", "")
    if base == "kernel" and len(function.path) > 1:
        base = function.path[-2]
        label = base.removesuffix("x") if base.startswith("gemv") else base
    elif base in ("Kernel", "Kernel2", "device_kernel") and function.args:
        label = cxx.parse(function.args[0]).base
    else:
        label = _REWRITES.get(base) or _STRIP.sub("", base).removeprefix("kernel_").strip("_") or base
    types = [dtype for dtype in map(cxx.dtype_of, function.args[:6]) if dtype]
    first = types[0] if types and types[0] != "bool" else None
    dtype = next((t for t in types if t[:2] in ("fp", "bf")), first)
    low = f"{low} {label.lower()}"
    family, kind = _first(_FAMILIES, low), _first(_KINDS, low)
    return KernelName(name, family, join_words(label, dtype), kind, dtype=dtype)


def _first(table: dict[str, tuple[str, ...]], text: str) -> str:
    return next((key for key, words in table.items() if any(word in text for word in words)), "other")


def _mangled(name: str, text: str) -> KernelName:
    names = cxx.mangled_identifiers(text)
    joined = " ".join(names).lower()
    family = _first(_FAMILIES, joined)
    way = next((way for way in ("Wgrad", "Dgrad", "Fprop") if any(way in word for word in names)), None)
    if way and "ImplicitGemmConvolution" in names:
        dtype = "tf32" if "tfloat32_t" in names else None
        return KernelName(name, family, join_words("conv", way.lower(), dtype), kind="conv", dtype=dtype)
    label = next((word for word in names if word.lower() not in _NO_LABELS), None)
    return KernelName(name, family, label or text[:32], kind=_first(_KINDS, joined))


_NO_LABELS = frozenset(
    """
    kentry kernel kernel2 ck_tile cutlass at native cutlass_cudnn_train cutlass_cudnn_infer c10 std detail
    """.split()  # noqa: SIM905
)
