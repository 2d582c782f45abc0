"""The line that answers first: the verdict, how a step's time is spent as one stacked bar, and the shares."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip

from tracetui.core.cells import cell, clauses, clip
from tracetui.core.units import duration, share
from tracetui.timeline.color import legible
from tracetui.tui.line_widget import LineWidget
from tracetui.tui.part_styles import COMPONENTS, NOT_COUNTED, component_css, css_name, texture

if TYPE_CHECKING:
    from tracetui.analysis.idle.verdict import Verdict
    from tracetui.compare.model import Comparison
    from tracetui.views.parts import TimePart

FROM_LEFT = " ▏▎▍▌▋▊▉"
LEAST_BAR, LONGEST_BAR = 10, 60
QUIZ = "Quiz: where does the time go, and why? Look around, guess, then press h."
LEAST_SHARE = 0.1
"""A part with a smaller share is not named."""

Span = tuple[str, str]
"""(text, role): a part, or one of `ROLES`."""
ROLES = ("text", "dim", "good", "warn", "bad", "accent")


def shares_text(verdict: Verdict, parts: tuple[TimePart, ...]) -> list[Span]:
    """The shares in words, the most important first: they can be left out from the end."""
    from tracetui.analysis.idle.verdict import busy_text

    counted = [part for part in parts if part.share is not None]
    if verdict.cpu is not None:
        return [(f"{part.what} {share(part.share or 0)}", part.what) for part in counted]
    if verdict.busy_share is None or not counted:
        return [(verdict.reason, "text")]
    spans: list[Span] = []
    base = verdict.base
    if verdict.mostly_left_out:
        out = [part for part in parts if part.share is None]
        lost = sum(part.duration for part in out)
        most = max(out, key=lambda part: part.duration)
        spans.append((f"{share(lost / (lost + verdict.judged))} not counted ({most.what})", "warn"))
        base = "of the rest"
    spans.append((f"GPU busy {busy_text(verdict.busy_share)} {base}", "text"))
    told = [part for part in counted if part.what != "compute" and (part.share or 0) >= LEAST_SHARE]
    spans += [
        (f"{part.what} {share(part.share or 0)}", part.what)
        for part in sorted(told, key=lambda part: -(part.share or 0))
    ]
    return spans


def sentences(text: str, width: int) -> str:
    """The sentences of a text that fit as a whole; if the first does not fit, those of its clauses that
    do."""
    every = text.split(". ")
    for count in range(len(every), 0, -1):
        found = ". ".join(every[:count]) + ("." if count < len(every) else "")
        if cell_len(found) <= width:
            return found
    return clauses(every[0], width)


def ranks_of(comparison: Comparison) -> tuple[int, int] | None:
    """The ranks of A and B, if the traces say that they are two ranks of one job."""
    found = [side.trace.info.distributed or {} for side in (comparison.a, comparison.b)]
    ranks, sizes = [one.get("rank") for one in found], [one.get("world_size") for one in found]
    a, b = ranks
    if not (isinstance(a, int) and isinstance(b, int)) or a == b or sizes[0] != sizes[1]:
        return None
    return a, b


def _two_ranks(comparison: Comparison, ranks: tuple[int, int]) -> tuple[Span, ...]:
    """What two ranks did in a step: neither is the earlier one, so nothing became slower or faster."""
    told = []
    said = f"A step takes {{}} on rank {ranks[0]}, {{}} on rank {ranks[1]}.", "The GPU's work: {}, {}."
    for metric, text in zip(("step_ns", "device_ns"), said, strict=True):
        of = comparison.metrics.get(metric)
        if comparison.per_step and of is not None and of.a is not None and of.b is not None:
            told.append(text.format(duration(of.a), duration(of.b)))
    return (f"RANKS {ranks[0]} AND {ranks[1]}", "accent"), (" ".join(told) or comparison.answer, "text")


def answer_texts(comparison: Comparison) -> tuple[Span, ...]:
    """The answer of a comparison: a word or two, then a sentence."""
    from tracetui.compare.explain import outside_of_ops
    from tracetui.views.compare import numbers

    if (ranks := ranks_of(comparison)) is not None:
        return _two_ranks(comparison, ranks)
    step = comparison.metrics.get("step_ns")
    change = step.change if step is not None else None
    if comparison.mismatch:
        word, role = "TWO PROGRAMS?", "accent"
    elif comparison.same_program and (step is None or step.within_noise):
        same = not outside_of_ops(comparison.explanations)
        word, role = ("SAME PROGRAM", "good") if same else ("SAME OPS", "accent")
    elif step is None or change is None:
        word, role = "A AND B", "accent"
    elif step.within_noise:
        word, role = numbers(comparison)[0].noise.upper() or "WITHIN NOISE", "accent"
    elif change * (change - step.machine) <= 0 and any(e.kind == "machine" for e in comparison.explanations):
        word, role = "THE MACHINE", "accent"  # without it, the change would have the opposite sign
    else:
        word, role = ("B IS SLOWER", "bad") if change > 0 else ("B IS FASTER", "good")
    return (word, role), (comparison.answer, "text")


def bar_cells(parts: tuple[TimePart, ...], width: int) -> list[tuple[int, int, int]]:
    """What each cell of a bar shows: (part, the part to its right in the same cell, eighths that show the
    first).

    The parts keep their order; one shorter than an eighth of a cell may not show.
    """
    total = sum(part.duration for part in parts)
    if not total:
        return []
    ends, at = [], 0
    for part in parts:
        at += part.duration
        ends.append(round(8 * width * at / total))
    found = []
    for column in range(width):
        first = next(n for n, end in enumerate(ends) if end > 8 * column)
        last = next(n for n, end in enumerate(ends) if end >= 8 * column + 8)
        found.append((first, last, min(8, ends[first] - 8 * column)))
    return found


class VerdictLine(LineWidget):
    """The verdict on the trace, in one line. A part of the bar can be clicked, or chosen by key."""

    DEFAULT_CSS = """
    VerdictLine { height: 1; background: $panel; }
    VerdictLine > .drawn--text { text-style: bold; }
    """ + component_css("VerdictLine")
    COMPONENT_CLASSES = COMPONENTS

    chosen: reactive[int | None] = reactive(None)
    """The chosen part, by its place in `parts`."""

    class Picked(Message):
        """A part was clicked, by its place in `parts`."""

        def __init__(self, part: int) -> None:
            super().__init__()
            self.part = part

    def __init__(self) -> None:
        super().__init__()
        self.verdict: Verdict | None = None
        self.parts: tuple[TimePart, ...] = ()
        self.covered = False
        """Whether the verdict is hidden, for a quiz."""
        self._told: tuple[Span, ...] = ()
        """For two recordings: the texts in place of the verdict."""
        self._places: list[tuple[int, int, int]] = []
        """(first cell, cell after the last, part) of what can be clicked."""

    def show(self, verdict: Verdict) -> None:
        """Show a verdict."""
        from tracetui.views.parts import time_parts

        self.verdict, self.parts, self.chosen = verdict, time_parts(verdict), None
        self.refresh()

    def uncover(self) -> None:
        """Show the verdict after all."""
        self.covered = False
        self.refresh()

    def say(self, text: str) -> None:
        """Show a text instead of a verdict."""
        self._told = ((text, "dim"),)
        self.refresh()

    def answer(self, comparison: Comparison) -> None:
        """Show the answer of a comparison."""
        self._told = answer_texts(comparison)
        self.refresh()

    def _style(self, role: str) -> Style:
        part = f"part--{css_name(role)}"
        if part in COMPONENTS:
            style = self.get_component_rich_style(part)
        else:
            style = self.style_of(role if role in ROLES else "dim")
        return style + Style(bgcolor=self.background_colors[1].rich_color)

    def _word(self, part: str) -> Style:
        """The style of a part's name: the color of the part may be too weak for text."""
        style = self._style(part)
        ink, paper = style.color, style.bgcolor
        if self._few_colors or ink is None or paper is None or not (ink.triplet and paper.triplet):
            return style
        return style + Style(color=Color.from_rgb(*legible(tuple(ink.triplet), tuple(paper.triplet))))

    @property
    def _few_colors(self) -> bool:
        return self.app.no_color or getattr(self.app, "color_count", 256) <= 16

    def render_line(self, y: int) -> Strip:
        width, dim = self.size.width, self._style("dim")
        self._places = []
        if self._told:
            return self._told_line(width)
        if self.covered:
            return Strip([Segment(cell(f" {QUIZ}", width), self._style("accent"))])
        if self.verdict is None:
            return Strip([Segment(" finding out what holds this trace back …", dim)]).adjust_cell_length(
                width, dim
            )
        from tracetui.views.verdicts import VERDICT_STYLE

        word = self.verdict.verdict.upper()
        segments = [Segment(f" {word} ", self._style(VERDICT_STYLE[self.verdict.verdict]))]
        used = cell_len(word) + 2
        texts = shares_text(self.verdict, self.parts)
        if self.parts:
            # The bar takes what the words leave, and at least a quarter of the line.
            wanted = sum(cell_len(text) + 2 for text, _ in texts)
            size = max(LEAST_BAR, min(LONGEST_BAR, max(width - used - wanted - 1, (width - used) // 4)))
            segments += self._bar(size, used)
            used += size
        for n, (text, role) in enumerate(texts):
            room = width - used - 2
            if cell_len(text) > room and n:
                break
            text = clip(text, room)
            part = next((i for i, p in enumerate(self.parts) if p.what == role), None)
            style = self._style(role) if part is None else self._word(role)
            if part is not None:
                self._places.append((used + 2, used + 2 + cell_len(text), part))
                style = style + Style(reverse=True) if part == self.chosen else style
            segments += [Segment("  ", dim), Segment(text, style)]
            used += 2 + cell_len(text)
        return Strip(segments).adjust_cell_length(width, dim)

    def _told_line(self, width: int) -> Strip:
        """The texts one after another, with as many sentences as fit."""
        segments, used = [], 0
        for text, role in self._told:
            text = sentences(text, width - used - 2)
            segments.append(Segment(f" {text} ", self._style(role)))
            used += cell_len(text) + 2
        return Strip(segments).adjust_cell_length(width, self._style("dim"))

    def _bar(self, size: int, left: int) -> list[Segment]:
        counted, names = self.parts, [part.what for part in self.parts]
        plain = self._few_colors
        found = []
        for column, (first, last, eighths) in enumerate(bar_cells(counted, size)):
            shown = first if eighths >= 4 else last
            self._places.append((left + column, left + column + 1, shown))
            out = counted[shown].share is None
            style = self._style("dim" if out else names[shown])
            if plain or out:
                glyph = NOT_COUNTED if out else texture(names[shown])
            elif first == last or eighths == 8:
                glyph = "█"
            elif counted[last].share is None:
                glyph, style = FROM_LEFT[eighths], self._style(names[first])
            else:
                glyph, style = FROM_LEFT[eighths], self._style(names[first])
                style = style + Style(bgcolor=self._style(names[last]).color)
            if self.chosen is not None and plain:
                style += Style(bold=shown == self.chosen, reverse=shown == self.chosen)
            elif self.chosen is not None and not out:  # make the chosen part stand out from the others
                glyph, style = "█" if shown == self.chosen else "▄", self._style(names[shown])
            found.append(Segment(glyph, style))
        return found

    def on_click(self, event: events.Click) -> None:
        event.stop()
        part = next((part for first, end, part in self._places if first <= event.x < end), None)
        if part is not None:
            self.post_message(self.Picked(part))
