"""Reading C++ function names, demangled or not, in one pass and without a grammar.

Names come from files that strangers made. Every function here accepts any text, never raises, and reads at
most `LIMIT` characters, so a hostile name costs no more than a long one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

LIMIT = 8192

_STRUCTURE = re.compile(r"::|[<>(){}, ]")
_LAMBDA = re.compile(r"\{lambda\(([^(){}]{0,200})\)#(\d{1,4})\}")
_CAST = re.compile(r"^\((?:int|bool|unsigned int|long|unsigned long|long long)\)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ANONYMOUS = "(anonymous namespace)"

_SPELLINGS = {
    "fp64": "double, f64, fp64",
    "fp32": "float, float2, float4, f32, fp32",
    "fp16": "half, __half, __half2, half_t, _Float16, f16, fp16, Half",
    "bf16": "BFloat16, __nv_bfloat16, __nv_bfloat162, __hip_bfloat16, bfloat16, bfloat16_t, bf16",
    "tf32": "tf32, tfloat32_t",
    "fp8": "Float8_e4m3fn, Float8_e5m2, Float8_e4m3fnuz, Float8_e5m2fnuz, __nv_fp8_e4m3, __nv_fp8_e5m2, "
    "float_e4m3_t, float_e5m2_t, e4m3, e5m2, fp8, f8e4m3, f8e5m2",
    "int8": "int8_t, signed char, i8, int8",
    "uint8": "uint8_t, unsigned char, u8",
    "int16": "short",
    "int32": "int, i32, int32_t",
    "uint32": "unsigned int, uint32_t, u32",
    "int64": "long, long int, int64_t, i64",
    "uint64": "unsigned long, uint64_t, u64",
    "bool": "bool",
    "complex64": "complex<float>",
    "complex128": "complex<double>",
}
DTYPES = {word: dtype for dtype, words in _SPELLINGS.items() for word in words.split(", ")}


@dataclass(frozen=True, slots=True)
class Function:
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


def first_dtype(args: Iterable[str]) -> str | None:
    """The first argument that names an element type, as that type; None if there is none."""
    return next(filter(None, map(dtype_of, args)), None)


def parse(name: str) -> Function:
    """The qualified name at the head of a demangled function, without return type and parameters."""
    name = name[:LIMIT].strip()
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
        elif mark == "," and depth <= 0:
            found.append(_CAST.sub("", text[start : match.start()].strip()))
            start = match.end()
    last = _CAST.sub("", text[start:LIMIT].strip())
    return [*found, last] if last else found


def lambda_types(text: str) -> list[str]:
    """The parameter types of the innermost lambda in a functor's name."""
    typed = [types for types, _ in _LAMBDA.findall(text[:LIMIT]) if types]
    return split_args(typed[-1]) if typed else []


def lambda_number(text: str) -> int | None:
    """Which lambda of its function a functor is, counted from 1."""
    match = _LAMBDA.search(text[:LIMIT])
    return int(match.group(2)) if match else None


def mangled_identifiers(name: str) -> list[str]:
    """The source names in an Itanium-mangled symbol, in order: each is written as its length and its text."""
    found: list[str] = []
    at = 2
    end = min(len(name), LIMIT)
    while at < end:
        if not ("0" <= name[at] <= "9"):
            at += 1
            continue
        stop = at
        while stop < end and stop - at < 5 and "0" <= name[stop] <= "9":
            stop += 1
        length = int(name[at:stop])
        text = name[stop : stop + length]
        literal = name[at - 2] == "L"  # Li128E: the integer 128, not a name of 128 letters
        if not literal and len(text) == length > 1 and (text[0].isalpha() or text[0] == "_"):
            found.append(text)
            at = stop + length
        else:
            at = stop
    return found


def snake(text: str) -> str:
    """`GeluBackward` as ``gelu_backward``."""
    return _CAMEL.sub("_", text).lower()
