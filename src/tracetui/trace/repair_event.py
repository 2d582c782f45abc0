"""Mends inside one broken event, where the meaning is certain."""

from __future__ import annotations

import re

STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt])|(u[0-9a-fA-F]{4})|(.)|$)', re.DOTALL)
_BARE = re.compile(r"(?<=[:\[,\s])[-+]?(?:inf(?:inity)?|nan|n/a)(?=\s*(?:[,}\]]|$))", re.IGNORECASE)
_TRAILING = re.compile(r",(?=\s*[}\]])|(?<=[{\[])(\s*),|,(?=\s*,)")
_WORD = re.compile(r"(?<=:)(\s*)(?!(?:true|false|null)\b)([A-Za-z_][^,{}\[\]\":\\\n]*?)(?=\s*[,}])")


def mend(text: bytes) -> tuple[bytes | None, list[str]]:
    """(the text mended, kinds of diagnostics); (None, []) where nothing could be done. Whether it decodes now
    is not checked."""
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
        simple, code, other = match.groups()
        if simple:
            return match.group()
        if code:
            return match.group()
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
        fixed, count = _BARE.subn("null", part)
        if count:
            note("bare_value")
        fixed, count = _TRAILING.subn(lambda m: m.group(1) or "", fixed)
        if count:
            note("comma")
        fixed, count = _WORD.subn(lambda m: f'{m.group(1)}"{m.group(2)}"', fixed)
        if count:
            note("unquoted")
        return fixed

    made = []
    at = 0
    for match in STRING.finditer(chars):
        made.append(outside(chars[at : match.start()]))
        made.append(inside(match.group()))
        at = match.end()
    made.append(outside(chars[at:]))
    return ("".join(made).encode("utf-8", "replace"), kinds) if kinds else (None, [])


_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)((?:\\u[dD][89a-fA-F][0-9a-fA-F]{2})+)")


def _surrogates(part: str, note: object) -> str:
    """Halves of surrogate pairs that stand alone become U+FFFD; pairs stay."""

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
                if callable(note):
                    note("bad_escape")
                made.append("\\ufffd")
                at += 1
        return before + "".join(made)

    return _SURROGATES.sub(fix, part)
