"""What has been found out about a trace: each result made once, kept, and shared by all panes.

The methods do the work and are called from worker threads; a result that is there costs nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tracetui.analysis.gap_list import GapList, list_gaps
from tracetui.trace.model import Trace

if TYPE_CHECKING:
    from tracetui.analysis.averages import Averages
    from tracetui.analysis.calls import Calls
    from tracetui.analysis.causes import Causes
    from tracetui.analysis.findings import Finding
    from tracetui.analysis.memory import MemoryUse, Records
    from tracetui.analysis.scope import Scope
    from tracetui.analysis.steps import Steps
    from tracetui.analysis.verdict import Verdict

T = TypeVar("T")


class Results:
    """Analyses of one trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._kept: dict[object, Any] = {}
        self._locks: dict[object, threading.Lock] = {}
        self._lock = threading.Lock()

    def _once(self, key: object, make: Callable[[], T]) -> T:
        # A lock of its own for each: who wants the gaps does not wait for the averages.
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._kept:
                self._kept[key] = make()
            kept: T = self._kept[key]
            return kept

    def ready(self, key: object) -> bool:
        """Whether a result is there, so that asking for it costs nothing."""
        return key in self._kept

    def calls(self) -> Calls:
        """The tree of calls that all averages rest on."""
        from tracetui.analysis.calls import build_calls

        return self._once("calls", lambda: build_calls(self.trace))

    def averages(self, scope: Scope | None = None, group: str = "name") -> Averages:
        """The averages of a scope."""
        from tracetui.analysis.averages import averages

        def make() -> Averages:
            return averages(self.trace, scope, group=group, calls=self.calls())

        # Only the whole trace is kept: ranges come and go.
        return self._once(("averages", group), make) if scope is None or scope.kind == "whole" else make()

    def memory(self) -> Records | None:
        """What was allocated and freed; None where that was not recorded."""
        from tracetui.analysis.memory import memory_records

        return self._once("memory", lambda: memory_records(self.trace))

    def memory_use(self, averages: Averages) -> MemoryUse | None:
        """The memory of each row of `averages`."""
        from tracetui.analysis.memory import memory_use

        records = self.memory()
        return None if records is None else memory_use(self.trace, self.calls(), averages, records)

    def gaps(self) -> GapList:
        """The gaps of every device, in one list."""
        return self._once("gaps", lambda: list_gaps(self.trace))

    def causes(self) -> Causes:
        """The causes of all gaps, in the order of `gaps`."""
        from tracetui.analysis.gap_list import list_causes

        return self._once("causes", lambda: list_causes(self.trace, self.gaps()))

    def steps(self) -> Steps:
        """The steps of the trace."""
        from tracetui.analysis.steps import summarize_steps

        return self._once("steps", lambda: summarize_steps(self.trace, gaps=list(self.gaps().devices)))

    def findings(self, scope: Scope | None = None) -> tuple[Finding, ...]:
        """What the rules have to say about the trace, or about a part of it."""
        from tracetui.analysis.findings import find_findings

        def make() -> tuple[Finding, ...]:
            return find_findings(self.trace, scope, self.steps())

        return self._once("findings", make) if scope is None or scope.kind == "whole" else make()

    def verdict(self, scope: Scope | None = None) -> Verdict:
        """What holds the trace, or a part of it, back."""
        from tracetui.analysis.findings import Facts
        from tracetui.analysis.scope import WHOLE

        return Facts(self.trace, scope or WHOLE, self.steps()).verdict

    def stretch(self, scope: Scope) -> tuple[int, int]:
        """Where on the wall clock a scope is, in ns: for a step its window, which its device work ends."""
        if scope.kind == "whole":
            return self.trace.span
        return self.steps().rows[scope.step].window if scope.kind == "step" else (scope.start, scope.end)

    def step_at(self, time: int, event: int | None = None) -> Scope | None:
        """The step that an event belongs to, or without one that a time falls into."""
        import numpy as np

        from tracetui.analysis.scope import Scope, launch_times, step_of

        table = self.steps().table
        times = np.array([time]) if event is None else launch_times(self.trace, np.array([event]))
        i = int(step_of(table, times)[0])
        if i < 0:
            return None
        return Scope("step", int(table.start[i]), int(table.end[i]), f"step {table.number[i]}", True, i)
