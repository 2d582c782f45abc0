"""A recording: one trace with its results, its marks and the arrangement of its lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tracetui.analysis.kernel_names import short_name
from tracetui.analysis.results import Results
from tracetui.session.lanes import load_lanes, save_lanes
from tracetui.session.marks import Marks
from tracetui.session.state import resolved
from tracetui.trace import Progress, Trace, load


class Recording:
    """One trace and what is known and kept about it."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.results = Results(trace)
        self.path = resolved(trace.info.path)
        """Absolute, so that it holds where the working directory changes; "-" for standard input."""
        self._short: dict[int, str] = {}

    @classmethod
    def open(cls, path: str | Path, progress: Progress | None = None) -> Recording:
        """Load a trace. Raises TraceError and Cancelled as `tracetui.trace.load` does."""
        return cls(load(path, progress))

    @cached_property
    def marks(self) -> Marks:
        """The marks kept for this trace, read from the state directory when first asked for."""
        return Marks(self.path, self.trace.info.zero_ns)

    @cached_property
    def _categories(self) -> list[int]:
        """For each name the category of its first event."""
        trace = self.trace
        first = np.zeros(len(trace.names), dtype=np.int64)
        first[trace.name[::-1]] = trace.category[::-1]
        return first.tolist()

    def short(self, name: int) -> str:
        """The short form of a name, by its index, as bars show it."""
        text = self._short.get(name)
        if text is None:
            category = self.trace.categories[self._categories[name]]
            text = self._short[name] = short_name(self.trace.names[name], category)
        return text

    @cached_property
    def short_names(self) -> list[str]:
        """The short forms of all names."""
        return [self.short(name) for name in range(len(self.trace.names))]

    def load_lanes(self) -> list[Mapping[str, Any]]:
        """The arrangement of the lanes as it was left; [] where none was kept."""
        return load_lanes(self.path)

    def save_lanes(self, lanes: Sequence[Mapping[str, Any]] | None) -> bool:
        """Keep an arrangement; None forgets it. False where it could not be written."""
        return save_lanes(self.path, lanes)
