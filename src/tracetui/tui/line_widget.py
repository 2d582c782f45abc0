"""What widgets that draw their own lines have in common: styles of text, and scrolling."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from tracetui.tui.tables.drawing import scroll_bar

Run = tuple[str, str]
"""A text and the name of its look."""


class LineWidget(Widget):
    """A widget whose texts have these looks; `tables.lines` uses the same names."""

    DEFAULT_CSS = """
    LineWidget > .drawn--text { color: $foreground; }
    LineWidget > .drawn--head { color: $foreground; text-style: bold; }
    LineWidget > .drawn--dim { color: $text-muted; }
    LineWidget > .drawn--accent { color: $accent; text-style: bold; }
    LineWidget > .drawn--good { color: $success; text-style: bold; }
    LineWidget > .drawn--warn { color: $warning; text-style: bold; }
    LineWidget > .drawn--bad { color: $error; text-style: bold; }
    LineWidget > .drawn--cursor {
        background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold;
    }
    LineWidget > .drawn--bar { color: $scrollbar; background: $scrollbar-background; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"drawn--{name}" for name in ("text", "head", "dim", "accent", "good", "warn", "bad", "cursor", "bar")
    }

    def style_of(self, name: str) -> Style:
        """The style of texts with this look."""
        return self.get_component_rich_style(f"drawn--{name}")


class Scrolled(LineWidget):
    """A widget that the wheel scrolls by three lines at a time."""

    def scroll_rows(self, rows: int) -> None:
        """Scroll by this many lines."""
        raise NotImplementedError

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_rows(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_rows(-3)


class ScrolledLines(Scrolled):
    """Lines of text, any number of them."""

    DEFAULT_CSS = "ScrolledLines { height: 1fr; }"

    lines: reactive[list[list[Run]]] = reactive(list)
    top = reactive(0)

    def validate_top(self, top: int) -> int:
        """Scroll only if not everything fits."""
        return max(0, min(top, len(self.lines) - self.size.height))

    def scroll_rows(self, rows: int) -> None:
        self.top += rows

    def render_line(self, y: int) -> Strip:
        width, height = self.size
        runs = self.lines[self.top + y] if self.top + y < len(self.lines) else []
        segments = [
            Segment("  ", self.rich_style),
            *(Segment(text, self.style_of(name)) for text, name in runs),
        ]
        line = Strip(segments).adjust_cell_length(width - 1, self.rich_style)
        bar = scroll_bar(y, self.top, height, len(self.lines), self.style_of("bar"), self.rich_style)
        return Strip([*line, bar], width)
