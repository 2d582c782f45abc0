"""Steps of a trace that has no `ProfilerStep`: from `Optimizer.step`, from an annotation that repeats, or
from a sequence of launches that repeats. These are tried in this order; nothing else counts as a step.

Optimizer.step  A training step runs from the end of one optimizer step to the end of the next. What comes
                before the first counts as a step if it has about as many ops as the others; otherwise the
                recording began in the middle of a step. What comes after the last is not a step, as it lacks
                the optimizer. Optimizer steps with next to nothing between them (several optimizers) end one
                step together.
annotation      Two or more annotations of one thread whose names differ only in numbers, which do not overlap
                and which hold most launches of the main thread. If there are several such sets, names of
                loops (step, iteration, execute, decode, ...) come first, then the outermost. The parts of a
                model (layer, block, ...) are never steps. Annotations that follow one another in every round
                (encode, search, answer) form one step together, unless one of them has the name of a loop
                and holds most launches itself.
repeats         The launches of the main thread (without a device, its outermost ops) are one sequence of
                names over and over: at least three whole repetitions, with hardly anything else, and too
                regular to come from shuffling. The layers of one forward pass repeat as well. So what
                surrounds the repetitions has to fit the cycle, and each repetition has to show that it is a
                step: a copy from or to the host, a wait for the device, a forward and a backward pass, new
                inputs (an embedding, random numbers, a data loader), or a pause before it. Another phase may
                come first (a prefill before the decoding) only if each repetition copies to the host. If all
                launches replay one graph, each replay that shows one of these signs is a step.

The main thread is the one that launched the most device time (if it ran the backward pass, the thread that
called for that); without launches, the one with the most time in ops. In a trace of several processes, only
the main thread's process is looked at.
"""

from __future__ import annotations

import re

import numpy as np

from tracetui.analysis.calls.ancestors import first_marked, op_around
from tracetui.analysis.calls.sums import sum_into
from tracetui.analysis.select import name_mask, plausible
from tracetui.analysis.steps.cycles import ALIKE, TIMES, find_cycle
from tracetui.analysis.steps.step_table import StepTable
from tracetui.core.columns import unique
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.model import I64

COVERED = 0.8
"""The share of the main thread's launches that must be inside the annotations."""
WHOLE = 0.1
"""The number of ops in a first step may differ from the others by this share."""
TOGETHER = 0.1
"""Optimizer steps with less than this share of a step's ops between them belong together."""
PAUSE = 3
"""A pause between repetitions that is this many times as long as those within them sets them apart."""
OF_ANOTHER = 0.2
"""What another thread launches before each repetition belongs to it if it is at least this share of the
repetition's launches."""

_LOOP = re.compile(
    r"(?i)(?<![a-z])(?:execute|execute_model|step|train_step|iteration|iter|batch|run_batch|forward_step|decode"
    r"|prefill|extend|generation|verify)(?![a-z])"
)
_NOT_A_STEP = re.compile(
    r"(?i)ProfilerStep#|Optimizer\.|enumerate\(DataLoader\)#|(?:nccl|gloo|mpi|ucc|xccl|hccl):|c10d::|FSDP::|Torch-Compiled"
    r"|.*(?<![a-z])(?:layers?|blocks?|modules?|stages?|micro_?batch(?:es)?|experts?|heads?|epochs?)(?![a-z])"
)
_HOST_COPY = re.compile(r"(?i)DtoH|HtoD|DeviceToHost|HostToDevice|\b(?:D2M|M2D)\b")
_TO_HOST = re.compile(r"DtoH|DeviceToHost|\bD2M\b")
_WAIT = re.compile(r"(?:cuda|hip|cu|mu|ze).*Synchronize|urEventWait")
_INPUT = re.compile(
    r"aten::(?:embedding|item|_local_scalar_dense|argmax|multinomial|randint|randn|rand|normal_|uniform_|randperm)$"
    r"|enumerate\(DataLoader\)#"
)
_ENGINE = re.compile(r"autograd::engine")
_NUMBER = re.compile(r"\d+")


def find_sources(trace: Trace) -> StepTable | None:
    """The steps of a trace without `ProfilerStep`; None if it shows none."""
    work = _Work(trace)
    return _from_optimizer(trace, work) or _from_annotations(trace, work) or _from_repeats(trace, work)


def main_process(trace: Trace) -> int:
    """The process of the main thread, -1 for none."""
    work = _Work(trace)
    return int(work.process[work.main]) if work.main >= 0 else -1


class _Work:
    """The work that the CPU gave to the devices or, without devices, its outermost ops."""

    def __init__(self, trace: Trace) -> None:
        events = plausible(trace, *DEVICE_WORK)
        events = events[trace.launch[events] >= 0]
        self.launched = len(events) > 0
        self.event = events
        if self.launched:
            self.at, which = np.unique(trace.launch[events].astype(np.int64), return_inverse=True)
            """Every launch, or every outermost op (slices, by (lane, start))."""
            self.cost = sum_into(which, trace.duration[events], len(self.at))
        else:
            ops = plausible(trace, Kind.CPU_OP)
            self.at = ops[op_around(trace, ops) < 0]
            self.cost = trace.duration[self.at]
        self.lane = trace.lane[self.at].astype(np.int64)
        self.by_lane = sum_into(self.lane, self.cost, len(trace.lanes))
        """Device time that each thread launched (without devices, its time in ops), ns."""
        self.process = np.array([lane.process for lane in trace.lanes], dtype=np.int64)
        self.main = int(np.argmax(self.by_lane)) if len(self.at) else -1
        """The lane of the main thread, -1 if nothing ran."""
        self.backward = -1
        """The lane of the thread that runs the main thread's backward pass, if that thread launches more."""
        self.start = trace.start[self.at]
        if self.launched:
            self._leave_backward(trace)

    def _leave_backward(self, trace: Trace) -> None:
        """If the main thread runs the backward pass, take the thread that calls for it: steps begin there."""
        engine = name_mask(trace, lambda name: name.startswith("autograd::engine"))
        mine = self.at[self.lane == self.main]
        inside = first_marked(trace, trace.parent[mine], engine[trace.name]) >= 0
        others = np.where(self.process == self.process[self.main], self.by_lane, 0)
        others[self.main] = 0
        if 2 * int(inside.sum()) > len(mine) and others.max() > 0:
            self.main, self.backward = int(np.argmax(others)), self.main

    def starts(self) -> I64:
        """When the work of the main thread, and of the one that runs its backward pass, starts, sorted."""
        return np.sort(self.start[(self.lane == self.main) | (self.lane == self.backward)])

    @property
    def leads(self) -> bool:
        """Whether those two threads do at least half of the process's work."""
        total = self.by_lane[self.process == self.process[self.main]].sum()
        own = self.by_lane[self.main] + (self.by_lane[self.backward] if self.backward >= 0 else 0)
        return 2 * int(own) >= int(total)


def _from_optimizer(trace: Trace, work: _Work) -> StepTable | None:
    at = plausible(trace, Kind.ANNOTATION, Kind.CPU_OP)
    at = at[name_mask(trace, lambda name: name.startswith("Optimizer.step#"))[trace.name[at]]]
    if not len(at) or work.main < 0:
        return None
    # An optimizer inside another is a part of it; one inside the backward pass steps for one parameter.
    inner = name_mask(trace, lambda name: name.startswith(("Optimizer.step#", "autograd::engine")))
    at = at[first_marked(trace, trace.parent[at], inner[trace.name]) < 0]
    at = at[work.process[trace.lane[at]] == work.process[work.main]]
    if not len(at):
        return None
    lanes, count = np.unique(trace.lane[at], return_counts=True)
    at = at[trace.lane[at] == lanes[np.argmax(count)]]
    ops = plausible(trace, Kind.CPU_OP)
    ops = ops[work.process[trace.lane[ops]] == work.process[work.main]]
    times = np.sort(trace.start[ops]) if len(ops) else work.starts()
    start, end = trace.start[at], trace.end_of(at)
    between = _count(times, end[:-1], start[1:])
    if len(between) and between.max():
        last = np.append(between >= TOGETHER * np.percentile(between, 75), True)
        opened = np.append(True, last[:-1])
        at, start, end = at[last], start[opened], end[last]
        between = between[last[:-1]]
    if len(at) < 2:
        return None
    usual = float(np.median(between))
    begin = _first_start(trace, int(work.process[work.main]))
    before = float(_count(times, np.array([begin]), start[:1])[0])
    if begin < start[0] and usual and abs(before - usual) <= WHOLE * usual:
        low, high, event = np.append(begin, end[:-1]), end, at
    else:
        low, high, event = end[:-1], end[1:], at[1:]
    return StepTable(event, np.arange(len(event)), low, high, "Optimizer.step", "Optimizer.step")


def _count(times: I64, start: I64, end: I64) -> I64:
    """How many of the sorted times lie in each [start, end)."""
    found: I64 = np.searchsorted(times, end) - np.searchsorted(times, start)
    return np.maximum(found, 0)


def _first_start(trace: Trace, process: int) -> int:
    at = plausible(trace, Kind.CPU_OP, Kind.ANNOTATION, Kind.RUNTIME)
    mine = np.array([lane.process == process for lane in trace.lanes], dtype=np.bool_)
    return int(trace.start[at[mine[trace.lane[at]]]].min())


def _from_annotations(trace: Trace, work: _Work) -> StepTable | None:
    at = plausible(trace, Kind.ANNOTATION)
    if not len(at) or work.main < 0:
        return None
    family_of: dict[str, int] = {}
    of_name = np.full(len(trace.names), -1, dtype=np.int64)
    for i in np.unique(trace.name[at]).tolist():
        if not _NOT_A_STEP.match(trace.names[i]):
            of_name[i] = family_of.setdefault(_NUMBER.sub("*", trace.names[i]), len(family_of))
    names = list(family_of)
    at = at[(of_name[trace.name[at]] >= 0) & (work.process[trace.lane[at]] == work.process[work.main])]
    if not len(at):
        return None
    times = work.starts()
    key = trace.lane[at].astype(np.int64) * len(names) + of_name[trace.name[at]]
    order = np.argsort(key, kind="stable")
    at, key = at[order], key[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    groups = [g for g in np.split(at, first[1:]) if _apart(trace, g)]
    loops = [bool(_LOOP.search(names[of_name[trace.name[g[0]]]])) for g in groups]

    def covers(group: I64) -> bool:
        held = _count(times, trace.start[group], trace.end_of(group))
        return int(held.sum()) >= COVERED * len(times)

    def rank(i: int) -> tuple[bool, bool, float]:
        lane = int(trace.lane[groups[i][0]])
        return lane != work.main, not loops[i], float(np.median(trace.depth[groups[i]]))

    good = [i for i, group in enumerate(groups) if len(group) > 1 and covers(group)]
    if good:
        best = min(good, key=rank)
        chosen = groups[best]
        more = [groups[i] for i, loop in enumerate(loops) if loop and loops[best] and i != best]
    else:  # a loop with several names for its rounds: prefill and decode
        chosen = np.zeros(0, np.int64)
        more = [g for g, loop in sorted(zip(groups, loops, strict=True), key=lambda x: -len(x[0])) if loop]
    for group in more:
        if not len(chosen) or trace.lane[group[0]] == trace.lane[chosen[0]]:
            both = np.sort(np.concatenate([chosen, group]))
            chosen = both if _apart(trace, both) else chosen
    if len(chosen) < 2 or not covers(chosen):
        return _rounds_of_parts(trace, work, groups, of_name)
    if good and not loops[best] and (whole := _rounds(trace, chosen, groups, of_name)) is not None:
        return whole
    texts = [trace.names[int(i)] for i in trace.name[chosen]]
    families = list(dict.fromkeys(_NUMBER.sub("*", text) for text in texts))
    name = texts[0] if len(set(texts)) == 1 else ", ".join(families[:3])
    name += ", ..." if len(families) > 3 else ""
    start = trace.start[chosen]
    number = _numbers(texts) if len(families) == 1 else None
    number = np.arange(len(chosen)) if number is None else number
    return StepTable(chosen, number, start, trace.end_of(chosen), name, f"annotation {name}")


def _rounds_of_parts(trace: Trace, work: _Work, groups: list[I64], of_name: I64) -> StepTable | None:
    """The rounds of a loop if none of its annotated parts launches most of the work: the parts together must
    make whole rounds."""
    main = [group for group in groups if len(group) > 1 and trace.lane[group[0]] == work.main]
    mine = work.at[work.lane == work.main]
    mine = mine[np.argsort(trace.start[mine], kind="stable")]
    times = trace.start[mine]

    def launches(group: I64) -> int:
        return int(_count(times, trace.start[group], trace.end_of(group)).sum())

    if not main:
        return None
    found = _rounds(trace, max(main, key=launches), groups, of_name)
    if found is None:
        return None
    low, high = np.searchsorted(times, found.start), np.searchsorted(times, found.end)
    whole = bool((low < high).all()) and int((high - low).sum()) >= COVERED * len(times)
    return found if whole and len(low) >= TIMES and _are_steps(trace, work, mine, low, high) else None


def _rounds(trace: Trace, chosen: I64, groups: list[I64], of_name: I64) -> StepTable | None:
    """The rounds of a loop whose parts are annotated; `chosen` is the largest part. All parts must come
    equally often, one after the other and in the same order. None if no other part goes with it."""
    every, parts = chosen, 1
    for group in groups:
        if len(group) == len(chosen) and trace.lane[group[0]] == trace.lane[chosen[0]]:
            both = unique(every, group)
            if len(both) > len(every) and _apart(trace, both):
                every, parts = both, parts + 1
    rounds = every.reshape(len(chosen), parts)
    order = of_name[trace.name[rounds]]
    if parts == 1 or (order != order[0]).any():
        return None
    first, last = rounds[:, 0], rounds[:, -1]
    name = f"{trace.name_of(int(first[0]))} to {trace.name_of(int(last[0]))}"
    number = np.arange(len(chosen))
    end = trace.end_of(last)
    return StepTable(first, number, trace.start[first], end, name, f"annotation {name}")


def _apart(trace: Trace, at: I64) -> bool:
    """Whether the slices of a lane (by time) do not overlap."""
    start = trace.start[at]
    end = start + trace.duration[at]
    return bool(np.all(np.maximum.accumulate(end[:-1]) <= start[1:]))


def _numbers(texts: list[str]) -> I64 | None:
    """The number in the names that counts up by one; None if there is none."""
    rows = [[int(n) for n in _NUMBER.findall(text) if len(n) < 10] for text in texts]
    if not rows[0] or len({len(row) for row in rows}) > 1:
        return None
    for column in np.array(rows, dtype=np.int64).T:
        if bool(np.all(np.diff(column) == 1)):
            return np.asarray(column, dtype=np.int64)
    return None


def _from_repeats(trace: Trace, work: _Work) -> StepTable | None:
    if work.main < 0 or not work.leads:
        return None
    at, token = _tokens(trace, work)
    cycle = _replays(trace, at, token)
    if cycle is None and len(at) >= 2 * TIMES:
        cycle = find_cycle(token, trace.start[at], _hands_over(trace, work, at))
    if cycle is None:
        return None
    low, high = cycle
    if not _are_steps(trace, work, at, low, high):
        return None
    # The first op of a repetition begins before its launch.
    outer = _outermost_ops(trace, at)
    opens = np.where(
        trace.start[outer[low]] > np.append(-1, trace.start[at[high[:-1] - 1]]), outer[low], at[low]
    )
    opens = _before(trace, work, at, opens, low, high)
    start = trace.start[opens]
    last = outer[high - 1]
    end = trace.end_of(last)
    follows = np.append(low[1:] == high[:-1], False)
    end = np.where(follows, np.append(start[1:], 0), np.maximum(end, start + 1))
    lasts = at[high - 1]
    end[-1] = max(int(end[-1]), _read_back(trace, work, lasts, start), _goes_on(trace, work, lasts, start))
    # An op around several repetitions is not part of one of them.
    end[:-1] = np.minimum(end[:-1], start[1:])
    return StepTable(opens, np.arange(len(opens)), start, end, "repeats", "repeats")


def _read_back(trace: Trace, work: _Work, last: I64, start: I64) -> int:
    """When the last repetition ends, if copies to the host follow its `last` launch of a kernel: as many
    copies as the others have. 0 if there are none. `start`: the starts of the repetitions."""
    copy = np.sort(_copies_to_host(trace, work))
    first = np.searchsorted(trace.start[copy], trace.start[last])
    count = np.searchsorted(trace.start[copy], start[1:]) - first[:-1]
    mine = copy[first[-1] : first[-1] + int(np.median(count))]
    outer = _outermost_ops(trace, mine)
    return int(trace.end_of(outer).max(initial=0))


def _goes_on(trace: Trace, work: _Work, last: I64, start: I64) -> int:
    """When the last repetition ends, if the thread of the backward pass launches more after its `last`
    launch: as much as in the others. 0 if it does not."""
    mine = work.at[work.lane == work.backward]
    mine = mine[np.argsort(trace.start[mine], kind="stable")]
    first = np.searchsorted(trace.start[mine], trace.start[last])
    count = np.searchsorted(trace.start[mine], start[1:]) - first[:-1]
    outer = _outermost_ops(trace, mine[first[-1] : first[-1] + int(np.median(count))])
    return int((trace.start[outer] + trace.duration[outer]).max(initial=0))


def _before(trace: Trace, work: _Work, at: I64, opens: I64, low: I64, high: I64) -> I64:
    """The slices that open the repetitions. If another thread of the process launches much before each one
    (the forward pass, if the repetitions are in the backward pass's thread), these are the first of that."""
    mine = (work.lane != work.main) & (work.lane != work.backward)
    mine &= work.process[work.lane] == work.process[work.main]
    other = work.at[mine][np.argsort(work.start[mine], kind="stable")]
    times = trace.start[other]
    since = np.searchsorted(times, np.append(-1, trace.start[at[high[:-1] - 1]]))
    count = np.searchsorted(times, trace.start[opens]) - since
    usual = float(np.median(count[1:]))
    if count[1:].min() < OF_ANOTHER * float(np.median(high - low)):
        return opens
    moved = np.abs(count - usual) <= (1 - ALIKE) * usual
    return np.where(moved, _outermost_ops(trace, other[np.minimum(since, len(other) - 1)]), opens)


def _tokens(trace: Trace, work: _Work) -> tuple[I64, I64]:
    """(launches or outermost ops of the main thread, by time, a number for what each of them runs).

    Launches of nothing but copies are left out: these come and go (the allocation of a batch, a message).
    """
    lane = work.main
    if work.launched:
        kernels = work.event[trace.kind[work.event] == Kind.KERNEL]
        kernels = kernels[trace.lane[trace.launch[kernels]] == lane]
        kernels = kernels[np.argsort(trace.start[kernels], kind="stable")]
        at, first, count = np.unique(
            trace.launch[kernels].astype(np.int64), return_index=True, return_counts=True
        )
        label = trace.name[kernels[first]].astype(np.int64) * (1 << 24) + np.minimum(count, (1 << 24) - 1)
    else:
        at = work.at[work.lane == lane]
        label = trace.name[at].astype(np.int64)
    order = np.argsort(trace.start[at], kind="stable")
    return at[order], np.unique(label[order], return_inverse=True)[1].astype(np.int64)


def _hands_over(trace: Trace, work: _Work, at: I64) -> I64:
    """How many copies to the host the thread had launched before each of its launches `at`."""
    return np.searchsorted(np.sort(trace.start[_copies_to_host(trace, work)]), trace.start[at])


def _copies_to_host(trace: Trace, work: _Work) -> I64:
    """The calls of the main thread that copy to the host."""
    copies = work.event[trace.kind[work.event] == Kind.MEMCPY]
    copies = copies[name_mask(trace, _TO_HOST.search)[trace.name[copies]]]
    launch = trace.launch[copies].astype(np.int64)
    mine: I64 = launch[trace.lane[launch] == work.main]
    return mine


def _are_steps(trace: Trace, work: _Work, at: I64, low: I64, high: I64) -> bool:
    """Whether the repetitions `at[low:high]` show something that steps have and the layers of a model do
    not."""
    on_thread = np.zeros(len(trace.lanes), dtype=np.bool_)
    on_thread[[lane for lane in (work.main, work.backward) if lane >= 0]] = True
    start = trace.start[at[low]]
    end = np.append(start[1:], trace.span[1])
    end = np.minimum(end, np.append(trace.start[at], trace.span[1])[high])

    def each_has(slices: I64) -> bool:
        slices = slices[on_thread[trace.lane[slices]]]
        return bool(np.all(_count(np.sort(trace.start[slices]), start, end)[:-1] > 0))

    def called(kind: Kind, pattern: re.Pattern[str]) -> I64:
        found = plausible(trace, kind)
        return found[name_mask(trace, pattern.match)[trace.name[found]]]

    copies = work.event[trace.kind[work.event] == Kind.MEMCPY]
    copies = copies[name_mask(trace, _HOST_COPY.search)[trace.name[copies]]]
    if each_has(trace.launch[copies].astype(np.int64)) or each_has(called(Kind.RUNTIME, _WAIT)):
        return True
    if each_has(called(Kind.CPU_OP, _INPUT)) or each_has(called(Kind.ANNOTATION, _INPUT)):
        return True
    engine = called(Kind.CPU_OP, _ENGINE)
    of_engine = np.zeros(len(trace), dtype=np.bool_)
    of_engine[engine] = True
    forward = at[first_marked(trace, trace.parent[at], of_engine) < 0]
    if each_has(engine) and each_has(forward):
        return True
    outer = _outermost_ops(trace, at)
    pause = trace.start[outer[1:]] - trace.end_of(outer)[:-1]
    between = np.zeros(len(pause), dtype=np.bool_)
    between[low[1:] - 1] = True
    if between.all():
        return False
    return bool(np.median(pause[between]) > PAUSE * max(1.0, float(np.percentile(pause[~between], 99))))


def _replays(trace: Trace, at: I64, token: I64) -> tuple[I64, I64] | None:
    """(first, end) positions if all launches are replays of one graph: each may then be a round of a loop."""
    replay = name_mask(trace, lambda name: "GraphLaunch" in name)
    if len(at) < TIMES or token.any() or not replay[trace.name[at]].all():
        return None
    each = np.arange(len(at))
    return each, each + 1


def _outermost_ops(trace: Trace, at: I64) -> I64:
    """The outermost op around each slice; the slice itself if there is none."""
    ops = np.flatnonzero(trace.kind == int(Kind.CPU_OP))
    outer = np.zeros(len(trace), dtype=np.bool_)
    outer[ops[op_around(trace, ops) < 0]] = True
    top = first_marked(trace, trace.parent[at], outer)
    return np.where(top >= 0, top, at)
