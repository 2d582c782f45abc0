"""The column of lane labels on the left."""

from __future__ import annotations

from itertools import product

from rich.cells import cell_len

from tracetui.core.cells import fits, middle
from tracetui.core.units import plural
from tracetui.timeline.canvas import BOLD, Canvas, cut
from tracetui.timeline.counters import most, values_at
from tracetui.timeline.scene import EDGE, TOP, Scene
from tracetui.timeline.track_layout import Line, Of

BRIEF = (("GPU ", ""), ("allocated", "alloc"), ("reserved", "resvd"))
"""How series names are shortened on a narrow screen."""
SHORTER = (("thread ", ""), (" (", " "), ("stream ", "s"), (" annotations", " annot."), ("profiler ", ""))
"""How lane names are shortened, in this order."""
LEAST = 5
"""Cells of a name needed to tell it from others: without them, its value means nothing."""


def label_width(width: int) -> int:
    """Width of the label column on a screen of `width` cells."""
    return max(8, min(26, 16 + max(0, width - 80) // 10))


def lines_below(scene: Scene, height: int) -> tuple[int, int]:
    """Lines that do not fit onto a screen of `height` lines in all: below the part that scrolls, and below
    the dock."""
    layout = scene.layout
    _, room, docked = layout.parts(height - TOP)
    return max(0, layout.height - scene.top - room), max(0, layout.dock.height - scene.foot - docked)


def paint_labels(scene: Scene, canvas: Canvas, lines: list[Line]) -> None:
    """Paint the labels of the lines below the ruler."""
    theme = scene.theme
    labeled = [y for y, line in enumerate(lines, TOP) if line.of is not Of.RULE]
    labeled += range(TOP + len(lines), canvas.height)
    canvas.paper[labeled, : scene.labels] = theme.frame
    canvas.ink[labeled, : scene.labels] = theme.dim
    below, dock_below = lines_below(scene, canvas.height)
    last = TOP + sum(scene.layout.parts(canvas.height - TOP)[:2]) - 1
    for y, line in enumerate(lines, TOP):
        hidden = below if y == last else dock_below if y == canvas.height - 1 else 0
        note = plural(hidden, "row") if hidden else ""
        if line.first or line.more:
            note = note.partition(" ")[0]
        if hidden:
            note = f"{'v' if theme.ascii else '↓'}{note}"
        width = scene.labels
        if line.of is Of.RULE:
            continue
        if line.of is Of.PROCESS or line.of is Of.RECORDING:
            text = " " + label_text(scene, line)
            canvas.paper[y] = theme.frame
            marked = line.of is Of.RECORDING and scene.sources[line.source].links is not None
            room = scene.labels - 1 if marked else canvas.width - len(note) - 2
            canvas.put(y, 0, middle(text, room), ink=theme.text, attributes=BOLD)
            width = canvas.width - EDGE
        elif line.first:
            put_label(scene, canvas, y, line, width - (len(note) + 1 if note else 0))
        elif line.of is Of.COUNTER and line.depth == 1 and line.ref < len(scene.sources[line.source].series):
            canvas.put(y, 2, cut(most(scene.sources[line.source].series[line.ref]), width - 3 - len(note)))
        elif line.more:
            canvas.put(y, 0, cut(f"   +{plural(line.more, 'row')}", width - 2 - len(note)))
        canvas.put(y, width - 1 - len(note), note, ink=theme.dim)


def paint_rules(scene: Scene, canvas: Canvas, lines: list[Line]) -> None:
    """Paint the lines above the devices' tracks."""
    theme = scene.theme
    for y, line in enumerate(lines, TOP):
        if line.of is Of.RULE:
            canvas.paper[y] = theme.frame
            canvas.put(y, 0, ("-" if theme.ascii else "─") * canvas.width, ink=theme.line)
            text = f" {label_text(scene, line)} "
            canvas.put(y, 2, cut(text, canvas.width - 4), ink=theme.text, attributes=BOLD)


def put_label(scene: Scene, canvas: Canvas, y: int, line: Line, width: int) -> None:
    """Paint one label into the first `width` cells of a line."""
    theme = scene.theme
    rows = int(scene.layout.rows[line.track])
    folded = int(scene.layout.shown[line.track]) < rows - int(scene.layout.extra[line.track]) or (
        rows > 1 and scene.layout.shown[line.track] == 1
    )
    sign = (("+" if folded else "-") if theme.ascii else ("▸" if folded else "▾")) if rows > 1 else " "
    if line.pinned:
        sign = "*" if theme.ascii else "•"
    room = width - 3
    text = label_text(scene, line)
    if line.of is Of.COUNTER and line.ref < len(scene.sources[line.source].series):
        values = values_at(scene.sources[line.source], line.ref, scene.cursor)
        text, value = beside(text, values, room)
        canvas.put(y, width - 1 - cell_len(value), value, ink=theme.text)
    else:
        text = shortened(text, room)
    canvas.put(y, 0, sign, ink=theme.dim)
    canvas.put(y, 2, text, ink=theme.text if line.of is Of.LANE else theme.dim)
    if line.more and line.depth == 0 and line.of is Of.LANE:
        more = f"+{line.more}"
        if cell_len(text) + 3 + len(more) < width:
            canvas.put(y, width - 1 - len(more), more, ink=theme.dim)


def label_text(scene: Scene, line: Line) -> str:
    """The text of a line's label."""
    source = scene.sources[line.source]
    if line.of is Of.RECORDING:
        return scene.title(line.source)
    if line.of is Of.PROCESS:
        process = source.trace.processes[line.ref]
        return f"[{process.rank}] {process.name}".rstrip() if process.rank else process.name
    if line.of is Of.LANE:
        return whose(scene, line) + source.lane_name(line.ref)
    if line.of is Of.RULE or line.of is Of.DEVICE:
        rank = source.trace.rank_of(line.ref)
        name = source.trace.device_called(line.ref)
        name = f"[{rank}] {name}" if rank else name
        if line.of is Of.DEVICE:
            return f"{name} busy" if line.pinned else "busy"
        return f"{scene.letter(line.source)} · {name}" if len(scene.sources) > 1 else name
    series = source.series[line.ref] if line.ref < len(source.series) else None
    if series is None:
        return ""
    docked = scene.layout.zone[line.track] > 1  # below the rule of its device
    device = source.trace.device_called(series.device)
    return series.name.removeprefix(f"{device} ") if docked else series.name


def whose(scene: Scene, line: Line) -> str:
    """A lane's device or process, if there are several and the lane is not below its heading."""
    source, layout = scene.sources[line.source], scene.layout
    trace, lane = source.trace, source.trace.lanes[line.ref]
    recording = f"{scene.letter(line.source)} " if line.pinned and len(scene.sources) > 1 else ""
    if lane.device >= 0:  # in the dock it is below the rule of its device, unless that is scrolled off
        first = layout.dock.tracks[:1]
        above = (layout.source[first] == line.source) & (layout.device[first] == lane.device)
        if scene.foot and source.letter and not line.pinned and above.any():
            return f"{source.letter} "
        several = line.pinned and len(source.devices) > 1
        return recording + (f"{trace.device_called(lane.device)} " if several else "")
    heading = (line.source, lane.process) in layout.headed
    if heading and not layout.below_own(line.track, lane.process):
        return f"{recording}{trace.processes[lane.process].name} "
    return recording


def beside(name: str, values: tuple[str, ...], width: int) -> tuple[str, str]:
    """A series' name and value in `width` cells, with a space between; `values`: longest first."""
    brief = name
    for long, short in BRIEF:
        brief = brief.replace(long, short, 1)
    for text, value in (*product((name, brief), values[:2]), *product((name, brief), values[2:])):
        if fits(text, width - bool(value) - cell_len(value)):
            return text, value
    room = width - cell_len(values[-1]) - 1
    return (cut(brief, room), values[-1]) if room >= LEAST else (cut(brief, width), "")


def shortened(text: str, width: int) -> str:
    """A lane's name cut to `width` cells; words that all lanes share are dropped first."""
    for long, short in SHORTER:
        if fits(text, width):
            break
        if long == " (" and long in text:
            text = text.removesuffix(")")
        text = text.replace(long, short, 1)
    number, _, name = text.partition(" ")
    room = width - cell_len(number) - 1
    if number.isdigit() and room > 0 and not fits(text, width):
        return f"{number} {ends(name, room)}"
    return ends(text, width)


def ends(text: str, width: int) -> str:
    """A name cut to `width` cells in the middle: threads of a pool differ at the end."""
    return middle(text, width, (width - 1) // 2)
