"""Some slices of a trace, and what is asked of them again and again: how long, which names, which first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from tracetui.core.columns import counted, distinct, summed, unique
from tracetui.trace.model import I8, I32, I64, Bool, Kind, Trace

_FEW = 8
"""If the trace has this many times more names than there are slices, sorting theirs is faster."""


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """Some slices of a trace. Cheap: it looks into the trace's columns when asked.

    A column has shape (len(slices),) and the order of `at`. numpy takes the slices for their indices, so that
    `trace.lane[slices]` is a column, too.
    """

    trace: Trace
    at: I64
    """Their indices, int64: read-only."""

    def __len__(self) -> int:
        return len(self.at)

    def __iter__(self) -> Iterator[int]:
        """Their indices."""
        return map(int, self.at)

    def __getitem__(self, which: Bool | I64 | slice) -> Slices:
        """Those in a mask, at some positions, or in a range of positions."""
        return Slices(self.trace, self.at[which])

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> I64:
        return np.array(self.at, dtype) if copy or dtype not in (None, self.at.dtype) else self.at

    def __repr__(self) -> str:
        return f"<Slices: {len(self):,}, {self.time:,} ns>"

    @property
    def start(self) -> I64:
        """Starts, int64, ns from the trace's zero."""
        return self.trace.start[self.at]

    @property
    def end(self) -> I64:
        """Ends, int64, ns from the trace's zero."""
        return self.start + self.duration

    @property
    def duration(self) -> I64:
        """Durations, int64, ns."""
        return self.trace.duration[self.at]

    @property
    def time(self) -> int:
        """The sum of the durations, ns. What overlaps counts twice."""
        return int(self.duration.sum())

    @property
    def name(self) -> I32:
        """Indices into `Trace.names`, int32."""
        return self.trace.name[self.at]

    @property
    def kind(self) -> I8:
        """`Kind` of each, int8."""
        return self.trace.kind[self.at]

    @property
    def lane(self) -> I32:
        """Indices into `Trace.lanes`, int32."""
        return self.trace.lane[self.at]

    @property
    def names(self) -> list[str]:
        """The name of each, safe to show."""
        return [self.trace.names[i] for i in self.name.tolist()]

    @property
    def first(self) -> int:
        """The index of the first. Raises IndexError where there is none."""
        return int(self.at[0])

    @property
    def first_name(self) -> str:
        """The name of the first, safe to show. Raises IndexError where there is none."""
        return self.trace.name_of(self.first)

    @property
    def kernels(self) -> Slices:
        """Those that are kernels."""
        return self.of_kind(Kind.KERNEL)

    @property
    def ops(self) -> Slices:
        """Those that are operators on the CPU."""
        return self.of_kind(Kind.CPU_OP)

    def of_kind(self, *kinds: Kind) -> Slices:
        """Those of any of these kinds."""
        kind = self.kind
        return self[np.logical_or.reduce([kind == int(one) for one in kinds])]

    def are_named(self, wanted: str | re.Pattern[str] | Callable[[str], object]) -> Bool:
        """Mask of those whose name is wanted: has a match of this regular expression, or passes this test.
        Looks at each distinct name once."""
        test = wanted if callable(wanted) else re.compile(wanted).search
        names = self.name
        mask = np.zeros(len(self.trace.names), dtype=np.bool_)
        for i in distinct(names, len(mask)).tolist():
            mask[i] = bool(test(self.trace.names[i]))
        return mask[names]

    def named(self, wanted: str | re.Pattern[str] | Callable[[str], object]) -> Slices:
        """Those of a wanted name: see `are_named`."""
        return self[self.are_named(wanted)]

    def among(self, others: Slices | I64) -> Bool:
        """Mask of those that are among the others, too."""
        return np.isin(self.at, others)

    def without(self, others: Slices | I64) -> Slices:
        """Those that are not among the others."""
        return self[~self.among(others)]

    def longest_first(self) -> Slices:
        """The same slices by duration, the longest first; of equal ones the first."""
        return self[np.argsort(-self.duration, kind="stable")]

    def by_name(self, time: I64 | None = None) -> list[Namesakes]:
        """The slices by name, the most time first. `time`: what counts as the time of each slice, int64, ns;
        by default its duration."""
        names, which = by_name(self.trace, self.at)
        spent = summed(which, self.duration if time is None else time, len(names))
        calls, order = counted(which, len(names)), np.argsort(-spent, kind="stable")
        rows = zip(*(column[order].tolist() for column in (names, calls, spent)), strict=True)
        return [Namesakes(self, *row) for row in rows]

    def by_calls(self) -> list[Namesakes]:
        """The slices by name, the most calls first."""
        return sorted(self.by_name(), key=lambda one: (-one.calls, one.index))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Namesakes:
    """The slices of one name among others."""

    among: Slices
    index: int
    """Of the name, in `Trace.names`."""
    calls: int
    """How many they are."""
    time: int
    """The sum of their durations, ns."""

    def __repr__(self) -> str:
        return f"<{self.name[:60]}: {self.calls:,} x, {self.time:,} ns>"

    @property
    def name(self) -> str:
        """Safe to show."""
        return self.among.trace.names[self.index]

    @property
    def slices(self) -> Slices:
        """In the order of those that they are among."""
        return self.among[self.among.name == self.index]

    @property
    def longest(self) -> int:
        """The index of the longest, the first of equal ones."""
        slices = self.slices
        return int(slices.at[np.argmax(slices.duration)])


def by_name(trace: Trace, at: I64) -> tuple[I64, I64]:
    """(the distinct names of the slices `at`, in order; the index into these for each slice)."""
    names, count = trace.name[at], len(trace.names)
    if count > _FEW * len(at):
        found, which = np.unique(names, return_inverse=True)
        return found.astype(np.int64), which
    there = distinct(names, count)
    place = np.empty(count, dtype=np.int64)
    place[there] = np.arange(len(there))
    return there, place[names]


def joined(*some: Slices) -> Slices:
    """All of them in the order of the trace, each once."""
    return Slices(some[0].trace, unique(*(slices.at for slices in some)))
