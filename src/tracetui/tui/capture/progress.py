"""A running capture as lines of text. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tracetui.capture.events import CaptureEvent, Failed, Note, Output, Phase, Progress, phase_times
from tracetui.core.cells import clip, wrap
from tracetui.core.safe_text import plain


class Line(NamedTuple):
    """A line and its role: "title", "done", "now", "note", "output", "error" or "hint"."""

    role: str
    text: str


def phase_lines(events: Sequence[CaptureEvent], now: float, ended: bool, width: int) -> list[Line]:
    """A line for each phase with its seconds; the running one also shows its steps."""
    latest: dict[Phase, Progress] = {e.phase: e for e in events if isinstance(e, Progress)}
    times = phase_times(events, now)
    lines = []
    for n, (phase, seconds) in enumerate(times):
        event = latest[phase]
        running = n == len(times) - 1 and not ended
        text = f"{seconds:8.1f} s  {phase.value}"
        if event.detail and not (event.steps and not running):
            text += f": {plain(event.detail)}"
        if event.steps and running:
            text += f"  {bar(event.step / event.steps, 20)} {event.step} of {event.steps}"
        elif event.steps:
            text += f", {event.steps} steps"
        lines.append(Line("now" if running else "done", clip(text, width)))
    return lines


def bar(share: float, width: int) -> str:
    """A bar of `width` cells, filled to a share."""
    return "█" * round(share * width) + "░" * (width - round(share * width))


def capture_lines(
    events: Sequence[CaptureEvent], command: str, now: float, ended: bool, width: int, height: int
) -> list[Line]:
    """All the lines about a capture: the command, the phases, notes, the last lines of its output."""
    lines = [Line("title", text) for text in wrap(plain(command), width, 3)]
    lines += [Line("done", ""), *phase_lines(events, now, ended, width), Line("done", "")]
    for event in events:
        if isinstance(event, Note):
            lines += [Line("note", text) for text in wrap(f"note: {plain(event.text)}", width)]
    end = events[-1] if events else None
    if isinstance(end, Failed):
        lines += [Line("error", text) for text in wrap(end.message, width)]
        lines += [Line("done", "")]
        # The whole text, wrapped rather than cut: the reason may be anywhere in it.
        lines += [Line("output", part) for text in end.tail for part in wrap(plain(text), width, 4)]
    else:
        printed = [e.text for e in events if isinstance(e, Output) and e.text.strip()]
        room = max(0, height - len(lines))
        lines += [Line("output", clip(plain(text), width)) for text in (printed[-room:] if room else [])]
    return lines
