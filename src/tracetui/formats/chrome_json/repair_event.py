"""Repairs one broken event if its meaning is certain. Every expression here is linear in the text."""

from __future__ import annotations

import re

_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f]")
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPE = re.compile(
    rf'((?:\\["\\/bfnrt]|\\u(?![dD][89a-fA-F])[0-9a-fA-F]{{4}}|{_HIGH}{_LOW}){{1,999}})|({_HIGH}|{_LOW})|\\'
)
"""Sound escapes, half a pair of surrogates, or a lone backslash."""
_BARE = re.compile(r"(?<=[:\[,\s])[-+]?(?:inf(?:inity)?|nan|n/a)(?=\s*(?:[,}\]]|$))", re.IGNORECASE)
_TRAILING = re.compile(r",(?=\s*[}\]])|(?<=[{\[])(\s*),|,(?=\s*,)")
_WORD = re.compile(r"(?<=:)(\s*)(?!(?:true|false|null)\b)([A-Za-z_][^,{}\[\]:\\\n\0]*)")
_AFTER_VALUE = re.compile(r"\s*[,}]")


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
        if not _AFTER_VALUE.match(outside, match.end()):
            return match[0]
        note("unquoted")
        return f'{match[1]}"{match[2].rstrip()}"'

    strings = _STRING.findall(chars)
    outside = "\0".join(_STRING.split(chars))
    if outside.count("\0") != len(strings):
        return None, []  # a zero outside of strings: nothing is certain
    for kind, pattern, replacement in (("bare_value", _BARE, "null"), ("comma", _TRAILING, r"\1")):
        outside, count = pattern.subn(replacement, outside)
        if count:
            note(kind)
    outside = _WORD.sub(word, outside)
    for i, string in enumerate(strings):
        if "\\" in string:
            string = _ESCAPE.sub(escape, string)
        strings[i] = string if string.isprintable() else _CONTROL.sub(control, string)
    if not kinds:
        return None, []
    parts = outside.split("\0")
    made = "".join(part for pair in zip(parts, [*strings, ""], strict=True) for part in pair)
    return made.encode("utf-8", "replace"), kinds
