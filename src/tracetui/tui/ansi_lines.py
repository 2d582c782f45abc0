"""Turns a line that the terminal shows into another one with few bytes: sends only the cells that differ, and
only the changes of look from one cell to the next."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from rich.cells import cell_len

SKIP = 12
"""The cursor jumps over more than this many unchanged cells; fewer are sent again."""
_PIECES = re.compile(r"\x1b\[([\d;]*)m|([^\x1b]+)|(\x1b)")
_OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}


class Look(NamedTuple):
    """How a cell looks: the codes of its two colors ("" for the terminal's own), and those of bold and the
    like."""

    ink: str = ""
    paper: str = ""
    rest: tuple[str, ...] = ()


PLAIN = Look()
Cells = list[tuple[str, Look]]


@lru_cache(maxsize=4096)
def after(look: Look, codes: str) -> Look | None:
    """The look after a sequence of codes; None if one of the codes is not handled here."""
    ink, paper, rest = look.ink, look.paper, set(look.rest)
    left = (codes or "0").split(";")
    while left:
        code = left.pop(0) or "0"
        if code in ("38", "48") and left:
            size = {"5": 2, "2": 4}.get(left[0], 0)
            color, left = ";".join([code, *left[:size]]), left[size:]
            ink, paper = (color, paper) if code == "38" else (ink, color)
        elif code == "0":
            ink, paper, rest = "", "", set()
        elif code in _OFF:
            rest.add(code)
        elif code == "39" or (len(code) == 2 and code[0] in "39" and code[1] in "01234567"):
            ink = "" if code == "39" else code
        elif code == "49" or (code[:-1] in ("4", "10") and code[-1] in "01234567"):
            paper = "" if code == "49" else code
        else:
            return None
    return Look(ink, paper, tuple(sorted(rest)))


@lru_cache(maxsize=4096)
def codes(before: Look, now: Look) -> str:
    """The sequence that changes one look into another."""
    if before == now:
        return ""
    if now == PLAIN:
        return "\x1b[0m"
    gone = {_OFF[code] for code in before.rest if code not in now.rest}
    added = [code for code in now.rest if code not in before.rest or _OFF[code] in gone]
    ink = [now.ink or "39"] if now.ink != before.ink else []
    paper = [now.paper or "49"] if now.paper != before.paper else []
    return f"\x1b[{';'.join([*sorted(gone), *added, *ink, *paper])}m"


def cells(line: str) -> Cells | None:
    """The cells of a line; None if it holds anything but looks and characters one cell wide."""
    look, found = PLAIN, []
    for sequence, text, other in _PIECES.findall(line):
        if text:
            if not text.isascii() and any(cell_len(character) != 1 for character in set(text)):
                return None
            found += [(character, look) for character in text]
        elif other:
            return None
        else:
            new = after(look, sequence)
            if new is None:
                return None
            look = new
    return found


def change(y: int, shown: str | None, line: str) -> str:
    """The output that makes line `y` of the terminal show `line`. `shown`: what it shows now (None: not
    known)."""
    now = cells(line)
    if now is None:
        return f"\x1b[{y + 1};1H{line}"
    before = cells(shown) if shown is not None else None
    if before is None or len(before) != len(now):
        different = list(range(len(now)))
    else:
        different = [n for n, cell in enumerate(now) if cell != before[n]]
    if not different:
        return ""
    starts = [different[0], *(b for a, b in pairwise(different) if b - a > SKIP)]
    ends = [*(a for a, b in pairwise(different) if b - a > SKIP), different[-1]]
    parts, look = [], PLAIN
    for start, end in zip(starts, ends, strict=True):
        parts.append(f"\x1b[{y + 1};{start + 1}H")
        for character, wanted in now[start : end + 1]:
            if wanted is not look:
                parts.append(codes(look, wanted))
                look = wanted
            parts.append(character)
    parts.append(codes(look, PLAIN))
    return "".join(parts)
