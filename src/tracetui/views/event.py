"""Facts about one event, or about the whole file, line by line. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tracetui.analysis.calls.calls import self_time_of
from tracetui.analysis.calls.flow import is_device, launches_work, partner, path, place_of, work_within
from tracetui.analysis.calls.graphs import module_of
from tracetui.analysis.calls.memory import change
from tracetui.analysis.devices import device_of
from tracetui.analysis.idle.gaps import without_work_text
from tracetui.analysis.names.short_names import short_of
from tracetui.analysis.part import Part
from tracetui.analysis.rates.layouts import input_facts
from tracetui.analysis.select import plausible
from tracetui.analysis.steps.scope import find_steps, launch_times, step_of
from tracetui.core.cells import wrap
from tracetui.core.safe_text import plain
from tracetui.core.units import exact, fixed, instant, memory_size, plural, share, share_of, size
from tracetui.trace.counters import cycles_of, mean_within
from tracetui.trace.indices import having
from tracetui.trace.memory import Records, moment
from tracetui.trace.model import DEVICE_WORK, I32, I64, Kind, Trace
from tracetui.trace.unended import unfinished
from tracetui.views.device_facts import device_facts
from tracetui.views.model import Column, Table

VALUE_LIMIT = 4000
SHOWN_EVENTS = 8
"""Most lines of a list, such as the kernels of an op."""


class Fact(NamedTuple):
    """One line. `event` is a slice that Enter jumps to, -1 for none."""

    label: str
    value: str
    event: int = -1


def event_facts(
    trace: Trace,
    i: int,
    args: Mapping[str, Any] | None,
    memory: Records | None = None,
    own: I64 | None = None,
) -> list[Fact]:
    """All facts about slice i. `args`: its arguments, None while they are being read. `own`: the self time of
    every slice, as `self_time_of` gives it, if at hand.
    """
    # The most wanted facts come first, a kernel's full name last: it may fill the pane.
    name = trace.name_of(i)
    short_form = short_of(trace, i)
    whole = [Fact("full name", name)] if short_form != name else []
    on_device = args and is_device(trace, i)
    module = module_of(args or {}) if on_device else ""
    launched, shown = device_facts(args, _properties(trace, i)) if args and on_device else ([], frozenset())
    launched = [("module", module), *launched] if module else launched
    # Where shapes were recorded; the arguments themselves follow below, as they are in the file.
    inputs = [Fact(label, plain(told, 200)) for label, told in input_facts(args or {})]
    facts = [Fact("name", short_form), *_itself(trace, i, own), *inputs]
    facts += [Fact(*fact) for fact in (*launched, *_counted(trace, i))]
    facts += [*_memory(trace, i, memory), *_links(trace, i), *_place(trace, i), *_kin(trace, i)]
    if args is None:
        facts.append(Fact("args", "reading …"))
    elif not args:
        facts.append(Fact("args", "none"))
    else:
        facts += [Fact(plain(str(k), 40), value_text(v)) for k, v in args.items() if k not in shown]
    return facts + whole


def _properties(trace: Trace, i: int) -> Mapping[str, Any] | None:
    """What the file says about the device that slice i ran on."""
    device = int(device_of(trace)[trace.lane[i]])
    return next((found for found in trace.info.devices if found.get("id") == device), None)


def _counted(trace: Trace, i: int) -> list[tuple[str, str]]:
    """What the counters of its device say of a kernel."""
    facts = []
    if (cycles := cycles_of(trace, i)) is not None and trace.duration[i] > 0:
        mhz = 1000 * cycles / int(trace.duration[i])
        facts.append(("SM clock", f"{mhz:,.0f} MHz ({cycles:,.0f} cycles)"))
    active = mean_within(trace, np.array([i]), "SM Active") if trace.kind[i] == Kind.KERNEL else None
    return facts + ([("SM active", share(active))] if active is not None else [])


def _itself(trace: Trace, i: int, own_time: I64 | None) -> list[Fact]:
    begin, length = int(trace.start[i]), int(trace.duration[i])
    facts = [Fact("duration", f"{exact(length)}, starts at {instant(begin)}")]
    if len(trace.children(i)):
        times = self_time_of(Part(trace)) if own_time is None else own_time
        own = int(times[i])
        around = int(trace.parent[i])
        if not own and length and around >= 0 and trace.name[around] == trace.name[i]:
            facts.append(
                Fact("self time", "counted in the call of the same name around it, as PyTorch does", around)
            )
        else:
            facts.append(Fact("self time", f"{exact(own)}, {share_of(own, length)} of it"))
    if bool(trace.implausible[i]):
        facts.append(Fact("odd", "impossible value in the file; left out of the averages"))
    if i in unfinished(trace):
        facts.append(Fact("odd", "it had not ended when the profiler stopped: nobody knows when it did"))
    if i in trace.clipped:
        facts.append(Fact("odd", "far longer in the file: cut where the next one on its stream begins"))
    return facts


def _place(trace: Trace, i: int) -> list[Fact]:
    lane = trace.lanes[int(trace.lane[i])]
    category = trace.categories[int(trace.category[i])]
    return [Fact("category", f"{category or 'none'}, on {lane.name}")]


def _memory(trace: Trace, i: int, records: Records | None) -> list[Fact]:
    """What was allocated when slice i began, and what it changed."""
    if records is None:
        return []
    begin, end = int(trace.start[i]), int(trace.start[i]) + int(trace.duration[i])
    facts = []
    for where, allocated, reserved in moment(records, begin):
        if where >= 0 or allocated > 0:
            kept = f", {memory_size(reserved)} reserved" if reserved > 0 else ""
            told = f"{memory_size(allocated)} allocated{kept}, at its start"
            facts.append(Fact(f"memory, GPU {where}" if where >= 0 else "memory, CPU", told))
    if not is_device(trace, i):
        changes = zip(("CPU", "GPU"), change(records, begin, end), strict=True)
        told = ", ".join(f"{'+' if n > 0 else '-'}{memory_size(abs(n))} {what}" for what, n in changes if n)
        facts += [Fact("allocates", f"{told}, until its end")] if told else []
    return facts


def _step(trace: Trace, i: int) -> list[Fact]:
    """The step in which slice i (or its launch) begins."""
    steps = find_steps(trace)
    step = int(step_of(steps, launch_times(trace, np.array([i], dtype=np.int64)))[0])
    if step < 0:
        return []
    event = int(steps.event[step])
    if steps.annotated:
        return [Fact("step", trace.name_of(event), event)]
    return [Fact("step", f"{steps.number[step]} (from {steps.source})", event)]


def _links(trace: Trace, i: int) -> list[Fact]:
    facts = []
    launch, op = int(trace.launch[i]), int(trace.op[i])
    place = place_of(trace, i)
    if place is not None:
        delay = exact(int(trace.start[place.first]) - int(trace.start[launch]))
        its = f" of its {place.of:,} events"
        start = "this start" if place.of == 1 else f"this start, the first{its}"
        start = start if place.number == 1 else f"the first{its}"
        word = "launch" if launches_work(trace, launch) else "call"
        facts.append(Fact(word, f"{trace.name_of(launch)}, {delay} before {start}", launch))
        if place.number > 1:
            later = exact(int(trace.start[i]) - int(trace.start[place.first]))
            facts.append(Fact("", f"this is number {place.number:,}, {later} after the first", place.first))
    if op >= 0:
        facts.append(Fact("op", trace.name_of(op), op))
    elif launch >= 0 and int(trace.op[launch]) >= 0:
        facts.append(Fact("op", trace.name_of(int(trace.op[launch])), int(trace.op[launch])))
    facts += _step(trace, i)
    around = path(trace, launch if launch >= 0 else i)[:-1]
    for depth, j in enumerate(around):
        label = ("launched in" if launch >= 0 else "path") if depth == 0 else ""
        facts.append(Fact(label, "  " * min(depth, 12) + short_of(trace, j), j))
    facts += _launched(trace, i)
    other = partner(trace, i)
    if other is not None:
        facts.append(Fact("forward op" if other[1] else "backward op", trace.name_of(other[0]), other[0]))
    return facts


def _launched(trace: Trace, i: int) -> list[Fact]:
    on_devices = plausible(trace, *DEVICE_WORK)
    if not len(on_devices):
        return []
    steps = find_steps(trace)
    step = np.flatnonzero(steps.event == i) if steps.annotated else np.zeros(0, dtype=np.int64)
    others = 0
    if len(step):  # launched by any thread: the same numbers as in the table of steps
        work = on_devices[step_of(steps, launch_times(trace, on_devices)) == step[0]]
        kernels = int(np.count_nonzero(trace.kind[work] == Kind.KERNEL))
        copies = len(work) - kernels
        what = [
            plural(n, *word)
            for n, *word in ((kernels, "kernel"), (copies, "copy or memset", "copies and memsets"))
            if n
        ]
    else:
        runtime = int(trace.kind[i]) == Kind.RUNTIME
        work = np.sort(having(trace, "launch", i) if runtime else work_within(trace, i))
        work = work[np.isin(trace.kind[work], DEVICE_WORK) & ~trace.implausible[work]]
        what = [plural(len(work), "event")]
        if int(trace.kind[i]) == Kind.ANNOTATION:
            others = _launched_by_others(trace, i, trace.launch[on_devices])
    meanwhile = f"; other threads launch {others:,} more meanwhile" if others else ""
    if not len(work):
        return [Fact("on the GPU", f"nothing{meanwhile}")] if others else []
    work = work[np.argsort(trace.start[work], kind="stable")]
    total = exact(int(trace.duration[work].sum()))
    facts = [Fact("on the GPU", f"{', '.join(what)}, {total} in all{meanwhile}", int(work[0]))]
    facts += [
        Fact("", f"  {fixed(int(trace.duration[j])):>10}  {short_of(trace, j)}", j)
        for j in work[:SHOWN_EVENTS].tolist()
    ]
    if len(work) > SHOWN_EVENTS:
        facts.append(Fact("", f"  … and {len(work) - SHOWN_EVENTS:,} more", int(work[SHOWN_EVENTS])))
    return facts


def _launched_by_others(trace: Trace, i: int, launch: I32) -> int:
    """How many launches other lanes made during slice i. `launch`: those of all device work."""
    launch = launch[launch >= 0]
    begin, end = int(trace.start[i]), int(trace.start[i]) + int(trace.duration[i])
    during = (trace.start[launch] >= begin) & (trace.start[launch] < end)
    return int(np.count_nonzero(during & (trace.lane[launch] != trace.lane[i])))


def _kin(trace: Trace, i: int) -> list[Fact]:
    """The events with the same name and kind."""
    same = having(trace, "name", int(trace.name[i]))
    same = same[trace.kind[same] == trace.kind[i]]
    if len(same) < 2:
        return []
    lengths = np.sort(trace.duration[same])
    rank = len(lengths) - int(np.searchsorted(lengths, trace.duration[i], side="right")) + 1
    low, middle, high = (exact(float(v)) for v in (lengths[0], np.median(lengths), lengths[-1]))
    longest = int(same[int(np.argmax(trace.duration[same]))])
    return [
        Fact("same name", f"{plural(len(same), 'event')}, {exact(int(lengths.sum()))} in all"),
        Fact("", f"min {low}   median {middle}   max {high}", longest),
        Fact("", f"{histogram(lengths)}  this one is number {rank:,} by duration"),
    ]


def histogram(values: Any, bins: int = 24) -> str:
    """The distribution of sorted durations as a row of bars, shortest left. An empty bin is a dot."""
    low, high = float(values[0]), float(values[-1])
    if high <= low:
        return "all the same"
    counts, _ = np.histogram(values, bins=bins, range=(low, high))
    top = int(counts.max())
    # Round up: a bin that holds something must not look empty.
    return "".join("·" if not c else "▁▂▃▄▅▆▇█"[min(7, -(-int(c) * 8 // top) - 1)] for c in counts)


def value_text(value: Any) -> str:
    """An argument as one safe line."""
    if isinstance(value, str):
        return plain(value, VALUE_LIMIT)
    try:
        return plain(json.dumps(value, ensure_ascii=False), VALUE_LIMIT)
    except (TypeError, ValueError):
        return plain(str(value), VALUE_LIMIT)


def _without_work(trace: Trace) -> Fact:
    if any(lane.device >= 0 for lane in trace.lanes) or bool(trace.is_kind(Kind.RUNTIME).any()):
        return Fact("no GPU work", without_work_text(trace))
    return Fact(
        "no GPU lane",
        "Only the CPU was recorded: the profile ran without a GPU, or without ProfilerActivity.CUDA. "
        "Times are those of the CPU; there are no kernels or launches to see. Gaps are the main thread's.",
    )


def trace_facts(trace: Trace) -> list[Fact]:
    """Facts about the file, and what was wrong with it."""
    first, last = trace.span
    info = trace.info
    facts = [
        Fact("file", "standard input" if info.path == "-" else plain(info.path, 400)),
        Fact("size", f"{size(info.size)} on disk, {size(info.text_size)} of JSON"),
        Fact("events", f"{trace.events:,}, {plural(len(trace), 'slice')} among them"),
        Fact("span", exact(last - first)),
    ]
    for notice in trace.notices:
        count = f" ({notice.count:,}×)" if notice.count > 1 else ""
        facts.append(Fact(f"⚠ {notice.level}", notice.text + count))
    if not bool(trace.is_kind(*DEVICE_WORK).any()):
        facts.append(_without_work(trace))
    facts += [Fact(f"device {plain(str(d.get('id', '')), 8)}", device_text(d)) for d in info.devices]
    if info.distributed:
        shown = {k: v for k, v in info.distributed.items() if k != "pg_config"}
        facts.append(Fact("distributed", value_text(shown)))
    facts += [Fact(plain(str(k), 40), value_text(v)) for k, v in info.properties.items()]
    facts.append(Fact("", "Select an event to see its details: click it, or use the arrow keys."))
    return facts


def device_text(device: Mapping[str, Any]) -> str:
    """A device's properties in one line, e.g. "NVIDIA H200, sm_90, 132 SMs, 140 GiB"."""
    parts = [plain(str(device.get("name", "unnamed")), 60)]
    if "computeMajor" in device:
        parts.append(plain(f"sm_{device.get('computeMajor')}{device.get('computeMinor', '')}", 12))
    if "numSms" in device:
        parts.append(plain(f"{device['numSms']} SMs", 12))
    total = device.get("totalGlobalMem")
    if isinstance(total, (int, float)):
        parts.append(memory_size(total))
    return ", ".join(parts)


def wrapped(facts: Iterable[Fact], width: int) -> list[Fact]:
    """The facts as lines with values of at most `width` cells; the first line of each has its label."""
    return [
        Fact("" if n else fact.label, line, fact.event)
        for fact in facts
        for n, line in enumerate(wrap(fact.value, width))
    ]


def facts_table(
    lines: Sequence[Fact],
    labels: int,
    titles: tuple[str, str] = ("", ""),
    leads: Callable[[Fact], bool] | None = None,
) -> Table:
    """Lines on the screen. `labels`: cells of the labels; `leads`: which lines have a mark that Enter goes
    somewhere."""
    label = Column("label", titles[0], lambda r: lines[r].label, None, labels, False)
    value = Column("value", titles[1], lambda r: lines[r].value, None, 0, False)
    if leads is None:
        columns: tuple[Column, ...] = (label, value)
    else:
        mark = Column("jump", "", lambda r: "↵" if leads(lines[r]) else "", None, 1, False, after=1)
        columns = (label, mark, value)
    return Table(columns, len(lines), lambda r: f"{lines[r].label} {lines[r].value}")
