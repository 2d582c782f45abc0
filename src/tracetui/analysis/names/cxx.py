"""Reads C++ function names, mangled or not, in one pass and without a grammar.

Names come from files that anyone may have made. Every function here accepts any text, never raises, and reads
at most `LIMIT` characters, so a hostile name costs no more than a long one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from tracetui.core.patterns import pattern

LIMIT = 8192

_STRUCTURE = pattern(r"::|[<>(){}, ]")
_LAMBDA = pattern(r"\{lambda\(([^(){}]{0,200})\)#(\d{1,4})\}")
_CAST = pattern(r"^\((?:int|bool|unsigned int|long|unsigned long|long long)\)")
_CAMEL = pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_ANONYMOUS = "(anonymous namespace)"
_QUALIFIERS = pattern(r"(?:(?:void|static|inline|extern|const|__global__|__device__) )+")

_SPELLINGS = {
    "fp64": "double, f64, fp64",
    "fp32": "float, float2, float4, f32, fp32",
    "fp16": "half, __half, __half2, half_t, _Float16, f16, fp16, Half",
    "bf16": "BFloat16, __nv_bfloat16, __nv_bfloat162, __hip_bfloat16, bfloat16, bfloat16_t, bf16",
    "tf32": "tf32, tfloat32_t",
    "fp8": "Float8_e4m3fn, Float8_e5m2, Float8_e4m3fnuz, Float8_e5m2fnuz, __nv_fp8_e4m3, __nv_fp8_e5m2, "
    "float_e4m3_t, float_e5m2_t, e4m3, e5m2, fp8, f8e4m3, f8e5m2, f8_fnuz_t, f8_ocp_t, f8_t, bf8_t, "
    "__hip_fp8_e4m3, __hip_fp8_e4m3_fnuz",
    "fp6": "float_e3m2_t, float_e2m3_t, e3m2, e2m3",
    "fp4": "float_e2m1_t, __nv_fp4_e2m1, e2m1, fp4, f4x2_pk_t",
    "int8": "int8_t, signed char, i8, s8, int8",
    "uint8": "uint8_t, unsigned char, u8",
    "int16": "short",
    "int32": "int, i32, int32_t",
    "uint32": "unsigned int, uint32_t, u32",
    "int64": "long, long int, int64_t, i64",
    "uint64": "unsigned long, uint64_t, u64",
    "bool": "bool",
    "complex64": "complex<float>, cf32",
    "complex128": "complex<double>, cf64",
}
DTYPES = {word: dtype for dtype, words in _SPELLINGS.items() for word in words.split(", ")}


class Function(Struct, frozen=True):
    """A qualified name: its parts without template arguments, and the template arguments of the last part."""

    path: tuple[str, ...]
    args: tuple[str, ...]

    @property
    def base(self) -> str:
        return self.path[-1] if self.path else ""


def dtype_of(text: str) -> str | None:
    """The element type that a C++ type names, or None. Pointers, references and const are ignored."""
    text = text[:80].replace("const", "").strip(" *&")
    return DTYPES.get(text) or DTYPES.get(text.rsplit("::", 1)[-1].strip())


@lru_cache(maxsize=1024)
def readable(name: str) -> str:
    """A mangled name (Itanium: ``_ZN2ck...``) as C++; any other name unchanged.

    Kineto leaves names mangled if they are longer than 1,024 characters or have types that its own demangler
    does not know, such as the bf16 of AMD's compilers. A name that the library cannot read (cut short,
    damaged, or on Python 3.10, for which the library has no version) comes back as its source names and
    numbers in order, in the form of a template. The library limits depth, input and output.
    """
    name = name.removesuffix(".kd")  # AMD's kernel descriptor, which shares the kernel's name
    if not name.startswith("_Z"):
        return name
    found = name
    try:
        from demangle import demangle
    except ImportError:
        pass
    else:
        found = demangle(name[:LIMIT], language="itanium")
    return found[:LIMIT] if not found.startswith("_Z") else _outline(name)


def _outline(name: str) -> str:
    """``ck::kernel<GridwiseGemm, RowMajor, 256>``: what can be read from a mangled name without the
    grammar."""
    words, nested = _mangled_words(name)
    if not words:
        return name
    return f"{'::'.join(words[:nested])}<{', '.join(words[nested:])}>" if words[nested:] else "::".join(words)


def first_dtype(args: Iterable[str]) -> str | None:
    """The first argument that names an element type, as that type; None if there is none."""
    return next(filter(None, map(dtype_of, args)), None)


@lru_cache(maxsize=64)  # each family in turn asks for the same name
def parse(name: str) -> Function:
    """The qualified name at the head of a demangled function, without return type and parameters.

    Without parameters, template arguments or a namespace behind its last space, a name is words, all of
    which count: compilers for other devices call kernels "sdsc_bmm_2 Cmpt Exec".
    """
    name = name[:LIMIT].strip()
    if found := _QUALIFIERS.match(name):
        name = name[found.end() :].strip()
    parts: list[str] = []
    args = ""
    depth = start = 0  # start: where the current part starts
    opened = -1  # where its template arguments start
    for match in _STRUCTURE.finditer(name):
        mark, at = match.group(), match.start()
        if depth == 0:
            if mark == "(" and not _is_part(name, start, at):
                return _function(parts, name[start:at], args)
            if mark == " ":
                parts, args, start = [], "", at + 1
            elif mark == "::":
                parts.append(name[start:at] if opened < 0 else name[start:opened])
                args, start = "", at + 2
            opened = at if mark == "<" else -1 if mark in (" ", "::") else opened
        if mark in ("<", "(", "{"):
            depth += 1
        elif mark in (")", "}") or (mark == ">" and name[at - 1 : at] != "-"):
            depth = max(0, depth - 1)
            if mark == ">" and depth == 0 and opened >= 0:
                args = name[opened + 1 : at]
                parts.append(name[start:opened])
                start, opened = at + 1, -1
    if opened >= 0:  # the name was cut inside its template arguments
        return _function(parts, name[start:opened], name[opened + 1 :])
    if not parts and start and depth == 0:
        return Function((name,), ())
    return _function(parts, name[start:], args)


def _is_part(name: str, start: int, at: int) -> bool:
    """Whether a parenthesis opens a part of the name, not the parameters."""
    return name.startswith(_ANONYMOUS, at) or name.endswith("operator", start, at)


def _function(parts: list[str], last: str, args: str) -> Function:
    path = tuple(part for part in (*parts, last.strip()) if part and part != _ANONYMOUS)
    return Function(path, tuple(split_args(args)))


def split_args(text: str) -> list[str]:
    """Template or function arguments, split at the commas outside all brackets."""
    found: list[str] = []
    depth = start = 0
    for match in _STRUCTURE.finditer(text[:LIMIT]):
        mark = match.group()
        if mark in ("<", "(", "{"):
            depth += 1
        elif mark in (")", "}") or (mark == ">" and text[match.start() - 1 : match.start()] != "-"):
            depth -= 1
            if depth < 0:  # the bracket that closes the list
                text = text[: match.start()]
                break
        elif mark == "," and depth == 0:
            found.append(_CAST.sub("", text[start : match.start()].strip()))
            start = match.end()
    last = _CAST.sub("", text[start:LIMIT].strip())
    return [*found, last] if last else found


def template_args(text: str, head: str) -> list[str]:
    """The arguments of the first template called ``head`` in a text; [] where there is none."""
    return split_args(text.partition(f"{head}<")[2])


def inner(function: Function) -> Function:
    """What a launcher's template runs: T in ``cutlass::device_kernel<T>``, ``ck_tile::kentry<1, T>``."""
    for _ in range(4):
        wraps = function.base in _LAUNCHERS or function.base.startswith("enable_")
        types = [arg for arg in function.args if not arg.isdigit()] if wraps else []
        if not types:
            break
        function = parse(types[0])
    return function


_LAUNCHERS = frozenset({"Kernel", "Kernel2", "device_kernel", "kentry", "kentry_pt"})


def lambda_types(text: str) -> list[str]:
    """The parameter types of the innermost lambda in a functor's name."""
    typed = [types for types, _ in _LAMBDA.findall(text[:LIMIT]) if types]
    return split_args(typed[-1]) if typed else []


def lambda_number(text: str) -> int | None:
    """Which lambda of its function a functor is, counted from 1."""
    match = _LAMBDA.search(text[:LIMIT])
    return int(match.group(2)) if match else None


_SEEN = pattern(r"[ST][0-9A-Z]{0,3}_|L[ijlmb](\d{1,6})E|([1-9]\d{0,3})(?=[A-Za-z_])|(DF16b)|(I)")


def _mangled_words(name: str) -> tuple[list[str], int]:
    """The source names and numbers in a mangled name, in order, and how many come before its arguments."""
    words: list[str] = []
    nested = at = 0
    name = name[:LIMIT]
    while match := _SEEN.search(name, at):
        at = match.end()
        if match[1]:
            words.append(match[1])
        elif match[2]:
            text = name[at : at + int(match[2])]
            if text.isidentifier() and len(text) == int(match[2]):
                at += len(text)
                if not text.startswith("_GLOBAL__N"):
                    words.append(text)
        elif match[3]:
            words.append("bfloat16_t")
        elif match[4]:
            nested = nested or len(words)
    return words, nested or len(words)


def snake(text: str) -> str:
    """`GeluBackward` as ``gelu_backward``."""
    return _CAMEL.sub("_", text).lower()
