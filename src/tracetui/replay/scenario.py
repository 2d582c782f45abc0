"""What is changed in a replay, and the replay of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from tracetui.analysis.calls.ancestors import op_around
from tracetui.analysis.calls.pageable import OUT
from tracetui.analysis.idle.kinds import communicates
from tracetui.analysis.select import name_mask
from tracetui.core.columns import distinct, unique
from tracetui.replay.driver import among, within
from tracetui.replay.engine import GONE, MARK, QUEUED, WAIT, WORK, Nodes, Result, back, run
from tracetui.replay.graph import Graph, on_cpu, own_time, whole_time
from tracetui.trace import DEVICE_WORK, Kind, Trace
from tracetui.trace.intervals import union
from tracetui.trace.model import F64, I64, Bool

REMOVE, SPEED_UP, OVERLAP, MOVE = "remove", "speed_up", "overlap", "move"
GRAPH_LAUNCH = 10_000.0
"""What it takes the CPU to launch a graph where the recording shows none, ns."""


IN_GRAPHS = 400.0
"""From kernel to kernel within a graph where the recording has none, ns."""


class Change(Struct, frozen=True, eq=False):
    """What is done to some slices, as a remedy says it. CPU slices are meant with all that they contain."""

    what: str
    """`remove`: take them out, with what they launch, or with the call that launches them; a wait only waits
    no longer. `speed_up`: they take 1 / `factor` of their time. `overlap`: nothing else in their stream waits
    for them. `move`: the CPU does it on another thread; of device work, the same as `overlap`."""
    slices: I64
    factor: float = 1.0


class Scenario(Struct, frozen=True, eq=False):
    """Changes that are made together."""

    changes: Sequence[Change] = ()
    cpu: float = 1.0
    """How many times as fast the CPU is."""
    free: tuple[F64, F64] | None = None
    """Where stretches of the CPU's own time (`on_cpu`) that take none begin and end."""
    graphs: bool = False
    """Whether what the CPU launches between two waits comes in one call, as a graph."""
    end: int = 0
    """The constants as they are in the recording's middle (0), or at its quartiles (-1, 1)."""


class Steps(Struct, frozen=True, eq=False):
    """What a replay found."""

    length: F64
    """How long each step takes, ns: from the end of the one before to its own, which is when the CPU or the
    device work launched so far ends, whichever is later."""
    begin: F64
    """When each node begins, ns."""
    end: F64
    nodes: Nodes
    result: Result


NO_CHANGE = Scenario()
_IS_WORK = np.isin(np.arange(len(Kind)), DEVICE_WORK)
"""By kind."""


def replay(graph: Graph, scenario: Scenario = NO_CHANGE) -> Steps:
    """The steps as they would have been."""
    nodes = _Changed(graph, scenario).nodes()
    result = run(nodes)
    return Steps(np.diff(result.end[graph.marks]), result.begin, result.end, nodes, result)


def binding(graph: Graph, steps: Steps, counted: Bool | None = None) -> tuple[F64, F64]:
    """By how much the mean of the `counted` steps (by default, of all) grows with time: (per ns of each
    node's length, per ns of the CPU's time between each node and the one before it)."""
    counted = np.ones(len(steps.length), np.bool_) if counted is None else counted
    weight = np.zeros(len(steps.end))
    share = np.where(counted, 1 / max(1, int(counted.sum())), 0.0)
    weight[graph.marks[1:]] += share
    weight[graph.marks[:-1]] -= share
    return back(steps.nodes.kind, steps.result.bound, weight)


def cpu_binds(graph: Graph, flow: F64, low: F64, high: F64) -> F64:
    """How much of the mean step is due to each stretch of the CPU's own time (see `on_cpu`). `flow`: the
    second result of `binding`."""
    first = whole_time(graph)[0]
    at = np.append(first, np.maximum.accumulate(graph.nodes.cpu))
    so_far = np.append(0.0, np.cumsum(flow * np.diff(at)))
    return np.asarray(np.interp(high, at, so_far) - np.interp(low, at, so_far), np.float64)


class _Changed:
    """The nodes of a graph under a scenario. The columns are copies."""

    def __init__(self, graph: Graph, scenario: Scenario) -> None:
        self.graph, self.scenario, nodes = graph, scenario, graph.nodes
        self.border, self.rate = np.concatenate(whole_time(graph)), np.ones(1)
        """Where the CPU's speed changes, in its own time; and how long a ns takes from each to the next."""
        self.kind, self.length, self.least = nodes.kind.copy(), nodes.length.copy(), nodes.least.copy()
        self.before, self.gap, self.late = nodes.before, nodes.gap.copy(), nodes.late.copy()
        self.first, self.on, self.on_gap = nodes.first, nodes.on, nodes.on_gap
        self.is_work = (self.kind == WORK) | (self.kind == QUEUED)
        self.launch = np.where(self.is_work, graph.trace.launch[graph.slices], -1)
        self.aside = np.zeros(len(self.kind), np.bool_)
        """Device work that its stream does not wait for."""
        self.unheld = np.zeros(len(self.kind), np.bool_)
        """Waits that wait no longer."""

    def nodes(self) -> Nodes:
        nodes = self.graph.nodes
        self._constants()
        for change in self.scenario.changes:
            self._change(change)
        if self.scenario.free is not None:
            self._scale(*self.scenario.free, 0.0)
        self.rate = self.rate / self.scenario.cpu
        cpu = self._as_graphs() if self.scenario.graphs else self._cpu()
        if self.aside.any():
            self._set_aside()
        if self.unheld.any():
            self._let_go()
        return replace(
            nodes, kind=self.kind, cpu=cpu, least=self.least, before=self.before, gap=self.gap,
            late=self.late, length=self.length, first=self.first, on=self.on, on_gap=self.on_gap,
        )  # fmt: skip

    def _cpu(self) -> F64:
        """When the CPU comes to each node."""
        so_far = self.border[0] + np.append(0.0, np.cumsum(np.diff(self.border) * self.rate))
        return np.asarray(np.interp(self.graph.nodes.cpu, self.border, so_far), np.float64)

    def _scale(self, low: F64, high: F64, factor: float) -> None:
        """The CPU takes `factor` times as long in stretches of its own time, which may overlap."""
        if not len(low):
            return
        border = unique(self.border, low, high)
        rate = self.rate[
            np.clip(np.searchsorted(self.border, border[:-1], "right") - 1, 0, len(self.rate) - 1)
        ]
        self.border, self.rate = border, np.where(self._inside(low, high, border[:-1]), rate * factor, rate)

    @staticmethod
    def _inside(low: F64, high: F64, at: F64) -> Bool:
        """Which points of the CPU's own time are in one of some stretches."""
        opened = np.searchsorted(np.sort(low), at, side="right")
        return np.asarray(opened > np.searchsorted(np.sort(high), at, side="right"), np.bool_)

    def _constants(self) -> None:
        """Take the constants from another place of their range."""
        graph, end = self.graph, self.scenario.end
        if not end:
            return
        latency, gap, returning = (
            (one.low if end < 0 else one.high) - one.value for one in (graph.latency, graph.gap, graph.back)
        )
        self.least[self.kind == WORK] += latency
        self.gap += np.where(self._in_graph(), 0.0, gap)
        rows = np.repeat(np.arange(len(self.kind)), np.diff(self.first))
        self.on_gap = self.on_gap + np.where(self.kind[rows] == WAIT, returning, gap)

    def _in_graph(self) -> Bool:
        before, launch = self.before, self.launch
        return np.asarray((before >= 0) & (launch >= 0) & (launch == launch[before]), np.bool_)

    def _change(self, change: Change) -> None:
        graph, trace = self.graph, self.graph.trace
        node = among(trace, change.slices)[graph.slices]
        work, wait = node & self.is_work, node & (self.kind == WAIT)
        calls = change.slices[~_IS_WORK[trace.kind[change.slices]]]
        low, high = on_cpu(graph, calls)
        low, high = low[high > low], high[high > low]
        if change.what == SPEED_UP:
            self.length[work] /= change.factor
            self._scale(low, high, 1 / change.factor)
            return
        self._scale(low, high, 0.0)
        if change.what in (OVERLAP, MOVE):
            self.aside |= work
            self.unheld |= wait
            return
        if len(calls):  # a wait is at the border of its own time, which has no length
            inside = union(trace.start[calls], trace.end_of(calls))
            wait |= (self.kind == WAIT) & within(inside, trace.start[graph.slices])
            work |= (self.launch >= 0) & within(inside, trace.start[self.launch])
        else:
            self._scale(*on_cpu(graph, self._only_for(work)), 0.0)
        self.kind[work], self.unheld = GONE, self.unheld | wait
        self.length[work] = self.gap[work] = self.late[work] = 0.0

    def _only_for(self, work: Bool) -> I64:
        """The calls that launch nothing but this work."""
        called = distinct(self.launch[work & (self.launch >= 0)], len(self.graph.trace))
        kept = among(self.graph.trace, self.launch[self.is_work & ~work])[called]
        found: I64 = called[~kept]
        return found

    def _set_aside(self) -> None:
        """Two streams of each: of the work that is set aside, and of the rest."""
        lane = np.where(self.is_work, self.graph.trace.lane[self.graph.slices], -1)
        at = np.flatnonzero(self.is_work)
        order = at[np.lexsort((at, self.aside[at], lane[at]))]
        same = (lane[order[1:]] == lane[order[:-1]]) & (self.aside[order[1:]] == self.aside[order[:-1]])
        self.before = np.full(len(self.before), -1, np.int64)
        self.before[order[1:][same]] = order[:-1][same]

    def _let_go(self) -> None:
        rows = np.repeat(np.arange(len(self.kind)), np.diff(self.first))
        keep = ~self.unheld[rows]
        self.on, self.on_gap = self.on[keep], self.on_gap[keep]
        self.first = np.searchsorted(rows[keep], np.arange(len(self.kind) + 1))
        self.least[self.unheld] = self.late[self.unheld] = 0.0

    def _as_graphs(self) -> F64:
        """All launches between two waits in one call, which comes where the op of the first of them was; the
        CPU's time from there to the end of the op of the last of them is saved. Copies from and to the host
        stay as they are."""
        graph, trace = self.graph, self.graph.trace
        low, high = graph.in_graphs.low, graph.gap.value
        end = self.scenario.end
        inner = low if graph.in_graphs.samples else IN_GRAPHS
        inner = inner if end < 0 else high if end > 0 else (inner + min(high, 2 * inner)) / 2
        to_host = name_mask(trace, lambda name: any(way in name for way in OUT))
        from_host = name_mask(trace, lambda name: "HtoD" in name or "HostToDevice" in name)
        outside = (to_host | from_host)[trace.name[graph.slices]] & self.is_work
        breaks = (self.kind == WAIT) | (self.kind == MARK) | outside
        stretch = np.cumsum(breaks)
        launch = self.launch
        mine = np.flatnonzero((self.kind == WORK) & ~outside & (launch >= 0))
        if not len(mine):
            return self._cpu()
        of, first = _runs(stretch[mine])
        last = np.append(first[1:], len(mine)) - 1
        several = last > first
        begun, over = (_around(trace, launch[mine[at[several]]]) for at in (first, last))
        opens = own_time(graph.held, trace.start[begun])
        closes = own_time(graph.held, trace.end_of(over))
        closes = np.maximum(np.minimum(closes, np.append(opens[1:], np.inf)), opens)
        self._scale(opens, closes, 0.0)
        cpu = self._cpu()
        cpu = cpu + GRAPH_LAUNCH * np.searchsorted(np.sort(opens), graph.nodes.cpu)
        together = np.zeros(len(self.kind), np.bool_)
        together[mine] = several[np.searchsorted(of, stretch[mine])]
        same = together & (self.before >= 0) & together[self.before] & (stretch == stretch[self.before])
        self.gap[same] = np.minimum(self.gap[same], inner)
        self.late[together] = 0.0
        return cpu


def _runs(values: I64) -> tuple[I64, I64]:
    """(the distinct values of a sorted column, where each begins)."""
    first = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])
    return values[first], first


def _around(trace: Trace, calls: I64) -> I64:
    """The outermost op around each call, or the call itself."""
    found, op = calls.copy(), op_around(trace, calls)
    while (op >= 0).any():
        found = np.where(op >= 0, op, found)
        op = op_around(trace, np.where(op >= 0, trace.parent[op], -1))
    return found


def waits(graph: Graph) -> I64:
    """The calls that wait for device work (slices)."""
    found: I64 = graph.slices[graph.nodes.kind == WAIT]
    return found


def movable(graph: Graph) -> I64:
    """Collectives, and copies but for those that the CPU waits for on their way out (slices)."""
    trace, nodes = graph.trace, graph.nodes
    work = graph.slices[(nodes.kind == WORK) | (nodes.kind == QUEUED)]
    out = name_mask(trace, lambda name: any(way in name for way in OUT))[trace.name[work]]
    copies = (trace.kind[work] == Kind.MEMCPY) & ~out
    found: I64 = work[copies | communicates(trace)[trace.name[work]]]
    return found
