"""Rules on copies: the bias before a product, pageable memory, copies that nothing hides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeGuard

import numpy as np

from tracetui.analysis.calls.pageable import OUT, PAGEABLE_NS, pageable_copies
from tracetui.analysis.calls.saved_tensors import saves_on_host
from tracetui.analysis.device_work import (
    decoded_name,
    device_work_of,
    kernel_names_of,
    work_op_of,
    work_time,
)
from tracetui.analysis.devices import device_of
from tracetui.analysis.idle.exposed_time import alone_within, host_copies, is_within_device
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import busy_union
from tracetui.analysis.idle.verdict import PARTS
from tracetui.analysis.part import Part
from tracetui.analysis.rates.efficiency import peak_of
from tracetui.analysis.rates.peaks import LINKS
from tracetui.analysis.select import named
from tracetui.analysis.verdicts import earlier_work_of, judged_range, verdict_of
from tracetui.core.units import duration, plural, rate, share, size, verb
from tracetui.rules.advice import SAVED_ADVICE
from tracetui.rules.model import Finding, device_span, first_of, graded
from tracetui.trace import Kind
from tracetui.trace.slices import Slices

EXPOSED_SHARE = 0.05
HIDING_SHARE = 0.1
"""Kernels that run for less than this share of the copies' time cannot hide them."""
ONE_WAY = 0.8
"""From this share of their time on, copies go one way."""
MOST_READ = 256
LARGE = 1_000_000
"""Bytes. Copies of less are over before the link is at its full rate."""
SLOW_LINK = 0.5
SLOW_SHARE = 0.02
_SLOW_ADVICE = "Bind the process to the GPU's NUMA node, and check the negotiated link (lspci -vv, LnkSta)."
_PIN_ADVICE = (
    "Pin the host memory: DataLoader(pin_memory=True), tensor.pin_memory(). If it is pinned already, bind "
    "the process to the GPU's NUMA node, and check the negotiated link (lspci -vv, LnkSta)."
)
_PIN_TO = (
    "Copy into a pinned buffer that you reuse: buffer = torch.empty(..., pin_memory=True), then "
    "buffer.copy_(tensor, non_blocking=True)."
)
_PIN_FROM = (
    "Pin the host memory: DataLoader(pin_memory=True), tensor.pin_memory(); then copy with non_blocking=True."
)
_COPY_OUT = (
    "Copy results out while the next ones are computed: into pinned memory, with non_blocking=True, on a "
    "separate stream."
)
_COPY_IN = (
    "Copy the next batch while this one computes: from pinned memory, with non_blocking=True, on a separate "
    "stream."
)
_COPY_BOTH = (
    "Copy while kernels run: from or into pinned memory, with non_blocking=True, on a separate stream."
)
_PIN_BOTH = (
    "Keep pinned memory on the host, torch.empty(..., pin_memory=True), and copy from and into it with "
    "non_blocking=True."
)
_RECURRENT = re.compile(r"aten::_?(?:cudnn|miopen)_rnn")
_MEMORY = re.compile(r"Pinned|Pageable|Managed|Unified")
_HOST = re.compile(r"HtoD|DtoH|HostToDevice|DeviceToHost|\b(?:M2D|D2M|H2D|D2H)\b")
"""Copies between the host and a device by the names of CUPTI, roctracer and XPUPTI."""


def copy_before_product(part: Part) -> Iterator[Finding]:
    """One op copies on the device, then multiplies: the bias of addmm is copied into the result first."""
    trace, names = part.trace, kernel_names_of(part)
    on_device = named(part.trace, is_within_device)
    role = np.zeros(len(trace.names), dtype=np.int8)
    role[on_device] = 1
    role[[i for i, name in names.items() if name.kind == "copy" and name.family == "aten"]] = 1
    role[[i for i, name in names.items() if name.kind == "gemm"]] = 2
    # Work of one op, in order, without the memsets between.
    keep = (work_op_of(part) >= 0) & (device_work_of(part).kind != Kind.MEMSET)
    work, op = device_work_of(part)[keep], work_op_of(part)[keep]
    order = np.argsort(op, kind="stable")
    work, op = work[order], op[order]
    what = role[work.name]
    pair = np.flatnonzero((what[:-1] == 1) & (what[1:] == 2) & (op[:-1] == op[1:]))
    # Within a recurrent network the library copies what nobody can lay out otherwise.
    pair = pair[~named(part.trace, lambda name: _RECURRENT.match(name) is not None)[trace.name[op[pair]]]]
    copy, product, ops = work[pair], work[pair + 1], op[pair]
    if not len(copy):
        return
    copied, multiplied = copy.time, product.time
    if not copied or copied < 0.01 * work_time(part):
        return
    longest = np.argsort(-copy.duration, kind="stable")
    name = trace.name_of(int(ops[longest[0]]))
    count = trace.args_of(copy.at[longest[:1]])[0].get("bytes")
    moved = f" ({size(count)} in the longest)" if isinstance(count, int) and _is_count(count) else ""
    added = "addmm" in name or "baddbmm" in name
    yield Finding(
        "copy_before_product",
        "medium" if copied > 0.05 * work_time(part) else "low",
        f"{name} copies on the GPU before it multiplies",
        f"{plural(len(copy), 'copy', 'copies')}{moved} {verb(len(copy), 'take')} {duration(copied)} before "
        f"matmuls that take {duration(multiplied)}: {share(copied / (copied + multiplied))} of the two. "
        + (
            "The matmul computes C = A·B + C, so C has to be in the result first. A one-row bias would be "
            "added by the kernel's epilogue, without a copy."
            if added
            else "Both belong to the same op: the copy prepares what the matmul reads or writes."
        ),
        "If a whole matrix is added, compare with mm and add (a separate kernel), or add in place "
        "(addmm_, or out= with a buffer that already holds it)."
        if added
        else "Check the layout of the op's inputs: a layout that the matmul can read in place needs no copy.",
        first_of(np.stack([copy.at[longest], product.at[longest]], axis=1).ravel()),
        {"copy_ns": float(copied), "product_ns": float(multiplied), "calls": float(len(copy))},
    )


def pageable_memory(part: Part) -> Iterator[Finding]:
    """Copies between the device and ordinary host memory, which go through a staging buffer and block."""
    at = pageable_copies(part)
    if not len(at):
        return
    time, longest = at.time, at.longest_first()
    achieved = _rate(longest[:MOST_READ]).text
    ways = sorted({decoded_name(part, i).short.split()[1] for i in at[:1000]})
    yield Finding(
        "pageable_memory",
        graded(part, 2 * time),
        f"Copies from or to pageable memory take {duration(time)}",
        f"{plural(len(at), 'copy', 'copies')} ({' and '.join(ways)})"
        + (f", {'the longest ' if len(at) > MOST_READ else ''}at {achieved}" if achieved else "")
        + ". The driver moves pageable memory in pieces through its own pinned buffer. That is slower than "
        "the bus allows, and the CPU mostly waits for it, even with non_blocking=True.",
        {True: _PIN_TO, False: _PIN_FROM, None: _PIN_BOTH}[_goes_out(longest)],
        first_of(longest),
        {"copy_ns": float(time), "copies": float(len(at)), "share": _share_of_spans(part, at)},
    )


def _goes_out(at: Slices) -> bool | None:
    """Whether copies mostly go from the device to the host; None where they go both ways."""
    fraction = at.named(lambda name: any(way in name for way in OUT)).time / max(1, at.time)
    return True if fraction >= ONE_WAY else False if fraction <= 1 - ONE_WAY else None


def exposed_copies(part: Part) -> Iterator[Finding]:
    """Copies from and to the host take more than a twentieth of a step while nothing computes."""
    trace = part.trace
    verdict, fraction = verdict_of(part), verdict_of(part).share("copies")
    if fraction < EXPOSED_SHARE:
        return
    time = verdict.parts[PARTS.index("copies")]
    low, high = judged_range(part)
    at = device_work_of(part)
    at = at[host_copies(trace, at.at)]
    at = at[(at.start < high) & (at.end > low)]
    spent = alone_within(trace, at.at, at.start, at.end)
    at, spent = at[spent > 0], spent[spent > 0]
    end = np.minimum(at.end, high)
    known = np.clip(_shown_from(part), np.maximum(at.start, low), end)
    if not len(at) or int(alone_within(trace, at.at, known, end).sum()) < EXPOSED_SHARE * verdict.judged:
        return
    longest = at[np.argsort(-spent, kind="stable")]
    achieved = _rate(longest[:MOST_READ])
    which = "The longest run" if len(at) > MOST_READ else "They run"
    reached = f"{which} at {achieved.text}. " if achieved.text else ""
    ways = sorted({" ".join(decoded_name(part, i).short.split()[1:]) for i in longest[:1000]} - {""})
    told = f" ({', '.join(ways)})" if ways else ""  # Cuspy's .pftrace does not say which way a copy went
    saved = saves_on_host(part)
    gpu = "the GPU" if len(gaps_of(part).devices) < 2 else "their GPU"
    computing = verdict.parts[PARTS.index("compute")]
    kernels = device_work_of(part).of_kind(Kind.KERNEL)
    beside = longest[~np.isin(longest.lane, kernels.lane)].named("Pinned")
    out = _goes_out(longest)
    ways_out = {True: ", or copy less often", False: ", or create the data on the GPU", None: ""}[out]
    ways_out = f"use smaller types{ways_out}."
    if 2 * longest.named("PtoP").time > longest.time:
        engines = "Most go from one GPU to another."
        advice = (
            "Start each copy as soon as its data is there, on a stream of its own, so that it runs beside "
            "kernels. Or divide the model so that less has to be copied."
        )
    elif saved:
        engines = "Most are tensors that the forward pass saves on the host and the backward pass fetches."
        advice = SAVED_ADVICE
    elif computing < HIDING_SHARE * time:
        engines = f"The kernels run for {duration(computing)}" if computing else "No kernel runs"
        engines += f": there is {'little' if computing else 'nothing'} to overlap with."
        advice = f"Copy less: {ways_out}"
    elif 2 * beside.time > longest.time:
        engines = "They have their own streams: kernels could run at the same time, but do not."
        advice = (
            "Start each copy a batch ahead, so that no kernel has to wait for it (that takes two buffers). "
        )
        advice += f"Or copy less: {ways_out}"
    else:
        engines = (
            "A GPU copies from and to the host with separate engines: kernels in another stream can run "
        )
        engines += "at the same time."
        advice = {True: _COPY_OUT, False: _COPY_IN, None: _COPY_BOTH}[out] + f" Or copy less: {ways_out}"
    yield Finding(
        "exposed_copies",
        "high" if fraction > 0.5 else "medium" if fraction > 0.2 else "low",
        f"Copies while nothing computes take {share(fraction)} {verdict.of()}",
        f"{plural(len(at), 'copy', 'copies')}{told} {verb(len(at), 'run')} for "
        f"{duration(time)} while no kernel runs on {gpu}, the longest for {duration(spent.max())}. "
        f"{reached}{engines}",
        advice,
        first_of(longest),
        {"exposed_ns": float(time), "copies": float(len(at)), "share": fraction},
    )


def slow_copies(part: Part) -> Iterator[Finding]:
    """Large copies from and to the host at less than half of what the link carries: from pinned memory, or,
    where names do not say what memory it is (ROCm, XPU), from any."""
    for pinned in (True, False):
        yield from _slow_copies(part, pinned)


def _slow_copies(part: Part, pinned: bool) -> Iterator[Finding]:
    def wanted(name: str) -> bool:
        told = "Pinned" in name if pinned else not _MEMORY.search(name) and bool(_HOST.search(name))
        return told and (name.startswith("Memcpy") or not pinned)

    at = device_work_of(part).named(wanted)
    at = at[host_copies(part.trace, at.at)]
    time = at.time
    if time < max(PAGEABLE_NS, SLOW_SHARE * device_span(part)):
        return
    longest = at.longest_first()
    achieved = _rate(longest[:MOST_READ])
    if achieved.link is None or achieved.link >= SLOW_LINK:
        return
    whose = "Copies of pinned memory" if pinned else "Copies from and to the host"
    pinned_are = (
        "Pinned copies of this size usually come close to it."
        if pinned
        else "The trace does not say whether the host's memory is pinned. Check that first: pinned copies of "
        "this size usually come close to the link's rate."
    )
    yield Finding(
        "slow_copies",
        graded(part, time),
        f"{whose} reach {share(achieved.link)} of the link to the host",
        f"{plural(len(at), 'copy', 'copies')} {verb(len(at), 'take')} {duration(time)}, "
        f"{'the longest ' if len(at) > MOST_READ else ''}at {achieved.text}. {pinned_are} Memory on another "
        "NUMA node, fewer PCIe lanes than the slot has, a switch shared by several devices, and copies in "
        "both directions at once slow them down.",
        _SLOW_ADVICE if pinned else _PIN_ADVICE,
        first_of(longest),
        {"copy_ns": float(time), "link_share": achieved.link, "share": _share_of_spans(part, at)},
    )


def _share_of_spans(part: Part, at: Slices) -> float:
    """The share of the devices' time in which any of these copies ran, of what lies in the scope."""
    trace, devices = part.trace, gaps_of(part).devices
    of = device_of(trace)[at.lane]
    ran = ((gaps, busy_union(trace, at.at[of == gaps.device])) for gaps in devices)
    time = sum(union.time_in(gaps.first, gaps.last) for gaps, union in ran)
    return time / max(1, sum(gaps.span for gaps in devices))


def _shown_from(part: Part) -> int:
    """When kernels launched before the recording no longer run unseen: in a stream whose first kernel was,
    the one before it may run until then."""
    trace, early = part.trace, earlier_work_of(part.whole)
    first = np.unique(trace.lane[early], return_index=True)[1]
    return int(trace.start[early[first]].max(initial=trace.span[0]))


class _Rate(NamedTuple):
    text: str
    """`55.5 GB/s on average (88% of what PCIe 5.0 x16 carries one way)`; "" without recorded sizes."""
    link: float | None
    """The share of the link; None where the device is not known, or the copies are small."""


def _rate(copies: Slices) -> _Rate:
    """The rate of the copies together, and how it compares with the device's link to the host."""
    counts = [args.get("bytes") for args in copies.trace.args_of(copies.at)]
    known = np.array([_is_count(count) for count in counts], np.bool_)
    time, moved = copies[known].time, sum(c for c in counts if _is_count(c))
    if not time:
        return _Rate("", None)
    text = f"{rate(moved / time * 1e9, 'B/s')} on average"
    peak, _ = peak_of(copies.trace)
    part = moved / time / LINKS[peak.link] if peak and peak.link else None
    if part is None or part > 1 or moved < LARGE * int(known.sum()) or not peak:
        return _Rate(text, None)
    return _Rate(f"{text} ({share(part)} of what {peak.link} carries one way)", part)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**60
