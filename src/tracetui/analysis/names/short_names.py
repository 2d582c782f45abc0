"""Short names for table rows, made distinct if different names have the same one. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence

import numpy as np

from tracetui.analysis.names.cxx import readable
from tracetui.analysis.names.kernel_names import short_name
from tracetui.core.cells import clip
from tracetui.trace.model import I64, Trace

WORD = re.compile(r"[A-Za-z0-9]+")
DIFFERENCE = 24
"""Most cells of the part that distinguishes two names."""
READ = 4_000
"""Characters of a name searched for differences."""


def short_of(trace: Trace, i: int) -> str:
    """The short name of slice i."""
    return short_name(trace.name_of(i), trace.categories[int(trace.category[i])])


def short_names(trace: Trace, events: I64) -> list[str]:
    """The short name of each slice, computed once per name; "" for -1."""
    inside, at = events >= 0, np.maximum(events, 0)
    if not len(at):
        return []
    names, categories = np.where(inside, trace.name[at], -1).tolist(), trace.category[at].tolist()
    made: dict[tuple[int, int], str] = {}

    def make(name: int, category: int) -> str:
        if (name, category) not in made:
            made[name, category] = short_name(trace.names[name], trace.categories[category])
        return made[name, category]

    return [make(n, c) if n >= 0 else "" for n, c in zip(names, categories, strict=True)]


def told_apart(shorts: Sequence[str], full: Sequence[str], among: Sequence[Hashable]) -> list[str]:
    """The short names, with a difference appended where rows with equal `among` have the same one."""
    rows_of: dict[tuple[str, Hashable], list[int]] = {}
    for row, short in enumerate(shorts):
        rows_of.setdefault((short, among[row]), []).append(row)
    found = list(shorts)
    for (short, _), rows in rows_of.items():
        names = list(dict.fromkeys(full[row] for row in rows))
        if len(names) > 1:
            apart = dict(zip(names, differences(names), strict=True))
            for row in rows:
                found[row] = f"{short} · {apart[full[row]]}" if apart[full[row]] else short
    return found


def differences(names: Sequence[str]) -> list[str]:
    """For each name the words that not all names have; numbers if those are not distinct."""
    words = [WORD.findall(readable(name)[:READ]) for name in names]
    if len({len(w) for w in words}) == 1:  # e.g. different arguments of a template
        places = [i for i, column in enumerate(zip(*words, strict=True)) if len(set(column)) > 1]
        own = [[w[i] for i in places] for w in words]
    else:
        common = set(words[0]).intersection(*words[1:])
        own = [[word for word in w if word not in common] for w in words]
    texts = [clip(" ".join(dict.fromkeys(w)), DIFFERENCE) for w in own]
    return texts if len(set(texts)) == len(texts) else [f"#{n}" for n in range(1, len(names) + 1)]
