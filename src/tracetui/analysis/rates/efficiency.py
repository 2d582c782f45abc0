"""How well operators and kernels use the device: achieved TFLOP/s and GB/s, and their share of the peak.

The work of an operator comes from its recorded shapes (`tracetui.analysis.rates.flops`), its time from the
device events that it launched, memsets and copies included. A kernel's rate counts the work of the
operators that it ran for: a product's, a convolution's or attention's arithmetic is done by its matrix
kernels. An operator counts once, where its kernels were launched, however many operators are around it. In
a trace without a device the operators' own CPU times replace the kernels', and no share is given.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked
from tracetui.analysis.device_work import decoded_names, device_work, device_work_of, op_behind
from tracetui.analysis.names.model import KernelName
from tracetui.analysis.part import Part, fact
from tracetui.analysis.rates.flops import Work, counted, work_of
from tracetui.analysis.rates.peaks import Peak, find_peak
from tracetui.analysis.select import name_mask
from tracetui.core.columns import repeated
from tracetui.trace import Kind, Trace
from tracetui.trace.counters import mean_within
from tracetui.trace.model import I64, Bool

LIMIT = 50_000
"""The most operators whose shapes are read for one table; if there are more, a sample."""
RUN = 50
"""Operators of the sample that come one after the other."""
GOLDEN = 0.6180339887498949
"""Multiples of the golden ratio's fraction spread evenly over [0, 1)."""

_MATRIX = ("gemm", "conv", "attention")


@dataclass(frozen=True, slots=True)
class EfficiencyRow:
    """Calls of one operator on one shape, or of one kernel.

    Attributes:
        name: the operator's or the kernel's full name.
        short: its readable name.
        shape: the work in words (M x K x N for a product); "" where calls of several shapes are together.
        kind: ``gemm``, ``conv``, ``attention`` or ``elementwise``.
        dtype: element type, or None.
        calls: number of calls.
        duration: time of all calls together, ns.
        flops: operations of all calls together.
        bytes: least traffic of all calls together, or None where it is not known for every call.
        tflops: achieved TFLOP/s (1e12); None for work that is not arithmetic.
        gbps: achieved GB/s (1e9), or None.
        compute_share: achieved over peak TFLOP/s for the type, or None where either is not known.
        memory_share: achieved over peak bandwidth, or None. Above 1 the data was in a cache.
        kernel: short name of the kernel that took most of the time; "" in a row of a kernel.
        slices: the operators or kernels, by time.
        sm_active: of a kernel, the share of the SMs that had work, by samples within its calls; None if
            there are too few.
    """

    name: str
    short: str
    shape: str
    kind: str
    dtype: str | None
    calls: int
    duration: int
    flops: int
    bytes: int | None
    tflops: float | None
    gbps: float | None
    compute_share: float | None
    memory_share: float | None
    kernel: str
    slices: I64
    sm_active: float | None = None


@dataclass(frozen=True, slots=True)
class EfficiencyTable:
    """Rows by time, longest first.

    Attributes:
        ops: per operator and shape.
        kernels: per kernel.
        recorded: whether the trace holds shapes (``record_shapes``); without them both lists are empty.
        sampled: whether only some of the calls were read, as there were more than `LIMIT`.
        peak: the device's limits, or None where the device is not known.
        device: the device's name in the trace, "" for none. Not safe to show.
    """

    ops: tuple[EfficiencyRow, ...]
    kernels: tuple[EfficiencyRow, ...]
    recorded: bool
    sampled: bool
    peak: Peak | None
    device: str


@dataclass(slots=True)
class _Sum:
    work: Work
    kernel: KernelName | None
    calls: int = 0
    duration: int = 0
    flops: int = 0
    bytes: int | None = 0
    slices: list[int] = field(default_factory=list)
    shapes: set[str] = field(default_factory=set)

    def add(self, work: Work, duration: int, doing: int) -> None:
        self.calls += 1
        self.duration += duration
        self.flops += work.flops
        self.bytes = None if self.bytes is None or work.bytes is None else self.bytes + work.bytes
        self.slices.append(doing)
        self.shapes.add(work.shape)


def peak_of(trace: Trace, device: int | None = None) -> tuple[Peak | None, str]:
    """The limits and the name of a device of the trace, by default the first one."""
    for properties in trace.info.devices:
        if device is None or properties.get("id") == device:
            return find_peak(properties), str(properties.get("name") or "")
    return None, ""


def shapes_recorded(trace: Trace) -> bool:
    """Whether this trace has operator shapes: the file says so, or its first ops have them."""
    if trace.info.properties.get("record_shapes"):
        return True
    mask = name_mask(trace, lambda name: name.startswith("aten::"))
    at = np.flatnonzero((trace.kind == Kind.CPU_OP) & mask[trace.name])[:8]
    return any("Input Dims" in args or "Input dims" in args for args in trace.args_of(at))


def efficiency(trace: Trace, events: I64 | None = None, limit: int = LIMIT) -> EfficiencyTable:
    """Achieved rates per operator and per kernel.

    Args:
        trace: the trace.
        events: the device events to count (slice indices), for a step or a range; all of them by default.
        limit: the most operators whose shapes are read again from the file.
    """
    peak, device = peak_of(trace)
    if not shapes_recorded(trace):
        return EfficiencyTable((), (), False, False, peak, device)
    all_events = device_work(trace)
    if events is not None:
        all_events = np.intersect1d(all_events, events)
    if not len(all_events) and events is None:
        return _on_the_cpu(trace, limit)
    op = op_behind(trace, all_events)
    keep = np.flatnonzero((op >= 0) & name_mask(trace, counted)[trace.name[op]])
    all_events, op = all_events[keep], op[keep]
    order = np.argsort(op, kind="stable")
    all_events, op = all_events[order], op[order]
    ops, first = np.unique(op, return_index=True)
    count, chosen = np.diff(first, append=len(op)), _spread(len(ops), limit)
    sample = np.zeros(len(ops), dtype=np.bool_)
    sample[chosen] = True
    mine = all_events[repeated(sample, count)]
    names = decoded_names(trace, mine)
    by_op: dict[tuple[int, str, str | None], _Sum] = {}
    by_kernel: dict[int, _Sum] = {}
    columns = ops[chosen], *_launched(trace, mine, count[chosen], names)
    for work, one, duration, longest, multiplying, other in zip(
        _works(trace, ops[chosen]), *(column.tolist() for column in columns), strict=True
    ):
        if work is None:
            continue
        key = (int(trace.name[one]), work.shape, work.dtype)
        by_op.setdefault(key, _Sum(work, names[int(trace.name[longest])])).add(work, duration, one)
        # Matrix kernels did the arithmetic; the rate is that kernel's own only if there was just one.
        doing = multiplying if work.kind in _MATRIX else other
        if doing >= 0:
            name = int(trace.name[doing])
            kernel = by_kernel.setdefault(name, _Sum(work, names[name]))
            kernel.add(work, int(trace.duration[doing]), doing)
    rows = _rows(trace, by_op.values(), peak), _rows(trace, by_kernel.values(), peak, True)
    return EfficiencyTable(*rows, True, len(chosen) < len(ops), peak, device)


def _launched(trace: Trace, events: I64, count: I64, names: dict[int, KernelName]) -> tuple[I64, ...]:
    """What each operator launched: the time of all of it, the longest event, its matrix kernel, and its event
    that is not a memset; -1 where there are several of these, or none. `events`: those of the first operator,
    `count[0]`, then those of the next."""
    first, duration = np.cumsum(count) - count, trace.duration[events]
    longest = np.lexsort((-duration, np.repeat(np.arange(len(count)), count)))[first]
    multiplies = np.zeros(len(trace.names), dtype=np.bool_)
    multiplies[[name for name, kernel in names.items() if kernel.kind in _MATRIX]] = True

    def only(mine: Bool) -> I64:
        found = np.maximum.reduceat(np.where(mine, events, -1), first)
        return np.where(np.add.reduceat(mine, first, dtype=np.int64) == 1, found, -1)

    of_matrix, other = multiplies[trace.name[events]], trace.kind[events] != Kind.MEMSET
    return np.add.reduceat(duration, first), events[longest], only(of_matrix), only(other)


def _works(trace: Trace, ops: I64) -> list[Work | None]:
    """The work of each operator; equal inputs are counted once."""
    known: dict[tuple[int, str], Work | None] = {}
    found: list[Work | None] = [None] * len(ops)
    for place, args in trace.args_in_turn(ops):
        name = int(trace.name[ops[place]])
        inputs = [args.get(key) for key in ("Input Dims", "Input dims", "Input type", "Concrete Inputs")]
        key = (name, str(inputs))
        if key not in known:
            known[key] = work_of(trace.names[name], args)
        found[place] = known[key]
    return found


def _rows(
    trace: Trace, sums: Iterable[_Sum], peak: Peak | None, kernels: bool = False
) -> tuple[EfficiencyRow, ...]:
    rows = (_row(trace, one, peak, kernels) for one in sums)
    return tuple(sorted(rows, key=lambda row: -row.duration))


def _row(trace: Trace, one: _Sum, peak: Peak | None, kernels: bool) -> EfficiencyRow:
    work, kernel = one.work, one.kernel
    seconds = one.duration / 1e9
    name, slices = trace.name_of(one.slices[0]), np.sort(np.array(one.slices, dtype=np.int64))
    arithmetic = work.kind in _MATRIX
    tflops = one.flops / seconds / 1e12 if seconds and arithmetic else None
    gbps = one.bytes / seconds / 1e9 if seconds and one.bytes is not None else None
    limit = peak.tflops_for(computing_type(work.dtype, kernel)) if peak else None
    return EfficiencyRow(
        name=name,
        short=kernel.short if kernels and kernel else name,
        shape=work.shape if len(one.shapes) == 1 else "",
        kind=work.kind,
        dtype=kernel.dtype if kernels and kernel else work.dtype or (kernel.dtype if kernel else None),
        calls=one.calls,
        duration=one.duration,
        flops=one.flops,
        bytes=one.bytes,
        tflops=tflops,
        gbps=gbps,
        compute_share=tflops / limit if tflops is not None and limit else None,
        memory_share=gbps / peak.bandwidth if peak and gbps is not None else None,
        kernel="" if kernels or kernel is None else kernel.short,
        slices=slices,
        sm_active=mean_within(trace, slices, "SM Active") if kernels else None,
    )


def computing_type(dtype: str | None, kernel: KernelName | None) -> str | None:
    """The type that sets the peak. Only the kernel's name shows whether fp32 operands ran as fp32 or TF32."""
    return dtype if dtype not in (None, "fp32") else kernel.dtype if kernel else None


def _spread(count: int, limit: int) -> I64:
    """At most ``limit`` of ``count`` positions: short runs, spread over all of them. Neighbors are near each
    other in the file too, so little of it has to be read."""
    if count <= limit:
        return np.arange(count)
    number = -(-limit // RUN)
    length = limit // number
    # Each run is elsewhere in its share of the positions, so that they do not all hit the same ops of a loop.
    place = np.arange(number) + (np.arange(number) * GOLDEN) % 1 * (1 - length * number / count)
    first = (place * (count / number)).astype(np.int64)
    return (first[:, None] + np.arange(length)).ravel()


def _on_the_cpu(trace: Trace, limit: int) -> EfficiencyTable:
    """Operators on the CPU that call no other counted operator, with their own durations."""
    is_counted = (trace.kind == Kind.CPU_OP) & name_mask(trace, counted)[trace.name] & ~trace.implausible
    at = np.flatnonzero(is_counted)
    around = first_marked(trace, trace.parent[at], is_counted)
    outer = np.zeros(len(trace), dtype=np.bool_)
    outer[around[around >= 0]] = True
    at = at[~outer[at]]
    chosen = at[_spread(len(at), limit)]
    by_op: dict[tuple[int, str, str | None], _Sum] = {}
    for op, work in zip(chosen.tolist(), _works(trace, chosen), strict=True):
        if work is not None:
            key = (int(trace.name[op]), work.shape, work.dtype)
            by_op.setdefault(key, _Sum(work, None)).add(work, int(trace.duration[op]), op)
    return EfficiencyTable(_rows(trace, by_op.values(), None), (), True, len(chosen) < len(at), None, "")


@fact
def efficiency_of(part: Part) -> EfficiencyTable:
    """Achieved rates of operators and kernels."""
    return efficiency(part.trace, None if part.is_whole else device_work_of(part).at)
