"""Rows of bars, painted cell by cell in plain Python and compared with the painter's arrays."""

import random
from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from tracetui.timeline.canvas import BOLD, INK, PAPER, UNDERLINE, cut
from tracetui.timeline.paint import paint_names, paint_rows
from tracetui.timeline.scene import Local, Scene
from tracetui.timeline.themes import DARK, PLAIN
from tracetui.timeline.track_layout import Line, Of
from tracetui.timeline.uncolored import tell_bars_apart
from tracetui.timeline.viewport import Viewport
from tracetui.trace.model import Trace

Make = Callable[..., Trace]
MakeScene = Callable[..., Scene]
LEFT, BELOW, SHARES = " ▏▎▍▌▋▊▉█", " ▁▂▃▄▅▆▇█", " .,:;+*%#"
Cell = tuple[str, int, int, int]
"""Glyph, ink, paper, attributes."""


class Slow:
    """Paints one row of a source."""

    def __init__(self, local: Local, lane: int, depth: int, papers: list[int]) -> None:
        trace = local.source.trace
        self.local, self.trace, self.theme, self.papers = local, trace, local.theme, papers
        self.device = trace.lanes[lane].device >= 0
        mine = [i for i in range(len(trace)) if (int(trace.lane[i]), int(trace.depth[i])) == (lane, depth)]
        self.slices = [(i, int(trace.start[i]), int(trace.start[i] + trace.duration[i])) for i in mine]
        self.cell = local.view.cell
        self.left = LEFT if not self.theme.ascii else SHARES
        self.below = BELOW if not self.theme.ascii else SHARES
        self.hair = "|" if self.theme.ascii else "│"

    def color(self, i: int) -> int:
        source = self.local.source
        if i == self.local.selected:
            return self.theme.selected
        if source.matches is not None and source.matches[i]:
            return self.theme.match
        return self.name_color(int(self.trace.name[i]))

    def name_color(self, name: int) -> int:
        source = self.local.source
        return self.theme.same if name == source.same else source.palette.color_of(name)

    def busy(self, time: int) -> int:
        return sum(min(end, time) - start for _, start, end in self.slices if start < time)

    def touching(self, x: int) -> list[tuple[int, int, int]]:
        low = self.local.view.start_ns + x * self.cell
        return [s for s in self.slices if s[1] < low + self.cell and max(s[2], s[1] + 1) > low]

    def eighths(self, x: int) -> int:
        low = self.local.view.start_ns + x * self.cell
        steps = [(8 * self.busy(t) + self.cell // 2) // self.cell for t in (low, low + self.cell)]
        return max(0, min(8, steps[1] - steps[0]))

    def text_on(self, color: int) -> int:
        return int(self.local.source.palette.text_on(np.array([color], np.int16))[0])

    def running(self, moment: int) -> int:
        """The name that runs at a moment of the row's own busy time."""
        for i, start, end in self.slices:
            if moment < end - start:
                return int(self.trace.name[i])
            moment -= end - start
        return int(self.trace.name[self.slices[-1][0]])

    def crowded(self, x: int, here: list[int]) -> int:
        """The color of a cell with three slices or more."""
        low = self.local.view.start_ns + x * self.cell
        begin, length = self.busy(low), self.busy(low + self.cell) - self.busy(low)
        names = {self.running(begin + part) for part in (length // 6, length // 2, 5 * length // 6)}
        color = self.theme.many_device if self.device else self.theme.many
        if len(names) == 1:
            color = self.name_color(names.pop())
        source = self.local.source
        if source.same in {int(self.trace.name[i]) for i in here} and color != self.theme.same:
            color = self.theme.hint
        if source.matches is not None and any(source.matches[i] for i in here):
            color = self.theme.match
        return self.theme.selected if self.local.selected in here else color

    def bar(self, x: int) -> Cell:
        """A cell before names are written."""
        here, share, paper = self.touching(x), self.eighths(x), self.papers[x]
        low = self.local.view.start_ns + x * self.cell
        high = low + self.cell
        if not here:
            return " ", self.theme.text, paper, 0
        begin, end = here[0][1:]
        last, begin_last, end_last = here[-1]
        color, rightward, rest = self.color(here[0][0]), False, False
        if len(here) == 1:
            # It continues to the right, or both its ends are in the cell and the right border is nearer.
            rightward = begin > low and (end >= high or begin - low > high - end)
            rest = low > self.local.view.start_ns and (begin < low or 8 * (end - begin) >= self.cell)
        elif len(here) == 2:
            other = self.color(last)
            if share == 8:
                if color == other:
                    return "┊", self.text_on(color), other, 0
                where = (8 * (begin_last - low) + self.cell // 2) // self.cell
                return self.left[max(0, min(8, where))], color, other, 0
            rightward = min(end_last, high) - begin_last > end - max(begin, low)
            color = other if rightward else color
            rest = 8 * min(end - begin, end_last - begin_last) >= self.cell
        else:
            color = self.crowded(x, [i for i, _, _ in here])
        if share == 8:
            return " ", self.text_on(color), color, 0
        if share == 0:
            return (" ", paper, paper, 0) if rest else (self.hair, color, paper, 0)
        if len(here) > 2:
            return self.below[share], color, paper, 0
        return (self.left[8 - share], paper, color, 0) if rightward else (self.left[share], color, paper, 0)

    def told_apart(self, x: int, cell: Cell) -> Cell:
        """Without colors: what is lit has a texture, other bars are underlined."""
        here, source, ascii = self.touching(x), self.local.source, self.theme.ascii
        glyph, ink, paper, _ = cell
        if not here:
            return cell
        i = here[0][0]
        match = source.matches is not None and bool(source.matches[i])
        if glyph == " " and self.eighths(x) == 8 and len(here) != 2:
            if i == self.local.selected:
                return "=" if ascii else "═", INK, PAPER, 0
            if match:
                return ":" if ascii else "▒", INK, PAPER, 0
            if int(self.trace.name[i]) == source.same:
                return "-" if ascii else "░", INK, PAPER, 0
            return glyph, ink, paper, UNDERLINE
        if match and glyph == self.hair:
            return "!" if ascii else "║", ink, paper, 0
        return cell

    def row(self) -> list[Cell]:
        width = self.local.view.width
        cells = [self.bar(x) for x in range(width)]
        if self.theme.plain:
            cells = [self.told_apart(x, cell) for x, cell in enumerate(cells)]
        whole = [
            self.touching(x)[0][0] if len(self.touching(x)) == 1 and self.eighths(x) == 8 else -1
            for x in range(width)
        ]
        made = list(cells)
        x = 0
        while x < width:
            end = x + 1
            while end < width and whole[end] == whole[x]:
                end += 1
            if whole[x] >= 0:
                if end - x >= 3:
                    at = x
                    alike = x > 0 and self.eighths(x - 1) == 8 and cells[x - 1][2] == cells[x][2]
                    if alike and cells[x - 1][0] != "┊":
                        made[at] = ("┊", *made[at][1:])
                        at += 1
                    for letter in cut(self.local.source.short(int(self.trace.name[whole[x]])), end - at):
                        made[at] = (letter, made[at][1], made[at][2], 0)
                        at += 1
                if whole[x] == self.local.selected:
                    made[x:end] = [(*cell[:3], cell[3] | BOLD) for cell in made[x:end]]
            x = end
        return made


def some_slices(rng: random.Random) -> list[tuple[int, int, int, str]]:
    """A thread with two rows, and a stream: touching, empty, short and long slices."""
    slices = []
    for lane in (0, 1):
        at, longest = rng.randrange(60), rng.choice((3, 12, 60, 200))
        while at < 600:
            length = rng.choice((0, 1, rng.randrange(longest), rng.randrange(longest)))
            slices.append((lane, at, length, rng.choice(("a", "b", "conv", "a long name"))))
            if lane == 0 and length > 4:
                begin = at + rng.randrange(length // 2)
                slices.append((0, begin, rng.randrange(1, length - (begin - at) + 1), rng.choice("abd")))
            at += max(length, 1) + rng.choice((0, 0, 1, rng.randrange(longest)))
    return slices


THEMES = {
    "colors": DARK, "ascii": replace(DARK, ascii=True), "plain": PLAIN,
    "plain ascii": replace(PLAIN, ascii=True)
}  # fmt: skip


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
@pytest.mark.parametrize("seed", range(12))
def test_the_painter_agrees_with_one_that_paints_cell_by_cell(theme, seed, make, make_scene):
    rng = random.Random(seed)
    trace = make(some_slices(rng), streams=[1])
    view = Viewport(float(rng.randrange(-20, 60)), float(rng.choice((1, 3, 8, 10, 17, 33, 64))), 40)
    lit = {
        "same": rng.choice((-1, rng.randrange(len(trace.names)))),
        "matches": rng.choice((None, np.array([rng.random() < 0.15 for _ in range(len(trace))]))),
    }
    scene = replace(make_scene(trace, view, theme=theme), selected=rng.randrange(-1, len(trace)))
    local = scene.having(**lit).local(0)
    papers = [theme.band if 5 <= x < 12 else theme.paper for x in range(view.width)]
    lines = [Line(track, 0, Of.LANE, track, depth, 0) for track, depth in ((0, 0), (0, 1), (1, 0))]
    cells, shares = paint_rows(local, lines, lambda line, busy: np.array(papers, np.int16))
    if theme.plain:
        tell_bars_apart(local, shares, cells)
    paint_names(local, lines, shares, cells)
    for y, line in enumerate(lines):
        expected = Slow(local, line.ref, line.depth, papers).row()
        found = list(
            zip(
                map(chr, cells.glyph[y].tolist()), cells.ink[y].tolist(), cells.paper[y].tolist(),
                cells.attributes[y].tolist(), strict=True
            )
        )  # fmt: skip
        for x in range(view.width):
            one, two = found[x], expected[x]
            if one[0] == " " and one[2] == papers[x]:  # nobody sees the ink of an empty cell
                one, two = (one[0], 0, *one[2:]), (two[0], 0, *two[2:])
            assert one == two, (y, x)
