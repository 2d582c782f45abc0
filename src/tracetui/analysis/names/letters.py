"""What the letters in a kernel's name mean, part by part, if that is documented or evident.

Sources: CUTLASS (docs.nvidia.com/cutlass: functionality, profiler, efficient GEMM) for the words that cuBLAS
and cuDNN use too; Tensile (rocm.docs.amd.com/projects/Tensile: kernel parameters; a parameter's abbreviation
is its capitals, `getParameterNameAbbreviation`); NCCL (environment variables NCCL_ALGO and NCCL_PROTO).
NVIDIA does not document nvjet names: what is said about those agrees with the ops' types, shapes and
epilogues.
"""

from __future__ import annotations

from collections.abc import Iterator

from tracetui.analysis.names import cxx
from tracetui.analysis.names.model import KernelName
from tracetui.core.patterns import pattern

Letters = tuple[tuple[str, str], ...]
"""(part of the name, what it means) pairs, in the name's order."""

_SIZES = pattern(r"(\d{1,4})x(\d{1,4})(?:x(\d{1,4}))?")
_LAYOUT = pattern(r"[ntNT]{2,4}")
_COLUMN = {"n": "as is", "t": "transposed"}
_MAJOR = {"n": "column-major", "t": "row-major"}
_NVJET_TYPES = {"t": "bf16", "h": "fp16", "s": "fp32", "d": "fp64"}
_ACCUMULATES = {"s": "fp32", "h": "fp16", "d": "fp64", "i": "int32"}
_MATH = pattern(r"(?<![a-z])([shdi])(?:\d{3,6}|\d{1,3}x\d{1,3}x\d{1,3})(?:gemm|fprop|dgrad|wgrad)")
_NUMBERED = pattern(r"(tilesize(?=\d+x\d)|stage|sliced|align|cga|warpgroupsize|warpsize)(\d[\dx]{0,11})")

_PLAIN = {
    "splitk": "K is divided among blocks, whose results are added at the end",
    "bias": "a bias is added before the result is written",
    "badd": "C is added (beta is not zero)",
    "warpspecialized": "some warps load while others multiply",
    "pingpong": "two groups of warps take turns: one multiplies while the other writes its result",
    "cooperative": "two groups of warps share each tile",
    "2cta": "pairs of blocks share an instruction (Blackwell)",
    "tensorop": "on tensor cores",
    "wmma": "on tensor cores, through the WMMA interface",
    "simt": "on the plain arithmetic units",
    "grouped": "many matmuls of different sizes in one kernel",
    "streamk": "blocks take equal shares of all tiles' work, also parts of a tile",
}
_UNDOCUMENTED = "not documented; agrees with the ops"
_NVJET = {
    "bz": "not documented; appears where nothing is added to the result (beta is zero)",
    "coopa": "not documented (by its name, warps that cooperate)",
    "coopb": "not documented (by its name, warps that cooperate)",
}  # fmt: skip
_NCCL = {
    "RING": "algorithm: data goes around a ring of ranks",
    "TREE": "algorithm: sums go up a tree of ranks and down again",
    "NVLS": "algorithm: NVLink switches add and multicast",
    "COLLNET": "algorithm: the network's switches add",
    "LL": "protocol for low latency: each 8 bytes hold 4 of data and a flag",
    "LL128": "protocol for low latency over NVLink: 128 bytes at a time",
    "SIMPLE": "protocol for bandwidth: large pieces, with memory fences",
}
_TENSILE = {
    "GSU": "K is divided among {} work groups (GlobalSplitU)",
    "SK": "Stream-K: work groups take equal shares of all tiles' work (StreamK {})",
    "PGR": "memory is read {} iterations ahead (PrefetchGlobalRead)",
    "PLR": "local memory is read {} iterations ahead (PrefetchLocalRead)",
    "WGM": "order in which work groups go over the result, for the caches (WorkGroupMapping {})",
    "WS": "{} threads per wave (WavefrontSize)",
    "ISA": "gfx{}",
}
_SWITCHES = ("GSU", "SK", "WGM")
_OFF = ("0", "1")
"""Values of the switches that are not worth mentioning."""
_TENSILE_PART = pattern(r"(GSU|SK|PGR|PLR|WGM|WS|ISA)(n?\d{1,4})")
_TENSILE_TYPES = {"B": "bf16", "H": "fp16", "S": "fp32", "D": "fp64", "F8": "fp8", "B8": "bf8", "I8": "int8"}
_TENSILE_INDEX = {
    "Ailk": "A as is", "Alik": "A transposed: the summed index l comes first", "Bljk": "B as is",
    "Bjlk": "B transposed: the summed index l comes second",
}  # fmt: skip


def letters(name: KernelName) -> Letters:
    """What the parts of a decoded name mean; () where the name has no letters to spell out."""
    text = name.name[: cxx.LIMIT]
    if name.family == "nvjet":
        return tuple(_nvjet(text))
    if name.family == "nccl":
        known = _NCCL | dict.fromkeys(
            (note for note in name.notes if note not in _NCCL and " " not in note), "how values are reduced"
        )
        return tuple((word, known[word]) for word in text.partition("(")[0].split("_") if word in known)
    if text.startswith(("Cijk_", "Custom_Cijk_")):
        return tuple(_tensile(text.removeprefix("Custom_").split("_")))
    if name.family in ("cutlass", "cublas", "cudnn") and name.kind in ("gemm", "conv"):
        function = cxx.inner(cxx.parse(text))
        return tuple(_procedural(function.base, name)) if "_" in function.base else ()
    return ()


def _nvjet(text: str) -> Iterator[tuple[str, str]]:
    sizes = 0
    for word in cxx.inner(cxx.parse(text)).base.split("_")[1:]:
        low = word.lower()
        if low.startswith("sm"):
            continue
        if not sizes and len(low) == 3 and low[0] in _NVJET_TYPES and set(low) <= set(_NVJET_TYPES):
            a, total, out = (_NVJET_TYPES[letter] for letter in low)
            yield (word, f"{a} inputs, {total} accumulation, {out} result ({_UNDOCUMENTED})")
        elif not sizes and (low[:2], low[3:4]) == ("qq", "s") and low[4:] in _NVJET_TYPES:
            yield word, f"fp8 inputs, fp32 accumulation, {_NVJET_TYPES[low[4]]} result ({_UNDOCUMENTED})"
        elif size := _SIZES.fullmatch(low):
            sizes += 1
            if "mma" in text:  # sm120 uses another order, whose meaning is not evident
                continue
            if sizes == 1:
                yield word, f"tile: {size[1]} x {size[2]} of the result at a time"
            elif sizes == 2:
                yield word, f"{size[1]} of K at a time, {size[2]} stages in flight"
            elif sizes == 3:
                yield word, f"blocks work in clusters of {size[1]} x {size[2]}"
        elif _LAYOUT.fullmatch(word) and word.isupper():
            yield word, _layout(low, _COLUMN, "not documented")
        elif meaning := _NVJET.get(low) or _PLAIN.get(low):
            yield word, meaning


def _layout(low: str, words: dict[str, str], third: str | None) -> str:
    parts = [f"A {words[low[0]]}", f"B {words[low[1]]}"]
    if len(low) > 2:
        parts.append(f"{', '.join(low[2:].upper())} {third}" if third else f"C {words[low[2]]}")
    seen = " (as BLAS sees it, column-major)" if words is _COLUMN else ""
    return ", ".join(parts) + seen


def _procedural(base: str, name: KernelName) -> Iterator[tuple[str, str]]:
    """CUTLASS's procedural names, and the words that cuBLAS and cuDNN share with them."""
    if math := _MATH.search(base):
        instruction = f", instruction {name.instruction}" if name.instruction else ""
        yield math.group(), f"{_ACCUMULATES[math[1]]} accumulation{instruction}"
    sizes = 0
    layout = False
    for word in base.split("_"):
        low = word.lower()
        size = _SIZES.fullmatch(low)
        if size and size[3] and sizes and name.cluster == low:
            yield word, f"blocks work in clusters of {size[1]} x {size[2]}"
        elif size and not sizes:
            sizes += 1
            depth = f", {size[3]} of K at a time" if size[3] else ""
            yield word, f"tile: a block computes {size[1]} x {size[2]} of the result at a time{depth}"
        elif size and sizes == 1 and not size[3] and name.stages == int(size[2]):
            sizes += 1
            yield word, f"{size[1]} of K at a time, {size[2]} stages in flight"
        elif (numbered := _NUMBERED.fullmatch(low)) and (said := _numbered(numbered[1], numbered[2])):
            yield word, said
        elif _LAYOUT.fullmatch(low) and not layout and name.kind == "gemm":
            layout = True
            yield word, _layout(low, _MAJOR if name.family == "cutlass" else _COLUMN, None)
        elif low == "bias":
            yield word, "can add a bias"
        elif low in _PLAIN:
            yield word, _PLAIN[low]


def _numbered(what: str, value: str) -> str | None:
    if what == "tilesize":
        m, n, *k = value.split("x")
        return (
            f"tile: a block computes {m} x {n} of the result at a time" + f", {k[0]} of K at a time" * bool(k)
        )
    if what == "stage":
        return f"{value} stages in flight"
    if what == "align":
        return (
            f"loads of {value} {'element' if value == '1' else 'elements'} at a time: the operands' alignment"
        )
    if what == "sliced":
        return f"K is divided among the warps of a block, {value.replace('x', ' x ')}"
    return f"blocks work in clusters of {value.replace('x', ' x ')}" if what == "cga" else None


def _tensile(words: list[str]) -> Iterator[tuple[str, str]]:
    for at, word in enumerate(words):
        if word in _TENSILE_INDEX:
            yield word, f"{_TENSILE_INDEX[word]} (column-major)"
        elif at == 3 and len(word) == 3 and all(letter in _TENSILE_TYPES for letter in word):
            a, out, total = (_TENSILE_TYPES[letter] for letter in word)
            yield word, f"{a} inputs, {out} result, {total} arithmetic"
        elif word[:2] == "MT" and (size := _SIZES.fullmatch(word[2:])) and size[3]:
            yield (
                word,
                f"tile: a work group computes {size[1]} x {size[2]} of the result, {size[3]} of K at a time",
            )
        elif word[:2] == "MI" and (size := _SIZES.match(word[2:])):
            yield word, f"matrix instruction of {size[1]} x {size[2]}"
        elif word == "Bias":
            yield word, "can add a bias"  # hipBLASLt runs such kernels for plain products too
        elif (part := _TENSILE_PART.fullmatch(word)) and (part[2] not in _OFF or part[1] not in _SWITCHES):
            yield word, _TENSILE[part[1]].format(part[2].replace("n", "-"))
