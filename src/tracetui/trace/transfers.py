"""The names of copies and memsets: Kineto puts what they copy and set into the name, Cuspy into `args`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracetui.core.columns import blocks
from tracetui.formats.contents import EventReader
from tracetui.formats.store import Numbered
from tracetui.trace.model import I8, I32, I64, Kind

_WAYS = (None, "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
_MEMORIES = (
    *("Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"),
)
"""By CUPTI's numbers."""
_READ = 4096
"""So many events are read at once."""


def name_transfers(kind: I8, name: I32, source: I64, names: Numbered[str], reader: EventReader) -> None:
    """Give copies and memsets without a kind in their name the name that Kineto writes. Changes `name` and
    `names` in place."""
    for bare, wanted in (("Memcpy", Kind.MEMCPY), ("Memset", Kind.MEMSET)):
        if bare not in names:
            continue
        at = np.flatnonzero((name == names[bare]) & (kind == int(wanted)))
        at = at[np.argsort(source[at], kind="stable")]
        for first, last in blocks(0, len(at), _READ):
            some = at[first:last]
            events = reader.read(source[some].tolist())
            found = [full_name(bare, event.get("args")) for event in events]
            name[some] = [names[one] for one in found]
            if set(found) == {bare}:
                break  # another tool's: the others will not say more


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
