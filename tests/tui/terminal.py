"""As much of a terminal as the app uses to draw, and apps that draw onto it."""

import re
from typing import Any

from rich.cells import get_character_cell_size
from rich.console import Console
from textual._compositor import CompositorUpdate
from textual.app import App

from tracetui.tui.textual_private import SentLines

TOKEN = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|([^\x1b])")
OFF = {22: (1, 2), 23: (3,), 24: (4,)}


class Terminal:
    """Cursor moves, colors and characters: as much of a terminal as the app uses to draw."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.cells = [[("?", "")] * width for _ in range(height)]
        self.x = self.y = 0
        self.style: dict[str, str] = {}
        self.bytes = 0

    def feed(self, text: str) -> None:
        self.bytes += len(text.encode())
        for numbers, command, character in TOKEN.findall(text):
            if command == "H":
                row, column = ([int(n) for n in numbers.split(";")] + [1, 1])[:2] if numbers else (1, 1)
                self.y, self.x = row - 1, column - 1
            elif command == "C":
                self.x += int(numbers or 1)
            elif command == "m":
                self._color([int(n or 0) for n in numbers.split(";")])
            elif command:
                raise AssertionError(f"unknown command {command!r}")
            elif character == "\n":
                self.y, self.x = self.y + 1, 0
            elif 0 <= self.y < self.height and 0 <= self.x < self.width:
                fore, back = self.style.get("fore", ""), self.style.get("back", "")
                if "reverse" in self.style:
                    fore, back = back or "paper", fore or "ink"
                look = (f"on {back} " if back else "") + ("" if character == " " else fore)
                self.cells[self.y][self.x] = (character, look + self.style.get("other", ""))
                self.x += get_character_cell_size(character)

    def _color(self, codes: list[int]) -> None:
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.style = {}
            elif code in (38, 48):
                kind = codes.pop(0)
                value = [codes.pop(0) for _ in range(1 if kind == 5 else 3)]
                self.style["fore" if code == 38 else "back"] = f"{value}"
            elif code in (39, 49):
                self.style.pop("fore" if code == 39 else "back", None)
            elif 30 <= code < 38 or 90 <= code < 98:
                self.style["fore"] = str(code)
            elif 40 <= code < 48 or 100 <= code < 108:
                self.style["back"] = str(code - 10)
            elif code == 7:
                self.style["reverse"] = "on"
            elif code == 27:
                self.style.pop("reverse", None)
            elif code in OFF:
                for one in OFF[code]:
                    self.style["other"] = self.style.get("other", "").replace(f";{one}", "")
            else:
                others = {*self.style.get("other", "").split(";"), str(code)}
                self.style["other"] = ";".join(sorted(others))


class OnTerminal(App[None]):
    """Draws what it sends onto its `terminal`."""

    ansi = Console(color_system="truecolor", force_terminal=True)
    terminal: Terminal
    sent: SentLines

    def _display(self, screen: Any, renderable: Any) -> None:
        if isinstance(renderable, CompositorUpdate) and not self._batch_count:
            changed = self.sent.only_new(renderable, screen.size.width)
            assert isinstance(changed, CompositorUpdate)
            self.terminal.feed(changed.render_segments(self.ansi))
        super()._display(screen, renderable)
