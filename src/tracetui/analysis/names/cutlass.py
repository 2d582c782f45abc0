"""CUTLASS kernels by their templates, and the libraries that write such names: DeepGEMM, Marlin, trtllm-gen.

CUTLASS 2 and 3 are C++ templates that say everything: ``CollectiveMma<Mainloop..., tile, type of A, ...>``.
CUTLASS 4 (CuTe DSL) runs its Python names together: ``kernel_cutlass_kernel_MODULEClass_object_at_...``.
Procedural names (``cutlass_80_tensorop_...``) are read in `tracetui.analysis.names.gemm`.
"""

from __future__ import annotations

import re

from tracetui.analysis.names import cxx
from tracetui.analysis.names.model import KernelName, join_words
from tracetui.core.patterns import pattern

_READ = 6000
"""How many characters of a template are read: the main loop comes first, the epilogue after it."""

_CAST = pattern(r"\((?:int|bool|unsigned int|long|unsigned long)\)|cute::|cutlass::")
_TEMPLATE = pattern(r"cutlass|Mainloop|GemmShape")
_SIZES = pattern(r"tuple<C<(\d{1,4})>, ?C<(\d{1,4})>, ?C<(\d{1,4})> ?>")
_SHAPE = pattern(r"GemmShape\W{1,3}(\d{1,4}), (\d{1,4}), (\d{1,4})")
_WAY = pattern(r"Conv[23]d(Fprop|Dgrad|Wgrad)")
_MAINLOOP = pattern(r"Mainloop(Sm\d{2,3})[a-z]?(\w{0,80})\W{1,3}(\d{1,2})\b")
_SM = pattern(r"\b[Ss]m_?(\d{2,3})\b|_sm(\d{2,3})")
_TYPE = pattern(
    r"\b(?:float_e[45]m[23]_t|float_e2m1_t|tfloat32_t|bfloat16_t|half_t|__half|__nv_bfloat16|signed char)\b"
)
_NARROW = pattern(r"_(fp8|fp4|nvfp4|int8)")
_DSL_CLASS = pattern(r"[A-Z]\w*$")
_DSL_END = pattern(r"_object_at|_tensor|_Tensor|_None")
_DSL_TYPE = pattern(r"tensorptr(bf16|f16|f32|f8e4m3|f8e5m2|f4)")
_GEN_TYPE = pattern(r"MxE4m3|MxE2m1|E4m3|E2m1|Bfloat16|Fp16")
_GEN_TYPES = {
    "E4m3": "fp8",
    "E2m1": "fp4",
    "MxE4m3": "fp8",
    "MxE2m1": "fp4",
    "Bfloat16": "bf16",
    "Fp16": "fp16",
}
_GEN_TILE = pattern(r"_t(\d{1,4}x\d{1,4}x\d{1,4})")
_GEN_STAGES = pattern(r"_s(\d{1,2})_")
_FMHA = pattern(r"fmhaSm(\d{2,3})\w?Kernel_Qkv([A-Z][a-z]*\d{0,2}(?:m\d)?)O\w*?HQ?k?(\d{2,4})")


def decode_library(name: str, function: cxx.Function) -> KernelName | None:
    """Decode a name of CUTLASS 4, trtllm-gen, Marlin or DeepGEMM, or None."""
    if name.startswith("kernel_cutlass_"):
        return _dsl(name)
    words = name[: cxx.LIMIT].split("_")
    if words[0] in ("bmm", "gemm") and words[3:4] == ["Fp32"] and (types := _GEN_TYPE.match(words[2])):
        return _generated(name, words, types.group())
    if match := _FMHA.match(name[:300]):
        dtype = _GEN_TYPES.get(match[2])
        way = "context" if "Context" in name else "generation" if "ForGen" in name else None
        short = join_words("fmha", way, dtype, f"d{match[3]}")
        return KernelName(name, "tensorrt_llm", short, "attention", f"sm{match[1]}", dtype, tensor_cores=True)
    if function.base == "Marlin":
        moe = "moe" if "moe" in function.path[0] else None
        return KernelName(name, "marlin", join_words(moe, "gemm marlin"), "gemm", tensor_cores=True)
    if "deep_gemm" in function.path or function.path[:2] == ("dpsk", "gemm"):
        return _deep_gemm(name, function)
    return None


def decode_template(name: str) -> KernelName | None:
    """Decode a matrix product or convolution made from CUTLASS's templates, or None if it is not one."""
    if not _TEMPLATE.search(name[:_READ]):
        return None
    text = _CAST.sub("", name[:_READ])
    way = _WAY.search(text)
    mainloop = _MAINLOOP.search(text)
    mma = cxx.template_args(text, "CollectiveMma") or cxx.template_args(text, "CollectiveConv")
    sizes = _SIZES.findall(text)
    shape = _SHAPE.search(text)
    if mainloop and len(mma) > 2:  # main loop (with its cluster), tile, type of A
        tiles = _SIZES.findall(mma[1])
        cluster = next(iter(_SIZES.findall(mma[0])), None)
        tile, typed = (tiles[0] if tiles else None), _TYPE.search(mma[2])
    elif sizes:  # vLLM's and PyTorch's wrappers: tile, cluster
        tile, cluster, typed = sizes[0], next(iter(sizes[1:2]), None), _TYPE.search(text)
    elif shape:
        tile, cluster, typed = shape.groups(), None, _TYPE.search(text)
    elif mainloop or way:
        tile, cluster, typed = None, None, _TYPE.search(text)
    else:
        return None
    arch = mainloop[1].lower() if mainloop else None
    if arch is None and (sm := _SM.search(text)):
        arch = f"sm{sm[1] or sm[2]}"
    narrow = _NARROW.search(text[:200])
    dtype = narrow[1].removeprefix("nv") if narrow else cxx.dtype_of(typed.group()) if typed else None
    kind = "conv" if way or "CollectiveConv" in text or "ImplicitGemmConvolution" in text else "gemm"
    grouped = "GroupProblemShape" in text or (mainloop is not None and mainloop[2].startswith("Array"))
    schedule = next((word for word in ("Pingpong", "Cooperative") if word in text), "")
    notes = [note for word, note in _WORDS.items() if word in text]
    near = f"c{cluster[0]}x{cluster[1]}" if cluster and cluster[:2] != ("1", "1") else None
    block = "x".join(tile if kind == "gemm" else tile[:2]) if tile else None
    label = join_words(
        "grouped" if grouped else None, kind, way[1].lower() if way else None, dtype, block, near,
        {"Pingpong": "pingpong", "Cooperative": "coop"}.get(schedule),
    )  # fmt: skip
    cores = False if "MmaSimt" in text else True if mainloop or "TensorOp" in text or arch == "sm90" else None
    return KernelName(
        name, "cutlass", label, kind, arch, dtype, "x".join(tile) if tile else None,
        stages=int(mainloop[3]) if mainloop else None, cluster="x".join(cluster) if cluster else None,
        tensor_cores=cores, notes=tuple(notes),
    )  # fmt: skip


_WORDS = {
    "Pingpong": "ping-pong", "Cooperative": "cooperative", "FastAccum": "fast FP8 accumulation",
    "BlockScaled": "block-scaled", "Blockwise": "block-scaled", "SplitK": "split K", "StreamK": "stream K",
    "GroupProblemShape": "grouped",
}  # fmt: skip


def _dsl(name: str) -> KernelName:
    """CuTe DSL: the module's path and the class are run together, so the class begins at the first
    capital."""
    text = name[len("kernel_cutlass_") : cxx.LIMIT]
    if end := _DSL_END.search(text):
        text = text[: end.start()]
    text = text.removeprefix("kernel_")
    match = _DSL_CLASS.search(text[-80:])
    label = (match.group() if match else text).removesuffix("Kernel").removesuffix("_kernel")
    typed = _DSL_TYPE.search(name[: cxx.LIMIT])
    dtype = cxx.DTYPES.get(typed[1]) or ("fp8" if typed[1].startswith("f8") else "fp4") if typed else None
    low = label.lower()
    kind = next((kind for word, kind in _DSL_KINDS.items() if word in low), "other")
    sm = re.search(r"(?i)sm(\d{2,3})", text)
    return KernelName(name, "cutlass", join_words(label, dtype), kind, f"sm{sm[1]}" if sm else None, dtype)


_DSL_KINDS = {
    "attention": "attention",
    "flash": "attention",
    "fmha": "attention",
    "gemm": "gemm",
    "norm": "norm",
}


def _generated(name: str, words: list[str], operand: str) -> KernelName:
    """``bmm_Bfloat16_E4m3E4m3_Fp32_t128x16x128_s6_...``: trtllm-gen's products: types of output, A, B."""
    dtype = _GEN_TYPES[operand]
    tile, stages = _GEN_TILE.search(name[: cxx.LIMIT]), _GEN_STAGES.search(name[: cxx.LIMIT])
    sm = re.search(r"_sm(\d{2,3})", name[: cxx.LIMIT])
    result = _GEN_TYPES.get(words[1], words[1].lower())
    short = join_words(words[0], dtype if result == dtype else f"{dtype}→{result}", tile[1] if tile else None)
    return KernelName(
        name, "tensorrt_llm", short, "gemm", f"sm{sm[1]}" if sm else None, dtype, tile[1] if tile else None,
        stages=int(stages[1]) if stages else None, tensor_cores=True,
    )  # fmt: skip


def _deep_gemm(name: str, function: cxx.Function) -> KernelName:
    """``deep_gemm::fp8_gemm_kernel<N, K, BLOCK_M, BLOCK_N, BLOCK_K, ..., (deep_gemm::GemmType)1>``."""
    base = function.base.removesuffix("_impl").removesuffix("_kernel")
    numbers = [arg.rstrip("u") for arg in function.args if arg.rstrip("u").isdigit()]
    type_of = next((arg[-1] for arg in function.args if "GemmType)" in arg), "")
    # deep_gemm/include: GemmType is Normal, MGroupedContiguous, MGroupedMasked.
    how = {"1": "grouped", "2": "masked"}.get(type_of)
    gemm = "gemm" in base
    sizes = tile = None
    if base == "fp8_gemm" and len(numbers) > 4:
        sizes, tile = numbers[:2], numbers[2:5]
    elif base == "sm90_fp8_gemm_1d2d" and len(numbers) > 6:  # M, N, K, groups, then the tile
        sizes, tile = numbers[1:3], numbers[4:7]
    known = [f"{letter}{n}" for letter, n in zip("nk", sizes or (), strict=False) if n != "0"]
    block = f"{tile[0]}x{tile[1]}" if tile else None
    named = [word for word in ("fp8", "fp4", "tf32", "bf16") if word in base]
    # A type among the arguments is that of the result.
    dtype = named[0] if len(named) == 1 else None if named else cxx.first_dtype(function.args)
    sm = re.match(r"sm(\d{2,3})_", base)
    return KernelName(
        name, "deep_gemm", join_words(base.replace("_", " "), *known, block, how),
        "gemm" if gemm else "other", f"sm{sm[1]}" if sm else None, dtype, "x".join(tile) if tile else None,
        tensor_cores=True if gemm else None,
    )  # fmt: skip
