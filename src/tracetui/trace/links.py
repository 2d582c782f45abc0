"""Links between slices by their ids: device event -> launch and -> op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tracetui.core.columns import NO_TIME, blocks, extremes, looked_up, unique
from tracetui.core.threads import map_blocks
from tracetui.trace.indices import group_positions
from tracetui.trace.model import DEVICE_WORK, I8, I32, I64, NO_ID, Bool, Kind, Lane

_PAGE, _SPARSE = 10, 4
"""A table with more than this many places per id takes more memory than sorting."""

_MANY_RANKS = 256
_SAMPLES = 200
"""How many events of a device are enough to tell which rank it belongs to."""
_NEARLY_AS_MANY = 0.9


def _kinds(kind: I8, *wanted: Kind) -> Bool:
    table = np.zeros(128, dtype=np.bool_)
    table[list(wanted)] = True
    return looked_up(table, kind)


def _indices(mask: Bool) -> I32:
    def within(part: slice) -> I32:
        return np.flatnonzero(mask[part]).astype(np.int32) + np.int32(part.start)

    return np.concatenate([np.zeros(0, dtype=np.int32), *map_blocks(len(mask), within)])


def link_launches(kind: I8, start: I64, correlation: I64, rank: I32 | None = None) -> I32:
    """For each device event, the runtime event with its correlation, else -1. Shape (n,).

    `rank`: in a file of several ranks, the rank of each event; ids are unique within one only.
    """
    known = correlation != NO_ID
    runtime = _indices(_kinds(kind, Kind.RUNTIME) & known)
    known &= _kinds(kind, *DEVICE_WORK, Kind.SYNC)
    return _match_within(rank, correlation, start, runtime, _indices(known))


def guess_ranks(process: I32, device: I32, kind: I8, lane: I32, start: I64, correlation: I64) -> I32 | None:
    """The rank of each lane, for a file that was merged from several ranks without saying so: threads of
    several processes launch with the same ids. None for other files.

    `process`, `device` (-1 for none): for each lane. A device belongs to the process whose launches come
    before its events, and most shortly before.
    """
    runtime = _indices(_kinds(kind, Kind.RUNTIME) & (correlation != NO_ID))
    owner = process[lane[runtime]]
    owners = np.unique(owner)
    if not 2 <= len(owners) <= _MANY_RANKS:
        return None
    found = np.where(device < 0, np.searchsorted(owners, process) + 1, 0).astype(np.int32)
    found[(device < 0) & ~np.isin(process, owners)] = 0
    offers: list[tuple[I64, I64]] = []
    for one in owners.tolist():
        mine = runtime[owner == one]
        mine = mine[np.argsort(correlation[mine], kind="stable")]
        offers.append((correlation[mine], start[mine]))
    ids = np.concatenate([unique(offered) for offered, _ in offers])
    if len(unique(ids)) == len(ids):
        return None
    work = _indices(_kinds(kind, *DEVICE_WORK) & (correlation != NO_ID))
    at_device, taken = device[lane[work]], set[int]()
    for one in np.unique(at_device).tolist():
        mine = work[at_device == one]
        mine = mine[:: len(mine) // _SAMPLES + 1]
        early, late = np.zeros(len(owners)), np.full(len(owners), np.inf)
        for i, (offered, launched) in enumerate(offers):
            at = np.minimum(np.searchsorted(offered, correlation[mine]), len(offered) - 1)
            delay = (start[mine] - launched[at])[offered[at] == correlation[mine]]
            delay = delay[delay >= 0]
            early[i], late[i] = len(delay), np.median(delay) if len(delay) else np.inf
        if 2 * early.max() < len(mine):
            return None
        late[early < _NEARLY_AS_MANY * early.max()] = np.inf
        best = np.flatnonzero(late == late.min())  # copies of the same file look alike
        found[device == one] = rank = int(next((i for i in best if i + 1 not in taken), best[0])) + 1
        taken.add(rank)
    return found


def share_lanes(process: I32, device: I32, kind: I8, lane: I32, correlation: I64) -> bool:
    """Whether work of several processes is on the same device's lanes, with the same ids: as if several
    programs had written one file, each about its own GPU 0. Arguments as of `guess_ranks`."""
    runtime = _indices(_kinds(kind, Kind.RUNTIME) & (correlation != NO_ID))
    work = _indices(_kinds(kind, *DEVICE_WORK) & (correlation != NO_ID))
    owner, at_device = process[lane[runtime]], device[lane[work]]
    owners = np.unique(owner)
    if not len(np.unique(at_device)) < len(owners) <= _MANY_RANKS:
        return False
    each = [unique(correlation[runtime[owner == one]]) for one in owners.tolist()]
    ids, times = np.unique(np.concatenate(each), return_counts=True)
    shared = ids[times > 1]
    if 2 * len(shared) <= min(map(len, each)):
        return False
    there, count = np.unique(correlation[work], return_counts=True)
    count = count[np.isin(there, shared)]
    return bool(2 * np.count_nonzero(count > 1) > len(count))


def borrow_ids(kind: I8, correlation: I64, external: I64) -> bool:
    """Use the `External id` of launches and device events as their `correlation`, if a file has none.

    Older PyTorch for ROCm writes such files: a launch and its work share an `External id`, which is not that
    of an op.
    """
    if not len(kind) or int(correlation.max()) != NO_ID:
        return False
    runtime, device = _indices(_kinds(kind, Kind.RUNTIME)), _indices(_kinds(kind, *DEVICE_WORK))
    own = external[runtime]
    own = own[own != NO_ID]
    if not len(own) or len(unique(own)) < len(own) or not np.isin(external[device], own).any():
        return False
    for some in (runtime, device):
        correlation[some], external[some] = external[some], NO_ID
    return True


def settle_ops(
    kind: I8, start: I64, duration: I64, launch: I32, parent: I32, external: I64, op: I32
) -> tuple[int, bool]:
    """Make each call part of an op that contains it, and device work part of its launch's op: in many files
    the ids say so; Cuspy writes none, and from 2022 to 2023 PyTorch wrote the correlation as the id. Changes
    `external` and `op`, which is the result of `link_ops`, in place.

    The id of an op (or annotation) that contains the call in time decides, on whatever thread that is; then
    the nearest op around the call; then the id of an op that began before it. If more ids are contradicted
    by the op around the call than name what contains it, they are not those of ops, and none is used.
    Returns (how many calls' ids are contradicted, whether the ids are not those of ops).
    """

    def contains(ops: I32, calls: I32) -> Bool:
        began = start[ops] <= start[calls]
        return (ops >= 0) & began & (start[calls] + duration[calls] <= start[ops] + duration[ops])

    calls = _indices(_kinds(kind, Kind.RUNTIME))
    there = np.zeros(len(calls), dtype=np.bool_)

    def look(part: slice) -> None:
        given = op[calls[part]]
        there[part] = (given >= 0) & (given == parent[calls[part]])

    map_blocks(len(calls), look)
    odd = calls[~there]
    around = _op_around(kind, parent, odd)
    given = op[odd]
    right = contains(given, odd)
    other = np.flatnonzero((given < 0) & (external[odd] != NO_ID))
    if len(other):
        annotations = _indices(_kinds(kind, Kind.ANNOTATION) & (external != NO_ID))
        right[other] = contains(_match(external, start, annotations, odd[other]), odd[other])
    wrong = ~right & (around >= 0) & (external[odd] != NO_ID)
    foreign = int(np.count_nonzero(wrong)) > len(calls) - len(odd) + int(np.count_nonzero(right))
    if foreign:
        found = around
    else:
        wrong &= given >= 0
        before = (given >= 0) & (start[given] <= start[odd])
        found = np.where(right, given, np.where(around >= 0, around, np.where(before, given, -1)))
    changed = (found != given) | (foreign & (found < 0))
    _set_ops(odd[changed], found[changed], external, op)

    work = _indices(_kinds(kind, *DEVICE_WORK))
    by, given = launch[work], op[work]
    own = np.where(by >= 0, op[by], -1)
    other = np.flatnonzero((given != own) | foreign)
    work, by, given, own = work[other], by[other], given[other], own[other]
    before = (own < 0) & ((by < 0) | (start[given] <= start[by]))
    keep = (given >= 0) & (before | contains(given, by)) & (not foreign)
    _set_ops(work[~keep], own[~keep], external, op)
    return int(np.count_nonzero(wrong)), bool(foreign)


def _op_around(kind: I8, parent: I32, calls: I32) -> I32:
    """The nearest op around each call, -1 for none."""
    around = parent[calls]
    left = np.flatnonzero(around >= 0)
    while len(left):
        left = left[kind[around[left]] != Kind.CPU_OP]
        around[left] = parent[around[left]]
        left = left[around[left] >= 0]
    return around


def _set_ops(at: I32, ops: I32, external: I64, op: I32) -> None:
    """Change `external` and `op` in place."""
    op[at] = ops
    external[at] = np.where(ops >= 0, external[ops], NO_ID)


def stream_lanes(lanes: Sequence[Lane]) -> I32:
    """For each lane of GPU annotations that of its stream, -1 for none and for all other lanes."""
    streams = {(one.device, one.tid): n for n, one in enumerate(lanes) if one.kind == "stream"}
    found = [streams.get((x.device, x.tid), -1) if x.kind == "gpu_annotation" else -1 for x in lanes]
    return np.array(found, dtype=np.int32)


def settle_annotations(
    kind: I8,
    start: I64,
    duration: I64,
    name: I32,
    launch: I32,
    external: I64,
    lane: I32,
    stream_of: I32,
    firsts: Sequence[int],
) -> None:
    """Give GPU annotations the ids of their annotations where they have others, as Cuspy's do, or none: the
    one of its name during which the first work in it was launched. NO_ID if there is none. Changes `external`
    in place.

    `stream_of`: see `stream_lanes`; `firsts`: the first slice of each lane, and the number of slices.
    """
    shadows = _indices(_kinds(kind, Kind.GPU_ANNOTATION))
    if not len(shadows):
        return
    annotations = _indices(_kinds(kind, Kind.ANNOTATION) & (external != NO_ID))
    own = _match(external, start, annotations, shadows)
    shadows = shadows[(own < 0) | (name[own] != name[shadows])]
    if not len(shadows):
        return
    moment = np.full(len(shadows), NO_TIME)
    for one, some in group_positions(lane[shadows], len(stream_of)):
        stream = int(stream_of[one])
        if stream < 0:
            continue
        work = np.arange(firsts[stream], firsts[stream + 1], dtype=np.int32)
        work = work[_kinds(kind[work], *DEVICE_WORK) & (launch[work] >= 0)]
        mine = shadows[some]
        first = np.searchsorted(start[work], start[mine])
        there = np.flatnonzero(first < len(work))
        begun = work[first[there]]
        during = start[begun] < start[mine[there]] + duration[mine[there]]
        moment[some[there[during]]] = start[launch[begun[during]]]
    external[shadows] = NO_ID
    # By name and time, annotations before shadows: the last annotation before each shadow is its own.
    both = np.concatenate([annotations, shadows])
    time = np.concatenate([start[annotations], moment])
    order = np.lexsort((np.arange(len(both)), time, name[both]))
    of_shadow = order >= len(annotations)
    last = np.maximum.accumulate(np.where(of_shadow, -1, np.arange(len(order))))[of_shadow]
    found, shadow, then = both[order[last]], both[order[of_shadow]], time[order[of_shadow]]
    during = (last >= 0) & (name[found] == name[shadow]) & (start[found] + duration[found] >= then)
    external[shadow[during]] = external[found[during]]


def link_ops(kind: I8, start: I64, correlation: I64, external: I64, rank: I32 | None = None) -> I32:
    """For each device or runtime event, the op with its `External id`, else -1. Shape (n,). `rank`: see
    `link_launches`."""
    known = external != NO_ID
    ops = _indices(_kinds(kind, Kind.CPU_OP) & known)
    known &= _kinds(kind, *DEVICE_WORK, Kind.SYNC, Kind.RUNTIME)
    # A synchronization may have its own correlation there, which does not belong to any op.
    own = _indices(_kinds(kind, Kind.SYNC))
    known[own[external[own] == correlation[own]]] = False
    return _match_within(rank, external, start, ops, _indices(known))


def _match_within(rank: I32 | None, ids: I64, start: I64, targets: I32, seekers: I32) -> I32:
    """For each slice, the one that it matches within its rank, else -1."""
    found = np.full(len(ids), -1, dtype=np.int32)
    if rank is None:
        found[seekers] = _match(ids, start, targets, seekers)
        return found
    of_target, of_seeker = rank[targets], rank[seekers]
    for one in np.unique(of_seeker).tolist():
        mine = seekers[of_seeker == one]
        found[mine] = _match(ids, start, targets[of_target == one], mine)
    return found


def _match(ids: I64, start: I64, targets: I32, seekers: I32) -> I32:
    """For each seeker, the target with its id. If there are several, the last that does not start after it,
    else the first."""
    found = np.full(len(seekers), -1, dtype=np.int32)
    if not len(targets) or not len(seekers):
        return found
    table = _table(ids, targets)
    if table is not None:
        map_blocks(len(seekers), lambda part: table.find(ids[seekers[part]], found[part]))
        return found
    offered = ids[targets]
    order = np.argsort(offered, kind="stable").astype(np.int32)
    offered = offered[order]
    repeated = bool((offered[1:] == offered[:-1]).any())
    if repeated:
        order = np.lexsort((start[targets], ids[targets])).astype(np.int32)
    targets = targets[order]
    del order
    for a, b in blocks(0, len(seekers)):
        part = seekers[a:b]
        wanted = ids[part]
        first = np.searchsorted(offered, wanted, side="left")
        there = np.flatnonzero(offered[np.minimum(first, len(offered) - 1)] == wanted)
        if repeated:
            found[a + there] = _latest(
                offered, targets, start, wanted[there], first[there], start[part[there]]
            )
        else:
            found[a + there] = targets[first[there]]
    return found


class _Table(NamedTuple):
    """The targets of ids that were counted up: one place per id, on pages of 2 ** `_PAGE` ids."""

    low: int
    high: int
    page: I64
    """Where the page of each 2 ** `_PAGE` ids from `low` on begins; ids without a target share one page."""
    targets: I32

    def places(self, ids: I64) -> I64:
        """The places of ids between `low` and `high`."""
        at = ids - self.low
        page: I64 = self.page[at >> _PAGE]
        return page + (at & ((1 << _PAGE) - 1))

    def find(self, ids: I64, out: I32) -> None:
        """The target of each id, -1 for none."""
        near = np.clip(ids, self.low, self.high)
        out[:] = np.where(near == ids, self.targets[self.places(near)], -1)


def _table(ids: I64, targets: I32) -> _Table | None:
    """None if an id comes twice, or if the table would be too large."""

    def wanted(part: slice) -> I64:
        return ids[targets[part]]

    ends = map_blocks(len(targets), lambda part: extremes(wanted(part)))
    low, high = min(first for first, _ in ends), max(last for _, last in ends)
    if (high - low) >> _PAGE > len(targets):
        return None
    used = np.zeros(((high - low) >> _PAGE) + 1, dtype=np.bool_)

    def use(part: slice) -> None:
        used[(wanted(part) - low) >> _PAGE] = True

    map_blocks(len(targets), use)
    page = np.cumsum(used) << _PAGE  # the first one is empty
    size = int(page[-1]) + (1 << _PAGE)
    if size > _SPARSE * len(targets) + (2 << _PAGE):
        return None
    table = _Table(low, high, page * used, np.full(size, -1, dtype=np.int32))

    def put(part: slice) -> None:
        table.targets[table.places(wanted(part))] = targets[part]

    map_blocks(len(targets), put)
    return table if np.count_nonzero(table.targets >= 0) == len(targets) else None


def _latest(offered: I64, targets: I32, start: I64, wanted: I64, first: I64, moment: I64) -> I32:
    """Of the targets with the same id, in order of time from `first` on, the last that does not start after
    `moment`."""
    last = np.searchsorted(offered, wanted, side="right")
    pick = last - 1
    late = np.flatnonzero((last - first > 1) & (start[targets[pick]] > moment))
    # A search for each in turn would take as long as the square of how many share an id.
    low, high, moment = first[late], last[late] - 1, moment[late]
    while (left := low < high).any():
        middle = (low + high) // 2
        after = start[targets[middle]] > moment
        high = np.where(left & after, middle, high)
        low = np.where(left & ~after, middle + 1, low)
    pick[late] = np.maximum(first[late], low - 1)
    return targets[pick]


def count_before_launch(launch: I32, start: I64, implausible: Bool) -> tuple[int, int]:
    """Device events that start before their launch: (how many, the largest lead in nanoseconds). Those with a
    time that cannot be right do not count."""

    def within(part: slice) -> tuple[int, int]:
        at = np.flatnonzero((launch[part] >= 0) & ~implausible[part]) + part.start
        at = at[~implausible[launch[at]]]
        lead = start[launch[at]] - start[at]
        return int((lead > 0).sum()), int(lead.max(initial=0))

    found = map_blocks(len(launch), within)
    return sum(count for count, _ in found), max((longest for _, longest in found), default=0)
