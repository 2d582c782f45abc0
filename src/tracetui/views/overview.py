"""The overview: the verdict and what it is about. The first screen and `tracetui summary` are made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from tracetui.analysis.calls.averages import averages_of
from tracetui.analysis.calls.calls import calls_of
from tracetui.analysis.calls.sums import sum_by, sum_into
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.gaps import DeviceGaps
from tracetui.analysis.idle.verdict import OF_STEPS, busy_text
from tracetui.analysis.names.kernel_names import decode
from tracetui.analysis.names.short_names import told_apart
from tracetui.analysis.part import Part
from tracetui.analysis.rates.counters import device_counters
from tracetui.analysis.rates.efficiency import efficiency_of
from tracetui.analysis.steps.scope import step_table_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.core.columns import distinct
from tracetui.core.copying import replace
from tracetui.core.threads import PART, map_blocks
from tracetui.core.units import duration, plural, share
from tracetui.rules import Finding, find_findings
from tracetui.trace.model import DEVICE_WORK, F64, I64, Kind, Trace
from tracetui.views.averages import instances
from tracetui.views.document import Block, Document, Entry
from tracetui.views.file_notes import file_notes
from tracetui.views.findings_text import LEVEL_STYLE, SEVERITY_STYLE, unknown_events
from tracetui.views.fixes import Fix, fixes, fixes_block, fixes_by_time
from tracetui.views.gap_words import words_of_all
from tracetui.views.gaps_text import device_names
from tracetui.views.parts import evidence, time_parts
from tracetui.views.steps import source_words, steps_within, unrecorded_text
from tracetui.views.target import Target
from tracetui.views.verdicts import VERDICT_STYLE

STEPS = 8
"""Most steps in the overview; the steps' pane has all."""
TOP = 5
"""Most ops, and most kernels."""
COST = ("time_ns", "share", "calls")
"""The numbers of those."""
FINDINGS = 12
WORTH_TRYING = ("high", "medium")
"""Findings of these severities may have the advice that comes first."""
SMALL = 0.01
"""Parts below this share of the time stand together, if there are several."""
CPU_FIRST = ("overhead-bound", "CPU-only", "not known")
"""Verdicts under which the ops come before the kernels, by their time on the CPU."""


def overviews(part: Part) -> Iterator[Document]:
    """The overview of a trace, or of a part of it: first what is known soonest, in the end all of it. On the
    screen are the fixes; the tables have panes of their own."""
    verdict = verdict_of(part)
    reason = unknown_events(part) or verdict.reason
    time, notices = _time(part), _notices(part)
    found = Document(
        reason,
        "",
        (time, notices),
        (),
        (),
        _about(part),
        (verdict.verdict, VERDICT_STYLE[verdict.verdict]),
        _numbers(part),
    )
    yield found
    find_findings(part)
    some = fixes_by_time(part)
    if some:
        yield _with_fixes(found, some, notices)
        some = fixes(part)
        if some:
            found = _with_fixes(found, some, notices)
        yield found
    devices = _devices(part)
    several = len(devices.entries) > 1
    costs = _costs(part)
    ops, kernels = _ops(part, costs), _with_peaks(part, _kernels(part, costs))
    part.forget(calls_of)
    first, second = (ops, kernels) if verdict.verdict in CPU_FIRST else (kernels, ops)
    last = () if several else (devices,)
    rest = (first, second, _counters(part), *((devices,) if several else ()), _steps(part))
    if some:
        yield replace(found, more=(time, _findings(part), *rest, *last))
    else:
        advice = next((f.advice for f in find_findings(part) if f.severity in WORTH_TRYING and f.advice), "")
        yield replace(found, advice=advice, left=(time, _findings(part), notices), right=rest, more=last)


def _with_fixes(found: Document, some: tuple[Fix, ...], notices: Block) -> Document:
    return replace(found, advice=some[0].advice, left=(fixes_block(some), notices))


def recorded_slices(trace: Trace) -> int:
    """How many slices are in the file: the viewer adds lanes of modules."""
    return sum(lane.last - lane.first for lane in trace.lanes if lane.kind != "modules")


def _about(part: Part) -> str:
    """How much there is."""
    trace = part.trace
    lanes = sum(lane.last > lane.first and lane.kind != "modules" for lane in trace.lanes)
    only = "" if part.is_whole else f"; only {part.scope.label}"
    low, high = trace.span
    slices = plural(recorded_slices(trace), "slice")
    what = f"{plural(trace.events, 'event')}, {slices} on {plural(lanes, 'lane')}"
    return f"{what}, {duration(high - low)}{only}"


def _numbers(part: Part) -> str:
    """The numbers of the verdict."""
    verdict, numbers = verdict_of(part), []
    if verdict.busy_share is not None:
        who = "GPU" if len(gaps_of(part).devices) < 2 else "GPUs"
        numbers.append(f"{who} busy {busy_text(verdict.busy_share)} {verdict.of()}")
    if verdict.launch_delay is not None:
        numbers.append(f"launch to start {duration(verdict.launch_delay)} (median)")
    return ", ".join(numbers)


def _time(part: Part) -> Block:
    verdict, steps = verdict_of(part), _count_steps(part)
    words = words_of_all(part)
    parts, each = time_parts(verdict, words), max(1, steps)
    total = verdict.cpu.span if verdict.cpu is not None else verdict.judged
    small = [piece for piece in parts if piece.share is not None and piece.share < SMALL]
    small = small if len(small) > 1 else []

    def entry(name: str, time: int, piece: float | None, style: str, text: str, target: Target) -> Entry:
        numbers = (duration(time / each), share(piece) if piece is not None else "-")
        style = style if piece is not None else "dim"
        return Entry(name, numbers, piece, style, text, target, values=(round(time / each), piece))

    entries = [
        entry(piece.what, piece.duration, piece.share, piece.what, piece.brief, evidence(part, piece.what))
        for piece in parts
        if piece not in small
    ]
    if small:
        time, piece = sum(one.duration for one in small), sum(one.share or 0.0 for one in small)
        names = ", ".join(one.what for one in small)
        at = sum(one.share is not None for one in parts) - len(small)
        entries.insert(at, entry("other", time, piece, small[0].what, names, evidence(part, small[0].what)))
    counts = " that count" if verdict.noticeably_left_out else ""
    devices = len(gaps_of(part).devices)
    together = f", {devices} GPUs together" if devices > 1 else ""
    if steps > 1:
        title, note = "Where a step's time goes", f"{duration(total / steps)}{counts}, mean of {steps:,}"
    else:
        title, note = "Where the time goes", f"{duration(total)} {verdict.base}{counts}"
    return Block("time", title, note + together, tuple(entries), fields=("time_ns", "share"))


def _count_steps(part: Part) -> int:
    """The number of steps, if they are what the verdict is about; else 0."""
    return len(steps_of(part).rows) if part.is_whole and verdict_of(part).base == OF_STEPS else 0


@dataclass(frozen=True, slots=True, eq=False)
class _Costs:
    """What each row of the averages takes: per step if there are several, else in all. Arrays of shape
    (rows,), times in ns."""

    self_cpu: F64
    self_device: F64
    calls: F64
    said: str
    """"per step" or "in all"."""


def _costs(part: Part) -> _Costs:
    table, trace, steps = averages_of(part), part.trace, _count_steps(part)
    calls = calls_of(part)
    # PyTorch's table counts marks of synchronization as GPU time: here the GPU's work is meant.
    marks = trace.kind[calls.device] == Kind.SYNC
    mine = marks & (calls.device_op >= 0)
    of_mark = calls.device_op[mine]
    of_mark = np.where(calls.removed[of_mark], calls.cpu_parent[of_mark], of_mark)
    waits = sum_into(of_mark, calls.device_duration[mine], len(calls.cpu))
    if steps < 2:
        cpu, device, often = (a.astype(np.float64) for a in (table.self_cpu, table.self_device, table.calls))
        row = table.row_of[calls.cpu]
        of_marks = table.row_of[calls.device[marks]]
        device[of_marks[of_marks >= 0]] = 0
        known = ~calls.removed & (row >= 0)
        device -= np.bincount(row[known], waits[known], minlength=len(table))
        return _Costs(cpu, np.maximum(device, 0), often, "in all")
    low, high = np.array([row.window for row in steps_of(part).rows], dtype=np.int64).T

    def within(slices: I64, times: Callable[[I64], Sequence[I64]]) -> list[F64]:
        """The sums of `times`, asked for by position in `slices`, over the slices of each row that begin, or
        were launched, in a step."""

        def piece(some: slice) -> list[I64]:  # in parts: whole columns would take a lot of memory
            at = slices[some]
            begun = trace.start[np.where(trace.launch[at] >= 0, trace.launch[at], at)]
            step = np.searchsorted(low, begun, side="right") - 1
            mine = np.flatnonzero((step >= 0) & (begun < high[step]))
            return [sum_by(table.row_of, at[mine], time, len(table)) for time in times(mine + some.start)]

        none = np.zeros(len(table), dtype=np.int64)
        parts = map_blocks(max(1, len(slices)), piece, PART)
        return [sum(each, start=none) / steps for each in zip(*parts, strict=True)]

    def on_cpu(at: I64) -> list[I64]:
        there = (~calls.removed[at]).astype(np.int64)
        own = np.maximum(calls.self_device[at] - waits[at], 0)
        return [calls.self_cpu[at] * there, own * there, there]

    def on_device(at: I64) -> list[I64]:
        return [calls.device_duration[at] * ~marks[at], np.ones_like(at)]

    cpu, of_ops, often = within(calls.cpu, on_cpu)
    device, events = within(calls.device, on_device)
    return _Costs(cpu, of_ops + device, often + events, "per step")


def _devices(part: Part) -> Block:
    """How busy each device was."""
    trace, devices, names = part.trace, gaps_of(part).devices, device_names(part.trace)

    def entry(device: DeviceGaps) -> Entry:
        busy = device.busy_share
        named = " ".join(filter(None, (trace.rank_of(device.device), names.get(device.device, ""))))
        idle = f"idle {duration(device.idle)} in {plural(len(device), 'gap')}"
        before = f"{duration(device.lead_in)} before its first event" if device.lead_in else ""
        several = len(devices) > 1
        return Entry(
            trace.device_called(device.device),
            (busy_text(busy),),
            busy if several else None,
            "compute" if several else "",
            named if several else "; ".join(filter(None, (named, idle, before))),
            Target("gaps", span=(device.first, device.last)),
            values=(busy,),
        )

    title = "GPUs" if len(devices) > 1 else "GPU"
    entries = tuple(map(entry, devices))
    return Block("devices", title, "busy between its first and last work", entries, fields=("busy_share",))


def _steps(part: Part) -> Block:
    steps = steps_of(part)
    rows = steps_within(steps, part.scope).rows
    longest = max((row.window_length for row in rows), default=0) or 1
    verdict = verdict_of(part).verdict
    entries = [
        Entry(
            f"{row.label}{' !' if row.unusual else ''}",
            (
                duration(row.window_length),
                *((busy_text(row.busy_share),) if row.busy_share is not None else ()),
            ),
            row.window_length / longest * (1.0 if row.busy_share is None else row.busy_share),
            "accent",
            row.verdict.verdict if row.verdict.verdict != verdict else "",
            Target("steps", span=row.window, said=f"{row.label}: {duration(row.window_length)}"),
            row.window_length / longest,
            (row.window_length, row.busy_share),
        )
        for row in rows[:STEPS]
    ]
    if len(rows) > STEPS:
        more = f"{plural(len(rows) - STEPS, 'step')} more"
        entries.append(Entry(more, (), None, "dim", "", Target("steps"), values=(None, None)))
    busy = "length, GPU busy" if any(row.busy_share is not None for row in rows) else ""
    note = ", ".join(filter(None, (busy, source_words(steps.table.source))))
    return Block(
        "steps", "Steps", note, tuple(entries) if len(rows) > 1 else (), fields=("window_ns", "busy_share")
    )


def _notices(part: Part) -> Block:
    def entry(level: str, text: str, count: int) -> Entry:
        often = f"{count:,} × " if count > 1 else ""
        return Entry(level, (), None, LEVEL_STYLE.get(level, ""), f"{often}{text}", Target("details"))

    notes = file_notes(part.trace) if part.is_whole else []
    if part.is_whole and (unrecorded := unrecorded_text(step_table_of(part))):
        notes.append(("missing", 1, unrecorded.removesuffix(".")))
    return Block("file", "About the file", "", tuple(entry(level, text, n) for level, n, text in notes))


def _counters(part: Part) -> Block:
    """What the counters of the devices say of the time in which they worked."""
    entries, found = [], device_counters(part)
    for one in found:
        of = f"{part.trace.device_called(one.device)} " if len(found) > 1 else ""
        shares = (
            ("SM active", one.sm_active, "of the SMs, while kernels ran"),
            ("DRAM", one.dram, "of the peak, while busy"),
        )
        entries += [
            Entry(of + name, (share(value),), value, "compute", text, Target("efficiency"))
            for name, value, text in shares
            if value is not None
        ]
        if one.clock is not None:
            clock = (f"{one.clock:,.0f} MHz",)
            entries.append(
                Entry(f"{of}SM clock", clock, None, "", "mean while kernels ran", Target("efficiency"))
            )
    return Block("counters", "Counters", "while it worked", tuple(entries))


def _top(
    part: Part,
    rows: I64,
    values: F64,
    calls: F64,
    total: float,
    names: Sequence[str],
    key: str,
    by: str,
) -> tuple[Entry, ...]:
    """`values`, `calls`: of all rows, see `_Costs`; `by`: the column of the values."""
    found, table = [], averages_of(part)
    for row, name in zip(rows.tolist(), names, strict=True):
        of_row, _, what = instances(part, table, row, by)
        said = f"the most {what}" if what else "the longest"
        often = f"{calls[row]:,.0f}" if calls[row] == round(calls[row]) else f"{calls[row]:,.1f}"
        found.append(
            Entry(
                name,
                (duration(float(values[row])), share(values[row] / total) if total else "-", f"{often} ×"),
                float(values[row]) / total if total else None,
                key,
                "",
                Target(
                    key,
                    event=int(of_row[0]) if len(of_row) else None,
                    said=f"{said} of {plural(int(table.calls[row]), 'call')}",
                ),
                values=(
                    round(values[row]),
                    float(values[row] / total) if total else None,
                    round(float(calls[row]), 3),
                ),
            )
        )
    return tuple(found)


def _ops(part: Part, costs: _Costs) -> Block:
    """The ops that cost most: of the CPU's time where the device waits for it, else of the device's."""
    table = averages_of(part)
    of_cpu = verdict_of(part).verdict in CPU_FIRST or not table.self_device.any()
    values, on = (costs.self_cpu, ~table.device) if of_cpu else (costs.self_device, table.device)
    rows = np.flatnonzero((values > 0) & (table.first >= 0))
    rows = rows[part.trace.kind[table.first[rows]] == Kind.CPU_OP]
    rows = rows[np.argsort(-values[rows], kind="stable")][:TOP]
    what, by = ("self CPU", "self_cpu") if of_cpu else ("GPU time", "self_device")
    names = [table.names[row] for row in rows.tolist()]
    total = float(values[on & ~(table.annotation & table.device)].sum())
    entries = _top(part, rows, values, costs.calls, total, names, "ops", by)
    lanes = distinct(part.trace.lane[calls_of(part).cpu], len(part.trace.lanes)) if of_cpu else ()
    on_all = ", all threads" if len(lanes) > 1 else ""
    return Block("ops", "Ops", f"{what}, of {duration(total)} {costs.said}{on_all}", entries, fields=COST)


def _kernels(part: Part, costs: _Costs) -> Block:
    """The kernels and copies that took most of the device's time."""
    table, trace = averages_of(part), part.trace
    rows = np.flatnonzero(table.device & ~table.annotation & (costs.self_device > 0) & (table.first >= 0))
    rows = rows[np.isin(trace.kind[table.first[rows]], DEVICE_WORK)]
    rows = rows[np.argsort(-costs.self_device[rows], kind="stable")]
    total, top = float(costs.self_device[rows].sum()), rows[:TOP]
    full = [table.names[row] for row in top.tolist()]
    names = told_apart([decode(name).short for name in full], full, [True] * len(full))
    entries = _top(part, top, costs.self_device, costs.calls, total, names, "kernels", "")
    return Block("kernels", "Kernels and copies", f"{duration(total)} {costs.said}", entries, fields=COST)


def _with_peaks(part: Part, kernels: Block) -> Block:
    """The same with the share of the device's peak that each kernel reaches, in FLOP/s or in bandwidth,
    whichever is larger, if that is known."""
    reached = {row.name: row for row in efficiency_of(part).kernels}
    trace, entries = part.trace, []
    for entry in kernels.entries:
        row = reached.get(trace.name_of(entry.target.event)) if entry.target.event is not None else None
        shares = (row.compute_share, row.memory_share) if row is not None else ()
        known = [piece for piece in shares if piece is not None and piece <= 1]
        entries.append(replace(entry, text=f"{share(max(known))} of peak" if known else ""))
    return replace(kernels, entries=tuple(entries))


def _findings(part: Part) -> Block:
    def entry(finding: Finding) -> Entry:
        target = Target("findings", event=finding.evidence[0], said=finding.title)
        return Entry(finding.severity, (), None, SEVERITY_STYLE[finding.severity], finding.title, target)

    # The verdict, and its reason above, say it already.
    others = (finding for finding in find_findings(part) if finding.rule != "overhead_bound")
    found = tuple(entry(finding) for finding in islice(others, FINDINGS))
    return Block("findings", "Findings", "", found)
