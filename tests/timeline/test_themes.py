"""Every theme: what can be read, and that no color means two things."""

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from tracetui.timeline.color import contrast, legible, rgb
from tracetui.timeline.palette import Palette
from tracetui.timeline.themes import COLOR_BLIND, LIGHT, SIXTEEN, THEMES, Theme
from tracetui.trace.model import Kind

COLORED = [theme for theme in THEMES.values() if not theme.plain]
MANY = [theme for theme in COLORED if theme is not SIXTEEN]
"""The colors of SIXTEEN are the terminal's own: xterm's stand for them here."""
LIT = ("selected", "same", "hint", "match", "gap")
"""What a bar, or the place of one, may mean other than its name."""
OTHERS = ("mark", "flow")


def names(theme: Theme) -> set[int]:
    return {color for family in theme.families.values() for color in family}


def text_on(theme: Theme, color: int) -> int:
    palette = Palette.__new__(Palette)
    palette.theme = theme
    return int(palette.text_on(np.array([color], dtype=np.int16))[0])


def by_theme(themes: Sequence[Theme]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("theme", themes, ids=[t.name for t in themes])


@by_theme(COLORED)
def test_every_text_can_be_read(theme):
    for bar in names(theme) | {getattr(theme, what) for what in LIT} | {theme.many, theme.many_device}:
        assert contrast(text_on(theme, bar), bar) >= 4.5, (bar, text_on(theme, bar))
    for back in (theme.paper, theme.frame):
        for ink in ("text", "dim", "mark"):
            assert contrast(getattr(theme, ink), back) >= 4.5, (ink, back)
    # The ruler's labels, and the lengths of gaps, lie on a selected range, too.
    for ink in (theme.text, theme.mark) if theme is not SIXTEEN else (text_on(theme, theme.band),):
        assert contrast(ink, theme.band) >= 4.5, ink


@by_theme(MANY)
def test_bars_and_lines_stand_out_from_the_paper(theme):
    least = 3 if theme is LIGHT else 3.5
    for bar in names(theme) | {theme.many, theme.many_device, theme.selected, theme.same, theme.match}:
        assert contrast(bar, theme.paper) >= least, bar
    for what in ("gap", "flow", "mark", "busy", "area"):
        back = theme.frame if what == "busy" else theme.paper
        assert contrast(getattr(theme, what), back) >= 2.5, what
    assert contrast(theme.busy, theme.window) >= 1.5
    kinds = (Kind.KERNEL, Kind.MEMCPY, Kind.MEMSET)
    on_device = {color for kind in kinds for color in theme.families[kind]} | {theme.many_device, theme.busy}
    for bar in on_device | {theme.selected, theme.same, theme.hint, theme.match}:
        assert contrast(bar, theme.idle) >= 3, bar
        assert contrast(bar, theme.idle_lit) >= 2, bar
    for ground in (theme.idle, theme.idle_lit):
        assert contrast(theme.text, ground) >= 4.5
        assert distance(rgb(ground), rgb(theme.paper)) >= 10
        assert distance(rgb(ground), rgb(theme.frame)) >= 10
        assert all(distance(rgb(ground), rgb(bar)) >= 22 for bar in names(theme)), ground
    assert contrast(theme.band, theme.paper) >= 1.15
    assert contrast(theme.window, theme.frame) >= 1.15


@by_theme(MANY)
def test_no_color_means_two_things(theme):
    for what in (*LIT, *OTHERS):
        for name in names(theme):
            least = 14 if what in ("hint", *OTHERS) else 22
            assert distance(rgb(getattr(theme, what)), rgb(name)) >= least, (what, name)
    for one, other in combinations(("selected", "same", "match", "gap", "mark", "flow"), 2):
        assert distance(*map(rgb, (getattr(theme, one), getattr(theme, other)))) >= 20, (one, other)
    assert not names(theme) & {theme.many, theme.many_device, theme.busy, theme.area}


def test_sixteen_colors_keep_what_is_lit_apart():
    lit = {SIXTEEN.selected, SIXTEEN.same, SIXTEEN.hint, SIXTEEN.match, SIXTEEN.gap}
    assert len(lit) == 5
    assert not lit & names(SIXTEEN)


def test_text_becomes_black_where_nothing_less_can_be_read():
    """On this grey black has a contrast of 4.6, and a 32nd less than that is not enough."""
    assert legible((250, 250, 250), (118, 118, 118)) == (0, 0, 0)
    assert legible((200, 200, 200), (0, 0, 0)) == (200, 200, 200)


@pytest.mark.parametrize("eyes", ["protanopia", "deuteranopia"])
def test_color_blind_eyes_tell_what_is_lit(eyes):
    theme = COLOR_BLIND
    lit = {what: seen(eyes, getattr(theme, what)) for what in ("selected", "same", "match")}
    for what, color in lit.items():
        for name in names(theme):
            assert distance(color, seen(eyes, name)) >= 20, (what, name)
    for one, other in combinations(lit.values(), 2):
        assert distance(one, other) >= 20
    kernels, ops = (next(f for k, f in theme.families.items() if k.name == n) for n in ("KERNEL", "CPU_OP"))
    for kernel in kernels:
        for op in ops:
            assert distance(seen(eyes, kernel), seen(eyes, op)) >= 25, (kernel, op)


# Colors as eyes see them

Rgb = Sequence[float]
SEEN = {
    # Machado, Oliveira and Fernandes 2009, at full severity
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}


def linear(color: Rgb) -> list[float]:
    shares = [c / 255 for c in color]
    return [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]


def seen(eyes: str, color: int) -> Rgb:
    light = linear(rgb(color))
    mixed = [min(1.0, max(0.0, sum(m * c for m, c in zip(row, light, strict=True)))) for row in SEEN[eyes]]
    return [255 * (12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055) for c in mixed]


def lab(color: Rgb) -> tuple[float, float, float]:
    red, green, blue = linear(color)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883

    def root(t: float) -> float:
        return t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116

    return 116 * root(y) - 16, 500 * (root(x) - root(y)), 200 * (root(y) - root(z))


def distance(one: Rgb, other: Rgb) -> float:
    """CIE 1976: 2 can just be told apart."""
    return math.dist(lab(one), lab(other))
