"""The names of copies and memsets: Kineto puts what they copy and set into the name, Cuspy into `args`."""

from __future__ import annotations

from typing import Any

BARE = ("Memcpy", "Memset")
"""The names that Cuspy gives them."""
_WAYS = (None, "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
_MEMORIES = (
    *("Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"),
)
"""By CUPTI's numbers."""


def full_name(bare: str, args: Any) -> str:
    """`Memcpy HtoD (Pinned -> Device)` or `Memset (Device)`; the bare name if the arguments do not say."""
    if not isinstance(args, dict):
        return bare
    if bare == "Memset":
        memory = _memory(args.get("memory kind"))
        return f"Memset ({memory})" if memory else bare
    way = _word(args.get("copy kind"), _WAYS)
    memories = [_memory(args.get(f"{end} kind")) for end in ("src", "dst")]
    return f"Memcpy {way} ({' -> '.join(memories)})" if way and all(memories) else bare


def _memory(value: object) -> str:
    """A kind of memory as Kineto spells it: "pinned" and 2 are "Pinned"."""
    return _word(value, _MEMORIES).replace("_", " ").title()


def _word(value: object, words: tuple[str | None, ...]) -> str:
    """What a number stands for in `words`, or the word itself; "" for neither."""
    text = str(value) if isinstance(value, str | int) else ""
    if text.isdecimal() and len(text) < 3:
        return (words[int(text)] or "") if int(text) < len(words) else ""
    return text if text.replace("_", "").replace(" ", "").isalpha() and len(text) < 20 else ""
