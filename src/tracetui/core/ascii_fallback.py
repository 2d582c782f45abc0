"""The non-ASCII characters that the program writes, and the ASCII character that replaces each."""

from __future__ import annotations

from contextlib import suppress

_PAIRS = (
    ("…▼▲▌█░│┊·↵⚠◂▸▏▎▍▋▊▉◀", "~v^|#.||->!<>|||###<"),
    ("└─→←↑↓↔×µ“”ᵀ▁▂▃▄▅▆▇", '`-><^v-xu""T__--==#'),
    ("▓▒╱▀", "%=/^"),
)
ASCII_FALLBACKS = {shown: ascii for row in _PAIRS for shown, ascii in zip(*row, strict=True)}


def encodable(text: str, encoding: str) -> str:
    """The text with every character that the encoding lacks replaced by its fallback, or by "?"."""
    with suppress(UnicodeEncodeError):
        if text.isascii() or text.encode(encoding):
            return text
    missing: dict[int, str] = {}
    for character in set(text):
        try:
            character.encode(encoding)
        except UnicodeEncodeError:
            missing[ord(character)] = ASCII_FALLBACKS.get(character, "?")
    return text.translate(missing)
