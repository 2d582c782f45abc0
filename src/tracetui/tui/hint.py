"""Three lines on how to move, at the first opening only."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from rich.segment import Segment
from textual.strip import Strip
from textual.widget import Widget

from tracetui.tui.recent import state_folder
from tracetui.tui.text import cell

LINES = (
    " New here?  w s zoom, a d pan;  ← → ↑ ↓ go from event to event;  0 shows all.",
    " g goes to the longest gap;  / searches;  e explains the selected event.",
    " 1 to 5 open tables, Enter there shows the event;  ? all keys;  Esc hides this.",
)


def seen_file(folder: Path | None = None) -> Path:
    """Its presence says that the hint was seen."""
    return (folder or state_folder()) / "hint-seen"


def wanted(folder: Path | None = None) -> bool:
    """Whether this is the first opening."""
    try:
        return not seen_file(folder).exists()
    except OSError:
        return False


def remember_seen(folder: Path | None = None) -> None:
    """Not again."""
    with suppress(OSError):
        file = seen_file(folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


class Hint(Widget):
    """The lines."""

    DEFAULT_CSS = """
    Hint { height: 3; width: 1fr; background: $panel; }
    Hint > .hint--text { color: $foreground; background: $panel; text-style: bold; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"hint--text"}

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        return Strip([Segment(cell(LINES[y], width), self.get_component_rich_style("hint--text"))], width)
