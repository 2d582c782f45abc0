"""Names of matrix products and convolutions: cuBLAS, nvjet, CUTLASS, cuDNN.

These libraries write their choices as words joined by underscores. The words are read one at a time, each
with a pattern that matches a whole word, so reading a name takes time linear in its length.

CUTLASS documents its procedural names in its profiler guide; cuBLAS and cuDNN use the same words. nvjet is
not documented: only what its names show beyond doubt is read (tile, K tile and stages, cluster,
transposition, and the input type, which agrees with the operators' types in real traces).
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from tracetui.analysis.names import cxx
from tracetui.analysis.names.model import KernelName, join_words
from tracetui.core.patterns import pattern

_ARCHITECTURES = ("kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell")
_MATH = pattern(r"([shdczi])?(\d+x\d+x\d+|\d{3,6})?(tf32|bf16|f16|i8)?(gemm|cudnn|fprop|dgrad|wgrad)")
TILE = pattern(r"\d+x\d+(?:x\d+){0,2}")
_SM = pattern(r"sm_?(\d{2,3}[af]?)")
_LAYOUT = pattern(r"[ntNT]{2,4}")
_TYPE = pattern(
    r"(?:ue\dm\dx)?(bf16|fp16|f16|tf32|cf32|cf64|f32|f64|fp8|e4m3|e5m2|e3m2|e2m3|e2m1|i8|s8|u8)"
    r"(bf16|f16|tf32|cf32|cf64|f32|f64|e4m3|e5m2|i8|s8|u8|i32)?"
)
_PREFIXED = pattern(r"(tilesize|warpgroupsize|warpsize|tensor|stage|sliced|align|cga)(\d[\dx]*)")
_INSTRUCTIONS = {
    "884": "8x8x4", "1688": "16x8x8", "16816": "16x8x16", "16832": "16x8x32", "16864": "16x8x64",
    "8816": "8x8x16", "161616": "16x16x16", "32816": "32x8x16", "83216": "8x32x16",
}  # fmt: skip
_PRECISION = {"s": "fp32", "h": "fp16", "d": "fp64", "i": "int8", "c": "complex64", "z": "complex128"}
CONVOLUTIONS = {
    "fprop": "fprop", "dgrad": "dgrad", "wgrad": "wgrad", "fwd": "fprop", "bwd": "dgrad", "wrw": "wgrad",
}  # fmt: skip
MEMORY = ("nhwc", "nchw", "ndhwc", "ncdhw")
_NOTES = {
    "splitk": "split K", "relu": "relu", "coopa": "cooperative (A)", "coopb": "cooperative (B)",
    "badd": "adds C (beta is not zero)", "2cta": "pairs of CTAs", "wmma": "WMMA", "simt": "no tensor cores",
    "warpspecialized": "warp specialized", "pingpong": "ping-pong", "cooperative": "cooperative",
    "winograd": "Winograd", "swiglu": "SwiGLU epilogue", "bias": "bias epilogue", "grouped": "grouped",
}  # fmt: skip
_MARKS = {"splitk": "splitk", "badd": "+C", "bias": "+bias"}
"""Notes that the short name shows."""
UNALIGNED = "operands are not aligned"
_WIDE = ("fp64", "complex64", "complex128")
"""Elements of 8 bytes or more: kernels for them usually load one at a time."""
"""A note: the kernel loads one element at a time (``align1``), as rows may start at any address."""

_NVJET_TYPES = {"t": "bf16", "h": "fp16", "q": "fp8", "s": None}


class _Words(Struct):
    """What the words of a name have shown so far."""

    tiles: list[str] = field(default_factory=list)
    arch: str | None = None
    dtype: str | None = None
    precision: str | None = None
    instruction: str | None = None
    layout: str | None = None
    memory: str | None = None
    convolution: str | None = None
    tensor_cores: bool | None = None
    stages: int | None = None
    gemm: bool = False
    extra: list[str] = field(default_factory=list)


def decode_gemm(name: str) -> KernelName | None:
    """Decode a matrix product's or a convolution's name, or None if it is not one."""
    text = name[: cxx.LIMIT]
    if text.startswith("_matmul_ogs_"):
        return _matmul_ogs(name, text)
    function = cxx.parse(text)
    word = function.base
    if word in ("Kernel", "Kernel2", "device_kernel") and function.args:
        word = cxx.parse(function.args[0]).base
    if word.startswith("nvjet_"):
        return _finish(name, "nvjet", _nvjet(word))
    family = _family(word)
    if family is None:
        return None
    words = _read(word.split("_"))
    if family == "cudnn" and "implicit_gemm" in word:
        words.convolution = words.convolution or "conv"
    if not (words.gemm or words.convolution):
        return None
    if (
        "_xmma_" in word and "_tf32" in word and words.dtype == "fp32"
    ):  # the inputs are fp32, not what is multiplied
        words.dtype, words.tensor_cores = "tf32", True
    if "_xmma_" in word and words.tensor_cores is None and words.dtype == "fp32":
        words.tensor_cores = False  # these names always state the tensor instruction if there is one
    if "cutlass" in word and len(words.tiles) > 1:
        words.stages = _after_x(words.tiles[1])
    return _finish(name, family, words)


def _family(word: str) -> str | None:
    if "cutlass" in word:
        return "cutlass"
    if "_xmma_" in word:
        return "cudnn" if "cudnn" in word else "cublas"
    if "cudnn" in word:
        return "cudnn"
    first = word.split("_", 1)[0]
    math = _MATH.fullmatch(first)
    return "cublas" if first in _ARCHITECTURES or (math and math[1] and math[4] == "gemm") else None


def _read(tokens: list[str]) -> _Words:
    words = _Words()
    previous = ""
    for token in tokens:
        low = token.lower()
        if math := _MATH.fullmatch(low):
            _read_math(words, math)
        elif low in _ARCHITECTURES:
            words.arch = low
        elif sm := _SM.fullmatch(low):
            words.arch = f"sm{sm.group(1)}"
        elif previous in ("cutlass", "cutlass3x") and low.isdigit():
            words.arch = f"sm{low}"
        elif previous == "stages" and TILE.fullmatch(low):
            words.stages = _after_x(low)
        elif TILE.fullmatch(low):
            words.tiles.append(low)
        elif part := _PREFIXED.fullmatch(low):
            _read_prefixed(words, part.group(1), part.group(2))
        elif low in ("tensorop", "wmma", "simt"):
            words.tensor_cores = low != "simt"
        elif low in MEMORY:
            words.memory = low
        elif low in CONVOLUTIONS and "conv" in tokens:  # other kernels have a forward, too
            words.convolution = CONVOLUTIONS[low]
        elif kind := _TYPE.fullmatch(low):
            words.dtype = words.dtype or cxx.DTYPES.get(kind.group(1))
        elif _LAYOUT.fullmatch(token) and words.layout is None:
            words.layout = low
        if low in _NOTES and low != "relu":
            words.extra.append(_NOTES[low])
        previous = low
    return words


def _read_math(words: _Words, math: re.Match[str]) -> None:
    precision, digits, narrow, what = math.groups()
    words.precision = _PRECISION.get(precision or "")
    if what == "gemm":
        words.gemm = True
    elif what == "cudnn":  # scudnn: a convolution, in whichever direction; cudnn alone is all of the library
        words.convolution = words.convolution or ("conv" if precision else None)
    else:
        words.convolution = what
    if digits:
        words.instruction = digits if "x" in digits else _INSTRUCTIONS.get(digits)
        words.tensor_cores = True
    elif precision and words.tensor_cores is None:
        words.tensor_cores = False  # sgemm, scudnn: plain arithmetic units
    if narrow:
        words.dtype = words.dtype or cxx.DTYPES.get(narrow)


def _read_prefixed(words: _Words, what: str, value: str) -> None:
    if what == "tilesize":
        words.tiles.insert(0, value)
    elif what == "stage":
        words.stages = int(value) if value.isdigit() and len(value) < 4 else None
    elif what == "tensor":
        words.instruction, words.tensor_cores = value, True
    elif what == "warpgroupsize":
        words.tensor_cores = True  # warp groups exist for WGMMA
    elif what == "align" and value == "1" and words.tensor_cores and words.precision not in _WIDE:
        words.extra.append(UNALIGNED)
    elif what == "sliced":
        words.extra.append(f"sliced {value}")


def _nvjet(word: str) -> _Words:
    """``nvjet[_sm90]_tst_MxN_KxSTAGES_CLUSTER_raster_epilogue[_coop][_splitK]_LAYOUT``."""
    words = _Words(gemm=True, tensor_cores=True)
    for token in word.split("_")[1:]:
        low = token.lower()
        if sm := _SM.fullmatch(low):
            words.arch = f"sm{sm.group(1)}"
        elif TILE.fullmatch(low):
            words.tiles.append(low)
        elif _LAYOUT.fullmatch(token) and token.isupper():
            words.layout = low
        elif low in _NOTES:
            words.extra.append(_NOTES[low])
        elif not words.tiles and low.isalpha():
            words.dtype = _NVJET_TYPES.get(low[0])
    if len(words.tiles) > 1 and words.tiles[1].count("x") == 1:
        words.stages = _after_x(words.tiles[1])
        words.tiles[0] += "x" + words.tiles[1].split("x")[0]
    return words


def _finish(name: str, family: str, words: _Words) -> KernelName:
    dtype = words.dtype
    if dtype is None and words.tensor_cores and words.precision == "fp32" and words.instruction == "16x8x8":
        # fp32 operands, a 16x8x8 instruction and no narrower type: the TF32 path of Ampere and later.
        dtype = "tf32" if words.arch not in ("volta", "turing", "sm70", "sm75") else None
    elif dtype is None and (not words.tensor_cores or words.precision in _WIDE):
        dtype = words.precision
    tile = words.tiles[0] if words.tiles else None
    flat = "x".join(tile.split("x")[:2]) if tile else None
    kind = "conv" if words.convolution else "gemm"
    layout = words.memory or words.layout if kind == "conv" else words.layout
    way = words.convolution if words.convolution != "conv" else None
    marks = [mark for word, mark in _MARKS.items() if _NOTES[word] in words.extra]
    cluster = None
    if family == "nvjet" and len(words.tiles) > 2:
        cluster = words.tiles[2]
    elif family == "cutlass" and len(words.tiles) > 1 and tile and tile.count("x") == 2:
        cluster = words.tiles[1]
    return KernelName(
        name, family, join_words(kind, way, dtype, flat, layout, *marks), kind, words.arch, dtype, tile,
        stages=None if cluster and family == "cutlass" else words.stages,
        cluster=cluster, instruction=words.instruction, layout=layout, tensor_cores=words.tensor_cores,
        notes=tuple(dict.fromkeys(words.extra)),
    )  # fmt: skip


def _matmul_ogs(name: str, text: str) -> KernelName:
    """``_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu``: the mixture-of-experts product of
    triton_kernels.
    """
    tokens = text.split("_")[3:]
    layout = next((t.lower() for t in tokens if _LAYOUT.fullmatch(t)), None)
    tile = next((t for t in tokens if TILE.fullmatch(t)), None)
    types = next((t.split("x", 2) for t in tokens if t.partition("x")[0] in cxx.DTYPES), [])
    # The types are those of the output, the activations and the weights.
    dtype = cxx.DTYPES.get(types[1]) if len(types) > 1 else None
    weights = types[2] if len(types) > 2 else None
    notes = [_NOTES[t] for t in tokens if t in _NOTES]
    if weights:
        notes.append(f"weights in {weights}")
    swiglu = [t for t in tokens if t == "swiglu"]
    short = join_words("moe gemm", dtype, weights if weights != dtype else None, *swiglu)
    return KernelName(
        name, "triton", short, "gemm", dtype=dtype, tile=tile, layout=layout, notes=tuple(notes)
    )


def _after_x(text: str) -> int | None:
    number = text.rsplit("x", 1)[-1]
    return int(number) if number.isdigit() and len(number) < 4 else None
