"""Pictures of the app on a real pseudo-terminal: every screen, size and theme, and the README's tour.

    python docs/pictures.py all OUT        a folder of SVG files, one per screen, size and look
    python docs/pictures.py tour FILE      an animated SVG of a real session

Needs pyte (the extra `docs`). What is drawn is what a terminal would show.
"""

from __future__ import annotations

import fcntl
import html
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, product
from pathlib import Path

import pyte
from pyte.screens import Char

ROOT = Path(__file__).parent.parent
SIZES = ((80, 24), (120, 36), (200, 50))
LOOKS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    # name: (arguments, environment)
    "dark": (("--theme", "dark"), {}),
    "light": (("--theme", "light"), {}),
    "high-contrast": (("--theme", "high-contrast"), {}),
    "color-blind": (("--theme", "color-blind"), {}),
    "16-colors": ((), {"TERM": "xterm-16color", "COLORTERM": ""}),
    "no-color": ((), {"NO_COLOR": "1"}),
    "ascii": (("--ascii",), {}),
}
SCREENS: dict[str, tuple[str, tuple[str, ...]]] = {
    # name: (sample, keys; a key may be a text to type)
    "first": ("train", ()),
    "compute-bound": ("mlp_eager", ()),
    "gap": ("train", ("g",)),
    "part": ("train", ("h", "h")),
    "details": ("mlp_eager", ("right", "right", "2")),
    "ops": ("train", ("3",)),
    "kernels": ("train", ("4",)),
    "annotations": ("train", ("5",)),
    "gaps": ("train", ("6",)),
    "steps": ("train_ddp", ("7",)),
    "findings": ("train", ("8",)),
    "efficiency": ("mlp_eager", ("9",)),
    "explain": ("mlp_eager", ("/", "gemm", "enter", "e")),
    "matches": ("train", ("/", "softmax", "enter", "L")),
    "help": ("mlp_eager", ("?",)),
    "palette": ("mlp_eager", ("ctrl+p",)),
    "memory": ("train_memory", ()),
}
TOUR: tuple[tuple[str, float], ...] = (
    # (keys, seconds that the picture stays)
    ("", 4.0), ("h", 2.0), ("h", 2.5), ("g", 3.0), ("e", 3.5), ("escape", 1.0), ("3", 2.5), ("enter", 3.0),
)  # fmt: skip
KEYS = {"enter": "\r", "escape": "\x1b", "tab": "\t", "right": "\x1b[C", "down": "\x1b[B", "ctrl+p": "\x10"}

CELL, LINE, SIZE = 8.4, 17, 14
INK, PAPER = "d0d0d0", "121212"
_NAMES = "black red green brown blue magenta cyan white"
_HUES = (
    "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5"
    " 7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
)
NAMED = dict(
    zip((*_NAMES.split(), *(f"bright{name}" for name in _NAMES.split())), _HUES.split(), strict=True)
)
NAMED["bfightmagenta"] = NAMED["brightmagenta"]  # pyte's name of it as a background
Look = tuple[str, str, bool, bool]
"""(ink, paper, bold, underlined)."""


class Session:
    """The app in a pseudo-terminal of its own."""

    def __init__(self, arguments: Sequence[str], size: tuple[int, int], environment: dict[str, str]) -> None:
        self.screen = pyte.Screen(*size)
        self.stream = pyte.ByteStream(self.screen)
        columns, lines = size
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            dull = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
            given = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "SSH_TTY")}
            os.execve(
                sys.executable,
                [sys.executable, "-m", "tracetui", *arguments],
                {**given, **dull, "LINES": str(lines), "COLUMNS": str(columns), **environment},
            )
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def settle(self, quiet: float = 1.2, most: float = 60) -> None:
        """Read until nothing was drawn for a while."""
        end, last = time.monotonic() + most, time.monotonic()
        while time.monotonic() < min(end, last + quiet):
            if select.select([self.fd], [], [], 0.05)[0]:
                self.stream.feed(os.read(self.fd, 1 << 16))
                last = time.monotonic()

    def until(self, text: str, most: float = 60) -> None:
        """Read until a text is on the screen, and nothing more is drawn."""
        end = time.monotonic() + most
        while not any(text in line for line in self.screen.display):
            if time.monotonic() > end:
                raise TimeoutError(f"{text!r} never appeared on:\n" + "\n".join(self.screen.display))
            self.settle(0.2, 1)
        self.settle()

    def press(self, key: str) -> None:
        """Press a key, or type a text."""
        os.write(self.fd, KEYS.get(key, key).encode())
        self.settle()

    def end(self) -> None:
        """Leave the app."""
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


@contextmanager
def opened(sample: str, size: tuple[int, int], look: str) -> Iterator[Session]:
    """The app on a sample, with settings and state of its own."""
    arguments, environment = LOOKS[look]
    with tempfile.TemporaryDirectory() as state:
        Path(state, "hint-seen").touch()
        own = {"TRACETUI_STATE": state, "TRACETUI_CONFIG": str(Path(state, "none.toml")), **environment}
        session = Session(["demo", sample, *arguments], size, own)
        try:
            session.until("quit")
            yield session
        finally:
            session.end()


def color(name: str, default: str) -> str:
    return default if name == "default" else NAMED.get(name, name)


def look_of(cell: Char) -> Look:
    ink, paper = color(cell.fg, INK), color(cell.bg, PAPER)
    return (
        (paper, ink, cell.bold, cell.underscore) if cell.reverse else (ink, paper, cell.bold, cell.underscore)
    )


def drawn(screen: pyte.Screen) -> list[str]:
    """The SVG elements of what is on the screen."""
    found = []
    for y in range(screen.lines):
        cells = [screen.buffer[y][x] for x in range(screen.columns)]
        x, top = 0, y * LINE
        for (ink, paper, bold, underlined), group in groupby(cells, look_of):
            text = "".join(cell.data for cell in group)
            width = len(text)
            if paper != PAPER:
                size = f'width="{width * CELL + 0.3:.1f}" height="{LINE + 0.3}"'
                found.append(f'<rect x="{x * CELL:.1f}" y="{top}" {size} fill="#{paper}"/>')
            if text.strip():
                style = ' font-weight="bold"' if bold else ""
                style += ' text-decoration="underline"' if underlined else ""
                found.append(
                    f'<text x="{x * CELL:.1f}" y="{top + SIZE - 1}" fill="#{ink}"{style} textLength="'
                    f'{width * CELL:.1f}" xml:space="preserve">{html.escape(text)}</text>'
                )
            x += width
    return found


def svg(frames: Sequence[tuple[list[str], float]], size: tuple[int, int]) -> str:
    """One picture, or several that follow each other for ever, each for some seconds."""
    width, height = size[0] * CELL, size[1] * LINE
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" font-size="{SIZE}" '
        "font-family=\"Menlo, Consolas, 'DejaVu Sans Mono', monospace\">"
    )
    body, total, at = "", sum(seconds for _, seconds in frames), 0.0
    style = ""
    for n, (elements, seconds) in enumerate(frames):
        content = "".join(elements)
        if len(frames) > 1:
            start, stop = 100 * at / total, 100 * (at + seconds) / total
            hidden = (
                f"0%{{visibility:hidden}}{start:.3f}%{{visibility:visible}}"
                if n
                else "0%{visibility:visible}"
            )
            style += f"@keyframes f{n}{{{hidden}{stop:.3f}%,100%{{visibility:hidden}}}}"
            style += f".f{n}{{animation:f{n} {total:.1f}s step-end infinite}}"
            content = f'<g class="f{n}">{content}</g>'
        body += content
        at += seconds
    paper = f'<rect width="100%" height="100%" fill="#{PAPER}"/>'
    return f"{head}<style>{style}</style>{paper}{body}</svg>\n"


def every_picture(folder: Path) -> None:
    """Every screen at every size and look."""
    folder.mkdir(parents=True, exist_ok=True)
    for (name, (sample, keys)), size, look in product(SCREENS.items(), SIZES, LOOKS):
        with opened(sample, size, look) as session:
            for key in keys:
                session.press(key)
            (folder / f"{name}-{size[0]}x{size[1]}-{look}.svg").write_text(
                svg([(drawn(session.screen), 1)], size)
            )


def tour(file: Path) -> None:
    """A short session: the answer, where the time goes, the longest gap and why, the costliest op."""
    size, frames = (110, 32), []
    with opened("train", size, "dark") as session:
        for key, seconds in TOUR:
            if key:
                session.press(key)
            frames.append((drawn(session.screen), seconds))
    file.write_text(svg(frames, size))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["all", folder]:
            every_picture(Path(folder))
        case ["tour", file]:
            tour(Path(file))
        case _:
            sys.exit(__doc__)
