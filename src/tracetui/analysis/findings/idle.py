"""Rules on idle devices: overhead, little use, data loading, communication, waiting for the GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tracetui.analysis.ancestors import first_marked, op_around
from tracetui.analysis.causes import CAUSES
from tracetui.analysis.cpu_time import blocking_copies, is_synchronising
from tracetui.analysis.cpu_verdict import is_collective
from tracetui.analysis.findings.anomaly import checked_for_nan
from tracetui.analysis.findings.copies import OUT, SAVED_ADVICE, is_copying, pageable_memory, saves_on_host
from tracetui.analysis.findings.model import (
    HIGH,
    MEDIUM,
    Finding,
    first_of,
    longest_first,
    on_xpu,
    outermost_op,
    per_step,
)
from tracetui.analysis.gaps import DeviceGaps, busy_union
from tracetui.analysis.kinds import communicates
from tracetui.analysis.results import Results
from tracetui.analysis.scope import members, step_of
from tracetui.analysis.select import by_name, processes_of
from tracetui.analysis.split import BUSY, COLUMNS
from tracetui.analysis.sums import sum_into
from tracetui.analysis.verdict import PARTS, CpuTime, Verdict, judge
from tracetui.trace import Kind
from tracetui.trace.indices import places
from tracetui.trace.intervals import Union
from tracetui.trace.model import I64
from tracetui.units import capital, duration, plural, share, significant, such, verb

LOADING_SHARE = 0.05
COMMUNICATION_SHARE = 0.1
WAIT_NS = 50_000
WAIT_SHARE = 0.01
WAIT_MEDIUM = 0.05
LATE_RATIO = 1.5
LATE_SHARE = 0.5
MOST_STEPS = 1000
SEVERAL_WAITS = 3
"""So many waits within a step cut it into pieces."""
TURNS_SHARE = 0.1
"""Where the CPU waits for the GPU for this share of the time, and the GPU for the CPU, they take turns."""
CLOSING_SHARE = 0.1
"""A closing wait of less is not what a reader stops at."""
BLOCKING_NS = 20_000
MUCH_NS = 20_000
"""A copy of a loss, or of a few of them, is over sooner."""
_LINEAR_ALGEBRA = re.compile(r"aten::_?(?:linalg_|cholesky|lu_|inverse|lstsq|geqrf|symeig)")
BLOCKED_CALLS, BLOCKED_SHARE = 10, 0.9
_OUT_OF_THE_LOOP = (
    "Take torch.cuda.synchronize() and similar calls out of the loop. To time a part of it, use "
    "torch.cuda.Event."
)
_LATER = "Wait for events later: read the times of torch.cuda.Event after the loop, all at once."
_READ_LATER = (
    "Read values back later and less often: keep losses on the GPU, copy with non_blocking=True to pinned "
    "memory, avoid .item(), .tolist() and boolean indexing in the loop."
)
MANY_VALUES = 8
_READ_ONCE = (
    "Read values once per step, not one by one: put them into one tensor, torch.stack(values).tolist(). Or "
    "keep them on the GPU and read them later, less often."
)
_RECORD = "Record the GPU, too (ProfilerActivity.CUDA): then the trace shows what the CPU waits for."
_LEAVE = "Leave them as they are, as long as the GPU stays busy."
_STATUS = (
    "These ops read back their status or results. The _ex variants, for ops that have one, skip the check "
    "(torch.linalg.solve_ex, inv_ex, cholesky_ex). Otherwise, give the GPU work on another stream in the "
    "meantime."
)
_CTC = re.compile(r"aten::_?(?:use_)?(?:cudnn_)?ctc_loss")
_BY_ITSELF = (
    "The op itself copies and waits: call it less often, with more at a time, or give the GPU work on "
    "another stream in the meantime."
)
_SEND = (
    "Most of that wait is in copies to the GPU: copy from pinned memory with non_blocking=True, and copy "
    "many small tensors as one."
)

_FETCH = (
    "Most of that wait is in copies of tensors to the host: copy them less often, or into pinned memory with "
    "non_blocking=True, and wait for them once, later."
)


_SEND_RECV = re.compile(r"SendRecv")
_SENT = re.compile(r"(?:nccl:|c10d::)(?:send|recv)")
_TO_ALL = re.compile(r"(?i)all_?to_?all|all2all")
_AMONG_ALL = (
    "Collectives",
    "A collective's kernel also waits for the slowest rank, so a long one does not have to mean a slow "
    "network.",
    "Compare the ranks: the rank that waits least is the late one. Overlap with computation (bucket sizes, "
    "FSDP prefetching), or send less.",
)
_BETWEEN_TWO = (
    "Sends and receives",
    "A receive waits in its kernel until the other rank sends: between the stages of a pipeline that is "
    "the bubble, not a slow network.",
    "Compare the ranks: the stage that waits least is the slowest. More micro-batches, an interleaved "
    "schedule or stages of equal work leave less to wait for.",
)


def waiting_at_the_end(results: Results) -> Iterator[Finding]:
    """A closing synchronisation that mostly waits for work that was queued."""
    trace, work = results.trace, results.work()
    at = results.slices(Kind.RUNTIME, is_synchronising)
    at = at[op_around(trace, at) < 0]
    if not len(at) or not len(work):
        return
    last = int(at[np.argmax(trace.start[at])])
    start, length = int(trace.start[last]), int(trace.duration[last])
    busy = int(busy_union(trace, work).within(np.array([start]), np.array([start + length]))[0])
    span = results.span[1] - results.span[0]
    if length < max(WAIT_NS, CLOSING_SHARE * span) or busy < 0.5 * length:
        return
    running = work[trace.start[work] + trace.duration[work] > start]
    # The trace does not say which one it waits for.
    several = len(results.gaps().devices) > 1
    a_gpu, busy_one = ("a GPU", "at least one GPU") if several else ("the GPU", "the GPU")
    yield Finding(
        "waiting_at_the_end",
        "info",
        f"{trace.name_of(last)} waits {duration(length)} for {a_gpu} to finish",
        f"{capital(busy_one)} is busy for {duration(busy)} of that: it is working through earlier launches. "
        "The call itself is not slow: its CPU time is the GPU's time, seen from the CPU.",
        "Do not count it as overhead. It shows how far the CPU was ahead of the GPU.",
        first_of([last, *running[:3].tolist()]),
        {"wait_ns": float(length), "busy_ns": float(busy)},
    )


def blocking_calls(results: Results) -> Iterator[Finding]:
    """Ops that make the CPU wait for the device: .item(), copies to the CPU, nonzero."""
    trace = results.trace
    at, parent = _waits_in_ops(results)
    total = int(trace.duration[at].sum())
    span = results.span[1] - results.span[0]
    if not len(at) or total < max(WAIT_NS, WAIT_SHARE * span):
        return
    called = outermost_op(results, parent)
    time = {
        trace.names[int(name)]: int(trace.duration[at[trace.name[called] == name]].sum())
        for name in np.unique(trace.name[called])
    }
    calls, which = by_name(trace, at)
    most = trace.names[int(calls[np.argmax(sum_into(which, trace.duration[at], len(calls)))])]
    ops = np.unique(parent)  # one that copies and then waits for the copy takes two calls
    each = per_step(results, trace.start[ops]) or 0
    in_step = f" in {plural(len(ops), 'op')}" if len(ops) < len(at) else ""
    in_step += f" ({each:,} in a step)" if 1 < each < len(ops) else ""
    largest = sorted(time, key=lambda name: -time[name])[:3]
    order = np.argsort(-trace.duration[at], kind="stable")
    verdict = results.verdict()
    devices = len(results.gaps().devices)  # each of them may be idle for all of the wait
    cost = min(total * devices, verdict.causes[CAUSES.index("sync")] if verdict.causes else 0)
    part = cost / verdict.judged if verdict.judged else 0.0
    idle = verdict.parts[PARTS.index("cpu")] if verdict.parts else 0
    hidden = min(total * devices, idle)
    behind = part < WAIT_SHARE and hidden >= TURNS_SHARE * verdict.judged > 0
    gpus = results.gpus
    are, have = ("is", "has") if devices < 2 else ("are", "have")
    meanwhile = f"{capital(gpus)} {have} work in the meantime"
    if part >= WAIT_SHARE:
        meanwhile = f"Meanwhile nothing is launched: for {duration(cost)}, {share(part)} {verdict.of()}, "
        meanwhile += f"{results.gpus_are} idle because of these waits."
    elif behind:
        meanwhile += f", but the CPU cannot work ahead. That could hide up to {duration(hidden)} of the "
        meanwhile += f"{duration(idle)} for which {gpus} {verb(max(1, devices), 'wait')} for the CPU."
    else:
        meanwhile += ", so the waiting costs little here."
    cheap = part < WAIT_SHARE and not behind
    if not devices:
        meanwhile = "The trace does not show what the GPU does meanwhile."
    copying = np.isin(at, blocking_copies(trace, results.launches().event)[0])
    mostly_copies = 2 * int(trace.duration[at[copying]].sum()) > total
    if part < WAIT_MEDIUM and mostly_copies and any(pageable_memory(results)):
        return  # a finding of its own
    if cheap and verdict.verdict == "overhead-bound":
        meanwhile = f"{capital(gpus)} {are} idle for other reasons: the waiting costs little here."
    yield Finding(
        "blocking_calls",
        "medium" if part >= WAIT_MEDIUM else "low" if part >= WAIT_SHARE or behind else "info",
        f"The CPU waits {duration(total)} for {gpus} inside ops",
        f"{such(len(at), 'call', most)}{in_step} {verb(len(at), 'stop')} the CPU until "
        f"{gpus} {have} caught up, under "
        f"{', '.join(f'{name} ({duration(time[name])})' for name in largest)}. {meanwhile}",
        _RECORD
        if not devices
        else ("First look at what keeps the GPU idle." if verdict.verdict == "overhead-bound" else _LEAVE)
        if cheap
        else _SEND
        if 2 * _sending(results, at, parent, called) > total
        else SAVED_ADVICE
        if saves_on_host(results)
        else _STATUS
        if 2 * sum(time[name] for name in time if _LINEAR_ALGEBRA.match(name)) > total
        else _BY_ITSELF
        if 2 * sum(time[name] for name in time if _CTC.match(name)) > total
        else _FETCH
        if 2 * _fetching(results, at) > total
        else _READ_ONCE
        if each >= MANY_VALUES and 2 * time.get("aten::item", 0) > total
        else _READ_LATER,
        first_of(at[order]),
        {"wait_ns": float(total), "calls": float(len(at)), "idle_ns": float(cost)}
        | {"share": total / span if span else 0.0},
    )


def _waits_in_ops(results: Results) -> tuple[I64, I64]:
    """The calls in ops that make the CPU wait for the device, and the op around each (slices)."""
    trace = results.trace
    at = np.union1d(
        results.slices(Kind.RUNTIME, is_synchronising), blocking_copies(trace, results.launches().event)[0]
    )
    parent = op_around(trace, at)
    at, parent = at[parent >= 0], parent[parent >= 0]
    # `anomaly_detection` tells of its own.
    check = np.zeros(len(trace), dtype=np.bool_)
    check[checked_for_nan(results)] = True
    mine = first_marked(trace, parent, check) < 0
    at, parent = at[mine], parent[mine]
    return at, parent


def sending_advice(results: Results) -> str:
    """What to try where most of the CPU's waits are in copies to a device; "" elsewhere."""
    at, parent = _waits_in_ops(results)
    sent = _sending(results, at, parent, outermost_op(results, parent))
    waits = np.union1d(at, results.slices(Kind.RUNTIME, is_synchronising))
    return _SEND if 2 * sent > int(results.trace.duration[waits].sum()) else ""


def waits_in_a_step(results: Results) -> tuple[int, str]:
    """(how many ops of a step make the CPU wait for the device; the op of most of them that the program
    calls, "" for none)."""
    _, parent = _waits_in_ops(results)
    ops = np.unique(parent)
    names, which = by_name(results.trace, outermost_op(results, ops))
    most = int(names[np.argmax(np.bincount(which))]) if len(ops) else -1
    return per_step(results, results.trace.start[ops]) or 0, results.trace.names[most] if len(ops) else ""


def no_graphs_yet(results: Results) -> str | None:
    """What to say instead of advising CUDA graphs, as a graph holds no op that makes the CPU wait for the
    device: "" for nothing, where there are such graphs already, or none for this device. None where nothing
    is in the way."""
    waits, op = waits_in_a_step(results)
    if waits >= SEVERAL_WAITS:
        return f" For CUDA graphs, first remove the step's {waits:,} waits for the GPU, above all {op}."
    return "" if replays(results) or on_xpu(results) else None


def replays(results: Results) -> bool:
    """Whether graph launches run most of the kernels, copies and memsets."""
    replay = results.named(lambda name: "GraphLaunch" in name)[results.trace.name[results.launches().launch]]
    return bool(2 * np.count_nonzero(replay) > len(replay))


def _fetching(results: Results, at: I64) -> int:
    """How long the calls `at` that copy much from the device wait, ns."""
    trace, launches = results.trace, results.launches()
    from_device = results.named(lambda name: any(way in name for way in OUT))[trace.name[launches.event]]
    much = from_device & (trace.duration[launches.event] >= MUCH_NS)
    return int(trace.duration[at[np.isin(at, launches.launch[much])]].sum())


def _sending(results: Results, at: I64, parent: I64, called: I64) -> int:
    """How long the calls `at` in the ops `parent` wait in ops that copy to the device, where what the program
    `called` is a copy, ns."""
    trace, launches = results.trace, results.launches()
    to_device = results.named(lambda name: bool(re.search(r"HtoD|HostToDevice|\bM2D\b", name)))
    copies = launches.launch[to_device[trace.name[launches.event]]]
    sending = np.isin(parent, op_around(trace, copies)) & results.named(is_copying)[trace.name[called]]
    return int(trace.duration[at[sending]].sum())


def explicit_waits(results: Results) -> Iterator[Finding]:
    """Calls outside of ops that make the CPU wait for the device, before it launches more."""
    trace, launch = results.trace, results.launch_calls()
    at = results.slices(Kind.RUNTIME, is_synchronising)
    if not len(at) or not len(launch):
        return
    inside = op_around(trace, at) >= 0
    within, last = int(trace.duration[at[inside]].sum()), trace.start[launch].max()
    at = at[~inside & (trace.start[at] < last)]
    total, verdict = int(trace.duration[at].sum()), results.verdict()
    devices = len(results.gaps().devices)  # each of them may be idle for all of the wait
    cost = min(total * devices, verdict.causes[CAUSES.index("sync")]) if verdict.causes else 0
    part = cost / verdict.judged if verdict.judged else 0.0
    if part < WAIT_MEDIUM or total < max(WAIT_NS, within):
        return
    order = np.argsort(-trace.duration[at], kind="stable")
    events = results.named(lambda name: "EventSynchronize" in name)
    yield Finding(
        "explicit_waits",
        "medium",
        f"The CPU waits {duration(total)} for {results.gpus} outside of ops",
        f"{such(len(at), 'call', trace.name_of(int(at[order[0]])))} {verb(len(at), 'stop')} the CPU until "
        f"{results.gpus} {'has' if devices < 2 else 'have'} caught up, outside of any op. Meanwhile nothing "
        f"is launched: for {duration(cost)}, {share(part)} {verdict.of()}, {results.gpus_are} idle because "
        "of these waits.",
        _LATER if 2 * int(trace.duration[at[events[trace.name[at]]]].sum()) > total else _OUT_OF_THE_LOOP,
        first_of(at[order]),
        {"wait_ns": float(total), "calls": float(len(at)), "idle_ns": float(cost), "share": part},
    )


def blocking_launches(results: Results) -> Iterator[Finding]:
    """Launches that return only when their kernel is done: CUDA_LAUNCH_BLOCKING=1."""
    trace, launches = results.trace, results.launches()
    # A kernel of a few µs may be over before its launch returns.
    long = (trace.kind[launches.event] == Kind.KERNEL) & (trace.duration[launches.event] >= BLOCKING_NS)
    if launches.median_delay is None:  # the clocks differ
        return
    event, call = launches.event[long], launches.launch[long]
    done = trace.start[event] + trace.duration[event] <= trace.start[call] + trace.duration[call]
    if done.sum() < BLOCKED_CALLS or done.sum() < BLOCKED_SHARE * len(done):
        return
    call = np.unique(call[done])
    yield Finding(
        "blocking_launches",
        "high",
        "Launches wait for their kernels, as with CUDA_LAUNCH_BLOCKING=1",
        f"{int(done.sum()):,} of {plural(len(done), 'kernel')} of {duration(BLOCKING_NS)} and more end "
        "before their launch returns. So CPU and GPU never work at the same time, and the time of a launch "
        "is that of its kernel.",
        "Unset CUDA_LAUNCH_BLOCKING (on AMD: HIP_LAUNCH_BLOCKING, AMD_SERIALIZE_KERNEL): it is for "
        "debugging.",
        first_of(longest_first(trace, call)),
        {"calls": float(len(call)), "launch_ns": float(trace.duration[call].sum())},
    )


def waits_for_device(results: Results) -> Union:
    """While the thread that launches most waits for a device, in or outside of ops, before it goes on."""
    trace, launch = results.trace, results.launch_calls()
    at = np.union1d(
        results.slices(Kind.RUNTIME, is_synchronising), blocking_copies(trace, results.launches().event)[0]
    )
    if len(launch):
        lane = np.argmax(np.bincount(trace.lane[launch]))
        last = trace.start[launch[trace.lane[launch] == lane]].max()
        at = at[(trace.lane[at] == lane) & (trace.start[at] <= last)]
    return busy_union(trace, at)


def data_loading(results: Results) -> Iterator[Finding]:
    """Waiting for the next batch takes more than a twentieth of a step."""
    trace, steps = results.trace, results.step_table()
    at = loader_calls(results)
    if not len(at):
        return
    if results.is_whole and len(steps):
        at = at[step_of(steps, trace.start[at]) >= 0]
        whole, base = int((steps.end - steps.start).sum()), steps.base
    else:
        whole, base = results.span[1] - results.span[0], results.verdict().base
    total, whole = int(trace.duration[at].sum()), whole * processes_of(trace, at)
    if not len(at) or not whole or total < LOADING_SHARE * whole:
        return
    order = np.argsort(-trace.duration[at], kind="stable")
    longest = f", the longest {duration(trace.duration[at[order[0]]])}" if len(at) > 1 else ""
    quiet = len(results.launch_calls()) and not trace.cut_off and not _launches_within(results, at)
    idle = "" if not quiet else " The loop launches nothing while it waits for the batch."
    yield Finding(
        "data_loading",
        "high" if total > HIGH * whole else "medium" if total >= MEDIUM * whole else "low",
        f"Data loading takes {share(total / whole)} {base}",
        f"{plural(len(at), 'call')} of {trace.name_of(int(at[order[0]]))} {verb(len(at), 'take')} "
        f"{duration(total)}{longest}.{idle}",
        loading_advice(results),
        first_of(at[order]),
        {"loading_ns": float(total), "share": total / whole},
    )


def loading_advice(results: Results) -> str:
    """What to try against waiting for a `DataLoader`: not what the program does already."""
    pinned = results.named(lambda name: name == "aten::pin_memory" or "HtoD (Pinned" in name).any()
    pin = "" if pinned or results.verdict().cpu else "set pin_memory=True, "
    if results.named(lambda name: _is_loader(name) and "SingleProcess" in name).any():
        return f"The DataLoader loads in the main process: try num_workers=4, {pin}or do less per sample."
    return f"Raise num_workers, {pin}prefetch more (prefetch_factor), or do less per sample."


def loader_calls(results: Results) -> I64:
    """The waits for the next batch of a `DataLoader` (slices)."""
    # Old traces give them the category of an op.
    kinds = (Kind.ANNOTATION, Kind.CPU_OP)
    return np.sort(np.concatenate([results.slices(kind, _is_loader) for kind in kinds]))


def loading_time(results: Results) -> Union:
    """While the program waits for a `DataLoader`, in all of the trace."""
    whole = results.whole
    return whole.kept("loading", lambda: busy_union(whole.trace, loader_calls(whole)))


def _is_loader(name: str) -> bool:
    return name.startswith("enumerate(DataLoader)#")


def _launches_within(results: Results, at: I64) -> bool:
    """Whether anything is launched by the threads of these slices while they run."""
    trace, launch = results.trace, results.launch_calls()
    starts = {lane: trace.start[launch[of]] for lane, of in places(trace.lane[launch], len(trace.lanes))}
    return any(
        bool(busy_union(trace, at[of]).touching(starts[lane], starts[lane] + 1).any())
        for lane, of in places(trace.lane[at], len(trace.lanes))
        if lane in starts
    )


def communication(results: Results) -> Iterator[Finding]:
    """Collectives that no computation hides take more than a tenth of the time."""
    if (cpu := results.verdict().cpu) is not None:
        yield from _communication_of_cpu(results, cpu)
    low, high = results.judged_range()
    for gaps, time in zip(results.gaps().devices, results.judged_times(), strict=True):
        if time[COLUMNS.index("communication")]:
            yield from _communication_of(results, gaps, time, low, high)


def _communication_of_cpu(results: Results, cpu: CpuTime) -> Iterator[Finding]:
    trace, verdict = results.trace, results.verdict()
    if cpu.exposed_communication < COMMUNICATION_SHARE * cpu.span:
        return
    at = np.sort(np.concatenate([results.slices(k, is_collective) for k in (Kind.CPU_OP, Kind.ANNOTATION)]))
    at = longest_first(trace, at)
    alone, names = cpu.exposed_communication, dict.fromkeys(trace.name_of(int(i)) for i in at[:50])
    part = alone / cpu.span
    yield Finding(
        "communication",
        "high" if part > 0.3 else "medium",
        f"Communication alone takes {share(part)} {verdict.base}",
        f"Collectives by name ({', '.join(list(names)[:3])}) run for "
        f"{duration(cpu.communication)}, {duration(alone)} of it while no thread is in an op: {share(part)} "
        f"of the {duration(cpu.span)} {verdict.base}. That includes waiting for the slowest rank."
        f"{_late_step(results)}",
        "Compare the ranks: the rank that waits least is the late one. Overlap with computation, or send "
        "less.",
        first_of(at),
        {"exposed_ns": float(alone), "communication_ns": float(cpu.communication), "share": part},
    )


def _late_step(results: Results) -> str:
    """A sentence on the longest step, where it is far longer than usual for its communication."""
    rows = results.steps().rows
    if rows and rows[-1].window[1] > rows[-1].start + LATE_RATIO * rows[-1].duration:
        rows = rows[:-1]  # it has what all steps left to the device
    if not results.is_whole or not 3 <= len(rows) <= MOST_STEPS:
        return ""
    length = np.array([row.window_length for row in rows])
    longest = int(np.argmax(length))
    ratio, more = length[longest] / np.median(length), int(length[longest] - np.median(length))
    if ratio < LATE_RATIO:
        return ""
    talk = np.array([_communicating(row.verdict) for row in rows])
    of_it = int(talk[longest] - np.median(talk))
    if of_it < LATE_SHARE * more:
        return ""
    step = capital(rows[longest].label)
    times = f"{significant(ratio, 2)} times as long as usual"
    return (
        f" {step} takes {times}: {duration(min(of_it, more))} of the {duration(more)} more are communication."
    )


def _communicating(verdict: Verdict) -> int:
    cpu = verdict.cpu
    return cpu.exposed_communication if cpu else verdict.parts[PARTS.index("communication")]


def _communication_of(
    results: Results, gaps: DeviceGaps, time: I64, low: int, high: int
) -> Iterator[Finding]:
    trace, verdict = results.trace, results.verdict()
    base = f"{verdict.base} that count" if verdict.noticeably_left_out else verdict.base
    work = results.cpu_time().work[gaps.device]
    talk = communicates(trace)[trace.name[work]] & (trace.kind[work] == Kind.KERNEL)
    at = work[talk]
    if not len(at):
        return
    # Cut at the borders of the time, so that the shares add up.
    talked = int(busy_union(trace, at).within(np.array([low]), np.array([high]))[0])
    exposed, busy = int(time[COLUMNS.index("communication")]), int(time[BUSY].sum())
    judged = judge(time, None).judged
    at = at[members(trace, results.scope, at)]
    if not len(at) or not judged or exposed < COMMUNICATION_SHARE * judged:
        return
    order = np.argsort(-trace.duration[at], kind="stable")
    shorts = {results.decoded(int(i)).short for i in at[order][:50].tolist()}
    many = len(results.gaps().devices) > 1
    device_text = results.device_text(gaps)
    where = f" on {device_text}" if many else ""
    late = "" if many else _late_step(results)
    what, waits, advice = _BETWEEN_TWO if _between_two(results, at) else _AMONG_ALL
    yield Finding(
        "communication",
        "high" if exposed > 0.3 * judged else "medium",
        f"Communication alone takes {share(exposed / judged)} {verdict.of(judged)}{where}",
        f"{what} by name ({', '.join(sorted(shorts)[:3])}) run for {duration(talked)}{where}, "
        f"{duration(exposed)} of it while no other kernel runs: {share(exposed / judged)} of the "
        f"{duration(judged)} {base}, {share(exposed / busy)} of {device_text}'s busy time. {waits}{late}",
        advice,
        first_of(at[order]),
        {"exposed_ns": float(exposed), "communication_ns": float(talked), "share": exposed / judged}
        | {"share_of_busy": exposed / busy},
        device_text,
    )


def _between_two(results: Results, at: I64) -> bool:
    """Whether most of the communication `at` is sent from one rank to one other, as between the stages of a
    pipeline: an all-to-all runs kernels of the same name."""
    trace = results.trace
    pairs = at[results.named(lambda name: _SEND_RECV.search(name) is not None)[trace.name[at]]]
    if 2 * int(trace.duration[pairs].sum()) <= int(trace.duration[at].sum()):
        return False
    to_all = results.named(lambda name: _TO_ALL.search(name) is not None).any()
    return not to_all and bool(results.named(lambda name: _SENT.match(name) is not None).any())
