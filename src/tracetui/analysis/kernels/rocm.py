"""Names of matrix products and convolutions on AMD devices: Tensile (hipBLASLt, rocBLAS) and MIOpen.

Tensile documents its abbreviations: ``MT`` the macro tile, ``MI`` the matrix instruction, ``ISA`` the
architecture, and the index order of each operand (``Alik``: the first index of A is summed over, so A is
transposed).
"""

from __future__ import annotations

from tracetui.analysis.kernels import cxx
from tracetui.analysis.kernels.gemm import CONVOLUTIONS, MEMORY, TILE
from tracetui.analysis.kernels.model import KernelName, join_words

_TENSILE_TYPES = {"B": "bf16", "H": "fp16", "S": "fp32", "D": "fp64", "I": "int8", "F8": "fp8", "X": "tf32"}
_TENSILE_LAYOUT = {"Ailk": "n", "Alik": "t", "Bljk": "n", "Bjlk": "t"}


def decode_rocm(name: str) -> KernelName | None:
    """Decode a name of Tensile or MIOpen, or None."""
    text = name[: cxx.LIMIT]
    if text.startswith("Cijk_"):
        return _tensile(name, text)
    return _miopen(name, text) if text.startswith("igemm_") else None


def _tensile(name: str, text: str) -> KernelName:
    """``Cijk_Alik_Bljk_BBS_BH_..._MT160x256x64_MI16x16x1_..._ISA942_...``: hipBLASLt and rocBLAS."""
    tokens = text.split("_")
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
        notes=("bias epilogue",) if "Bias" in tokens else (),
    )  # fmt: skip


def _miopen(name: str, text: str) -> KernelName:
    """``igemm_fwd_gtcx2_nhwc_bf16_bx0_ex1_bt128x128x32_...``: MIOpen's implicit GEMM convolutions."""
    tokens = text.split("_")
    tile = next((t[2:] for t in tokens if t.startswith("bt") and TILE.fullmatch(t[2:])), None)
    memory = next((t for t in tokens if t in MEMORY), None)
    dtype = next((cxx.DTYPES[t] for t in tokens[1:6] if t in cxx.DTYPES), None)
    way = next((CONVOLUTIONS[t] for t in tokens[1:3] if t in CONVOLUTIONS), None)
    short = join_words("conv", way, dtype, "x".join(tile.split("x")[:2]) if tile else None, memory)
    notes = ("implicit GEMM",)
    return KernelName(name, "rocm", short, "conv", dtype=dtype, tile=tile, layout=memory, notes=notes)
