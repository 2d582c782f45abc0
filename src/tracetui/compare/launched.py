"""The device work that only one side has, and the ops behind it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass

import numpy as np

from tracetui.analysis.device_work import decoded_names, op_behind
from tracetui.analysis.names.model import KernelName
from tracetui.analysis.select import name_mask
from tracetui.compare.calls import CallTree
from tracetui.compare.match import ALIKE
from tracetui.compare.sides import Side, by_graph
from tracetui.core.columns import counted, repeated
from tracetui.trace.model import I32, I64, Kind

TELLING = frozenset(("gemm", "conv", "attention", "collective"))
"""Kinds of kernels that are the same work, whichever op launched them."""
MOST_READ = 1 << 14
"""The most ops whose shapes are read from the files."""
COMPILED = re.compile(r"Torch-Compiled Region|CompiledFunction|## Call CompiledFxGraph")
"""Calls that surround everything a compiled function does, its Python included."""


@dataclass(frozen=True, slots=True, eq=False)
class Launched:
    """The device work that only this side has, and the ops behind it."""

    side: Side
    op: dict[int, int]
    """For each such event, the innermost op (slice), -1 for none."""
    top: dict[int, int]
    """For each such event, the outermost op that launches nothing but such events (slice), -1 for none."""
    names: dict[int, KernelName]
    shapes: dict[int, str]
    """For matrix products, convolutions and attention, the shapes of the op, where known."""
    by_graph: Set[int]
    """The events that a graph launched."""
    patterns: list[bytes]
    """For each run of events, the key by which equal runs are grouped once: the names, and which events share
    an op."""

    def name(self, i: int) -> str:
        return self.side.trace.name_of(i)

    def kernel(self, i: int) -> KernelName:
        return self.names[int(self.side.trace.name[i])]

    def of_op(self, unit: Sequence[int]) -> str:
        """The name of the op that launched it, and whether it moves memory; "" for none. A copy also gets the
        op around its own: copies are many, and made for many reasons."""
        first = unit[0]
        if (op := self.op[first]) < 0:
            return ""
        above = int(self.side.trace.parent[op]) if self.kernel(first).kind == "copy" else -1
        return f"{self.name(op)} {self.name(above) if above >= 0 else ''} {self.moves(first)}"

    def of_shapes(self, unit: Sequence[int]) -> str:
        """The op that launched a matrix product (or the like), with its shapes; "" if they are not known."""
        shapes = self.shapes.get(unit[0], "")
        return f"{self.name(self.op[unit[0]])} {shapes}" if shapes else ""

    def telling(self, unit: Sequence[int]) -> str:
        """The kind of its kernels, if that identifies the work; else ""."""
        kinds = {self.kernel(i).kind for i in unit} & TELLING
        return kinds.pop() if len(kinds) == 1 else ""

    def compiled(self, i: int) -> bool:
        """Whether a compiler fused it: its name then says from which ops."""
        return bool(self.kernel(i).ops)

    def about(self, events: Sequence[int]) -> set[str]:
        """The backward ops that it computes, as far as known, without "aten::": these identify the work."""
        found = {op for i in events for op in self.kernel(i).ops}
        found |= {self.name(self.op[i]).removeprefix("aten::") for i in events if self.op[i] >= 0}
        return {name for name in found if name.endswith("_backward")}

    def only_copies(self, events: Sequence[int]) -> bool:
        """Whether every kernel only changes the type or the layout of something."""
        return all(self.kernel(i).kind == "copy" for i in events if not self.moves(i))

    def copies(self, events: Sequence[int]) -> bool:
        """Whether any kernel may do that."""
        return any(self.kernel(i).kind == "copy" or self.compiled(i) for i in events)

    def of_one_call(self, events: Sequence[int]) -> bool:
        """Whether one call launched all of them and nothing else, and no compiler fused them."""
        alone = self.top[events[0]] >= 0 and len({self.top[i] for i in events}) == 1
        return alone and not any(map(self.compiled, events))

    def inside(self, i: int, ops: Collection[int]) -> int:
        """Which of these ops launched it, directly or through an op inside; -1 for none."""
        op, parent = self.op[i], self.side.trace.parent
        while op >= 0 and op not in ops:
            op = int(parent[op])
        return op

    def moves(self, i: int) -> bool:
        """Whether it moves or sets memory."""
        return bool(self.side.trace.kind[i] != Kind.KERNEL)

    def alike(self, own: Sequence[int], other: Sequence[int], right: Launched) -> bool:
        """Whether events of the same op or kind can be the same work: not if one side has many more of them,
        nor (except for matrix products) if the times are very different."""
        time, after = (int(of.side.trace.duration[at].sum()) for of, at in ((self, own), (right, other)))
        many = max(len(own), len(other)) <= 3 * min(len(own), len(other))
        return many and (bool(self.telling(own)) or max(time, after) <= ALIKE * max(1, min(time, after)))

    def adds(self, events: Sequence[int]) -> bool:
        """Whether it also does the work that follows elsewhere: a GEMM that adds C, or a bias."""
        notes = " ".join(note for i in events for note in self.kernel(i).notes)
        return "adds C" in notes or "epilogue" in notes


def launched(side: Side, tree: CallTree, events: Sequence[I64], work: I64, calls: I64) -> Launched:
    """`events`: what the other side does not have. `work`, `calls`: what both have (slices)."""
    trace = side.trace
    at = np.concatenate([np.zeros(0, np.int64), *events])
    op = op_behind(trace, at)
    place = tree.place
    free = np.ones(len(tree.at), dtype=np.bool_)
    free[place[calls]] = False
    # Memsets come with many ops and do not count as the ops' own work.
    launch = place[trace.launch[work[trace.kind[work] != Kind.MEMSET]]]
    until = np.append(0, np.cumsum(counted(launch[launch >= 0], len(tree.at))))
    alone = free & (until[tree.end] == until[:-1])
    climb = alone & ~name_mask(trace, COMPILED.search)[trace.name[tree.at]]
    top = np.where(op >= 0, place[op], -1)
    # One more entry for -1: a side may have no calls.
    alone, climb = np.append(alone, False), np.append(climb, False)
    parent = np.append(tree.parent, -1)
    top[~alone[top]] = -1
    while (rise := climb[parent[top]]).any():
        top[rise] = parent[top[rise]]
    tops = np.where(top >= 0, np.append(tree.at, -1)[top], -1)
    innermost, outermost = (dict(zip(at.tolist(), one.tolist(), strict=True)) for one in (op, tops))
    names = decoded_names(trace, at)
    tells = np.array([i for i, name in names.items() if name.kind in TELLING], dtype=np.int64)
    known = np.flatnonzero(np.isin(trace.name[at], tells) & (op >= 0))[:MOST_READ]
    shapes = {
        int(at[i]): str(args["Input Dims"])
        for i, args in zip(known.tolist(), trace.args_of(op[known]), strict=True)
        if args.get("Input Dims")
    }
    around = np.where(op >= 0, trace.parent[op], -1)
    graph = np.where(by_graph(side, at), trace.launch[at], -1)
    patterns = _patterns(
        trace.name, np.array([len(one) for one in events], np.int64), at, op, tops, around, graph
    )
    return Launched(side, innermost, outermost, names, shapes, set(at[graph >= 0].tolist()), patterns)


def _patterns(name: I32, sizes: I64, at: I64, *above: I64) -> list[bytes]:
    """`sizes`: the lengths of the runs of events in `at`; `above`: what is around each event (slices, -1 for
    none)."""
    ends = np.cumsum(sizes)
    run, begin = repeated(np.arange(len(sizes)), sizes), repeated(ends - sizes, sizes)
    columns: list[I32 | I64] = [name[at]]
    for one in above:
        _, first, which = np.unique(run * (len(name) + 1) + one, return_index=True, return_inverse=True)
        columns += [first[which] - begin, np.where(one >= 0, name[one], -1)]
    rows = np.stack(columns, axis=1).astype(np.int32)
    return [rows[high - size : high].tobytes() for high, size in zip(ends.tolist(), sizes, strict=True)]
