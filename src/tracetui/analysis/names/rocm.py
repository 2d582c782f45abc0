"""Names on AMD devices: Tensile (hipBLASLt, rocBLAS), MIOpen, Composable Kernel, aiter and rocPRIM.

Tensile documents its abbreviations: ``MT`` the macro tile, ``MI`` the matrix instruction, ``ISA`` the
architecture, and the index order of each operand (``Alik``: the first index of A is summed over, so A is
transposed).
"""

from __future__ import annotations

from tracetui.analysis.names import cxx
from tracetui.analysis.names.gemm import CONVOLUTIONS, MEMORY, TILE
from tracetui.analysis.names.model import KernelName, join_words
from tracetui.core.patterns import pattern

_CK_MAJOR = pattern(r"::gemm::(Row|Column)Major")
_TENSILE_TYPES = {"B": "bf16", "H": "fp16", "S": "fp32", "D": "fp64", "I": "int8", "F8": "fp8", "X": "tf32"}
_TENSILE_LAYOUT = {"Ailk": "n", "Alik": "t", "Bljk": "n", "Bjlk": "t"}


# What comes before BlockSize and the tile (M, N, K) in Composable Kernel's gridwise templates.
_CK_SIZES = pattern(
    r"(?:GemmSpecialization\)?\W{0,2}\d+|InMemoryDataOperationEnum\)?\W{0,2}\d+, 1)((?:, \d{1,5}){4,12})"
)
_CK_TYPES = {"unsigned short": "bf16"}
"""``ck::bhalf_t`` is an unsigned short (ck/utility/data_type.hpp)."""
_CK_KINDS = {
    "bwd_weight": ("conv", "wgrad"), "bwd_data": ("conv", "dgrad"), "conv_fwd": ("conv", "fprop"),
    "moe_gemm": ("gemm", "moe"), "gemm": ("gemm", None),
}  # fmt: skip
_ROCPRIM = pattern(r"\b(?:wrapped_)?([a-z_]{3,40}?)_(?:impl|config)\b")
_ASM_TILE = pattern(r"_(\d{1,4}x\d{1,4})(?:_|$)")
_ASM_TYPE = pattern(r"(?i)bf16|fp16|fp8|fp4|(?<![a-z])f4|(?<![a-z])i8|int8")
_NARROWER = {
    "fp4": "fp4", "f4": "fp4", "fp8": "fp8", "int8": "int8", "i8": "int8", "bf16": "bf16", "fp16": "fp16",
}  # fmt: skip


def decode_rocm(name: str, function: cxx.Function) -> KernelName | None:
    """Decode a name of AMD's libraries, or None."""
    text = name[: cxx.LIMIT]
    if text.startswith(("Cijk_", "Custom_Cijk_")):
        return _tensile(name, text.removeprefix("Custom_"))
    if text.startswith("igemm_"):
        return _miopen(name, text)
    head = function.path[0] if function.path else ""
    if head == "ck" and (known := next((k for word, k in _CK_KINDS.items() if word in function.base), None)):
        return _composable(name, text, function, *known)
    if head == "aiter" and not function.args and (asm := _assembly(name, function.base)):
        return asm
    if head == "rocprim":
        return _rocprim(name, text, function)
    return None


def _composable(name: str, text: str, function: cxx.Function, kind: str, what: str | None) -> KernelName:
    """``ck::kernel_gemm_xdl_cshuffle_v3<ck::Gridwise...<RowMajor, ColumnMajor, ..., f8_fnuz_t, ...>``."""
    match = _CK_SIZES.search(text)
    sizes = [int(n) for n in match[1].split(", ")[1:]] if match else []
    # Block scale sizes (M, N, K) follow BlockSize; in MX formats there is only one, and it comes before
    # BlockSize.
    head = text[:400].lower()
    first = 4 if "abscale" in head or "blockscale" in head else 2 if "gemmmx" in head else 1
    tile = sizes[first : first + 3] if len(sizes) >= first + 3 else []
    inside = cxx.inner(cxx.Function(("Kernel",), function.args[:1])).args
    dtype = next((d for arg in inside[:12] if (d := _CK_TYPES.get(arg) or cxx.dtype_of(arg))), None)
    marks = [
        note for word, note in (("preshuffle", "preshuffled weights"), ("scale", "scaled")) if word in text
    ]
    layout = "".join({"Row": "t", "Column": "n"}[m] for m in _CK_MAJOR.findall(text)[:2])
    words = (what, kind) if what == "moe" else (kind, what)
    short = join_words("ck", *words, dtype, "x".join(map(str, tile[:2])) if tile else None)
    return KernelName(
        name, "ck", short, kind, dtype=dtype, tile="x".join(map(str, tile)) or None,
        layout=layout if kind == "gemm" and len(layout) == 2 else None,
        tensor_cores=True if "xdl" in text[:200] or "wmma" in text[:200] else None, notes=tuple(marks),
    )  # fmt: skip


def _assembly(name: str, base: str) -> KernelName | None:
    """``aiter::fmoe_bf16_pertokenFp8_g1u1_32x128``: kernels written in assembly, with names made of words."""
    kind = next((kind for word, kind in _ASM_KINDS.items() if base.lower().startswith(word)), None)
    if kind is None:
        return None
    tile, typed = _ASM_TILE.search(base), {t.lower() for t in _ASM_TYPE.findall(base)}
    # The narrower type is that of a matrix product's operands; attention may keep its cache in another type.
    dtype = next((_NARROWER[t] for t in _NARROWER if t in typed), None)
    dtype = None if kind == "attention" and len(typed) > 1 else dtype
    return KernelName(
        name, "aiter", base, kind, dtype=dtype, tile=tile[1] if tile else None, tensor_cores=True
    )


_ASM_KINDS = {
    "fmoe": "gemm", "fmha": "attention", "fwd_": "attention", "pa_": "attention", "mla_": "attention",
    "f4gemm": "gemm", "fp8gemm": "gemm", "bf16gemm": "gemm", "i8gemm": "gemm", "hgemm": "gemm",
}  # fmt: skip


def _rocprim(name: str, text: str, function: cxx.Function) -> KernelName:
    """A trampoline names what it runs in its arguments: ``trampoline_kernel<..., reduce_impl<...>``."""
    base = function.base
    if "trampoline" in base:
        found = [w for w in _ROCPRIM.findall(text[:4000]) if w not in ("target", "default", "kernel")]
        base = found[0] if found else base
    words = base.removesuffix("_kernel").replace("_", " ")
    kind = "sort" if "sort" in words else "elementwise" if "transform" in words else "reduction"
    return KernelName(name, "rocprim", f"rocprim {words}", kind)


def _tensile(name: str, text: str) -> KernelName:
    """``Cijk_Alik_Bljk_BBS_BH_..._MT160x256x64_MI16x16x1_..._ISA942_...``: hipBLASLt and rocBLAS."""
    tokens = text.split("_")
    if any(
        token.startswith("PostGSU") for token in tokens
    ):  # adds up the results of the blocks that shared a tile
        dtype = _TENSILE_TYPES.get(tokens[1])
        return KernelName(name, "rocm", join_words("split-K reduce", dtype), "reduction", dtype=dtype)
    layout = "".join(_TENSILE_LAYOUT.get(token, "") for token in tokens[1:3])
    types = tokens[3] if len(tokens) > 3 else ""
    dtype = _TENSILE_TYPES.get(types[:2]) or _TENSILE_TYPES.get(types[:1])
    tile = next((t[2:] for t in tokens if t.startswith("MT") and TILE.fullmatch(t[2:])), None)
    shape = next((t[2:] for t in tokens if t.startswith("MI") and TILE.fullmatch(t[2:])), None)
    isa = next((t[3:] for t in tokens if t.startswith("ISA") and len(t) < 10), None)
    short = join_words("gemm", dtype, "x".join(tile.split("x")[:2]) if tile else None, layout)
    return KernelName(
        name, "rocm", short, "gemm", f"gfx{isa}" if isa else None, dtype, tile, instruction=shape,
        layout=layout or None, tensor_cores=True if shape else None,
        notes=("can add a bias",) if "Bias" in tokens else (),
    )  # fmt: skip


def _miopen(name: str, text: str) -> KernelName:
    """``igemm_fwd_gtcx2_nhwc_bf16_bx0_ex1_bt128x128x32_...``: MIOpen's implicit GEMM convolutions."""
    tokens = text.split("_")
    tile = next((t[2:] for t in tokens if t.startswith("bt") and TILE.fullmatch(t[2:])), None)
    memory = next((t for t in tokens if t in MEMORY), None)
    dtype = next((cxx.DTYPES[t] for t in tokens[1:6] if t in cxx.DTYPES), None)
    way = CONVOLUTIONS.get(tokens[1])
    short = join_words("conv", way, dtype, "x".join(tile.split("x")[:2]) if tile else None, memory)
    notes = ("implicit GEMM",)
    return KernelName(name, "rocm", short, "conv", dtype=dtype, tile=tile, layout=memory, notes=notes)
