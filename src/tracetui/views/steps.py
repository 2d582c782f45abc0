"""The table of steps: times, launches and idle time of each step, of the rest, and of the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from operator import attrgetter
from typing import Any

import numpy as np

from tracetui.analysis.idle.causes import CAUSES
from tracetui.analysis.idle.verdict import PARTS, busy_text
from tracetui.analysis.part import Part, Scope
from tracetui.analysis.steps.step_table import StepTable
from tracetui.analysis.steps.steps import StepRow, Steps, steps_of, summarize_steps
from tracetui.core.cells import fit
from tracetui.core.copying import replace
from tracetui.core.safe_text import plain
from tracetui.core.units import duration, plural, share
from tracetui.views.answer import Answer, Shown
from tracetui.views.document import Block, table
from tracetui.views.document_text import forms
from tracetui.views.gaps import field
from tracetui.views.jsonable import share as json_share
from tracetui.views.lines import Line
from tracetui.views.model import I64, Column, Columns, Table, by_key, select_columns
from tracetui.views.target import Target
from tracetui.views.times import time_column
from tracetui.views.verdicts import causes_json, cpu_json, left_out_json, parts_json
from tracetui.views.writers import Record, aligned, cells, markdown_table, records

SCREEN = """label window_length duration busy_share launches kernels copies exposed_communication window_idle
    compute communication transfers verdict causes"""
TEXT = """label window_length busy_share window_idle mostly compute communication copy launches kernels
    lost unusual"""
JSON = """label start duration window_start window_length busy idle busy_share mostly compute communication
    exposed_communication copy exposed_copy set launches kernels copies verdict unusual lost window_idle parts
    cpu"""
CPU = "cpu_ops cpu_loading cpu_communication cpu_outside"
"""What stands in the place of the others in a trace of the CPU alone."""
FILE = JSON.replace("mostly", "causes").replace("parts", "judged").replace("cpu", CPU)
"""Files have a field for the idle time of each cause, and for each part of what a verdict is about."""

UNUSUAL = "! differs: = says why"
ALL_DEVICES = "idle: the sum over all devices"
"""Under the steps of several devices, whose idle time is more than a step is long."""
LAUNCHED_IN = ("compute", "communication", "kernels")
"""Columns of what a step launched. The others are of its window."""
LEFT_OUT = {
    "lead-in": "the lead-in",
    "initialisation": "initialisation",
    "profiler": "the profiler",
    "in flight": "work in flight",
    "not recorded": "what was not recorded",
    "graph capture": "the capture of a graph",
}

Value = str | Callable[[StepRow], Any]
"""An attribute of a row, or a function of it."""


def step_columns(rows: Sequence[StepRow]) -> Columns:
    """The columns of these rows. Times in ns; the rows of all steps and `outside` add up to `whole`.

    `busy_share` is of the row's own time, without what its verdict leaves out. `verdict_busy_share` is what
    its verdict is based on: for `whole`, the share within the steps.
    """

    def each(value: Value) -> Callable[[I64], list[Any]]:
        of = attrgetter(value) if isinstance(value, str) else value
        return lambda at: [of(rows[i]) for i in at.tolist()]

    def only_file(key: str, **named: Value) -> Column:
        return Column(key).with_fields(**{name: each(value) for name, value in named.items()})

    def time(key: str, title: str, drop: int, heading: str = "", none: str = "0 ns") -> Column:
        """The time in the attribute `key`; `none`: the text for 0."""
        times = np.array([getattr(row, key) for row in rows], dtype=np.int64)

        def cell(r: int) -> str:
            return duration(int(times[r])) if times[r] else none

        return (
            time_column(key, title, times, drop)
            .with_text(heading, cell)
            .with_fields(**{f"{key}_ns": each(key)})
        )

    def count(key: str, title: str, drop: int) -> Column:
        counts = [getattr(row, key) for row in rows]

        def text(r: int) -> str:
            return f"{counts[r]:,}" if counts[r] else "-"

        width = max(len(title), *(len(text(r)) for r in range(len(rows))))
        return (
            Column(key, title, text, lambda: np.array(counts), width, drop=drop)
            .with_text(key, lambda r: f"{counts[r]:,}")
            .with_fields(**{key: each(key)})
        )

    def label(r: int) -> str:
        return f"{rows[r].label}{' !' if rows[r].unusual else ''}"

    def busy(r: int) -> str:
        part = rows[r].busy_share
        return busy_text(part) if part is not None else "-"

    @cache
    def starred() -> bool:
        return any(_starred(row) for row in rows)

    def busy_said(r: int) -> str:
        return f"{busy(r)}{'*' if _starred(rows[r]) else ' '}" if starred() else busy(r)

    def mostly(r: int) -> str:
        return next((cause for cause, _ in rows[r].window_causes), "-")

    def causes(r: int) -> str:
        parts = [f"{cause} {share(time / rows[r].window_idle)}" for cause, time in rows[r].window_causes]
        return ", ".join(parts[:3]) or "-"

    def idle_of(cause: str) -> Value:
        return lambda row: next((t.duration for t in row.idle_by_cause if t.cause == cause), 0)

    def of_cpu(key: str, title: str, of: str) -> Column:
        """A part of the CPU's time, in a trace that has no other."""
        times = [row.cpu for row in rows]
        parts = np.array([getattr(t, of) / t.span if t else 0.0 for t in times])

        def text(r: int) -> str:
            return share(parts[r]) if parts[r] else "-"

        spent = [getattr(t, of) if t else None for t in times]
        column = Column(key, title, text, lambda: parts, max(7, len(title) + 1)).with_text(title, text)
        return column.with_fields(**{f"{key}_ns": lambda at: [spent[i] for i in at.tolist()]})

    def judged(part: str) -> Value:
        return lambda row: dict(zip(PARTS, row.verdict.parts, strict=False)).get(part, 0)

    # Columns that are empty in all rows are dropped first.
    talk = any(r.communication for r in rows)
    copied = np.array([r.copy + r.set for r in rows], dtype=np.int64)
    return by_key(
        Column("label", "Step", label, lambda: np.arange(len(rows)), 11, right=False, descending=False)
        .with_text(
            "", lambda r: (rows[r].label, "title" if rows[r].number < 0 else ""), markdown_heading="Step"
        )
        .with_fields(label=each("label"), step=each(lambda r: r.number if r.number >= 0 else None)),
        only_file("start", start_ns="start"),
        time("duration", "On CPU", 2),
        only_file("window_start", window_start_ns=lambda r: r.window[0]),
        time("window_length", "Window", 0, "window", "-").with_fields(window_ns=each("window_length")),
        only_file("busy", busy_ns="busy"),
        only_file("idle", idle_ns="idle"),
        time("window_idle", "GPU idle", 6, "idle"),
        Column("busy_share", "GPU busy", busy, lambda: np.array([r.busy_share or 0.0 for r in rows]), 9)
        .with_text("busy", busy_said)
        .with_fields(busy_share=each(lambda r: json_share(r.busy_share))),
        Column("mostly", right=False)
        .with_text("mostly", mostly)
        .with_fields(idle_by_cause=each(lambda r: causes_json(r.idle_by_cause))),
        Column("causes", "Idle time by cause", causes, right=False, clauses=True).with_fields(
            **{f"idle_{field(cause)}": each(idle_of(cause)) for cause in CAUSES}
        ),
        time("compute", "Compute", 7, "compute"),
        replace(time("communication", "Comm.", 3 if talk else 11, "comm", "-"), markdown_heading="Comm."),
        time("exposed_communication", "Exposed", 1 if talk else 12),
        time_column("transfers", "Copying", copied, 10),
        time("copy", "", 0, "copies", "-"),
        only_file("exposed_copy", exposed_copy_ns="exposed_copy"),
        only_file("set", set_ns="set"),
        count("launches", "Launches", 1),
        count("kernels", "Kernels", 1),
        count("copies", "Copy/set", 4 if any(r.copies for r in rows) else 13),
        Column(
            "verdict", "Verdict", lambda r: rows[r].verdict.verdict, width=14, right=False, drop=5
        ).with_fields(
            verdict=each("verdict.verdict"),
            launch_delay_ns=each("verdict.launch_delay"),
            reason=each("verdict.reason"),
            communication_share=each(lambda r: json_share(r.verdict.communication_share)),
            verdict_busy_share=each(lambda r: json_share(r.verdict.busy_share)),
        ),
        Column("judged").with_fields(**{f"judged_{part}_ns": each(judged(part)) for part in PARTS}),
        Column("parts").with_fields(
            window_idle_by_cause=each(
                lambda r: [{"cause": cause, "duration_ns": time} for cause, time in r.window_causes]
            ),
            parts=each(lambda r: parts_json(r.verdict)),
            left_out=each(lambda r: left_out_json(r.verdict)),
        ),
        Column("cpu").with_fields(cpu=each(lambda r: cpu_json(r.verdict))),
        of_cpu("cpu_ops", "in ops", "ops"),
        of_cpu("cpu_loading", "data", "data_loading"),
        of_cpu("cpu_communication", "comm", "exposed_communication"),
        of_cpu("cpu_outside", "rest", "outside"),
        Column(
            "lost",
            "Lost",
            lambda r: f"{rows[r].lost:,}" if rows[r].lost else "-",
            lambda: np.array([r.lost for r in rows]),
            6,
        )
        .with_text("", lambda r: (f"{rows[r].lost:,} lost", "warn") if rows[r].lost else "")
        .with_fields(launches_not_recorded=each("lost")),
        Column("unusual", right=False)
        .with_text("", lambda r: ("unusual", "warn") if rows[r].unusual else "")
        .with_fields(unusual=each("unusual")),
    )


def table_rows(steps: Steps) -> tuple[StepRow, ...]:
    """The rows on the screen."""
    return (*steps.rows, *((steps.outside,) if steps.rows else ()), steps.whole)


def _of_cpu(rows: Sequence[StepRow]) -> str:
    """The columns of a trace of the CPU alone, as far as they say something; "" for other traces."""
    times = [row.verdict.cpu for row in rows if row.verdict.cpu is not None]
    if not times:
        return ""
    empty = set() if any(t.data_loading for t in times) else {"cpu_loading"}
    empty |= set() if any(t.exposed_communication for t in times) else {"cpu_communication"}
    return " ".join(key for key in CPU.split() if key not in empty)


def steps_table(steps: Steps) -> Table:
    """The steps on the screen."""
    rows = table_rows(steps)
    columns = step_columns(rows)
    device = any(r.busy + r.window_idle for r in rows)
    lost = " lost" if any(r.lost for r in rows) else ""
    return Table(
        select_columns(columns, SCREEN + lost if device else f"label window_length duration {_of_cpu(rows)}"),
        len(rows),
        lambda r: rows[r].label,
        dim=lambda r: rows[r].event < 0,
        empty="no steps",
        records=lambda order: records(select_columns(columns, FILE), order),
    )


def steps_json(rows: Sequence[StepRow]) -> list[Record]:
    """One object per row."""
    return records(select_columns(step_columns(rows), JSON), np.arange(len(rows)))


def all_steps_json(steps: Steps) -> Record:
    """The steps, what lies outside of them, and the whole."""
    *rows, outside, whole = steps_json((*steps.rows, steps.outside, steps.whole))
    about: Record = {"annotation": steps.table.name, "steps_from": steps.table.source or None}
    about["steps_not_recorded"] = steps.table.unrecorded
    return {**about, "steps": rows, "outside": outside, "whole": whole}


def step_blocks(steps: Steps, limit: int = 0) -> list[Block]:
    """A line per step, then the time outside, then the whole. `limit`: most steps, 0 for all."""
    rows = _text_rows(steps, limit)
    of_cpu = _of_cpu(rows)
    columns = step_columns(rows)
    shown = f"label window_length {of_cpu} lost unusual" if of_cpu else TEXT
    none = set() if any(row.lost for row in rows) else {"lost"}
    if steps.whole.busy == 0:  # a trace of the CPU alone
        none |= set(TEXT.split()) - {"label", "window_length", "lost", "unusual"}

    def narrow(width: int) -> set[str]:
        """The least important columns, which narrow terminals drop."""
        left_out = {"launches", "communication", "copy"} if width < 102 else set()
        if left_out and any(row.communication for row in steps.rows):
            left_out = left_out - {"communication"} | {"kernels"}
        return none | left_out

    def lines(width: int) -> list[Line]:
        left = select_columns(columns, shown, narrow(width))
        body = cells(left, range(len(rows)))
        found = aligned(left, [[(fit(label, 24), style), *rest] for (label, style), *rest in body])
        if limit and len(steps.rows) > limit:
            found.insert(limit + 1, [(f"  and {plural(len(steps.rows) - limit, 'step')} more", "dim")])
        return found

    silent = set() if any(row.communication for row in rows) else {"communication"}
    notes = _what_counts(rows, select_columns(columns, shown, none | silent))
    if any(row.window_idle > row.window_length for row in steps.rows):
        notes.append(ALL_DEVICES)
    notes += [source_text(steps.table.source), unrecorded_text(steps.table)] if steps.rows else []
    notes += [] if steps.rows else [f"The trace has no {steps.table.name} annotations."]
    text = partial(markdown_table, select_columns(columns, shown, none), range(len(rows)))
    return [table("", lines, text, *notes)]


def _starred(row: StepRow) -> bool:
    """Whether the busy share is of less than the row's time. (The verdict of the whole is on the steps.)"""
    whole = row.busy + row.window_idle
    if row.busy_share is None or not row.verdict.noticeably_left_out:
        return False
    return whole > 0 and abs(row.busy_share - row.busy / whole) > 1e-9


def _what_counts(rows: Sequence[StepRow], shown: Sequence[Column]) -> list[str]:
    """What the busy shares leave out, and what the other columns are about."""
    out = [text for what, text in LEFT_OUT.items() if any(what in dict(r.verdict.left_out) for r in rows)]
    *steps, whole = rows
    notes = []
    if any(_starred(row) for row in rows):
        out[0] += " (the whole: with it)" if out[0] == LEFT_OUT["lead-in"] and _starred(whole) else ""
        notes.append(f"* without {_listed(out)}")
    names = [column.heading for column in shown if column.key in LAUNCHED_IN]
    if names and any(row.compute + row.exposed_communication > row.window_length > 0 for row in steps):
        notes.append(f"{_listed(names)}: of what the step launched, whenever it ran")
    if any(row.lost for row in rows):
        notes.append("lost: launches whose device events are not in the file")
    return notes


def unrecorded_text(table: StepTable) -> str:
    """What to say of steps that are not judged; "" where there are none."""
    if not table.unrecorded:
        return ""
    launch = "what it launches" if table.unrecorded == 1 else "what they launch"
    return f"{plural(table.unrecorded, 'more step')}: {launch} is not in the trace, or not all."


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def source_words(source: str) -> str:
    """The same in a word or two, for a note."""
    if source == "ProfilerStep":
        return ""
    return "what repeats" if source == "repeats" else f"from {source}" if source else ""


def source_text(source: str) -> str:
    """What the steps are, "" where they are the profiler's own."""
    if source == "repeats":
        return "The trace does not name its steps: these are what repeats on one thread."
    if source == "Optimizer.step":
        return "Steps from Optimizer.step: each ends with the optimizer's step."
    if source.startswith("ProfilerStep of "):
        rank = source.removeprefix("ProfilerStep of ")
        return f"Steps are those of {rank}; what others do counts where it began."
    return f"Steps from the {source}." if source.startswith("annotation") else ""


def _text_rows(steps: Steps, limit: int) -> list[StepRow]:
    rows = list(steps.rows[:limit] if limit else steps.rows)
    outside = steps.outside
    anything = outside.busy or outside.window_idle or outside.kernels or outside.cpu
    return [*rows, *([outside] if steps.rows and anything else []), steps.whole]


def steps_from(steps: Steps, scope: Scope) -> Steps:
    """The step of the scope, or the steps that start in it. `outside` and `whole` stay the trace's."""
    return _chosen(steps, scope, lambda row: scope.start <= row.start < scope.end)


def steps_within(steps: Steps, scope: Scope) -> Steps:
    """The step of the scope, or the steps with windows in it. `outside` and `whole` stay the trace's."""
    return _chosen(steps, scope, lambda row: row.window[0] < scope.end and row.window[1] > scope.start)


def _chosen(steps: Steps, scope: Scope, wanted: Callable[[StepRow], bool]) -> Steps:
    if scope.kind == "whole":
        return steps
    if scope.kind == "step":
        return replace(steps, rows=(steps.rows[scope.step],))
    return replace(steps, rows=tuple(row for row in steps.rows if wanted(row)))


def steps_answer(part: Part, annotation: str | None = None, limit: int = 0) -> Answer:
    """One row per step. `annotation`: each call of it is a step; `limit`: steps in a text, 0 for all."""
    chosen = None if annotation is None else plain(annotation)  # as names are in a trace
    whole = steps_of(part) if chosen is None else summarize_steps(part.trace, chosen)
    steps = steps_from(whole, part.scope)
    return Answer(
        "steps",
        lambda: all_steps_json(steps),
        *forms(lambda: step_blocks(steps, limit)),
        choose=lambda data: list(data["steps"]),
        shown=lambda width: [_shown(part, whole)],
    )


def _shown(part: Part, whole: Steps) -> Shown:
    """The steps in order of time. Enter shows the step in the timeline."""
    trace, steps = part.trace, steps_within(whole, part.scope)
    rows, note = table_rows(steps), _note(steps, len(whole.rows), part.is_whole)
    places = {row.label: n for n, row in enumerate(whole.rows)}
    items = [places.get(row.label, row.label) for row in rows]

    def target_of(row: int, again: int) -> Target:
        if row < len(steps.rows):
            return Target(event=rows[row].event, span=rows[row].window, said=rows[row].verdict.reason)
        return Target(span=trace.span, said=steps.whole.verdict.reason)

    def row_at(event: int) -> int | None:
        """The step in which the event, or its launch, begins."""
        time = int(trace.start[trace.launch[event] if trace.launch[event] >= 0 else event])
        return next((n for n, r in enumerate(steps.rows) if r.start <= time < r.start + r.duration), None)

    return Shown(
        steps_table(steps),
        target_of,
        note,
        note if UNUSUAL in note else "",
        "label",
        False,
        items.__getitem__,
        lambda item: items.index(item) if item in items else None,
        row_at,
    )


def _note(steps: Steps, count: int, whole: bool) -> str:
    """What the pane says beside its title. `count`: the number of steps in the whole trace."""
    if not count:
        return "no steps in this trace: showing all of it"
    of = "" if whole else f"{len(steps.rows):,} of "
    counted = ", ".join(filter(None, (f"{of}{plural(count, 'step')}", source_words(steps.table.source))))
    counted = counted.replace(", from", " from")
    return f"{counted}; {UNUSUAL}" if any(row.unusual for row in steps.rows) else counted
