"""Explaining a GPU event: what its name says, its work and rates, its launch, the gap before it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from tracetui.analysis.calls.chain import launched_by
from tracetui.analysis.calls.flow import place_of
from tracetui.analysis.device_work import has_tf32, op_behind
from tracetui.analysis.devices import device_of, work_of_devices
from tracetui.analysis.idle import causes
from tracetui.analysis.names.gemm import UNALIGNED
from tracetui.analysis.names.kernel_names import decode
from tracetui.analysis.names.letters import letters
from tracetui.analysis.names.model import KernelName
from tracetui.analysis.rates.efficiency import computing_type, peak_of
from tracetui.analysis.rates.flops import Work, work_of
from tracetui.analysis.rates.occupancy import blocks_of
from tracetui.core.units import duration, plural, rate, share, significant, size
from tracetui.trace import Kind, Trace
from tracetui.trace.indices import having
from tracetui.words import cause_words
from tracetui.words.kernels import kernel

SMALL_SET = 65_536
"""Bytes. A larger memset clears more than counters."""
CHANGING = (
    "The trace does not say why. Clocks (which follow heat and power), what is in the caches and what else "
    "runs on the GPU all change a kernel's time.",
)
LONGER = 1.5
SURPLUS_NS = 5_000
NEGLIGIBLE_NS = 100
"""Gaps shorter than this are normal between any two kernels."""

_AMOUNTS = ("grid", "block", "bytes", "Input Dims", "Input dims")
"""The arguments of a call that show how much work it has."""
_GENERATIONS = {"maxwell": 5, "pascal": 6, "volta": 7, "turing": 7, "ampere": 8}
"""Compute capabilities of the architectures that names spell out."""

Parts = tuple[list[str], list[str], list[tuple[str, str]]]
"""(what it is, why it takes its time, labeled figures)."""


def explain_device_event(trace: Trace, i: int) -> Parts:
    """What a kernel, a copy or a memset is, why it takes its time, and its figures."""
    name = decode(trace.name_of(i))
    args = trace.args(i)
    op = int(op_behind(trace, np.array([i], dtype=np.int64))[0])
    what = list(kernel(name)) or [
        "tracetui does not know how to read this kernel's name. The chain shows which op launched it."
    ]
    if name.ops:
        what.append(f"Its name lists {', '.join(name.ops)}: operators that the compiler fused into it.")
    facts = _name_facts(name)
    why = _copying(trace, i, name, args, facts)
    work = _work(trace, op, name)
    if work is not None:
        why += _rates(trace, i, name, work, facts)
    if UNALIGNED in name.notes:
        why.append(
            "Its operands' rows are not aligned: a dimension is not a multiple of 8 elements, so it cannot "
            "load 16 bytes at a time. Pad that dimension, and a faster kernel can run."
        )
    why += _filling(trace, i, args, name)
    if name.tensor_cores is False and name.dtype == "fp32":
        faster = "TF32 or bf16" if has_tf32(trace, (name,)) else "fp16"
        why.append(f"It runs on the plain fp32 units: {faster} would use the tensor cores.")
    why += compared(trace, i)
    why += _timing(trace, i)
    return what, why, facts


def _name_facts(name: KernelName) -> list[tuple[str, str]]:
    """The fields of the name; if its letters can be spelled out, those replace the fields that they
    explain."""
    spelled = letters(name)
    fields = {
        "family": name.family if name.family != "other" else None,
        "architecture": name.arch, "type": name.dtype, "tile": name.tile,
        "stages": str(name.stages) if name.stages is not None else None,
        "cluster": name.cluster, "instruction": name.instruction, "layout": name.layout,
        "tensor cores": {True: "yes", False: "no", None: None}[name.tensor_cores],
    }  # fmt: skip
    said = ("tile", "stages", "cluster", "layout") if spelled else ()
    facts = [(label, value) for label, value in fields.items() if value and label not in said]
    notes = [("decoded name", note) for note in name.notes if not spelled or note == UNALIGNED]
    return [*facts, *spelled, *notes]


def _work(trace: Trace, op: int, name: KernelName) -> Work | None:
    """The work of the op behind a kernel, if this kernel does that work."""
    if op < 0:
        return None
    work = work_of(trace.name_of(op), trace.args(op))
    doers = {"elementwise": ("elementwise", "copy", "memcpy")}
    return work if work and name.kind in doers.get(work.kind, (work.kind,)) else None


def _rates(trace: Trace, i: int, name: KernelName, work: Work, facts: list[tuple[str, str]]) -> list[str]:
    seconds = int(trace.duration[i]) / 1e9
    peak, _ = peak_of(trace, int(device_of(trace)[trace.lane[i]]))
    facts.append(("M x K x N" if work.kind == "gemm" else "work", work.shape))
    if not seconds:
        return []
    limit = peak.tflops_for(computing_type(work.dtype, name)) if peak else None
    part = None
    if work.kind != "elementwise":
        facts.append(("FLOP", rate(work.flops, "")))
        part = work.flops / seconds / 1e12 / limit if limit else None
        of_peak = f", {share(part)} of the {peak.label}'s peak" if part is not None and peak else ""
        facts.append(("achieved", f"{rate(work.flops / seconds, 'FLOP/s')}{of_peak}"))
    if work.bytes is not None:
        moved = work.bytes / seconds
        used = moved / 1e9 / peak.bandwidth if peak else 0.0
        memory = f", {share(used)} of the {peak.label}'s bandwidth" if peak else ""
        facts[:] = [fact for fact in facts if fact[0] != "memory"]
        if peak and used > 1:
            facts.append(("memory", f"{size(work.bytes)} read and written, {rate(moved, 'B/s')}"))
            limit_of = f"the {rate(peak.bandwidth * 1e9, 'B/s')} of the {peak.label}'s memory"
            return [f"That is more than {limit_of}: part of it came from the L2 cache."]
        facts.append(("memory", f"{size(work.bytes)} at least, {rate(moved, 'B/s')}{memory}"))
        if used >= 0.6:
            return [
                "It is bound by memory: only moving less data makes it faster, for example by fusing it "
                "with its neighbors."
            ]
    if part is not None and part < 0.3:
        unfit = f"this shape ({work.shape}) may be too small, or have the wrong proportions"
        cause = f": {unfit}, to fill the GPU"
        if name.tensor_cores is not False and (older := _made_for(trace, i, name)):
            cause = f": it is {older} code, and uses nothing that this GPU has beyond that"
        return [f"It reaches {share(part)} of the peak{'' if UNALIGNED in name.notes else cause}."]
    return []


def _made_for(trace: Trace, i: int, name: KernelName) -> str:
    """The architecture in the kernel's name, if its device is of a later generation; else ""."""
    device = int(device_of(trace)[trace.lane[i]])
    major = next((p.get("computeMajor") for p in trace.info.devices if p.get("id") == device), None)
    number = re.fullmatch(r"sm_?(\d{1,2})\d", name.arch or "")
    made = int(number[1]) if number else _GENERATIONS.get(name.arch or "")
    return name.arch or "" if made is not None and isinstance(major, int) and made < major else ""


def _filling(trace: Trace, i: int, args: Mapping[str, Any], name: KernelName) -> list[str]:
    """Whether the grid has enough blocks for the device."""
    blocks, device = blocks_of(args), int(device_of(trace)[trace.lane[i]])
    sms = next((p.get("numSms") for p in trace.info.devices if p.get("id") == device), None)
    if not blocks or not isinstance(sms, int) or name.kind == "collective" or blocks > 0.9 * sms:
        return []
    idle = "most of the GPU has" if blocks < 0.5 * sms else f"at least {sms - blocks} of them have"
    return [f"It has {plural(blocks, 'block')} for {sms} multiprocessors: {idle} nothing to do."]


def _copying(
    trace: Trace, i: int, name: KernelName, args: Mapping[str, Any], facts: list[tuple[str, str]]
) -> list[str]:
    count = args.get("bytes")
    if name.kind not in ("memcpy", "memset") or not isinstance(count, int) or not 0 < count < 2**60:
        return []
    per_second = count / max(1, int(trace.duration[i])) * 1e9
    facts.append(("bytes", f"{size(count)}, {rate(per_second, 'B/s')}"))
    if any("pageable" in note for note in name.notes):
        return ["The host's memory is pageable: the driver copies it in pieces through a pinned buffer."]
    if name.kind == "memset":
        return _set_for(trace, i, count)
    peak, _ = peak_of(trace, int(device_of(trace)[trace.lane[i]]))
    if "DtoD" in name.short and peak:
        part = share(2 * per_second / 1e9 / peak.bandwidth)
        facts.append(("memory", f"read and written: {rate(2 * per_second, 'B/s')}, {part} of the bandwidth"))
    return []


def _set_for(trace: Trace, i: int, count: int) -> list[str]:
    """The purpose of a small memset: the next kernel that the same op launched."""
    launch = int(trace.launch[i])
    if count > SMALL_SET or launch < 0 or (op := int(trace.parent[launch])) < 0:
        return []
    after = launched_by(trace, op)
    after = after[(trace.start[after] > trace.start[i]) & (trace.kind[after] == Kind.KERNEL)]
    if not len(after):
        return []
    kernel_name = decode(trace.name_of(int(after[np.argmin(trace.start[after])])))
    before = f"The next kernel of the same op is {kernel_name.short}"
    if kernel_name.family == "aten" and kernel_name.kind == "reduction":
        return [f"{before}: with these counters its blocks find out which is last and adds up the parts."]
    return [f"{before}. Libraries set counters and flags this way, but do not document why."]


def compared(trace: Trace, i: int) -> list[str]:
    """A sentence if it takes much longer than most calls of the same name, unless those do different work."""
    at = having(trace, "name", int(trace.name[i]))
    at = at[(trace.category[at] == trace.category[i]) & ~trace.implausible[at]]
    same = trace.duration[at]
    usual, mine = float(np.median(same)) if len(same) else 0.0, int(trace.duration[i])
    if len(same) < 3 or mine < LONGER * usual or mine - usual < SURPLUS_NS:
        return []
    args, typical = trace.args(i), trace.args(int(at[np.argmin(np.abs(same - usual))]))
    if any(args.get(key) != typical.get(key) for key in _AMOUNTS):
        return []
    return [
        f"It takes {significant(mine / max(usual, 1), 2)} times the median of its {len(same):,} calls "
        f"({duration(usual)}).",
        *(CHANGING if trace.kind[i] == Kind.KERNEL else ()),
    ]


def _timing(trace: Trace, i: int) -> list[str]:
    """Sentences on the delay from its launch to its start, and on the gap that it ended."""
    launch, start = int(trace.launch[i]), int(trace.start[i])
    last = _last_work_before(trace, i)
    before = int(trace.start[last] + trace.duration[last]) if last >= 0 else None
    why: list[str] = []
    if launch >= 0:
        cost = int(trace.duration[launch])
        launched = int(trace.start[launch]) + cost
        delay = duration(max(0, start - int(trace.start[launch])))
        if trace.duration[i] < cost and "GraphLaunch" not in trace.name_of(launch):
            why.append(
                f"Its launch takes the CPU longer ({duration(cost)}) than it runs "
                f"({duration(trace.duration[i])})."
            )
        starts = f"starts {delay} after its launch began"
        place = place_of(trace, i)
        if place is not None and place.number > 1:
            later = duration(start - int(trace.start[place.first]))
            of = f"the {place.of:,} that one {trace.name_of(launch)} launched"
            why.append(f"It is number {place.number:,} of {of}, and starts {later} after the first.")
        elif before is not None and before > launched:
            why.append(f"It was queued behind other work: it {starts}.")
        else:
            why.append(f"It {starts}: nothing was queued, the GPU waited for it.")
    idle = start - before if before is not None else 0
    if launch >= 0 and trace.launch[last] == launch and NEGLIGIBLE_NS <= idle <= causes.BACK_TO_BACK_NS:
        node = "node" if "Graph" in trace.name_of(launch) else "event"
        why.append(f"The GPU was idle for {duration(idle)} between the previous {node} and this one.")
    elif before is not None and idle >= NEGLIGIBLE_NS:
        gap = np.array([before], dtype=np.int64), trace.start[i : i + 1], np.array([i], dtype=np.int64)
        found = causes.explain(trace, *gap, np.array([last], dtype=np.int64))
        parts, words = found.parts(0), cause_words.cause_sentences(trace, found)
        told = [f"for {duration(time)} {words[cause]}" for cause, time in parts]
        told = told if len(parts) > 1 else [words[parts[0][0]]]
        why.append(f"The GPU was idle for {duration(idle)} before it: {'; '.join(told)}.")
    return why


def _last_work_before(trace: Trace, i: int) -> int:
    """Of the work that started on slice i's device before it, the one that ended last; -1 if there is
    none."""
    device = int(device_of(trace)[trace.lane[i]])
    at = work_of_devices(trace).get(device, np.zeros(0, np.int64))
    at = at[(trace.start[at] <= trace.start[i]) & (at != i)]
    return int(at[np.argmax(trace.start[at] + trace.duration[at])]) if len(at) else -1
