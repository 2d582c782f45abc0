"""A line of the terminal is changed into another by sending little, and becomes exactly that one."""

import random

import pytest
from rich.color import ColorSystem
from rich.style import Style

from tracetui.tui.ansi_lines import change

from .terminal import Terminal

STYLES = ["none", "bold red", "bold red on #102030", "on #102030", "#fefefe on #102030", "dim underline blue"]
STYLES += [
    "reverse green", "color(200) on color(17)", "bold dim", "italic on bright_blue", "default on default"
]  # fmt: skip
CHARACTERS = [*"ab  ", "█", "µ", "漢"]
WIDTH = 60


def line(rng: random.Random) -> str:
    """A line of WIDTH cells as Rich writes it."""
    found, left = "", WIDTH
    while left:
        text = rng.choice(CHARACTERS) * rng.randint(1, 12)
        size = 2 if "漢" in text else 1
        text = text[: left // size] or " "
        left -= len(text) * (size if "漢" in text else 1)
        found += Style.parse(rng.choice(STYLES)).render(text, color_system=ColorSystem.TRUECOLOR)
    return found


@pytest.mark.parametrize("seed", range(40))
def test_any_line_becomes_any_other(seed):
    rng = random.Random(seed)
    terminal, shown = Terminal(WIDTH, 2), None
    for _ in range(20):
        wanted = line(rng)
        terminal.feed(change(1, shown, wanted))
        fresh = Terminal(WIDTH, 2)
        fresh.feed(f"\x1b[2;1H{wanted}")
        pairs = zip(terminal.cells[1], fresh.cells[1], strict=True)
        assert all(seen == want for seen, want in pairs if want[0] != "?")  # "?": the second of a wide one
        assert terminal.style == {}
        shown = wanted


def test_only_what_differs_is_sent():
    before = "\x1b[1;31mname\x1b[0m" + " " * 40 + "\x1b[38;2;1;2;3m12 ms\x1b[0m"
    after = "\x1b[1;31mname\x1b[0m" + " " * 40 + "\x1b[38;2;1;2;3m13 ms\x1b[0m"
    assert change(4, before, after) == "\x1b[5;46H\x1b[38;2;1;2;3m3\x1b[0m"
    assert change(4, after, after) == ""


def test_what_is_not_understood_is_sent_as_it_is():
    link = "\x1b]8;;file\x1b\\x\x1b]8;;\x1b\\"
    assert change(0, "y", link) == f"\x1b[1;1H{link}"
    assert change(0, link, "y") == "\x1b[1;1Hy"


def test_a_wide_character_beside_one_of_no_width_is_not_two_cells():
    line = "\u3042a\u0301b"
    assert change(0, "\u3042a\u0301c", line) == f"\x1b[1;1H{line}"
