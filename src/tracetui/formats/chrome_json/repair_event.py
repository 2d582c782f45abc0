"""Repairs one broken event if its meaning is certain. Every expression here is linear in the text."""

from __future__ import annotations

import re

from tracetui.core.patterns import pattern

STRING = pattern(r'("[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z))', re.DOTALL)
CONTROL = pattern(r"[\x00-\x1f]")
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
ESCAPE = pattern(
    rf'((?:\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{{4}}|{_HIGH}{_LOW}){{1,999}})|({_HIGH}|{_LOW})|\\'
)
"""Sound escapes, half a pair of surrogates, or a lone backslash."""
BARE = pattern(r"(?<=[:\[,\s])[-+]?(?:inf(?:inity)?|nan|n/a)(?=\s*(?:[,}\]]|$))", re.IGNORECASE)
TRAILING = pattern(r",(?=\s*[}\]])|(?<=[{\[])(\s*),|,(?=\s*,)")
WORD = pattern(r"(:\s*)(?!(?:true|false|null)\b)([A-Za-z_][^,{}\[\]:\\\n\0]*)")
AFTER_VALUE = pattern(r"\s*[,}]")
LETTER = pattern("[A-Za-z_]")


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
        if match[1]:
            return match[1]
        note("bad_escape")
        return "\\ufffd" if match[2] else "\\\\"

    def control(match: re.Match[str]) -> str:
        note("control_characters")
        return f"\\u{ord(match.group()):04x}"

    def word(match: re.Match[str]) -> str:
        if not AFTER_VALUE.match(outside, match.end()):
            return match[0]
        note("unquoted")
        return f'{match[1]}"{match[2].rstrip()}"'

    parts = STRING.split(chars)  # outside, a string, outside, ...
    outside = "\0".join(parts[::2])
    if outside.count("\0") != len(parts) // 2:
        return None, []  # a zero outside of strings: nothing is certain
    if outside.count("{") != outside.count("}") or outside.count("[") != outside.count("]"):
        return None, []  # no repair changes brackets
    lettered = LETTER.search(outside)
    if lettered:
        outside, count = BARE.subn("null", outside)
        if count:
            note("bare_value")
    outside, count = TRAILING.subn(r"\1", outside)
    if count:
        note("comma")
    if lettered:
        outside = WORD.sub(word, outside)
    for i in range(1, len(parts), 2):
        if "\\" in parts[i]:
            parts[i] = ESCAPE.sub(escape, parts[i])
        if not parts[i].isprintable():
            parts[i] = CONTROL.sub(control, parts[i])
    if not kinds:
        return None, []
    parts[::2] = outside.split("\0")
    return "".join(parts).encode("utf-8", "replace"), kinds
