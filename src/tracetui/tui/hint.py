"""A line or two about the basic keys, shown the first time tracetui opens a trace."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rich.segment import Segment
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from tracetui.core.cells import cell
from tracetui.session.state import make_folder, served, state_folder
from tracetui.tui.panes import NUMBERS

LINES = (
    ("New here?", "w s zoom, a d pan;", "arrows select;", "g longest gap;", "e explains it;"),
    (
        "? all keys;",
        "Esc hides this;",
        "I what the words mean;",
        f"1 to {NUMBERS} panes;",
        "Enter there shows the event.",
    ),
)
"""The lines, in parts: if there is not enough room, a line loses its last parts."""

MIN_HEIGHT = 18
"""The hint is hidden on screens with fewer lines."""

TWO_LINES = 30
"""With fewer, it is one line."""
SHORT = ("New here?", "w s zoom, a d pan;", "g longest gap;", "e explains it;", "Esc hides this;")
"""That line."""


def fitted(parts: Sequence[str], width: int) -> str:
    """As many whole parts as fit into the width."""
    text = f" {parts[0]}"
    for part in parts[1:]:
        if len(text) + len(part) + 2 > width:
            break
        text += f"  {part}"
    return text.rstrip(";")


def seen_file(folder: Path | None = None) -> Path:
    """An empty file: if it exists, the hint was seen."""
    return (folder or state_folder()) / "hint-seen"


def wanted(folder: Path | None = None) -> bool:
    """Whether the hint has not been seen yet."""
    try:
        return not seen_file(folder).exists()
    except OSError:
        return False


def remember_seen(folder: Path | None = None) -> None:
    """Never show the hint again."""
    if served():
        return
    with suppress(OSError):
        file = seen_file(folder)
        make_folder(file.parent)
        file.touch(0o600)


class Hint(Widget):
    """The lines."""

    DEFAULT_CSS = (
        "Hint { height: auto; width: 1fr; background: $panel; color: $foreground; text-style: bold; }"
    )

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 0 if viewport.height < MIN_HEIGHT else 1 if viewport.height < TWO_LINES else len(LINES)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        parts = LINES[y] if self.size.height > 1 else SHORT
        return Strip([Segment(cell(fitted(parts, width), width), self.rich_style)], width)
