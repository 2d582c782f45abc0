"""The pieces of every gap against a plain count, event by event; and that no two answers contradict."""

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.kineto import Event, cpu, kernel, launch, memcpy, step, trace_of
from tests.recorded import load
from tests.rules.shares import check_shares

from tracetui.analysis.idle import causes as rules
from tracetui.analysis.idle import cpu_time
from tracetui.analysis.idle.causes import CAUSES, NOT_THE_PROGRAMS, OF_THE_CPU
from tracetui.analysis.idle.cpu_time import CpuTime, cpu_time_of
from tracetui.analysis.idle.gap_list import gaps_of
from tracetui.analysis.idle.initialization import is_loading, is_profilers
from tracetui.analysis.idle.split import causes_of, split_of
from tracetui.analysis.idle.verdict import COMPUTE_SHARE, PART_SHARE
from tracetui.analysis.part import Part
from tracetui.analysis.select import is_op_name
from tracetui.analysis.steps.scope import range_scope, step_table_of, step_windows_of
from tracetui.analysis.steps.steps import steps_of
from tracetui.analysis.verdicts import verdict_of, verdict_times_of
from tracetui.rules import find_findings
from tracetui.trace import DEVICE_WORK, Kind, Trace

DATA = Path(__file__).parent.parent / "data"
SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"
TRACES = sorted([*DATA.glob("*.json.gz"), *SAMPLES.glob("*.json.gz")])
Spans = list[tuple[int, int]]


class Open:
    """How many spans have begun at a moment and not ended."""

    def __init__(self, spans: Spans) -> None:
        self.begins, self.ends = sorted(s[0] for s in spans), sorted(s[1] for s in spans)

    def at(self, moment: int) -> bool:
        return bisect_right(self.begins, moment) > bisect_right(self.ends, moment)


class Plain:
    """What the rules say, by looking at every event of a thread for every gap."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.cpu = CpuTime(trace)
        good = np.flatnonzero(~trace.implausible).tolist()
        self.start, self.end = trace.start.tolist(), (trace.start + trace.duration).tolist()
        self.lane, self.launch, kinds = trace.lane.tolist(), trace.launch.tolist(), trace.kind.tolist()
        self.kind = {i: Kind(kinds[i]) for i in good}
        overhead = [i for i in good if self.kind[i] == Kind.OVERHEAD]
        self.loading = [self.span(i) for i in overhead if is_loading(trace.name_of(i))]
        self.full = [self.span(i) for i in overhead if trace.name_of(i) == "Command Buffer Full"]
        self.profiler = [self.span(i) for i in overhead if is_profilers(trace.name_of(i))]
        self.launched: dict[int, list[int]] = {}
        for i in good:
            if self.kind[i] in DEVICE_WORK and self.launch[i] >= 0:
                self.launched.setdefault(self.launch[i], []).append(i)
        self.launching: dict[int, list[int]] = {}
        for call in sorted(self.launched):
            self.launching.setdefault(self.lane[call], []).append(call)
        self.others = 0
        """Of the last `pieces`: outside of ops while another thread of the process was in one."""
        self.threads: dict[int, dict[str, Spans]] = {}
        first = set(self.cpu.first.tolist())
        for i in good:
            if self.kind[i] not in (Kind.RUNTIME, Kind.CPU_OP):
                continue
            name = trace.name_of(i)
            of = self.threads.setdefault(self.lane[i], {cause: [] for cause in (*CAUSES, "waits")})
            if i in first:
                of["initialisation"].append(self.span(i))
            if self.kind[i] == Kind.CPU_OP:
                if is_op_name(name):
                    of["dispatch"].append(self.span(i))
                continue
            if cpu_time.is_synchronizing(name) or self.blocks(i):
                of["sync"].append(self.span(i))
                copies = [self.start[n] for n in self.launched.get(i, [])] if self.blocks(i) else []
                of["waits"].append((self.start[i], max(self.start[i], min(copies, default=self.end[i]))))
            if cpu_time.is_allocation(name):
                of["allocation"].append(self.span(i))

    def most(self, i: int) -> int:
        """When 95% of slice i is over."""
        begin, end = self.span(i)
        return begin + int(0.95 * (end - begin))

    def span(self, i: int) -> tuple[int, int]:
        return self.start[i], self.end[i]

    def blocks(self, call: int) -> bool:
        begin, end = self.span(call)
        copies = [i for i in self.launched.get(call, []) if self.kind[i] == Kind.MEMCPY]
        return end - begin >= cpu_time.BLOCKING_NS and any(self.most(i) <= end for i in copies)

    def pieces(self, start: int, end: int, before: int, event: int) -> dict[str, int]:
        trace, call = self.trace, self.launch[event]
        spent = dict.fromkeys(CAUSES, 0)
        self.others = 0
        lane = self.lane[call] if call >= 0 else -1
        thread = self.threads.get(lane, {})
        begun, over = self.span(call) if call >= 0 else (end, end)
        arrived = over + self.cpu.latency if call >= 0 else end
        drained = start
        if call >= 0 and begun > start:
            mine = self.launching[lane]
            earlier = bisect_left(mine, call)
            since = self.span(mine[earlier - 1])[0] if earlier else -(1 << 62)
            drained += covered(thread.get("waits", []), since, start)
        same = before >= 0 and self.lane[before] == self.lane[event]
        short = end - start <= rules.BACK_TO_BACK_NS
        if call < 0 and (self.launched or (same and short)):
            spent["back to back" if same and short else "unlinked"] = end - start
            return spent
        parts = {
            "queued": self.full, "loading": self.loading, "initialisation": thread.get("initialisation", []),
            "profiler": self.profiler, "sync": [*thread.get("sync", []), (start, drained)],
            "allocation": thread.get("allocation", []), "dispatch": thread.get("dispatch", [])
        }  # fmt: skip
        near = {cause: [s for s in spans if s[0] < end and s[1] > start] for cause, spans in parts.items()}
        open_at = {cause: Open(spans) for cause, spans in near.items()}
        process = trace.lanes[lane].process
        other = [of for i, of in self.threads.items() if i != lane and trace.lanes[i].process == process]
        ops = [s for of in other for s in of["dispatch"] if s[0] < end and s[1] > start]
        edges = {*(t for s in ops for t in s)}
        edges |= {start, end, begun, over, arrived, *(t for spans in near.values() for s in spans for t in s)}
        times = sorted(t for t in edges if start <= t <= end)
        in_ops = Open(ops)
        for a, b in itertools.pairwise(times):

            def holds(cause: str, a: int = a) -> bool:
                return open_at[cause].at(a)

            if b <= over and holds("queued"):
                cause = "queued"
            elif b <= over and (holds("loading") or holds("initialisation") > holds("profiler")):
                cause = "initialisation"
            elif b <= over and holds("profiler"):
                cause = "profiler"
            elif call < 0:
                cause = "unlinked"
            elif b <= begun:
                cause = next((c for c in ("sync", "allocation", "dispatch") if holds(c)), "host")
            elif b <= arrived:
                cause = "launch"
            else:
                left = end - max(start, arrived)
                cause = "back to back" if same and left <= rules.BACK_TO_BACK_NS else "queued"
            spent[cause] += b - a
            if cause == "host" and in_ops.at(a):
                self.others += b - a
        return spent


def covered(spans: Spans, low: int, high: int) -> int:
    """How much of [low, high) the spans cover."""
    total, reach = 0, low
    for a, b in sorted(spans):
        a, b = max(a, reach), min(b, high)
        total += max(0, b - a)
        reach = max(reach, b)
    return total


def check(results: Part, most: int = 150) -> None:
    """The longest gaps, and some of the others, against the plain count; the sums of all."""
    if not gaps_of(results).devices:
        return
    gaps, causes, plain = gaps_of(results), causes_of(results), Plain(results.trace)
    assert plain.cpu.latency == cpu_time_of(results).latency
    order = np.argsort(-gaps.duration, kind="stable")
    for i in np.unique([*order[:most], *order[:: max(1, len(order) // most)]]).tolist():
        start, end = int(gaps.start[i]), int(gaps.start[i] + gaps.duration[i])
        told = dict(zip(CAUSES, causes.pieces[i].tolist(), strict=True))
        assert told == plain.pieces(start, end, int(gaps.before[i]), int(gaps.after[i])), i
        assert causes.others[i] == plain.others, i
        assert causes.pieces[i].max() == causes.pieces[i][causes.cause[i]]
    assert (causes.pieces >= 0).all()
    assert (causes.pieces.sum(1) == gaps.duration).all()


def check_the_verdict(results: Part) -> None:
    """Verdict, its parts, causes and findings say the same."""
    verdict, times = verdict_of(results), verdict_times_of(results)
    if verdict.busy_share is None or not verdict.parts:
        return
    judged = sum(verdict.parts)
    lead_in = split_of(results).judged(split_of(results).lead_ins(*step_windows_of(results))).sum()
    left_out = sum(time for _, time in verdict.left_out)
    assert judged + left_out - times.sum() in (0, lead_in)  # the lead-in is no part of the time
    assert verdict.idle == judged - sum(verdict.parts[:3])
    waiting = sum(verdict.causes[CAUSES.index(cause)] for cause in OF_THE_CPU)
    compute, communication, copies, idle_for_the_cpu = (part / max(1, judged) for part in verdict.parts[:4])
    assert verdict.parts[3] == waiting
    assert all(verdict.causes[CAUSES.index(cause)] == 0 for cause in NOT_THE_PROGRAMS)
    word = verdict.verdict
    if word != "not known":
        assert verdict.busy_share == pytest.approx(compute + communication + copies)
        assert (word == "compute-bound") == (compute >= COMPUTE_SHARE)
        assert (word == "overhead-bound") == (idle_for_the_cpu >= PART_SHARE)
        # Two parts may be half each: the first of these is named.
        named = [idle_for_the_cpu >= PART_SHARE, communication >= PART_SHARE, copies >= PART_SHARE]
        assert (word == "communication-bound") == (named[:2] == [False, True])
        assert (word == "copy-bound") == (named == [False, False, True])
    findings = {finding.rule for finding in find_findings(results)}
    assert ("overhead_bound" in findings) <= (word == "overhead-bound")
    assert not ({"overhead_bound", "little_use"} & findings and word == "compute-bound")
    assert len({"overhead_bound", "little_use"} & findings) <= 1
    if len(gaps_of(results).devices) == 1 and word != "not known":
        assert (word == "overhead-bound") <= ("overhead_bound" in findings)
        assert ("little_use" in findings) == (verdict.busy_share < 0.5 and word != "overhead-bound")
        assert ("idle_time" in findings) == (0.5 <= verdict.busy_share <= 0.9)
    if verdict.communication_share is not None and "communication" in findings:
        assert communication >= 0.1 or len(gaps_of(results).devices) > 1


def scopes(results: Part) -> Iterator[Part]:
    yield results
    table = step_table_of(results)
    yield from (results.in_scope(table.scope(i)) for i in range(min(len(table), 3)))
    low, high = results.trace.span
    for a, b in ((0.1, 0.4), (0.3, 0.95)):
        begin, end = (low + int(part * (high - low)) for part in (a, b))
        if end > begin:
            yield results.in_scope(range_scope(begin, end))


@pytest.mark.parametrize("path", TRACES, ids=lambda p: p.name.split(".")[0])
def test_recorded_traces(path):
    results = Part(load(path))
    check(results)
    for part in scopes(results):
        check_the_verdict(part)
        for finding in find_findings(part):
            check_shares(part, finding)


@pytest.mark.long  # its short version: those recorded here
def test_wild_traces(wild):
    for path in sorted([*wild.glob("*.json*"), *wild.glob("*/*.json*")]):
        results = Part(load(path))
        check(results, 20)
        check_the_verdict(results)
        for part in scopes(results):
            for finding in find_findings(part):
                check_shares(part, finding)


NAMES = (
    ("aten::add", "cpu_op"), ("aten::mm", "cpu_op"), ("cudaDeviceSynchronize", "cuda_runtime"),
    ("cudaMalloc", "cuda_runtime"), ("cudaStreamCreate", "cuda_runtime"), ("load_batch", "user_annotation"),
    ("Activity Buffer Request", "overhead"), ("Lazy Function Loading", "overhead")
)  # fmt: skip
work = st.tuples(
    st.integers(0, 900), st.integers(1, 150), st.integers(0, 60), st.integers(0, 2), st.integers(0, 4)
)
calls = st.tuples(st.integers(0, 900), st.integers(1, 300), st.sampled_from(NAMES), st.integers(0, 1))


@settings(max_examples=75, deadline=None)
@given(
    st.lists(work, min_size=1, max_size=12), st.lists(calls, max_size=12), st.integers(0, 3),
    st.integers(0, 4)
)  # fmt: skip
@example(  # most of one device's time does not count: it is busy for little of the rest
    [*[(0, 1, 0, 0, 0)] * 2, (25, 150, 60, 2, 1), (6, 2, 1, 0, 0), *[(0, 1, 0, 0, 0)] * 6, (0, 86, 50, 2, 0),
     (5, 1, 2, 2, 4)],
    [(0, 169, ("Lazy Function Loading", "overhead"), 1),
     (109, 300, ("Lazy Function Loading", "overhead"), 1)],
    1,
    None,
)  # fmt: skip
def test_random_traces(tmp_path_factory, works, others, steps, which):
    """`which`: the part that is looked at beside the whole; None for each."""
    events: list[Event] = [step(n, 300 * n, 290) for n in range(steps)]
    for n, (start, length, ahead, stream, kind) in enumerate(works):
        device = {"pid": stream // 2, "args": {"correlation": n + 1, "device": stream // 2, "stream": stream}}
        if kind == 3:
            events.append(memcpy(start, length, n + 1, stream=stream) | device)
        else:
            name = "ncclDevKernel_AllReduce_Sum" if kind == 2 else f"k{n}"
            events.append(kernel(start, length, n + 1, stream, name) | device)
        if kind != 4:
            events.append(launch(start - ahead, n + 1, 1 + ahead % 7) | {"tid": 9 + n % 2})
    for start, length, (name, category), thread in others:
        events.append(cpu(name, start, length, category) | {"tid": 9 + thread})
    results = Part(trace_of(tmp_path_factory.mktemp("t"), *events))
    check(results)
    whole, *parts = scopes(results)
    for part in (whole, *(parts if which is None else parts[which : which + 1])):
        check_the_verdict(part)
        for finding in find_findings(part) if len(gaps_of(results).devices) == 1 else ():
            check_shares(part, finding)
    rows = steps_of(results)
    for field in ("busy", "idle", "window_idle"):
        assert sum(getattr(row, field) for row in (*rows.rows, rows.outside)) == getattr(rows.whole, field)
    for row in rows.rows:
        assert row.busy + row.window_idle == row.window_length * len(gaps_of(results).devices)
