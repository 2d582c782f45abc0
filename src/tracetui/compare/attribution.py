"""How much CPU time it takes to launch the work of a change."""

from __future__ import annotations

import numpy as np

from tracetui.analysis.device_work import op_behind
from tracetui.analysis.select import name_mask
from tracetui.analysis.steps.loading import loading_time
from tracetui.compare.calls import CallTree
from tracetui.compare.changes import Change, Part
from tracetui.compare.launched import COMPILED
from tracetui.compare.match import Matches, Vocabulary
from tracetui.compare.sides import Side
from tracetui.core.columns import counted, unique
from tracetui.trace.model import I64, Bool, Kind

SAME, MIXED, NOTHING = -1, -2, -3
"""Markers for whose work a call launches: work of both sides (or only moved), work of several changes, or
none."""


def attribute_calls(
    sides: tuple[Side, Side],
    trees: tuple[CallTree, CallTree],
    calls: Matches,
    changes: list[Change],
    words: Vocabulary,
) -> Change:
    """Give each change the calls that launched its work, and the ops around them that launch nothing else:
    the time of the outermost is the change's time on the CPU. An op that both sides run counts only if it
    launches this change's work on both. Returns the other calls that only one side makes, as a change of kind
    "calls". Calls that both sides make somewhere in a round are left out of it, unless there are no
    others."""
    parts = [one.a for one in changes], [one.b for one in changes]
    still = [n for n, one in enumerate(changes) if one.kind == "order"]
    owners = [_owners(*one, still) for one in zip(sides, trees, parts, strict=True)]
    pairs = [tree.place[at] for tree, at in zip(trees, (calls.a, calls.b), strict=True)]
    left, keys = [], []
    for n, (side, tree, names) in enumerate(zip(sides, trees, (words.a, words.b), strict=True)):
        owner, launches = owners[n]
        partner = np.full(len(tree.at), -1, dtype=np.int64)
        partner[pairs[n]] = pairs[1 - n]
        free = partner < 0
        climb = ~name_mask(side.trace, COMPILED.search)[side.trace.name[tree.at]]
        both = ~free & (np.append(owners[1 - n][0], NOTHING)[partner] == owner)
        mine = np.flatnonzero((owner >= 0) & (launches | (climb & (free | both))))
        others = ~_give(side, tree, mine, owner, parts[n])
        # What compiling calls is reported with the compiling.
        others &= ~side.compiler.holds(side.trace.start[tree.at])
        left.append(tree.at[free & others])
        key = (side.round_of(tree.at) << 32) + names[side.trace.name[tree.at]]
        keys.append((key[free & others], key[others]))
    more = [_more(*keys[n], *keys[1 - n]) for n in range(2)]
    rest = Change("calls") if any(map(np.any, more)) else Change("calls", "order")
    for part, at, some in zip((rest.a, rest.b), left, more, strict=True):
        part.events = (at if rest.what else at[some]).tolist()
    return rest


def without_loading(sides: tuple[Side, Side], rest: Change) -> tuple[I64, I64]:
    """Remove the calls that load data from a change of kind "calls": they are reported with the loading.
    Returns them, for each side."""
    found = []
    for side, part in zip(sides, (rest.a, rest.b), strict=True):
        at = np.array(part.events, dtype=np.int64)
        loads = loading_time(side.part).holds(side.trace.start[at])
        part.events = at[~loads].tolist()
        found.append(at[loads])
    return found[0], found[1]


def attributed(trees: tuple[CallTree, CallTree], calls: Matches, changes: list[Change]) -> Bool:
    """Which of the matched calls are counted with the work of a change, on both sides. Same shape as
    `calls.a`."""
    parts = [one.a for one in changes], [one.b for one in changes]
    found = np.ones(len(calls.a), dtype=np.bool_)
    for tree, at, mine in zip(trees, (calls.a, calls.b), parts, strict=True):
        outer = np.concatenate([np.zeros(0, np.int64), *(part.calls for part in mine)])
        found &= (tree.under(unique(tree.place[outer])) >= 0)[tree.place[at]]
    return found


def _more(own: I64, all_own: I64, other: I64, all_other: I64) -> Bool:
    """Which of `own` exceed the number of equal calls in `other`, but no more than there are extra in total:
    if a change was given a call that both sides make, another call like it takes its place."""
    order = np.argsort(own, kind="stable")
    mine = own[order]
    nth = np.arange(len(own)) - np.searchsorted(mine, mine)
    there, in_all, in_all_there = (_count(one, mine) for one in (other, all_own, all_other))
    found = np.zeros(len(own), dtype=np.bool_)
    found[order] = (nth >= there) & (nth - there < in_all - in_all_there)
    return found


def _count(keys: I64, of: I64) -> I64:
    """How many times each of `of` occurs in `keys`."""
    keys = np.sort(keys)
    return np.asarray(np.searchsorted(keys, of, side="right") - np.searchsorted(keys, of), dtype=np.int64)


def _owners(side: Side, tree: CallTree, parts: list[Part], still: list[int]) -> tuple[I64, Bool]:
    """(for each call, the number of the part that owns all the work it launches, or one of `SAME`, `MIXED`
    and `NOTHING`; whether it launches any itself). `still`: parts whose work only runs elsewhere."""
    trace, work = side.trace, side.work
    owner = np.full(len(work), SAME, dtype=np.int64)
    for n, part in enumerate(parts):
        if n not in still:
            owner[np.searchsorted(work, np.array(part.events, dtype=np.int64))] = n
    call = tree.place[trace.launch[work]].astype(np.int64)
    lost = np.flatnonzero(call < 0)
    call[lost] = tree.place[op_behind(trace, work[lost])]
    moves, changed = trace.kind[work] != Kind.KERNEL, owner != SAME
    # Memsets come with many ops and do not count as the ops' own work. A copy tells what an op does only if
    # the op runs no kernel.
    told = (call >= 0) & (changed | (trace.kind[work] != Kind.MEMSET))
    alone, found = (_all_of(tree, call[some], owner[some]) for some in (told, told & ~(changed & moves)))
    launches = counted(call[call >= 0], len(tree.at)) > 0
    return np.where(found == NOTHING, alone, found), launches


def _all_of(tree: CallTree, call: I64, owner: I64) -> I64:
    """For each call, the owner of everything it launches. `call`, `owner`: for each event (position,
    number)."""
    order = np.argsort(call, kind="stable")
    of, launched = owner[order], counted(call, len(tree.at))
    until = np.append(0, np.cumsum(launched))
    low, high = until[:-1], until[tree.end]
    changes = np.append(0, np.cumsum(np.diff(of) != 0))
    found = np.full(len(tree.at), NOTHING, dtype=np.int64)
    some = np.flatnonzero(high > low)
    alike = changes[high[some] - 1] == changes[low[some]]
    found[some] = np.where(alike, of[low[some]], MIXED)
    return found


def _give(side: Side, tree: CallTree, mine: I64, owner: I64, parts: list[Part]) -> Bool:
    """Give these calls (positions) to the parts that own them. Returns which calls are among them or inside
    one."""
    under = tree.under(mine)
    inside = under >= 0
    top = np.append(mine, -1)[under]
    outer = np.flatnonzero(top == np.arange(len(top)))
    waiting = np.flatnonzero(inside & tree.waits)
    for at, what in ((outer, "calls"), (waiting, "waits")):
        of = owner[top[at]]
        at = at[np.argsort(of, kind="stable")]
        ends = np.cumsum(np.bincount(of, minlength=len(parts)))
        for part, low, high in zip(parts, np.append(0, ends).tolist(), ends.tolist(), strict=False):
            setattr(part, what, tree.at[at[low:high]])
    # If only some copies or sets of a part are counted with the ops that launch them, the rest is
    # meaningless.
    shared = np.unique(owner[mine[owner[top[mine]] != owner[mine]]])
    for part in (parts[n] for n in shared.tolist()):
        if (side.trace.kind[np.array(part.events)] != Kind.KERNEL).all():
            part.calls = part.waits = tree.at[:0]
    return inside
