"""Attention, copies, sorting and scanning, and names that no other module recognizes."""

from __future__ import annotations

import re

from tracetui.analysis.names import cxx
from tracetui.analysis.names.aten import op_name
from tracetui.analysis.names.model import NAMESPACES, KernelName, join_words
from tracetui.core.patterns import pattern

_SIZES = pattern(r"tuple<(?:cute::)?C<(\d{1,4})>, ?(?:cute::)?C<(\d{1,4})>, ?(?:cute::)?C<(\d{1,4})> ?>")
_TYPES = pattern(
    r"\b(bfloat16_t|__nv_bfloat16|__hip_bfloat16|half_t|__half|float_e4m3_t|__nv_fp8_e4m3|_Float16)\b"
)
_ROCTRACER = pattern(r"Copy(Host|Device)To(Host|Device)(?:2D)?")
_COPY_KIND = pattern(r"\b(?:[HDAP]to[HDAP]|[HDMS]2[HDMS])\b")
_SM = pattern(r"sm_?(\d{2,3})\b|Sm(\d{2,3})")
_TILE = pattern(r"\d+x\d+(?:x\d+)?")
_TRAITS = pattern(r"kernel_traits<(\d{1,4}), (\d{1,4}), (\d{1,4})")
_CAST = pattern(r"\((?:int|bool)\)")
# cuDNN's older convolutions: they do not use tensor cores, whatever their type.
_PLAIN = pattern(r"(?:im|ex)plicit_convolve_sgemm|[wd]grad(?:_alg\d)?_engine|[wd]grad2d")
_STRIP = pattern(r"(?:_cuda)?(?:_kernel|Kernel)(?:_val|_new)?$")
# For a name that no module recognizes: the first kind with a word that it contains.
_KINDS = {
    "conv": ("convolve", "wgrad", "dgrad", "winograd", "im2col", "causal_conv1d"),
    "attention": (
        "attention",
        "fmha",
        "flash_mla",
        "attn_fwd",
        "attn_bwd",
        "attn_kernel",
        "fwd_grouped_kernel_stage1",
        "fwd_kernel_stage",
    ),
    "gemm": (
        "gemv",
        "gemm",
        "matmul_kernel",
        "fp8_matmul",
        "scaled_mm",
        "fused_moe_kernel",
        "flatmm",
        "wvsplitk",
    ),
    "norm": (
        "batch_norm",
        "batchnorm",
        "layer_norm",
        "layernorm",
        "rms_norm",
        "rmsnorm",
        "bn_",
        "group_norm",
        "_ln_fwd",
        "_ln_bwd",
        "computeinternalgradients",
        "fusedparams",
        "gammabetabackward",
    ),
    "other": ("rotary", "_rope", "rope_", "chunk_scan", "selective_scan"),
    "elementwise": (
        "act_and_mul",
        "swiglu",
        "geglu",
        "upsample_",
        "grid_sampler",
        "elemwisernn",
        "lstm_elementwise",
        "gru_elementwise",
        "generic_elementwise",
        "lstm_cell",
        "gru_cell",
        "triu_tril",
    ),
    "softmax": ("softmax",),
    "reduction": ("reduce", "scan", "avg_pool"),
    "sort": ("sort", "mbtopk", "sbtopk"),
    "copy": ("transpose", "copy", "nchwtonhwc", "nhwctonchw", "permute", "roll_cuda", "chunk_cat"),
    "index": ("embedding", "index", "gather", "scatter"),
}
_FAMILIES = {
    "cudnn": ("cudnn",),
    "cublas": ("cublas", "gemv", "splitkreduce", "gemmk1", "gemmsn", "dot_kernel", "reduce_1block"),
    "cutlass": ("cutlass",),
    "rocm": ("miopen", "rocclr"),
    "aten": ("at::", "at_cuda_detail"),
}
# Integers among the arguments of these are indices or bits.
_OF_REALS = ("attention", "norm", "softmax")
# Names that say nothing by themselves: the operation is in the functor among the arguments, the last one.
_NAMELESS = frozenset(
    {"apply", "apply_kernel", "kernel", "invoke", "run", "launch", "op_kernel", "kernel_impl"}
)
_ACTIVATION = pattern(r"\b(silu|gelu_tanh|gelu|relu)\b")
_REWRITES = {
    "splitKreduce_kernel": "split-K reduce", "reduce_1Block_kernel": "reduce 1 block",
    "gemmk1_kernel": "gemm k=1", "gemmSN_NN_kernel": "gemm small n nn",
    "gemmSN_TN_kernel": "gemm small n tn", "gemmSN_kernel": "gemm small n", "gemv2T_kernel_val": "gemv t",
    "gemv2N_kernel": "gemv n", "gemvNSP_kernel": "gemv nsp", "dot_kernel": "dot",
    "magma_sgemmEx_kernel": "gemm magma", "globalKernel": "cublasLt epilogue",
    "nchwToNhwcKernel": "nchw to nhwc", "nhwcToNchwKernel": "nhwc to nchw",
}  # fmt: skip


def decode_transfer(name: str) -> KernelName | None:
    """``Memcpy HtoD (Pageable -> Device)``, ``Memset (Device)``; of roctracer ``CopyHostToDevice``."""
    low = name[:100].lower()
    if copied := _ROCTRACER.fullmatch(name[:100]):
        return KernelName(name, "memcpy", f"memcpy {copied[1][0]}to{copied[2][0]}", kind="memcpy")
    if low.startswith("memset") or name == "FillBuffer":
        return KernelName(name, "memset", "memset", kind="memset")
    if not low.startswith("memcpy"):
        return None
    way = _COPY_KIND.search(name[:100])
    memory = next((word for word in ("Pageable", "Pinned", "Managed") if word in name[:100]), "")
    note = f"{memory.lower()} host memory" if memory in ("Pageable", "Pinned") else memory
    short = join_words("memcpy", way.group() if way else None, memory.lower())
    return KernelName(name, "memcpy", short, kind="memcpy", notes=(note,) if note else ())


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
    if low.startswith(("flashattnfwd", "flashattnbwd")):
        return _flash3(name, text, base, way)
    if function.path[:1] == ("flashinfer",) and "kvcache" in low:
        step = "prefill" if "prefill" in low else "decode"
        dtype = next((cxx.DTYPES[t] for t in _TYPES.findall(text[:1000])), None)
        how = "ragged" if "ragged" in low else "paged" if "paged" in low else None
        return KernelName(
            name, "flashinfer", join_words("flashinfer", step, how, dtype), kind="attention", dtype=dtype
        )
    if function.path[:1] == ("ck_tile",) and "fmha" in low:
        dtype = next((cxx.DTYPES[t] for t in _TYPES.findall(text[:1500])), None)
        step = cxx.snake(base.removesuffix("Kernel")).replace("_", " ")
        return KernelName(name, "ck", join_words("ck", step, dtype), kind="attention", dtype=dtype)
    if "flash" not in text[:200].lower() or "reshape_and_cache" in low:
        return None
    if not any(word in text[:400].lower() for word in ("fwd", "bwd", "attn", "attention")):
        return None
    traits = _TRAITS.search(text)
    dtype = next((d for word, d in (("bfloat16", "bf16"), ("half_t", "fp16")) if word in text[:2000]), None)
    tile = f"{traits[2]}x{traits[3]}" if traits else None
    head = f"d{traits[1]}" if traits else None
    parts = ("combine", "splitkv", "dot_do_o", "convert_dq", "convert_dkv")
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


def _flash3(name: str, text: str, base: str, way: str) -> KernelName:
    """``FlashAttnFwdSm90<CollectiveMainloopFwdSm90<stages, cluster, (M, N, head), head of V, type, ...>``."""
    tile = next((t for t in _SIZES.findall(text[:2000]) if t != ("1", "1", "1")), None)
    typed = next((cxx.DTYPES[t] for t in _TYPES.findall(text[:2000])), None)
    heads = f"d{tile[2]}" if tile else None
    block = f"{tile[0]}x{tile[1]}" if tile else None
    arch = re.search(r"Sm(\d{2,3})", base)
    combine = "combine" in base.lower()
    return KernelName(
        name, "flash", join_words("flash3", "combine" if combine else way, typed, heads, block),
        "attention", f"sm{arch[1]}" if arch else None, typed, block, tensor_cores=None if combine else True,
        notes=(f"head dimension {tile[2]}",) if tile else (),
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
    """Any other name: its last part, without namespaces, templates and the word "kernel"; and its type."""
    text = name[: cxx.LIMIT].strip()
    head = function.path[0] if len(function.path) > 1 else ""
    function = cxx.inner(function)
    base = function.base or text
    path = "::".join(function.path).lower() or text.lower()
    if text.startswith("_Z"):  # nobody can read these
        label = text[:32]
    elif base in ("kernel", "GemmKernel") and len(function.path) > 1:
        base = function.path[-2]
        label = base.removesuffix("x") if base.startswith("gemv") else base
    elif base.lower() in _NAMELESS and (functor := _functor(function)):
        label = op_name(functor.base)
        function = functor
    else:
        label = (
            _REWRITES.get(base) or re.sub(r"^kernel_(?=[^\W\d])", "", _STRIP.sub("", base)).strip("_") or base
        )
    types = [dtype for dtype in map(cxx.dtype_of, function.args[:8]) if dtype]
    low = f"{path.replace('fbgemm', '')} {base.lower()} {label.lower()}"
    low += f" {label.lower().replace(' ', '_')}" if " " in label else ""
    family, kind = NAMESPACES.get(head) or _first(_FAMILIES, low), _first(_KINDS, low)
    first = types[0] if types and types[0] != "bool" and kind not in _OF_REALS else None
    dtype = next((t for t in types if t[:2] in ("fp", "bf")), first)
    if dtype is None and kind == "norm" and function.args:  # Kernel_traits<__nv_bfloat16, ...>
        dtype = cxx.first_dtype(cxx.parse(function.args[0]).args)
    if head == "ck_tile":
        label, dtype = cxx.snake(label), next((cxx.DTYPES[t] for t in _TYPES.findall(text[:1500])), dtype)
    act = next((match[1] for arg in function.args[:4] if (match := _ACTIVATION.search(arg[:80]))), None)
    cores = False if kind == "conv" and _PLAIN.match(base) else None
    return KernelName(name, family, join_words(label, act, dtype), kind, dtype=dtype, tensor_cores=cores)


def _functor(function: cxx.Function) -> cxx.Function | None:
    """The operation: the last argument that is a type with a name of its own and, within that, again the
    last."""
    found = None
    for _ in range(6):
        named = [cxx.parse(arg) for arg in function.args if arg[-1:] != "*" and cxx.dtype_of(arg) is None]
        named = [
            part for part in named if part.base[:1].isalpha() and part.base not in ("true", "false", "void")
        ]
        if not named:
            break
        found = function = named[-1]
    return found


def _first(table: dict[str, tuple[str, ...]], text: str) -> str:
    return next((key for key, words in table.items() if any(word in text for word in words)), "other")
