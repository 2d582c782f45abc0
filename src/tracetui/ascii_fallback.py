"""Characters that the program writes, and the one-cell ASCII that stands for each where it has to."""

from __future__ import annotations

__all__ = ["ASCII_FALLBACKS", "encodable"]

ASCII_FALLBACKS = {
    "…": "~",
    "▼": "v",
    "▲": "^",
    "▌": "|",
    "█": "#",
    "░": ".",
    "│": "|",
    "┊": "|",
    "·": "-",
    "↵": ">",
    "⚠": "!",
    "◂": "<",
    "▸": ">",
    "▏": "|",
    "▎": "|",
    "▍": "|",
    "▋": "#",
    "▊": "#",
    "▉": "#",
    "◀": "<",
    "└": "`",
    "→": ">",
    "←": "<",
    "↑": "^",
    "↓": "v",
    "↔": "-",
    "×": "x",
    "µ": "u",
    "“": '"',
    "”": '"',
    "ᵀ": "T",
    "▁": "_",
    "▂": "_",
    "▃": "-",
    "▄": "-",
    "▅": "=",
    "▆": "=",
    "▇": "#",
}


def encodable(text: str, encoding: str) -> str:
    """The text with every character that the encoding lacks as its twin, or as "?"."""
    if text.isascii():
        return text
    missing: dict[int, str] = {}
    for character in set(text):
        try:
            character.encode(encoding)
        except UnicodeEncodeError:
            missing[ord(character)] = ASCII_FALLBACKS.get(character, "?")
    return text.translate(missing)
