"""The one line about the selected event that is always in view."""

from __future__ import annotations

from textual.widget import Widget


class SelectionBar(Widget):
    """Name, start, duration, self time and launch delay of the selected event, in one line."""

    DEFAULT_CSS = "SelectionBar { height: 1; }"

    def show(self, text: str) -> None:
        """Show a line (plain text, never markup)."""
        self._text = text
        self.refresh()
