"""Repairs one broken event if its meaning is certain."""

from __future__ import annotations

import re
from collections.abc import Callable

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\(.|$)', re.DOTALL)
_BARE = re.compile(r"(?<=[:\[,\s])[-+]?(?:inf(?:inity)?|nan|n/a)(?=\s*(?:[,}\]]|$))", re.IGNORECASE)
_TRAILING = re.compile(r",(?=\s*[}\]])|(?<=[{\[])(\s*),|,(?=\s*,)")
_WORD = re.compile(r"(?<=:)(\s*)(?!(?:true|false|null)\b)([A-Za-z_][^,{}\[\]\":\\\n]*?)(?=\s*[,}])")
_OUTSIDE = (("bare_value", _BARE, "null"), ("comma", _TRAILING, r"\1"), ("unquoted", _WORD, r'\1"\2"'))
"""(kind of notice, what is wrong outside strings, what takes its place)"""


def repair_event(text: bytes) -> tuple[bytes | None, list[str]]:
    """(repaired text, kinds of notices); (None, []) if there was nothing to repair. The caller checks that
    the result decodes."""
    kinds: list[str] = []

    def note(kind: str) -> None:
        if kind not in kinds:
            kinds.append(kind)

    try:
        chars = text.decode()
    except UnicodeDecodeError:
        chars = text.decode("utf-8", "replace")
        note("bad_utf8")

    def escape(match: re.Match[str]) -> str:
        sound, other = match.groups()
        if sound:
            return sound
        note("bad_escape")
        return "\\\\" + (other or "")

    def control(match: re.Match[str]) -> str:
        note("control_characters")
        return f"\\u{ord(match.group()):04x}"

    def inside(part: str) -> str:
        if "\\" in part:
            part = _surrogates(_ESCAPE.sub(escape, part), note)
        return _CONTROL.sub(control, part)

    def outside(part: str) -> str:
        for kind, pattern, replacement in _OUTSIDE:
            part, count = pattern.subn(replacement, part)
            if count:
                note(kind)
        return part

    repaired = []
    at = 0
    for match in _STRING.finditer(chars):
        repaired += [outside(chars[at : match.start()]), inside(match.group())]
        at = match.end()
    repaired.append(outside(chars[at:]))
    return ("".join(repaired).encode("utf-8", "replace"), kinds) if kinds else (None, [])


_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)((?:\\u[dD][89a-fA-F][0-9a-fA-F]{2})+)")


def _surrogates(part: str, note: Callable[[str], None]) -> str:
    """Replace lone halves of surrogate pairs by U+FFFD; keep pairs."""

    def fix(match: re.Match[str]) -> str:
        before, run = match.groups()
        codes = re.findall(r"\\u([0-9a-fA-F]{4})", run)
        made = []
        at = 0
        while at < len(codes):
            high = int(codes[at], 16)
            low = int(codes[at + 1], 16) if at + 1 < len(codes) else 0
            if 0xD800 <= high < 0xDC00 <= low < 0xE000:
                made.append(f"\\u{codes[at]}\\u{codes[at + 1]}")
                at += 2
            else:
                note("bad_escape")
                made.append("\\ufffd")
                at += 1
        return before + "".join(made)

    return _SURROGATES.sub(fix, part)
