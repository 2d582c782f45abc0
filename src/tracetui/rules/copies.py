"""Rules on copies: the bias before a product, pageable memory, copies that nothing hides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeGuard

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
from tracetui.analysis.rates.inputs import read_inputs
from tracetui.analysis.rates.peaks import LINKS
from tracetui.analysis.select import name_mask
from tracetui.analysis.verdicts import earlier_work_of, verdict_of, verdict_window
from tracetui.core.columns import unique
from tracetui.rules.advice import SAVED_ADVICE
from tracetui.rules.claims import Claim, Claims, Count, Rate, Remedy, Share, Size, Time, names_of, says
from tracetui.rules.model import Finding, build_finding, device_span, graded
from tracetui.trace import Kind
from tracetui.trace.model import I64
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
    on_device = name_mask(part.trace, is_within_device)
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
    pair = pair[~name_mask(part.trace, _RECURRENT.match)[trace.name[op[pair]]]]
    copy, product, ops = work[pair], work[pair + 1], op[pair]
    if not len(copy):
        return
    copied, multiplied = copy.time, product.time
    if not copied or copied < 0.01 * work_time(part):
        return
    longest = np.argsort(-copy.duration, kind="stable")
    count = trace.args_of(copy.at[longest[:1]])[0].get("bytes")
    claims: dict[str, Claim] = {
        "name": trace.name_of(int(ops[longest[0]])),
        "copy_ns": Time(copied),
        "product_ns": Time(multiplied),
        "calls": Count(len(copy)),
        "share": Share(copied, copied + multiplied, "of the two"),
    }
    if isinstance(count, int) and _is_count(count):
        claims["longest"] = Size(count)
    if row := _row_added(part, ops[longest]):
        claims["row"] = row
    yield build_finding(
        "copy_before_product",
        "medium" if copied > 0.05 * work_time(part) else "low",
        claims,
        Slices(trace, np.stack([copy.at[longest], product.at[longest]], axis=1).ravel()),
        "copy_ns product_ns calls",
        remedy=Remedy("remove", copy),
    )


def _row_added(part: Part, ops: I64) -> str:
    """The shape of the bias, if most of these `addmm` add a single row; "" if not, or if it is not known."""
    trace, ops = part.trace, unique(ops[:MOST_READ])
    ops = ops[name_mask(trace, "aten::addmm".__eq__)[trace.name[ops]]]
    inputs = [read_inputs(args) for args in trace.args_of(ops)]
    shapes = [one.shape(0) for one in inputs if one is not None]
    rows = [
        f"[{', '.join(map(str, shape))}]" for shape in shapes if shape and len(shape) == 1 + shape.count(1)
    ]
    return rows[0] if 2 * len(rows) > len(ops) else ""


@says("copy_before_product")
def _copy_before_product(c: Claims) -> tuple[str, str, str]:
    moved = f" ({c.longest} in the longest)" if "longest" in c else ""
    added = "addmm" in c.name or "baddbmm" in c.name
    adds = "The matmul computes C = A·B + C, so C has to be in the result first."
    if "row" in c:
        return (
            f"{c.name} copies on the GPU before it multiplies",
            f"{c.calls:copy/copies}{moved} {c.calls:~take} {c.copy_ns} before matmuls that take "
            f"{c.product_ns}: {c.share}. {adds} This bias has one row, {c.row}. The epilogue of the "
            "library's own matmul (cuBLASLt, hipBLASLt) adds such a row without a copy, but it "
            "did not run here.",
            "Look for what turns it off: DISABLE_ADDMM_CUDA_LT=1, an older PyTorch, a GPU that the library "
            "does not know, a bias that is not contiguous. torch.compile adds it in a kernel of its own.",
        )
    return (
        f"{c.name} copies on the GPU before it multiplies",
        f"{c.calls:copy/copies}{moved} {c.calls:~take} {c.copy_ns} before matmuls that take {c.product_ns}: "
        f"{c.share}. "
        + (
            f"{adds} A one-row bias would be added by the kernel's epilogue, without a copy."
            if added
            else "Both belong to the same op: the copy prepares what the matmul reads or writes."
        ),
        "If a whole matrix is added, compare with mm and add (a separate kernel), or add in place "
        "(addmm_, or out= with a buffer that already holds it)."
        if added
        else "Check the layout of the op's inputs: a layout that the matmul can read in place needs no copy.",
    )


def pageable_memory(part: Part) -> Iterator[Finding]:
    """Copies between the device and ordinary host memory, which go through a staging buffer and block."""
    at = pageable_copies(part)
    if not len(at):
        return
    time, longest = at.time, at.longest_first()
    yield build_finding(
        "pageable_memory",
        graded(part, 2 * time),
        {
            "copy_ns": Time(time),
            "copies": Count(len(at)),
            "share": _share_of_spans(part, at),
            "ways": names_of(sorted({decoded_name(part, i).short.split()[1] for i in at[:1000]})),
            "out": _goes_out(longest),
            **_rate(longest),
        },
        longest,
        "copy_ns copies share",
        remedy=Remedy("speed_up", longest),
    )


@says("pageable_memory")
def _pageable_memory(c: Claims) -> tuple[str, str, str]:
    at = f", {'' if c.all_read else 'the longest '}at {_achieved(c)}" if "rate" in c else ""
    return (
        f"Copies from or to pageable memory take {c.copy_ns}",
        f"{c.copies:copy/copies} ({c.ways: and }){at}. The driver moves pageable memory in pieces through "
        "its own pinned buffer. That is slower than the bus allows, and the CPU mostly waits for it, even "
        "with non_blocking=True.",
        {True: _PIN_TO, False: _PIN_FROM, None: _PIN_BOTH}[c.out],
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
    low, high = verdict_window(part)
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
    computing = verdict.parts[PARTS.index("compute")]
    kernels = device_work_of(part).of_kind(Kind.KERNEL)
    beside = longest[~np.isin(longest.lane, kernels.lane)].named("Pinned")
    why = (
        "between GPUs" if 2 * longest.named("PtoP").time > longest.time
        else "saved" if saves_on_host(part)
        else "nothing to hide behind" if computing < HIDING_SHARE * time
        else "own streams" if 2 * beside.time > longest.time
        else ""
    )  # fmt: skip
    yield build_finding(
        "exposed_copies",
        "high" if fraction > 0.5 else "medium" if fraction > 0.2 else "low",
        {
            "exposed_ns": Time(time),
            "copies": Count(len(at)),
            "share": Share(time, verdict.judged, verdict.of()),
            "gpus": Count(len(gaps_of(part).devices)),
            "ways": names_of(
                sorted({" ".join(decoded_name(part, i).short.split()[1:]) for i in longest[:1000]} - {""})
            ),
            "longest_ns": Time(int(spent.max())),
            "compute_ns": Time(computing),
            "out": _goes_out(longest),
            "why": why,
            **_rate(longest),
        },
        longest,
        "exposed_ns copies share",
        remedy=Remedy("overlap", longest),
    )


@says("exposed_copies")
def _exposed_copies(c: Claims) -> tuple[str, str, str]:
    ways_out = {True: ", or copy less often", False: ", or create the data on the GPU", None: ""}[c.out]
    ways_out = f"use smaller types{ways_out}."
    if c.why == "between GPUs":
        engines = "Most go from one GPU to another."
        advice = (
            "Start each copy as soon as its data is there, on a stream of its own, so that it runs beside "
            "kernels. Or divide the model so that less has to be copied."
        )
    elif c.why == "saved":
        engines = "Most are tensors that the forward pass saves on the host and the backward pass fetches."
        advice = SAVED_ADVICE
    elif c.why == "nothing to hide behind":
        engines = f"The kernels run for {c.compute_ns}" if c.compute_ns.ns else "No kernel runs"
        engines += f": there is {'little' if c.compute_ns.ns else 'nothing'} to overlap with."
        advice = f"Copy less: {ways_out}"
    elif c.why == "own streams":
        engines = "They have their own streams: kernels could run at the same time, but do not."
        advice = (
            "Start each copy a batch ahead, so that no kernel has to wait for it (that takes two buffers). "
            f"Or copy less: {ways_out}"
        )
    else:
        engines = (
            "A GPU copies from and to the host with separate engines: kernels in another stream can run at "
            "the same time."
        )
        advice = {True: _COPY_OUT, False: _COPY_IN, None: _COPY_BOTH}[c.out] + f" Or copy less: {ways_out}"
    ways = f"({c.ways}) " if c.ways.each else ""  # Cuspy's .pftrace does not say which way a copy went
    reached = f"{'They run' if c.all_read else 'The longest run'} at {_achieved(c)}. " if "rate" in c else ""
    return (
        f"Copies while nothing computes take {c.share}",
        f"{c.copies:copy/copies} {ways}{c.copies:~run} for {c.exposed_ns} while no kernel runs on "
        f"{'the GPU' if c.gpus.n < 2 else 'their GPU'}, the longest for {c.longest_ns}. {reached}{engines}",
        advice,
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
    reached = _rate(longest)
    link = reached.get("link_share")
    if not isinstance(link, Share) or link.value >= SLOW_LINK:
        return
    yield build_finding(
        "slow_copies",
        graded(part, time),
        {
            "copy_ns": Time(time),
            "share": _share_of_spans(part, at),
            "copies": Count(len(at)),
            "pinned": pinned,
            **reached,
        },
        longest,
        "copy_ns link_share share",
        remedy=Remedy("speed_up", longest, 1 / link.value),
    )


@says("slow_copies")
def _slow_copies_words(c: Claims) -> tuple[str, str, str]:
    whose = "Copies of pinned memory" if c.pinned else "Copies from and to the host"
    pinned_are = (
        "Pinned copies of this size usually come close to it."
        if c.pinned
        else "The trace does not say whether the host's memory is pinned. Check that first: pinned copies of "
        "this size usually come close to the link's rate."
    )
    return (
        f"{whose} reach {c.link_share:bare} of the link to the host",
        f"{c.copies:copy/copies} {c.copies:~take} {c.copy_ns}, {'' if c.all_read else 'the longest '}at "
        f"{_achieved(c)}. {pinned_are} Memory on another NUMA node, fewer PCIe lanes than the slot has, a "
        "switch shared by several devices, and copies in both directions at once slow them down.",
        _SLOW_ADVICE if c.pinned else _PIN_ADVICE,
    )


def _share_of_spans(part: Part, at: Slices) -> Share:
    """The share of the devices' time in which any of these copies ran, of what lies in the scope."""
    trace, devices = part.trace, gaps_of(part).devices
    of = device_of(trace)[at.lane]
    ran = ((gaps, busy_union(trace, at.at[of == gaps.device])) for gaps in devices)
    time = sum(union.time_in(gaps.first, gaps.last) for gaps, union in ran)
    return Share(time, max(1, sum(gaps.span for gaps in devices)), "of the GPUs' spans")


def _shown_from(part: Part) -> int:
    """When kernels launched before the recording no longer run unseen: in a stream whose first kernel was,
    the one before it may run until then."""
    trace, early = part.trace, earlier_work_of(part.whole)
    first = np.unique(trace.lane[early], return_index=True)[1]
    return int(trace.start[early[first]].max(initial=trace.span[0]))


def _rate(longest: Slices) -> dict[str, Claim]:
    """The rate of the longest copies together, as far as sizes were recorded, and, of large ones, how it
    compares with the device's link to the host."""
    copies = longest[:MOST_READ]
    counts = [args.get("bytes") for args in copies.trace.args_of(copies.at)]
    known = np.array([_is_count(count) for count in counts], np.bool_)
    time, moved = copies[known].time, sum(c for c in counts if _is_count(c))
    found: dict[str, Claim] = {"all_read": len(longest) <= MOST_READ}
    if not time:
        return found
    found["rate"] = Rate(moved / time * 1e9, "B/s")
    peak, _ = peak_of(copies.trace)
    if peak and peak.link and moved >= LARGE * int(known.sum()) and moved / time <= LINKS[peak.link]:
        found["link_share"] = Share(moved / time, LINKS[peak.link], f"of what {peak.link} carries one way")
    return found


def _achieved(c: Claims) -> str:
    """`55.5 GB/s on average (88% of what PCIe 5.0 x16 carries one way)`."""
    return f"{c.rate} on average" + (f" ({c.link_share})" if "link_share" in c else "")


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**60
