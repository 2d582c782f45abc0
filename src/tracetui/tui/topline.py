"""The first line: which trace this is, and what to know before reading it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.cells import cell_len
from rich.segment import Segment
from textual.reactive import reactive
from textual.strip import Strip

from tracetui.core.cells import cell, clauses, middle
from tracetui.core.safe_text import plain
from tracetui.core.units import duration, plural
from tracetui.session.recording import trace_name
from tracetui.timeline.scene import Scene
from tracetui.trace.model import Kind, Trace
from tracetui.trace.unknown import elsewhere
from tracetui.tui.line_widget import LineWidget


def devices(trace: Trace) -> list[int]:
    """The devices that ran something in this trace."""
    lanes = (lane for lane in trace.lanes if lane.device >= 0 and lane.kind == "stream")
    return sorted({lane.device for lane in lanes})


def device_names(trace: Trace) -> str:
    """The devices in a few words: "NVIDIA H200", "2 GPUs", "CPU only"; "" without events, or if what ran on
    a device may have been cut off."""
    found = devices(trace)
    if not found:
        alone = trace.is_kind(Kind.CPU_OP).any() and not trace.cut_off and not len(elsewhere(trace))
        return "CPU only" if alone else ""
    if len(found) > 1:
        words = {trace.device_called(device).partition(" ")[0] for device in found}
        return f"{len(found)} {words.pop() if len(words) == 1 else 'device'}s"
    names = [
        plain(str(d.get("name", "")), 40) for d in trace.info.devices if d.get("id", found[0]) == found[0]
    ]
    return names[0] if names and names[0] else trace.device_called(found[0])


def facts(trace: Trace, steps: Sequence[int] = ()) -> str:
    """Device, steps and size of the trace. `steps`: their lengths, ns."""
    # The mean, as in the overview: for uneven steps, a median would say something else.
    each = duration(float(np.mean(steps))) if steps else ""
    told = f"{plural(len(steps), 'step')}{' of' if len(steps) == 1 else ', mean'} {each}" if steps else ""
    return " · ".join(filter(None, (device_names(trace), told or plural(trace.events, "event"))))


def facts_of_all(scene: Scene, steps: Sequence[Sequence[int]] = ()) -> str:
    """The devices and the steps of several traces. `steps`: their lengths, ns."""
    names = [device_names(source.trace) for source in scene.sources]
    each = ", ".join(f"{source.letter} {name}" for source, name in zip(scene.sources, names, strict=True))
    told = [names[0] if len(set(names)) == 1 else each]
    if steps and all(steps):
        counts = [len(one) for one in steps]
        same = len(set(counts)) == 1
        told.append(plural(counts[0], "step") if same else f"{' and '.join(f'{c:,}' for c in counts)} steps")
    return " · ".join(told)


def fitting(facts: str, width: int) -> str:
    """As many of the facts as fit without cutting one."""
    parts = facts.split(" · ")
    while parts and cell_len(" · ".join(parts)) > width:
        parts.pop()
    return " · ".join(parts)


def warning(trace: Trace) -> str:
    """What was lost or repaired; "" if all is well."""
    levels = {"lost": 0, "repaired": 1, "odd": 2}
    notices = sorted(trace.notices, key=lambda n: levels.get(n.level, 3))
    if notices:
        first = notices[0]
        count = f" ({first.count:,}×)" if first.count > 1 else ""
        more = f", {len(notices) - 1} more" if len(notices) > 1 else ""
        return f"{first.level}: {first.text}{count}{more}"
    if not len(trace):
        return "this file has no events"
    return ""


class TopLine(LineWidget):
    """A title, facts, and on the right a warning."""

    DEFAULT_CSS = "TopLine { height: 1; background: $panel; }"

    _facts = reactive("")

    def __init__(self, title: str, facts: str, warning: str, share: float = 1 / 2) -> None:
        """`share`: the part of the line that the title may take."""
        super().__init__()
        self._title, self._facts, self._warning, self._share = title, facts, warning, share

    def say(self, text: str) -> None:
        """Show these facts instead."""
        self._facts = text

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        name = middle(self._title, max(12, int(width * self._share)))
        left = cell_len(name) + 2
        # The warning takes priority over the facts.
        warning = clauses(f"⚠ {self._warning}", max(0, width - left - 3)) + " " if self._warning else ""
        room = max(0, width - left - cell_len(warning))
        facts = fitting(self._facts, room - 2)
        strip = Strip(
            [
                Segment(f" {name} ", self.style_of("accent")),
                Segment(cell(" " + facts, room), self.style_of("text")),
                Segment(warning, self.style_of("warn")),
            ]
        )
        return strip.adjust_cell_length(width)


def top_of_single(scene: Scene) -> TopLine:
    """The trace's name and size."""
    trace = scene.source.trace
    return TopLine(trace_name(trace), facts(trace), warning(trace))


def top_of_pair(scene: Scene, before: str = "", share: float = 4 / 5) -> TopLine:
    """Both names, which say more than the facts. `before`: what comes before the names."""
    titles = map(scene.title, range(len(scene.sources)))
    warnings = ((source.letter, warning(source.trace)) for source in scene.sources)
    told = "; ".join(f"{letter}: {text}" for letter, text in warnings if text)
    return TopLine(before + "   ".join(titles), facts_of_all(scene), told, share)


def top_of_job(scene: Scene) -> TopLine:
    """How many ranks there are, and their names as far as they fit."""
    return top_of_pair(scene, f"{len(scene.sources)} ranks: ", 1 / 2)
