"""What a script or a notebook needs: `import tracetui as tt`. See docs/api.md.

The names in `tracetui.__all__`, their attributes and the fields of rows are added to, never renamed.
"""

from __future__ import annotations

import warnings
from functools import cached_property, partial
from os import PathLike
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, TypeVar

from tracetui.analysis import part as facts
from tracetui.analysis.idle.verdict import Verdict
from tracetui.analysis.steps.scope import members, scope_named, step_table_of
from tracetui.analysis.verdicts import verdict_of
from tracetui.core import plugins
from tracetui.core.errors import TraceError as TraceError
from tracetui.core.safe_text import plain
from tracetui.core.units import duration, plural
from tracetui.formats.diagnostics import Notice
from tracetui.rules import Finding, find_findings
from tracetui.trace import load as _read
from tracetui.trace.model import Trace as Columns
from tracetui.trace.saved import keep
from tracetui.trace.slices import Slices as Slices
from tracetui.views.answer import Answer
from tracetui.views.registry import VIEWS

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

views = VIEWS
"""All answers by name, with a line about each: `part.view(name)`. Plugins add some."""


class Part:
    """A step, a range of time, or all of a trace. What is asked of it is computed once."""

    def __init__(self, part: facts.Part) -> None:
        self._part = part

    @property
    def scope(self) -> str:
        """Which part it is: "whole trace", "step 2", ..."""
        return self._part.scope.label

    @property
    def columns(self) -> Columns:
        """The whole trace as arrays: one row per event with a start and a duration, sorted by (lane, start,
        longest first). `start` and `duration` are int64 nanoseconds of shape (events,)."""
        return self._part.trace

    @property
    def duration_ns(self) -> int:
        """From its start to its end, in nanoseconds."""
        return self._part.length

    @cached_property
    def slices(self) -> Slices:
        """Its events with a start and a duration. A device event belongs to the step that launched it.
        `start`, `duration` and `end` are int64 nanoseconds from the trace's zero, of shape (slices,)."""
        import numpy as np

        every: np.ndarray[Any, np.dtype[np.int64]] = np.arange(len(self.columns), dtype=np.int64)
        return Slices(self.columns, every[members(self.columns, self._part.scope, every)])

    @property
    def verdict(self) -> Verdict:
        """What holds it back: `verdict` in a word, `reason` in a sentence, `busy_share` from 0 to 1 (None
        without a device), `share(part)`."""
        return _warned(verdict_of(self._part))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What to notice, the most severe first: `rule`, `severity`, `title`, `text`, `advice`; `evidence`
        has indices of events in `columns`; `numbers` has times in ns and shares from 0 to 1."""
        return _warned(find_findings(self._part))

    @property
    def summary(self) -> Answer:
        """What is in it and where to look. One row."""
        return self.view("summary")

    @property
    def steps(self) -> Answer:
        """A row per step: its time, what it launched, how long the devices were idle."""
        return self.view("steps")

    @property
    def gaps(self) -> Answer:
        """A row per gap: when a device ran nothing on any stream, and why."""
        return self.view("gaps")

    @property
    def efficiency(self) -> Answer:
        """Achieved TFLOP/s and GB/s of operators and kernels. Needs `record_shapes=True`."""
        return self.view("efficiency")

    def averages(self, group: str = "name", **options: Any) -> Answer:
        """PyTorch's `key_averages()`, with the same numbers. `group`: "name", "shape", "annotation",
        "module", "kernel" or "op"."""
        return self.view("table", group=group, **options)

    def view(self, name: str, **options: Any) -> Answer:
        """One of `views`. `options` are those of the command, such as `limit=5`; `limit` counts for text and
        Markdown. Raises KeyError for an unknown name, TypeError or ValueError for a wrong option."""
        if name not in VIEWS:
            raise KeyError(f"no view {name!r}: expected one of {', '.join(VIEWS)}")
        if name == "steps" and options.get("annotation") and self._part.scope.kind == "step":
            raise ValueError("a step has no steps of its own: ask the whole trace")
        if name == "whatif":  # views know no captures
            from tracetui.capture.measure import captured_workload, commands

            captured = captured_workload(self.columns.info.path)
            options.setdefault("measures", partial(commands, captured))
        return _warned(VIEWS[name].make(self._part, **options))

    def __len__(self) -> int:
        return len(self.slices)

    def __repr__(self) -> str:
        return f"<Part {_file(self.columns)}, {self.scope}: {self._size()}>"

    def _size(self) -> str:
        return f"{plural(len(self), 'slice')}, {duration(self.duration_ns)}"


class Trace(Part):
    """A trace: all of it as a `Part`, and its parts."""

    def __init__(self, columns: Columns) -> None:
        super().__init__(facts.Part(columns))

    def part(self, scope: str) -> Part:
        """A part of it, named as in `--scope`: "step:2", "range:10us..2ms", "whole".

        It is called `part` because that is what it returns: nothing is computed yet. Raises LookupError if
        there is no such step, ValueError for any other text."""
        found = scope_named(self.columns, scope)
        whole = found.kind == "whole"
        return Part(self._part if whole else facts.Part(self.columns, found, self._part))

    @property
    def path(self) -> Path:
        """The file, as it was given."""
        return Path(self.columns.info.path)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What was wrong with the file: `level` "lost", "odd" or "repaired", `count`, `text`."""
        return self.columns.notices

    def __repr__(self) -> str:
        devices = sorted({lane.device for lane in self.columns.lanes if lane.device >= 0})
        words = {self.columns.device_called(one).rpartition(" ")[0] for one in devices}
        word = words.pop() if len(words) == 1 else "device"
        steps = len(step_table_of(self._part))
        parts = [plural(len(self.columns), "slice"), plural(steps, "step") if steps else ""]
        parts += [plural(len(devices), word) if devices else "", duration(self.duration_ns)]
        return f"<Trace {_file(self.columns)}: {', '.join(filter(None, parts))}>"


def load(path: str | PathLike[str], *, cache: bool = True) -> Trace:
    """Read a trace of `torch.profiler`: .json, .json.gz or .json.zst; "-" is standard input.

    `cache`: a large file that has been read before is not read again (see `tracetui cache`). Raises
    `TraceError`, with a message of one line.
    """
    try:
        columns = _read(str(path), cache=cache)
    finally:
        _warned(None)
    if cache:
        keep(columns)
    return Trace(columns)


def compare(a: Part, b: Part) -> Answer:
    """What `b` does differently from `a`, and what explains it: a row per explanation, the most important
    first; `data()` has the numbers. Each is a trace, or a step of one. Raises ValueError for other parts."""
    from tracetui.compare.compare import compare as compared
    from tracetui.compare.sides import side_of
    from tracetui.views.compare_text import Report, compare_answer

    sides = []
    for one in (a._part, b._part):
        if one.scope.kind not in ("whole", "step"):
            raise ValueError("traces and steps can be compared, not other parts of a trace")
        sides.append(side_of(one.whole, None if one.is_whole else [one.scope.step]))
    names = [f"{_file(one.columns)}{'' if one._part.is_whole else f', {one.scope}'}" for one in (a, b)]
    return compare_answer(Report(compared(*sides), (names[0], names[1])))


def capture(target: str, *script_args: str, **options: Any) -> Trace:
    """Profile a built-in workload, "module:function" or "script.py" in a process of its own, as `tracetui
    capture` does, and load the trace.

    `options` are those of the command: `batch=8`, `compile=True`, `device="cpu"`, `output="traces"`. Raises
    ValueError for wrong ones, and `TraceError` if there is no result.
    """
    from tracetui.capture.catalog import WORKLOADS
    from tracetui.capture.events import Cancelled, Failed
    from tracetui.capture.options import OPTIONS, CaptureOptions
    from tracetui.capture.run import start

    common = {one.name for one in OPTIONS}
    own = {name: options.pop(name) for name in [*options] if name not in common}
    if own and target not in WORKLOADS:
        raise ValueError(f"{', '.join(own)}: only built-in workloads have options of their own")
    running = start(CaptureOptions(target, own, script_args, **options))
    try:
        end = running.wait()
    except BaseException:  # Ctrl+C, or a notebook's stop button
        running.cancel()
        running.wait()
        raise
    if isinstance(end, Cancelled):
        raise TraceError("the capture was canceled")
    if isinstance(end, Failed):
        raise TraceError(": ".join((end.message, *end.tail[-1:])))  # what it printed last
    for note in end.result.notes:
        warnings.warn(plain(note.text), stacklevel=2)
    return load(end.result.trace)


def _file(columns: Columns) -> str:
    path = columns.info.path
    return "standard input" if path == "-" else plain(PurePath(path).name, 60)


_told: set[str] = set()


def _warned(found: T) -> T:
    """The same. Plugins that were left out are told once."""
    for line in plugins.problems():
        if line not in _told:
            _told.add(line)
            warnings.warn(line, RuntimeWarning, stacklevel=3)
    return found
